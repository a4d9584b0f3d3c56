#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of run.py: both backends, mpi4py under mpirun, and a bare copy in turns, in one process. Rank 0
prints a JSON object a row.

A lap of a row is a number of calls in a row by one of them and then by the next one, between
barriers; a time is that of a lap over its calls, on rank 0. A ping-pong counts half.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist

K, M = 1 << 10, 1 << 20
SIZES = [8, K, 64 * K, M, 16 * M, 64 * M]
LAPS = int(os.environ.get("LAPS", "9"))
LAP_S = 0.03  # about


if "OMPI_COMM_WORLD_RANK" in os.environ:
    from mpi4py import MPI
    os.environ.update(RANK=os.environ["OMPI_COMM_WORLD_RANK"], WORLD_SIZE=os.environ["OMPI_COMM_WORLD_SIZE"])


def operations(rank, size, group):
    """Name: (largest size, a function that makes the call for so many bytes of a rank)."""
    def all_reduce(count):
        tensor = torch.ones(count)
        return lambda: dist.all_reduce(tensor, group=group)

    def all_gather(count):
        send, recv = torch.ones(count), torch.empty(count * size)
        return lambda: dist.all_gather_into_tensor(recv, send, group=group)

    def reduce_scatter(count):
        send, recv = torch.ones(count * size), torch.empty(count)
        return lambda: dist.reduce_scatter_tensor(recv, send, group=group)

    def all_to_all(count):
        send, recv = torch.ones(count * size), torch.empty(count * size)
        return lambda: dist.all_to_all_single(recv, send, group=group)

    def broadcast(count):
        tensor = torch.ones(count)
        return lambda: dist.broadcast(tensor, 0, group=group)

    def send_recv(count):
        tensor = torch.ones(count)

        def call():
            if rank == 0:
                dist.send(tensor, 1, group=group)
                dist.recv(tensor, 1, group=group)
            elif rank == 1:
                dist.recv(tensor, 0, group=group)
                dist.send(tensor, 0, group=group)
        return call

    def barrier(_):
        return lambda: dist.barrier(group=group)
    return {"all_reduce": (64 * M, all_reduce), "all_gather": (16 * M, all_gather),
            "reduce_scatter": (16 * M, reduce_scatter), "all_to_all": (16 * M, all_to_all),
            "broadcast": (64 * M, broadcast), "send_recv": (64 * M, send_recv), "barrier": (8, barrier)}


def mpi_operations(rank, size):
    """The same by mpi4py, on the memory of the same kind of tensors."""
    world = MPI.COMM_WORLD

    def full(count):
        return torch.ones(count).numpy()

    def all_reduce(count):
        buffer = full(count)
        return lambda: world.Allreduce(MPI.IN_PLACE, buffer)

    def all_gather(count):
        send, recv = full(count), full(count * size)
        return lambda: world.Allgather(send, recv)

    def reduce_scatter(count):
        send, recv = full(count * size), full(count)
        return lambda: world.Reduce_scatter_block(send, recv)

    def all_to_all(count):
        send, recv = full(count * size), full(count * size)
        return lambda: world.Alltoall(send, recv)

    def broadcast(count):
        buffer = full(count)
        return lambda: world.Bcast(buffer)

    def send_recv(count):
        buffer = full(count)

        def call():
            if rank == 0:
                world.Send(buffer, 1)
                world.Recv(buffer, 1)
            elif rank == 1:
                world.Recv(buffer, 0)
                world.Send(buffer, 0)
        return call
    functions = {"all_reduce": all_reduce, "all_gather": all_gather, "reduce_scatter": reduce_scatter,
                 "all_to_all": all_to_all, "broadcast": broadcast, "send_recv": send_recv,
                 "barrier": lambda _: world.Barrier}
    return {name: (None, function) for name, function in functions.items()}


def copies(size):
    """A bare copy, on all ranks, of what a rank receives: with long messages the limit of all."""
    def copy(many, times=1):
        def make(count):
            send, recv = torch.ones(count * many), torch.empty(count * many)

            def call():
                for _ in range(times):
                    recv.copy_(send)
            return call
        return make
    return {name: (None, copy(*how)) for name, how in {
        "all_reduce": (1,), "all_gather": (size,), "reduce_scatter": (1,), "all_to_all": (size,), "broadcast": (1,),
        "send_recv": (1, 2), "barrier": (0,)}.items()}


def lap(call, calls, control):
    dist.barrier(group=control)
    begun = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begun) / calls * 1e6


def agreed(calls, control):
    """The number of calls of rank 0."""
    tensor = torch.tensor([calls])
    dist.broadcast(tensor, 0, group=control)
    return int(tensor.item())


def main():
    wanted = sys.argv[1:]
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    groups = {"oriel": dist.new_group(backend="oriel"), "gloo": dist.new_group(backend="gloo")}
    control = groups["oriel"]
    tables = {name: operations(rank, size, group) for name, group in groups.items()}
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        tables["mpi4py"] = mpi_operations(rank, size)
    tables["copy"] = copies(size)
    for test in wanted or tables["gloo"]:
        largest = tables["gloo"][test][0]
        for length in SIZES if test != "barrier" else [0]:
            if length > largest:
                continue
            half = 2 if test == "send_recv" else 1
            calls, taken = {}, {name: [] for name in tables}
            functions = {name: table[test][1](max(1, length // 4)) for name, table in tables.items()}
            for name, call in functions.items():
                once = min(lap(call, 3, control) for _ in range(3))
                calls[name] = agreed(max(2, min(2000, int(LAP_S * 1e6 / max(once, 1)))), control)
            for number in range(LAPS):
                names = list(tables) if number % 2 else list(tables)[::-1]
                for name in names:
                    taken[name].append(lap(functions[name], calls[name], control) / half)
            if rank == 0:
                print(json.dumps({"test": test, "bytes": length, "ranks": size, "laps_us": taken, "calls": calls}),
                      flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
