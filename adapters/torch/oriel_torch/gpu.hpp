// SPDX-License-Identifier: Apache-2.0
// What a process group does with tensors of a GPU: operations in streams, on a communicator of its
// own, which the first of them makes. The backend calls it.
//
// No header of CUDA is needed, so that this is built with every torch: streams and events are those
// of c10, whose interface torch's CUDA part implements.
//
// An operation is posted by the thread that calls it. One that its caller waits for runs in the
// current stream of torch, any other one, and each that is captured, in a stream of the group, behind
// an event of the current one. Each waits for the one before, since an object of the library executes
// in one order. Results arrive in a window that all objects share, in pieces, and are copied to the
// tensors: each rank lets its peers write to it by the next execution alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "collectives.hpp"
#include "window.hpp"
#include "work.hpp"

namespace oriel_torch {

class GpuGroup;

// An operation in a stream. Its end, for the host, is that of its event.
class GpuWork : public c10d::Work {
 public:
	using Lists = OrielWork::Lists;

	GpuWork(int rank, c10d::OpType type, uint64_t sequence, const char *title,
		const std::vector<at::Tensor> &inputs, Lists outputs, std::chrono::milliseconds timeout,
		int source = -1);

	bool isCompleted() override;
	bool isSuccess() const override;
	int sourceRank() const override { return source_; }
	std::vector<at::Tensor> result() override;
	// The current stream waits; the host does not, unless it gives a limit.
	void synchronize() override;
	bool wait(std::chrono::milliseconds timeout) override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
	uint64_t getSequencenumber() const override { return sequence_; }
	// As text_of(); one that a graph has executes with each of its launches: "; captured>".
	std::string text();
	std::chrono::milliseconds getTimeout() const ORIEL_OVERRIDE_NEW { return timeout_; }

 private:
	friend class GpuGroup;

	const char *const title_;
	const std::vector<at::Tensor> inputs_; // stay as long as the work
	const Lists outputs_;
	const uint64_t sequence_;
	const std::chrono::milliseconds timeout_;
	const int source_; // of a message
	// Set before any other thread has the work.
	std::weak_ptr<GpuGroup> group_;
	std::shared_ptr<c10::Event> end_;
	std::optional<c10::Stream> stream_; // that it runs in
	bool is_captured_ = false;          // its event has no end for the host
	c10::intrusive_ptr<c10::ivalue::Future> future_; // guarded by mutex_
};

// Posts collectives to a stream.
class GpuCollectives : public Collectives {
 public:
	// Collective.
	GpuCollectives(struct oriel_comm *comm, c10::Device device);
	// Collective; all that was posted has ended.
	~GpuCollectives() override;

	void use(const c10::Stream &stream); // for what follows
	struct oriel_window *window() const { return window_; }

	void gather_all(const void *send, size_t length, char *const *parts) override;
	void broadcast(unsigned root, void *data, size_t length) override;
	void gather(unsigned root, const void *send, size_t length, char *const *parts) override;
	void scatter(unsigned root, const std::vector<Part> &parts, void *recv, size_t length) override;
	void exchange(const char *send, char *recv, size_t length) override;
	void exchange_any(const std::vector<Part> &send, const std::vector<Part> &recv) override;
	void reduce_all(void *data, size_t count, const struct oriel_reduction *reduction) override;
	void reduce(unsigned root, void *data, size_t count, const struct oriel_reduction *reduction) override;
	void reduce_scatter(const void *send, void *recv, size_t count,
			    const struct oriel_reduction *reduction) override;

	enum Channel : uint32_t { MESSAGES, PARTS, CHANNELS }; // of the window

 private:
	// Bytes of the window: copies from it, beside transfers of as many, cost a tenth of the time.
	static constexpr size_t ROOM = 32u << 20;
	static constexpr uint32_t CHANNEL_BYTES = 1u << 20;

	using Key = std::pair<unsigned, unsigned>; // type and operation

	template <typename Object, typename Create>
	Object *made(Object *&object, Create create, const char *what);
	void take(size_t at, void *to, size_t length, const char *what);
	void copy(void *to, const void *from, size_t length);
	const void *rows(const void *send, size_t stride, size_t at, size_t length, at::Tensor &room);
	size_t share(size_t length) const;
	struct oriel_allreduce *reduction_of(const struct oriel_reduction *reduction, const char *what);
	void reduce_with(bool is_taken, void *data, size_t count, const struct oriel_reduction *reduction,
			 const char *what);

	struct oriel_comm *const comm_;
	const c10::Device device_;
	const unsigned rank_, size_;
	struct oriel_window *window_ = nullptr;
	void *room_ = nullptr; // of window_
	struct oriel_allgather *gather_all_ = nullptr;
	struct oriel_bcast *broadcast_ = nullptr;
	struct oriel_alltoall *exchange_ = nullptr;
	std::map<Key, struct oriel_allreduce *> reduce_all_;
	std::map<Key, struct oriel_reduce_scatter *> reduce_scatter_;
	bool has_factors_ = false; // PREMUL_SUM: the library caches objects over room_
	std::optional<c10::Stream> stream_;
	struct CUstream_st *handle_ = nullptr; // of stream_
	std::optional<c10::Stream> sends_;     // of exchange_any()
};

class GpuGroup : public std::enable_shared_from_this<GpuGroup> {
 public:
	// Collective. Takes @comm, which has the GPU @device, and destroys it if this fails.
	GpuGroup(struct oriel_comm *comm, c10::Device device);
	// Collective; waits for what was posted.
	~GpuGroup();

	// Makes a CUDA context of @device current in the calling thread.
	static void enter(c10::Device device);

	void post(const c10::intrusive_ptr<GpuWork> &work, bool is_async,
		  const std::function<void(Collectives &)> &operation);
	// What has a stream of its own for each peer, in which operations have the order of the calls.
	enum Lane { SENDS, RECEIVES, PUTS, WAITS }; // messages; puts and signals, waits of windows
	void beside(const c10::intrusive_ptr<GpuWork> &work, unsigned peer, Lane lane, bool is_async,
		    const std::function<void(struct CUstream_st *)> &operation);
	void message(const c10::intrusive_ptr<GpuWork> &work, const at::Tensor &tensor, unsigned peer,
		     bool is_send);
	// Collective: a window over @tensor, open until conceal() or the end of the group.
	std::shared_ptr<Exposed> expose(const at::Tensor &tensor, bool is_owning, std::vector<Layout> layouts);
	// Collective; waits for all that the GPU has to do.
	void conceal(const std::shared_ptr<Exposed> &window);
	// The communicator was aborted, and the group goes on without ranks that live: their mappings are of
	// memory that no tensor has any more.
	void leave();
	// As Exposed::refuse(), all windows.
	void refuse() { windows_.refuse(); }
	int views() { return windows_.views(); } // tensors over memory of peers
	// Waits, on the host, for what @current and this group have posted until now.
	void drain(const c10::Stream &current);
	c10::Stream current() const;

	// NULL while the communicator is intact.
	std::exception_ptr failure() const;

	struct oriel_comm *const comm;
	const c10::Device device;

 private:
	void settle();
	bool is_capturing(const c10::Stream &stream, const char *title) const;
	void end(const c10::intrusive_ptr<GpuWork> &work, const c10::Stream &stream, const c10::Stream &current,
		 bool is_captured);

	std::mutex mutex_; // guards what follows
	std::unique_ptr<GpuCollectives> collectives_;
	std::optional<c10::Stream> stream_;
	std::map<std::pair<unsigned, Lane>, c10::Stream> lanes_; // by peer
	OpenWindows windows_;
	// Of the last collective that was not captured.
	std::shared_ptr<c10::Event> last_;
	std::optional<c10::Stream> last_stream_;
};

} // namespace oriel_torch
