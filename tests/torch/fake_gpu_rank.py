#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_rank.py without a GPU: tensors of CUDA over the fake driver of tests/fakecuda, by fake_gpu.cpp:
fake_gpu_rank.py FOLDER [PART...], where FOLDER has the built fake_gpu.so. test_backend.py runs it."""
import ctypes
import os
import sys

import torch
import torch.distributed as dist

import oriel

FOLDER = sys.argv.pop(1)
sys.path.insert(0, FOLDER)
# The fake driver calls the library.
ctypes.CDLL(str(next((oriel._FOLDER / "lib").glob("liboriel.so.*"))), ctypes.RTLD_GLOBAL)
torch.cuda._lazy_init = lambda: None
import fake_gpu  # noqa: E402  # pylint: disable=wrong-import-position,import-error
import gpu_rank  # noqa: E402  # pylint: disable=wrong-import-position

torch.cuda.synchronize = lambda: fake_gpu.synchronize(0)
torch.cuda.device_count = lambda: 1
torch.cuda.set_device = lambda device: None
torch.cuda.get_device_capability = lambda device=None: (9, 0)
os.environ["LOCAL_RANK"] = "0"  # all share the GPU


@gpu_rank.part
def captures(rank, size):
    """Graphs as the fake driver has them: torch's belong to the real one."""
    gpu, same, before = gpu_rank.GPU, gpu_rank.same, (rank - 1) % size
    reduced, flat = torch.zeros(1000, device=gpu), torch.zeros(1000 * size, device=gpu)
    scaled = torch.zeros(1000, device=gpu)
    sent, received = torch.zeros(70_000, device=gpu), torch.zeros(70_000, device=gpu)
    shared, seen = torch.zeros(10, device=gpu), torch.zeros(10, device=gpu)
    window = dist._new_window(shared) if gpu_rank.PutOptions else None
    stream = fake_gpu.new_stream()
    fake_gpu.use(stream)
    fake_gpu.begin_capture(stream)
    work = dist.all_reduce(reduced, async_op=True)
    assert repr(work).endswith(f"; rank {rank}; captured>"), work
    work.wait()
    dist.all_gather_into_tensor(flat, reduced)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(rank + 0.5))
    for work in [dist.isend(sent, (rank + 1) % size), dist.irecv(received, before)]:
        work.wait()
    if window:
        window.put(sent[:10], (rank + 1) % size, 0, False)
        window.signal((rank + 1) % size, True).wait()
        window.wait_signal(before, False)
        seen.copy_(shared)
    graph = fake_gpu.end_capture(stream)
    for i in range(10):
        reduced.fill_(float(rank + i))
        scaled.fill_(float(rank + i))
        sent.fill_(float(rank + i))
        fake_gpu.launch(graph, stream)
        total = float(sum(r + i for r in range(size)))
        same(reduced, torch.full((1000,), total), f"all_reduce, launch {i}")
        same(flat, torch.full((1000 * size,), total), f"all_gather, launch {i}")
        same(scaled, torch.full((1000,), sum((r + 0.5) * (r + i) for r in range(size))), f"PREMUL_SUM, launch {i}")
        same(received, torch.full((70_000,), float(before + i)), f"message, launch {i}")
        if window:
            same(seen, torch.full((10,), float(before + i)), f"put, launch {i}")
        tensor = torch.ones(10, device=gpu)
        dist.all_reduce(tensor)
        same(tensor, torch.full((10,), float(size)), "between launches")
    fake_gpu.use(0)


gpu_rank.main()
