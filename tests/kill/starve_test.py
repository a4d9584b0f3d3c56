#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each call of a phase that wants memory or a thread fails once, in one rank of a job.

That rank ends with a status and a text, or does without; it leaves no memory, descriptor or thread
behind that it does not leave otherwise. All other ranks end, too.
"""
import argparse
import ctypes
import errno
import os
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

FOREIGN = re.compile("ORIEL_|KILL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
LIMIT, TOO_LATE = 3, 60  # seconds: ORIEL_TIMEOUT, and when a rank hangs
SIZE = 3
PHASES = ["join", "comm_create", "comm_split", "region_share", "window_create",
          "collective_create", "p2p_connect", "shrink", "grow", "merge"]
PATHS = {  # and the rank that fails
    "mapped": ({}, 1),
    "nodes": ({}, 1),
    "keyed": ({"ORIEL_JOB_KEY": "0123456789abcdef" * 4}, 0),
    "proxied": ({"ORIEL_POST": "proxy"}, 2),
}
# Rank 0 invites. The last rank is new in a grow; in a merge ranks 1 and 2 are a group that comes.
VICTIMS = {("grow", "mapped"): 2}
SIDES = {"grow": (0, 1), "merge": (1, 2)}  # ranks that get one status


SHM = "/dev/shm"
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000  # of linux/sched.h and linux/mount.h


def fill_shm():
    """This process, and those it starts, have a /dev/shm of their own, which is full. OSError: the
    kernel forbids it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def must(returned, what):
        if returned != 0:
            raise OSError(ctypes.get_errno(), what)

    must(libc.unshare(CLONE_NEWNS), "unshare")
    must(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
    must(libc.mount(b"none", SHM.encode(), b"tmpfs", 0, b"size=4096"), "a tmpfs at " + SHM)
    with open(SHM + "/filler", "wb", buffering=0) as file:
        assert file.write(bytes(4096)) == 4096
        try:
            file.write(b"1")
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            return
    sys.exit(f"{SHM} is not full")


MIB = 1 << 20
LIMITS = [  # of the rank that fails
    ("RLIMIT_NOFILE", list(range(4, 40, 3))),
    ("RLIMIT_AS", [size * MIB for size in (24, 28, 32, 40, 48, 64, 96, 128, 192, 256)]),
    ("RLIMIT_FSIZE", [0, 4096, 65536, MIB]),
    ("RLIMIT_MEMLOCK", [0, 4096]),
]


class Run:
    """Call @number of @phase fails; 0: none does. Or the rank has a @limit: its name and value."""

    def __init__(self, options, phase, path, number, limit=None):
        self.limit = limit
        self.options, self.phase, self.path, self.number = options, phase, path, number
        self.more, self.victim = PATHS[path]
        self.victim = VICTIMS.get((phase, path), self.victim)
        # Endpoints connect in pairs: the third rank waits for the one that the victim leaves alone.
        # Ranks of a group have other numbers there.
        who = r"\d+" if phase in ("p2p_connect", "merge") else self.victim
        # A new rank that has not come is known to none.
        self.culprit = re.compile(rf"\brank {who}\b" + (
            r"|\b0 of \d new ranks came" if phase in SIDES and self.victim else ""))
        self.name = f"{limit} in {path}" if limit else f"call {number} of {phase}, {path}"

    def set_limit(self):
        which, value = self.limit
        resource.setrlimit(getattr(resource, which), (value, value))

    def run(self):
        import socket
        self.wrong = []
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.job(holder.getsockname()[1])
        return self

    def job(self, port):
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        ranks = []
        for rank in range(SIZE):
            env = ours | {"RANK": str(rank), "WORLD_SIZE": str(SIZE), "MASTER_ADDR": "127.0.0.1",
                          "MASTER_PORT": str(port), "ORIEL_TIMEOUT": str(LIMIT),
                          "ORIEL_LOG": "error", "ORIEL_HCA": "soft",
                          # mallopt(3), M_PERTURB: memory that was freed has other contents.
                          "MALLOC_PERTURB_": "165"} | self.more
            if self.path != "mapped":
                env["ORIEL_NODE"] = f"node{rank}"
            ranks.append(subprocess.Popen(
                [self.options.rank, self.phase, str(self.victim), str(self.number), "0"], env=env,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=self.set_limit if self.limit and rank == self.victim else None))
        until = time.monotonic() + TOO_LATE
        self.said = {}
        for rank, process in enumerate(ranks):
            try:
                self.said[rank], _ = process.communicate(timeout=max(1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.wrong.append(f"rank {rank} hangs")
                process.kill()
                self.said[rank], _ = process.communicate()
        self.codes = [process.returncode for process in ranks]
        self.ends = [re.search(r"^END (\w+) \w* [0-9.]+\|(.*)\|", self.said[rank], re.M)
                     for rank in range(SIZE)]

    def number_of(self, word):
        """What the victim printed behind @word."""
        found = re.search(rf"^{word} (.*)$", self.said[self.victim], re.M)
        return [int(text) for text in found[1].split()] if found else None

    def check(self, left):
        for rank in range(SIZE):
            if not self.ends[rank] or self.codes[rank] not in (0, 1):
                self.wrong.append(f"rank {rank} ended with code {self.codes[rank]}")
        if self.wrong:
            return
        status, text = self.ends[self.victim].groups()
        if status == "ORIEL_OK" and any(end[1] != "ORIEL_OK" for end in self.ends):
            self.wrong.append("the other ranks fail")
        if not self.limit and status not in ("ORIEL_OK", "ORIEL_ERR_NOMEM", "ORIEL_ERR_SYSTEM"):
            self.wrong.append(f"the rank has {status}")
        if status != "ORIEL_OK" and not text:
            self.wrong.append("the rank has no text")
        if status == "ORIEL_ERR_NOMEM" and not re.search("[Mm]emory|thread", text):
            self.wrong.append("the text says nothing of memory")
        length = re.search(r"no memory for (\d+) bytes", text)
        if length and int(length[1]) >> 36:
            self.wrong.append("the text is of memory that was freed")
        others = {end[1] for rank, end in enumerate(self.ends) if rank != self.victim}
        if self.phase == "shrink":  # without the rank, too
            if len(others) > 1:
                self.wrong.append(f"the other ranks have {others}")
        elif status != "ORIEL_OK" and others == {"ORIEL_OK"}:
            self.wrong.append("the other ranks go on")
        # Where the rank failed before that call, the others have lost it.
        side = {self.ends[rank][1] for rank in SIDES.get(self.phase, ())} - {
            "ORIEL_ERR_PEER", "ORIEL_ERR_ABORTED"}
        if len(side) > 1:
            self.wrong.append(f"ranks of one side have {side}")
        for rank, end in enumerate(self.ends):
            if rank != self.victim and end[1] != "ORIEL_OK" and not self.culprit.search(end[2]):
                self.wrong.append(f"rank {rank} does not name rank {self.victim}")
        if self.limit:
            return
        now = self.number_of("LEFT")
        if any(a > b for a, b in zip(now, left)):
            self.wrong.append(f"left are {now} blocks, descriptors, threads, otherwise {left}")

    def check_unharmed(self):
        """No rank has needed what was full."""
        for rank in range(SIZE):
            if not self.ends[rank] or self.ends[rank][1] != "ORIEL_OK" or self.codes[rank] != 0:
                self.wrong.append(f"rank {rank} ended with code {self.codes[rank]}")
        if os.listdir(SHM) != ["filler"]:
            self.wrong.append(f"{SHM} has {os.listdir(SHM)}")

    def text(self):
        lines = [f"FAILED {self.name}: " + "; ".join(self.wrong)]
        for rank, said in sorted(self.said.items()):
            lines += [f"    rank {rank}: {line}" for line in said.splitlines()]
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rank")
    parser.add_argument("--phases", type=lambda text: text.split(","), default=PHASES)
    parser.add_argument("--paths", type=lambda text: text.split(","), default=list(PATHS))
    parser.add_argument("--step", type=int, default=1, help="each how many calls one fails")
    parser.add_argument("--limits", action="store_true", help="limits of the kernel instead")
    parser.add_argument("--full-shm", action="store_true", help="a full /dev/shm instead")
    parser.add_argument("--at-once", type=int, default=6)
    options = parser.parse_args()
    options.rank = os.path.abspath(options.rank)
    begun, failed, count = time.monotonic(), 0, 0
    if options.full_shm:
        try:
            fill_shm()
        except OSError as error:
            print(f"skipped: no {SHM} of its own: {error}")
            sys.exit(77)
    with ThreadPoolExecutor(options.at_once) as pool:
        if options.full_shm:
            for run in pool.map(Run.run, [Run(options, phase, path, 0) for path in options.paths
                                          for phase in options.phases]):
                count += 1
                run.check_unharmed()
                if run.wrong:
                    failed += 1
                    print(run.text(), flush=True)
            print(f"{count} runs, {failed} failed, {time.monotonic() - begun:.0f} s")
            sys.exit(failed != 0)
        if options.limits:
            runs = [Run(options, "p2p_connect", path, 0, (which, value)) for path in options.paths
                    for which, values in LIMITS for value in values]
            for run in pool.map(Run.run, runs):
                count += 1
                run.check(None)
                if run.wrong:
                    failed += 1
                    print(run.text(), flush=True)
            print(f"{count} runs, {failed} failed, {time.monotonic() - begun:.0f} s")
            sys.exit(failed != 0)
        whole = list(pool.map(Run.run, [Run(options, phase, path, 0) for path in options.paths
                                        for phase in options.phases]))
        runs = []
        for run in whole:
            calls, left = run.number_of("CALLS"), run.number_of("LEFT")
            run.check([8, 0, 0])  # tables that stay until the process ends
            if run.wrong or not calls or run.ends[run.victim][1] != "ORIEL_OK":
                print(run.text(), flush=True)
                failed += 1
            else:
                runs += [(Run(options, run.phase, run.path, number), left)
                         for number in range(1, calls[0] + 1)]
        runs = runs[::options.step]
        for run, (_, left) in zip(pool.map(Run.run, [run for run, _ in runs]), runs):
            count += 1
            run.check(left)
            if run.wrong:
                failed += 1
                print(run.text(), flush=True)
    print(f"{count} runs, {failed} failed, {time.monotonic() - begun:.0f} s")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
