#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank that trains a small transformer in each way of torch, by another backend and then by oriel:
training_rank.py [--gpu] [WAY...]. Losses have equal bits where a sum has two addends. The other backend is
gloo; with --gpu oriel has tensors of CUDA, and the other backend is nccl, or, where ranks share a GPU, gloo
on the CPU, whose losses are close."""
import datetime
import os
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

if not hasattr(dist, "_new_window"):  # torch 2.11 finds no backend by itself
    import oriel.torch  # noqa: F401

WAYS = {}
STEPS, BATCH, LENGTH, WIDTH, WORDS = 3, 4, 8, 32, 50
DEVICE = torch.device("cpu")


def way(function):
    WAYS[function.__name__] = function
    return function


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.view(*x.shape[:2], 4, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)
        self.to(DEVICE)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss_of(outputs, targets):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    tokens = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator).to(DEVICE)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def train(model, rank, parameters=None):
    optimizer = torch.optim.AdamW(parameters or model.parameters(), lr=1e-2, foreach=False)
    losses = []
    for step in range(STEPS):
        tokens, targets = batch(step, rank)
        loss = loss_of(model(tokens), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@way
def ddp(rank, size):
    model = nn.parallel.DistributedDataParallel(Transformer(), bucket_cap_mb=0.05)
    losses = train(model, rank)
    total = torch.tensor([p.double().sum().item() for p in model.parameters()], device=DEVICE)
    every = [torch.empty_like(total) for _ in range(size)]
    dist.all_gather(every, total)
    assert all(torch.equal(other, total) for other in every), "parameters of ranks differ"
    return losses


@way
def fsdp2(rank, _):
    from torch.distributed.fsdp import fully_shard
    model = Transformer()
    mesh = dist.init_device_mesh(DEVICE.type, (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, rank)


@way
def tensor_parallel(_, size):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    model = Transformer()
    mesh = dist.init_device_mesh(DEVICE.type, (size,))
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return train(model, 0)  # of one batch on all ranks


@way
def dtensor(rank, size):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = dist.init_device_mesh(DEVICE.type, (size,))
    whole = torch.arange(8.0 * 6, device=DEVICE).reshape(8, 6)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    product = rows.t() @ rows
    sums = [columns.redistribute(mesh, [Replicate()]).to_local().sum().item(), product.full_tensor().sum().item()]
    assert torch.equal(columns.full_tensor(), whole) and rank == mesh.get_rank()
    return sums


class Stage(nn.Module):
    def __init__(self, model, rank, size):
        super().__init__()
        self.words = model.words if rank == 0 else None
        self.block = model.blocks[rank % 2]
        self.head = model.head if rank == size - 1 else None

    def forward(self, x):
        x = self.block(x if self.words is None else self.words(x))
        return x if self.head is None else self.head(x)


@way
def pipeline(rank, size):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    part = Stage(Transformer(), rank, size)
    stage = PipelineStage(part, rank, size, DEVICE)
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=loss_of)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        tokens, targets = batch(step, 0)
        found = []
        if rank == 0:
            schedule.step(tokens)
        elif rank == size - 1:
            schedule.step(target=targets, losses=found)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        losses += [loss.item() for loss in found]
    return losses


@way
def checkpoint(rank, _):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    mesh = dist.init_device_mesh(DEVICE.type, (dist.get_world_size(),))
    model = fully_shard(Transformer(), mesh=mesh)
    losses = train(model, rank)
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder[0])
    torch.manual_seed(99)
    other = fully_shard(Transformer(), mesh=mesh)
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=folder[0])
    other.load_state_dict(state["model"])
    tokens, targets = batch(9, 0)
    after = [loss_of(m(tokens), targets).item() for m in (model, other)]
    assert after[0] == after[1], after
    return losses + after


def gpu():
    """The GPU of this rank, on which all is deterministic."""
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", os.environ["RANK"])) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def main():
    global DEVICE  # pylint: disable=global-statement
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wanted = [name for name in sys.argv[1:] if name != "--gpu"] or list(WAYS)
    own = gpu() if "--gpu" in sys.argv else DEVICE
    is_alone = own.type == "cuda" and torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"])
    other, theirs_on = ("nccl", own) if is_alone else ("gloo", torch.device("cpu"))
    results = {}
    for backend, DEVICE in ((other, theirs_on), ("oriel", own)):
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=100))
        rank, size = dist.get_rank(), dist.get_world_size()
        for name in wanted:
            torch.manual_seed(7)
            results[backend, name] = WAYS[name](rank, size)
        dist.barrier()
        dist.destroy_process_group()
        # A second rendezvous at another port, since the first store was closed.
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    for name in wanted:
        theirs, ours = results[other, name], results["oriel", name]
        assert len(ours) == len(theirs)
        if ours == theirs:
            print(f"rank {rank}: {name} has the bits of {other}", flush=True)
            continue
        apart = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
        assert (size > 2 or own != theirs_on) and apart < 1e-4, (name, ours, theirs)
        print(f"rank {rank}: {name} differs from {other} by {apart:.0e} at most", flush=True)


if __name__ == "__main__":
    main()
