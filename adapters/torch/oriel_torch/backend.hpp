// SPDX-License-Identifier: Apache-2.0
// The backend "oriel" of torch.distributed. module.cpp makes it.
#pragma once

#include <atomic>
#include <memory>
#include <set>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "communicator.hpp"
#include "gpu.hpp"

namespace oriel_torch {

// Checks of arguments: the first says of @what operation a tensor is not for this backend.
void check_tensor(const at::Tensor &tensor, const char *what);
const at::Tensor &only(const std::vector<at::Tensor> &tensors, const char *what);
void check_gather(const std::vector<at::Tensor> &parts, const at::Tensor &whole, int size);

// Where the bytes of each of @tensors lie or go: in the tensor, or in one that is contiguous, from
// which copy_back() takes them.
std::vector<Collectives::Part> parts_of(const std::vector<at::Tensor> &tensors,
					std::vector<at::Tensor> &contiguous);
void copy_back(const std::vector<at::Tensor> &tensors, const std::vector<at::Tensor> &contiguous);

void gather_root(Collectives &plans, const at::Tensor &input, const std::vector<at::Tensor> &outputs, unsigned root);

// Collective: a communicator of the ranks that have this @store, in which rank 0 leaves the id of the
// job under @key. @timeout_ns 0 is that of the library; @flags are enum oriel_comm_flags.
struct oriel_comm *meet_by_store(const c10::intrusive_ptr<c10d::Store> &store, const std::string &key, int rank,
				 int size, uint64_t timeout_ns, unsigned flags);

// "rank 1 of 4; 3 mapped; open"
std::string standing_of(struct oriel_comm *comm);

class OrielBackend : public c10d::Backend {
 public:
	// Collective; ranks meet by @store. The timeout of @options is of every operation.
	OrielBackend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
		     const c10::intrusive_ptr<Options> &options);
	~OrielBackend() override;

	const std::string getBackendName() const override { return "oriel"; }
	c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
	uint64_t getSequenceNumberForGroup() override { return sequence_; }
	c10d::ErrorType getError() override;
	// A group with enable_reconfigure stays for that.
	void abort() override;
	void shutdown() override;
	// Of later operations. A longer one than the group was made with has no effect: the library's
	// own ends them.
	void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
	bool supportsSplitting() const override { return true; }
	c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
					  const std::vector<int> &ranks,
					  const c10::intrusive_ptr<Options> &options) override;
	c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
					  const c10::intrusive_ptr<Options> &options, const int &rank,
					  const int &size) override;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
	// The group goes on with the ranks of the handles: it begins so, where it was made for that, and
	// later leaves ranks out, or takes others in. The ranks of the handles call it, after a failure or
	// at any time; a rank that is left out may live on, and be in another list at the same time.
	bool supportsReconfigure() const override { return options_->enable_reconfigure; }
	c10d::ReconfigureHandle get_reconfigure_handle() const override;
	c10::intrusive_ptr<c10d::Work> reconfigure(const c10d::ReconfigureOptions &opts) override;
#endif
#ifdef C10D_BACKEND_HAS_WINDOW
	bool supportsWindow() const override { return true; }
	c10::intrusive_ptr<c10d::Window> new_window(const std::optional<at::Tensor> &tensor) override;
#endif

	using Tensors = std::vector<at::Tensor>;
	using Lists = std::vector<std::vector<at::Tensor>>;
	using WorkPtr = c10::intrusive_ptr<c10d::Work>;

	WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
	WorkPtr allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) override;
	WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
				const c10d::AllgatherOptions &opts) override;
	WorkPtr allgather_coalesced(Lists &outputs, Tensors &inputs,
				    const c10d::AllgatherOptions &opts) override;
	WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
						const c10d::AllgatherOptions &opts) override;
	WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
	WorkPtr allreduce_coalesced(Tensors &tensors,
				    const c10d::AllreduceCoalescedOptions &opts) override;
	WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
	WorkPtr reduce_scatter(Tensors &outputs, Lists &inputs,
			       const c10d::ReduceScatterOptions &opts) override;
	WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
				     const c10d::ReduceScatterOptions &opts) override;
	WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
						const c10d::ReduceScatterOptions &opts) override;
	WorkPtr gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &opts) override;
	WorkPtr scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &opts) override;
	WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
			      std::vector<int64_t> &input_splits,
			      const c10d::AllToAllOptions &opts) override;
	WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts) override;
	WorkPtr send(Tensors &tensors, int peer, int tag) override;
	WorkPtr recv(Tensors &tensors, int peer, int tag) override;
	WorkPtr recvAnysource(Tensors &tensors, int tag) override;
	WorkPtr barrier(const c10d::BarrierOptions &opts) override;
	void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks) override;

	// At exit: waits for the communicators that shutdown() left behind. Later ones do not leave any.
	static void join_closing();
	// Calls @function in a thread that join_closing() waits for; at once if that has been called.
	static void run_apart(std::function<void()> function);

	// Of windows: executes @operation in the order of the collectives, and waits for it.
	void execute(const char *title, std::function<void(Communicator &)> operation);
	std::shared_ptr<Communicator> communicator();
	// Collective by the first call: what the group has for tensors of @device, a GPU.
	std::shared_ptr<GpuGroup> gpu(c10::Device device);
	// "rank 1 of 4; 3 mapped; open"
	std::string standing();
	std::chrono::milliseconds timeout_or(std::chrono::milliseconds timeout) const
	{
		return timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
	}

 private:
	WorkPtr submit(c10d::OpType type, const char *title, const Tensors &inputs, Lists outputs,
		       std::chrono::milliseconds timeout, bool is_async,
		       std::function<void(Collectives &)> operation);
	WorkPtr allreduce_sparse_sum(const at::Tensor &tensor, const c10d::AllreduceOptions &opts);
	WorkPtr message(c10d::OpType type, const char *title, Tensors &tensors, int peer, int tag);
	void check_root(int64_t root, const char *what) const;
	std::shared_ptr<Communicator> take_communicator();
	void open_handle();
	void close_handle();
	std::shared_ptr<GpuGroup> take_gpu();
	void abort_communicators(const char *why);
	void let_go(bool is_complete);
	void close_communicator();
	void abandon();

	const c10::intrusive_ptr<Options> options_;
	std::atomic<uint64_t> sequence_{0}; // of collectives
	std::atomic<uint64_t> messages_{0};
	std::atomic<bool> is_aborted_{false}; // by this rank, and not reconfigured since
	uint64_t monitored_ = 0; // how many monitored barriers there were

	// With enable_reconfigure: the handles of all ranks, that of this one, and what it names.
	std::vector<std::string> members_;
	std::string handle_;
	struct oriel_job_id own_id_;
	std::set<int64_t> uuids_;

	const Origin origin_;
	std::unique_ptr<Executor> executor_ = std::make_unique<Executor>();
	std::mutex change_mutex_; // held by reconfigure(), and while the group shuts down
	std::mutex gpu_mutex_; // guards gpu_
	std::shared_ptr<GpuGroup> gpu_;
	std::mutex close_mutex_; // guards what follows
	std::shared_ptr<Communicator> communicator_; // none before reconfigure() and after shutdown()
};

} // namespace oriel_torch
