// SPDX-License-Identifier: Apache-2.0
// Send and receive with tags: see messenger.hpp.
#include "communicator.hpp"

#include <algorithm>
#include <cstring>

#include <c10/util/Exception.h>

namespace oriel_torch {

static constexpr uint64_t CONTROL_TAG = 1;

// How long a wait for a transfer takes all of a core: the peer may have been stopped.
static constexpr std::chrono::seconds MOVING_LIMIT{1};

// How often the thread looks for work, a millisecond apart, before it waits to be woken: that costs
// more than a short message takes.
static constexpr unsigned IDLE_LOOKS = 20;

MessageWork::MessageWork(std::shared_ptr<Communicator> communicator, int rank, c10d::OpType type,
			 uint64_t sequence, const char *title, const at::Tensor &tensor, int peer,
			 int tag, std::chrono::milliseconds timeout)
    : OrielWork(rank, type, sequence, title, std::vector<at::Tensor>{tensor}, {{tensor}}, timeout),
      communicator_(communicator), peer_(peer), tag_(tag)
{
}

bool MessageWork::isCompleted()
{
	if (!Work::isCompleted())
		if (auto communicator = communicator_.lock())
			communicator->messenger.drive();
	return Work::isCompleted();
}

bool MessageWork::wait(std::chrono::milliseconds timeout)
{
	auto limit = timeout == kNoTimeout ? getTimeout() : timeout;
	auto begun = std::chrono::steady_clock::now();
	auto pause = std::chrono::microseconds(20);

	for (unsigned polls = 0; !isCompleted(); polls++) {
		if (polls < 200)
			continue;
		// A transfer goes on only while both ranks drive it, chunk by chunk: with pauses 16 MiB
		// took twice as long.
		if (polls < 400 || (is_moving_ && std::chrono::steady_clock::now() - begun < MOVING_LIMIT)) {
			std::this_thread::yield();
			continue;
		}
		TORCH_CHECK_WITH(DistBackendError,
				 std::chrono::steady_clock::now() - begun < limit,
				 "oriel: ", c10d::opTypeToString(retrieveOpType()), " on rank ", rank_,
				 " timed out after ", limit.count(), " ms: ",
				 peer_ == Messenger::ANY ? std::string("no rank")
							 : c10::str("rank ", peer_),
				 opType_ == c10d::OpType::SEND ? " has not received it, tag "
							      : " has not sent it, tag ", tag_);
		std::unique_lock<std::mutex> lock(mutex_);
		cv_.wait_for(lock, pause, [this] { return completed_; });
		pause = std::min(pause * 2, std::chrono::microseconds(500));
	}
	return Work::wait(kNoTimeout);
}

std::string MessageWork::where()
{
	auto communicator = communicator_.lock();
	int peer = peer_ == Messenger::ANY && isCompleted() ? source_ : peer_;
	enum oriel_path path = ORIEL_PATH_NONE;

	if (peer < 0)
		return c10::str("rank ", rank_, " from any");
	if (communicator)
		check(oriel_comm_path(communicator->comm, (unsigned)peer, &path), "path");
	return with_peer(opType_ != c10d::OpType::SEND, peer, path);
}

Messenger::Messenger(struct oriel_comm *comm, unsigned rank, unsigned size)
    : comm_(comm), rank_(rank), size_(size)
{
}

Messenger::Peer &Messenger::peer(unsigned rank)
{
	std::unique_ptr<Peer> &at = peers_[rank];

	if (!at) {
		auto fresh = std::make_unique<Peer>();

		check(oriel_comm_p2p(comm_, rank, nullptr, &fresh->endpoint), "endpoint");
		at = std::move(fresh);
		listen(*at);
	}
	return *at;
}

void Messenger::listen(Peer &at)
{
	check(oriel_p2p_recv_control(at.endpoint, CONTROL_TAG, at.room, sizeof(at.room),
				     &at.arriving), "recv_control");
}

// Send @header, and behind it the bytes of the tensor of @operation if it is DATA.
void Messenger::control(unsigned rank, Header header, std::unique_ptr<Operation> operation)
{
	Peer &at = peer(rank);
	size_t length = header.kind == DATA ? header.length : 0;

	operation->peer = rank;
	operation->message.resize(sizeof(header) + length);
	memcpy(operation->message.data(), &header, sizeof(header));
	if (length)
		memcpy(operation->message.data() + sizeof(header), operation->tensor.data_ptr(), length);
	check(oriel_p2p_send_control(at.endpoint, CONTROL_TAG, operation->message.data(),
				     operation->message.size(), &operation->request), "send_control");
	active_.push_back(std::move(operation));
}

void Messenger::send(const c10::intrusive_ptr<MessageWork> &work, const at::Tensor &tensor,
		     unsigned peer_rank, int64_t tag)
{
	auto operation = std::make_unique<Operation>();
	Header header = {DATA, 0, tag, tensor.nbytes(), 0};

	{
		std::lock_guard<std::mutex> lock(mutex_);

		TORCH_CHECK(!is_stopped_, "oriel: the process group was shut down");
		operation->work = work;
		operation->tensor = tensor;
		if (header.length <= SHORT) {
			control(peer_rank, header, std::move(operation));
		} else {
			operation->peer = peer_rank;
			header.kind = ANNOUNCE;
			header.id = next_id_++;
			announced_[header.id] = std::move(operation);
			control(peer_rank, header, std::make_unique<Operation>());
		}
		if (!thread_.joinable())
			thread_ = std::thread([this] { loop(); });
	}
	changed_.notify_all();
	drive();
}

void Messenger::recv(const c10::intrusive_ptr<MessageWork> &work, const at::Tensor &tensor,
		     int peer_rank, int64_t tag)
{
	{
		std::lock_guard<std::mutex> lock(mutex_);
		auto operation = std::make_unique<Operation>();

		TORCH_CHECK(!is_stopped_, "oriel: the process group was shut down");
		operation->work = work;
		operation->tensor = tensor;
		operation->wanted = peer_rank;
		operation->tag = tag;
		for (unsigned r = 0; r < size_; r++)
			if (peer_rank == ANY ? r != rank_ : r == (unsigned)peer_rank)
				peer(r);
		posted_.push_back(std::move(operation));
		for (auto message = unexpected_.begin(); message != unexpected_.end(); ++message) {
			if (message->header.tag != tag ||
			    (peer_rank != ANY && message->peer != (unsigned)peer_rank))
				continue;
			operation = std::move(posted_.back());
			posted_.pop_back();
			Message found = std::move(*message);
			unexpected_.erase(message);
			accept(std::move(operation), found.peer, found.header, found.data.data());
			break;
		}
		if (!thread_.joinable())
			thread_ = std::thread([this] { loop(); });
	}
	changed_.notify_all();
	drive();
}

// A message for @receive has come: take it, or have its sender begin the transfer.
void Messenger::accept(std::unique_ptr<Operation> receive, unsigned from, const Header &header,
		       const char *data)
{
	bool fits = header.length == receive->tensor.nbytes();

	receive->work->source_ = (int)from;
	receive->peer = from;
	if (header.kind == ANNOUNCE) {
		Header answer = {fits ? READY : REFUSE, 0, header.tag, header.length, header.id};

		control(from, answer, std::make_unique<Operation>());
	}
	if (!fits)
		fail(receive, c10::str("rank ", from, " sent ", header.length,
						  " bytes to a receive of another length, tag ",
						  header.tag));
	else if (header.kind == ANNOUNCE)
		transfer(std::move(receive), false);
	else {
		memcpy(receive->tensor.data_ptr(), data, header.length);
		finished_.emplace_back(receive->work, nullptr);
	}
}

void Messenger::transfer(std::unique_ptr<Operation> operation, bool is_send)
{
	Peer &at = peer(operation->peer);
	struct oriel_p2p_buffer buffer = {operation->tensor.data_ptr(), operation->tensor.nbytes(),
					  nullptr};

	check(is_send ? oriel_p2p_send(at.endpoint, 0, &buffer, &operation->request)
		      : oriel_p2p_recv(at.endpoint, 0, &buffer, &operation->request),
	      is_send ? "send" : "recv");
	operation->work->is_moving_ = true;
	active_.push_back(std::move(operation));
}

void Messenger::arrived(unsigned rank, const Header &header, const char *data, size_t length)
{
	TORCH_CHECK_WITH(DistBackendError,
			 header.kind == DATA ? header.length == length
					     : header.kind <= REFUSE && header.kind && length == 0,
			 "oriel: rank ", rank, " sent an invalid message");
	if (header.kind == READY || header.kind == REFUSE) {
		auto found = announced_.find(header.id);

		TORCH_CHECK_WITH(DistBackendError,
				 found != announced_.end() && found->second->peer == rank,
				 "oriel: rank ", rank, " answered a message that was not sent");
		std::unique_ptr<Operation> operation = std::move(found->second);
		announced_.erase(found);
		if (header.kind == READY)
			transfer(std::move(operation), true);
		else
			fail(operation, c10::str("rank ", rank, " receives another length than ",
							    header.length, " bytes, tag ", header.tag));
		return;
	}
	for (auto receive = posted_.begin(); receive != posted_.end(); ++receive) {
		if ((*receive)->tag == header.tag &&
		    ((*receive)->wanted == ANY || (*receive)->wanted == (int)rank)) {
			std::unique_ptr<Operation> operation = std::move(*receive);
			posted_.erase(receive);
			accept(std::move(operation), rank, header, data);
			return;
		}
	}
	unexpected_.push_back({rank, header, std::vector<char>(data, data + length)});
}

void Messenger::fail(const std::unique_ptr<Operation> &operation, const std::string &text)
{
	if (!operation->work)
		return;
	finished_.emplace_back(operation->work,
			       std::make_exception_ptr(c10::DistBackendError(
				       {__func__, __FILE__, (uint32_t)__LINE__}, "oriel: " + text)));
}

// The endpoint to @rank is broken: so is all that waits for it.
void Messenger::fail_peer(unsigned rank, const std::string &text)
{
	for (auto list : {&posted_, &active_})
		for (auto each = list->begin(); each != list->end();) {
			bool is_of_peer = list == &posted_ ? (*each)->wanted == (int)rank || (*each)->wanted == ANY
							   : (*each)->peer == rank;
			if (!is_of_peer) {
				++each;
				continue;
			}
			fail(*each, text);
			if (list == &active_)
				dead_.push_back(std::move(*each));
			each = list->erase(each);
		}
	for (auto each = announced_.begin(); each != announced_.end();) {
		if (each->second->peer != rank) {
			++each;
			continue;
		}
		fail(each->second, text);
		each = announced_.erase(each);
	}
}

void Messenger::look(Finished &finished)
{
	for (auto &[rank, at] : peers_) {
		enum oriel_status status = oriel_p2p_progress(at->endpoint);

		try {
			while (status >= 0 && at->arriving.status == ORIEL_OK) {
				Header header;
				size_t length = at->arriving.length;

				TORCH_CHECK_WITH(DistBackendError, length >= sizeof(header),
						 "oriel: rank ", rank, " sent ", length, " bytes");
				memcpy(&header, at->room, sizeof(header));
				arrived(rank, header, at->room + sizeof(header), length - sizeof(header));
				listen(*at);
			}
			if (status < 0)
				fail_peer(rank, oriel_last_error());
		} catch (const std::exception &error) {
			fail_peer(rank, error.what());
		}
	}
	for (auto each = active_.begin(); each != active_.end();) {
		enum oriel_status status = (*each)->request.status;

		if (status == ORIEL_AGAIN) {
			++each;
			continue;
		}
		if (status < 0)
			fail(*each, oriel_status_text(status));
		else if ((*each)->work)
			finished_.emplace_back((*each)->work, nullptr);
		each = active_.erase(each);
	}
	finished.swap(finished_);
}

void Messenger::drive()
{
	Finished finished;

	{
		std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
		if (!lock)
			return; // another thread does it
		look(finished);
	}
	for (auto &[work, error] : finished)
		work->complete(error);
}

bool Messenger::is_moving() const
{
	return std::any_of(active_.begin(), active_.end(),
			   [](const auto &each) { return each->work && each->work->is_moving_; });
}

void Messenger::loop()
{
	auto pause = std::chrono::microseconds(50);
	unsigned idle = 0; // looks in a row with nothing to do

	for (;;) {
		{
			std::unique_lock<std::mutex> lock(mutex_);
			auto is_idle = [this] {
				return posted_.empty() && active_.empty() && announced_.empty() &&
				       finished_.empty();
			};

			idle = is_idle() ? idle + 1 : 0;
			// Before, each message that follows soon would have to wake it.
			if (idle > IDLE_LOOKS) {
				changed_.wait(lock, [&] { return is_stopped_ || !is_idle(); });
				pause = std::chrono::microseconds(50);
				idle = 0;
			}
			if (is_moving())
				pause = std::chrono::microseconds(50);
			if (is_stopped_)
				return;
		}
		if (!idle)
			drive();
		std::this_thread::sleep_for(pause);
		pause = std::min(pause * 2, std::chrono::microseconds(1000));
	}
}

void Messenger::stop(uint64_t timeout_ns)
{
	Finished finished;

	{
		std::lock_guard<std::mutex> lock(mutex_);
		if (is_stopped_)
			return;
		is_stopped_ = true;
		for (auto &[rank, at] : peers_)
			oriel_p2p_drain(at->endpoint, timeout_ns);
		look(finished);
		for (auto &[rank, at] : peers_)
			fail_peer(rank, "the process group was shut down");
		for (auto &each : finished_)
			finished.push_back(each);
		finished_.clear();
	}
	changed_.notify_all();
	if (thread_.joinable())
		thread_.join();
	for (auto &[work, error] : finished)
		work->complete(error);
}

} // namespace oriel_torch
