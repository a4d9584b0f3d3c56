# SPDX-License-Identifier: Apache-2.0
"""A communicator of the ranks that are left."""
import os
import socket
import subprocess
import sys
import threading

import numpy
import oriel
import pytest


PROGRAM = """
import numpy, oriel, os, signal
comm = oriel.Comm(timeout=20, can_shrink=True)
window = oriel.Window(comm, 64)
comm.barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    window.wait_signal(0, 1, source=1)
except oriel.Error as error:
    print("learned:", type(error).__name__)
window.close()
with comm.shrink() as rest, oriel.Window(rest, 8) as fresh:
    comm.close()
    total = rest.allreduce(numpy.array([rest.origin(rest.rank)]))[0]
    fresh.put(1 - rest.rank, 0, b"greeting", signal=0)
    fresh.wait_signal_next(1 - rest.rank, 0)
    print(f"rank {rest.rank} of {rest.size} was {rest.origin(rest.rank)}, sum {total}")
"""


@pytest.mark.parametrize("nodes", [1, 3])
def test_the_others_go_on_without_a_killed_rank(nodes):
    # Started alone: the launcher ends all ranks when one is killed.
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(3):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(port)}
        if nodes > 1:
            environment["ORIEL_NODE"] = f"node{rank}"
        ranks.append(subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    for rank, now in ((0, 0), (2, 1)):
        assert ranks[rank].returncode == 0 and "learned: PeerError" in said[rank], said
        assert f"rank {now} of 2 was {rank}, sum 2" in said[rank], said


def test_all_are_left():
    ready = threading.Barrier(2)  # shrink() of one rank ends what the other one does

    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        ready.wait(30)
        with comm.shrink(timeout=25) as rest:
            assert (rest.rank, rest.size, rest.timeout) == (comm.rank, 2, 25.0)
            assert rest.origin(0) == 0 and comm.health.is_broken
            assert rest.allreduce(numpy.ones(2)).tolist() == [2, 2]
            with pytest.raises(oriel.Error):
                end.send(b"x")
            assert comm.unsafe_rank(bytes(8)) is None
            with pytest.raises(oriel.StateError, match="has left this communicator already"):
                comm.shrink()
    oriel.run_threads(2, check, can_shrink=True)


def test_what_was_made_on_it_is_closed_before():
    ready = threading.Barrier(2)

    def check(comm):
        window = oriel.Window(comm, 8)
        ready.wait(30)
        with pytest.raises(oriel.StateError, match="window"):
            comm.shrink()
        window.close()
        comm.shrink().close()
    oriel.run_threads(2, check, can_shrink=True)


def test_it_is_asked_for_when_the_communicator_is_made():
    def check(comm):
        with pytest.raises(oriel.UnsupportedError):
            comm.shrink()
    oriel.run_threads(2, check)


def test_parts_have_attributes_of_their_own():
    def check(comm):
        with comm.split(0, timeout=9, can_shrink=True) as part:
            assert part.timeout == 9
            with part.shrink() as rest:
                assert rest.size == 2 and rest.timeout == 9
    oriel.run_threads(2, check)
