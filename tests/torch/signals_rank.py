# SPDX-License-Identifier: Apache-2.0
"""
A rank with ORIEL_HANG_SIGNAL=SIGUSR2 and handlers of torch: that of a DataLoader for its workers and, on rank 1, a dump of
Python's stacks at SIGUSR2, which it has before the group. Each works as without Oriel.
"""
import faulthandler
import os
import signal
import tempfile
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Killed(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def handled():
    """The signals for which this process has handlers, as a mask."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt:"))


def read(path, claim):
    """The text of a file, once @claim of it is true."""
    end = time.monotonic() + 60
    while True:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if claim(text):
            return text
        assert time.monotonic() < end, text
        time.sleep(0.05)


def check_killed_worker():
    """A DataLoader finds a worker that is killed by its handler of SIGCHLD, or by the end of a pipe."""
    said = "no error"
    try:
        list(DataLoader(Killed(), num_workers=1, collate_fn=list))  # no memory of the worker's
    except RuntimeError as error:
        said = str(error)
    assert "is killed by signal: Killed" in said or "exited unexpectedly" in said, said


rank = int(os.environ["RANK"])
stacks = tempfile.NamedTemporaryFile("w+")  # pylint: disable=consider-using-with
if rank == 1:
    faulthandler.register(signal.SIGUSR2, stacks)
check_killed_worker()
before = handled()
dist.init_process_group("oriel")
tensor = torch.ones(8)
dist.all_reduce(tensor)
own = 1 << (signal.SIGUSR2 - 1)
assert handled() == before | own, (hex(before), hex(handled()))
os.kill(os.getpid(), signal.SIGUSR2)
if rank == 1:
    read(stacks.name, lambda text: "signals_rank.py" in text)
else:
    read(os.environ["ORIEL_LOG_FILE"], lambda text: f"process {os.getpid()}: no thread waits in Oriel" in text)
check_killed_worker()
dist.all_reduce(tensor)
assert handled() == before | own
dist.destroy_process_group()
print(f"rank {rank}: ended", flush=True)
