// SPDX-License-Identifier: Apache-2.0
// Groups that go on with other ranks: reconfigure() of the backend. oriel_comm_shrink() leaves ranks
// out; ranks that join, merge or change places meet anew. See backend.hpp.
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

static struct oriel_comm *shrunk(Communicator &old, const std::vector<std::string> &handles,
				 const std::vector<std::string> &members)
{
	struct oriel_comm *comm = nullptr;

	check(oriel_comm_shrink(old.comm, nullptr, &comm), "reconfigure");
	unsigned size = oriel_comm_size(comm);

	for (unsigned rank = 0; rank < std::max<size_t>(size, handles.size()); rank++) {
		unsigned origin = ORIEL_NO_RANK;

		if (rank < size && rank < handles.size())
			check(oriel_comm_origin(comm, rank, &origin), "reconfigure");
		if (origin != ORIEL_NO_RANK && members.at(origin) == handles[rank])
			continue;
		oriel_comm_abort(comm, "reconfigure: other ranks are left");
		oriel_comm_destroy(comm);
		C10_THROW_ERROR(DistBackendError,
				c10::str("oriel: reconfigure: ", size, " ranks are left, and ", handles.size(),
					 " have a handle in the list; rank ", rank, " is not the one that the list "
					 "has there"));
	}
	return comm;
}

c10::intrusive_ptr<c10d::Work> OrielBackend::reconfigure(const c10d::ReconfigureOptions &opts)
{
	std::lock_guard<std::mutex> change_lock(change_mutex_);
	auto handles = in_order(opts, members_);
	auto mine = std::find(handles.begin(), handles.end(), handle_);
	struct oriel_comm *comm = nullptr;

	TORCH_CHECK(options_->enable_reconfigure,
		    "reconfigure: this process group was made without enable_reconfigure=True");
	TORCH_CHECK(mine != handles.end(), "reconfigure: the handle of this rank is not in the list");
	TORCH_CHECK(uuids_.insert(opts.uuid).second, "reconfigure: uuid ", opts.uuid, " was already used");
	if (opts.timeout)
		options_->timeout = *opts.timeout;
	auto kept = kept_of(members_, handles);
	if (auto old = take_communicator()) {
		static const char why[] = "the process group is reconfigured";

		// All end what is under way: a broken communicator makes no operation wait.
		oriel_comm_abort(old->comm, why);
		if (auto gpu = take_gpu())
			oriel_comm_abort(gpu->comm, why);
		executor_.drain();
		old->messenger.stop(in_ns(options_->timeout));
		old->close_objects();
		// Also where others join: a rank that is left out may run, and must not reach this one.
		if (handles == kept || kept != members_)
			comm = shrunk(*old, kept, members_);
		members_ = kept;
	}
	// Each rank has a listener behind its handle, as long as the group is there.
	if (!comm || handles != kept) {
		oriel_comm_destroy(comm);
		comm = join(id_of(handles[0]), (int)(mine - handles.begin()), (int)handles.size());
	}
	auto fresh = std::make_shared<Communicator>(comm);
	{
		std::lock_guard<std::mutex> lock(close_mutex_);
		communicator_ = fresh;
	}
	members_ = handles;
	rank_ = (int)fresh->rank;
	size_ = (int)fresh->size;
	sequence_ = 0;
	monitored_ = 0;
	executor_.use(fresh->roster);
	auto work = c10::make_intrusive<OrielWork>(rank_, c10d::OpType::UNKNOWN, 0, "oriel:reconfigure",
						   Tensors(), Lists(), options_->timeout);
	work->complete(nullptr);
	return work;
}

} // namespace oriel_torch

#endif
