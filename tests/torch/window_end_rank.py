#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One of two ranks whose window is open when their group ends: window_end_rank.py RANK STORE PART.

The limit of every wait is longer than that of the test."""
import datetime
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import WaitSignalOptions

from reconfigure_rank import raises


def closed(rank, window, tensor, _):
    """Each call on a window of a group that ended says so; the tensor stays."""
    peer = 1 - rank
    work = window.wait_signal(peer, True)
    assert repr(window) == f"<oriel window of Float[5] on cpu; rank {rank} of 2; 1 mapped; open>"
    dist.destroy_process_group()
    for call in (lambda: window.put(torch.ones(1), peer, 0, False), lambda: window.signal(peer, False),
                 lambda: window.wait_signal(peer, False), lambda: window.wait_signal(peer, True).wait(), work.wait,
                 lambda: window.map_remote_tensor(peer)):
        raises("this window is closed", call)
    raises("the process group was shut down", window.tensor_deregister)
    assert repr(window) == f"<oriel window of Float[5] on cpu; rank {rank}; closed>"
    assert tensor.tolist() == [rank] * 5


def waits(rank, window, _, box):
    """A thread waits when the group ends: the window stays until its wait has ended."""
    def wait():
        options = WaitSignalOptions()
        options.timeout = datetime.timedelta(seconds=5)
        begun.set()
        raises("rank 1", window.wait_signal, 1, False, options)
        box.set("timed out", "yes")

    begun = threading.Event()
    thread = threading.Thread(target=wait)
    if rank == 0:
        thread.start()
        begun.wait()
        time.sleep(1)
    dist.destroy_process_group()
    box.get("timed out")


def viewed(rank, window, _, box):
    """A tensor over memory of a peer outlives the group, and the process of the peer does not wait for it."""
    view = window.map_remote_tensor(1 - rank) if rank == 0 else None
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        box.get("rank 1 has exited")  # test_backend.py sets it
        assert view.tolist() == [1] * 5


def left(_, window, tensor, __):
    """The process exits with an open group, window and tensor."""
    globals()["kept"] = (window, tensor)


def main():
    rank = int(sys.argv[1])
    store = dist.FileStore(sys.argv[2], 2)
    dist.init_process_group("oriel", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=900))
    tensor = torch.full((5,), float(rank))
    window = dist._new_window(tensor)
    dist.barrier()
    globals()[sys.argv[3]](rank, window, tensor, dist.PrefixStore("box", store))
    print("ended", flush=True)


if __name__ == "__main__":
    main()
