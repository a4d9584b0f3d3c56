// SPDX-License-Identifier: Apache-2.0
// Messages and barriers of the backend: see backend.hpp.
#include "backend.hpp"

namespace oriel_torch {

enum Slot : uint32_t { BARRIER_SLOT = 0 };
enum Signal : uint32_t { ARRIVED, RELEASED };

OrielBackend::WorkPtr OrielBackend::message(c10d::OpType type, const char *title, Tensors &tensors,
					    int peer, int tag)
{
	const at::Tensor &tensor = only(tensors, title);

	TORCH_CHECK(tensor.is_contiguous(), title, ": the tensor must be contiguous");
	TORCH_CHECK(type == c10d::OpType::RECVANYSOURCE || (peer >= 0 && peer < size_), title, ": rank ",
		    peer, " of ", size_);
	TORCH_CHECK(tag >= 0, title, ": tag ", tag, " is negative");
	if (tensor.is_cuda()) {
		TORCH_CHECK(type != c10d::OpType::RECVANYSOURCE, title,
			    ": backend oriel receives tensors of a GPU from a rank that is named");
		auto work = c10::make_intrusive<GpuWork>(rank_, type, ++messages_, title, tensors, Lists{tensors},
							 options_->timeout, type == c10d::OpType::RECV ? peer : -1);

		gpu(tensor.device())->message(work, tensor, (unsigned)peer, type == c10d::OpType::SEND);
		return work;
	}
	auto with = communicator();
	auto work = c10::make_intrusive<MessageWork>(with, rank_, type, ++messages_, title, tensor, peer, tag,
						     options_->timeout);

	if (type == c10d::OpType::SEND)
		with->messenger.send(work, tensor, peer, tag);
	else
		with->messenger.recv(work, tensor, peer, tag);
	return work;
}

OrielBackend::WorkPtr OrielBackend::send(Tensors &tensors, int peer, int tag)
{
	return message(c10d::OpType::SEND, "oriel:send", tensors, peer, tag);
}

OrielBackend::WorkPtr OrielBackend::recv(Tensors &tensors, int peer, int tag)
{
	return message(c10d::OpType::RECV, "oriel:recv", tensors, peer, tag);
}

OrielBackend::WorkPtr OrielBackend::recvAnysource(Tensors &tensors, int tag)
{
	return message(c10d::OpType::RECVANYSOURCE, "oriel:recvAnySource", tensors, Messenger::ANY, tag);
}

OrielBackend::WorkPtr OrielBackend::barrier(const c10d::BarrierOptions &opts)
{
	origin_.check();
	std::shared_ptr<GpuGroup> on_gpu;
	{
		std::lock_guard<std::mutex> lock(gpu_mutex_);
		on_gpu = gpu_;
	}
	std::optional<c10::Stream> stream;

	if (on_gpu)
		stream = on_gpu->current();
	// All that was submitted before has been executed when it is: one operation at a time is.
	return submit(c10d::OpType::BARRIER, "oriel:barrier", {}, {}, opts.timeout, opts.asyncOp,
		      [with = communicator(), on_gpu, stream](Collectives &) {
		if (on_gpu)
			on_gpu->drain(*stream);
		check(oriel_window_barrier(with->roster->window(), BARRIER_SLOT, 0), "barrier");
	});
}

void OrielBackend::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks)
{
	auto timeout = timeout_or(opts.timeout);
	auto with = communicator();
	struct oriel_window *window = with->roster->window();
	auto deadline = std::chrono::steady_clock::now() + timeout;
	auto left = [&] {
		auto now = std::chrono::steady_clock::now();
		return in_ns(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now));
	};
	std::vector<int> missing;

	monitored_++;
	if (rank_ != 0) {
		check(oriel_window_signal(window, 0, ARRIVED, ORIEL_SIGNAL_ADD, 1), "monitored_barrier");
		enum oriel_status status = oriel_window_wait_signal_from(window, 0, RELEASED, ORIEL_GE,
									  monitored_, left());

		TORCH_CHECK(status == ORIEL_OK, "Rank ", rank_,
			    " successfully reached monitoredBarrier, but received errors while waiting for "
			    "send/recv from rank 0. Please check rank 0 logs for faulty rank. ",
			    oriel_last_error());
		return;
	}
	TORCH_CHECK(size_ == 1 || std::chrono::steady_clock::now() < deadline,
		    "Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms");
	for (int r = 1; r < size_ && (missing.empty() || wait_all_ranks); r++) {
		enum oriel_status status = oriel_window_wait_signal_from(window, r, ARRIVED, ORIEL_GE,
									  monitored_, left());

		if (status != ORIEL_OK && status != ORIEL_ERR_TIMEOUT && status != ORIEL_ERR_PEER)
			check(status, "monitored_barrier");
		if (status != ORIEL_OK)
			missing.push_back(r);
	}
	TORCH_CHECK(missing.empty(), missing.size() > 1 ? "Ranks " : "Rank ", c10::Join(", ", missing),
		    " failed to pass monitoredBarrier in ", timeout.count(), " ms");
	for (int r = 1; r < size_; r++)
		check(oriel_window_signal(window, r, RELEASED, ORIEL_SIGNAL_ADD, 1), "monitored_barrier");
}

} // namespace oriel_torch
