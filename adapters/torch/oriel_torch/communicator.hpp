// SPDX-License-Identifier: Apache-2.0
// All that a process group has on one communicator of the library. The backend makes one, and
// another one when the group is reconfigured.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "messenger.hpp"
#include "plans.hpp"
#include "window.hpp"
#include "work.hpp"

namespace oriel_torch {

class Communicator {
 public:
	// Collective. Takes @comm, and destroys it if this fails.
	explicit Communicator(struct oriel_comm *comm);
	// Collective: destroys all but the communicator of the library; no operation is under way.
	void close_objects();
	// Collective; waits for the other ranks. close_objects() where it was not called.
	~Communicator();

	// Windows are destroyed with it, in the order in which they were made, which is that of all
	// ranks.
	void add(std::shared_ptr<Exposed> window);
	void remove(const std::shared_ptr<Exposed> &window);

	struct oriel_comm *const comm;
	const unsigned rank, size;
	std::shared_ptr<Roster> roster;
	Plans plans;
	Messenger messenger;

 private:
	std::mutex mutex_; // guards windows_
	std::vector<std::shared_ptr<Exposed>> windows_;
	bool is_closed_ = false;
};

} // namespace oriel_torch
