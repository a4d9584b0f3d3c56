#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a group that goes on without another one, and then with two more, which are a group
of their own before: reconfigure_rank.py RANK SIZE STORE. With SIZE 0: two ranks, of which one shuts down."""
import datetime
import json
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist


def raises(text, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except Exception as error:  # pylint: disable=broad-except
        assert text in str(error), f"'{text}' is not in '{error}'"
        return
    raise AssertionError(f"no error with '{text}'")


def total(value):
    tensor = torch.tensor([float(value)])
    dist.all_reduce(tensor)
    return tensor.item()


def exchange(box, rank, ranks):
    """The handles of these ranks. How they travel is up to the program."""
    box.set(str(rank), dist._get_reconfigure_handle())
    return [box.get(str(r)).decode() for r in ranks]


def meet(handles):
    """All ranks have come to the group of these handles."""
    begun = time.monotonic()
    dist._reconfigure(6, handles).wait()
    me = dist.get_rank()
    assert dist.get_world_size() == len(handles)
    assert handles[me] == dist._get_reconfigure_handle()
    assert total(me) == sum(range(len(handles)))
    print(f"is {me} of {len(handles)} after {time.monotonic() - begun:.2f} s", flush=True)
    window = dist._new_window(torch.zeros(1))
    dist.barrier()
    dist.destroy_process_group()
    print("ended", flush=True)


def late(box, rank, size):
    """A rank of the second group: ranks from @size on."""
    handles = exchange(box, rank, (size, size + 1))
    dist._reconfigure(1, set(handles)).wait()
    assert dist.get_world_size() == 2 and total(1) == 2
    box.set("formed", "yes")
    meet(json.loads(box.get("all")))


def shut_down_meanwhile(box, rank):
    """Another thread shuts the group down while it is reconfigured: what that makes is closed, too."""
    handles = exchange(box, rank, (0, 1))
    dist._reconfigure(1, handles).wait()
    if rank == 1:
        box.get("go")
        dist._reconfigure(2, handles).wait()
    else:
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        intact = torch._C._distributed_c10d.ErrorType.SUCCESS
        threads = [threading.Thread(target=lambda: dist._reconfigure(2, handles).wait()),
                   threading.Thread(target=backend.shutdown)]
        assert backend.get_error() == intact
        threads[0].start()
        while backend.get_error() == intact:  # then it has the communicator, and waits for rank 1
            assert threads[0].is_alive()
            time.sleep(0.01)
        threads[1].start()
        threads[1].join(1)  # it may end only after the other one
        box.set("go", "yes")
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert backend.get_error() != intact
        raises("shut down", total, 1)
    dist.destroy_process_group()
    print("ended", flush=True)


def main():
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    store = dist.FileStore(sys.argv[3], size + 2)
    dist.init_process_group("oriel", store=store, rank=rank, world_size=size + 2, enable_reconfigure=True,
                            timeout=datetime.timedelta(seconds=20))
    raises("awaits reconfigure()", total, 1)
    box = dist.PrefixStore("box", store)
    if not size:
        return shut_down_meanwhile(box, rank)
    if rank >= size:
        return late(box, rank, size)
    handles = exchange(box, rank, range(size))
    # In another order: the position is the rank.
    handles.reverse()
    dist._reconfigure(1, handles).wait()
    assert (dist.get_rank(), dist.get_world_size()) == (size - 1 - rank, size)
    assert total(dist.get_rank()) == sum(range(size))
    raises("uuid 1 was already used", dist._reconfigure, 1, handles)
    raises("not in the list", dist._reconfigure, 2, [h for h in handles if h != dist._get_reconfigure_handle()])
    window = dist._new_window(torch.zeros(4))
    dist.barrier()
    me = dist.get_rank()
    if me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    # The other one may have found it before, and reconfigures already.
    raises("rank", total, 1)
    for uuid, left in ((4, [h for i, h in enumerate(handles) if i != 1]), (5, [h for i, h in enumerate(handles) if i != 1])):
        begun = time.monotonic()
        dist._reconfigure(uuid, left if uuid == 4 else set(left)).wait()
        print(f"was {me}, is {dist.get_rank()} of {dist.get_world_size()} after {time.monotonic() - begun:.2f} s, "
              f"sum {total(me)}", flush=True)
    raises("closed", window.signal, 0, False)
    with_window = torch.zeros(2)
    window = dist._new_window(with_window)
    other = (dist.get_rank() + 1) % dist.get_world_size()
    window.put(torch.ones(2), other, 0, False)
    window.signal(other, False)
    window.wait_signal((dist.get_rank() - 1) % dist.get_world_size(), False)
    assert with_window.tolist() == [1, 1]
    box.get("formed")
    others = [box.get(str(r)).decode() for r in (size, size + 1)]
    together = [others[0], left[1], others[1], left[0]]
    if dist.get_rank() == 0:
        box.set("all", json.dumps(together))
    return meet(together)


if __name__ == "__main__":
    main()
