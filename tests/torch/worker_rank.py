# SPDX-License-Identifier: Apache-2.0
"""
A rank whose group is used by those that may not, children of fork() and workers of a DataLoader, and by tasks of asyncio,
which may.
"""
import asyncio
import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

dist.init_process_group("oriel")
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.full((4,), float(rank))
window = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).new_window(tensor)  # pylint: disable=protected-access


class Summed(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        data = torch.full((3,), float(index))
        dist.all_reduce(data)
        return data


def refused(what, call):
    try:
        call()
    except RuntimeError as error:
        # A DataLoader gives the traceback of its worker, with the error at the end.
        print(f"rank {rank}: {what}: {str(error).splitlines()[-1]}", flush=True)
        return
    print(f"rank {rank}: {what} had no error", flush=True)


def in_a_child():
    for what, call in (
            ("all_reduce", lambda: dist.all_reduce(torch.ones(2))),
            ("all_reduce in the thread", lambda: dist.all_reduce(torch.ones(2), async_op=True).wait()),
            ("barrier", dist.barrier),
            ("send", lambda: dist.send(torch.ones(2), 1 - rank)),
            ("a long send", lambda: dist.send(torch.ones(5000), 1 - rank)),
            ("recv", lambda: dist.recv(torch.ones(2), 1 - rank)),
            ("monitored_barrier", dist.monitored_barrier),
            ("put", lambda: window.put(torch.ones(1), 1 - rank, 0, False))):
        refused("child: " + what, call)


def sum_holds():
    data = torch.tensor([rank + 1.0])
    dist.all_reduce(data)
    assert data.item() == size * (size + 1) / 2


def messages_hold():
    data = torch.full((5000,), float(rank))
    sent = dist.isend(data, 1 - rank)
    into = torch.empty(5000)
    dist.recv(into, 1 - rank)
    sent.wait()
    assert (into == 1 - rank).all()


# The threads of the group run: a child has none of them.
sum_holds()
messages_hold()
pending = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(3)]
sys.stdout.flush()
child = os.fork()
if not child:
    in_a_child()
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))  # pylint: disable=protected-access
    assert repr(backend) == f"<oriel backend: rank {rank} of 2; of the process that forked this one>", backend
    if rank == 0:
        del window
        dist.destroy_process_group()
    print(f"rank {rank}: child: ended", flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
for work in pending:
    work.wait()
sum_holds()
messages_hold()

refused("worker", lambda: list(DataLoader(Summed(), num_workers=1, multiprocessing_context="fork")))
sum_holds()


async def main():
    """Eight operations in flight, of which each is a task, while another task goes on."""
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(tick())
    tensors = [torch.full((1000,), float(rank + i)) for i in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    await asyncio.gather(*(asyncio.to_thread(work.wait) for work in works))
    other.cancel()
    for i, tensor in enumerate(tensors):
        assert (tensor == i * size + size * (size - 1) / 2).all()
    assert ticks

asyncio.run(main())
del window
dist.destroy_process_group()
print(f"rank {rank}: ended", flush=True)
