// SPDX-License-Identifier: Apache-2.0
// The backend "oriel" of torch.distributed: see backend.hpp.
#include "backend.hpp"
#include "without_python.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <numeric>
#include <thread>

namespace oriel_torch {

static const char STORE_KEY[] = "oriel/job_id";

// Communicators that close: the other ranks may come later, and this one has other work.
struct Closing {
	const Origin origin;
	struct Thread {
		std::thread thread;
		std::shared_ptr<std::atomic<bool>> has_ended;
	};
	std::mutex mutex; // guards what follows
	std::list<Thread> threads;
	bool is_ending = false; // the process: join_closing() was called, which is what joins them
};

// A child of fork() begins with none.
static Closing &closing()
{
	static std::atomic<Closing *> current = new Closing;
	Closing *now = current;

	if (!now->origin.is_here() && current.compare_exchange_strong(now, new Closing))
		now = current;
	return *now;
}

static bool process_is_ending()
{
	Closing &all = closing();
	std::lock_guard<std::mutex> lock(all.mutex);

	return all.is_ending;
}

void check_tensor(const at::Tensor &tensor, const char *what)
{
	TORCH_CHECK(tensor.device().is_cpu() || tensor.device().is_cuda(), what,
		    ": backend oriel takes tensors of the CPU and of CUDA, not of ", tensor.device());
	TORCH_CHECK(tensor.layout() == at::kStrided, what,
		    ": backend oriel takes dense tensors, not sparse ones");
}

const at::Tensor &only(const std::vector<at::Tensor> &tensors, const char *what)
{
	TORCH_CHECK(tensors.size() == 1, what, " takes one tensor, not ", tensors.size());
	check_tensor(tensors[0], what);
	return tensors[0];
}

std::vector<Collectives::Part> parts_of(const std::vector<at::Tensor> &tensors,
					std::vector<at::Tensor> &contiguous)
{
	std::vector<Collectives::Part> parts;

	for (const at::Tensor &tensor : tensors) {
		contiguous.push_back(tensor.contiguous());
		parts.push_back({static_cast<char *>(contiguous.back().data_ptr()), contiguous.back().nbytes()});
	}
	return parts;
}

void copy_back(const std::vector<at::Tensor> &tensors, const std::vector<at::Tensor> &contiguous)
{
	for (size_t i = 0; i < tensors.size(); i++)
		if (!contiguous[i].is_alias_of(tensors[i]))
			at::Tensor(tensors[i]).copy_(contiguous[i]);
}

void OrielBackend::check_root(int64_t root, const char *what) const
{
	TORCH_CHECK(root >= 0 && root < size_, what, ": root rank ", root, " of ", size_);
}

// Collective: a communicator of the job of @id. @flags: enum oriel_comm_flags.
static struct oriel_comm *join_job(const struct oriel_job_id &id, int rank, int size, uint64_t timeout_ns,
				   unsigned flags)
{
	struct oriel_comm_attr attr = {};
	struct oriel_comm *comm = nullptr;

	attr.size = sizeof(attr);
	attr.timeout_ns = timeout_ns;
	attr.flags = flags;
	if (oriel_comm_create_id(&id, rank, size, &attr, &comm) != ORIEL_OK)
		C10_THROW_ERROR(DistBackendError, c10::str("oriel: rank ", rank, ": ", oriel_last_error()));
	return comm;
}

struct oriel_comm *meet_by_store(const c10::intrusive_ptr<c10d::Store> &store, const std::string &key, int rank,
				 int size, uint64_t timeout_ns, unsigned flags)
{
	struct oriel_job_id id;

	if (rank != 0) {
		std::vector<uint8_t> bytes = store->get(key);

		TORCH_CHECK(bytes.size() == sizeof(id.bytes), "oriel: the job id of rank 0 has ",
			    bytes.size(), " bytes, not ", sizeof(id.bytes));
		memcpy(id.bytes, bytes.data(), sizeof(id.bytes));
		return join_job(id, rank, size, timeout_ns, flags);
	}
	check(oriel_job_id_open(&id), "job id");
	// All ranks have read it then, or do not come. Where ranks are started again with the same store, a
	// rank that came before the new rank 0 would find it.
	auto close = [&](struct oriel_job_id *open) {
		oriel_job_id_close(open);
		try {
			store->deleteKey(key);
		} catch (const std::exception &error) {
			TORCH_WARN("oriel: the store keeps the key ", key, ": ", error.what());
		}
	};
	std::unique_ptr<struct oriel_job_id, decltype(close)> closing(&id, close);

	store->set(key, std::vector<uint8_t>(id.bytes, id.bytes + sizeof(id.bytes)));
	return join_job(id, rank, size, timeout_ns, flags);
}

OrielBackend::OrielBackend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
			   const c10::intrusive_ptr<Options> &options)
    : Backend(rank, size), options_(options)
{
	init();
#ifdef C10D_BACKEND_HAS_RECONFIGURE
	if (options_->enable_reconfigure) {
		open_handle();
		return;
	}
#endif
	communicator_ = std::make_shared<Communicator>(
		meet_by_store(store, STORE_KEY, rank, size, in_ns(options_->timeout), 0));
	executor_->use(communicator_->roster);
}

c10::intrusive_ptr<c10d::Backend> OrielBackend::split(const c10::intrusive_ptr<c10d::Store> &store,
						      const std::vector<int> &ranks,
						      const c10::intrusive_ptr<Options> &options)
{
	auto mine = std::find(ranks.begin(), ranks.end(), rank_);

	if (mine == ranks.end())
		return nullptr;
	return c10::make_intrusive<OrielBackend>(store, (int)(mine - ranks.begin()), (int)ranks.size(),
						 options);
}

c10::intrusive_ptr<c10d::Backend> OrielBackend::merge(const c10::intrusive_ptr<c10d::Store> &store,
						      const c10::intrusive_ptr<Options> &options,
						      const int &rank, const int &size)
{
	return c10::make_intrusive<OrielBackend>(store, rank, size, options);
}

std::shared_ptr<Communicator> OrielBackend::communicator()
{
	origin_.check();
	std::lock_guard<std::mutex> lock(close_mutex_);

	TORCH_CHECK(communicator_, "oriel: the process group was shut down, or awaits reconfigure()");
	return communicator_;
}

void OrielBackend::execute(const char *title, std::function<void(Communicator &)> operation)
{
	submit(c10d::OpType::UNKNOWN, title, {}, {}, c10d::kUnsetTimeout, false,
	       [with = communicator(), &operation](Collectives &) { operation(*with); })
		->wait();
}

#ifdef C10D_BACKEND_HAS_WINDOW
c10::intrusive_ptr<c10d::Window> OrielBackend::new_window(const std::optional<at::Tensor> &tensor)
{
	auto self = c10::intrusive_ptr<OrielBackend>::unsafe_reclaim_from_nonowning(this);
	auto window = c10::make_intrusive<OrielWindow>(self, rank_);

	if (tensor)
		window->tensor_register(*tensor, true);
	return window;
}
#endif

// At the end of a process that did not shut down the group, maybe because of an exception: other
// ranks may await an operation of this one, which would await them.
OrielBackend::~OrielBackend()
{
	if (!origin_.is_here()) {
		abandon();
		return;
	}
	if (process_is_ending())
		abort_communicators("the process ends without destroy_process_group()");
	// Operations may need the lock of Python to end, which this thread may have.
	WithoutPython waits;
	close_communicator();
}

// In a child of fork(): the objects are its parent's, and their threads are not here to end.
void OrielBackend::abandon()
{
	static_cast<void>(executor_.release());
	new std::shared_ptr<Communicator>(std::move(communicator_));
	new std::shared_ptr<GpuGroup>(std::move(gpu_));
}

void OrielBackend::shutdown()
{
	close_communicator();
}

void OrielBackend::abort()
{
	if (!origin_.is_here())
		return;
	is_aborted_ = true;
	abort_communicators("the process group was aborted");
#ifdef C10D_BACKEND_HAS_RECONFIGURE
	if (options_->enable_reconfigure)
		return; // the group may go on by reconfigure()
#endif
	close_communicator();
}

std::shared_ptr<Communicator> OrielBackend::take_communicator()
{
	std::lock_guard<std::mutex> lock(close_mutex_);

	return std::move(communicator_);
}

std::shared_ptr<GpuGroup> OrielBackend::take_gpu()
{
	std::lock_guard<std::mutex> lock(gpu_mutex_);

	return std::move(gpu_);
}

// All that is under way ends, on all ranks.
void OrielBackend::abort_communicators(const char *why)
{
	{
		std::lock_guard<std::mutex> lock(close_mutex_);
		if (communicator_)
			oriel_comm_abort(communicator_->comm, why);
	}
	// An operation that makes it has ended by the above.
	std::lock_guard<std::mutex> lock(gpu_mutex_);
	if (gpu_)
		oriel_comm_abort(gpu_->comm, why);
}

void OrielBackend::close_communicator()
{
	if (!origin_.is_here())
		return;
	// What reconfigure() makes meanwhile is closed, too.
	std::lock_guard<std::mutex> lock(change_mutex_);
	executor_->stop();
#ifdef C10D_BACKEND_HAS_RECONFIGURE
	close_handle();
#endif
	auto taken = take_communicator();
	if (!taken)
		return;
	taken->messenger.stop(in_ns(options_->timeout));
	auto taken_gpu = take_gpu();
	taken->windows.refuse();
	if (taken_gpu)
		taken_gpu->refuse();
	// Closing waits for the other ranks, which may shut down other groups first: so a thread waits.
	run_apart([taken = std::move(taken), gpu = std::move(taken_gpu)]() mutable {
		gpu.reset();
		taken.reset();
	});
}

void OrielBackend::run_apart(std::function<void()> function)
{
	{
		Closing &all = closing();
		std::lock_guard<std::mutex> lock(all.mutex);

		if (!all.is_ending) {
			auto has_ended = std::make_shared<std::atomic<bool>>(false);

			all.threads.remove_if([](auto &each) {
				if (!*each.has_ended)
					return false;
				each.thread.join();
				return true;
			});
			all.threads.push_back({std::thread([has_ended, function = std::move(function)]() mutable {
						       function();
						       function = nullptr;
						       *has_ended = true;
					       }),
					       has_ended});
			return;
		}
	}
	function();
}

void OrielBackend::join_closing()
{
	std::list<Closing::Thread> threads;

	{
		Closing &all = closing();
		std::lock_guard<std::mutex> lock(all.mutex);
		threads.swap(all.threads);
		all.is_ending = true;
	}
	for (auto &each : threads)
		each.thread.join();
}

std::string standing_of(struct oriel_comm *comm)
{
	std::string text = c10::str("rank ", oriel_comm_rank(comm), " of ", oriel_comm_size(comm), "; ");
	std::map<enum oriel_path, int> counts;
	struct oriel_health health = {};

	for (unsigned peer = 0; peer < oriel_comm_size(comm); peer++) {
		enum oriel_path path = ORIEL_PATH_NONE;

		check(oriel_comm_path(comm, peer, &path), "path");
		if (peer != oriel_comm_rank(comm))
			counts[path]++;
	}
	for (auto [path, count] : counts)
		text += c10::str(count, " ", oriel_path_name(path), path == counts.rbegin()->first ? "; " : ", ");
	health.size = sizeof(health);
	check(oriel_comm_health(comm, &health), "health");
	if (health.status == ORIEL_OK)
		return text + "open";
	char why[512];
	oriel_health_text(&health, why, sizeof(why));
	return text + "broken: " + why;
}

std::string OrielBackend::standing()
{
	if (!origin_.is_here())
		return c10::str("rank ", rank_, " of ", size_, "; of the process that forked this one");
	std::lock_guard<std::mutex> lock(close_mutex_);

	if (!communicator_)
		return c10::str("rank ", rank_, " of ", size_, "; closed, or awaits reconfigure()");
	return standing_of(communicator_->comm);
}

static c10d::ErrorType error_of(struct oriel_comm *comm)
{
	struct oriel_health health = {};

	health.size = sizeof(health);
	if (oriel_comm_health(comm, &health) != ORIEL_OK)
		return c10d::ErrorType::COMM_ERROR;
	switch (health.status) {
	case ORIEL_OK:
		return c10d::ErrorType::SUCCESS;
	case ORIEL_ERR_TIMEOUT:
		return c10d::ErrorType::TIMEOUT;
	case ORIEL_ERR_PEER:
	case ORIEL_ERR_ABORTED:
		return c10d::ErrorType::REMOTE_ERROR;
	default:
		return c10d::ErrorType::COMM_ERROR;
	}
}

c10d::ErrorType OrielBackend::getError()
{
	if (!origin_.is_here())
		return c10d::ErrorType::COMM_ERROR;
	c10d::ErrorType error = c10d::ErrorType::COMM_ERROR;

	{
		std::lock_guard<std::mutex> lock(close_mutex_);
		// After abort() it is that, whichever rank was the first to abort.
		if (communicator_ && !is_aborted_)
			error = error_of(communicator_->comm);
	}
	std::lock_guard<std::mutex> lock(gpu_mutex_);
	return error == c10d::ErrorType::SUCCESS && gpu_ ? error_of(gpu_->comm) : error;
}

// The device of all of them; the CPU if there are none.
static c10::Device device_of(const char *title, const std::vector<at::Tensor> &inputs,
			     const OrielBackend::Lists &outputs)
{
	const at::Tensor *first = nullptr;
	auto look = [&](const std::vector<at::Tensor> &tensors) {
		for (const at::Tensor &tensor : tensors) {
			first = first ? first : &tensor;
			TORCH_CHECK(tensor.device() == first->device(), title, ": tensors of ", first->device(),
				    " and ", tensor.device());
		}
	};

	look(inputs);
	for (const auto &list : outputs)
		look(list);
	return first ? first->device() : c10::Device(c10::DeviceType::CPU);
}

OrielBackend::WorkPtr OrielBackend::submit(c10d::OpType type, const char *title,
					   const Tensors &inputs, Lists outputs,
					   std::chrono::milliseconds timeout, bool is_async,
					   std::function<void(Collectives &)> operation)
{
	c10::Device device = device_of(title, inputs, outputs);

	if (device.is_cuda()) {
		auto with = gpu(device);
		auto work = c10::make_intrusive<GpuWork>(rank_, type, ++sequence_, title, inputs, std::move(outputs),
							 timeout_or(timeout));

		with->post(work, is_async, operation);
		return work;
	}
	auto work = c10::make_intrusive<OrielWork>(rank_, type, ++sequence_, title, inputs,
						   std::move(outputs), timeout_or(timeout));

	executor_->submit(work, [with = communicator(), operation = std::move(operation)] { operation(with->plans); },
			 is_async);
	return work;
}

// The communicator of tensors of @device is made by the first operation on one.
std::shared_ptr<GpuGroup> OrielBackend::gpu(c10::Device device)
{
	origin_.check();
	std::lock_guard<std::mutex> lock(gpu_mutex_);

	if (!gpu_)
		execute("oriel:gpu", [&](Communicator &with) {
			struct oriel_comm_attr attr = {};
			struct oriel_comm *comm = nullptr;
			c10::DeviceGuard guard(device);

			GpuGroup::enter(device);
			attr.size = sizeof(attr);
			attr.flags = ORIEL_COMM_GPU;
			attr.timeout_ns = oriel_comm_timeout(with.comm);
			check(oriel_comm_split(with.comm, 0, (int)with.rank, &attr, &comm), "communicator of GPUs");
			gpu_ = std::make_shared<GpuGroup>(comm, device);
		});
	TORCH_CHECK(gpu_->device == device, "oriel: this process group has tensors of ", gpu_->device,
		    ", and takes none of ", device);
	return gpu_;
}

OrielBackend::WorkPtr OrielBackend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
	at::Tensor tensor = only(tensors, "broadcast");
	auto root = (unsigned)opts.rootRank;

	check_root(opts.rootRank, "broadcast");
	return submit(c10d::OpType::BROADCAST, "oriel:broadcast", tensors, {tensors}, opts.timeout,
		      opts.asyncOp, [tensor, root](Collectives &plans) {
			      at::Tensor flat = tensor.contiguous();

			      plans.broadcast(root, flat.data_ptr(), flat.nbytes());
			      if (!flat.is_alias_of(tensor))
				      at::Tensor(tensor).copy_(flat);
		      });
}

static std::vector<char *> addresses_of(const std::vector<Collectives::Part> &parts)
{
	std::vector<char *> addresses;

	for (const auto &part : parts)
		addresses.push_back(part.data);
	return addresses;
}

// The message of every rank to @outputs, one for each rank.
static void gather_into(Collectives &plans, const at::Tensor &input, const std::vector<at::Tensor> &outputs)
{
	at::Tensor flat = input.contiguous();
	std::vector<at::Tensor> contiguous;
	auto parts = addresses_of(parts_of(outputs, contiguous));

	plans.gather_all(flat.data_ptr(), flat.nbytes(), parts.data());
	copy_back(outputs, contiguous);
}

void gather_root(Collectives &plans, const at::Tensor &input, const std::vector<at::Tensor> &outputs, unsigned root)
{
	at::Tensor flat = input.contiguous();
	std::vector<at::Tensor> contiguous;
	auto parts = addresses_of(parts_of(outputs, contiguous));

	plans.gather(root, flat.data_ptr(), flat.nbytes(), parts.data());
	copy_back(outputs, contiguous);
}

void check_gather(const std::vector<at::Tensor> &outputs, const at::Tensor &input, int size)
{
	check_tensor(input, "all_gather");
	TORCH_CHECK(outputs.size() == (size_t)size, "a list of ", outputs.size(), " tensors for ", size,
		    " ranks");
	for (const at::Tensor &output : outputs) {
		check_tensor(output, "all_gather");
		TORCH_CHECK(output.scalar_type() == input.scalar_type() && output.sizes() == input.sizes(),
			    "an output is ", output.scalar_type(), output.sizes(), " of the list, the other tensor ",
			    input.scalar_type(), input.sizes());
	}
}

OrielBackend::WorkPtr OrielBackend::allgather(Lists &outputs, Tensors &inputs,
					      const c10d::AllgatherOptions &opts)
{
	at::Tensor input = only(inputs, "all_gather");

	TORCH_CHECK(outputs.size() == 1, "all_gather takes one list of outputs, not ", outputs.size());
	check_gather(outputs[0], input, size_);
	return submit(c10d::OpType::ALLGATHER, "oriel:all_gather", inputs, outputs, opts.timeout,
		      opts.asyncOp,
		      [input, list = outputs[0]](Collectives &plans) { gather_into(plans, input, list); });
}

static void gather_flat(Collectives &plans, const at::Tensor &input, at::Tensor &output, int size)
{
	at::Tensor from = input.contiguous(), to = output.contiguous();
	std::vector<char *> parts(size);

	for (int r = 0; r < size; r++)
		parts[r] = static_cast<char *>(to.data_ptr()) + r * from.nbytes();
	plans.gather_all(from.data_ptr(), from.nbytes(), parts.data());
	if (!to.is_alias_of(output))
		output.copy_(to);
}

static void check_gather_flat(const at::Tensor &output, const at::Tensor &input, int size)
{
	check_tensor(input, "all_gather_into_tensor");
	check_tensor(output, "all_gather_into_tensor");
	TORCH_CHECK(output.scalar_type() == input.scalar_type(),
		    "all_gather_into_tensor: the output is ", output.scalar_type(), ", the input ",
		    input.scalar_type());
	TORCH_CHECK(output.numel() == input.numel() * size, "all_gather_into_tensor: the output has ",
		    output.numel(), " elements, the result ", input.numel() * size);
}

OrielBackend::WorkPtr OrielBackend::_allgather_base(at::Tensor &output, at::Tensor &input,
						    const c10d::AllgatherOptions &opts)
{
	check_gather_flat(output, input, size_);
	return submit(c10d::OpType::_ALLGATHER_BASE, "oriel:_all_gather_base", {input}, {{output}},
		      opts.timeout, opts.asyncOp,
		      [this, input, output](Collectives &plans) mutable {
			      gather_flat(plans, input, output, size_);
		      });
}

OrielBackend::WorkPtr OrielBackend::allgather_coalesced(Lists &outputs, Tensors &inputs,
							const c10d::AllgatherOptions &opts)
{
	TORCH_CHECK(outputs.size() == (size_t)size_, "all_gather_coalesced: ", outputs.size(),
		    " lists of outputs for ", size_, " ranks");
	Lists of_input(inputs.size());
	for (size_t i = 0; i < inputs.size(); i++) {
		for (const Tensors &list : outputs) {
			TORCH_CHECK(list.size() == inputs.size(), "all_gather_coalesced: ", list.size(),
				    " outputs of a rank for ", inputs.size(), " inputs");
			of_input[i].push_back(list[i]);
		}
		check_gather(of_input[i], inputs[i], size_);
	}
	return submit(c10d::OpType::ALLGATHER_COALESCED, "oriel:all_gather_coalesced", inputs, outputs,
		      opts.timeout, opts.asyncOp, [inputs, of_input](Collectives &plans) {
			      for (size_t i = 0; i < inputs.size(); i++)
				      gather_into(plans, inputs[i], of_input[i]);
		      });
}

OrielBackend::WorkPtr
OrielBackend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
					      const c10d::AllgatherOptions &opts)
{
	TORCH_CHECK(outputs.size() == inputs.size(), "all_gather_into_tensor_coalesced: ",
		    outputs.size(), " outputs for ", inputs.size(), " inputs");
	for (size_t i = 0; i < inputs.size(); i++)
		check_gather_flat(outputs[i], inputs[i], size_);
	return submit(GATHERS_COALESCED,
		      "oriel:all_gather_into_tensor_coalesced", inputs, {outputs}, opts.timeout,
		      opts.asyncOp, [this, inputs, outputs](Collectives &plans) mutable {
			      for (size_t i = 0; i < inputs.size(); i++)
				      gather_flat(plans, inputs[i], outputs[i], size_);
		      });
}

// Bytes of each rank's part of @tensor: @splits of its rows, or equal parts.
static std::vector<uint64_t> lengths_of(const at::Tensor &tensor, const std::vector<int64_t> &splits,
				      int size, const char *what)
{
	int64_t rows = tensor.dim() ? tensor.size(0) : 1;
	uint64_t row = rows ? tensor.nbytes() / rows : 0;
	std::vector<uint64_t> parts;

	if (splits.empty()) {
		TORCH_CHECK(rows % size == 0, "all_to_all_single: the ", what, " has ", rows,
			    " rows, which are no ", size, " equal parts");
		return std::vector<uint64_t>(size, row * (rows / size));
	}
	TORCH_CHECK(splits.size() == (size_t)size, "all_to_all_single: ", splits.size(), " splits of the ",
		    what, " for ", size, " ranks");
	TORCH_CHECK(std::accumulate(splits.begin(), splits.end(), (int64_t)0) == rows,
		    "all_to_all_single: the splits of the ", what, " do not add up to its ", rows, " rows");
	for (int64_t split : splits)
		parts.push_back(row * split);
	return parts;
}

static std::vector<Collectives::Part> cut(const at::Tensor &tensor, const std::vector<uint64_t> &lengths)
{
	std::vector<Collectives::Part> parts;
	auto *at = static_cast<char *>(tensor.data_ptr());

	for (uint64_t length : lengths) {
		parts.push_back({at, length});
		at += length;
	}
	return parts;
}

OrielBackend::WorkPtr OrielBackend::alltoall_base(at::Tensor &output, at::Tensor &input,
						  std::vector<int64_t> &output_splits,
						  std::vector<int64_t> &input_splits,
						  const c10d::AllToAllOptions &opts)
{
	check_tensor(input, "all_to_all_single");
	check_tensor(output, "all_to_all_single");
	TORCH_CHECK(output.scalar_type() == input.scalar_type(), "all_to_all_single: the output is ",
		    output.scalar_type(), ", the input ", input.scalar_type());
	auto send_lengths = lengths_of(input, input_splits, size_, "input");
	auto recv_lengths = lengths_of(output, output_splits, size_, "output");
	bool is_equal = input_splits.empty() && output_splits.empty();

	TORCH_CHECK(!is_equal || output.nbytes() == input.nbytes(), "all_to_all_single: the output has ",
		    output.nbytes(), " bytes, the input ", input.nbytes());
	return submit(c10d::OpType::ALLTOALL_BASE, "oriel:all_to_all", {input}, {{output}}, opts.timeout,
		      opts.asyncOp, [=, this](Collectives &plans) mutable {
			      at::Tensor from = input.contiguous(), to = output.contiguous();

			      if (is_equal)
				      plans.exchange(static_cast<char *>(from.data_ptr()),
						     static_cast<char *>(to.data_ptr()), from.nbytes() / size_);
			      else
				      plans.exchange_any(cut(from, send_lengths), cut(to, recv_lengths));
			      if (!to.is_alias_of(output))
				      output.copy_(to);
		      });
}

OrielBackend::WorkPtr OrielBackend::alltoall(Tensors &outputs, Tensors &inputs,
					     const c10d::AllToAllOptions &opts)
{
	TORCH_CHECK(outputs.size() == (size_t)size_ && inputs.size() == (size_t)size_, "all_to_all: ",
		    inputs.size(), " inputs and ", outputs.size(), " outputs for ", size_, " ranks");
	for (int r = 0; r < size_; r++) {
		check_tensor(inputs[r], "all_to_all");
		check_tensor(outputs[r], "all_to_all");
	}
	return submit(c10d::OpType::ALLTOALL, "oriel:all_to_all", inputs, {outputs}, opts.timeout,
		      opts.asyncOp, [inputs, outputs](Collectives &plans) {
			      Tensors from, to;
			      auto send = parts_of(inputs, from), recv = parts_of(outputs, to);

			      plans.exchange_any(send, recv);
			      copy_back(outputs, to);
		      });
}

} // namespace oriel_torch
