// SPDX-License-Identifier: Apache-2.0
// Symmetric memory: see symmetric.hpp.
#include "symmetric.hpp"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "backend.hpp"
#include "without_python.hpp"

namespace oriel_torch {

namespace symmetric = c10d::symmetric_memory;

struct CUstream_st *handle_of(const c10::Stream &stream);

static constexpr unsigned CHANNELS = 64; // each has a signal of each pair of ranks, and a barrier

// One allocation as all ranks of a group map it.
class SymmetricBlock : public symmetric::SymmetricMemory {
 public:
	SymmetricBlock(struct oriel_comm *comm, struct oriel_window *window, size_t length, c10::Device device)
	    : comm_(comm), window_(window), length_(length), device_(device), rank_((int)oriel_comm_rank(comm)),
	      size_((int)oriel_comm_size(comm))
	{
		for (int peer = 0; peer < size_; peer++) {
			size_t room = 0;
			void *address = nullptr;

			check(oriel_window_peer_address(window_, peer, 0, &address), "rendezvous");
			check(oriel_window_peer_length(window_, peer, 0, &room), "rendezvous");
			TORCH_CHECK(room == length_ + symmetric::get_signal_pad_size(), "rendezvous: rank ", peer,
				    " has ", room - symmetric::get_signal_pad_size(), " bytes, rank ", rank_, " ", length_);
			buffers_.push_back(address);
			pads_.push_back(static_cast<char *>(address) + length_);
		}
		if (device_.is_cuda()) {
			buffers_on_gpu_ = on_gpu(buffers_);
			pads_on_gpu_ = on_gpu(pads_);
		}
	}

	std::vector<void *> get_buffer_ptrs() override { return buffers_; }
	std::vector<void *> get_signal_pad_ptrs() override { return pads_; }
	void **get_buffer_ptrs_dev() override
	{
		return device_.is_cuda() ? static_cast<void **>(buffers_on_gpu_.data_ptr()) : buffers_.data();
	}
	void **get_signal_pad_ptrs_dev() override
	{
		return device_.is_cuda() ? static_cast<void **>(pads_on_gpu_.data_ptr()) : pads_.data();
	}
	size_t get_buffer_size() override { return length_; }
	size_t get_offset() override { return 0; }
	bool has_multicast_support() override { return false; }
	void *get_multicast_ptr() override { return nullptr; }
	int get_rank() override { return rank_; }
	int get_world_size() override { return size_; }
	c10::Device get_device() override { return device_; }
	bool world_within_direct_access() override { return true; }

	// On a GPU in the current stream. A limit that passes there breaks the communicator.
	void barrier(int channel, size_t timeout_ms) override
	{
		uint32_t slot = checked(channel);
		WithoutPython waits;

		check(device_.is_cuda() ? oriel_window_barrier_on_stream(window_, slot, limit(timeout_ms), stream())
					: oriel_window_barrier(window_, slot, limit(timeout_ms)),
		      "barrier");
	}

	void put_signal(int peer, int channel, size_t) override
	{
		uint32_t id = checked(channel);
		WithoutPython waits;

		check_peer(peer);
		check(device_.is_cuda()
			      ? oriel_window_signal_on_stream(window_, peer, id, ORIEL_SIGNAL_ADD, 1, stream())
			      : oriel_window_signal(window_, peer, id, ORIEL_SIGNAL_ADD, 1),
		      "put_signal");
	}

	void wait_signal(int peer, int channel, size_t timeout_ms) override
	{
		uint32_t id = checked(channel);
		WithoutPython waits;

		check_peer(peer);
		check(device_.is_cuda()
			      ? oriel_window_wait_signal_next_on_stream(window_, peer, id, 1, limit(timeout_ms), stream())
			      : oriel_window_wait_signal_next(window_, peer, id, 1, limit(timeout_ms)),
		      "wait_signal");
	}

	std::string text() const
	{
		return c10::str("<oriel symmetric memory of ", length_, " bytes on ", device_, "; ", standing_of(comm_), ">");
	}

 private:
	static uint32_t checked(int channel)
	{
		TORCH_CHECK(channel >= 0 && channel < (int)CHANNELS, "channel ", channel, " of ", CHANNELS);
		return (uint32_t)channel;
	}

	void check_peer(int peer) const
	{
		TORCH_CHECK(peer >= 0 && peer < size_, "rank ", peer, " of ", size_);
	}

	struct CUstream_st *stream() const
	{
		return handle_of(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
	}

	at::Tensor on_gpu(std::vector<void *> &addresses) const
	{
		return at::from_blob(addresses.data(), {(int64_t)addresses.size()}, at::TensorOptions(at::kLong))
			.to(device_);
	}

	// 0 is that of the communicator.
	static uint64_t limit(size_t timeout_ms) { return (uint64_t)timeout_ms * 1000000u; }

	struct oriel_comm *const comm_;
	struct oriel_window *const window_;
	const size_t length_;
	const c10::Device device_;
	const int rank_, size_;
	std::vector<void *> buffers_, pads_;
	at::Tensor buffers_on_gpu_, pads_on_gpu_;
};

void *SymmetricAllocator::alloc(size_t size, int index, const std::optional<std::string> &group)
{
	std::lock_guard<std::mutex> lock(mutex_);
	c10::Device device(type_, type_ == c10::DeviceType::CPU ? -1 : (c10::DeviceIndex)index);
	c10::OptionalDeviceGuard guard;
	// So that the pad is aligned.
	size_t length = (std::max<size_t>(size, 1) + 63) / 64 * 64;
	void *memory = nullptr;

	if (device.is_cuda()) {
		guard.reset_device(device);
		GpuGroup::enter(device);
	}
	check(oriel_memory_alloc(length + symmetric::get_signal_pad_size(),
				 device.is_cuda() ? ORIEL_MEMORY_DEVICE : 0, &memory),
	      "symmetric memory");
	blocks_[static_cast<char *>(memory)] = {length, device, group, {}};
	return memory;
}

void SymmetricAllocator::free(void *address)
{
	std::lock_guard<std::mutex> lock(mutex_);

	if (blocks_.erase(static_cast<char *>(address)))
		oriel_memory_free(address);
}

SymmetricAllocator::Blocks::iterator SymmetricAllocator::find(void *address)
{
	auto block = blocks_.upper_bound(static_cast<char *>(address));

	if (block == blocks_.begin())
		return blocks_.end();
	--block;
	return static_cast<char *>(address) < block->first + block->second.length ? block : blocks_.end();
}

bool SymmetricAllocator::has_allocation(void *address)
{
	std::lock_guard<std::mutex> lock(mutex_);

	return find(address) != blocks_.end();
}

size_t SymmetricAllocator::get_alloc_size(void *address)
{
	std::lock_guard<std::mutex> lock(mutex_);
	auto block = find(address);

	TORCH_CHECK(block != blocks_.end(), "this is no symmetric memory of ORIEL");
	return block->second.length;
}

SymmetricAllocator::Group &SymmetricAllocator::group(const std::string &name, c10::Device device)
{
	auto members = c10d::resolve_process_group(name);

	for (Group &group : groups_)
		if (group.members._unsafe_get_target() == members.get())
			return group;
	struct oriel_comm *comm = meet_by_store(members->getStore(), "oriel/symmetric/" + this->name() + "/" + name,
						members->getRank(), members->getSize(), 0,
						device.is_cuda() ? ORIEL_COMM_GPU : 0);

	return groups_.emplace_back(Group{c10::weak_intrusive_ptr<c10d::ProcessGroup>(members), comm, {}});
}

SymmetricAllocator::Handle SymmetricAllocator::rendezvous(void *address,
							  const std::optional<std::string> &name)
{
	WithoutPython waits;
	std::lock_guard<std::mutex> meeting(meeting_mutex_);
	struct oriel_window_attr attr = {};
	struct oriel_window *window = nullptr;
	Block of;

	attr.size = sizeof(attr);
	{
		std::lock_guard<std::mutex> lock(mutex_);
		auto block = find(address);

		if (block == blocks_.end())
			return nullptr;
		attr.buffer = block->first;
		of = block->second;
	}
	auto wanted = name ? name : of.group;
	TORCH_CHECK(wanted, "rendezvous: neither it nor the allocation names a group");
	c10::OptionalDeviceGuard guard;

	if (of.device.is_cuda()) {
		guard.reset_device(of.device);
		GpuGroup::enter(of.device);
	}
	Group &with = group(*wanted, of.device);

	if (Handle handle = of.handles[&with])
		return handle;
	attr.length = of.length + symmetric::get_signal_pad_size();
	attr.signals = CHANNELS;
	attr.barriers = CHANNELS;
	attr.flags = of.device.is_cuda() ? ORIEL_WINDOW_DEVICE : 0;
	check(oriel_window_create(with.comm, &attr, &window), "rendezvous");
	with.windows.push_back(window);
	auto handle = c10::make_intrusive<SymmetricBlock>(with.comm, window, of.length, of.device);

	std::lock_guard<std::mutex> lock(mutex_);
	if (auto block = find(address); block != blocks_.end())
		block->second.handles[&with] = handle;
	return handle;
}

void SymmetricAllocator::close()
{
	std::lock_guard<std::mutex> meeting(meeting_mutex_);

	for (Group &group : groups_) {
		for (struct oriel_window *window : group.windows)
			oriel_window_destroy(window);
		oriel_comm_destroy(group.comm);
	}
	groups_.clear();
}

static c10::intrusive_ptr<SymmetricAllocator> &allocator(c10::DeviceType type)
{
	static auto of_cpu = c10::make_intrusive<SymmetricAllocator>(c10::DeviceType::CPU);
	static auto of_gpu = c10::make_intrusive<SymmetricAllocator>(c10::DeviceType::CUDA);

	return type == c10::DeviceType::CPU ? of_cpu : of_gpu;
}

void name_symmetric_memory(pybind11::module_ &m)
{
	pybind11::class_<SymmetricBlock, c10::intrusive_ptr<SymmetricBlock>, symmetric::SymmetricMemory>(m, "SymmetricBlock")
		.def("__repr__", &SymmetricBlock::text, pybind11::call_guard<pybind11::gil_scoped_release>());
}

void register_symmetric_memory()
{
	for (c10::DeviceType type : {c10::DeviceType::CPU, c10::DeviceType::CUDA})
		symmetric::register_availability(allocator(type)->name(), allocator(type));
}

void close_symmetric_memory()
{
	for (c10::DeviceType type : {c10::DeviceType::CPU, c10::DeviceType::CUDA})
		allocator(type)->close();
}

} // namespace oriel_torch
