// SPDX-License-Identifier: Apache-2.0
// What torch gets for an operation, and the thread that executes collectives in their order. The
// backend uses both.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <oriel/oriel.h>

namespace oriel_torch {

// Throws the failure @status of this thread's last call, with the text of the library.
void check(enum oriel_status status, const char *what);

// One operation. It is finished once, by the thread that executed it.
class OrielWork : public c10d::Work {
 public:
	OrielWork(int rank, c10d::OpType type, uint64_t sequence, const char *title,
		  const std::optional<std::vector<at::Tensor>> &inputs,
		  std::vector<std::vector<at::Tensor>> outputs, std::chrono::milliseconds timeout);

	std::vector<at::Tensor> result() override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
	uint64_t getSequencenumber() const override { return sequence_; }
	std::chrono::milliseconds getTimeout() const override { return timeout_; }

	// Any thread, once. The future's callbacks run within.
	void complete(std::exception_ptr error);

 private:
	const std::vector<std::vector<at::Tensor>> outputs_;
	const uint64_t sequence_;
	const std::chrono::milliseconds timeout_;
	c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Executes one operation at a time, in the order of submit(), which is that of all ranks. An
// operation that its caller waits for anyway runs on the calling thread if no other is under way:
// that saves two switches of threads.
class Executor {
 public:
	~Executor() { stop(); }

	void submit(const c10::intrusive_ptr<OrielWork> &work, std::function<void()> operation,
		    bool is_async);
	// Executes what was submitted, and ends the thread.
	void stop();

 private:
	struct Entry {
		c10::intrusive_ptr<OrielWork> work;
		std::function<void()> operation;
	};

	static void execute(const Entry &entry);
	void loop();

	std::mutex mutex_; // guards what follows
	std::condition_variable changed_;
	std::deque<Entry> entries_;
	std::thread thread_; // from the first operation that it is needed for
	bool is_busy_ = false;
	bool is_stopped_ = false;
};

} // namespace oriel_torch
