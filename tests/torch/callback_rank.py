#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank whose futures have callbacks that call collectives themselves: oriel run -n 2 callback_rank.py PART."""
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook, quantization_hooks

PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


@part
def calls(_, size):
    """A callback that calls and waits, in each form."""
    def again(future):
        (data,) = future.value()
        dist.all_reduce(data)
        dist.all_reduce(data, async_op=True).wait()
        return dist.all_reduce(data, async_op=True).get_future().wait()[0]

    for count in (1, 100_000):
        data = torch.ones(count)
        works = [dist.all_reduce(data, async_op=True) for _ in range(3)]
        result = works[-1].get_future().then(again).wait()
        assert (result == size ** 6).all() and (data == size ** 6).all()
        for work in works:
            work.wait()


@part
def order(rank, size):
    """What a callback calls comes ahead of what the program calls behind its operation, however late a rank is."""
    for late in range(size):
        data, other = torch.ones(1), torch.full((1,), 2.0)
        box = torch.zeros(1)
        if rank == late:
            dist.recv(box, (rank + 1) % size)  # the other rank has submitted all
        future = dist.all_reduce(data, async_op=True).get_future().then(lambda f: dist.broadcast(f.value()[0], 0))
        last = dist.all_reduce(other, dist.ReduceOp.PRODUCT, async_op=True)
        if rank == (late + 1) % size:
            dist.send(box, late)
        future.wait()
        last.wait()
        assert data.item() == size and other.item() == 2 ** size


@part
def failures(rank, _):
    """What fails in a callback is the error of its future."""
    def fails(future):
        dist.all_reduce(future.value()[0], dist.ReduceOp.BAND)

    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(fails)
    try:
        future.wait()
    except RuntimeError as error:
        assert "no band of Float" in str(error), error
        return
    raise AssertionError(f"rank {rank}: no error")


def trained(rank, hook):
    """The weights of a model after some steps by DDP with the hook, in several buckets."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6)))
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.03)
    hook(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def agreed(rank, size, hook):
    weights = trained(rank, hook)
    every = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(every, weights)
    assert all(torch.equal(each, weights) for each in every) and weights.isfinite().all()


@part
def power_sgd(rank, size):
    agreed(rank, size, lambda model: model.register_comm_hook(
        powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2),
        powerSGD_hook.powerSGD_hook))


@part
def quantized(rank, size):
    agreed(rank, size, lambda model: model.register_comm_hook(
        dist.group.WORLD, quantization_hooks.quantization_pertensor_hook))


def main():
    dist.init_process_group("oriel")
    rank, size = dist.get_rank(), dist.get_world_size()
    for name in sys.argv[1:] or PARTS:
        PARTS[name](rank, size)
        dist.barrier()
        print(f"rank {rank}: {name} passed", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
