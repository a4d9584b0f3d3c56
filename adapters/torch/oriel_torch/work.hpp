// SPDX-License-Identifier: Apache-2.0
// What torch gets for an operation, and the thread that executes collectives in their order. The
// backend uses both.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <oriel/oriel.h>

#include "version.hpp"

namespace oriel_torch {

// "<oriel:all_reduce 7; rank 0; under way>", or "; ended>", "; failed: " and the text of the error. @where is
// "rank 0".
std::string text_of(const char *title, uint64_t sequence, const std::string &where, bool has_ended,
		    std::exception_ptr error);

// Throws the failure @status of this thread's last call, with the text of the library.
void check(enum oriel_status status, const char *what);

// A limit as the library takes it; one of torch that has passed is 1 ns, a look.
uint64_t in_ns(std::chrono::milliseconds timeout);

// Of an object with threads and locks: whether this process is the one that made it. A child of fork() has
// none of the threads, and finds locks and condition variables as they were: it is refused, and leaves
// what the object has where it is.
class Origin {
 public:
	Origin();
	bool is_here() const;
	// Throws in a child, as the library's objects do.
	void check() const;

 private:
	const uint64_t forks_;
};

// How many collectives every rank has begun: a number in its memory, which others read when they miss it.
class Roster {
 public:
	// Collective.
	explicit Roster(struct oriel_comm *comm);
	// Collective; before @comm is destroyed. Operations that are left keep the object, not the
	// window.
	void close();

	// This rank executes its collective @number, from 1 on.
	void begin(uint64_t number) { __atomic_store_n(mine_, number, __ATOMIC_RELAXED); }
	// A text that names the ranks that have not begun collective @number; for people, since they
	// may begin it meanwhile. Any thread; takes LOOK_LIMIT at most.
	std::string missing(uint64_t number);

	struct oriel_window *window() const { return window_; } // for its barriers and signals
	std::chrono::milliseconds limit() const;                // of the communicator
	void abort(const std::string &why) { oriel_comm_abort(comm_, why.c_str()); }

 private:
	static constexpr std::chrono::milliseconds LOOK_LIMIT{300};

	// The numbers of ranks whose memory is not mapped; UINT64_MAX of those that have not answered.
	struct Look {
		std::vector<uint64_t> seen;
		std::promise<void> end;
		std::shared_future<void> has_ended;
	};

	std::shared_ptr<Look> look();

	struct oriel_comm *const comm_;
	struct oriel_window *window_ = nullptr;
	uint64_t *mine_;
	std::vector<const uint64_t *> mapped_; // of each rank; NULL of those whose memory is not mapped
	std::mutex mutex_; // guards what follows, and keeps the window open while it is held
	std::shared_ptr<Look> look_; // the last one
	std::thread looking_;        // of it
	bool is_closed_ = false;
};

// One operation. It is finished once, by the thread that executed it.
class OrielWork : public c10d::Work {
 public:
	using Lists = std::vector<std::vector<at::Tensor>>;

	OrielWork(int rank, c10d::OpType type, uint64_t sequence, const char *title,
		  const std::optional<std::vector<at::Tensor>> &inputs, Lists outputs,
		  std::chrono::milliseconds timeout);

	std::vector<at::Tensor> result() override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
	uint64_t getSequencenumber() const override { return sequence_; }
	std::chrono::milliseconds getTimeout() const ORIEL_OVERRIDE_NEW { return timeout_; }
	// With a limit: the error names the ranks that have not come, and the operation goes on.
	bool wait(std::chrono::milliseconds timeout) override;

	// Any thread, once. The future's callbacks run within.
	void complete(std::exception_ptr error);
	// "oriel:all_reduce 7 on rank 0 has not ended within 300 ms: rank 2 has not begun it".
	std::string late(std::chrono::milliseconds limit) const;
	std::string text();

 protected:
	// "rank 0"; with a peer "rank 0 to 1; mapped", or "rank 0 from 1; mapped".
	virtual std::string where() { return c10::str("rank ", rank_); }
	std::string with_peer(bool is_from, int64_t peer, enum oriel_path path) const;

	const char *const title_; // "oriel:all_reduce"

 private:
	friend class Executor;

	const Lists outputs_;
	const uint64_t sequence_;
	const std::chrono::milliseconds timeout_;
	std::shared_ptr<Roster> roster_; // of a collective
	// The how manieth collective of the roster it is, which is equal on all ranks. A sequence number is not
	// where callbacks call collectives.
	std::atomic<uint64_t> place_{0};
	// Under the mutex of c10d::Work. Few callers ask for a future, and one costs as much as a small
	// operation.
	c10::intrusive_ptr<c10::ivalue::Future> future_;
	bool is_future_done_ = false;

	void end_future();
};

// Ends an operation whose own limit is shorter than that of the communicator, by breaking the latter:
// the library has one limit for the waits of collectives.
class Guard {
 public:
	~Guard();
	void begin(const OrielWork *work, Roster *roster, std::chrono::milliseconds limit);
	// The text of an operation that was ended, or "".
	std::string end();

 private:
	void loop();

	std::mutex mutex_; // guards what follows
	std::condition_variable changed_;
	std::thread thread_; // from the first operation that needs it
	const OrielWork *work_ = nullptr;
	Roster *roster_ = nullptr;
	std::chrono::milliseconds limit_{0};
	std::chrono::steady_clock::time_point deadline_;
	std::string text_;
	bool is_stopped_ = false;
};

// Executes one operation at a time, in the order of submit(), which is that of all ranks. An
// operation that its caller waits for anyway runs on the calling thread if no other is under way:
// that saves two switches of threads.
//
// Callbacks of futures run in the thread that has executed the operation, as a part of it. What they
// submit runs at once, ahead of what waits: nothing else could execute it, and a rank that is late, and
// runs a callback before it submits what its program calls next, has the same order.
class Executor {
 public:
	~Executor() { stop(); }

	// Before the first operation, and while none is under way: they are on this communicator.
	void use(std::shared_ptr<Roster> roster);
	void submit(const c10::intrusive_ptr<OrielWork> &work, std::function<void()> operation,
		    bool is_async);
	// Waits until nothing is under way.
	void drain();
	// Executes what was submitted, and ends the thread.
	void stop();

 private:
	struct Entry {
		c10::intrusive_ptr<OrielWork> work;
		std::function<void()> operation;
	};

	void execute(const Entry &entry);
	bool is_busy() const { return busy_ != std::thread::id(); }
	void execute_alone(Entry entry, std::unique_lock<std::mutex> &lock);
	void execute_within(const Entry &entry, std::unique_lock<std::mutex> &lock);
	void loop();

	std::shared_ptr<Roster> roster_;
	std::chrono::milliseconds limit_{0};
	Guard guard_;
	std::mutex mutex_; // guards what follows
	std::condition_variable changed_;
	std::deque<Entry> entries_;
	std::thread thread_;   // from the first operation that it is needed for
	std::thread::id busy_; // the thread that executes an operation and its callbacks; none
	uint64_t begun_ = 0;   // operations, on the roster
	bool is_stopped_ = false;
};

} // namespace oriel_torch
