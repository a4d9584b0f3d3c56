// SPDX-License-Identifier: Apache-2.0
// Groups that go on with other ranks: reconfigure() of the backend. See backend.hpp.
//
// A rank lets go of the old communicator by itself, and meets the ranks of the list anew.
// oriel_comm_shrink() is not used: it is collective among all ranks that live, and here a rank that
// lives may be left out without a call of its own, or be in another list at the same time. What it
// ensures holds all the same, by other means: no rank writes by the old communicator to memory that
// the group still uses. Queues and keys end with the old communicator, memory that the library had
// allocated is not used again, and tensors of windows move to other memory.
#include "backend.hpp"

#include <algorithm>
#include <cstring>

#ifdef C10D_BACKEND_HAS_RECONFIGURE

namespace oriel_torch {

// A handle is this and the bytes of a job id that its rank has opened, as hexadecimal digits.
static const char HANDLE[] = "oriel1:";

static std::string handle_of(const struct oriel_job_id &id)
{
	std::string text = HANDLE;

	for (unsigned char byte : id.bytes) {
		text += "0123456789abcdef"[byte >> 4];
		text += "0123456789abcdef"[byte & 15];
	}
	return text;
}

static struct oriel_job_id id_of(const std::string &handle)
{
	struct oriel_job_id id;
	size_t head = strlen(HANDLE);
	auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };

	TORCH_CHECK(handle.size() == head + 2 * sizeof(id.bytes) && handle.compare(0, head, HANDLE) == 0 &&
			    handle.find_first_not_of("0123456789abcdef", head) == std::string::npos,
		    "reconfigure: a handle is not one of backend oriel");
	for (size_t i = 0; i < sizeof(id.bytes); i++)
		id.bytes[i] = digit(handle[head + 2 * i]) << 4 | digit(handle[head + 2 * i + 1]);
	return id;
}

c10d::ReconfigureHandle OrielBackend::get_reconfigure_handle() const
{
	TORCH_CHECK(options_->enable_reconfigure,
		    "this process group was made without enable_reconfigure=True");
	return handle_;
}

void OrielBackend::open_handle()
{
	check(oriel_job_id_open(&own_id_), "job id");
	handle_ = handle_of(own_id_);
}

void OrielBackend::close_handle()
{
	if (!handle_.empty())
		oriel_job_id_close(&own_id_);
	handle_.clear();
}

static bool has(const std::vector<std::string> &handles, const std::string &handle)
{
	return std::find(handles.begin(), handles.end(), handle) != handles.end();
}

// The members of the group that stay, in their order.
static std::vector<std::string> kept_of(const std::vector<std::string> &members,
					const std::vector<std::string> &handles)
{
	std::vector<std::string> kept;

	std::copy_if(members.begin(), members.end(), std::back_inserter(kept),
		     [&](auto &member) { return has(handles, member); });
	return kept;
}

// The ranks in their order: by position. A set has that of the group if it adds no rank, or else one
// that ranks of other groups find, too.
static std::vector<std::string> in_order(const c10d::ReconfigureOptions &opts,
					 const std::vector<std::string> &members)
{
	if (auto *list = std::get_if<std::vector<std::string>>(&opts.handles))
		return *list;
	auto &set = std::get<std::unordered_set<std::string>>(opts.handles);
	std::vector<std::string> handles(set.begin(), set.end());
	auto kept = kept_of(members, handles);

	std::sort(handles.begin(), handles.end());
	return kept.size() == handles.size() ? kept : handles;
}

// Collective: the ranks of @handles meet at the first of them, if all have this list and @uuid.
static struct oriel_comm *meet(const std::vector<std::string> &handles, unsigned rank, int64_t uuid,
			       std::chrono::milliseconds timeout)
{
	std::vector<struct oriel_job_id> ids;
	struct oriel_comm_attr attr = {};
	struct oriel_comm *comm = nullptr;

	std::transform(handles.begin(), handles.end(), std::back_inserter(ids), id_of);
	attr.size = sizeof(attr);
	attr.timeout_ns = in_ns(timeout);
	enum oriel_status status = oriel_comm_create_ids(ids.data(), rank, (unsigned)ids.size(), (uint64_t)uuid,
							 &attr, &comm);
	TORCH_CHECK_WITH(DistBackendError, status == ORIEL_OK, "oriel: reconfigure: rank ", rank, " of ",
			 handles.size(), ": ", oriel_last_error());
	return comm;
}

// The communicators of the group end on this rank, whatever the others do.
void OrielBackend::let_go(bool is_complete)
{
	auto old = communicator();
	int views = old->windows.views();

	{
		std::lock_guard<std::mutex> lock(gpu_mutex_);
		views += gpu_ ? gpu_->views() : 0;
	}

	TORCH_CHECK(!views, "reconfigure: this rank has ", views, " tensors over memory of its peers: delete them "
		    "first");
	// What is under way ends: a broken communicator makes no operation wait.
	abort_communicators("the process group is reconfigured");
	take_communicator();
	executor_->drain();
	old->messenger.stop(in_ns(options_->timeout));
	if (auto gpu = take_gpu(); gpu && !is_complete)
		gpu->leave();
	old->windows.close(!is_complete);
}

c10::intrusive_ptr<c10d::Work> OrielBackend::reconfigure(const c10d::ReconfigureOptions &opts)
{
	origin_.check();
	std::lock_guard<std::mutex> change_lock(change_mutex_);
	auto handles = in_order(opts, members_);
	auto mine = std::find(handles.begin(), handles.end(), handle_);

	TORCH_CHECK(options_->enable_reconfigure,
		    "reconfigure: this process group was made without enable_reconfigure=True");
	TORCH_CHECK(mine != handles.end(), "reconfigure: the handle of this rank is not in the list");
	TORCH_CHECK(!uuids_.count(opts.uuid), "reconfigure: uuid ", opts.uuid, " was already used");
	if (opts.timeout)
		options_->timeout = *opts.timeout;
	if (communicator_)
		let_go(kept_of(members_, handles) == members_);
	uuids_.insert(opts.uuid);
	// Each rank has a listener behind its handle, as long as the group is there.
	auto fresh = std::make_shared<Communicator>(
		meet(handles, (unsigned)(mine - handles.begin()), opts.uuid, options_->timeout));
	{
		std::lock_guard<std::mutex> lock(close_mutex_);
		communicator_ = fresh;
		is_aborted_ = false;
	}
	members_ = handles;
	rank_ = (int)fresh->rank;
	size_ = (int)fresh->size;
	sequence_ = 0;
	monitored_ = 0;
	executor_->use(fresh->roster);
	auto work = c10::make_intrusive<OrielWork>(rank_, c10d::OpType::UNKNOWN, 0, "oriel:reconfigure",
						   Tensors(), Lists(), options_->timeout);
	work->complete(nullptr);
	return work;
}

} // namespace oriel_torch

#endif
