# SPDX-License-Identifier: Apache-2.0
"""Communicators: ranks as threads, what they know of each other, how they fail."""
import os
import pickle
import threading
import time

import numpy
import oriel
import pytest


def test_ranks_know_each_other():
    def check(comm):
        assert comm.size == 3 and comm.path(comm.rank) == oriel.Path.SELF
        others = [comm.path(peer) for peer in range(3) if peer != comm.rank]
        assert others == [oriel.Path.MAPPED] * 2 and comm.domain == [0, 1, 2]
        peer = comm.peer((comm.rank + 1) % 3)
        assert peer.pid == os.getpid() and peer.is_same_process and peer.reason
        assert not comm.health.is_broken and '"status"' in comm.health.json
        with pytest.raises(oriel.RangeError, match="rank 3"):
            comm.peer(3)
        return comm.rank
    assert oriel.run_threads(3, check) == [0, 1, 2]


def test_virtual_nodes_are_not_mapped():
    def check(comm):
        assert comm.path(1 - comm.rank) == oriel.Path.RDMA
        assert comm.peer(0).node != comm.peer(1).node
    oriel.run_threads(2, check, nodes=2)


def test_exchange_of_any_lengths():
    def check(comm):
        assert comm.exchange(b"x" * comm.rank) == [b"", b"x", b"xx"]
        assert comm.exchange(b"") == [b""] * 3
        comm.barrier()
    oriel.run_threads(3, check)


def test_split_numbers_by_key():
    def check(comm):
        part = comm.split(comm.rank % 2, key=-comm.rank)
        with part:
            assert part.size == 2 and part.origin(part.rank) == comm.rank
            assert [part.origin(rank) for rank in range(2)] == ([2, 0] if comm.rank % 2 == 0 else [3, 1])
        assert comm.split(oriel.SPLIT_NONE) is None
        with comm.split(oriel.SPLIT_DOMAIN) as domain:
            assert domain.size == 4
    oriel.run_threads(4, check)


def test_all_get_the_error_of_one():
    def check(comm):
        error = oriel.RangeError("rank 1 has too much") if comm.rank == 1 else None
        with pytest.raises(oriel.RangeError, match="too much"):
            comm.agree(error)
        comm.agree()
    oriel.run_threads(3, check)


def test_ranks_meet_by_a_job_id():
    with oriel.JobId() as job:
        assert len(bytes(job)) == 128
        results = [None, None]

        def rank_main(rank):
            with oriel.Comm.from_id(bytes(job), rank, 2, timeout=30) as comm:
                results[rank] = comm.exchange(str(rank).encode()), comm.timeout
        threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert results == [([b"0", b"1"], 30.0)] * 2
    assert "closed" in repr(job)
    with pytest.raises(oriel.InvalidError, match="128"):
        oriel.Comm.from_id(b"short", 0, 2)


def test_repr_says_rank_path_and_state():
    def check(comm):
        assert repr(comm) == f"<oriel.Comm rank {comm.rank} of 2; 1 mapped; open>"
        comm.barrier()
        return comm
    first, _ = oriel.run_threads(2, check)
    assert repr(first) == "<oriel.Comm rank 0 of 2; closed>"


def test_use_after_close():
    comm = oriel.run_threads(2, lambda comm: comm)[0]
    assert comm.is_closed
    for call in (comm.barrier, lambda: comm.path(0), lambda: comm.health, lambda: comm.timeout,
                 lambda: oriel.Window(comm, 8), lambda: oriel.endpoint(comm, 1)):
        with pytest.raises(oriel.StateError, match="rank 0 of 2; closed> is closed"):
            call()
    comm.close()  # once more does nothing


def test_objects_refuse_to_be_pickled():
    def check(comm):
        with oriel.Window(comm, 8) as window:
            for thing in (comm, window):
                with pytest.raises(TypeError, match="cannot be pickled.*DataLoader"):
                    pickle.dumps(thing)
    oriel.run_threads(2, check)


def test_closing_with_children_is_an_error():
    def check(comm):
        window = oriel.Window(comm, 8)
        with pytest.raises(oriel.StateError):
            comm.close()
        assert not comm.is_closed
        window.close()
    oriel.run_threads(1, check)


def test_an_exception_of_one_rank_ends_the_waits_of_the_others():
    ended = []

    def check(comm):
        if comm.rank == 1:
            raise KeyError("a mistake of the program")
        with pytest.raises(oriel.AbortedError):
            comm.barrier()
        assert comm.health.is_broken and "broken" in repr(comm)
        ended.append(comm.rank)
    with pytest.raises(KeyError):
        oriel.run_threads(3, check)
    assert sorted(ended) == [0, 2]


def test_a_late_rank_is_named():
    late = threading.Event()

    def check(comm):
        if comm.rank == 2:
            late.wait()
            with pytest.raises(oriel.Error):
                comm.barrier()
            return
        try:
            with pytest.raises(oriel.TimeoutError, match="rank 2"):
                comm.barrier()
        finally:
            late.set()
    oriel.run_threads(3, check, timeout=0.5)


def test_other_threads_run_while_one_waits():
    counted = []

    def check(comm):
        if comm.rank == 0:
            for i in range(200):  # each needs the lock of the interpreter
                counted.append(i)
                time.sleep(0.0005)
        comm.barrier()
    oriel.run_threads(2, check, timeout=30)
    assert len(counted) == 200


def test_a_wrong_setting_is_named(monkeypatch):
    monkeypatch.setenv("ORIEL_TIMEOUTS", "3")
    with pytest.raises(oriel.ConfigError, match="ORIEL_TIMEOUTS"):
        oriel.Comm()


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_wrong_limits(timeout):
    with pytest.raises(oriel.InvalidError, match="timeout"):
        oriel.Comm(timeout=timeout)


def test_settings_and_features():
    settings = {setting.name: setting for setting in oriel.settings()}
    assert settings["ORIEL_TIMEOUT"].source in ("default", "environment") and settings["ORIEL_TIMEOUT"].help
    assert any(feature.name == "memfd" and feature.is_present for feature in oriel.features())
    assert oriel.version().startswith(oriel.__version__)


def test_one_rank_alone():
    for name in ("RANK", "WORLD_SIZE"):
        assert name not in os.environ
    with oriel.Comm() as comm:
        assert (comm.rank, comm.size) == (0, 1) and "alone" in repr(comm)
        assert comm.allgather(numpy.arange(3)).tolist() == [[0, 1, 2]]
