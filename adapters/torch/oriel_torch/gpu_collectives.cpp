// SPDX-License-Identifier: Apache-2.0
// Collectives in memory of a GPU, by persistent objects of the library: see gpu.hpp.
#include "gpu.hpp"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

namespace oriel_torch {

struct CUstream_st *handle_of(const c10::Stream &stream);
void order_behind(const c10::Stream &from, const c10::Stream &to);

GpuCollectives::GpuCollectives(struct oriel_comm *comm, c10::Device device)
    : comm_(comm), device_(device), rank_(oriel_comm_rank(comm)), size_(oriel_comm_size(comm))
{
	struct oriel_window_attr attr = {};

	attr.size = sizeof(attr);
	attr.flags = ORIEL_WINDOW_DEVICE;
	attr.length = ROOM;
	attr.channels = CHANNELS;
	attr.channel_bytes = CHANNEL_BYTES;
	check(oriel_window_create(comm_, &attr, &window_), "window of the process group");
	check(oriel_window_buffer(window_, 0, &room_, nullptr), "window of the process group");
}

GpuCollectives::~GpuCollectives()
{
	oriel_allgather_destroy(gather_all_);
	oriel_bcast_destroy(broadcast_);
	oriel_alltoall_destroy(exchange_);
	for (auto &[key, object] : reduce_all_)
		oriel_allreduce_destroy(object);
	for (auto &[key, object] : reduce_scatter_)
		oriel_reduce_scatter_destroy(object);
	if (has_factors_)
		oriel_object_cache_release(comm_, nullptr, 0);
	oriel_window_destroy(window_);
}

void GpuCollectives::use(const c10::Stream &stream)
{
	stream_ = stream;
	handle_ = handle_of(stream);
}

// @object, made by the first operation that needs it: all ranks are in the same one.
template <typename Object, typename Create>
Object *GpuCollectives::made(Object *&object, Create create, const char *what)
{
	struct oriel_view view = {};

	if (object)
		return object;
	view.size = sizeof(view);
	view.kind = ORIEL_VIEW_WINDOW;
	view.flags = ORIEL_VIEW_GPU;
	view.window = window_;
	view.length = ROOM;
	check(create(&view, &object), what);
	return object;
}

// The @length bytes of the result from @at on.
void GpuCollectives::take(size_t at, void *to, size_t length, const char *what)
{
	if (length)
		check(oriel_window_get_on_stream(window_, rank_, oriel_at(0, at), to, length, handle_), what);
}

static at::Tensor bytes_at(const void *address, size_t length, c10::Device device)
{
	return at::for_blob(const_cast<void *>(address), {(int64_t)length})
		.options(at::TensorOptions(device).dtype(at::kByte))
		.target_device(device)
		.make_tensor();
}

void GpuCollectives::copy(void *to, const void *from, size_t length)
{
	if (length)
		bytes_at(to, length, device_).copy_(bytes_at(from, length, device_), true);
}

// Of each of the rows of @stride bytes at @send, one for each rank, @length bytes from @at on, one
// behind the other.
const void *GpuCollectives::rows(const void *send, size_t stride, size_t at, size_t length, at::Tensor &room)
{
	if (length == stride)
		return send;
	room = at::empty({(int64_t)(size_ * length)}, at::TensorOptions(device_).dtype(at::kByte));
	for (unsigned r = 0; r < size_; r++)
		copy(static_cast<char *>(room.data_ptr()) + r * length,
		     static_cast<const char *>(send) + r * stride + at, length);
	return room.data_ptr();
}

// Bytes of each rank's part of a piece.
size_t GpuCollectives::share(size_t length) const
{
	return std::min(length, ROOM / size_ / 256 * 256);
}

void GpuCollectives::gather_all(const void *send, size_t length, char *const *parts)
{
	const size_t step = share(length);

	for (size_t at = 0; at < length; at += step) {
		size_t now = std::min(step, length - at);

		check(oriel_allgather_run_on_stream(
			      made(gather_all_, [&](auto *view, auto **out) {
				      return oriel_allgather_create(comm_, view, nullptr, out);
			      }, "all_gather"),
			      static_cast<const char *>(send) + at, now, handle_),
		      "all_gather");
		for (unsigned r = 0; parts && r < size_; r++)
			take(r * now, parts[r] + at, now, "all_gather");
	}
}

void GpuCollectives::broadcast(unsigned root, void *data, size_t length)
{
	for (size_t at = 0; at < length; at += ROOM) {
		size_t now = std::min(ROOM, length - at);
		char *piece = static_cast<char *>(data) + at;

		check(oriel_bcast_run_on_stream(
			      made(broadcast_, [&](auto *view, auto **out) {
				      return oriel_bcast_create(comm_, view, nullptr, out);
			      }, "broadcast"),
			      root, piece, now, handle_),
		      "broadcast");
		if (rank_ != root)
			take(0, piece, now, "broadcast");
	}
}

// All gather, and the root takes it: a gather to a root goes by the thread of the communicator and by
// copy engines, which costs more as long as it is short.
void GpuCollectives::gather(unsigned root, const void *send, size_t length, char *const *parts)
{
	gather_all(send, length, rank_ == root ? parts : nullptr);
}

// By channels, from where the parts lie: a scatter of the library takes them one behind the other.
void GpuCollectives::scatter(unsigned root, const std::vector<Part> &parts, void *recv, size_t length)
{
	if (rank_ != root) {
		if (length)
			check(oriel_window_recv_on_stream(window_, root, PARTS, recv, length, 0, handle_), "scatter");
		return;
	}
	copy(recv, parts[rank_].data, length);
	for (unsigned r = 0; r < size_; r++)
		if (r != rank_ && length)
			check(oriel_window_send_on_stream(window_, r, PARTS, parts[r].data, length, 0, handle_),
			      "scatter");
}

void GpuCollectives::exchange(const char *send, char *recv, size_t length)
{
	const size_t step = share(length);

	for (size_t at = 0; at < length; at += step) {
		size_t now = std::min(step, length - at);
		at::Tensor room;

		check(oriel_alltoall_run_on_stream(
			      made(exchange_, [&](auto *view, auto **out) {
				      return oriel_alltoall_create(comm_, view, nullptr, out);
			      }, "all_to_all"),
			      rows(send, length, at, now, room), now, handle_),
		      "all_to_all");
		if (now == length)
			take(0, recv, size_ * now, "all_to_all");
		for (unsigned r = 0; now < length && r < size_; r++)
			take(r * now, recv + r * length + at, now, "all_to_all");
	}
}

// By channels, since no rank knows the lengths of other pairs, and so whether the window has room. In
// step i each rank sends to the rank i behind it and receives from that i before it, in two streams:
// the receiver of a step that is the lowest under way anywhere is there for its sender.
void GpuCollectives::exchange_any(const std::vector<Part> &send, const std::vector<Part> &recv)
{
	if (!sends_)
		sends_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_, true);
	order_behind(*stream_, *sends_);
	TORCH_CHECK(send[rank_].length == recv[rank_].length, "all_to_all: rank ", rank_, " sends ",
		    send[rank_].length, " bytes to itself and receives ", recv[rank_].length);
	copy(recv[rank_].data, send[rank_].data, recv[rank_].length);
	for (unsigned i = 1; i < size_; i++) {
		unsigned after = (rank_ + i) % size_, before = (rank_ + size_ - i) % size_;

		if (send[after].length)
			check(oriel_window_send_on_stream(window_, after, PARTS, send[after].data, send[after].length, 0,
							  handle_of(*sends_)),
			      "all_to_all");
		if (recv[before].length)
			check(oriel_window_recv_on_stream(window_, before, PARTS, recv[before].data,
							  recv[before].length, 0, handle_),
			      "all_to_all");
	}
	order_behind(*sends_, *stream_);
}

struct oriel_allreduce *GpuCollectives::reduction_of(const struct oriel_reduction *reduction, const char *what)
{
	return made(reduce_all_[{reduction->type, reduction->op}], [&](auto *view, auto **out) {
		return oriel_allreduce_create(comm_, view, reduction, nullptr, out);
	}, what);
}

// A factor may differ between ranks and calls: then only all ranks together know whether there is an
// object for it, and the library finds it.
//
// All ranks reduce, and those where @is_taken take the result: a reduction to a root goes by the thread
// of the communicator and by copy engines, which costs more as long as it is short.
void GpuCollectives::reduce_with(bool is_taken, void *data, size_t count, const struct oriel_reduction *reduction,
				 const char *what)
{
	const size_t element = oriel_type_size((enum oriel_type)reduction->type);
	const size_t step = ROOM / element;
	struct oriel_allreduce *object = reduction->factor ? nullptr : reduction_of(reduction, what);

	has_factors_ |= !object;
	for (size_t at = 0; at < count; at += step) {
		size_t now = std::min(step, count - at);
		char *piece = static_cast<char *>(data) + at * element;

		check(object ? oriel_allreduce_run_on_stream(object, piece, now, handle_)
			     : oriel_allreduce_once_on_stream(comm_, piece, room_, now, reduction, handle_),
		      what);
		if (is_taken)
			take(0, piece, now * element, what);
	}
}

void GpuCollectives::reduce_all(void *data, size_t count, const struct oriel_reduction *reduction)
{
	reduce_with(true, data, count, reduction, "all_reduce");
}

void GpuCollectives::reduce(unsigned root, void *data, size_t count, const struct oriel_reduction *reduction)
{
	reduce_with(rank_ == root, data, count, reduction, "reduce");
}

void GpuCollectives::reduce_scatter(const void *send, void *recv, size_t count,
				    const struct oriel_reduction *reduction)
{
	const size_t element = oriel_type_size((enum oriel_type)reduction->type);
	const size_t length = count * element;
	// So that rows() copies as much as the window has room for.
	const size_t step = share(length);

	struct oriel_reduce_scatter *object = nullptr;

	if (!reduction->factor)
		object = made(reduce_scatter_[{reduction->type, reduction->op}], [&](auto *view, auto **out) {
			return oriel_reduce_scatter_create(comm_, view, reduction, nullptr, out);
		}, "reduce_scatter");
	has_factors_ |= !object;
	for (size_t at = 0; at < length; at += step) {
		size_t now = std::min(step, length - at);
		at::Tensor room;
		const void *from = rows(send, length, at, now, room);

		check(object ? oriel_reduce_scatter_run_on_stream(object, from, now / element, handle_)
			     : oriel_reduce_scatter_once_on_stream(comm_, from, room_, now / element, reduction, handle_),
		      "reduce_scatter");
		take(0, static_cast<char *>(recv) + at, now, "reduce_scatter");
	}
}

} // namespace oriel_torch
