# SPDX-License-Identifier: Apache-2.0
"""Collectives, with an object and without."""
import numpy
import oriel
import pytest


def test_calls_without_an_object(nodes):
    def check(comm):
        rank, size = comm.rank, comm.size
        for count in (1, 1000, 100_000):
            mine = numpy.arange(count, dtype="f4") + rank
            every = comm.allgather(mine)
            assert every.shape == (size, count) and every.dtype == mine.dtype
            assert (every == numpy.arange(count) + numpy.arange(size)[:, None]).all()
            parts = numpy.arange(size * count).reshape(size, count) * 10 + rank
            got = comm.alltoall(parts)
            expected = (numpy.arange(count) + rank * count) * 10 + numpy.arange(size)[:, None]
            assert (got == expected).all()
            data = numpy.full(count, rank, "i2")
            assert comm.bcast(data, root=1) is data and (data == 1).all()
    oriel.run_threads(4, check, nodes=nodes)


def test_results_go_where_the_caller_wants():
    def check(comm):
        into = bytearray(8)
        assert comm.allgather(b"%d..." % comm.rank, into) is into and into == b"0...1..."
        memory = oriel.Memory(8)
        comm.allgather(b"%d..." % comm.rank, memory.buffer)
        assert bytes(memory.buffer[:8]) == b"0...1..."
        comm.alltoall(b"%d0%d1" % (comm.rank, comm.rank), memory.buffer[:4])
        assert bytes(memory.buffer[:4]) == b"0%d1%d" % (comm.rank, comm.rank)
    oriel.run_threads(2, check)


def test_wrong_sizes_are_errors_before_anything_is_sent():
    def check(comm):
        with pytest.raises(oriel.RangeError, match="recv has 4 bytes, the result 8"):
            comm.allgather(b"1234", bytearray(4))
        with pytest.raises(oriel.InvalidError, match="equal parts"):
            comm.alltoall(b"123")
        with pytest.raises(oriel.RangeError):
            comm.bcast(bytearray(4), root=2)
        with pytest.raises(oriel.MismatchError):
            comm.allgather(bytes(4 + comm.rank), bytearray(16))
        assert not comm.health.is_broken
    oriel.run_threads(2, check)


def test_persistent_all_gather(nodes):
    def check(comm):
        memory = oriel.Memory(8 * 1000 * comm.size)
        with oriel.AllGather(comm, memory) as gather:
            for count in (1000, 7, 300):
                gather.run(numpy.arange(count) + comm.rank)
                expected = numpy.arange(count) + numpy.arange(comm.size)[:, None]
                assert (gather.result("i8", (comm.size, count)) == expected).all()
            gather.start(numpy.arange(1000) * 2 + comm.rank)
            while not gather.test():
                pass
            gather.wait()
            assert gather.result("i8")[:3].tolist() == [0, 2, 4]
            assert isinstance(gather.algorithm(8), oriel.Algorithm)
            assert f"<oriel.AllGather of rank {comm.rank} of 3; " in repr(gather) and "; open>" in repr(gather)
            assert ("2 mapped" if nodes == 1 else "rdma") in repr(gather)
        with pytest.raises(oriel.StateError, match="closed"):
            gather.run(b"x")
    oriel.run_threads(3, check, nodes=nodes)


def test_persistent_all_to_all():
    def check(comm):
        with oriel.Window(comm, 4096) as window, oriel.AllToAll(comm, window, offset=64) as exchange:
            exchange.run(numpy.array([10, 11, 12]) + 100 * comm.rank)
            assert exchange.result("i8", 3).tolist() == [10 + comm.rank + 100 * p for p in range(3)]
            exchange.start(numpy.array([20, 21, 22]) + 100 * comm.rank)
            exchange.wait(timeout=20)
            assert exchange.result("i8", 3).tolist() == [20 + comm.rank + 100 * p for p in range(3)]
            # Rank r sends p + 1 bytes to p.
            send = b"".join(bytes([65 + p]) * (p + 1) for p in range(3))
            layout = [(sum(range(p + 1)), p + 1, p * (comm.rank + 1), comm.rank + 1) for p in range(3)]
            exchange.run_v(send, layout)
            length = 3 * (comm.rank + 1)
            assert bytes(exchange.result()[:length]) == bytes([65 + comm.rank]) * length
            with pytest.raises(oriel.InvalidError, match="rank 1 exceeds"):
                exchange.run_v(send, [(0, 1, 0, 1), (5, 9, 1, 9), (0, 0, 0, 0)])
            with pytest.raises(oriel.InvalidError, match="a layout of 1 ranks"):
                exchange.run_v(send, layout[:1])
            window.barrier()
    oriel.run_threads(3, check)


def test_persistent_broadcast():
    def check(comm):
        memory = oriel.Memory(100)
        with oriel.Broadcast(comm, memory, algorithm=oriel.Algorithm.BRUCK) as bcast:
            for root in range(3):
                bcast.run(b"from %d" % comm.rank, root=root)
                assert bytes(memory.buffer[:6]) == b"from %d" % root
            bcast.start(b"from %d" % comm.rank, root=1)
            bcast.wait()
            assert bytes(memory.buffer[:6]) == b"from 1"
            comm.barrier()
    oriel.run_threads(3, check)


def test_a_started_execution_keeps_its_source():
    def check(comm):
        memory = oriel.Memory(8 * 1000 * comm.size)
        with oriel.AllGather(comm, memory) as gather:
            for i in range(20):
                gather.start(numpy.full(1000, i * 10 + comm.rank))
                assert gather._source is not None
                gather.wait()
                assert gather._source is None
                assert gather.result("i8", (comm.size, 1000))[:, 999].tolist() == [i * 10, i * 10 + 1]
                comm.barrier()
    oriel.run_threads(2, check)
