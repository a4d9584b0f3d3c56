#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of groups whose ranks all live: regroup_rank.py RANK SIZE STORE PART.

The limit of every wait is longer than that of the test, so that a wait for a rank that does not come
fails it."""
import datetime
import random
import sys
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from reconfigure_rank import exchange, raises, total


class Ranks:
    """What a part needs: this rank, how many there are at first, and a store of the test."""

    def __init__(self, rank, size, store):
        self.rank, self.size = rank, size
        self.box = dist.PrefixStore("box", store)
        self.handles = exchange(self.box, rank, range(size))

    def form(self, uuid, ranks):
        """The group of these ranks, at their places. This rank is among them."""
        dist._reconfigure(uuid, [self.handles[r] for r in ranks]).wait()
        assert (dist.get_rank(), dist.get_world_size()) == (ranks.index(self.rank), len(ranks))
        assert total(self.rank) == sum(ranks)

    def report(self, what):
        self.box.set(f"{what} {self.rank}", "yes")

    def await_all(self, what, ranks=None):
        for rank in range(self.size) if ranks is None else ranks:
            self.box.get(f"{what} {rank}")


def backend():
    return dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))


def apart(ranks):
    """Each rank alone, all together, and two groups at once, without a call of a rank for another's."""
    everyone = list(range(ranks.size))
    ranks.form(10 + ranks.rank, [ranks.rank])
    ranks.form(20, everyone)
    ranks.form(30 + ranks.rank, [ranks.rank])
    ranks.form(40, everyone[::-1])
    ranks.form(50 + ranks.rank % 2, everyone[ranks.rank % 2::2])
    ranks.form(60, everyone)


def shuffled(ranks):
    """Groups of any ranks at any places, one after the other; some ranks come late."""
    shared, own = random.Random(28), random.Random(ranks.rank)
    for number in range(12):
        order = list(range(ranks.size))
        shared.shuffle(order)
        cut = shared.randrange(ranks.size)
        mine = next(part for part in (order[:cut], order[cut:]) if ranks.rank in part)
        time.sleep(own.choice((0, 0, 0.2)))
        ranks.form(100 + number, mine)


def ahead(ranks):
    """Ranks come to a list whose first one still forms another one without them."""
    for number, of_before in ((10, [0, 1]), (20, [1, 0])):
        first, other = of_before
        if ranks.rank == 2:
            ranks.report(f"comes to {number}")
            ranks.form(number + 1, [first, 2])  # of the length of the one that is still formed
        else:
            if ranks.rank == other:
                ranks.await_all(f"comes to {number}", [2])
                time.sleep(0.7)  # so that it has come
            ranks.form(number, of_before)
            if ranks.rank == first:
                ranks.form(number + 1, [first, 2])
        ranks.form(number + 2, [first, other, 2])  # @other comes to it before @first, and finds two


def left_out(ranks):
    """A rank that is left out lives on, and writes: not to memory of those that went on."""
    ranks.form(1, list(range(ranks.size)))
    tensor = torch.full((5,), float(ranks.rank))
    window = dist._new_window(tensor)
    out, others = 1, [r for r in range(ranks.size) if r != 1]
    if ranks.rank == out:
        view = window.map_remote_tensor(0)
        ranks.report("mapped")
        # It waits for others that do not come; what it waits for ends.
        raises("oriel:", total, 1)
        assert backend().get_error() == ErrorType.REMOTE_ERROR
        ranks.await_all("went on", others)
        view.fill_(9)
        assert view[0] == 9
        ranks.report("wrote")
        raises("tensors over memory of its peers: delete them first", dist._reconfigure, 3, ranks.handles)
        del view
    else:
        ranks.await_all("mapped", [out])
        ranks.form(2, others)
        assert tensor.tolist() == [ranks.rank] * 5
        ranks.report("went on")
        ranks.await_all("wrote", [out])
        assert tensor.tolist() == [ranks.rank] * 5, tensor
        raises("closed", window.signal, 0, False)
        again = dist._new_window(tensor)  # the same tensor serves the new group
        peer = 1 - dist.get_rank()
        again.put(torch.tensor([7.0]), peer, 0, False)
        again.signal(peer, False)
        again.wait_signal(peer, False)
        assert tensor.tolist() == [7] + [ranks.rank] * 4
    ranks.form(3, list(range(ranks.size)))


def aborted(ranks):
    """abort() ends what is under way on all ranks; then the group goes on."""
    everyone = list(range(ranks.size))
    assert repr(backend()) == f"<oriel backend: rank {ranks.rank} of 3; closed, or awaits reconfigure()>"
    ranks.form(1, everyone)
    assert repr(backend()) == f"<oriel backend: rank {ranks.rank} of 3; 2 mapped; open>"
    if ranks.rank == 0:
        ranks.await_all("waits", everyone[1:])
        time.sleep(0.1)  # so that some are in it
        backend().abort()
        assert backend().get_error() == ErrorType.COMM_ERROR
        assert repr(backend()).startswith("<oriel backend: rank 0 of 3; 2 mapped; broken: "), backend()
        raises("oriel:", total, 1)
    else:
        ranks.report("waits")
        raises("rank 0", total, 1)
        assert backend().get_error() == ErrorType.REMOTE_ERROR
    assert dist._get_reconfigure_handle() == ranks.handles[ranks.rank]
    ranks.form(2, everyone)
    assert backend().get_error() == ErrorType.SUCCESS
    ranks.report("is intact")
    ranks.await_all("is intact")
    backend().abort()  # all of them, and one is the first
    assert backend().get_error() == ErrorType.COMM_ERROR
    ranks.form(3, everyone)
    # All of them abort, and some once more.
    backend().abort()
    backend().abort()


def other_lists(ranks):
    """Ranks that come with different lists learn it, all of them; then the group goes on."""
    raises("has come with another number or list of ids", dist._reconfigure, 1 + ranks.rank % 2, ranks.handles)
    first, *rest = ranks.handles
    raises("has come with another number or list of ids", dist._reconfigure, 3,
           [first, *(rest if ranks.rank == 0 else rest[::-1])])
    ranks.form(4, list(range(ranks.size)))


def main():
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    store = dist.FileStore(sys.argv[3], size)
    torch.set_num_threads(1)
    dist.init_process_group("oriel", store=store, rank=rank, world_size=size, enable_reconfigure=True,
                            timeout=datetime.timedelta(seconds=900))
    globals()[sys.argv[4]](Ranks(rank, size, store))
    dist.destroy_process_group()
    print("ended", flush=True)


if __name__ == "__main__":
    main()
