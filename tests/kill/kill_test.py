#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kill matrix: a rank of three fails in each way, in each phase, on each path.

A cell is one job. In it the victim fails at a step of the phase that the seed picks, and then: no
rank hangs; every other rank ends with a status that fits, within 1.5 times the limit of its waits;
its text and its health each name the victim, and the rank of its health is that. A rank that was
stopped and goes on breaks nothing. Load makes ranks late: a late cell is repeated alone, and ten
times the limit is a failure at once.
"""
import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

FOREIGN = re.compile("ORIEL_|KILL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
# ORIEL_TIMEOUT. Levels of the bootstrap's tree and reports by NICs have a second each beyond it.
LIMIT = 6
LATE, TOO_LATE = 1.5 * LIMIT + 0.5, 10 * LIMIT
# ORIEL_HEARTBEAT, in waits without a limit (--heartbeat), and as in waits between its beats, where
# ranks join or leave.
HEARTBEAT, LATE_IN_BOOT = 3, 1.5 * 10 + 0.5
START = 100  # seconds in which a victim reaches its phase
SIZE = 3

PEER, TIMEOUT, OK = "ORIEL_ERR_PEER", "ORIEL_ERR_TIMEOUT", "ORIEL_OK"
FAULTS = {  # statuses of the other ranks
    "kill": {PEER},
    "segv": {PEER},
    "exit": {PEER},
    "stop": {TIMEOUT},
    "cont": {OK},
    "socket": {PEER, TIMEOUT},
    "cut": {PEER, TIMEOUT},
}
ENDED_BY = {"kill": -signal.SIGKILL, "segv": -signal.SIGSEGV, "exit": 7}  # codes of the victim
PHASES = {  # steps of libc to choose from, counted once
    "join": 40, "comm_create": 120, "comm_split": 120, "region_share": 20, "window_create": 40,
    "put": 20, "signal": 20, "barrier": 20, "channel": 20, "atomic": 20, "comm_barrier": 20,
    "collective_create": 40, "collective_run": 20, "p2p_connect": 60, "p2p_transfer": 20,
    "window_destroy": 20, "comm_destroy": 80, "bootstrap_close": 10,
}
# No part of the default: new communicators of those that are left, and of these and new ranks.
REGROUPS = {"shrink": 80, "grow": 80, "merge": 80}
REGROUPED = {  # statuses, besides
    # The others go on without the victim, unless it stands still and maps their memory.
    "shrink": {OK, "ORIEL_ERR_STATE"},
    # Those of one side know the victim, those of the other that none comes, or answers.
    "grow": {PEER, TIMEOUT}, "merge": {PEER, TIMEOUT},
}
# A rank may have left before the victim fails, or need nothing of it any more.
ENDS = {"window_destroy", "comm_destroy", "bootstrap_close"}
# Sockets may be of no use any more when they are closed; through memory the ranks may be faster.
MUST_DIE = {"put", "signal", "barrier", "channel", "atomic", "p2p_transfer"}
PATHS = {
    "mapped": {},
    "nodes": {},
    "proxied": {"ORIEL_POST": "proxy"},
    "p2p": {"ORIEL_ALLGATHER": "ring"},
}
NODES = {"nodes": (0, 1, 2), "proxied": (0, 1, 2), "p2p": (0, 0, 1)}


class Cell:
    """A job whose victim fails."""

    def __init__(self, options, fault, phase, path):
        draw = random.Random(f"{options.seed} {fault} {phase} {path}")
        self.options, self.fault, self.phase, self.path = options, fault, phase, path
        self.victim = draw.randrange(SIZE)
        self.steps = draw.randint(1, (PHASES | REGROUPS)[phase])
        # Without a limit the others wait for a rank that has not come, or has stopped before.
        if options.heartbeat and phase == "join":
            self.steps = 1000000  # where it has joined
        self.round = draw.randrange(100)
        self.name = (f"{fault} {phase} {path} (rank {self.victim}, step {self.steps}, "
                     f"round {self.round})")
        self.wrong, self.is_late, self.said = [], False, {}

    def environment(self, rank, master, port):
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        env = ours | {"RANK": str(rank), "WORLD_SIZE": str(SIZE), "MASTER_ADDR": master,
                      "MASTER_PORT": str(port), "ORIEL_TIMEOUT": str(LIMIT), "ORIEL_LOG": "error",
                      "ORIEL_HCA": "soft", "KILL_FAULT": self.fault, "KILL_PATH": self.path}
        env |= PATHS[self.path]
        if self.options.heartbeat:
            env |= {"ORIEL_TIMEOUT": "infinite", "ORIEL_HEARTBEAT": str(HEARTBEAT)}
        if self.path in NODES and self.fault != "cut":
            env["ORIEL_NODE"] = f"node{NODES[self.path][rank]}"
        if rank == self.victim:
            env["LD_PRELOAD"] = self.options.shim
        return env

    def start(self, hosts, port):
        words = [self.options.rank, self.phase, str(self.victim), str(self.steps), str(self.round)]
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                "stderr": subprocess.STDOUT}
        self.ranks = []
        for rank in range(SIZE):
            env = self.environment(rank, hosts[0].address() if hosts else "127.0.0.1", port)
            if hosts:
                preload = env.pop("LD_PRELOAD", None)
                start = ["env", f"LD_PRELOAD={preload}", *words] if preload else words
                self.ranks.append(hosts[rank].start(start, env, **more))
            else:
                self.ranks.append(subprocess.Popen(words, env=env, text=True, **more))

    def await_fault(self):
        """Until the victim fails. False: it ended before."""
        victim = self.ranks[self.victim]
        if self.fault in ("stop", "cont", "cut"):
            while not is_stopped(victim.pid):
                time.sleep(0.01)
            return victim.poll() is None
        for line in victim.stdout:
            if line == "FIRED\n":  # its sockets are closed
                return True
            self.said[self.victim] = self.said.get(self.victim, "") + line
        return victim.wait() == ENDED_BY.get(self.fault)

    def act(self, hosts):
        """What the fault needs from outside."""
        victim = self.ranks[self.victim]
        if self.fault not in ("cont", "cut"):
            return
        while not is_stopped(victim.pid):
            time.sleep(0.01)
        if self.fault == "cut":
            for switch in (0, 1):
                hosts[self.victim].set_link(False, switch)
        else:
            time.sleep(0.7)
        victim.send_signal(signal.SIGCONT)

    def run(self, hosts=None, port=None):
        self.wrong, self.is_late, self.said = [], False, {}
        self.start(hosts, port)
        watchdog = threading.Timer(START, self.kill_all)
        watchdog.start()
        try:
            if self.await_fault():
                watchdog.cancel()
                self.act(hosts)
                self.await_ends()
            else:
                self.wrong.append("the victim ended before it failed")
        finally:
            watchdog.cancel()
            self.kill_all()
            for rank, process in enumerate(self.ranks):
                process.wait()
                self.said[rank] = self.said.get(rank, "") + process.stdout.read()
                process.stdout.close()
            if hosts and self.fault == "cut":
                for switch in (0, 1):
                    hosts[self.victim].set_link(True, switch)
        return self

    def kill_all(self):
        for process in self.ranks:
            if process.poll() is None:
                process.kill()

    def await_ends(self):
        until = time.monotonic() + TOO_LATE
        for rank, process in enumerate(self.ranks):
            if rank == self.victim and self.fault in ("kill", "segv", "exit", "stop"):
                continue
            try:
                process.wait(max(0.1, until - time.monotonic()))
                self.said[rank] = self.said.get(rank, "") + process.stdout.read()
            except subprocess.TimeoutExpired:
                self.wrong.append(f"rank {rank} hangs")
                continue
            self.check(rank, process.returncode)

    def check(self, rank, code):
        said = self.said[rank]
        end = re.search(r"^END (\w+) (\w*) ([0-9.]+)\|(.*)\|(.*)\|(-?\d+)$", said, re.M)
        done = re.search(r"^DONE ([0-9.]+)$", said, re.M)
        if not end or not done:
            self.wrong.append(f"rank {rank} ended with code {code}")
            return
        status, _, took, text, health, blamed = end.groups()
        late = 1.5 * HEARTBEAT + 0.5 if self.options.heartbeat else LATE
        if self.options.heartbeat and self.phase not in MUST_DIE:
            late = LATE_IN_BOOT
        if self.phase in REGROUPS:  # several waits
            late *= 2
        self.is_late |= float(took) > late or float(done[1]) > late
        if rank == self.victim and self.fault in ("socket", "cut"):
            return  # it misses all others
        allowed = set(FAULTS[self.fault])
        if self.phase == "join":
            allowed.add(TIMEOUT)  # a rank that never came may be on its way
        if self.phase in ENDS or (self.fault == "socket" and
                                  (self.phase not in MUST_DIE or self.path == "mapped")):
            allowed.add(OK)
        if self.phase in REGROUPS and self.fault != "cont":
            allowed |= REGROUPED[self.phase]
        if status not in allowed:
            self.wrong.append(f"rank {rank} has {status}")
        if status != OK:
            self.check_blame(rank, text, health, int(blamed))

    def check_blame(self, rank, text, health, blamed):
        """The last error of a rank and its health, which need not agree in words: a caller may read either."""
        # In the group of new ranks that merges the victim has a number of its own.
        names = {self.victim, self.victim - 1} if self.phase == "merge" else {self.victim}
        others = r"\brank 0 of the communicator\b|\b0 of \d new ranks came" \
                 r"|\bthe ranks of the communicator did not call"
        regroups = self.phase in ("grow", "merge")
        # A device function has no text; without a communicator there is no health.
        for name, said in (("text", "" if text == "device" else text), ("health", health)):
            if not said:
                continue
            named = {int(number) for ranks in re.findall(r"\branks? (\d+(?:, \d+)*)", said)
                     for number in ranks.split(", ")}
            # A victim without sockets lives, and says the same of its peers: both ends are right.
            if regroups and re.search(others, said):
                continue
            if not (named if self.fault == "socket" else names & named):
                self.wrong.append(f"the {name} of rank {rank} does not name rank {self.victim}")
            stopped = set(re.findall(r"\brank (\d+)(?: of \d+)? has not run", said))
            if self.fault == "stop" and stopped - {str(name) for name in names}:
                self.wrong.append(f"the {name} of rank {rank} blames a rank that runs")
        if text == "device" and not health:
            self.wrong.append(f"rank {rank} has neither a text nor a health")
        if health and self.fault not in ("socket", "cut") and not regroups and blamed != self.victim:
            self.wrong.append(f"the health of rank {rank} is of rank {blamed}")

    def text(self):
        lines = [f"FAILED {self.name}: " + "; ".join(self.wrong or ["late"])]
        for rank, said in sorted(self.said.items()):
            lines += [f"    rank {rank}: {line}" for line in said.splitlines()]
        return "\n".join(lines)


def is_stopped(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "TtZX"
    except OSError:
        return True


class Slots:
    """Ports, or hosts of namespaces, of jobs that run at once."""

    def __init__(self, count, has_hosts):
        self.lock = threading.Lock()
        self.lab, self.free = None, list(range(count))
        if has_hosts:
            import lab
            self.lab = lab.Lab(count * SIZE)

    def run(self, cell):
        with self.lock:
            slot = self.free.pop()
        try:
            if self.lab:
                return cell.run(self.lab.hosts[slot * SIZE:(slot + 1) * SIZE], 29500)
            with hold_port() as holder:
                return cell.run(None, holder.getsockname()[1])
        finally:
            with self.lock:
                self.free.append(slot)

    def close(self):
        if self.lab:
            self.lab.close()


def hold_port():
    """A socket at a port that no other job gets while it is open, but rank 0 may listen at."""
    import socket
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder


def cells_of(options):
    cells = [Cell(options, fault, phase, path) for fault in options.faults
             for phase in options.phases for path in options.paths
             # Ranks of one host have no cable between them.
             if fault != "cut" or path in ("nodes", "proxied", "p2p")]
    if options.sample:
        random.Random(str(options.seed)).shuffle(cells)
        cells = cells[:options.sample]
    return cells


def main():
    def names(of):
        return lambda text: [name for name in text.split(",") if name in of or sys.exit(
            f"{name} is none of {', '.join(of)}")]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rank")
    parser.add_argument("shim")
    parser.add_argument("--seed", default="1", help="chooses victims and steps")
    parser.add_argument("--sample", type=int, help="cells, of all that are named")
    parser.add_argument("--faults", type=names(FAULTS), default=[f for f in FAULTS if f != "cut"])
    parser.add_argument("--phases", type=names(PHASES | REGROUPS),
                        default=list(PHASES))
    parser.add_argument("--paths", type=names(PATHS), default=list(PATHS))
    parser.add_argument("--heartbeat", action="store_true", help="no limit, but ORIEL_HEARTBEAT")
    parser.add_argument("--at-once", type=int, default=6)
    options = parser.parse_args()
    options.rank, options.shim = os.path.abspath(options.rank), os.path.abspath(options.shim)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    has_hosts = "cut" in options.faults
    if has_hosts:
        if options.faults != ["cut"]:
            sys.exit("hosts that are cut run alone: --faults cut")
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "hosts"))
        import lab
        try:
            lab.enter()
        except OSError as error:
            print(f"skipped: no hosts of namespaces: {error}")
            sys.exit(77)
    begun, failed = time.monotonic(), 0
    cells = cells_of(options)
    slots = Slots(options.at_once, has_hosts)
    try:
        late = []
        with ThreadPoolExecutor(options.at_once) as pool:
            for cell in pool.map(slots.run, cells):
                if cell.wrong:
                    failed += 1
                    print(cell.text(), flush=True)
                elif cell.is_late:
                    late.append(cell)
        for cell in late:
            for _ in range(2):
                if not slots.run(cell).is_late or cell.wrong:
                    break
            if cell.wrong or cell.is_late:
                failed += 1
                print(cell.text(), flush=True)
    finally:
        slots.close()
    print(f"{len(cells)} runs, {failed} failed, {len(late)} repeated since they were late, "
          f"seed {options.seed}, {time.monotonic() - begun:.0f} s")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
