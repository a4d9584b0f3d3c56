// SPDX-License-Identifier: Apache-2.0
// Collectives on memory of torch: see plans.hpp.
#include "plans.hpp"

#include <algorithm>
#include <cstring>

#include "work.hpp"

namespace oriel_torch {

Scratch::~Scratch()
{
	oriel_memory_free(memory_);
}

char *Scratch::at_least(size_t length)
{
	size_t wanted = 4096;

	if (length > length_) {
		while (wanted < length)
			wanted *= 2;
		if (memory_)
			check(oriel_memory_free(memory_), "freeing memory");
		memory_ = nullptr;
		length_ = 0;
		check(oriel_memory_alloc(wanted, 0, &memory_), "memory for results");
		length_ = wanted;
	}
	return data();
}

Plans::Plans(struct oriel_comm *comm)
    : comm_(comm), rank_(oriel_comm_rank(comm)), size_(oriel_comm_size(comm))
{
	for (unsigned r = 0; r < size_; r++) {
		enum oriel_path path = ORIEL_PATH_NONE;

		check(oriel_comm_path(comm, r, &path), "path");
		is_mapped_ = is_mapped_ && (path == ORIEL_PATH_SELF || path == ORIEL_PATH_MAPPED);
	}
}

void Plans::close()
{
	oriel_allgather_destroy(gather_all_.object);
	oriel_bcast_destroy(broadcast_.object);
	oriel_gather_destroy(gather_.object);
	oriel_scatter_destroy(scatter_.object);
	oriel_alltoall_destroy(exchange_.object);
	for (auto &[key, plan] : reduce_all_)
		oriel_allreduce_destroy(plan.object);
	for (auto &[key, plan] : reduce_)
		oriel_reduce_destroy(plan.object);
	for (auto &[key, plan] : reduce_scatter_)
		oriel_reduce_scatter_destroy(plan.object);
	oriel_window_destroy(slots_);
	slots_ = nullptr;
	gather_all_.object = nullptr;
	broadcast_.object = nullptr;
	gather_.object = nullptr;
	scatter_.object = nullptr;
	exchange_.object = nullptr;
	reduce_all_.clear();
	reduce_.clear();
	reduce_scatter_.clear();
}

// An object with room for @length bytes. @length is equal on all ranks, so that all make it or none.
template <typename Object, typename Create, typename Destroy>
void Plans::prepare(Plan<Object> &plan, size_t length, Create create, Destroy destroy, const char *what)
{
	struct oriel_view view = {};
	Object *object = nullptr;

	if (plan.object && length <= plan.memory.length())
		return;
	check(destroy(plan.object), what);
	plan.object = nullptr;
	view.size = sizeof(view);
	view.kind = ORIEL_VIEW_BUFFER;
	view.length = std::max(length, PIECE);
	try {
		view.buffer = plan.memory.at_least(view.length);
		view.length = plan.memory.length();
	} catch (...) {
		// No rank waits for this one: without a buffer the call fails on all.
		create(&view, &object);
		throw;
	}
	check(create(&view, &object), what);
	plan.object = object;
}

// Bytes of each rank's part of a piece.
size_t Plans::share(size_t length) const
{
	return std::min(length, std::max<size_t>(64, PIECE / size_ / 64 * 64));
}

void Plans::gather_all(const void *send, size_t length, char *const *parts)
{
	const size_t step = share(length);

	prepare(gather_all_, step * size_, [&](auto *view, auto **out) {
		return oriel_allgather_create(comm_, view, nullptr, out);
	}, oriel_allgather_destroy, "all_gather");
	for (size_t at = 0; at < length; at += step) {
		size_t now = std::min(step, length - at);

		check(oriel_allgather_run(gather_all_.object, static_cast<const char *>(send) + at, now),
		      "all_gather");
		for (unsigned r = 0; r < size_; r++)
			memcpy(parts[r] + at, gather_all_.memory.data() + r * now, now);
	}
}

void Plans::open_slots()
{
	struct oriel_window_attr attr = {};

	attr.size = sizeof(attr);
	attr.length = SLOT * SLOTS;
	check(oriel_window_create(comm_, &attr, &slots_), "broadcast");
}

// The root copies a piece to its window while the others copy the ones before from there: each rank
// copies all bytes once, and all do so at the same time.
void Plans::broadcast_by_slots(unsigned root, char *data, size_t length)
{
	const size_t pieces = (length + SLOT - 1) / SLOT;
	void *address = nullptr;
	auto taken = [&] {
		for (unsigned r = 0; r < size_; r++)
			if (r != root)
				check(oriel_window_wait_signal_next(slots_, r, TAKEN, 1, 0), "broadcast");
	};

	if (!slots_)
		open_slots();
	check(oriel_window_peer_address(slots_, root, 0, &address), "broadcast");
	for (size_t i = 0; i < pieces; i++) {
		char *slot = static_cast<char *>(address) + i % SLOTS * SLOT, *piece = data + i * SLOT;
		size_t now = std::min(SLOT, length - i * SLOT);

		if (rank_ != root) {
			check(oriel_window_wait_signal_next(slots_, root, FILLED, 1, 0), "broadcast");
			memcpy(piece, slot, now);
			check(oriel_window_signal(slots_, root, TAKEN, ORIEL_SIGNAL_ADD, 1), "broadcast");
			continue;
		}
		if (i >= SLOTS)
			taken();
		memcpy(slot, piece, now);
		for (unsigned r = 0; r < size_; r++)
			if (r != root)
				check(oriel_window_signal(slots_, r, FILLED, ORIEL_SIGNAL_ADD, 1), "broadcast");
	}
	for (size_t i = 0; rank_ == root && i < std::min(pieces, SLOTS); i++)
		taken();
}

void Plans::broadcast(unsigned root, void *data, size_t length)
{
	const size_t step = std::min(length, PIECE);

	if (is_mapped_ && size_ > 1 && length > SLOT) {
		broadcast_by_slots(root, static_cast<char *>(data), length);
		return;
	}
	prepare(broadcast_, step, [&](auto *view, auto **out) {
		return oriel_bcast_create(comm_, view, nullptr, out);
	}, oriel_bcast_destroy, "broadcast");
	for (size_t at = 0; at < length; at += step) {
		size_t now = std::min(step, length - at);
		char *piece = static_cast<char *>(data) + at;

		check(oriel_bcast_run(broadcast_.object, root, piece, now), "broadcast");
		if (rank_ != root)
			memcpy(piece, broadcast_.memory.data(), now);
	}
}

void Plans::gather(unsigned root, const void *send, size_t length, char *const *parts)
{
	const size_t step = share(length);

	prepare(gather_, step * size_, [&](auto *view, auto **out) {
		return oriel_gather_create(comm_, view, nullptr, out);
	}, oriel_gather_destroy, "gather");
	for (size_t at = 0; at < length; at += step) {
		size_t now = std::min(step, length - at);

		check(oriel_gather_run(gather_.object, root, static_cast<const char *>(send) + at, now),
		      "gather");
		for (unsigned r = 0; rank_ == root && r < size_; r++)
			memcpy(parts[r] + at, gather_.memory.data() + r * now, now);
	}
}

// @parts as one piece of memory: where they lie, or in @room.
static const char *joined(const std::vector<Collectives::Part> &parts, std::vector<char> &room)
{
	const char *end = nullptr;
	bool is_joined = true;

	for (const auto &part : parts) {
		is_joined = is_joined && (!end || !part.length || part.data == end);
		end = part.length ? part.data + part.length : end;
	}
	if (is_joined) {
		for (const auto &part : parts)
			if (part.length)
				return part.data;
		room.resize(1); // nothing is sent, and the library takes no NULL
	}
	for (const auto &part : parts)
		if (!is_joined)
			room.insert(room.end(), part.data, part.data + part.length);
	return room.data();
}

void Plans::scatter(unsigned root, const std::vector<Part> &parts, void *recv, size_t length)
{
	std::vector<char> room;
	const char *send = joined(parts, room);

	prepare(scatter_, length, [&](auto *view, auto **out) {
		return oriel_scatter_create(comm_, view, nullptr, out);
	}, oriel_scatter_destroy, "scatter");
	check(oriel_scatter_run(scatter_.object, root, send, length), "scatter");
	if (length)
		memcpy(recv, scatter_.memory.data(), length);
}

void Plans::exchange(const char *send, char *recv, size_t length)
{
	const size_t step = share(length);
	std::vector<struct oriel_dev_alltoallv> layout(step < length ? size_ : 0);

	prepare(exchange_, step * size_, [&](auto *view, auto **out) {
		return oriel_alltoall_create(comm_, view, nullptr, out);
	}, oriel_alltoall_destroy, "all_to_all");
	if (step == length) {
		check(oriel_alltoall_run(exchange_.object, send, length), "all_to_all");
		if (length)
			memcpy(recv, exchange_.memory.data(), length * size_);
		return;
	}
	for (size_t at = 0; at < length; at += step) {
		size_t now = std::min(step, length - at);

		for (unsigned r = 0; r < size_; r++)
			layout[r] = {r * length + at, r == rank_ ? 0 : now, r * now, r == rank_ ? 0 : now};
		check(oriel_alltoall_run_v(exchange_.object, send, layout.data()), "all_to_all");
		// What a rank keeps is copied once.
		for (unsigned r = 0; r < size_; r++)
			memcpy(recv + r * length + at,
			       r == rank_ ? send + r * length + at : exchange_.memory.data() + r * now, now);
	}
}

void Plans::exchange_any(const std::vector<Part> &send, const std::vector<Part> &recv)
{
	std::vector<struct oriel_dev_alltoallv> layout(size_);
	std::vector<uint64_t> lengths(size_);
	std::vector<char *> parts(size_);
	std::vector<char> room;
	uint64_t sent = 0, received = 0;

	for (unsigned r = 0; r < size_; r++) {
		layout[r] = {sent, send[r].length, received, recv[r].length};
		sent += send[r].length;
		received += recv[r].length;
		parts[r] = reinterpret_cast<char *>(&lengths[r]);
	}
	// All ranks learn the longest, since all have objects of one length.
	gather_all(&received, sizeof(received), parts.data());
	prepare(exchange_, *std::max_element(lengths.begin(), lengths.end()), [&](auto *view, auto **out) {
		return oriel_alltoall_create(comm_, view, nullptr, out);
	}, oriel_alltoall_destroy, "all_to_all");
	check(oriel_alltoall_run_v(exchange_.object, joined(send, room), layout.data()), "all_to_all");
	for (unsigned r = 0; r < size_; r++)
		if (recv[r].length)
			memcpy(recv[r].data, exchange_.memory.data() + layout[r].recv_displacement,
			       recv[r].length);
}

void Plans::reduce_all(void *data, size_t count, const struct oriel_reduction *reduction)
{
	const size_t element = oriel_type_size((enum oriel_type)reduction->type);
	const size_t step = std::min(count, PIECE / element);

	// Factors may differ from call to call, and the object keeps the one that it was made with.
	if (reduction->factor) {
		check(oriel_allreduce_once(comm_, data, data, count, reduction), "all_reduce");
		return;
	}
	auto &plan = reduce_all_[{reduction->type, reduction->op}];

	prepare(plan, step * element, [&](auto *view, auto **out) {
		return oriel_allreduce_create(comm_, view, reduction, nullptr, out);
	}, oriel_allreduce_destroy, "all_reduce");
	for (size_t at = 0; at < count; at += step) {
		size_t now = std::min(step, count - at);
		char *piece = static_cast<char *>(data) + at * element;

		check(oriel_allreduce_run(plan.object, piece, now), "all_reduce");
		memcpy(piece, plan.memory.data(), now * element);
	}
}

void Plans::reduce(unsigned root, void *data, size_t count, const struct oriel_reduction *reduction)
{
	const size_t element = oriel_type_size((enum oriel_type)reduction->type);
	const size_t step = std::min(count, PIECE / element);

	if (reduction->factor) {
		check(oriel_reduce_once(comm_, root, data, data, count, reduction), "reduce");
		return;
	}
	auto &plan = reduce_[{reduction->type, reduction->op}];

	prepare(plan, step * element, [&](auto *view, auto **out) {
		return oriel_reduce_create(comm_, view, reduction, nullptr, out);
	}, oriel_reduce_destroy, "reduce");
	for (size_t at = 0; at < count; at += step) {
		size_t now = std::min(step, count - at);
		char *piece = static_cast<char *>(data) + at * element;

		check(oriel_reduce_run(plan.object, root, piece, now), "reduce");
		if (rank_ == root)
			memcpy(piece, plan.memory.data(), now * element);
	}
}

void Plans::reduce_scatter(const void *send, void *recv, size_t count,
			   const struct oriel_reduction *reduction)
{
	const size_t element = oriel_type_size((enum oriel_type)reduction->type);

	if (reduction->factor) {
		check(oriel_reduce_scatter_once(comm_, send, recv, count, reduction), "reduce_scatter");
		return;
	}
	auto &plan = reduce_scatter_[{reduction->type, reduction->op}];

	prepare(plan, count * element, [&](auto *view, auto **out) {
		return oriel_reduce_scatter_create(comm_, view, reduction, nullptr, out);
	}, oriel_reduce_scatter_destroy, "reduce_scatter");
	check(oriel_reduce_scatter_run(plan.object, send, count), "reduce_scatter");
	if (count)
		memcpy(recv, plan.memory.data(), count * element);
}

} // namespace oriel_torch
