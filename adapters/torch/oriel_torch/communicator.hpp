// SPDX-License-Identifier: Apache-2.0
// All that a process group has on one communicator of the library. The backend makes one, and
// another one when the group is reconfigured.
#pragma once

#include <memory>

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

	struct oriel_comm *const comm;
	const unsigned rank, size;
	std::shared_ptr<Roster> roster;
	Plans plans;
	Messenger messenger;
	OpenWindows windows; // destroyed with it

 private:
	bool is_closed_ = false;
};

} // namespace oriel_torch
