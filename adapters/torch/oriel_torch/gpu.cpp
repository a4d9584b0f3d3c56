// SPDX-License-Identifier: Apache-2.0
// Operations on tensors of a GPU: see gpu.hpp. gpu_collectives.cpp has the collectives.
#include "gpu.hpp"

#include <thread>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

namespace oriel_torch {

static c10::impl::VirtualGuardImpl implementation(const c10::Device &device)
{
	return c10::impl::VirtualGuardImpl(device.type());
}

struct CUstream_st *handle_of(const c10::Stream &stream)
{
	return static_cast<struct CUstream_st *>(
		implementation(stream.device()).getStreamNativeHandle(stream));
}

// What is posted to @to from now on begins after all that @from has.
void order_behind(const c10::Stream &from, const c10::Stream &to)
{
	if (from == to)
		return;
	c10::Event event(from.device_type());

	event.record(from);
	event.block(to);
}

GpuWork::GpuWork(int rank, c10d::OpType type, uint64_t sequence, const char *title,
		 const std::vector<at::Tensor> &inputs, Lists outputs, std::chrono::milliseconds timeout,
		 int source)
    : Work(rank, type, title, inputs), title_(title), inputs_(inputs), outputs_(std::move(outputs)),
      sequence_(sequence), timeout_(timeout), source_(source)
{
}

bool GpuWork::isCompleted()
{
	if (!is_captured_ && !end_->query())
		return false;
	auto group = group_.lock();
	auto failure = group ? group->failure() : nullptr;

	if (failure) {
		std::lock_guard<std::mutex> lock(mutex_);
		exception_ = failure;
	}
	return true;
}

bool GpuWork::isSuccess() const
{
	std::lock_guard<std::mutex> lock(mutex_);

	return !exception_;
}

std::vector<at::Tensor> GpuWork::result()
{
	return outputs_.empty() ? std::vector<at::Tensor>() : outputs_[0];
}

void GpuWork::synchronize()
{
	auto group = group_.lock();

	if (auto failure = group ? group->failure() : nullptr)
		std::rethrow_exception(failure);
	c10::Stream current = implementation(stream_->device()).getStream(stream_->device());

	if (current != *stream_)
		end_->block(current);
}

bool GpuWork::wait(std::chrono::milliseconds timeout)
{
	auto deadline = std::chrono::steady_clock::now() + timeout;
	auto pause = std::chrono::microseconds(20);

	synchronize();
	while (timeout != kNoTimeout && !isCompleted()) {
		TORCH_CHECK_WITH(DistBackendError, std::chrono::steady_clock::now() < deadline, title_, " ",
				 sequence_, " on rank ", rank_, " has not ended within ", timeout.count(), " ms");
		std::this_thread::sleep_for(pause);
		pause = std::min(pause * 2, std::chrono::microseconds(1000));
	}
	if (timeout != kNoTimeout && !isSuccess())
		std::rethrow_exception(exception());
	return true;
}

std::string GpuWork::text()
{
	if (is_captured_)
		return c10::str("<", title_, " ", sequence_, "; rank ", rank_, "; captured>");
	bool has_ended = isCompleted();

	return text_of(title_, sequence_, c10::str("rank ", rank_), has_ended, exception());
}

// Complete from the beginning: the streams of those that use its value wait for the operation.
c10::intrusive_ptr<c10::ivalue::Future> GpuWork::getFuture()
{
	std::lock_guard<std::mutex> lock(mutex_);

	if (future_)
		return future_;
	c10::TypePtr type = c10::ListType::create(c10::TensorType::get());

	if (outputs_.size() > 1)
		type = c10::ListType::create(type);
	future_ = c10::make_intrusive<c10::ivalue::Future>(type, std::vector<c10::Device>{stream_->device()});
	// It records events in the current stream.
	c10::StreamGuard guard(*stream_);
	if (outputs_.size() > 1)
		future_->markCompleted(c10::IValue(outputs_));
	else
		future_->markCompleted(
			c10::IValue(outputs_.empty() ? std::vector<at::Tensor>() : outputs_[0]));
	return future_;
}

void GpuGroup::enter(c10::Device device)
{
	c10::Event event(device.type());

	// The first call of CUDA's runtime that needs a context makes it current.
	event.record(implementation(device).getStream(device));
}

static std::unique_ptr<GpuCollectives> collectives_of(struct oriel_comm *comm, c10::Device device)
{
	try {
		return std::make_unique<GpuCollectives>(comm, device);
	} catch (...) {
		oriel_comm_destroy(comm);
		throw;
	}
}

GpuGroup::GpuGroup(struct oriel_comm *taken, c10::Device of)
    : comm(taken), device(of), collectives_(collectives_of(taken, of)),
      stream_(implementation(of).getStreamFromGlobalPool(of, true))
{
}

void GpuGroup::settle()
{
	try {
		if (last_)
			last_->synchronize();
		for (const auto &[key, stream] : lanes_)
			stream.synchronize();
	} catch (const std::exception &error) {
		TORCH_WARN("oriel: closing a process group: ", error.what());
	}
}

void GpuGroup::leave()
{
	c10::DeviceGuard device_guard(device);

	settle();
	windows_.close(true);
}

GpuGroup::~GpuGroup()
{
	settle();
	windows_.end(comm);
	collectives_.reset();
	oriel_comm_destroy(comm);
}

c10::Stream GpuGroup::current() const
{
	return implementation(device).getStream(device);
}

std::exception_ptr GpuGroup::failure() const
{
	struct oriel_health health = {};
	char text[512];

	health.size = sizeof(health);
	if (oriel_comm_health(comm, &health) == ORIEL_OK && health.status == ORIEL_OK)
		return nullptr;
	oriel_health_text(&health, text, sizeof(text));
	return std::make_exception_ptr(c10::DistBackendError(
		{__func__, __FILE__, (uint32_t)__LINE__},
		c10::str("oriel: the process group is broken (", oriel_status_name(health.status), "): ", text)));
}

bool GpuGroup::is_capturing(const c10::Stream &stream, const char *title) const
{
	bool is_it = false;

	check(oriel_comm_is_capturing(comm, handle_of(stream), &is_it), title);
	return is_it;
}

// All of @work has been posted to @stream.
void GpuGroup::end(const c10::intrusive_ptr<GpuWork> &work, const c10::Stream &stream,
		   const c10::Stream &current, bool is_captured)
{
	auto keep = [&](const at::Tensor &tensor) {
		if (stream != current)
			implementation(device).recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
	};

	work->end_ = std::make_shared<c10::Event>(device.type());
	work->end_->record(stream);
	work->stream_ = stream;
	work->group_ = weak_from_this();
	work->is_captured_ = is_captured;
	// Their memory is not used for other tensors before, also if the caller drops them and the work.
	for (const at::Tensor &tensor : work->inputs_)
		keep(tensor);
	for (const auto &list : work->outputs_)
		for (const at::Tensor &tensor : list)
			keep(tensor);
	work->finish(); // the range of the profiler
}

void GpuGroup::post(const c10::intrusive_ptr<GpuWork> &work, bool is_async,
		    const std::function<void(Collectives &)> &operation)
{
	std::lock_guard<std::mutex> lock(mutex_);
	c10::DeviceGuard device_guard(device);
	c10::Stream now = current();
	bool is_captured = is_capturing(now, work->title_);
	// All operations of a capture are in one stream, in which they keep their order.
	c10::Stream stream = is_async || is_captured ? *stream_ : now;

	if (auto broken = failure())
		std::rethrow_exception(broken);
	order_behind(now, stream);
	// A graph cannot wait for an event from before it, nor what follows for one of the graph.
	if (!is_captured && last_ && *last_stream_ != stream)
		last_->block(stream);
	{
		c10::StreamGuard guard(stream);
		at::AutoDispatchBelowADInplaceOrView is_memory; // as Executor::execute()

		collectives_->use(stream);
		operation(*collectives_);
	}
	end(work, stream, now, is_captured);
	if (!is_captured) {
		last_ = work->end_;
		last_stream_ = stream;
	}
	if (!is_async && stream != now)
		work->end_->block(now);
}

void GpuGroup::beside(const c10::intrusive_ptr<GpuWork> &work, unsigned peer, Lane lane, bool is_async,
		      const std::function<void(struct CUstream_st *)> &operation)
{
	std::lock_guard<std::mutex> lock(mutex_);
	c10::DeviceGuard device_guard(device);
	c10::Stream now = current();
	bool is_captured = is_capturing(now, work->title_);
	auto found = lanes_.find({peer, lane});

	if (auto broken = failure())
		std::rethrow_exception(broken);
	if (found == lanes_.end())
		found = lanes_.emplace(std::pair(peer, lane),
				       implementation(device).getStreamFromGlobalPool(device, true)).first;
	const c10::Stream &stream = found->second;

	order_behind(now, stream);
	operation(handle_of(stream));
	end(work, stream, now, is_captured);
	if (!is_async)
		work->end_->block(now);
}

void GpuGroup::message(const c10::intrusive_ptr<GpuWork> &work, const at::Tensor &tensor, unsigned peer,
		       bool is_send)
{
	struct oriel_window *window = collectives_->window();

	beside(work, peer, is_send ? SENDS : RECEIVES, true, [&](struct CUstream_st *stream) {
		if (tensor.nbytes())
			check(is_send ? oriel_window_send_on_stream(window, peer, GpuCollectives::MESSAGES,
								    tensor.data_ptr(), tensor.nbytes(), 0, stream)
				      : oriel_window_recv_on_stream(window, peer, GpuCollectives::MESSAGES,
								    tensor.data_ptr(), tensor.nbytes(), 0, stream),
			      work->title_);
	});
}

std::shared_ptr<Exposed> GpuGroup::expose(const at::Tensor &tensor, bool is_owning, std::vector<Layout> layouts)
{
	std::lock_guard<std::mutex> lock(mutex_);
	c10::DeviceGuard device_guard(device);
	auto window = std::make_shared<Exposed>(comm, tensor, is_owning, std::move(layouts), ORIEL_WINDOW_DEVICE);

	windows_.add(window);
	return window;
}

void GpuGroup::conceal(const std::shared_ptr<Exposed> &window)
{
	std::lock_guard<std::mutex> lock(mutex_);
	c10::DeviceGuard device_guard(device);

	// Views of this rank may be read in any stream.
	implementation(device).synchronizeDevice(device.index());
	windows_.remove(window);
	window->close();
}

void GpuGroup::drain(const c10::Stream &current)
{
	std::shared_ptr<c10::Event> last;

	{
		std::lock_guard<std::mutex> lock(mutex_);
		last = last_;
	}
	current.synchronize();
	if (last)
		last->synchronize();
}

} // namespace oriel_torch
