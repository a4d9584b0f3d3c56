// SPDX-License-Identifier: Apache-2.0
// Operations of the backend and their executor: see work.hpp.
#include "work.hpp"

#include <c10/util/Exception.h>

namespace oriel_torch {

void check(enum oriel_status status, const char *what)
{
	if (status < 0)
		C10_THROW_ERROR(DistBackendError,
				c10::str("oriel: ", what,
					 status == ORIEL_ERR_TIMEOUT ? " ended by a timeout (" : " failed (",
					 oriel_status_name(status), "): ", oriel_last_error()));
}

// A future's value is a list of tensors, or of lists of them where an operation has several lists.
static c10::intrusive_ptr<c10::ivalue::Future>
future_for(const std::vector<std::vector<at::Tensor>> &outputs)
{
	c10::TypePtr type = c10::ListType::create(c10::TensorType::get());

	if (outputs.size() > 1)
		type = c10::ListType::create(type);
	return c10::make_intrusive<c10::ivalue::Future>(type);
}

OrielWork::OrielWork(int rank, c10d::OpType type, uint64_t sequence, const char *title,
		     const std::optional<std::vector<at::Tensor>> &inputs,
		     std::vector<std::vector<at::Tensor>> outputs,
		     std::chrono::milliseconds timeout)
    : Work(rank, type, title, inputs), outputs_(std::move(outputs)), sequence_(sequence),
      timeout_(timeout), future_(future_for(outputs_))
{
}

std::vector<at::Tensor> OrielWork::result()
{
	TORCH_CHECK(isCompleted(), "result() of an operation that has not completed: wait() for it");
	return outputs_.empty() ? std::vector<at::Tensor>() : outputs_.at(0);
}

c10::intrusive_ptr<c10::ivalue::Future> OrielWork::getFuture()
{
	return future_;
}

void OrielWork::complete(std::exception_ptr error)
{
	finish(error);
	if (error)
		future_->setError(error);
	else if (outputs_.size() > 1)
		future_->markCompleted(c10::IValue(outputs_));
	else
		future_->markCompleted(c10::IValue(outputs_.empty() ? std::vector<at::Tensor>()
								    : outputs_[0]));
}

void Executor::execute(const Entry &entry)
{
	std::exception_ptr error;

	try {
		entry.operation();
	} catch (...) {
		error = std::current_exception();
	}
	entry.work->complete(error);
}

void Executor::submit(const c10::intrusive_ptr<OrielWork> &work, std::function<void()> operation,
		      bool is_async)
{
	std::unique_lock<std::mutex> lock(mutex_);

	TORCH_CHECK(!is_stopped_, "oriel: the process group was shut down");
	if (is_async || is_busy_ || !entries_.empty()) {
		entries_.push_back({work, std::move(operation)});
		if (!thread_.joinable())
			thread_ = std::thread([this] { loop(); });
		changed_.notify_all();
		return;
	}
	is_busy_ = true;
	lock.unlock();
	execute({work, std::move(operation)});
	lock.lock();
	is_busy_ = false;
	changed_.notify_all();
}

void Executor::loop()
{
	std::unique_lock<std::mutex> lock(mutex_);

	for (;;) {
		changed_.wait(lock, [this] {
			return !is_busy_ && (!entries_.empty() || is_stopped_);
		});
		if (entries_.empty())
			return;
		Entry entry = std::move(entries_.front());
		entries_.pop_front();
		is_busy_ = true;
		lock.unlock();
		execute(entry);
		entry = {}; // tensors may need the lock of Python to be freed
		lock.lock();
		is_busy_ = false;
		changed_.notify_all();
	}
}

void Executor::stop()
{
	{
		std::lock_guard<std::mutex> lock(mutex_);
		is_stopped_ = true;
	}
	changed_.notify_all();
	if (thread_.joinable())
		thread_.join();
}

} // namespace oriel_torch
