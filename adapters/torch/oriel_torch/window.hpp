// SPDX-License-Identifier: Apache-2.0
// c10d::Window over a window of the library: a tensor of every rank that every rank puts to. The
// backend makes it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#ifdef C10D_BACKEND_HAS_WINDOW
#include <torch/csrc/distributed/c10d/Window.hpp>
#endif

#include "work.hpp"

namespace oriel_torch {

class Communicator;
class GpuGroup;
class OrielBackend;

// The tensor of a rank, as all ranks learn it.
struct Layout {
	static constexpr int DIMENSIONS = 10; // more are flattened

	int16_t type, device; // at::ScalarType, at::DeviceType
	int32_t dimensions;
	int64_t elements;
	int64_t sizes[DIMENSIONS];
};

// The window of the library behind a registered tensor. Tensors over it and operations share it.
class Exposed {
 public:
	// Collective. @tensor is in memory that the ranks of @comm share; @flags are those of the window.
	Exposed(struct oriel_comm *comm, const at::Tensor &tensor, bool is_owning, std::vector<Layout> layouts,
		unsigned flags);

	// Collective. Tensors over memory of peers are not to be left; if some are, the window stays
	// until the process exits.
	void close();
	// After close(): the tensor moves to other memory, with its bytes. Ranks that live on without this
	// one may write to the former for as long as they map it.
	void move();

	bool is_open() const { return !is_refused_; }
	// The window, for one call, for whose end close() waits.
	class Use {
	 public:
		operator struct oriel_window *() const { return window_; }

	 private:
		friend class Exposed;
		std::shared_lock<std::shared_mutex> lock_;
		struct oriel_window *window_;
	};
	// Throws once it is closed, or is to be.
	Use use() const;
	// Local: no call uses it from now on; those that do go on.
	void refuse() { is_refused_ = true; }
	const Layout &layout(int64_t rank) const { return layouts_.at(rank); }
	enum oriel_path path(int64_t rank) const { return paths_.at(rank); }
	bool is_mapped(int64_t rank) const { return path(rank) == ORIEL_PATH_SELF || path(rank) == ORIEL_PATH_MAPPED; }
	int64_t ranks() const { return (int64_t)layouts_.size(); }
	// Of the tensor of this rank; null once it is freed, if the window does not own it.
	c10::intrusive_ptr<c10::StorageImpl> storage() const { return storage_.lock(); }

	// How many signals with @id of @peer the waits have asked for, with one more.
	uint64_t expect(int64_t peer, uint32_t id);
	// The wait for @target of them has failed, and no other one came: it may be made again.
	void forget(int64_t peer, uint32_t id, uint64_t target);

	std::atomic<int> views{0}; // tensors over memory of peers

 private:
	std::atomic<bool> is_refused_{false};
	mutable std::shared_mutex use_mutex_; // guards window_
	struct oriel_window *window_ = nullptr;
	const at::Tensor keep_;
	const c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
	const std::vector<Layout> layouts_;
	std::vector<enum oriel_path> paths_; // to each rank
	std::mutex mutex_; // guards expected_
	std::map<std::pair<int64_t, uint32_t>, uint64_t> expected_;
};

// The windows on a communicator that are open, in the order in which they were made: that of all ranks.
class OpenWindows {
 public:
	void add(std::shared_ptr<Exposed> window);
	void remove(const std::shared_ptr<Exposed> &window);
	// Collective: closes them, and moves their tensors, too.
	void close(bool is_moving = false);
	// Collective, before @comm is destroyed: closes them. Windows with tensors over memory of peers
	// stay, on any rank, and @comm with them there: then it is aborted, so that no rank waits for that.
	void end(struct oriel_comm *comm);
	void refuse();
	int views(); // tensors over memory of peers

 private:
	std::mutex mutex_; // guards windows_
	std::vector<std::shared_ptr<Exposed>> windows_;
};

// An operation on a window in host memory, which the thread that asks for its end drives.
class WindowWork : public OrielWork {
 public:
	// Tries to complete within so many nanoseconds; ORIEL_ERR_TIMEOUT if it does not.
	using Attempt = std::function<enum oriel_status(uint64_t)>;
	struct Peer {
		int64_t rank;
		enum oriel_path path;
		bool is_from; // it comes from there
	};

	WindowWork(int rank, Peer peer, const char *title, std::vector<at::Tensor> tensors, uint64_t sequence,
		   std::chrono::milliseconds timeout, Attempt attempt);

	bool isCompleted() override;
	bool wait(std::chrono::milliseconds timeout) override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override; // a thread drives it then

 private:
	enum oriel_status attempt(uint64_t limit_ns);
	std::string where() override { return with_peer(peer_.is_from, peer_.rank, peer_.path); }

	const Peer peer_;
	std::atomic<bool> is_driven_{false}; // a thread waits for its end, since there is a future
	std::timed_mutex attempt_mutex_; // one thread at a time completes it; guards attempt_
	Attempt attempt_;
};

#ifdef C10D_BACKEND_HAS_WINDOW

class OrielWindow : public c10d::Window {
 public:
	OrielWindow(c10::intrusive_ptr<OrielBackend> backend, int rank);

	void tensor_register(const at::Tensor &tensor, bool is_owning) override;
	void tensor_deregister() override;
	// The hint "signal" of options is the id of a signal, 0 to 63, which a put sends behind the
	// bytes; signal() and wait_signal() take 0 without.
	c10::intrusive_ptr<c10d::Work> put(const at::Tensor &tensor, int64_t peer, int64_t at, bool is_async,
					   const c10d::PutOptions &options) override;
	at::Tensor map_remote_tensor(int64_t peer) override;
	c10::intrusive_ptr<c10d::Work> signal(int64_t peer, bool is_async,
					      const c10d::SignalOptions &options) override;
	c10::intrusive_ptr<c10d::Work> wait_signal(int64_t peer, bool is_async,
						   const c10d::WaitSignalOptions &options) override;
	c10d::WindowAttr get_attr(int64_t peer) override;
	std::string text() const; // of repr()

 private:
	using Operation = std::function<void(struct oriel_window *, struct CUstream_st *)>;

	std::shared_ptr<Exposed> exposed(int64_t peer, const char *what) const;
	bool is_on_gpu() const { return exposed_->layout(rank_).device == (int16_t)c10::DeviceType::CUDA; }
	c10::intrusive_ptr<c10d::Work> post(const char *title, int64_t peer, bool is_wait, bool is_async,
					    std::chrono::milliseconds timeout, std::vector<at::Tensor> tensors,
					    const Operation &operation);
	c10::intrusive_ptr<c10d::Work> finish(c10::intrusive_ptr<WindowWork> work, bool is_async);

	const c10::intrusive_ptr<OrielBackend> backend_;
	const int rank_;
	std::shared_ptr<Exposed> exposed_;
	std::weak_ptr<GpuGroup> gpu_; // of a tensor of CUDA
	std::atomic<uint64_t> sequence_{0};
};

#endif

} // namespace oriel_torch
