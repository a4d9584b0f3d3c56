# SPDX-License-Identifier: Apache-2.0
"""Reductions, gather and scatter, with an object and without; numpy computes what they must give."""
import numpy
import oriel
import pytest
from oriel import Op, Type

TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def values(rank, count, dtype):
    return ((numpy.arange(count) + 3 * rank) % 5 + 1).astype(dtype)


def expected(op, size, count, dtype):
    """In the order of the ranks, and with the precision of the accumulation."""
    wide = {"f2": "f4"}.get(dtype, dtype)
    every = [values(rank, count, dtype).astype(wide) for rank in range(size)]
    function = {Op.SUM: numpy.add, Op.PROD: numpy.multiply, Op.MIN: numpy.minimum, Op.MAX: numpy.maximum}[op]
    result = every[0]
    for other in every[1:]:
        result = function(result, other)
    return result.astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_all_reduce_of_every_type(dtype, nodes):
    def check(comm):
        for op in (Op.SUM, Op.PROD, Op.MIN, Op.MAX):
            for count in (1, 1000, 100_000 if op == Op.SUM else 7):
                mine = values(comm.rank, count, dtype)
                result = comm.allreduce(mine, op=op, block=3)
                assert result.dtype == mine.dtype and (result == expected(op, 3, count, dtype)).all()
                assert (mine == values(comm.rank, count, dtype)).all()
                assert comm.allreduce(mine, mine, op, block=3) is mine and (mine == result).all()
    oriel.run_threads(3, check, nodes=nodes)


def test_bits_averages_and_factors():
    def check(comm):
        bit = numpy.array([1 << comm.rank, 7], "u2")
        assert comm.allreduce(bit, op=Op.BOR).tolist() == [7, 7]
        assert comm.allreduce(bit, op=Op.BAND).tolist() == [0, 7]
        assert comm.allreduce(bit, op=Op.BXOR).tolist() == [7, 7]
        assert comm.allreduce(numpy.array([comm.rank, -2]), op=Op.AVG).tolist() == [1, -2]
        one = numpy.ones(3, "f4")
        assert comm.allreduce(one, op=Op.PREMUL_SUM, factor=comm.rank + 0.5).tolist() == [4.5] * 3
        whole = numpy.ones(3, "i8")
        assert comm.allreduce(whole, op=Op.PREMUL_SUM, factor=2 ** 40).tolist() == [3 * 2 ** 40] * 3
        assert comm.allreduce(whole, op=Op.PREMUL_SUM, factor=-2.0).tolist() == [-6] * 3
        for factor in (0.5, float("nan"), float("inf")):
            with pytest.raises(oriel.InvalidError, match=f"the factor {factor} is no whole number"):
                comm.allreduce(whole, op=Op.PREMUL_SUM, factor=factor)
    oriel.run_threads(3, check)


def test_fast_reductions_have_another_order():
    def check(comm):
        # By rank ((x0 + x1) + x2) + x3, and fast (x0 + x1) + (x2 + x3).
        mine = numpy.array([2.0 ** 24, 0, 1, 1][comm.rank:comm.rank + 1], "f4")
        assert comm.allreduce(mine).tolist() == [2.0 ** 24]
        assert comm.allreduce(mine, fast=True).tolist() == [2.0 ** 24 + 2]
        memory = oriel.Memory(64)
        for fast in (False, True):
            with oriel.AllReduce(comm, memory, "f4", fast=fast) as reduction:
                reduction.run(mine)
                assert reduction.result("f4", 1).tolist() == [2.0 ** 24 + 2 * fast]
                assert (reduction.algorithm(4) == oriel.Algorithm.RECURSIVE) == fast
        with pytest.raises(oriel.MismatchError, match="ORIEL_REDUCE_FAST"):
            oriel.AllReduce(comm, memory, "f4", fast=comm.rank == 2)
    oriel.run_threads(4, check, nodes=4)


def test_reduce_and_reduce_scatter(nodes):
    def check(comm):
        for count in (1, 30_000):
            mine = values(comm.rank, count, "f8")
            for root in range(3):
                result = comm.reduce(mine, op=Op.MAX, root=root)
                assert (result is None) == (comm.rank != root)
                if comm.rank == root:
                    assert (result == expected(Op.MAX, 3, count, "f8")).all()
            parts = values(comm.rank, 3 * count, "i4")
            whole = expected(Op.SUM, 3, 3 * count, "i4").reshape(3, count)
            part = comm.reduce_scatter(parts.reshape(3, count))
            assert part.shape == (count,) and (part == whole[comm.rank]).all()
            into = numpy.zeros(count, "i4")
            assert comm.reduce_scatter(parts, into) is into and (into == part).all()
    oriel.run_threads(3, check, nodes=nodes)


def test_gather_and_scatter(nodes):
    def check(comm):
        for count in (1, 5000):
            for root in range(3):
                every = comm.gather(numpy.full(count, comm.rank, "i2"), root=root)
                if comm.rank == root:
                    assert every.shape == (3, count) and (every == numpy.arange(3)[:, None]).all()
                else:
                    assert every is None
                send = numpy.arange(3 * count).reshape(3, count) + root if comm.rank == root else None
                recv = numpy.zeros(count, "i8")
                assert comm.scatter(send, recv, root) is recv
                assert (recv == numpy.arange(count) + comm.rank * count + root).all()
    oriel.run_threads(3, check, nodes=nodes)


def test_an_error_of_the_root_alone_is_one_of_all():
    def check(comm):
        is_root = comm.rank == 0
        with pytest.raises(oriel.Error, match="12 bytes, not 2 parts of 8" if is_root else "send is NULL"):
            comm.scatter(bytes(12) if is_root else None, bytearray(8))
        with pytest.raises(oriel.Error, match="recv has 9 bytes, the result 16" if is_root else "recv is NULL"):
            comm.gather(bytes(8), bytearray(9))
        assert comm.gather(b"%d" % comm.rank, bytearray(2) if is_root else None) == (b"01" if is_root else None)
    oriel.run_threads(2, check)


class Dlpack:
    """As tensors of torch: no buffer protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)


def test_elements_say_their_type():
    def check(comm):
        into = numpy.zeros(2, "f4")
        comm.allreduce(Dlpack(numpy.full(2, comm.rank + 1, "f4")), into)
        assert into.tolist() == [3, 3]
        # 1.0 and 2.0 of BF16, which numpy does not have.
        one = numpy.array([0x3F80], "u2")
        assert comm.allreduce(one, type=Type.BF16).tolist() == [0x4000]
        assert comm.allreduce(b"\x01\xff", bytearray(2)) == b"\x02\xfe"
        assert comm.allreduce(b"\0\0\x80\x3f", bytearray(4), type="f4") == b"\0\0\0\x40"
    oriel.run_threads(2, check)


def test_wrong_reductions_are_named():
    def check(comm):
        ones = numpy.ones(4, "f4")
        for error, text, call in [
                (oriel.UnsupportedError, "no BAND of elements of type fp32", lambda: comm.allreduce(ones, op=Op.BAND)),
                (oriel.UnsupportedError, r"format '\?'", lambda: comm.allreduce(numpy.ones(2, "?"))),
                (oriel.UnsupportedError, "complex64", lambda: comm.allreduce(ones, type="c8")),
                (oriel.UnsupportedError, "format '>i'", lambda: comm.allreduce(numpy.ones(2, ">i4"))),
                (oriel.InvalidError, "7 bytes are no whole elements", lambda: comm.allreduce(bytes(7), type="f4")),
                (oriel.InvalidError, "3 elements are no 2 equal parts", lambda: comm.reduce_scatter(ones[:3])),
                (oriel.InvalidError, "needs a factor", lambda: comm.allreduce(ones, op=Op.PREMUL_SUM)),
                (oriel.InvalidError, "no other operation", lambda: comm.allreduce(ones, factor=2)),
                (oriel.RangeError, "recv has 4 bytes, the result 16", lambda: comm.allreduce(ones, bytearray(4))),
                (oriel.RangeError, "root 2", lambda: comm.reduce(ones, root=2)),
                (oriel.MismatchError, "the operation", lambda: comm.allreduce(ones, op=Op(1 + comm.rank))),
                (oriel.MismatchError, "bytes: 4 on rank 0, 8 on rank 1",
                 lambda: comm.allreduce(ones[:1 + comm.rank])),
        ]:
            with pytest.raises(error, match=text):
                call()
        assert comm.allreduce(ones).tolist() == [2.0] * 4
    oriel.run_threads(2, check)


def test_results_have_the_type_of_what_is_reduced():
    def check(comm):
        ones, rows = numpy.ones(4, "f4"), numpy.ones((2, 4), "f4")
        for call in (lambda into: comm.allreduce(ones, into), lambda into: comm.reduce(ones, into),
                     lambda into: comm.reduce_scatter(rows, into),
                     lambda into: comm.allreduce(ones.view("u1"), into, type="f4")):
            for dtype in ("f8", "i4", "?"):
                into = numpy.zeros(16, dtype)
                with pytest.raises(oriel.InvalidError, match="recv has elements of .*, the result those of fp32"):
                    call(into)
                assert not into.any()
            for into in (numpy.zeros(4, "f4"), Dlpack(numpy.zeros(4, "f4")), bytearray(16), numpy.zeros(16, "u1")):
                call(into)
        for dtype in ("f8", "?"):
            with pytest.raises(oriel.InvalidError, match="recv has elements of"):
                comm.allgather(ones, numpy.zeros(8, dtype).repeat(4))
            with pytest.raises(oriel.InvalidError, match="recv has elements of"):
                comm.alltoall(ones, numpy.zeros(16, dtype))
            with pytest.raises(oriel.InvalidError, match="elements of|recv is NULL"):
                comm.gather(ones, numpy.zeros(32, dtype))
            with pytest.raises(oriel.InvalidError, match="elements of|send is NULL"):
                comm.scatter(rows, numpy.zeros(16, dtype).view(dtype)[:16 // numpy.dtype(dtype).itemsize])
        # Bytes go anywhere, and what has no type of its own goes to its like.
        assert comm.allgather(numpy.float32(1).tobytes(), numpy.zeros(2, "f4")).tolist() == [1, 1]
        assert comm.allgather(numpy.ones(1, "?"), Dlpack(numpy.zeros(2, "?"))).array.all()
        assert comm.allgather(numpy.ones(1, "c8"), numpy.zeros(2, "c8")).tolist() == [1, 1]
        day = numpy.array(["2026-11-28"], "M8[D]")
        assert (comm.allgather(day) == day).all()
        assert comm.allreduce(numpy.array([comm.rank == 0]), type="u1", op=Op.MAX).tolist() == [True]
    oriel.run_threads(2, check)


def test_an_error_of_one_rank_alone_is_one_of_all():
    """Not only that of a root: no rank waits for the one that found it."""
    def check(comm):
        right, wrong = numpy.ones(4, "f4"), comm.rank == 1
        memory = oriel.Memory(64)
        for own, call in [
                ("format", lambda: comm.allreduce(numpy.ones(4, "?") if wrong else right)),
                ("no BAND", lambda: comm.allreduce(right, op=Op.BAND if wrong else Op.SUM)),
                ("needs a factor", lambda: comm.reduce(right, op=Op.PREMUL_SUM if wrong else Op.SUM)),
                ("the result 16", lambda: comm.allreduce(right, numpy.ones(3, "f4") if wrong else right)),
                ("no 2 equal parts", lambda: comm.reduce_scatter(right[:3 if wrong else 4])),
                ("the result 32", lambda: comm.allgather(right, numpy.ones(7 if wrong else 8, "f4"))),
                ("has no bytes", lambda: comm.allgather(None if wrong else right)),
                ("equal parts", lambda: comm.alltoall(b"123" if wrong else b"1234")),
                ("written", lambda: comm.bcast(bytes(4) if wrong else bytearray(4))),
                ("has no bytes", lambda: comm.gather(7 if wrong else right)),
                ("written", lambda: comm.scatter(bytes(8), bytes(4) if wrong else bytearray(4))),
                ("has no bytes", lambda: comm.allreduce(3 if wrong else right[:0])),
                ("no BAND", lambda: oriel.AllReduce(comm, memory, "f4", Op.BAND if wrong else Op.SUM)),
                ("no attribute", lambda: oriel.AllGather(comm, bytearray(64) if wrong else memory)),
                ("window", lambda: oriel.Window(comm, 64, signals="x" if wrong else 0)),
        ]:
            with pytest.raises(Exception if wrong else oriel.Error, match=own if wrong else None):
                call()
            assert not comm.health.is_broken
            assert comm.allreduce(right).tolist() == [2] * 4
    oriel.run_threads(2, check, timeout=20)


def test_persistent_reductions(nodes):
    def check(comm):
        memory = oriel.Memory(8 * 3000)
        with oriel.AllReduce(comm, memory, "f8", block=3) as reduction:
            for count in (3000, 1):
                reduction.run(values(comm.rank, count, "f8"))
                assert (reduction.result("f8", count) == expected(Op.SUM, 3, count, "f8")).all()
            reduction.start(values(comm.rank, 9, "f8"))
            while not reduction.test():
                pass
            assert (reduction.result("f8", 9) == expected(Op.SUM, 3, 9, "f8")).all()
            assert reduction.algorithm(8) in (oriel.Algorithm.ONE_SHOT, oriel.Algorithm.OWNER)
            with pytest.raises(oriel.InvalidError, match="of fp64, but send has elements of type fp32"):
                reduction.run(numpy.ones(2, "f4"))
        with oriel.Reduce(comm, memory, "i4", Op.MIN) as reduction:
            memory.array("i4")[:] = -1
            for root in range(3):
                reduction.run(values(comm.rank, 100, "i4"), root)
                reduction.start(values(comm.rank, 100, "i4"), root)
                reduction.wait()
                had_its_turn = comm.rank <= root
                least = expected(Op.MIN, 3, 100, "i4") if had_its_turn else -1
                assert (reduction.result("i4", 100) == least).all()
            comm.barrier()
        with oriel.ReduceScatter(comm, memory, "u8") as reduction:
            for run in (reduction.run, reduction.start):
                run(values(comm.rank, 300, "u8"))
                reduction.wait()
                whole = expected(Op.SUM, 3, 300, "u8").reshape(3, 100)
                assert (reduction.result("u8", 100) == whole[comm.rank]).all()
    oriel.run_threads(3, check, nodes=nodes)


def test_persistent_gather_and_scatter():
    def check(comm):
        memory = oriel.Memory(3 * 64)
        with oriel.Gather(comm, memory) as gather:
            for run in (gather.run, gather.start):
                run(b"rank %d" % comm.rank, root=1)
                gather.wait()
                assert bytes(memory.buffer[:18]) == (b"rank 0rank 1rank 2" if comm.rank == 1 else bytes(18))
                comm.barrier()
                memory.buffer[:18] = bytes(18)
                comm.barrier()
        with oriel.Scatter(comm, memory) as scatter:
            for root in range(3):
                scatter.run(b"to 0to 1to 2" if comm.rank == root else None, 4, root)
                assert bytes(memory.buffer[:4]) == b"to %d" % comm.rank
            scatter.start(b"as 0as 1as 2" if comm.rank == 2 else None, 4, 2)
            scatter.wait()
            assert bytes(memory.buffer[:4]) == b"as %d" % comm.rank
            if comm.rank == 0:
                with pytest.raises(oriel.InvalidError, match="11 bytes, not 3 parts of 4"):
                    scatter.run(bytes(11), 4)
            comm.barrier()
    oriel.run_threads(3, check)
