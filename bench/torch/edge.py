#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call of torch costs where there is no one to talk to: one rank, 8 bytes, us, the best of many laps.

Of each backend: the call of a program, the same of the process group (no Python of torch), and of the
backend (no dispatcher): the differences are what each layer takes. The backend "fake" is one of torch for its
own tests, which does nothing: what the others take above it is theirs.
"""
import os
import socket
import time

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401 pylint: disable=unused-import  (registers "fake")

LAPS, CALLS = 20, 300


def best(call):
    taken = []
    for _ in range(LAPS):
        begun = time.perf_counter()
        for _ in range(CALLS):
            call()
        taken.append((time.perf_counter() - begun) / CALLS * 1e6)
    return min(taken)


def main():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tensor = torch.ones(2)
    print("backend  test        torch.distributed  process group  backend")
    for name in ("oriel", "gloo", "fake"):
        group = dist.new_group(backend=name)
        backend = group._get_backend(torch.device("cpu"))
        reduction, meeting = dist.AllreduceOptions(), dist.BarrierOptions()
        reduction.asyncOp = meeting.asyncOp = False
        for test, calls in {
            "all_reduce": (lambda: dist.all_reduce(tensor, group=group), lambda: group.allreduce([tensor], reduction).wait(),
                           lambda: backend.allreduce([tensor], reduction).wait()),
            "barrier": (lambda: dist.barrier(group=group), lambda: group.barrier(meeting).wait(),
                        lambda: backend.barrier(meeting).wait()),
        }.items():
            times = [best(call) for call in calls]
            print(f"{name:8} {test:11} {times[0]:17.1f} {times[1]:14.1f} {times[2]:8.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
