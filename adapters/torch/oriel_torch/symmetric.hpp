// SPDX-License-Identifier: Apache-2.0
// The backends "ORIEL", for the CPU, and "ORIEL_CUDA" of torch's symmetric memory, which has one device for
// each: memory that all ranks of a group map, with signals and barriers of channels, on windows of the
// library. module.cpp registers them.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>
#include <torch/csrc/utils/pybind.h>

#include <oriel/oriel.h>

#include "version.hpp"

namespace oriel_torch {

// Makes them known to torch, which uses one after set_backend("ORIEL").
void register_symmetric_memory();
// Makes its repr() known to Python.
void name_symmetric_memory(pybind11::module_ &m);

// At exit: destroys the windows of all groups, in the order of their rendezvous. Collective in each.
void close_symmetric_memory();

class SymmetricAllocator : public c10d::symmetric_memory::SymmetricMemoryAllocator {
 public:
	using Handle = c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemory>;

	explicit SymmetricAllocator(c10::DeviceType type) : type_(type) {}

	void *alloc(size_t size, int device, const std::optional<std::string> &group) override;
	// Windows over the memory hold it until the process exits: closing them is collective.
	void free(void *address) override;
	size_t get_alloc_size(void *address) override;
	// Collective. ORIEL maps memory of ranks of one machine alone; the text names a rank of another.
	Handle rendezvous(void *address, const std::optional<std::string> &group) override;
	bool has_multicast_support(int) override { return false; }
	c10::DeviceType supported_device_type() override { return type_; }
	std::string name() override { return type_ == c10::DeviceType::CPU ? "ORIEL" : "ORIEL_CUDA"; }
	bool has_allocation(void *address) ORIEL_OVERRIDE_NEW;

	void close();

 private:
	struct Group { // its windows are destroyed in their order
		// Not its name, which torch uses again for groups that are made later.
		c10::weak_intrusive_ptr<c10d::ProcessGroup> members;
		struct oriel_comm *comm;
		std::vector<struct oriel_window *> windows;
	};
	struct Block {
		size_t length = 0; // of the buffer; the signal pad lies behind it
		c10::Device device = c10::Device(c10::DeviceType::CPU);
		std::optional<std::string> group;
		std::map<const Group *, Handle> handles;
	};
	using Blocks = std::map<char *, Block>;

	Blocks::iterator find(void *address);
	Group &group(const std::string &name, c10::Device device);

	const c10::DeviceType type_;
	// Held while ranks meet; without the lock of Python, which another rank of the process may need.
	std::mutex meeting_mutex_; // guards groups_
	// In the order in which they were made, which is that of all ranks. Those whose process group has
	// ended stay: closing them is collective.
	std::list<Group> groups_;
	std::mutex mutex_; // guards blocks_; taken behind meeting_mutex_
	Blocks blocks_;
};

} // namespace oriel_torch
