#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight ranks of which some are lost: shrink_test.py FOLDER LIMIT [CLASS...]

FOLDER has the programs survivor and late_put. LIMIT is ORIEL_TIMEOUT, in seconds, of cases that wait for it: each
stops a rank, and no other rank may be still for that long.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import at_once

SQUATTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "squatter.py")
FOLDER = None
SIZE = 8
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
LONG = "120"  # ORIEL_TIMEOUT of tests in which all that is lost is dead, and known to be
SHORT = None  # ... of tests that wait for it
JOBS = 5  # of dead ranks, that run at the same time: the others wait, and take no CPU
WAITING_JOBS = 12  # of stopped ranks, in which all ranks wait for most of the time


class Job:
    """Ranks of one job. The lines of a rank are kept as they come."""

    def __init__(self, test, size, *arguments, nodes=0, program="survivor", **common):
        holder = socket.socket()
        holder.bind(("127.0.0.1", 0))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.holder = holder
        self.ranks = {}
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        for rank in range(size):
            env = ours | {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                          "MASTER_PORT": str(holder.getsockname()[1]), "ORIEL_TIMEOUT": LONG,
                          "ORIEL_LOG": "debug", "ORIEL_HCA": "soft"} | common
            if nodes:
                env["ORIEL_NODE"] = f"node{rank * nodes // size}"
            self.ranks[rank] = subprocess.Popen(
                [os.path.join(FOLDER, program), *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True, env=env)
        test.addCleanup(self.forget)

    def forget(self):
        for process in self.ranks.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self.holder.close()

    def line(self, rank):
        return self.ranks[rank].stdout.readline().rstrip("\n")

    def until_ready(self):
        for rank in self.ranks:
            line = self.line(rank)
            assert line == "ready", line

    def signal(self, number, *ranks):
        for rank in ranks:
            self.ranks[rank].send_signal(number)

    def outcome(self, rank):
        """The last line of a rank, and its exit code."""
        out, _ = self.ranks[rank].communicate(timeout=DEADLINE)
        return (out.splitlines() or [""])[-1], self.ranks[rank].returncode


# Where the log of a rank has a text it ends, or stops: rank 0, which leads, or one that follows.
PHASES = ((0, "proposes agreement 1"), (0, "agreement 1 is decided"),
          (3, "accepts agreement 1"), (3, "accepts agreement 2"),
          (0, "agreement 2 is decided"), (3, "agreement 2 is decided"),
          (0, "host "),
          (0, "proposes agreement 3"), (0, "agreement 3 is decided"),
          (0, "proposes agreement 4"), (3, "accepts agreement 3"),
          (3, "agreement 3 is decided"))


class Shrink:
    """Mixed into one class for each path."""
    nodes = 0
    env = {}

    def start(self, size, *arguments, **env):
        job = Job(self, SIZE, *arguments, size, nodes=self.nodes, **(self.env | env))
        job.until_ready()
        return job

    def check(self, job, lost):
        left = [rank for rank in range(SIZE) if rank not in lost]
        for rank in left:
            self.assertEqual(job.outcome(rank), ("left: " + " ".join(map(str, left)), 0),
                             f"rank {rank} after the loss of {lost}")

    def lose(self, *lost):
        job = self.start(SIZE - len(lost))
        job.signal(signal.SIGKILL, *lost)
        self.check(job, lost)

    def test_one_rank_is_lost(self):
        self.lose(5)

    def test_rank_0_is_lost(self):
        self.lose(0)

    def test_two_ranks_are_lost_at_once(self):
        self.lose(0, 7)

    def test_three_ranks_are_lost(self):
        self.lose(1, 2, 6)

    def test_all_but_one_are_lost(self):
        self.lose(0, 1, 2, 4, 5, 6, 7)

    def test_one_more_is_lost_in_each_phase(self):
        begun = time.monotonic()

        def check(doomed, text):
            job = self.start(SIZE - 2, "--die", doomed, text)
            job.signal(signal.SIGKILL, 5)
            self.check(job, (doomed, 5))
            self.assertEqual(job.ranks[doomed].wait(), -signal.SIGKILL)

        at_once.each_case(self, check, PHASES, JOBS)
        self.assertLess(time.monotonic() - begun, int(LONG) / 2 - 1, "a loss was noticed by the limit")

    def test_a_rank_that_is_lost_while_the_others_connect_is_noticed_at_once(self):
        """A rank that ends itself where it has met the others, and is to connect to them."""
        begun = time.monotonic()

        def check(doomed):
            job = self.start(SIZE - 2, "--die", doomed, "host ")
            job.signal(signal.SIGKILL, 5)
            self.check(job, (doomed, 5))

        at_once.each_case(self, check, ((rank,) for rank in (0, 1, 3, 4, 7)), JOBS)
        self.assertLess(time.monotonic() - begun, int(LONG) / 2 - 1, "a loss was noticed by the limit")

    def test_ranks_are_lost_one_after_the_other(self):
        job = self.start(SIZE - 3)
        for victim in (6, 0, 3):
            job.signal(signal.SIGKILL, victim)
            time.sleep(0.05)
        self.check(job, (0, 3, 6))


class Stopped:
    """A rank that stops meanwhile, with FLAGS that let the others go on without it."""

    def check_phases(self, **env):
        def check(doomed, text):
            job = self.start(SIZE - 2, *self.flags, "--stop", doomed, text, **env)
            job.signal(signal.SIGKILL, 5)
            self.check(job, (doomed, 5))

        at_once.each_case(self, check, PHASES, WAITING_JOBS)

    def test_one_more_stops_in_each_phase(self):
        self.check_phases(ORIEL_TIMEOUT=SHORT)

    def test_one_that_stops_in_a_phase_is_lost_without_a_limit(self):
        self.check_phases(ORIEL_TIMEOUT="infinite", ORIEL_HEARTBEAT="3")


class Killed(Stopped):
    """A rank that is stopped, and is mapped by others, one at least."""
    flags = ("--kill",)

    def test_a_suspect_is_killed_if_that_is_allowed(self):
        def check(victim):
            job = self.start(SIZE - 1, "--kill", ORIEL_TIMEOUT=SHORT)
            job.signal(signal.SIGSTOP, victim)
            self.check(job, (victim,))
            self.assertEqual(job.ranks[victim].wait(), -signal.SIGKILL)

        at_once.each_case(self, check, ((3,), (0,)), JOBS)


class Suspects(Killed):
    """A rank that is stopped, and is mapped by all others."""

    def test_a_suspect_that_maps_memory_is_not_removed(self):
        job = self.start(SIZE - 1, "--retry", ORIEL_TIMEOUT=SHORT)
        job.signal(signal.SIGSTOP, 3)
        others = [rank for rank in range(SIZE) if rank != 3]
        for rank in others:
            self.assertRegex(job.line(rank), r"^ORIEL_ERR_STATE rank 3 does not answer, but may "
                             rf"still write .* kill process {job.ranks[3].pid} on .*KILL_SUSPECTS")
            self.assertEqual(job.line(rank), "unsafe: 3 3 -1")
        job.signal(signal.SIGKILL, 3)
        job.ranks[3].wait()
        for rank in others:
            job.ranks[rank].stdin.write("again\n")
            job.ranks[rank].stdin.flush()
        self.check(job, (3,))

    def test_memory_of_an_endpoint_is_unsafe(self):
        job = Job(self, 2, program="endpoint_suspect", ORIEL_TIMEOUT=SHORT)
        out, _ = job.ranks[0].communicate(timeout=DEADLINE)
        self.assertEqual((out, job.ranks[0].returncode), ("ORIEL_ERR_STATE 1 -1\nORIEL_OK -1 -1\n", 0))

    def test_a_rank_that_does_not_run_is_suspected_before_the_timeout(self):
        job = self.start(SIZE - 1, "--kill", ORIEL_HEARTBEAT="3", ORIEL_TIMEOUT="1000")
        job.signal(signal.SIGSTOP, 3)
        self.check(job, (3,))

    def test_a_rank_that_runs_again_takes_part_again(self):
        def check(victim):
            job = self.start(SIZE, "--retry", ORIEL_TIMEOUT=SHORT)
            job.signal(signal.SIGSTOP, victim)
            others = [rank for rank in range(SIZE) if rank != victim]
            for rank in others:
                self.assertRegex(job.line(rank), f"^ORIEL_ERR_STATE rank {victim} does not answer")
                self.assertEqual(job.line(rank), f"unsafe: {victim} {victim} -1")
            job.signal(signal.SIGCONT, victim)
            for rank in others:
                job.ranks[rank].stdin.write("again\n")
                job.ranks[rank].stdin.flush()
            self.check(job, ())

        at_once.each_case(self, check, ((0,), (3,)), JOBS)


class Mapped(Shrink, Suspects, unittest.TestCase):
    pass


class Fenced(Stopped):
    """A rank that is stopped, where each is on a node of its own."""
    flags = ()
    nodes = SIZE

    def test_a_suspect_is_fenced(self):
        def check(victim):
            job = self.start(SIZE - 1, ORIEL_TIMEOUT=SHORT)
            job.signal(signal.SIGSTOP, victim)
            self.check(job, (victim,))
            job.signal(signal.SIGCONT, victim)
            # All others have left.
            self.assertEqual(job.outcome(victim), (f"left: {victim}", 0))

        at_once.each_case(self, check, ((3,), (0,)), JOBS)

    def test_a_rank_that_does_not_run_is_suspected_without_a_limit(self):
        job = self.start(SIZE - 2, ORIEL_HEARTBEAT="3", ORIEL_TIMEOUT="infinite")
        job.signal(signal.SIGSTOP, 0, 3)
        self.check(job, (0, 3))

    def test_a_suspect_that_comes_back_meanwhile_is_refused(self):
        job = self.start(SIZE - 2, ORIEL_TIMEOUT=SHORT)
        job.signal(signal.SIGSTOP, 3)
        self.check_late(job)

    def check_late(self, job):
        """The survivors of 8 play until one more is lost: 3 comes back while they do."""
        ranks = [rank for rank in range(SIZE) if rank != 3]
        for rank in ranks:
            self.assertEqual(job.line(rank), "ORIEL_OK ")
        job.signal(signal.SIGCONT, 3)
        line = job.line(3)
        self.assertRegex(line, "^ORIEL_ERR_STATE [0-9]+ ranks do not answer, rank [0-7] among "
                         "them, and may go on without the 1")
        self.assertEqual(job.line(3), "unsafe: -1 -1 -1")
        job.signal(signal.SIGKILL, 6)
        self.check(job, (3, 6))


class Nodes(Fenced, Shrink, unittest.TestCase):
    pass


class Mixed(Shrink, Killed, unittest.TestCase):
    """Two ranks on each node."""
    nodes = 4


class Proxied(Shrink, unittest.TestCase):
    nodes = 4
    env = {"ORIEL_POST": "proxy"}


class ProxiedNodes(Fenced, Shrink, unittest.TestCase):
    env = {"ORIEL_POST": "proxy"}


def listeners(pid):
    """The addresses at which a process listens."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:  # closed meanwhile
            continue
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    with open(f"/proc/{pid}/net/unix", encoding="ascii") as lines:
        for words in map(str.split, lines):
            if len(words) > 7 and words[6] in inodes and words[3] == "00010000":
                yield "unix:" + words[7][1:]
    for file in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{file}", encoding="ascii") as lines:
            for words in map(str.split, lines):
                if words[3] == "0A" and words[9] in inodes:
                    yield str(int(words[1].split(":")[1], 16))


class Squat:
    """The addresses of rank 3, which has closed them, are those of a process that accepts there."""

    def squat(self, way, addresses, user):
        squatter = subprocess.Popen([sys.executable, SQUATTER, way, str(user), *addresses],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(squatter.stdout.close)
        self.addCleanup(squatter.wait)
        self.addCleanup(squatter.stdin.close)
        self.assertEqual(squatter.stdout.readline(), "ready\n")

    def lose(self, way, *arguments, leaves=False, limit=LONG, user=os.getuid(), **env):
        job = Job(self, 4, *arguments, *(("--leave", 3) if leaves else ()), 3, ORIEL_TIMEOUT=limit, **env)
        job.until_ready()
        addresses = list(listeners(job.ranks[3].pid))
        self.assertTrue(addresses)
        job.signal(signal.SIGSTOP, 0, 1, 2)
        if leaves:
            job.ranks[3].stdin.write("leave\n")
            job.ranks[3].stdin.flush()
            self.assertEqual(job.line(3), "destroyed")
        else:
            job.signal(signal.SIGKILL, 3)
            job.ranks[3].wait()
        self.squat(way, addresses, user)
        job.signal(signal.SIGCONT, 0, 1, 2)
        begun = time.monotonic()
        for rank in range(3):
            self.assertEqual(job.outcome(rank), ("left: 0 1 2", 0), f"rank {rank}")
        return time.monotonic() - begun


class Squatted(Squat, unittest.TestCase):
    def check_at_once(self, way, **how):
        self.assertLess(self.lose(way, **how), int(LONG) / 2 - 1, "the end was noticed by the limit")

    def test_a_process_that_has_ended_is_dead(self):
        for way in ("closing", "silent"):
            with self.subTest(way):
                self.check_at_once(way)

    def test_a_rank_that_has_left_is_dead(self):
        for way in ("closing", "silent"):
            with self.subTest(way):
                self.check_at_once(way, leaves=True)

    @unittest.skipIf(os.geteuid(), "only root listens as another user")
    def test_a_rank_whose_name_another_user_has_is_dead(self):
        self.check_at_once("closing", leaves=True, user=65534)


class SquattedTcp(Squat, unittest.TestCase):
    """Ranks 1 and 3 are on another machine than 0 and 2, as relay_shim.c lets them see it."""

    def on_two_machines(self, **env):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            own = file.read()
        shim = os.path.join(FOLDER, "../relay/librelay_shim.so")
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as other:
            other.write(("1" if own[0] == "0" else "0") + own[1:])
            other.flush()
            self.lose("closing", "--kill", limit=SHORT, LD_PRELOAD=shim, RELAY_BOOT_ID=other.name,
                      ORIEL_MEET="tcp", ORIEL_SOFT_HCA="tcp=1", **env)

    def test_a_rank_that_does_not_answer_is_suspected(self):
        for key in ({}, {"ORIEL_JOB_KEY": "5a" * 32}):
            with self.subTest(key):
                self.on_two_machines(**key)


class Gpu(unittest.TestCase):
    """Kernels that wait for rank 1 in memory of fake GPUs: see gpu_shrink.c."""

    def check(self, act, left):
        for nodes in (0, 3):
            with self.subTest(nodes=nodes):
                job = Job(self, 3, nodes=nodes, program="../fakecuda/gpu_shrink")
                job.until_ready()
                act(job)
                for rank in left:
                    self.assertEqual(job.outcome(rank), (f"left: {len(left)}", 0))

    def test_the_death_of_a_rank_ends_kernels(self):
        self.check(lambda job: job.signal(signal.SIGKILL, 1), (0, 2))

    def test_a_rank_that_shrinks_ends_kernels_of_the_others(self):
        def leave(job):
            job.ranks[1].stdin.write("go\n")
            job.ranks[1].stdin.flush()

        self.check(leave, (0, 1, 2))


HOLDS = ("invisible", "below_owner")
POSTS = ("rings", "proxy")


class Late(unittest.TestCase):
    """The HCA of a rank holds back bytes of a rank that has died, which it has acknowledged."""

    def outcomes(self, fenced, seed, hold, post="rings"):
        job = Job(self, 3, fenced, nodes=3, program="late_put", ORIEL_POST=post,
                  ORIEL_SOFT_HCA=f"seed={seed},{hold}=500ms")
        return [job.outcome(rank) for rank in range(2)]

    def test_no_byte_comes_late_after_a_shrink(self):
        for hold in HOLDS:
            for seed in range(1, 6):
                for post in POSTS:
                    with self.subTest(f"{hold}, seed {seed}, {post}"):
                        for rank, outcome in enumerate(self.outcomes(1, seed, hold, post)):
                            self.assertEqual(outcome, (f"rank {rank}: 0 bytes came late", 0))

    def test_bytes_come_late_without_it(self):
        for hold in HOLDS:
            for post in POSTS:
                late = sum(code for seed in range(1, 6)
                           for _, code in self.outcomes(0, seed, hold, post))
                self.assertGreater(late, 0, f"{hold}, {post}")


if __name__ == "__main__":
    FOLDER = os.path.abspath(sys.argv.pop(1))
    SHORT = sys.argv.pop(1)
    unittest.main(testRunner=at_once.Runner(16))
