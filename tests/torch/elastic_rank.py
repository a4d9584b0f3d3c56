#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of torchrun: rank 1 is killed the first time, and the agents start all again."""
import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist


def main():
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group("oriel", timeout=datetime.timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.ones(1000)
    dist.all_reduce(total)
    assert (total == size).all()
    if restarts == 0:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(total)
        except dist.DistBackendError as error:
            # Not by what it is: agents end the others, so that any of these may be the first.
            print(f"rank {rank} learned that {'rank 1 is lost' if 'rank 1' in str(error) else str(error)}", flush=True)
        sys.exit(1)
    dist.destroy_process_group()
    print(f"rank {rank} of {size} ended after {restarts} restart", flush=True)


if __name__ == "__main__":
    main()
