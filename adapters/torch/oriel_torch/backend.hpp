// SPDX-License-Identifier: Apache-2.0
// The backend "oriel" of torch.distributed, for tensors in host memory. module.cpp makes it.
#pragma once

#include <atomic>
#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "messenger.hpp"

namespace oriel_torch {

// Memory of the library, in which collectives leave their results without a copy. It grows.
class Scratch {
 public:
	~Scratch();
	char *at_least(size_t length);
	size_t length() const { return length_; }

 private:
	void *memory_ = nullptr;
	size_t length_ = 0;
};

// Checks of arguments: the first says of @what operation a tensor is not for this backend.
void check_tensor(const at::Tensor &tensor, const char *what);
const at::Tensor &only(const std::vector<at::Tensor> &tensors, const char *what);
void check_gather(const std::vector<at::Tensor> &parts, const at::Tensor &whole, int size);

// The bytes of tensors, one behind the other, and the way back.
std::vector<char> bytes_of(const std::vector<at::Tensor> &tensors);
void copy_parts(const std::vector<at::Tensor> &outputs, const char *data);

class OrielBackend : public c10d::Backend {
 public:
	// Collective; ranks meet by @store. @timeout is of every operation.
	OrielBackend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
		     std::chrono::milliseconds timeout);
	~OrielBackend() override;

	const std::string getBackendName() const override { return "oriel"; }
	c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
	uint64_t getSequenceNumberForGroup() override { return sequence_; }
	c10d::ErrorType getError() override;
	void abort() override;
	void shutdown() override;

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

	// Waits for the communicators that shutdown() left behind.
	static void join_closing();

 private:
	WorkPtr submit(c10d::OpType type, const char *title, const Tensors &inputs, Lists outputs,
		       std::chrono::milliseconds timeout, bool is_async,
		       std::function<void()> operation);
	WorkPtr message(c10d::OpType type, const char *title, Tensors &tensors, int peer, int tag);
	void gather_into(const at::Tensor &input, const Tensors &outputs);
	void gather_flat(const at::Tensor &input, at::Tensor &output);
	void exchange(const char *from, const std::vector<uint64_t> &send_lengths,
		      const std::vector<uint64_t> &recv_lengths,
		      const std::function<void(const char *)> &take);
	void prepare_exchange(uint64_t length);
	void scatter_reduced(const at::Tensor &from, const at::Tensor &output,
			     const struct oriel_reduction *reduction);
	void check_root(int64_t root, const char *what) const;
	void close_communicator(bool is_aborted);

	const c10::intrusive_ptr<Options> options_;
	std::atomic<uint64_t> sequence_{0};
	struct oriel_comm *comm_ = nullptr;
	struct oriel_window *window_ = nullptr; // of no memory: its signals and barriers
	uint64_t monitored_ = 0;                // how many monitored barriers there were

	// Of the operation that executes, one at a time.
	Scratch gathered_, exchanged_;
	struct oriel_alltoall *alltoall_ = nullptr;

	std::unique_ptr<Messenger> messenger_;
	Executor executor_;
	std::mutex close_mutex_; // guards is_closed_
	bool is_closed_ = false;
};

} // namespace oriel_torch
