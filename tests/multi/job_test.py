#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How jobs begin beside each other: job_test.py ORIEL JOB_HELPER [TEST...]"""

import collections
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tool

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from key_search import places_of, secrets_of, skip_with_address_sanitizer

ORIEL = HELPER = None
FLOOD = 600     # connections at once, over TCP
UNIX_EACH = 50  # to each unix socket
JOB_ID = 128    # bytes, ORIEL_JOB_ID_LENGTH
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else


def inodes_of(pid):
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
            if link.startswith("socket:["):
                found.add(link[8:-1])
    except OSError:
        pass  # the process has exited, or the descriptor is closed
    return found


def listeners_of(pids):
    """Addresses on which the processes @pids listen, of TCP and unix sockets."""
    inodes = set().union(*map(inodes_of, pids))
    with open("/proc/net/tcp") as file:
        for words in map(str.split, file):
            if words[3] == "0A" and words[9] in inodes:
                yield socket.AF_INET, ("127.0.0.1", int(words[1].split(":")[1], 16))
    with open("/proc/net/unix") as file:
        for words in map(str.split, file):
            if words[6] in inodes and words[3] == "00010000" and len(words) > 7:
                yield socket.AF_UNIX, "\0" + words[7][1:]


class Flood(threading.Thread):
    """Opens silent connections to all listeners of the processes, repeatedly."""

    def __init__(self, pids):
        super().__init__()
        self.pids, self.sockets, self.opened = pids, collections.deque(), collections.Counter()
        self.held = []
        self.is_over = threading.Event()

    def open(self, family, address):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(address)
        except OSError:
            pass  # in progress, refused, or the backlog is full
        (self.sockets if family == socket.AF_INET else self.held).append(sock)
        self.opened[address] += 1

    def count(self, kind):
        """Connections to addresses of type @kind: tuple for TCP, str for unix sockets."""
        return sum(n for address, n in list(self.opened.items()) if isinstance(address, kind))

    def run(self):
        while not self.is_over.is_set():
            for family, address in listeners_of(self.pids):
                # Those to unix sockets stay: one that is read from holds up its reader.
                if family == socket.AF_INET or self.opened[address] < UNIX_EACH:
                    for _ in range(UNIX_EACH):
                        self.open(family, address)
            while len(self.sockets) > FLOOD:
                self.sockets.popleft().close()
        for sock in (*self.sockets, *self.held):
            sock.close()


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Job(unittest.TestCase):
    def start(self, *command, **env):
        job = subprocess.Popen([*map(str, command)], env=tool.environment(**env), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.addCleanup(self.forget, job)
        return job

    @staticmethod
    def forget(job):
        if job.poll() is None:
            job.kill()
            job.wait()
        for stream in (job.stdin, job.stdout, job.stderr):
            stream.close()

    def finish(self, job, given=None):
        out, err = job.communicate(given, timeout=DEADLINE)
        return job.returncode, sorted(out.splitlines()), err

    def run_job(self, ranks, mode, **env):
        return self.finish(self.start(ORIEL, "run", "-n", ranks, "--timeout", DEADLINE, HELPER,
                                      mode, **env))

    # The port of a job

    def test_the_same_ranks_open_one_job_after_another(self):
        for meet in "unix", "tcp":
            self.assertEqual(self.run_job(4, "rounds", ORIEL_MEET=meet),
                             (0, [f"[{rank}] all rounds" for rank in range(4)], ""))

    def test_communicators_find_their_job_in_the_environment(self):
        for options in ([], ["--nodes", "2"]):
            job = self.start(ORIEL, "run", "-n", 3, *options, "--timeout", DEADLINE, HELPER,
                             "environment", ORIEL_HCA="soft")
            self.assertEqual(self.finish(job), (0, [f"[{rank}] all rounds" for rank in range(3)], ""))

    def test_a_shell_around_the_ranks_may_hold_their_listener(self):
        job = self.start(ORIEL, "run", "-n", 3, "--timeout", DEADLINE, "sh", "-c",
                         '"$0" both >&2; true', HELPER, ORIEL_MEET="tcp")
        code, out, err = self.finish(job)
        self.assertEqual((code, out), (0, []))
        self.assertEqual(len(err.splitlines()), 3, err)

    def test_a_second_job_at_an_open_port_is_refused_on_all_ranks(self):
        for meet in "unix", "tcp":
            code, out, err = self.run_job(3, "both", ORIEL_MEET=meet)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(len(out), 3)
            for rank, line in enumerate(out):
                self.assertRegex(line, rf"\[{rank}\] second: ORIEL_ERR_STATE: this process has a "
                                 rf"bootstrap open as rank {rank} of the job at port \d+: close that")

    # Ranks that come late

    def late(self, mode, *prefix, **env):
        """The warnings of a job whose rank 2 begins 3 s after the others."""
        script = 'if [ $RANK = 2 ]; then sleep 3; fi; exec "$0" ' + mode
        job = self.start(ORIEL, "run", "-n", 4, "--timeout", DEADLINE, *prefix, "sh", "-c",
                         script, HELPER, ORIEL_LOG="warn", **env)
        code, _, err = self.finish(job)
        self.assertEqual(code, 0, err)
        return err

    def test_a_late_rank_is_named_and_the_job_goes_on(self):
        err = self.late("rounds", ORIEL_LATE="0.5")
        self.assertRegex(err, r"rank 2 of 4 did not join within [0-9.]+ s; this rank goes on "
                              r"waiting, until 600 s have passed \(ORIEL_TIMEOUT\)")
        self.assertRegex(err, "rank 0 did not complete the job of rank [13] of 4 within")
        self.assertEqual(self.late("rounds", ORIEL_LATE="0"), "")
        self.assertEqual(self.late("rounds"), "")

    def test_a_late_rank_in_a_device_function_is_named(self):
        for nodes in (1, 3):
            job = self.start(ORIEL, "run", "-n", 3, "--nodes", nodes, "--timeout", DEADLINE, HELPER,
                             "waits", ORIEL_LATE="0.4", ORIEL_LOG="warn", ORIEL_HCA="soft")
            code, _, err = self.finish(job)
            self.assertEqual(code, 0, err)
            for rank in (0, 1):
                self.assertRegex(err, rf"warn: rank {rank}: barrier: window 1: rank 2 did not arrive "
                                      r"at barrier slot 3 within [0-9.]+ s; this rank goes on waiting, "
                                      r"until 600 s have passed \(ORIEL_TIMEOUT\)")
            self.assertNotIn("rank 2: barrier", err)

    def test_a_late_rank_0_is_named(self):
        script = 'if [ $RANK = 0 ]; then sleep 3; fi; exec "$0" rounds'
        for meet, text in (
                ("unix", r"rank 1 of 2 did not connect to rank 0 at @oriel-\w+ \(ORIEL_MEET is 'unix'\)"),
                # The launcher listens for rank 0 already, so the connection itself is made.
                ("tcp", r"127.0.0.1:\d+ accepted a connection but did not answer within [0-9.]+ s")):
            job = self.start(ORIEL, "run", "-n", 2, "--timeout", DEADLINE, "sh", "-c", script, HELPER,
                             ORIEL_LATE="0.5", ORIEL_LOG="warn", ORIEL_MEET=meet)
            code, _, err = self.finish(job)
            self.assertEqual(code, 0, err)
            self.assertRegex(err, text)

    # Connections from outside the job

    def wait_until(self, job, claim):
        """Wait for @claim(), or for the end of the job, which its test reports."""
        end = time.monotonic() + DEADLINE
        while job.poll() is None and not claim():
            self.assertLess(time.monotonic(), end, "the claim did not become true")
            time.sleep(0.01)

    def flood(self, limit, meet="tcp"):
        script = f'ulimit -n {limit}; exec "$0" whole'
        job = self.start(ORIEL, "run", "-n", 4, "--timeout", DEADLINE, "sh", "-c", script, HELPER,
                         ORIEL_MEET=meet)
        lines = [job.stdout.readline() for _ in range(4)]
        pids = [re.fullmatch(r"\[\d\] begins (\d+)\n", line)[1] for line in lines]
        flood = Flood(pids)
        flood.start()
        try:
            if meet == "tcp":
                self.wait_until(job, lambda: flood.count(tuple) >= 200)
            job.stdin.write("open\n")
            job.stdin.flush()
            # The unix sockets of all ranks but rank 0, which creates its own later.
            self.wait_until(job, lambda: flood.count(str) >= 3 * UNIX_EACH)
            code, out, err = self.finish(job, "create\n")
        except BrokenPipeError:
            code, out, err = self.finish(job)
        finally:
            flood.is_over.set()
            flood.join()
        self.assertEqual((code, out), (0, [f"[{rank}] ends" for rank in range(4)]), err)

    def test_a_flood_of_connections_ends_no_job(self):
        self.flood(256)

    def test_a_flood_of_connections_leaves_descriptors_to_the_job(self):
        self.flood(64)

    def test_a_flood_of_connections_to_unix_sockets_ends_no_job(self):
        self.flood(64, "unix")

    def test_jobs_of_one_machine_at_one_port_do_not_meet(self):
        port = free_port()
        # A job of each name, with a key or without one, at once.
        names = ({"TORCHELASTIC_RUN_ID": "one"}, {"TORCHELASTIC_RUN_ID": "two"},
                 {"ORIEL_JOB_KEY": "abcd" * 8}, {"ORIEL_JOB_KEY": "abce" * 8}, {})
        jobs = [self.start_by_hand(rank, 2, port, LOCAL_WORLD_SIZE="2", **name)
                for name in names for rank in (1, 0)]
        for job in jobs:
            self.assertEqual(job.stdout.readline(), "joined\n")
        for job in jobs:
            code, out, err = self.finish(job, "go\n")
            self.assertEqual((code, out, err), (0, ["ends"], ""))

    def test_a_second_process_with_a_joined_rank_is_refused_on_one_machine(self):
        port = free_port()
        root, member = (self.start_by_hand(rank, 2, port, LOCAL_WORLD_SIZE="2") for rank in (0, 1))
        for job in (root, member):
            self.assertEqual(job.stdout.readline(), "joined\n")
        code, out, _ = self.finish(self.start_by_hand(1, 2, port, LOCAL_WORLD_SIZE="2"))
        self.assertEqual(code, 1)
        self.assertRegex(out[0], r"open: ORIEL_ERR_CONFIG: rank 1 \(process \d+\) is rejected at "
                         rf"@oriel-\w+ by process {root.pid}: rank 1 of the job here is "
                         rf"process {member.pid} at a unix socket already")
        second = self.start_by_hand(0, 2, port, LOCAL_WORLD_SIZE="2")
        code, out, _ = self.finish(second)
        self.assertEqual(code, 1)
        self.assertRegex(out[0], "cannot listen at unix socket @oriel-.*: Address already in use")
        for job in (member, root):
            self.assertEqual(self.finish(job, "go\n")[:2], (0, ["ends"]))

    def start_by_hand(self, rank, size, port, **env):
        return self.start(HELPER, "hold", RANK=str(rank), WORLD_SIZE=str(size),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **env)

    def test_ranks_of_jobs_with_different_names_do_not_join(self):
        port = free_port()
        names = ({"TORCHELASTIC_RUN_ID": "one"}, {"TORCHELASTIC_RUN_ID": "two"},
                 {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, {"PMIX_NAMESPACE": "one"},
                 {"TORCHELASTIC_RUN_ID": "none"}, {"ORIEL_JOB_KEY": "abcd" * 8})
        root = self.start_by_hand(0, 2, port, **names[0])
        for other in names[1:]:
            start = time.monotonic()
            job = self.start_by_hand(1, 2, port, **other)
            code, out, _ = self.finish(job)
            self.assertEqual((code, len(out)), (1, 1))
            why = ("has no ORIEL_JOB_KEY, but this process has one" if "ORIEL_JOB_KEY" in other else
                   f"process {root.pid}: it belongs to another job: it")
            self.assertRegex(out[0], f"open: ORIEL_ERR_AUTH: .*127.0.0.1:{port}.*{why}")
            # Long before the timeout of a job.
            self.assertLess(time.monotonic() - start, 25)
        self.finish_hold(root, self.start_by_hand(1, 2, port, **names[0]), 5)

    def finish_hold(self, root, member, refused):
        code, out, _ = self.finish(member, "go\n")
        self.assertEqual((code, out), (0, ["ends", "joined"]))
        code, out, err = self.finish(root)
        self.assertEqual((code, out), (0, ["ends", "joined"]), err)
        # A line a second of each kind, with the number of those that it stands for.
        more = re.findall(r"\b(\d+) (?:before it|more connections ended)", err)
        self.assertEqual(err.count(" is rejected: ") + err.count(" is dropped: ")
                         + sum(map(int, more)), refused, err)

    def test_the_environment_of_a_rank_has_its_key_no_more(self):
        port, key = free_port(), "c0ffee" * 8
        root, member = (self.start_by_hand(rank, 2, port, ORIEL_JOB_KEY=key) for rank in (0, 1))
        for job in (root, member):
            self.assertEqual(job.stdout.readline(), "joined\n")
            with open(f"/proc/{job.pid}/environ", "rb") as environ:
                environ = environ.read()
            self.assertIn(b"WORLD_SIZE=2", environ)
            self.assertIn(b"ORIEL_JOB_KEY=\0", environ)
            self.assertNotIn(key.encode(), environ)
        code, out, _ = self.finish(member, "go\n")
        self.assertEqual((code, out), (0, ["ends"]))
        code, out, err = self.finish(root)
        self.assertEqual((code, out), (0, ["ends"]), err)

    def go_on(self, jobs, line=None):
        """All @jobs pause; they go on to print @line."""
        for job in jobs:
            job.stdin.write("go\n")
            job.stdin.flush()
        for job in jobs:
            self.assertEqual(job.stdout.readline(), line)

    def check_memory(self, jobs, text, is_open):
        """One copy of the text, and one or more of what is made of it while a job is open, are
        in memory that core dumps leave out; libcrypto's own of the key of TLS are ordinary."""
        of_text, of_key, of_psk = secrets_of(text)
        for job in jobs:
            self.assertEqual(places_of(job.pid, of_text), (1, []))
            copies, elsewhere = places_of(job.pid, of_key)
            self.assertEqual((copies > 0, elsewhere), (is_open, []))
            copies, elsewhere = places_of(job.pid, of_psk)
            self.assertEqual(copies > 0, is_open)
            if not is_open:
                self.assertEqual(elsewhere, [])

    def check_key(self, text, given, **env):
        """Search the memory of ranks in a job, behind it, and in one without the key. Without
        LD_BIND_NOW the first call of a function by libcrypto leaves registers on the stack."""
        port = free_port()
        jobs = [self.start(HELPER, "key", RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port), ORIEL_NODE=str(rank), ORIEL_HCA="soft",
                           LD_BIND_NOW="1", **env) for rank in (0, 1)]
        for job in jobs:
            job.stdin.write(given)
            job.stdin.flush()
        for job in jobs:
            self.assertEqual(job.stdout.readline(), "joined\n")
        for _ in range(2):
            self.check_memory(jobs, text, True)
            self.go_on(jobs, "closed\n")
            self.check_memory(jobs, text, False)
            self.go_on(jobs, "joined\n")
        for job in jobs:
            for needle in secrets_of(text):
                self.assertEqual(places_of(job.pid, needle), (0, []))
        self.go_on(jobs, "closed\n")
        self.go_on(jobs, "ends\n")
        for job in jobs:
            self.assertEqual(self.finish(job), (0, [], ""))

    def test_one_copy_of_the_key_stays_where_core_dumps_do_not_look(self):
        skip_with_address_sanitizer(HELPER)
        text = os.urandom(24).hex()
        self.check_key(text, "", ORIEL_JOB_KEY=text)
        self.check_key(text, text + "\n", ORIEL_JOB_KEY_FILE="fd:0")
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            self.check_key(text, "", ORIEL_JOB_KEY_FILE=file.name)

    def test_one_copy_of_the_key_of_a_job_id_stays_there(self):
        skip_with_address_sanitizer(HELPER)
        job = subprocess.Popen([HELPER, "adopt"], env=tool.environment(LD_BIND_NOW="1"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.addCleanup(self.forget, job)
        job_id = job.stdout.read(JOB_ID)
        self.assertEqual(job_id[4], 32)  # docs/wire.md: the length of the key, which is at 8
        # The listener of the id has one more.
        for copies, line in (2, b"open\n"), (1, b"closed\n"):
            self.assertEqual(job.stdout.readline(), line)
            self.assertEqual(places_of(job.pid, job_id[24:32]), (copies, []))
            job.stdin.write(b"go\n")
            job.stdin.flush()
        self.assertEqual(job.communicate(timeout=DEADLINE), (b"", b""))

    def test_jobs_without_a_key_warn_once_or_are_forbidden(self):
        port = free_port()
        for env, code, said in (({}, 0, "all rounds"),
                                ({"ORIEL_JOB_KEY": "required"}, 1, "open: ORIEL_ERR_CONFIG: ORIEL_J"
                                 "OB_KEY is 'required', but this job has no key")):
            # Of 20 jobs of these processes, one after the other.
            jobs = [self.start(HELPER, "rounds", RANK=str(rank), WORLD_SIZE="3",
                               MASTER_ADDR="0.0.0.0", MASTER_PORT=str(port), **env)
                    for rank in range(3)]
            errors = []
            for job in jobs:
                status, out, err = self.finish(job)
                self.assertEqual((status, len(out)), (code, 1), err)
                self.assertIn(said, out[0])
                errors += err.splitlines()
            self.assertEqual(len(errors), 0 if env else 1, errors)
            for line in errors:
                self.assertIn("warn: rank 0: this job has no key and listens at 0.0.0.0:", line)

    def test_a_second_process_with_a_joined_rank_is_refused(self):
        port = free_port()
        root, member = self.start_by_hand(0, 2, port), self.start_by_hand(1, 2, port)
        for job in (root, member):
            self.assertEqual(job.stdout.readline(), "joined\n")
        code, out, _ = self.finish(self.start_by_hand(1, 2, port))
        self.assertEqual(code, 1)
        self.assertRegex(out[0], r"open: ORIEL_ERR_CONFIG: rank 1 \(process \d+\) is rejected at "
                         rf"127.0.0.1:{port} by process {root.pid}: rank 1 of the job here is "
                         rf"process {member.pid} at 127.0.0.1:\d+ already")
        code, out, _ = self.finish(member, "go\n")
        self.assertEqual((code, out), (0, ["ends"]))
        code, out, err = self.finish(root)
        self.assertEqual((code, out), (0, ["ends"]), err)


if __name__ == "__main__":
    ORIEL, HELPER = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
