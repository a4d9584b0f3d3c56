// SPDX-License-Identifier: Apache-2.0
// c10d::Window over a window of the library: see window.hpp.
#include "window.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "backend.hpp"

namespace oriel_torch {

static void free_shared(void *memory)
{
	oriel_memory_free(memory);
}

#ifdef C10D_BACKEND_HAS_WINDOW

// Peers map memory of the library alone: the storage of @tensor moves there, with all tensors that
// share it. Fails with a text behind oriel_last_error().
static enum oriel_status move_to_shared(const at::Tensor &tensor)
{
	c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
	size_t length = storage->nbytes();
	void *memory = nullptr;
	enum oriel_status status;

	if (!length || storage->data_ptr().get_deleter() == &free_shared)
		return ORIEL_OK;
	if (!storage->resizable())
		return oriel_error_set(ORIEL_ERR_UNSUPPORTED,
				       "tensor_register: the memory of this tensor belongs to another object "
				       "(numpy, a file, another process), and cannot move to memory that peers "
				       "map: register a clone() of it");
	status = oriel_memory_alloc(length, 0, &memory);
	if (status != ORIEL_OK)
		return status;
	memcpy(memory, storage->data(), length);
	storage->set_data_ptr_noswap(
		c10::DataPtr(memory, memory, &free_shared, c10::Device(c10::DeviceType::CPU)));
	return ORIEL_OK;
}

static Layout layout_of(const at::Tensor &tensor)
{
	Layout layout = {};

	layout.type = (int16_t)tensor.scalar_type();
	layout.device = (int16_t)tensor.device().type();
	layout.elements = tensor.numel();
	if (tensor.dim() > Layout::DIMENSIONS) {
		layout.dimensions = 1;
		layout.sizes[0] = tensor.numel();
		return layout;
	}
	layout.dimensions = (int32_t)tensor.dim();
	for (int i = 0; i < layout.dimensions; i++)
		layout.sizes[i] = tensor.size(i);
	return layout;
}

// Collective: the tensors of all ranks, which are all in host memory or all on GPUs.
static std::vector<Layout> layouts_of_all(Communicator &with, const at::Tensor &tensor)
{
	std::vector<Layout> layouts(with.size);
	Layout mine = layout_of(tensor);
	std::vector<char *> parts;

	for (Layout &layout : layouts)
		parts.push_back(reinterpret_cast<char *>(&layout));
	with.plans.gather_all(&mine, sizeof(mine), parts.data());
	for (unsigned rank = 0; rank < with.size; rank++)
		TORCH_CHECK(layouts[rank].device == layouts[0].device, "tensor_register: the tensor of rank 0 is of ",
			    (c10::DeviceType)layouts[0].device, ", that of rank ", rank, " of ",
			    (c10::DeviceType)layouts[rank].device);
	return layouts;
}

#endif

Exposed::Exposed(struct oriel_comm *comm, const at::Tensor &tensor, bool is_owning, std::vector<Layout> layouts,
		 unsigned flags)
    : keep_(is_owning ? tensor : at::Tensor()),
      storage_(tensor.storage().getWeakStorageImpl()), layouts_(std::move(layouts))
{
	struct oriel_window_attr attr = {};
	struct oriel_window *window = nullptr;

	attr.size = sizeof(attr);
	attr.flags = flags;
	attr.length = tensor.nbytes();
	attr.buffer = attr.length ? tensor.data_ptr() : nullptr;
	check(oriel_window_create(comm, &attr, &window), "tensor_register");
	window_ = window;
	for (unsigned rank = 0; rank < layouts_.size(); rank++) {
		enum oriel_path path = ORIEL_PATH_NONE;

		check(oriel_comm_path(comm, rank, &path), "path");
		paths_.push_back(path);
	}
}

void Exposed::close()
{
	struct oriel_window *window;

	refuse();
	{
		std::unique_lock<std::shared_mutex> lock(use_mutex_);
		window = std::exchange(window_, nullptr);
	}
	if (window && !views)
		oriel_window_destroy(window);
	else if (window)
		TORCH_WARN("oriel: the process group ends with ", views.load(),
			   " tensors over windows of its peers, whose memory stays until the process exits");
}

void Exposed::move()
{
	static std::mutex kept_mutex;
	static auto *kept = new std::vector<c10::DataPtr>; // until the process ends
	auto storage = storage_.lock();

	if (!storage || !storage->nbytes())
		return;
	c10::Allocator *allocator = c10::GetAllocator(storage->device_type());
	c10::DataPtr former = storage->set_data_ptr(allocator->clone(storage->data(), storage->nbytes()));

	// Memory of the library is not used again once it is freed; that of a GPU would be.
	if (former.get_deleter() == &free_shared)
		return;
	std::lock_guard<std::mutex> lock(kept_mutex);
	kept->push_back(std::move(former));
}

Exposed::Use Exposed::use() const
{
	Use use;

	use.lock_ = std::shared_lock<std::shared_mutex>(use_mutex_);
	use.window_ = window_;
	TORCH_CHECK(!is_refused_, "oriel: this window is closed: its tensor was deregistered, or its process "
				 "group shut down");
	return use;
}

uint64_t Exposed::expect(int64_t peer, uint32_t id)
{
	std::lock_guard<std::mutex> lock(mutex_);

	return ++expected_[{peer, id}];
}

void Exposed::forget(int64_t peer, uint32_t id, uint64_t target)
{
	std::lock_guard<std::mutex> lock(mutex_);
	uint64_t &last = expected_[{peer, id}];

	last -= last == target;
}

void OpenWindows::add(std::shared_ptr<Exposed> window)
{
	std::lock_guard<std::mutex> lock(mutex_);

	windows_.push_back(std::move(window));
}

void OpenWindows::remove(const std::shared_ptr<Exposed> &window)
{
	std::lock_guard<std::mutex> lock(mutex_);

	windows_.erase(std::remove(windows_.begin(), windows_.end(), window), windows_.end());
}

void OpenWindows::close(bool is_moving)
{
	std::lock_guard<std::mutex> lock(mutex_);

	for (const std::shared_ptr<Exposed> &window : windows_) {
		window->close();
		if (is_moving)
			window->move();
	}
	windows_.clear();
}

void OpenWindows::end(struct oriel_comm *comm)
{
	enum oriel_status status = ORIEL_OK;

	if (views())
		status = oriel_error_set(ORIEL_ERR_STATE, "tensors over memory of peers are left");
	if (oriel_comm_agree(comm, status) != ORIEL_OK)
		oriel_comm_abort(comm, oriel_last_error());
	close();
}

void OpenWindows::refuse()
{
	std::lock_guard<std::mutex> lock(mutex_);

	for (const std::shared_ptr<Exposed> &window : windows_)
		window->refuse();
}

int OpenWindows::views()
{
	std::lock_guard<std::mutex> lock(mutex_);
	int views = 0;

	for (const std::shared_ptr<Exposed> &window : windows_)
		views += window->views;
	return views;
}

WindowWork::WindowWork(int rank, Peer peer, const char *title, std::vector<at::Tensor> tensors, uint64_t sequence,
		       std::chrono::milliseconds timeout, Attempt attempt)
    : OrielWork(rank, c10d::OpType::UNKNOWN, sequence, title, std::nullopt, {std::move(tensors)}, timeout),
      peer_(peer), attempt_(std::move(attempt))
{
}

// Under attempt_mutex_.
enum oriel_status WindowWork::attempt(uint64_t limit_ns)
{
	std::exception_ptr error;
	enum oriel_status status = ORIEL_OK;

	if (Work::isCompleted())
		return ORIEL_OK;
	try {
		status = attempt_(limit_ns);
		if (status == ORIEL_ERR_TIMEOUT)
			return status;
		check(status, title_);
	} catch (...) {
		error = std::current_exception();
	}
	attempt_ = nullptr; // it holds the tensors and the window
	complete(error);
	return ORIEL_OK;
}

bool WindowWork::isCompleted()
{
	if (Work::isCompleted())
		return true;
	std::unique_lock<std::timed_mutex> lock(attempt_mutex_, std::try_to_lock);

	return lock && attempt(1) == ORIEL_OK; // else another thread waits for it
}

bool WindowWork::wait(std::chrono::milliseconds timeout)
{
	auto limit = timeout == kNoTimeout ? getTimeout() : timeout;
	auto begun = std::chrono::steady_clock::now();

	if (!Work::isCompleted()) {
		std::unique_lock<std::timed_mutex> lock(attempt_mutex_, std::defer_lock);

		TORCH_CHECK_WITH(DistBackendError, lock.try_lock_for(limit), title_, " ", getSequencenumber(), " on ", where(),
				 ", has not ended within ", limit.count(), " ms, and another thread waits for it");
		limit -= std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
		check(attempt(in_ns(limit)), title_);
	}
	return Work::wait(kNoTimeout);
}

c10::intrusive_ptr<c10::ivalue::Future> WindowWork::getFuture()
{
	auto future = OrielWork::getFuture();

	if (!isCompleted() && !is_driven_.exchange(true))
		OrielBackend::run_apart([self = c10::intrusive_ptr<WindowWork>::unsafe_reclaim_from_nonowning(
						 this)] {
			try {
				self->wait(kNoTimeout);
			} catch (...) {
				if (!self->Work::isCompleted())
					self->complete(std::current_exception());
			}
		});
	return future;
}

#ifdef C10D_BACKEND_HAS_WINDOW

OrielWindow::OrielWindow(c10::intrusive_ptr<OrielBackend> backend, int rank)
    : backend_(std::move(backend)), rank_(rank)
{
}

std::shared_ptr<Exposed> OrielWindow::exposed(int64_t peer, const char *what) const
{
	TORCH_CHECK(exposed_, what, ": a tensor is not registered with this window");
	TORCH_CHECK(peer >= 0 && peer < exposed_->ranks(), what, ": rank ", peer, " of ", exposed_->ranks());
	return exposed_;
}

void OrielWindow::tensor_register(const at::Tensor &tensor, bool is_owning)
{
	std::vector<Layout> layouts;

	check_tensor(tensor, "tensor_register");
	TORCH_CHECK(tensor.is_contiguous(), "tensor_register: the tensor must be contiguous");
	TORCH_CHECK(!exposed_, "tensor_register: double registration: deregister the tensor of this window first");
	backend_->execute("oriel:tensor_register", [&](Communicator &with) {
		layouts = layouts_of_all(with, tensor);
		if (!tensor.is_cpu())
			return;
		check(oriel_comm_agree(with.comm, move_to_shared(tensor)), "tensor_register");
		exposed_ = std::make_shared<Exposed>(with.comm, tensor, is_owning, std::move(layouts), 0);
		with.windows.add(exposed_);
	});
	if (tensor.is_cpu())
		return;
	auto gpu = backend_->gpu(tensor.device());

	exposed_ = gpu->expose(tensor, is_owning, std::move(layouts));
	gpu_ = gpu;
}

void OrielWindow::tensor_deregister()
{
	TORCH_CHECK(exposed_, "tensor_deregister: a tensor is not registered with this window");
	auto gpu = gpu_.lock();

	backend_->execute("oriel:tensor_deregister", [&](Communicator &with) {
		enum oriel_status status = ORIEL_OK;
		int views = exposed_->views;

		exposed_->use();
		if (views) {
			std::string text = c10::str("rank ", rank_, " has ", views,
						    " tensors over memory of its peers: delete them first");
			status = oriel_error_set(ORIEL_ERR_STATE, text.c_str());
		}
		check(oriel_comm_agree(with.comm, status), "tensor_deregister");
		if (!gpu) {
			with.windows.remove(exposed_);
			exposed_->close();
		}
	});
	if (gpu)
		gpu->conceal(exposed_);
	exposed_.reset();
}

static uint32_t signal_of(const std::unordered_map<std::string, std::string> &hints, uint32_t without)
{
	auto found = hints.find("signal");
	uint32_t id = without;

	if (found == hints.end())
		return id;
	const std::string &text = found->second;
	auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
	TORCH_CHECK(error == std::errc() && end == text.data() + text.size() && id < 64, "the hint signal is \"",
		    text, "\": 0 to 63");
	return id;
}

c10::intrusive_ptr<c10d::Work> OrielWindow::finish(c10::intrusive_ptr<WindowWork> work, bool is_async)
{
	if (!is_async)
		work->wait(kNoTimeout);
	return work;
}

// Of a tensor of CUDA: @operation in a stream.
c10::intrusive_ptr<c10d::Work> OrielWindow::post(const char *title, int64_t peer, bool is_wait, bool is_async,
						 std::chrono::milliseconds timeout, std::vector<at::Tensor> tensors,
						 const Operation &operation)
{
	auto gpu = gpu_.lock();

	exposed_->use();
	TORCH_CHECK(gpu, title, ": the process group was shut down");
	auto work = c10::make_intrusive<GpuWork>(rank_, c10d::OpType::UNKNOWN, ++sequence_, title, std::move(tensors),
						 OrielWork::Lists(), backend_->timeout_or(timeout));

	gpu->beside(work, (unsigned)peer, is_wait ? GpuGroup::WAITS : GpuGroup::PUTS, is_async,
		    [&](struct CUstream_st *stream) { operation(exposed_->use(), stream); });
	return work;
}

c10::intrusive_ptr<c10d::Work> OrielWindow::put(const at::Tensor &tensor, int64_t peer, int64_t at,
						bool is_async, const c10d::PutOptions &options)
{
	auto window = exposed(peer, "put");
	const Layout &target = window->layout(peer);
	uint32_t id = signal_of(options.hints, ORIEL_NONE);
	bool is_mapped = window->is_mapped(peer);

	check_tensor(tensor, "put");
	TORCH_CHECK((int16_t)tensor.device().type() == target.device, "put: the tensor is of ", tensor.device().type(),
		    ", that of the window of ", (c10::DeviceType)target.device);
	TORCH_CHECK(tensor.is_contiguous(), "put: the tensor must be contiguous");
	TORCH_CHECK((int16_t)tensor.scalar_type() == target.type, "put: the tensor is ", tensor.scalar_type(),
		    ", that of rank ", peer, " ", (at::ScalarType)target.type);
	TORCH_CHECK(at >= 0 && at <= target.elements && tensor.numel() <= target.elements - at, "put of ",
		    tensor.numel(), " elements at offset ", at, " exceeds the window size of rank ", peer, ", ",
		    target.elements);
	size_t length = tensor.nbytes();
	uint64_t to = (uint64_t)at * tensor.element_size();
	const void *from = tensor.data_ptr();

	if (tensor.is_cuda())
		return post("oriel:put", peer, false, is_async, options.timeout, {tensor},
			    [&](struct oriel_window *on, struct CUstream_st *stream) {
				    check(id == ORIEL_NONE
						  ? oriel_window_put_on_stream(on, peer, to, from, length, stream)
						  : oriel_window_put_signal_on_stream(on, peer, to, from, length, id, 1,
										      stream),
					  "put");
				    if (!is_mapped)
					    check(oriel_window_drain_on_stream(on, 0, stream), "put");
			    });
	check(id == ORIEL_NONE ? oriel_window_put(window->use(), peer, to, from, length)
			       : oriel_window_put_signal(window->use(), peer, to, from, length, id, 1),
	      "put");
	auto work = c10::make_intrusive<WindowWork>(
		rank_, WindowWork::Peer{peer, window->path(peer), false}, "oriel:put",
		std::vector<at::Tensor>{tensor}, ++sequence_, backend_->timeout_or(options.timeout),
		[window, tensor, is_mapped](uint64_t limit_ns) {
			return is_mapped ? ORIEL_OK : oriel_window_drain(window->use(), limit_ns);
		});
	return finish(std::move(work), is_async);
}

at::Tensor OrielWindow::map_remote_tensor(int64_t peer)
{
	auto window = exposed(peer, "map_remote_tensor");
	const Layout &layout = window->layout(peer);
	auto gpu = gpu_.lock();
	c10::Device device = gpu ? gpu->device : c10::Device(c10::DeviceType::CPU);
	auto options = at::TensorOptions(device).dtype((at::ScalarType)layout.type);
	at::IntArrayRef sizes(layout.sizes, layout.dimensions);
	void *address = nullptr;

	if (!layout.elements)
		return at::empty(sizes, options);
	auto use = window->use(); // close() looks for views
	check(oriel_window_peer_address(use, peer, 0, &address), "map_remote_tensor");
	if (peer == rank_) {
		// No memory of a peer: it stays as long as this tensor, whatever becomes of the window.
		auto storage = window->storage();

		TORCH_CHECK(storage, "map_remote_tensor: the registered tensor of this rank was freed");
		return at::for_blob(address, sizes)
			.deleter([storage](void *) {})
			.options(options)
			.target_device(device)
			.make_tensor();
	}
	window->views++;
	return at::for_blob(address, sizes)
		.deleter([window](void *) { window->views--; })
		.options(options)
		.target_device(device)
		.make_tensor();
}

c10::intrusive_ptr<c10d::Work> OrielWindow::signal(int64_t peer, bool is_async,
						   const c10d::SignalOptions &options)
{
	auto window = exposed(peer, "signal");
	uint32_t id = signal_of(options.hints, 0);

	if (is_on_gpu())
		return post("oriel:signal", peer, false, is_async, options.timeout, {},
			    [&](struct oriel_window *on, struct CUstream_st *stream) {
				    check(oriel_window_signal_on_stream(on, peer, id, ORIEL_SIGNAL_ADD, 1, stream),
					  "signal");
			    });
	check(oriel_window_signal(window->use(), peer, id, ORIEL_SIGNAL_ADD, 1), "signal");
	auto work = c10::make_intrusive<WindowWork>(
		rank_, WindowWork::Peer{peer, window->path(peer), false}, "oriel:signal", std::vector<at::Tensor>(),
		++sequence_, backend_->timeout_or(options.timeout), [](uint64_t) { return ORIEL_OK; });
	return finish(std::move(work), is_async);
}

c10::intrusive_ptr<c10d::Work> OrielWindow::wait_signal(int64_t peer, bool is_async,
							const c10d::WaitSignalOptions &options)
{
	auto window = exposed(peer, "wait_signal");
	uint32_t id = signal_of(options.hints, 0);

	if (is_on_gpu())
		return post("oriel:wait_signal", peer, true, is_async, options.timeout, {},
			    [&](struct oriel_window *on, struct CUstream_st *stream) {
				    // 0 is the limit of the group.
				    uint64_t limit_ns = options.timeout == c10d::kUnsetTimeout ? 0 : in_ns(options.timeout);

				    check(oriel_window_wait_signal_next_on_stream(on, peer, id, 1, limit_ns, stream),
					  "wait_signal");
			    });
	uint64_t target = window->expect(peer, id);
	auto work = c10::make_intrusive<WindowWork>(
		rank_, WindowWork::Peer{peer, window->path(peer), true}, "oriel:wait_signal",
		std::vector<at::Tensor>(), ++sequence_, backend_->timeout_or(options.timeout),
		[window, peer, id, target](uint64_t limit_ns) {
			return oriel_window_wait_signal_from(window->use(), peer, id, ORIEL_GE, target, limit_ns);
		});

	try {
		return finish(std::move(work), is_async);
	} catch (...) {
		window->forget(peer, id, target);
		throw;
	}
}

c10d::WindowAttr OrielWindow::get_attr(int64_t peer)
{
	c10d::WindowAttr attr;

	attr.access_type = exposed(peer, "get_attr")->is_mapped(peer) ? c10d::WindowAccessType::UNIFIED
								      : c10d::WindowAccessType::SEPARATE;
	return attr;
}

std::string OrielWindow::text() const
{
	if (!exposed_)
		return c10::str("<oriel window without a tensor; ", backend_->standing(), ">");
	const Layout &layout = exposed_->layout(rank_);
	at::IntArrayRef sizes(layout.sizes, layout.dimensions);

	return c10::str("<oriel window of ", (at::ScalarType)layout.type, sizes, " on ",
			(c10::DeviceType)layout.device, "; ",
			exposed_->is_open() ? backend_->standing() : c10::str("rank ", rank_, "; closed"), ">");
}

#endif

} // namespace oriel_torch
