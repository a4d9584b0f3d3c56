# SPDX-License-Identifier: Apache-2.0
"""Communicators that take new ranks in."""
import os
import subprocess
import sys
import threading

import numpy
import oriel
import pytest


class Together:
    """Runs functions in threads of their own, and raises what they raise."""

    def __init__(self, *functions):
        self.errors = []
        self.threads = [threading.Thread(target=self._run, args=(f,)) for f in functions]

    def _run(self, function):
        try:
            function()
        except BaseException as error:  # pylint: disable=broad-except
            self.errors.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


def plays(comm, size, epoch):
    """All ranks of @comm reach each other."""
    assert (comm.size, comm.epoch) == (size, epoch)
    assert comm.allreduce(numpy.array([comm.rank]))[0] == size * (size - 1) // 2
    with oriel.Window(comm, 8) as window:
        window.put((comm.rank + 1) % size, 0, b"greeting", signal=0)
        window.wait_signal_next((comm.rank - 1) % size, 0)
        assert bytes(window.buffer) == b"greeting"


def test_new_ranks_come_behind_the_others(nodes):
    def join(text):
        with oriel.Comm.join(text) as grown:
            assert grown.rank >= 2 and grown.origin(grown.rank) is None
            plays(grown, 4, 1)

    def check(comm):
        assert comm.epoch == 0
        text = comm.invite() if comm.rank == 0 else None
        with Together(*[lambda: join(text)] * (2 if text else 0)), comm.grow(2) as grown:
            assert grown.rank == comm.rank
            assert [grown.origin(rank) for rank in range(4)] == [0, 1, None, None]
            plays(grown, 4, 1)
        assert not comm.health.is_broken
        comm.barrier()
    oriel.run_threads(2, check, nodes=nodes)


def test_two_communicators_merge():
    invitation, is_there = [], threading.Event()

    def invites(comm):
        if comm.rank == 0:
            invitation.append(comm.invite())
            is_there.set()
        with comm.grow(2, timeout=25) as grown:
            assert grown.timeout == 25
            plays(grown, 4, 1)

    def merges(comm):
        assert is_there.wait(30)
        with comm.merge(invitation[0], timeout=25) as grown:
            assert grown.rank == 2 + comm.rank
            assert [grown.origin(rank) for rank in range(4)] == [None, None, 0, 1]
            plays(grown, 4, 1)
        comm.barrier()
    with Together(lambda: oriel.run_threads(2, invites), lambda: oriel.run_threads(2, merges)):
        pass


def test_a_process_joins_by_its_environment():
    program = """
import oriel
with oriel.Comm() as comm:
    print(f"rank {comm.rank} of {comm.size}, epoch {comm.epoch}, sum {comm.exchange(b'new')}")
"""

    def check(comm):
        text = comm.invite()
        child = subprocess.Popen([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE,
                                 env={**os.environ, "ORIEL_INVITATION": text})
        with comm.grow(1) as grown:
            assert grown.exchange(b"old") == [b"old", b"new"]
        assert child.communicate(timeout=60)[0] == "rank 1 of 2, epoch 1, sum [b'old', b'new']\n"
        assert child.returncode == 0
    oriel.run_threads(1, check)


def test_errors_name_their_cause():
    def check(comm):
        with pytest.raises(oriel.StateError, match="invitation"):
            comm.grow(1)
        if comm.rank:
            with pytest.raises(oriel.StateError, match="rank 0"):
                comm.invite()
        with pytest.raises(oriel.InvalidError):
            comm.merge("no invitation")
        with pytest.raises(oriel.InvalidError):
            oriel.Comm.join("no invitation")
        comm.barrier()
        old = comm.invite() if comm.rank == 0 else None
        if old:
            comm.invite()
            with pytest.raises((oriel.PeerError, oriel.AuthError)):
                oriel.Comm.join(old, timeout=5)
        comm.barrier()
    oriel.run_threads(2, check)


def test_ranks_that_do_not_come_break_nothing():
    def check(comm):
        if comm.rank == 0:
            comm.invite()
        with pytest.raises(oriel.TimeoutError, match="0 of 1 new ranks came"):
            comm.grow(1)
        comm.barrier()
    oriel.run_threads(2, check, timeout=4)
