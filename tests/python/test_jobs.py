# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes, started by oriel run: workers, forks, and ranks that die."""
import pathlib

from conftest import run_job
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"


def test_processes_map_each_other():
    said = run_job(3, """
        import oriel
        with oriel.Comm() as comm, oriel.Window(comm, 64) as window:
            window.put((comm.rank + 1) % comm.size, 0, b"from %d" % comm.rank, signal=0)
            window.wait_signal_next((comm.rank - 1) % comm.size, 0)
            print(comm, bytes(window.buffer[:6]))
        """)
    for rank in range(3):
        assert f"rank {rank} of 3; 2 mapped; open> b'from {(rank - 1) % 3}'" in said


def test_a_dead_rank_is_named():
    said = run_job(3, """
        import os, oriel
        comm = oriel.Comm()
        window = oriel.Window(comm, 8)
        comm.barrier()
        if comm.rank == 1:
            os._exit(0)
        try:
            window.wait_signal_next(1, 0)
        except oriel.PeerError as error:
            print("status", error.status.name, "text", error, "health", comm.health.rank)
        """, check=False)
    assert said.count("status PEER") == 2 and said.count("rank 1") >= 2 and said.count("health 1") == 2


def test_children_of_fork_get_an_error():
    said = run_job(2, """
        import os, oriel, sys
        with oriel.Comm() as comm, oriel.Window(comm, 64) as window:
            end = oriel.endpoint(comm, 1 - comm.rank)
            comm.barrier()
            child = os.fork()
            if child == 0:
                for call in (comm.barrier, lambda: window.put(1, 0, b"x"), lambda: end.send(b"x"),
                             lambda: window.wait_signal(0, 1), lambda: oriel.Window(comm, 8)):
                    try:
                        call()
                        print("no error")
                    except oriel.ForkedError as error:
                        print("forked:", error)
                print(repr(comm), repr(window))
                sys.stdout.flush()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            window.put(1 - comm.rank, 0, b"unharmed", signal=0)
            window.wait_signal_next(1 - comm.rank, 0)
            print(bytes(window.buffer[:8]))
        """)
    assert said.count("forked:") == 10 and "no error" not in said
    assert said.count("which forked this one") == 4 and said.count("b'unharmed'") == 2


def test_workers_of_a_pool_get_an_error():
    said = run_job(2, """
        import multiprocessing, oriel
        comm = None
        def work(_):
            try:
                comm.exchange(b"")
            except oriel.ForkedError as error:
                return f"worker: {error}"
        comm = oriel.Comm()
        with comm:
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, range(2)))
                try:
                    pool.apply(print, (comm,))
                except TypeError as error:
                    print("refused:", error)
            comm.barrier()
        """)
    assert said.count("worker: ") == 4 and said.count("refused: ") == 2 and "DataLoader" in said


def test_a_child_makes_a_job_of_its_own():
    said = run_job(2, """
        import multiprocessing, oriel
        def work(job, rank):
            with oriel.Comm.from_id(job, rank, 2) as part:
                said = part.exchange(b"%d" % rank)
                print(f"workers {said}\\n", end="")  # one write: two processes share the pipe
        with oriel.Comm() as comm:
            if comm.rank == 0:
                context = multiprocessing.get_context("fork")
                with oriel.JobId() as job:
                    first = context.Process(target=work, args=(bytes(job), 1))
                    first.start()
                    work(bytes(job), 0)
                    first.join()
                assert first.exitcode == 0
            comm.barrier()
        """)
    assert said.count("workers [b'0', b'1']") == 2


def test_an_exception_in_one_process_ends_all():
    said = run_job(2, """
        import oriel
        with oriel.Comm() as comm, oriel.Window(comm, 8) as window:
            if comm.rank == 1:
                raise KeyError("a mistake")
            window.wait_signal(0, 1)
        """, check=False)
    assert "KeyError: 'a mistake'" in said and "rank 1" in said


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("example, expected", [("first_put.py", "got: greetings from rank 3"),
                                               ("halo.py", "every cell is right"),
                                               ("windows.py", "tasks were done once each")])
def test_examples(example, expected, nodes):
    text = (EXAMPLES / example).read_text("utf-8")
    assert expected in run_job(4, text, nodes)
