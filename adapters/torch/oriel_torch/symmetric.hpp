// SPDX-License-Identifier: Apache-2.0
// The backend "ORIEL" of torch's symmetric memory, for the CPU: memory that all ranks of a group map,
// with signals and barriers of channels, on windows of the library. module.cpp registers it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <oriel/oriel.h>

namespace oriel_torch {

// Makes "ORIEL" known to torch, which uses it after set_backend("ORIEL").
void register_symmetric_memory();

// At exit: destroys the windows of all groups, in the order of their rendezvous. Collective in each.
void close_symmetric_memory();

class SymmetricAllocator : public c10d::symmetric_memory::SymmetricMemoryAllocator {
 public:
	using Handle = c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemory>;

	void *alloc(size_t size, int device, const std::optional<std::string> &group) override;
	// Windows over the memory hold it until the process exits: closing them is collective.
	void free(void *address) override;
	size_t get_alloc_size(void *address) override;
	// Collective. ORIEL maps memory of ranks of one machine alone; the text names a rank of another.
	Handle rendezvous(void *address, const std::optional<std::string> &group) override;
	bool has_multicast_support(int) override { return false; }
	c10::DeviceType supported_device_type() override { return c10::DeviceType::CPU; }
	std::string name() override { return "ORIEL"; }
	bool has_allocation(void *address) override;

	void close();

 private:
	struct Group { // its windows are destroyed in their order
		struct oriel_comm *comm = nullptr;
		std::vector<struct oriel_window *> windows;
	};
	struct Block {
		size_t length = 0; // of the buffer; the signal pad lies behind it
		std::optional<std::string> group;
		std::map<std::string, Handle> handles; // by group
	};
	using Blocks = std::map<char *, Block>;

	Blocks::iterator find(void *address);
	Group &group(const std::string &name);

	std::mutex mutex_; // guards what follows
	Blocks blocks_;
	std::map<std::string, Group> groups_;
};

} // namespace oriel_torch
