#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's all-reduces of symmetric memory, sums of bf16, as rows of samples.h: a rank for each
GPU, started by reduce.py (torch.distributed.run)."""

import json
import os
import statistics

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

SIZES = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20,
         16 << 20, 64 << 20, 256 << 20]
PASSES = 7
ONE_SHOT_MOST = 4 << 20


def rounds_of(size):
    return 4 if size >= 64 << 20 else 20 if size >= 1 << 20 else 100


def timed(work, size):
    """us of one of many queued calls, in each pass."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    rounds, us = rounds_of(size), []
    for _ in range(PASSES + 1):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        work(1)
        begin.record()
        work(rounds)
        end.record()
        torch.cuda.synchronize()
        us.append(begin.elapsed_time(end) * 1e3 / rounds)
    return us[1:]


def captured(call, size):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(rounds_of(size)):
            call()
    return graph


def measure(mode, call, size):
    def eager(rounds):
        for _ in range(rounds):
            call()

    rows = {"eager": timed(eager, size)}
    graph = captured(call, size)
    rows["graph"] = timed(lambda rounds: graph.replay() if rounds > 1 else None, size)
    del graph
    ranks = dist.get_world_size()
    for form, us in rows.items():
        median = statistics.median(us)
        if dist.get_rank() == 0:
            print(json.dumps({
                "test": "allreduce", "impl": "torch", "mode": f"{mode}, {form}", "path": "mapped",
                "ranks": ranks, "bytes": size, "threads": 0, "blocks": 0, "median_us": median,
                "p99_us": max(us), "gbps": 2 * size * (ranks - 1) / ranks / median / 1e3}),
                flush=True)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    name = dist.group.WORLD.group_name
    device = torch.device("cuda", torch.cuda.current_device())
    memory = symmetric.empty(SIZES[-1] // 2, dtype=torch.bfloat16, device=device)
    symmetric.rendezvous(memory, name)
    memory.fill_(1)
    for size in SIZES:
        part = memory[:size // 2]
        one = torch.ops.symm_mem.one_shot_all_reduce(part, "sum", name)
        torch.cuda.synchronize()
        assert bool((one == float(dist.get_world_size()) * part).all()), size
        dist.barrier()
        if size <= ONE_SHOT_MOST:
            out = torch.empty_like(part)
            measure("one shot", lambda p=part, o=out: torch.ops.symm_mem.one_shot_all_reduce_out(
                p, "sum", name, o), size)
        memory.fill_(0)
        measure("two shots", lambda p=part: torch.ops.symm_mem.two_shot_all_reduce_(
            p, "sum", name), size)
        memory.fill_(1)
        torch.cuda.synchronize()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
