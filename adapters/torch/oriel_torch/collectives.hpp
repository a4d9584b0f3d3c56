// SPDX-License-Identifier: Apache-2.0
// The collectives that the backend asks for, one at a time: plans.hpp executes those in host memory,
// gpu.hpp posts those in memory of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <oriel/oriel.h>

namespace oriel_torch {

class Collectives {
 public:
	struct Part {
		char *data;
		uint64_t length;
	};

	virtual ~Collectives() = default;

	// All throw failures. Lengths are in bytes, equal on all ranks; pointers are of contiguous
	// memory, @parts of one for each rank.
	virtual void gather_all(const void *send, size_t length, char *const *parts) = 0;
	virtual void broadcast(unsigned root, void *data, size_t length) = 0;
	virtual void gather(unsigned root, const void *send, size_t length, char *const *parts) = 0;
	// The root alone has @parts.
	virtual void scatter(unsigned root, const std::vector<Part> &parts, void *recv, size_t length) = 0;
	virtual void exchange(const char *send, char *recv, size_t length) = 0; // @length for each rank
	// A part for each rank, and of each: lengths of a pair are equal at both ends.
	virtual void exchange_any(const std::vector<Part> &send, const std::vector<Part> &recv) = 0;
	virtual void reduce_all(void *data, size_t count, const struct oriel_reduction *reduction) = 0;
	virtual void reduce(unsigned root, void *data, size_t count,
			    const struct oriel_reduction *reduction) = 0;
	virtual void reduce_scatter(const void *send, void *recv, size_t count,
				    const struct oriel_reduction *reduction) = 0;
};

} // namespace oriel_torch
