# SPDX-License-Identifier: Apache-2.0
"""Windows and regions, over mapped memory and over a NIC in software."""
import gc
import threading
import time
import weakref

import numpy
import oriel
import pytest


def test_put_signal_and_wait(nodes):
    def check(comm):
        peer = 1 - comm.rank
        with oriel.Window(comm, 64) as window:
            window.put(peer, 8, f"greetings from {comm.rank}".encode(), signal=3)
            window.wait_signal_next(peer, 3)
            assert bytes(window.buffer[8:24]) == f"greetings from {peer}".encode()
            window.barrier()
            assert window.read_signal(3) == 1 and window.read_signal(3, source=peer) == 1
            assert window.read_signal(3, source=comm.rank) == 0
            window.barrier()
    oriel.run_threads(2, check, nodes=nodes)


def test_arrays_are_the_memory(nodes):
    def check(comm):
        peer = 1 - comm.rank
        with oriel.Window(comm, 8 * 100) as window:
            values = window.array("f8", (10, 10))
            assert values.sum() == 0
            window.barrier()
            row = numpy.full(10, comm.rank + 1.0)
            window.put(peer, 8 * 10 * 5, row)
            window.flush()
            window.barrier()
            assert values[5].tolist() == [peer + 1.0] * 10 and values.sum() == 10 * (peer + 1.0)
            assert window.get(peer, 8 * 50, numpy.empty(2)).tolist() == [comm.rank + 1.0] * 2
            assert window.get(peer, 8 * 50, 8) == numpy.float64(comm.rank + 1).tobytes()
            window.barrier()
            window.put_value(peer, 0, -1)
            window.flush()
            window.barrier()
            assert window.array("i8")[0] == -1
        assert values[5, 0] == peer + 1.0  # the memory outlives its window
    oriel.run_threads(2, check, nodes=nodes)


def test_sources_live_until_they_are_drained(nodes):
    def check(comm):
        with oriel.Window(comm, 8 * 3001) as window:
            for i in range(3000):
                window.put(1 - comm.rank, 8 * i, numpy.array([i * 7 + comm.rank]))
                assert len(window._pending) < 1024
            for i in range(2000):
                window.put_all(8 * 3000, numpy.array([i]))
                assert len(window._pending) < 1024
            window.flush()
            source = numpy.array([comm.rank])
            alive = weakref.ref(source)
            window.put(1 - comm.rank, 0, source)
            del source
            gc.collect()
            assert alive() is not None
            window.drain()
            gc.collect()
            assert alive() is None
            window.put(1 - comm.rank, 0, numpy.array([comm.rank]))
            window.flush()
            window.barrier()
            assert (window.array("i8", 3000) == numpy.arange(3000) * 7 + 1 - comm.rank).all()
    oriel.run_threads(2, check, nodes=nodes)


def test_atomics(nodes):
    def check(comm):
        with oriel.Window(comm, 64) as window:
            for _ in range(100):
                window.fetch_add(0, 0, 1)
            window.barrier()
            assert window.fetch(0, 0) == 200
            window.barrier()
            if comm.rank == 1:
                assert window.fetch_add(0, 0, -1) == 200 and window.swap(0, 0, 5) == 199
                assert window.compare_swap(0, 0, 4, 9) == 5 and window.compare_swap(0, 0, 5, 9) == 5
                assert window.fetch_or(0, 0, 6) == 9 and window.fetch_and(0, 0, 12) == 15
                assert window.fetch_xor(0, 0, 15) == 12 and window.fetch(0, 0) == 3
                window.set(0, 0, 77)
                window.flush()
                assert window.fetch(0, 0) == 77
            window.barrier()
            with pytest.raises(oriel.InvalidError, match="32 or 64"):
                window.fetch_add(0, 0, 1, bits=16)
    oriel.run_threads(2, check, nodes=nodes)


def test_atomics_of_32_bits():
    def check(comm):
        with oriel.Window(comm, 64) as window:
            window.fetch_add(1, 4, 1, bits=32)
            window.barrier()
            assert window.fetch(1, 4, bits=32) == 2 and window.fetch(1, 0, bits=32) == 0
            window.barrier()
    oriel.run_threads(2, check)


def test_signals_set_add_and_compare():
    def check(comm):
        with oriel.Window(comm, 0, signals=4) as window:
            window.signal_all(0, 5)
            window.wait_signal(0, 10)
            window.wait_signal(0, 5, oriel.Compare.EQ, source=(comm.rank + 1) % 3)
            window.signal((comm.rank + 1) % 3, 1, 9, oriel.SignalOp.SET)
            window.wait_signal(1, 9, oriel.Compare.EQ)
            window.barrier()
            window.reset_signals()
            assert window.read_signal(0) == 0
            window.barrier()
            with pytest.raises(oriel.RangeError, match="4"):
                window.signal(0, 4)
    oriel.run_threads(3, check)


def test_a_limit_of_the_caller_breaks_nothing():
    def check(comm):
        with oriel.Window(comm, 8) as window:
            begun = time.monotonic()
            with pytest.raises(oriel.TimeoutError):
                window.wait_signal_next(1 - comm.rank, 0, timeout=0.05)
            assert time.monotonic() - begun < 10
            with pytest.raises(TimeoutError):  # Python's own
                window.wait_signal(0, 1, timeout=0)
            assert not comm.health.is_broken
            comm.barrier()
            if comm.rank == 0:
                with pytest.raises(oriel.TimeoutError):
                    window.barrier(timeout=0.01)
                comm.barrier()
            else:
                comm.barrier()
            window.barrier()
    oriel.run_threads(2, check)


def test_barriers_of_pairs_and_halves():
    def check(comm):
        with oriel.Window(comm, 8) as window:
            window.barrier(1, peer=comm.rank ^ 1)
            window.barrier_arrive(2)
            window.barrier_wait(2)
            window.barrier_arrive(3, peer=comm.rank ^ 1)
            window.barrier_wait(3, peer=comm.rank ^ 1)
    oriel.run_threads(4, check)


def test_counters_and_put_all(nodes):
    def check(comm):
        with oriel.Window(comm, 16) as window:
            window.put(1 - comm.rank, 0, b"12345678", counter=2)
            window.wait_counter(1 - comm.rank, 2, 1)
            window.put(1 - comm.rank, 0, b"12345678", signal=0, counter=2)
            window.wait_counter(1 - comm.rank, 2, 2)
            assert window.read_counter(1 - comm.rank, 2) == 2
            window.drain()
            window.reset_counter(1 - comm.rank, 2)
            assert window.read_counter(1 - comm.rank, 2) == 0
            window.wait_signal_next(1 - comm.rank, 0)
            window.barrier()
            if comm.rank == 0:
                window.put_all(8, b"to every")
                window.flush()
            window.barrier()
            assert bytes(window.buffer) == b"12345678to every"
    oriel.run_threads(2, check, nodes=nodes)


def test_channels(nodes):
    def check(comm):
        with oriel.Window(comm, channels=2, channel_bytes=4096) as window:
            text = bytes(range(256)) * 64
            if comm.rank == 0:
                window.send(1, text, channel=1)
            else:
                parts = [bytes(window.recv(0, bytearray(1024), channel=1)) for _ in range(16)]
                assert b"".join(parts) == text
            window.barrier()
    oriel.run_threads(2, check, nodes=nodes)


def test_more_buffers():
    def check(comm):
        with oriel.Window(comm, 8) as window:
            memory = oriel.Memory(4096)
            more = window.share(memory)
            window.put(1 - comm.rank, oriel.at(more, 100), b"more")
            window.flush()
            window.barrier()
            assert bytes(memory.buffer[100:104]) == b"more" and window.peer_length(1, more) == 4096
    oriel.run_threads(2, check)


def test_memory_of_peers_is_mapped_and_keeps_the_window_open():
    def check(comm):
        peer = 1 - comm.rank
        with oriel.Window(comm, 64 * (comm.rank + 1)) as window:
            assert window.peer_length(peer) == 64 * (peer + 1)
            theirs = window.peer_array(peer, "i4", 2, offset=8)
            theirs[:] = comm.rank + 40
            window.barrier()
            assert window.array("i4")[2:4].tolist() == [peer + 40] * 2
            with pytest.raises(oriel.StateError, match="1 array"):
                window.close()
            part = theirs[1:]
            del theirs
            with pytest.raises(oriel.StateError, match="1 array"):
                window.close()
            del part
    oriel.run_threads(2, check)


def test_no_addresses_across_nodes():
    def check(comm):
        with oriel.Window(comm, 64) as window, pytest.raises(oriel.NoPathError):
            window.peer_array(1 - comm.rank)
    oriel.run_threads(2, check, nodes=2)


def test_wrong_arguments_name_the_limit(nodes):
    def check(comm):
        peer = 1 - comm.rank
        with oriel.Window(comm, 64) as window:
            with pytest.raises(oriel.RangeError, match="64"):
                window.put(peer, 60, b"too long")
            with pytest.raises(oriel.RangeError):
                window.put(2, 0, b"no rank")
            with pytest.raises(oriel.InvalidError):
                window.put(peer, 0, 3)
            with pytest.raises(oriel.InvalidError):
                window.get(peer, 0, b"read-only")
            assert not comm.health.is_broken
            window.barrier()
    oriel.run_threads(2, check, nodes=nodes)


def test_a_rank_without_memory_fails_on_all_ranks():
    def check(comm):
        memory = oriel.Memory(4096)
        with pytest.raises(oriel.RangeError, match="9999 bytes"):
            oriel.Window(comm, 9999 if comm.rank == 1 else 64, memory=memory)
        with oriel.Window(comm, memory=memory) as window:
            assert window.length == 4096
    oriel.run_threads(2, check)


def test_use_after_close_and_repr():
    def check(comm):
        window = oriel.Window(comm, 64)
        assert repr(window) == f"<oriel.Window of rank {comm.rank} of 2, 64 bytes; 1 mapped; open>"
        window.close()
        for call in (lambda: window.put(0, 0, b""), window.barrier, lambda: window.wait_signal(0, 1),
                     window.drain, lambda: window.peer_array(1 - comm.rank)):
            with pytest.raises(oriel.StateError, match="64 bytes; closed> is closed"):
                call()
        window.close()
    oriel.run_threads(2, check)


def test_a_wait_lets_other_threads_run():
    ticks = []

    def check(comm):
        with oriel.Window(comm, 8) as window:
            if comm.rank == 0:
                window.wait_signal_next(1, 0, timeout=30)
                assert len(ticks) == 100
            else:
                for i in range(100):
                    ticks.append(i)
                    time.sleep(0.001)
                window.signal(0, 0)
    oriel.run_threads(2, check)


def test_threads_share_a_window():
    def check(comm):
        with oriel.Window(comm, 8 * 4 * 500) as window:
            def put(thread):
                for i in range(500):
                    window.put(1 - comm.rank, 8 * (500 * thread + i), numpy.array([i + thread]))
                    if i % 50 == 0:
                        window.drain()
            threads = [threading.Thread(target=put, args=(t,)) for t in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            window.flush()
            window.barrier()
            expected = numpy.arange(500) + numpy.arange(4)[:, None]
            assert (window.array("i8", (4, 500)) == expected).all()
    oriel.run_threads(2, check)


def test_regions():
    def check(comm):
        memory = oriel.Memory(4096 * (comm.rank + 1))
        region = oriel.Region(comm, memory)
        with pytest.raises(oriel.StateError):
            region.peer_length(0)
        with region.share():
            assert [region.peer_length(peer) for peer in range(2)] == [4096, 8192]
            memory.array("i8")[0] = comm.rank + 5
            comm.barrier()
            theirs = region.peer_array(1 - comm.rank, "i8")
            assert theirs[0] == 6 - comm.rank and f"{4096 * (comm.rank + 1)} bytes, shared; 1 mapped; open" in repr(region)
            with pytest.raises(oriel.StateError, match="array"):
                region.close()
            del theirs
            comm.barrier()
        assert region.is_closed
        with oriel.Region(comm, bytearray(64)) as local:
            assert local.length == 64
    oriel.run_threads(2, check)
