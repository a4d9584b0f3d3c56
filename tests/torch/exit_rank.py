# SPDX-License-Identifier: Apache-2.0
"""
exit_rank.py registered|dropped: a rank whose group ends when Python has called what oriel.torch registered for the exit,
since that was imported later: by destroy_process_group(), or with the last reference to the backend.
"""
import atexit
import gc
import sys

import torch
import torch.distributed as dist


@atexit.register
def end():
    if sys.argv[1] == "registered":
        dist.destroy_process_group()
    else:
        # pylint: disable=protected-access
        c10d = dist.distributed_c10d
        torch._C._distributed_c10d._unregister_all_process_groups()
        for held in vars(c10d).values():
            if issubclass(type(held), dict) and any(isinstance(key, dist.ProcessGroup) for key in held):
                held.clear()
        c10d._world.tags_to_pg.clear()
        c10d.GroupMember.WORLD = None
        c10d._world = None
        gc.collect()
    print("ended", flush=True)


dist.init_process_group("oriel")
tensor = torch.ones(8)
dist.all_reduce(tensor)
assert tensor.tolist() == [2.0] * 8
