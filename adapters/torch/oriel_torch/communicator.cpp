// SPDX-License-Identifier: Apache-2.0
// All that a process group has on one communicator: see communicator.hpp.
#include "communicator.hpp"

namespace oriel_torch {

static std::shared_ptr<Roster> roster_of(struct oriel_comm *comm)
{
	try {
		return std::make_shared<Roster>(comm);
	} catch (...) {
		oriel_comm_destroy(comm);
		throw;
	}
}

Communicator::Communicator(struct oriel_comm *taken)
    : comm(taken), rank(oriel_comm_rank(taken)), size(oriel_comm_size(taken)),
      roster(roster_of(taken)), plans(taken), messenger(taken, rank, size)
{
}

void Communicator::close_objects()
{
	if (is_closed_)
		return;
	is_closed_ = true;
	windows.end(comm);
	plans.close();
	roster->close();
}

Communicator::~Communicator()
{
	close_objects();
	oriel_comm_destroy(comm);
}

} // namespace oriel_torch
