#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""outsiders_test.py OUTSIDER_RANK COUNT [TEST...]: COUNT connections of processes without the key, to
each listener of a job together, in each of its phases. Exits with 77 where there can be none.

outsider_rank says which phases there are. In each of them rank 0 waits for rank 1, which begins once
half of the connections are made. What the phase takes from then on is printed.
"""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "hosts"))
import lab  # noqa: E402

RANK = os.path.abspath(sys.argv[1])
COUNT = int(sys.argv[2])
OUTSIDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "outsider.py")
DEADLINE = 200   # seconds after which a test has failed; it never decides anything else
DELAY = 1        # seconds by which outsiders may delay a phase; a late run is repeated
RUNS = 3
# Fewer descriptors than the outsiders hold connections: who accepts all of them has none left.
LIMITED = ["prlimit", "--nofile=256"]
PHASES = ["join", "comm", "window", "run", "p2p", "shrink", "grow", "second"]
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|SLURM_|PMIX_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
OTHER_USER = "65534"


def environment(**more):
    ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    return ours | {"WORLD_SIZE": "2", "MASTER_PORT": "29517", "ORIEL_HCA": "soft",
                   "ORIEL_SOFT_HCA": "tcp=1", "ORIEL_P2P_TCP": "on", "ORIEL_LOG": "error",
                   "ORIEL_JOB_KEY": "00c0ffee11c0ffee22c0ffee33c0ffee"} | more


class Outsiders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        os.chmod(self.folder.name, 0o777)
        self.addCleanup(self.folder.cleanup)
        self.processes = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text=""):
        with open(self.path(name + ".new"), "w") as file:
            file.write(text)
        os.rename(self.path(name + ".new"), self.path(name))

    def wait_for(self, name):
        end = time.monotonic() + DEADLINE
        while not os.path.exists(self.path(name)):
            self.assertLess(time.monotonic(), end, f"{name} does not appear")
            for process in self.processes:
                if process.poll():
                    self.fail(f"{process.args} has exited: "
                              f"{process.stdout and process.stdout.read()}")
            time.sleep(0.01)

    def expect(self, rank, line):
        got = rank.stdout.readline()
        self.assertEqual(got, line + "\n", got + (rank.stdout.read() if not got else ""))

    def run_phases(self, start, targets):
        """@start() starts ranks and outsiders; @targets(RANKS) are where they listen now."""
        for _ in range(RUNS):
            slowest = self.run_once(start(), targets)
            if slowest < DELAY:
                return
            self.end()
            for name in os.listdir(self.folder.name):
                os.unlink(self.path(name))
        self.fail(f"late each time: {slowest:.3f} s at last")

    def run_once(self, ranks, targets):
        slowest = 0
        for phase in PHASES:
            for rank in ranks:
                self.expect(rank, f"begins {phase}")
            found = self.wait_for_listeners(ranks, targets)
            self.write(phase + ".targets", "\n".join(found) + "\n")
            self.wait_for(phase + ".half")
            begun = time.monotonic()
            self.write(phase)
            for rank in ranks:
                self.expect(rank, f"ends {phase}")
            taken = time.monotonic() - begun
            self.write(phase + ".stop")
            self.wait_for(phase + ".count")
            with open(self.path(phase + ".count")) as file:
                count = int(file.read())
            print(f"{phase}: {count} connections to {len(found)} listeners, {taken:.3f} s",
                  flush=True)
            self.assertGreaterEqual(count, COUNT)
            slowest = max(slowest, taken)
        for rank in ranks:
            self.expect(rank, "ends all")
            self.assertEqual(rank.wait(timeout=DEADLINE), 0)
        return slowest

    def wait_for_listeners(self, ranks, targets):
        end = time.monotonic() + DEADLINE
        while True:
            found = targets(ranks)
            if found:
                return found
            self.assertLess(time.monotonic(), end, "no rank listens")
            time.sleep(0.01)

    @staticmethod
    def listeners(words, ranks, host):
        """Lines of outsider.py: the TCP listeners of @ranks, as seen from where @words run ss."""
        out = subprocess.run([*words, "ss", "-Htlnp"], check=True, capture_output=True,
                             text=True).stdout
        pids = {str(rank.pid) for rank in ranks}
        return [f"{host} {line.split()[3].rsplit(':', 1)[1]}" for line in out.splitlines()
                if pids & set(re.findall(r"pid=(\d+)", line))]

    @staticmethod
    def unix_listeners(ranks):
        inodes = set()
        for rank in ranks:
            folder = f"/proc/{rank.pid}/fd"
            for fd in os.listdir(folder):
                try:
                    inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(f"{folder}/{fd}")))
                except OSError:
                    pass  # it is closed already
        with open("/proc/net/unix") as file:
            lines = [line.split() for line in file]
        return [words[7] for words in lines
                if len(words) > 7 and words[6] in inodes and words[3] == "00010000"]

    def start(self, words, **options):
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, text=True, **options)
        self.processes.append(process)
        return process

    def check_another_user(self, **nodes):
        """@nodes: settings of rank0 and rank1; without them the ranks are of one domain."""
        def start():
            ranks = [self.start([*LIMITED, RANK, self.folder.name], stdout=subprocess.PIPE,
                                env=environment(RANK=str(rank), MASTER_ADDR="127.0.0.1",
                                                **nodes.get(f"rank{rank}", {})))
                     for rank in range(2)]
            # As words: the other user may have no right to read this tree.
            with open(OUTSIDER) as file:
                source = file.read()
            self.start(["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}",
                        "--clear-groups", sys.executable, "-c", source, self.folder.name,
                        str(COUNT), *PHASES], cwd="/")
            return ranks

        self.run_phases(start, lambda ranks: self.listeners([], ranks, "127.0.0.1")
                        + self.unix_listeners(ranks))

    def test_another_user_ends_no_job(self):
        self.check_another_user(rank0={"ORIEL_NODE": "a"}, rank1={"ORIEL_NODE": "b"})

    def test_another_user_of_one_domain_ends_no_job(self):
        self.check_another_user()

    def test_another_host_ends_no_job(self):
        made = lab.Lab(3)
        self.addCleanup(made.close)
        hosts = made.hosts

        def start():
            ranks = [hosts[rank].start([*LIMITED, RANK, self.folder.name],
                                       environment(RANK=str(rank), MASTER_ADDR=hosts[0].address()),
                                       stdout=subprocess.PIPE) for rank in range(2)]
            self.processes += ranks
            self.processes.append(hosts[2].start(
                [sys.executable, OUTSIDER, self.folder.name, str(COUNT), *PHASES],
                dict(os.environ), stdout=subprocess.PIPE))
            return ranks

        self.run_phases(start, lambda ranks: [
            line for host in hosts[:2] for line in self.listeners(
                ["ip", "netns", "exec", host.name], ranks, host.address())])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("another user and another host need root")
        sys.exit(77)
    try:
        lab.enter()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no namespaces: {error}")
        sys.exit(77)
    lab.run("ip", "link", "set", "lo", "up")
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
