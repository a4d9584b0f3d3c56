// SPDX-License-Identifier: Apache-2.0
// Operations of the backend and their executor: see work.hpp.
#include "work.hpp"

#include <algorithm>
#include <cstring>

#include <pthread.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

namespace oriel_torch {

std::string text_of(const char *title, uint64_t sequence, const std::string &where, bool has_ended,
		    std::exception_ptr error)
{
	std::string head = c10::str("<", title, " ", sequence, "; ", where, "; ");

	if (!has_ended)
		return head + "under way>";
	try {
		if (error)
			std::rethrow_exception(error);
	} catch (const std::exception &thrown) {
		std::string why = thrown.what();

		return head + "failed: " + why.substr(0, why.find('\n')) + ">";
	}
	return head + "ended>";
}

void check(enum oriel_status status, const char *what)
{
	if (status < 0)
		C10_THROW_ERROR(DistBackendError,
				c10::str("oriel: ", what,
					 status == ORIEL_ERR_TIMEOUT ? " ended by a timeout (" : " failed (",
					 oriel_status_name(status), "): ", oriel_last_error()));
}

uint64_t in_ns(std::chrono::milliseconds timeout)
{
	return timeout.count() <= 0 ? 1 : (uint64_t)timeout.count() * 1000000u;
}

static std::atomic<uint64_t> forks; // of this process and those before it, since the first object

Origin::Origin()
    : forks_([] {
	      static int is_watched = pthread_atfork(nullptr, nullptr, [] { forks++; });

	      TORCH_CHECK(!is_watched, "oriel: pthread_atfork() failed: ", strerror(is_watched));
	      return forks.load();
      }())
{
}

bool Origin::is_here() const
{
	return forks == forks_;
}

void Origin::check() const
{
	if (!is_here())
		oriel_torch::check(oriel_error_set(ORIEL_ERR_FORKED,
						   "this process was forked after the process group was created; create "
						   "one of its own, or use spawn"),
				   "the call");
}

Roster::Roster(struct oriel_comm *comm) : comm_(comm)
{
	struct oriel_window_attr attr = {};
	void *address = nullptr;

	attr.size = sizeof(attr);
	attr.length = sizeof(*mine_);
	check(oriel_window_create(comm_, &attr, &window_), "window of the process group");
	check(oriel_window_buffer(window_, 0, &address, nullptr), "window of the process group");
	mine_ = static_cast<uint64_t *>(address);
	for (unsigned rank = 0; rank < oriel_comm_size(comm_); rank++) {
		enum oriel_path path = ORIEL_PATH_NONE;

		check(oriel_comm_path(comm_, rank, &path), "window of the process group");
		address = nullptr;
		if (path == ORIEL_PATH_MAPPED || path == ORIEL_PATH_SELF)
			check(oriel_window_peer_address(window_, rank, 0, &address),
			      "window of the process group");
		mapped_.push_back(static_cast<const uint64_t *>(address));
	}
}

void Roster::close()
{
	{
		std::lock_guard<std::mutex> lock(mutex_);
		is_closed_ = true;
	}
	if (looking_.joinable())
		looking_.join();
	oriel_window_destroy(window_);
}

std::chrono::milliseconds Roster::limit() const
{
	uint64_t ns = oriel_comm_timeout(comm_);

	return ns == ORIEL_TIMEOUT_INFINITE ? std::chrono::milliseconds::max()
					    : std::chrono::milliseconds(ns / 1000000u);
}

static std::string named(const std::vector<unsigned> &ranks)
{
	return c10::str(ranks.size() > 1 ? "ranks " : "rank ", c10::Join(", ", ranks));
}

// Under mutex_: asks the ranks whose memory is not mapped, if there are some. A rank that stands still
// answers no get, so that another thread asks. Its answers serve all that come before it ends.
std::shared_ptr<Roster::Look> Roster::look()
{
	if (std::find(mapped_.begin(), mapped_.end(), nullptr) == mapped_.end())
		return nullptr;
	if (look_ && look_->has_ended.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
		return look_;
	if (looking_.joinable())
		looking_.join();
	look_ = std::make_shared<Look>();
	look_->seen.assign(mapped_.size(), UINT64_MAX);
	look_->has_ended = look_->end.get_future().share();
	looking_ = std::thread([this, look = look_] {
		for (unsigned rank = 0; rank < mapped_.size(); rank++) {
			uint64_t seen;

			if (!mapped_[rank] && oriel_window_get(window_, rank, 0, &seen, sizeof(seen)) == ORIEL_OK)
				__atomic_store_n(&look->seen[rank], seen, __ATOMIC_RELEASE);
		}
		look->end.set_value();
	});
	return look_;
}

std::string Roster::missing(uint64_t number)
{
	std::vector<unsigned> late, silent;
	std::unique_lock<std::mutex> lock(mutex_);
	auto asked = is_closed_ ? nullptr : look();

	if (asked) {
		lock.unlock();
		asked->has_ended.wait_for(LOOK_LIMIT);
		lock.lock();
	}
	if (is_closed_)
		return "the process group was shut down";
	for (unsigned rank = 0; rank < mapped_.size(); rank++) {
		const uint64_t *at = mapped_[rank] ? mapped_[rank] : &asked->seen[rank];
		uint64_t seen = __atomic_load_n(at, __ATOMIC_ACQUIRE);

		if (seen == UINT64_MAX)
			silent.push_back(rank);
		else if (seen < number)
			late.push_back(rank);
	}
	std::string text = late.empty() ? "" : named(late) + (late.size() > 1 ? " have" : " has") + " not begun it";
	if (!silent.empty())
		text += (text.empty() ? "" : "; ") + named(silent) + (silent.size() > 1 ? " do" : " does") +
			" not answer";
	return text.empty() ? "all ranks have begun it" : text;
}

// A future's value is a list of tensors, or of lists of them where an operation has several lists.
static c10::intrusive_ptr<c10::ivalue::Future> future_for(const OrielWork::Lists &outputs)
{
	c10::TypePtr type = c10::ListType::create(c10::TensorType::get());

	if (outputs.size() > 1)
		type = c10::ListType::create(type);
	return c10::make_intrusive<c10::ivalue::Future>(type);
}

OrielWork::OrielWork(int rank, c10d::OpType type, uint64_t sequence, const char *title,
		     const std::optional<std::vector<at::Tensor>> &inputs, Lists outputs,
		     std::chrono::milliseconds timeout)
    : Work(rank, type, title, inputs), title_(title), outputs_(std::move(outputs)), sequence_(sequence),
      timeout_(timeout)
{
}

std::vector<at::Tensor> OrielWork::result()
{
	TORCH_CHECK(isCompleted(), "result() of an operation that has not completed: wait() for it");
	return outputs_.empty() ? std::vector<at::Tensor>() : outputs_.at(0);
}

// The caller has set is_future_done_.
void OrielWork::end_future()
{
	if (exception_)
		future_->setError(exception_);
	else if (outputs_.size() > 1)
		future_->markCompleted(c10::IValue(outputs_));
	else
		future_->markCompleted(c10::IValue(outputs_.empty() ? std::vector<at::Tensor>()
								    : outputs_[0]));
}

c10::intrusive_ptr<c10::ivalue::Future> OrielWork::getFuture()
{
	std::unique_lock<std::mutex> lock(mutex_);

	if (!future_)
		future_ = future_for(outputs_);
	if (completed_ && !is_future_done_) {
		is_future_done_ = true;
		lock.unlock();
		end_future();
	}
	return future_;
}

void OrielWork::complete(std::exception_ptr error)
{
	finish(error);
	std::unique_lock<std::mutex> lock(mutex_);
	if (!future_ || is_future_done_)
		return;
	is_future_done_ = true;
	lock.unlock();
	end_future();
}

std::string OrielWork::late(std::chrono::milliseconds limit) const
{
	std::string text = c10::str(title_, " ", sequence_, " on rank ", rank_, " has not ended within ", limit.count(), " ms");

	return roster_ ? text + ": " + roster_->missing(place_) : text;
}

std::string OrielWork::text()
{
	bool has_ended = isCompleted();

	return text_of(title_, sequence_, where(), has_ended, exception());
}

std::string OrielWork::with_peer(bool is_from, int64_t peer, enum oriel_path path) const
{
	return c10::str("rank ", rank_, is_from ? " from " : " to ", peer, "; ", oriel_path_name(path));
}

bool OrielWork::wait(std::chrono::milliseconds timeout)
{
	if (timeout != kNoTimeout) {
		std::unique_lock<std::mutex> lock(mutex_);
		bool has_ended = cv_.wait_for(lock, timeout, [this] { return completed_; });

		lock.unlock();
		if (!has_ended)
			C10_THROW_ERROR(DistBackendError, late(timeout));
	}
	return Work::wait(kNoTimeout);
}

Guard::~Guard()
{
	{
		std::lock_guard<std::mutex> lock(mutex_);
		is_stopped_ = true;
	}
	changed_.notify_all();
	if (thread_.joinable())
		thread_.join();
}

void Guard::begin(const OrielWork *work, Roster *roster, std::chrono::milliseconds limit)
{
	std::lock_guard<std::mutex> lock(mutex_);

	work_ = work;
	roster_ = roster;
	limit_ = limit;
	deadline_ = std::chrono::steady_clock::now() + limit;
	text_.clear();
	if (!thread_.joinable())
		thread_ = std::thread([this] { loop(); });
	changed_.notify_all();
}

std::string Guard::end()
{
	std::lock_guard<std::mutex> lock(mutex_);

	work_ = nullptr;
	return std::move(text_);
}

void Guard::loop()
{
	std::unique_lock<std::mutex> lock(mutex_);

	for (;;) {
		changed_.wait(lock, [this] { return is_stopped_ || work_; });
		if (is_stopped_)
			return;
		auto deadline = deadline_;
		changed_.wait_until(lock, deadline, [&] {
			return is_stopped_ || !work_ || deadline_ != deadline;
		});
		if (is_stopped_ || !work_ || std::chrono::steady_clock::now() < deadline_)
			continue;
		// With the lock held, so that end() has the text, and the operation is not another one.
		text_ = work_->late(limit_);
		roster_->abort(text_);
		work_ = nullptr;
	}
}

void Executor::use(std::shared_ptr<Roster> roster)
{
	roster_ = std::move(roster);
	limit_ = roster_->limit();
	std::lock_guard<std::mutex> lock(mutex_);
	begun_ = 0;
}

void Executor::execute(const Entry &entry)
{
	bool is_guarded = entry.work->getTimeout() < limit_;
	std::exception_ptr error;

	roster_->begin(entry.work->place_);
	if (is_guarded)
		guard_.begin(entry.work.get(), roster_.get(), entry.work->getTimeout());
	try {
		// Tensors are memory here. The caller may write to them without autograd, by no_grad() or
		// inference_mode(), which this thread knows nothing of.
		at::AutoDispatchBelowADInplaceOrView guard;

		entry.operation();
	} catch (...) {
		error = std::current_exception();
	}
	if (is_guarded) {
		std::string text = guard_.end();

		if (error && !text.empty())
			error = std::make_exception_ptr(c10::DistBackendError(
				{__func__, __FILE__, (uint32_t)__LINE__}, text));
	}
	entry.work->complete(error);
}

void Executor::submit(const c10::intrusive_ptr<OrielWork> &work, std::function<void()> operation,
		      bool is_async)
{
	std::unique_lock<std::mutex> lock(mutex_);
	bool is_within = busy_ == std::this_thread::get_id();

	TORCH_CHECK(!is_stopped_ || is_within, "oriel: the process group was shut down");
	TORCH_CHECK(roster_, "oriel: the process group awaits reconfigure()");
	work->roster_ = roster_;
	if (is_within) {
		execute_within({work, std::move(operation)}, lock);
		return;
	}
	work->place_ = begun_ + entries_.size() + 1;
	if (is_async || is_busy() || !entries_.empty()) {
		entries_.push_back({work, std::move(operation)});
		if (!thread_.joinable())
			thread_ = std::thread([this] { loop(); });
		changed_.notify_all();
		return;
	}
	execute_alone({work, std::move(operation)}, lock);
}

void Executor::execute_alone(Entry entry, std::unique_lock<std::mutex> &lock)
{
	busy_ = std::this_thread::get_id();
	begun_++;
	lock.unlock();
	execute(entry);
	entry = {}; // tensors may need the lock of Python to be freed
	lock.lock();
	busy_ = {};
	changed_.notify_all();
}

// Submitted by a callback of the operation that this thread executes.
void Executor::execute_within(const Entry &entry, std::unique_lock<std::mutex> &lock)
{
	for (Entry &later : entries_)
		later.work->place_++;
	entry.work->place_ = ++begun_;
	lock.unlock();
	execute(entry);
}

void Executor::loop()
{
	std::unique_lock<std::mutex> lock(mutex_);

	for (;;) {
		changed_.wait(lock, [this] { return !is_busy() && (!entries_.empty() || is_stopped_); });
		if (entries_.empty())
			return;
		Entry entry = std::move(entries_.front());
		entries_.pop_front();
		execute_alone(std::move(entry), lock);
	}
}

void Executor::drain()
{
	std::unique_lock<std::mutex> lock(mutex_);

	changed_.wait(lock, [this] { return !is_busy() && entries_.empty(); });
}

void Executor::stop()
{
	{
		std::lock_guard<std::mutex> lock(mutex_);
		is_stopped_ = true;
	}
	changed_.notify_all();
	if (thread_.joinable())
		thread_.join();
}

} // namespace oriel_torch
