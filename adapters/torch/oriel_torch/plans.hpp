// SPDX-License-Identifier: Apache-2.0
// Collectives on memory of torch, by persistent objects of the library. The backend calls them, one
// at a time.
//
// An object serves all executions of its kind, and for reductions of its type and operation. Ranks
// make it in their first execution, which is the same one everywhere. Results arrive in memory of
// the object, in pieces that stay in the cache until they are copied: tensors are in memory that
// peers cannot map. Long broadcasts pass through a window instead, so that all ranks copy at once.
// oriel_X_once() has such memory too, but ranks meet in each call to find the object, which costs
// more than a small operation.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "collectives.hpp"

namespace oriel_torch {

// Memory of the library. It grows.
class Scratch {
 public:
	~Scratch();
	char *at_least(size_t length);
	char *data() const { return static_cast<char *>(memory_); }
	size_t length() const { return length_; }

 private:
	void *memory_ = nullptr;
	size_t length_ = 0;
};

class Plans : public Collectives {
 public:
	explicit Plans(struct oriel_comm *comm);
	~Plans() override { close(); }
	// Collective: destroys all objects.
	void close();

	void gather_all(const void *send, size_t length, char *const *parts) override;
	void broadcast(unsigned root, void *data, size_t length) override;
	void gather(unsigned root, const void *send, size_t length, char *const *parts) override;
	void scatter(unsigned root, const std::vector<Part> &parts, void *recv, size_t length) override;
	void exchange(const char *send, char *recv, size_t length) override;
	void exchange_any(const std::vector<Part> &send, const std::vector<Part> &recv) override;
	void reduce_all(void *data, size_t count, const struct oriel_reduction *reduction) override;
	void reduce(unsigned root, void *data, size_t count, const struct oriel_reduction *reduction) override;
	void reduce_scatter(const void *send, void *recv, size_t count,
			    const struct oriel_reduction *reduction) override;

 private:
	// Bytes of the memory of an object, which results pass through in pieces: a piece is still in the
	// second-level cache when it is copied.
	static constexpr size_t PIECE = 1 << 20;

	template <typename Object> struct Plan {
		Object *object = nullptr;
		Scratch memory;
	};
	using Key = std::pair<unsigned, unsigned>; // type and operation

	// Of long broadcasts: the slots of a window, each of so many bytes. They stay in the cache, too.
	static constexpr size_t SLOT = PIECE / 4, SLOTS = 4;
	enum Signal : uint32_t { FILLED, TAKEN };

	template <typename Object, typename Create, typename Destroy>
	void prepare(Plan<Object> &plan, size_t length, Create create, Destroy destroy, const char *what);
	size_t share(size_t length) const;
	void open_slots();
	void broadcast_by_slots(unsigned root, char *data, size_t length);

	struct oriel_comm *const comm_;
	const unsigned rank_, size_;
	Plan<struct oriel_allgather> gather_all_;
	Plan<struct oriel_bcast> broadcast_;
	bool is_mapped_ = true; // all ranks map each other's memory
	struct oriel_window *slots_ = nullptr;
	Plan<struct oriel_gather> gather_;
	Plan<struct oriel_scatter> scatter_;
	Plan<struct oriel_alltoall> exchange_;
	std::map<Key, Plan<struct oriel_allreduce>> reduce_all_;
	std::map<Key, Plan<struct oriel_reduce>> reduce_;
	std::map<Key, Plan<struct oriel_reduce_scatter>> reduce_scatter_;
};

} // namespace oriel_torch
