#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of the tests of the backend "oriel" of torch with tensors of CUDA; ranks may share a GPU:
oriel run -n 2 gpu_rank.py [PART...]. scripts/gpu-check python runs it."""
import datetime
import os
import re
import sys
import threading
import time

import torch
import torch.distributed as dist

import oriel.torch  # noqa: F401  # torch 2.11 finds no backend by itself

try:
    from torch._C._distributed_c10d import PutOptions, WaitSignalOptions, WindowAccessType
except ImportError:  # torch 2.11
    PutOptions = None

PARTS = {}
GPU = None  # of this rank
# Bytes of the window that results pass through (gpu.hpp of oriel.torch): longer ones take
# several pieces.
ROOM = 32 << 20


def part(function):
    PARTS[function.__name__] = function
    return function


def raises(text, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except Exception as error:  # pylint: disable=broad-except
        assert text in str(error), f"'{text}' is not in '{error}'"
        return str(error)
    raise AssertionError(f"no error with '{text}'")


def values(count, rank, dtype=torch.float32):
    """Small numbers, whose sums are exact in every type."""
    return (torch.arange(count) % 5 + rank % 3 + 1).to(dtype)


def same(tensor, expected, what=""):
    assert tensor.device == GPU and tensor.dtype == expected.dtype and tensor.shape == expected.shape, what
    found = tensor.cpu()
    if not torch.equal(found, expected):
        wrong = (found != expected).nonzero()
        raise AssertionError(f"{what}: {wrong.shape[0]} of {expected.numel()} elements differ, the first at "
                             f"{wrong[0].tolist()}: {found[tuple(wrong[0])]} and {expected[tuple(wrong[0])]}")


def ended(work):
    """Waits on the host, whatever becomes of @work."""
    limit = time.monotonic() + 60
    while not work.is_completed():
        assert time.monotonic() < limit, "an operation does not end"
        time.sleep(0.001)


TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.int8,
         torch.uint8]
COUNTS = [0, 1, 3, 255, 1000, 4097, 100_003, 1_000_001]


@part
def gathers(rank, size):
    for dtype in TYPES + [torch.bool, torch.complex64]:
        for count in COUNTS if dtype == torch.float32 else (1, 1001, 70_001):
            every = [values(count, r, dtype) for r in range(size)]
            mine = every[rank].to(GPU)
            flat = torch.empty(size * count, dtype=dtype, device=GPU)
            dist.all_gather_into_tensor(flat, mine)
            same(flat, torch.cat(every), f"all_gather_into_tensor {dtype} {count}")
            outputs = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(outputs, mine)
            for output, expected in zip(outputs, every):
                same(output, expected, f"all_gather {dtype} {count}")
    for root in range(size):
        outputs = [torch.empty(3, 2, device=GPU) for _ in range(size)] if rank == root else None
        dist.gather(torch.full((3, 2), float(rank), device=GPU), outputs, dst=root)
        for r, output in enumerate(outputs or []):
            same(output, torch.full((3, 2), float(r)), "gather")
        for count in (1, 7, 2_000_003):
            inputs = [values(count, r + root).to(GPU) for r in range(size)] if rank == root else None
            output = torch.empty(count, device=GPU)
            dist.scatter(output, inputs, src=root)
            same(output, values(count, rank + root), f"scatter {count}")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]


@part
def broadcasts(rank, size):
    for root in range(size):
        for dtype in TYPES:
            for count in COUNTS if dtype == torch.float32 else (1, 1001):
                tensor = values(count, rank, dtype).to(GPU)
                dist.broadcast(tensor, src=root)
                same(tensor, values(count, root, dtype), f"broadcast {dtype} {count}")
    wide = torch.full((6, 4), float(rank), device=GPU)
    dist.broadcast(wide[:, 1], src=1)  # not contiguous
    expected = torch.full((6, 4), float(rank))
    expected[:, 1] = 1
    same(wide, expected, "broadcast of a column")


@part
def reductions(rank, size):
    for dtype in TYPES:
        for count in COUNTS if dtype in (torch.float32, torch.bfloat16) else (1, 1001, 70_001):
            every = [values(count, r, dtype) for r in range(size)]
            stacked = torch.stack(every).double()
            for op, expected in ((dist.ReduceOp.SUM, stacked.sum(0)), (dist.ReduceOp.MAX, stacked.amax(0)),
                                 (dist.ReduceOp.MIN, stacked.amin(0)), (dist.ReduceOp.PRODUCT, stacked.prod(0))):
                if op == dist.ReduceOp.PRODUCT and size > 2:
                    continue  # beyond the numbers of int8
                tensor = every[rank].to(GPU)
                dist.all_reduce(tensor, op)
                same(tensor, expected.to(dtype), f"all_reduce {op} {dtype} {count}")
        for count in (1, 1001, 100_003):
            every = [values(size * count, r, dtype) for r in range(size)]
            total = torch.stack(every).double().sum(0).to(dtype)
            output = torch.empty(count, dtype=dtype, device=GPU)
            dist.reduce_scatter_tensor(output, every[rank].to(GPU))
            same(output, total[rank * count:(rank + 1) * count], f"reduce_scatter_tensor {dtype} {count}")
            output.zero_()
            dist.reduce_scatter(output, list(every[rank].to(GPU).chunk(size)))
            same(output, total[rank * count:(rank + 1) * count], f"reduce_scatter {dtype} {count}")
            for root in range(size):
                tensor = every[rank].to(GPU)
                dist.reduce(tensor, root)
                same(tensor, total if rank == root else every[rank], f"reduce {dtype} {count}")
    # The bits are those of the CPU, whatever the numbers are.
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            numbers = torch.randn(50_001, generator=torch.Generator().manual_seed(rank)).to(dtype)
            tensor = numbers.to(GPU)
            dist.all_reduce(numbers, op)
            dist.all_reduce(tensor, op)
            same(tensor, numbers, f"all_reduce {op} {dtype} on the GPU and the CPU")
    # Factors differ between ranks, and change on some of them only.
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        for step, count in enumerate((1001, 1001, 70_001, 1001)):
            scale = 2 + rank + (step if rank else 0)
            scale += 0 if dtype == torch.int32 else 0.3
            op = dist._make_nccl_premul_sum(float(scale))
            numbers = values(size * count, rank, dtype)
            for root in (None, size - 1):
                expected, tensor = numbers.clone(), numbers.to(GPU)
                for one in (expected, tensor):
                    if root is None:
                        dist.all_reduce(one, op)
                    else:
                        dist.reduce(one, root, op)
                same(tensor, expected, f"PREMUL_SUM {dtype} {count} to {root} on the GPU and the CPU")
                assert root not in (None, rank) or not torch.equal(expected, numbers)
            part_of_it, output = torch.empty(count, dtype=dtype), torch.empty(count, dtype=dtype, device=GPU)
            dist.reduce_scatter_tensor(part_of_it, numbers, op)
            dist.reduce_scatter_tensor(output, numbers.to(GPU), op)
            same(output, part_of_it, f"reduce_scatter_tensor PREMUL_SUM {dtype} {count}")
    tensor = torch.full((3,), float(rank + 1), device=GPU)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    assert tensor.tolist() == [size * (size + 1) / 4] * 3
    tensor = torch.tensor([1 << rank], dtype=torch.uint8, device=GPU)
    dist.all_reduce(tensor, dist.ReduceOp.BOR)
    assert tensor.item() == (1 << size) - 1
    tensor = torch.tensor([rank == 0, False], device=GPU)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [True, False]
    wide = torch.ones(4, 3, device=GPU)
    dist.all_reduce(wide[:, 0])
    wide = wide.cpu()
    assert wide[:, 0].tolist() == [size] * 4 and (wide[:, 1:] == 1).all()
    tensors = [torch.full((i + 1,), float(rank), device=GPU) for i in range(3)]
    dist.distributed_c10d._get_default_group()._get_backend(GPU).allreduce_coalesced(tensors).wait()
    for i, tensor in enumerate(tensors):
        same(tensor, torch.full((i + 1,), float(sum(range(size)))), "all_reduce_coalesced")


@part
def exchanges(rank, size):
    for dtype in (torch.float32, torch.bfloat16, torch.uint8):
        for count in (1, 3, 1001, 300_007):
            every = [values(size * count, r, dtype) for r in range(size)]
            output = torch.empty(size * count, dtype=dtype, device=GPU)
            dist.all_to_all_single(output, every[rank].to(GPU))
            same(output, torch.cat([e[rank * count:(rank + 1) * count] for e in every]), f"all_to_all {dtype} {count}")
    for count in (0, 1, 5000, 400_001):
        # Rank p gets count * (p + 1) rows of each; the last rank sends nothing to the first.
        splits = [count * (r + 1) for r in range(size)]
        mine = [count * (rank + 1)] * size
        if rank == size - 1:
            splits[0] = 0
        if rank == 0:
            mine[-1] = 0
        output = torch.empty(sum(mine), 2, device=GPU)
        dist.all_to_all_single(output, torch.full((sum(splits), 2), float(rank), device=GPU), mine, splits)
        same(output[:, 0].contiguous(), torch.cat([torch.full((n,), float(r)) for r, n in enumerate(mine)]),
             f"all_to_all with splits {count}")
    outputs = [torch.empty(rank + 1, device=GPU) for _ in range(size)]
    dist.all_to_all(outputs, [torch.full((r + 1,), 10.0 * rank + r, device=GPU) for r in range(size)])
    assert [o.tolist() for o in outputs] == [[10.0 * r + rank] * (rank + 1) for r in range(size)]


@part
def long_ones(rank, size):
    """More than the window has room for."""
    count = ROOM // 4 * 2 + 1001
    every = [values(count, r) for r in range(size)]
    tensor = every[rank].to(GPU)
    dist.all_reduce(tensor)
    same(tensor, torch.stack(every).sum(0), "long all_reduce")
    tensor = every[rank].to(GPU)
    dist.broadcast(tensor, src=size - 1)
    same(tensor, every[-1], "long broadcast")
    flat = torch.empty(size * count, device=GPU)
    dist.all_gather_into_tensor(flat, every[rank].to(GPU))
    same(flat, torch.cat(every), "long all_gather_into_tensor")
    for length in (ROOM // 4 // size + 3, ROOM // 4 + 1001):
        rows = [values(size * length, r) for r in range(size)]
        output = torch.empty(length, device=GPU)
        dist.reduce_scatter_tensor(output, rows[rank].to(GPU))
        same(output, torch.stack(rows).sum(0)[rank * length:(rank + 1) * length], "long reduce_scatter_tensor")
        flat = torch.empty(size * length, device=GPU)
        dist.all_to_all_single(flat, rows[rank].to(GPU))
        same(flat, torch.cat([r[rank * length:(rank + 1) * length] for r in rows]), "long all_to_all")


@part
def messages(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    # What a first operation makes may wait for the GPU, and so for a receive that waits.
    dist.all_reduce(torch.ones(1000, device=GPU))
    for count in (1, 3, 1000, 3_000_001):  # the last is longer than a channel
        # All send first.
        sent = dist.isend(values(count, rank).to(GPU), after)
        tensor = torch.empty(count, device=GPU)
        received = dist.irecv(tensor, before)
        received.wait()
        sent.wait()
        same(tensor, values(count, before), f"isend {count}")
        if rank == 0:
            dist.send(values(count, 7).to(GPU), 1)
        elif rank == 1:
            tensor = torch.empty(count, device=GPU)
            assert dist.recv(tensor, 0) == 0
            same(tensor, values(count, 7), f"send {count}")
    # Several, in their order, and as a batch.
    tensors = [torch.empty(10, device=GPU) for _ in range(5)]
    works = [dist.irecv(tensor, before) for tensor in tensors]
    works += [dist.isend(torch.full((10,), 10.0 * rank + i, device=GPU), after) for i in range(5)]
    for work in works:
        work.wait()
    for i, tensor in enumerate(tensors):
        same(tensor, torch.full((10,), 10.0 * before + i), "messages in order")
    tensor = torch.empty(100, device=GPU)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, values(100, rank).to(GPU), after),
                                        dist.P2POp(dist.irecv, tensor, before)]):
        work.wait()
    same(tensor, values(100, before), "batch_isend_irecv")
    # A receive that waits holds up no collective.
    if rank == 1:
        tensor = torch.empty(4, device=GPU)
        work = dist.irecv(tensor, 0)
    total = torch.ones(1000, device=GPU)
    dist.all_reduce(total)
    same(total, torch.full((1000,), float(size)), "a collective beside a receive")
    if rank == 0:
        dist.send(torch.full((4,), 9.0, device=GPU), 1)
    elif rank == 1:
        work.wait()
        same(tensor, torch.full((4,), 9.0), "a receive that waited")


@part
def streams(rank, size):
    # A work orders streams: what is computed before goes in, and results are there behind wait().
    side = torch.cuda.Stream()
    busy = torch.randn(1000, 1000, device=GPU)
    for i in range(10):
        for stream in (torch.cuda.current_stream(), side):
            with torch.cuda.stream(stream):
                for _ in range(5):
                    busy = busy @ busy / 40
                tensor = torch.full((100_000,), float(rank + i), device=GPU) + 0 * busy[0, 0].nan_to_num(0, 0, 0)
                work = dist.all_reduce(tensor, async_op=True)
                work.wait()
                result = tensor * 2
            stream.synchronize()
            same(result, torch.full((100_000,), 2.0 * sum(r + i for r in range(size))), "behind wait()")
        torch.cuda.current_stream().wait_stream(side)
    # In turn without a wait between: the group keeps their order.
    tensor = torch.ones(1000, device=GPU)
    works = [dist.all_reduce(tensor, async_op=True) for _ in range(3)]
    for work in works:
        work.wait()
    dist.all_reduce(tensor)
    same(tensor, torch.full((1000,), float(size ** 4)), "one after the other")
    # Tensors that the program drops are not used for others before the end.
    for i in range(20):
        output = torch.empty(size * 50_000, device=GPU)
        work = dist.all_gather_into_tensor(output, torch.full((50_000,), float(i * 10 + rank), device=GPU), async_op=True)
        for _ in range(3):
            torch.full((50_000,), -1.0, device=GPU)
        work.wait()
        same(output, (torch.arange(size) + 10.0 * i).repeat_interleave(50_000), "a dropped input")
    # Futures, and the host's view.
    tensor = torch.full((5,), float(rank), device=GPU)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2).wait()
    same(doubled, torch.full((5,), 2.0 * sum(range(size))), "a future")
    work.wait(datetime.timedelta(seconds=20))
    assert work.is_completed() and work.is_success()
    assert re.fullmatch(rf"<oriel:all_reduce [0-9]+; rank {rank}; ended>", repr(work)), work
    assert work.result()[0] is not None
    if rank == 0:
        tensor = torch.empty(4, device=GPU)
        work = dist.irecv(tensor, 1)
        raises("has not ended within 200 ms", work.wait, datetime.timedelta(milliseconds=200))
        assert not work.is_completed()
    elif rank == 1:
        time.sleep(0.5)
        dist.send(torch.ones(4, device=GPU), 0)
    dist.barrier()
    if rank == 0:
        work.wait()
        same(tensor, torch.ones(4), "after a limit")
    # A barrier waits for streams.
    tensor = torch.ones(1_000_000, device=GPU)
    work = dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    assert work.is_completed()
    work.wait()
    # A thread of its own, as that of autograd.
    found = []

    def other():
        tensor = torch.full((7,), float(rank), device=GPU)
        dist.all_reduce(tensor)
        found.append(tensor.cpu())
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found[0].tolist() == [float(sum(range(size)))] * 7


@part
def graphs(rank, size):
    source = torch.zeros(5001, device=GPU)
    reduced, few = torch.zeros(5001, device=GPU), torch.zeros(3, device=GPU)
    flat = torch.zeros(size * 5001, device=GPU)
    scattered = torch.zeros(100, device=GPU)
    rows = torch.zeros(size * 100, device=GPU)
    swapped = torch.zeros(size * 100, device=GPU)
    uneven = torch.zeros(size * (rank + 1), device=GPU)
    received = torch.zeros(300_000, device=GPU)
    message = torch.zeros(300_000, device=GPU)
    shared, seen = torch.zeros(10, device=GPU), torch.zeros(10, device=GPU)
    window = dist._new_window(shared) if PutOptions else None

    def step():
        reduced.copy_(source)
        work = dist.all_reduce(reduced, async_op=True)
        few.copy_(source[:3])
        dist.broadcast(few, src=1)
        dist.all_gather_into_tensor(flat, source)
        work.wait()
        rows.copy_(source[0].expand(size * 100) + torch.arange(size * 100, device=GPU))
        dist.reduce_scatter_tensor(scattered, rows)
        dist.all_to_all_single(swapped, rows)
        dist.all_to_all_single(uneven, source[:size * (size + 1) // 2].clone(), [rank + 1] * size,
                               [r + 1 for r in range(size)])
        message.copy_(source[0].expand(300_000))
        works = [dist.isend(message, (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]
        for work in works:
            work.wait()
        if window:
            window.put(source[:10], (rank + 1) % size, 0, False)
            window.signal((rank + 1) % size, True).wait()
            window.wait_signal((rank - 1) % size, False)
            seen.copy_(shared)
            dist.all_reduce(few)  # before the next put: all have read it

    # Made in the capture itself: no warm-up.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for i in range(30):
        source.fill_(float(i * size + rank))
        graph.replay()
        total = float(sum(i * size + r for r in range(size)))
        same(reduced, torch.full((5001,), total), f"all_reduce, replay {i}")
        same(few, torch.full((3,), float(i * size + 1) * (size if window else 1)), f"broadcast, replay {i}")
        same(flat, torch.cat([torch.full((5001,), float(i * size + r)) for r in range(size)]), f"all_gather, replay {i}")
        same(scattered, total + size * (torch.arange(100.0) + 100 * rank), f"reduce_scatter, replay {i}")
        same(swapped, torch.cat([torch.arange(100.0) + 100 * rank + i * size + r for r in range(size)]),
             f"all_to_all, replay {i}")
        same(uneven, torch.cat([torch.full((rank + 1,), float(i * size + r)) for r in range(size)]),
             f"all_to_all with splits, replay {i}")
        same(received, torch.full((300_000,), float(i * size + (rank - 1) % size)), f"message, replay {i}")
        if window:
            same(seen, torch.full((10,), float(i * size + (rank - 1) % size)), f"put, replay {i}")
        if i % 7 == 0:  # between replays, the same objects
            tensor = torch.full((5001,), float(rank), device=GPU)
            dist.all_reduce(tensor)
            same(tensor, torch.full((5001,), float(sum(range(size)))), "between replays")
    del graph


@part
def groups(rank, size):
    pairs = [dist.new_group([0, 1]), dist.new_group(list(range(size)))]
    for group in pairs:
        if dist.get_rank(group) >= 0:
            for _ in range(3):
                tensor = torch.ones(1000, device=GPU)
                dist.all_reduce(tensor, group=group)
                same(tensor, torch.full((1000,), float(dist.get_world_size(group))), "of a group")
    for group in pairs if rank else reversed(pairs):
        if dist.get_rank(group) >= 0:
            dist.destroy_process_group(group)
    # CPU and GPU in one group, and a group of the GPU alone.
    group = dist.new_group(backend="cpu:gloo,cuda:oriel")
    for device in ("cpu", GPU):
        tensor = torch.ones(3, device=device)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [size] * 3
    dist.barrier(group=group)
    dist.destroy_process_group(group)


@part
def refusals(rank, size):
    tensor = torch.ones(4, device=GPU)
    raises("from a rank that is named", dist.recv, tensor)
    raises("and cpu", dist.all_gather, [torch.empty(4) for _ in range(size)], tensor)
    raises("sparse", dist.all_reduce, torch.eye(2, device=GPU).to_sparse())
    raises("no band of Float", dist.all_reduce, tensor, dist.ReduceOp.BAND)
    dist.all_reduce(tensor)  # nothing is broken
    same(tensor, torch.full((4,), float(size)), "after refusals")


@part
def late_ones(rank, size):
    """A rank that does not come within the timeout: the others learn it, and streams go on."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=10))
    tensor = torch.ones(10, device=GPU)
    dist.all_reduce(tensor, group=group)
    torch.cuda.synchronize()
    if rank != size - 1:
        work = dist.all_reduce(tensor, group=group, async_op=True)
        ended(work)
        said = raises("the process group is broken", work.wait)
        assert f"rank {size - 1}" in said or "aborted" in said, said
        raises("the process group is broken", dist.all_reduce, tensor, group=group)
    else:
        time.sleep(18)
    dist.destroy_process_group(group)
    dist.barrier()
    tensor = torch.ones(10, device=GPU)
    dist.all_reduce(tensor)
    same(tensor, torch.full((10,), float(size)), "of another group")


@part
def symmetric(rank, size):
    import torch.distributed._symmetric_memory as symm
    after, before = (rank + 1) % size, (rank - 1) % size
    symm.set_backend("ORIEL_CUDA")
    tensor = symm.empty(1000, dtype=torch.int64, device=GPU).fill_(rank)
    handle = symm.rendezvous(tensor, dist.group.WORLD)
    assert (handle.rank, handle.world_size) == (rank, size) and handle.multicast_ptr == 0
    handle.barrier(channel=5)
    theirs = handle.get_buffer(after, (1000,), torch.int64)
    same(theirs, torch.full((1000,), after), "memory of a peer")
    handle.barrier(channel=5)
    for i in range(20):
        theirs[0] = 1000 * rank + i
        handle.put_signal(after, 9)
        handle.wait_signal(before, 9)
        assert tensor[0] == 1000 * before + i
        handle.barrier(channel=63, timeout_ms=60_000)
    raises("channel 64 of 64", handle.barrier, 64)
    # Kernels of torch over it, by its signal pads.
    numbers = symm.empty(4096, dtype=torch.bfloat16, device=GPU).copy_(values(4096, rank, torch.bfloat16))
    symm.rendezvous(numbers, dist.group.WORLD)
    total = torch.ops.symm_mem.one_shot_all_reduce(numbers, "sum", dist.group.WORLD.group_name)
    same(total, sum(values(4096, r) for r in range(size)).bfloat16(), "one_shot_all_reduce")
    handle.barrier(channel=0)


def hinted(options, signal):
    options.hints = {"signal": str(signal)}
    return options


@part
def windows(rank, size):
    if not PutOptions:
        print(f"rank {rank}: windows left out: torch {torch.__version__} has none", flush=True)
        return
    after, before = (rank + 1) % size, (rank - 1) % size
    whole = values(20, rank).to(GPU)
    window = dist._new_window(whole)
    mine = torch.zeros(2, device=GPU)
    for i in range(20):  # in streams: nothing waits on the host
        mine.fill_(float(10 * rank + i))
        window.put(mine, after, 5, False)
        window.signal(after, False)
        window.wait_signal(before, False)
        same(whole[5:7], torch.full((2,), 10.0 * before + i), f"put {i}")
        dist.barrier()
    expected = values(20, rank)
    expected[5:7] = 10 * before + 19
    same(whole, expected, "the other elements")

    # A put with its signal, waits that are posted before it, and one that a copy engine moves.
    count = 300_000
    long = torch.zeros(count + 7, device=GPU)
    second = dist._new_window(long)
    works = [second.wait_signal(before, True, hinted(WaitSignalOptions(), 9)) for _ in range(3)]
    assert not works[0].is_completed()
    dist.barrier(group=dist.new_group(backend="gloo"))
    for i in range(3):
        length = count if i == 2 else 3
        sent = second.put(values(length, rank + i).to(GPU), after, 3 * i, True, hinted(PutOptions(), 9))
    for work in works:
        work.wait()
    sent.wait()
    expected = torch.cat([values(3, before), values(3, before + 1), values(count, before + 2), torch.zeros(1)])
    same(long, expected, "puts with signals")
    works[2].wait(datetime.timedelta(seconds=20))
    assert works[2].is_completed() and works[2].is_success()
    dist.barrier()

    for text, call in {
        f"put of 2 elements at offset 19 exceeds the window size of rank {after}, 20": lambda: window.put(mine, after, 19, False),
        "the tensor is Int": lambda: window.put(torch.ones(1, dtype=torch.int32, device=GPU), after, 0, False),
        "the tensor is of cpu, that of the window of cuda": lambda: window.put(torch.ones(1), after, 0, False),
        f"rank {size} of {size}": lambda: window.signal(size, False),
        "double registration": lambda: window.tensor_register(mine),
    }.items():
        raises(text, call)

    # Memory of peers, where it is mapped.
    views = {}
    for peer in range(size):
        if window.get_attr(peer).access_type == WindowAccessType.UNIFIED:
            views[peer] = window.map_remote_tensor(peer)
            same(views[peer][:5], values(5, peer), f"memory of rank {peer}")
        else:
            raises(f"rank {peer}", window.map_remote_tensor, peer)
    assert rank in views
    dist.barrier()
    if after in views:
        views[after].fill_(float(rank))
    dist.barrier()
    if before in views:
        same(whole, torch.full((20,), float(before)), "stored by a peer")
    expected = whole.cpu()
    own = views.pop(rank)  # no memory of a peer: it may stay
    is_held = torch.tensor([rank == 1 and len(views) > 0], device=GPU)
    dist.broadcast(is_held, 1)
    held = views if rank == 1 else None
    views = None  # noqa: F841
    if is_held:
        raises("rank 1 has ", window.tensor_deregister)
    held = None  # noqa: F841
    window.tensor_deregister()
    raises("a tensor is not registered", window.signal, after, False)
    same(whole, expected, "the tensor stays")
    same(own, expected, "the own memory stays")
    raises(f"of cuda, that of rank {size - 1} of cpu", window.tensor_register,
           torch.zeros(1, device="cpu" if rank == size - 1 else GPU))

    # Lengths differ; a rank may have nothing. The group closes a window that is left.
    window.tensor_register(torch.zeros(rank * 5, dtype=torch.bfloat16, device=GPU))
    if rank == 0:
        for peer in range(1, size):
            window.put(values(5, peer, torch.bfloat16).to(GPU), peer, peer * 5 - 5, False)
            window.signal(peer, False)
    else:
        window.wait_signal(0, False)
        same(window.map_remote_tensor(rank)[-5:], values(5, rank, torch.bfloat16), "of another length")

    # A limit that passes in a stream breaks the group, and names the rank.
    group = dist.new_group()
    lost = dist._new_window(torch.zeros(1, device=GPU), group)
    if rank == 0:
        options = WaitSignalOptions()
        options.timeout = datetime.timedelta(seconds=2)
        begun = time.monotonic()
        work = lost.wait_signal(1, True, options)
        ended(work)
        assert time.monotonic() - begun > 1.5
        raises("rank 1", work.wait)
        raises("the process group is broken", lost.signal, 1, False)
    dist.barrier()
    dist.destroy_process_group(group)


def killed(rank, size):
    tensor = torch.ones(10, device=GPU)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if rank == size - 1:
        os._exit(0)
    work = dist.all_reduce(tensor, async_op=True)
    ended(work)
    # Of three ranks, the second to learn it may find that the first has aborted.
    said = raises(f"rank {size - 1}" if size == 2 else "rank", work.wait)
    print(f"rank {rank} learned: {said}", flush=True)
    dist.distributed_c10d._get_default_group()._get_backend(GPU).abort()


@part
def open_windows(rank, size):
    """A group ends with an open window: each call on that says so, and the tensor stays."""
    if not PutOptions:
        return
    group, peer = dist.new_group(backend="oriel"), (rank + 1) % size
    tensor = values(5, rank).to(GPU)
    window = dist._new_window(tensor, group)
    dist.barrier(group=group)
    dist.destroy_process_group(group)
    for call in (lambda: window.put(values(1, 0).to(GPU), peer, 0, False), lambda: window.signal(peer, False),
                 lambda: window.wait_signal(peer, True), lambda: window.map_remote_tensor(peer)):
        raises("this window is closed", call)
    raises("the process group was shut down", window.tensor_deregister)
    same(tensor, values(5, rank), "the tensor of a window that was open")


def left_out():
    """Rank 1 is left out, lives on, and stores to memory of before: it is of no tensor of rank 0 any more."""
    rank = dist.get_rank()
    store = dist.PrefixStore("left_out", dist.distributed_c10d._get_default_store())
    store.set(str(rank), dist._get_reconfigure_handle())
    handles = [store.get(str(r)).decode() for r in (0, 1)]
    dist._reconfigure(1, handles).wait()
    tensor = values(5, rank).to(GPU)
    window = dist._new_window(tensor)
    view = window.map_remote_tensor(0) if rank == 1 else None
    dist.barrier()
    if rank == 0:
        dist._reconfigure(2, handles[:1]).wait()
        store.set("went on", "yes")
        store.get("stored")
        same(tensor, values(5, 0), "after the store")
        again = dist._new_window(tensor)
        again.put(torch.full((1,), 9.0, device=GPU), 0, 4, False)
        torch.cuda.synchronize()
        same(tensor, torch.cat([values(5, 0)[:4], torch.tensor([9.0])]), "the new window")
    else:
        store.get("went on")
        view.fill_(8.0)
        torch.cuda.synchronize()
        store.set("stored", "yes")
    dist.destroy_process_group()
    print(f"rank {rank}: left_out passed", flush=True)


def main():
    global GPU  # pylint: disable=global-statement
    if sys.argv[1:] == ["--list"]:
        print(*PARTS)
        return
    GPU = torch.device("cuda", int(os.environ.get("LOCAL_RANK", os.environ["RANK"])) % torch.cuda.device_count())
    torch.cuda.set_device(GPU)
    if sys.argv[1:] == ["left_out"]:
        dist.init_process_group("oriel", timeout=datetime.timedelta(seconds=100), enable_reconfigure=True)
        left_out()
        return
    dist.init_process_group("cpu:oriel,cuda:oriel", timeout=datetime.timedelta(seconds=100))
    rank, size = dist.get_rank(), dist.get_world_size()
    if sys.argv[1:] == ["killed"]:
        killed(rank, size)
        return
    for name, function in PARTS.items():
        if sys.argv[1:] == [] or name in sys.argv[1:]:
            begun = time.monotonic()
            function(rank, size)
            torch.cuda.synchronize()
            dist.barrier()
            print(f"rank {rank}: {name} passed in {time.monotonic() - begun:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
