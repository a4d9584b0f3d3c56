// SPDX-License-Identifier: Apache-2.0
// A device "cuda:0" for torch over the fake driver of tests/fakecuda, for machines without a GPU: memory,
// streams and events of that driver, and the few operations that fake_gpu_rank.py uses. The backend uses
// nothing else of torch's CUDA part. All other operations on such tensors fail in the real one.
#include <cstring>
#include <sched.h>

#include <ATen/EmptyTensor.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>
#include <torch/library.h>

#include <cuda.h>

extern "C" void fakecuda_async(bool is_async); // tests/fakecuda/fakecuda.h

namespace {

CUcontext context;
std::vector<int64_t> streams; // all of them; guarded by the lock of Python, which their makers hold
int64_t first; // the current stream of a thread that has chosen none
thread_local int64_t chosen;

#define DO(call)                                                          \
	do {                                                              \
		CUresult result = (call);                                 \
		TORCH_CHECK(result == CUDA_SUCCESS, #call, ": ", (int)result); \
	} while (0)

CUstream handle_of(int64_t id)
{
	return reinterpret_cast<CUstream>(id);
}

// The driver assumes that another thread captures: a thread that may wait says so.
void enter()
{
	static thread_local bool is_relaxed = false;

	if (!is_relaxed) {
		CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

		DO(cuThreadExchangeStreamCaptureMode(&mode));
		is_relaxed = true;
	}
	DO(cuCtxSetCurrent(context));
}

int64_t current()
{
	return chosen ? chosen : first;
}

c10::Device gpu()
{
	return c10::Device(c10::kCUDA, 0);
}

c10::Stream stream_of(int64_t id)
{
	return c10::Stream(c10::Stream::UNSAFE, gpu(), id);
}

int64_t new_stream()
{
	CUstream stream;

	enter();
	DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	streams.push_back(reinterpret_cast<int64_t>(stream));
	return streams.back();
}

void synchronize(int64_t id)
{
	enter();
	DO(cuStreamSynchronize(handle_of(id)));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
	c10::DeviceType type() const override { return c10::kCUDA; }
	c10::Device exchangeDevice(c10::Device) const override
	{
		enter();
		return gpu();
	}
	c10::Device getDevice() const override { return gpu(); }
	void setDevice(c10::Device) const override { enter(); }
	void uncheckedSetDevice(c10::Device) const noexcept override { cuCtxSetCurrent(context); }
	c10::Stream getStream(c10::Device) const override { return stream_of(current()); }
	c10::Stream getDefaultStream(c10::Device) const override { return stream_of(first); }
	c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream_of(new_stream()); }
	c10::Stream exchangeStream(c10::Stream stream) const override
	{
		int64_t before = current();

		chosen = stream.id();
		return stream_of(before);
	}
	void *getStreamNativeHandle(const c10::Stream stream) const override { return handle_of(stream.id()); }
	void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override
	{
		if (event)
			cuEventDestroy(static_cast<CUevent>(event));
	}
	void record(void **event, const c10::Stream &stream, const c10::DeviceIndex,
		    const c10::EventFlag) const override
	{
		enter();
		if (!*event)
			DO(cuEventCreate(reinterpret_cast<CUevent *>(event), CU_EVENT_DISABLE_TIMING));
		DO(cuEventRecord(static_cast<CUevent>(*event), handle_of(stream.id())));
	}
	void block(void *event, const c10::Stream &stream) const override
	{
		enter();
		if (event)
			DO(cuStreamWaitEvent(handle_of(stream.id()), static_cast<CUevent>(event), 0));
	}
	bool queryEvent(void *event) const override
	{
		enter();
		return !event || cuEventQuery(static_cast<CUevent>(event)) == CUDA_SUCCESS;
	}
	void synchronizeEvent(void *event) const override
	{
		while (!queryEvent(event))
			sched_yield();
	}
	bool queryStream(const c10::Stream &stream) const override
	{
		enter();
		return cuStreamQuery(handle_of(stream.id())) == CUDA_SUCCESS;
	}
	void synchronizeStream(const c10::Stream &stream) const override { synchronize(stream.id()); }
	void synchronizeDevice(const c10::DeviceIndex) const override
	{
		for (int64_t id : streams)
			synchronize(id);
	}
	c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

// It stays until the process exits: nothing here knows when streams have passed it.
struct Memory final : c10::Allocator {
	c10::DataPtr allocate(size_t length) override
	{
		CUdeviceptr at = 0;

		enter();
		if (length)
			DO(cuMemAlloc(&at, length));
		return {reinterpret_cast<void *>(at), reinterpret_cast<void *>(at), [](void *) {}, gpu()};
	}
	c10::DeleterFnPtr raw_deleter() const override
	{
		return [](void *) {};
	}
	void copy_data(void *to, const void *from, size_t length) const override { memcpy(to, from, length); }
};

Guard guard;
Memory memory;
constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::CUDA);

// The same memory, which a CPU reaches here, once the current stream has passed what it holds.
at::Tensor on_cpu(const at::Tensor &tensor)
{
	synchronize(current());
	return tensor.is_cuda() ? at::for_blob(tensor.data_ptr(), tensor.sizes())
					  .strides(tensor.strides())
					  .options(tensor.options().device(at::kCPU))
					  .make_tensor()
				: tensor;
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
		 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format)
{
	return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory, KEYS, type.value_or(at::kFloat),
					 format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> type,
			 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>)
{
	return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
						 &memory, KEYS, type.value_or(at::kFloat));
}

at::Tensor &copy(at::Tensor &to, const at::Tensor &from, bool)
{
	bool is_plain = to.is_cuda() && from.is_cuda() && to.is_contiguous() && from.is_contiguous() &&
			to.scalar_type() == from.scalar_type() && to.numel() == from.numel();

	enter();
	if (to.numel() && is_plain)
		DO(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to.data_ptr()),
				 reinterpret_cast<CUdeviceptr>(from.data_ptr()), to.nbytes(), handle_of(current())));
	else if (to.numel())
		on_cpu(to).copy_(on_cpu(from));
	return to;
}

at::Tensor &fill(at::Tensor &tensor, const at::Scalar &value)
{
	if (tensor.numel())
		on_cpu(tensor).fill_(value);
	return tensor;
}

at::Tensor &zero(at::Tensor &tensor)
{
	return fill(tensor, 0);
}

at::Scalar item(const at::Tensor &tensor)
{
	return at::_local_scalar_dense(on_cpu(tensor));
}

at::Tensor cat(const at::ITensorListRef &tensors, int64_t dimension)
{
	std::vector<at::Tensor> parts;

	for (const at::Tensor &tensor : tensors)
		parts.push_back(on_cpu(tensor));
	return at::cat(parts, dimension).to(gpu());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m)
{
	m.impl("empty.memory_format", TORCH_FN(empty));
	m.impl("empty_strided", TORCH_FN(empty_strided));
	m.impl("copy_", TORCH_FN(copy));
	m.impl("fill_.Scalar", TORCH_FN(fill));
	m.impl("zero_", TORCH_FN(zero));
	m.impl("_local_scalar_dense", TORCH_FN(item));
	m.impl("cat", TORCH_FN(cat));
}

int64_t end_capture(int64_t id)
{
	CUgraph graph;
	CUgraphExec exec;

	enter();
	DO(cuStreamEndCapture(handle_of(id), &graph));
	DO(cuGraphInstantiate(&exec, graph, 0));
	return reinterpret_cast<int64_t>(exec);
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
	DO(cuInit(0));
	DO(cuDevicePrimaryCtxRetain(&context, 0));
	enter();
	fakecuda_async(true); // streams have threads
	first = new_stream();
	c10::impl::device_guard_impl_registry[(size_t)c10::kCUDA].store(&guard);
	c10::SetAllocator(c10::kCUDA, &memory, 200);
	m.def("new_stream", &new_stream);
	m.def("use", [](int64_t id) { chosen = id; }); // 0: the first one
	m.def("synchronize", [](int64_t id) { synchronize(id ? id : current()); });
	m.def("begin_capture", [](int64_t id) {
		enter();
		DO(cuStreamBeginCapture(handle_of(id), CU_STREAM_CAPTURE_MODE_GLOBAL));
	});
	m.def("end_capture", &end_capture);
	m.def("launch", [](int64_t exec, int64_t id) {
		enter();
		DO(cuGraphLaunch(reinterpret_cast<CUgraphExec>(exec), handle_of(id)));
	});
}
