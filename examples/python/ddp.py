#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training over Oriel: oriel run -n 2 python ddp.py, or torchrun --nproc-per-node 2 ddp.py."""
import torch
import torch.distributed as dist
from torch import nn


def main():
    dist.init_process_group("oriel")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)  # equal parameters; each rank draws data of its own below
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(100 + rank)
    losses = []
    for _ in range(200):
        points = torch.rand(32, 8, generator=generator)
        loss = nn.functional.mse_loss(model(points), points.prod(1, keepdim=True))
        loss.backward()  # gradients are averaged over the ranks meanwhile
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(mean := loss.detach().clone(), dist.ReduceOp.AVG)
        losses.append(mean.item())
    assert losses[-1] < losses[0] / 10
    if rank == 0:
        print(f"{size} ranks: the loss went from {losses[0]:.4f} to {losses[-1]:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
