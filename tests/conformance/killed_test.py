#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, never join, or have a bad environment: killed_test.py KILLED [TEST...]"""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest

KILLED = None
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
WAITS = ["wait_signal", "wait_signal_from", "wait_signal_next", "barrier", "barrier_flat",
          "barrier_peer", "wait_counter", "send", "recv", "comm_barrier", "comm_split",
          "window_create",
          "region_share", "comm_create"]
# Operations that fail by themselves when the rank behind the HCA is dead.
POSTS = ["fetch_add", "get", "flush"]
GATHERS = ["allgather_create", "allgather", "allgather_half", "allgather_running"]
ALL_REDUCES = ["allreduce", "allreduce_running"]
EXCHANGES = ["alltoall", "alltoallv", "bcast", "gather", "scatter", "reduce", "reduce_scatter",
             "reduce_scatter_running", *ALL_REDUCES, "exchange_running"]
# (ranks, nodes): all peers by rdma; mixed.
NODES = [(2, 2), (3, 3), (4, 2)]
AT_ONCE = 4  # jobs
LONG = "100"  # ORIEL_TIMEOUT of tests without a timeout: all ranks are ready before it
SHORT = "8"  # ORIEL_TIMEOUT of tests that expect one, while other ranks may be late for seconds


def hold_port():
    """A socket at a port that no other job gets while it is open, but rank 0 may listen at."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    # After bind(): the kernel does not give the port to a process that asks for any port, and a
    # process that names it may have it.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder


class Job:
    """Ranks of one job; each may be missing, and each may have an environment of its own."""

    def __init__(self, test, size, *arguments, nodes=0, port=None, missing=(), own=None,
                 limit=None, **common):
        self.size = size
        self.holder = hold_port()
        self.port = port or self.holder.getsockname()[1]
        self.ranks = {}
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        for rank in range(size):
            if rank in missing:
                continue
            env = ours | {"RANK": str(rank), "WORLD_SIZE": str(size),
                          "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port),
                          "ORIEL_TIMEOUT": LONG, "ORIEL_LOG": "error", "ORIEL_HCA": "soft"} | common
            if nodes:
                env["ORIEL_NODE"] = f"node{rank * nodes // size}"
            env |= (own or {}).get(rank, {})
            self.ranks[rank] = subprocess.Popen(
                [KILLED, *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                preexec_fn=limit and (lambda: resource.setrlimit(*limit)))
        test.addCleanup(self.forget)

    def forget(self):
        for process in self.ranks.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
        self.holder.close()

    def until_ready(self):
        for process in self.ranks.values():
            line = process.stdout.readline()
            assert line == "ready\n", line + process.stdout.read()

    def signal(self, rank, number):
        self.ranks[rank].send_signal(number)

    def kill(self, rank):
        self.signal(rank, signal.SIGKILL)
        self.ranks[rank].wait()

    def answers(self):
        """The last line that each rank printed, and its exit code."""
        return self.answers_of(self.ranks)

    def answers_of(self, ranks):
        end = time.monotonic() + DEADLINE
        said = {}
        for rank in ranks:
            process = self.ranks[rank]
            out, _ = process.communicate(timeout=max(1, end - time.monotonic()))
            said[rank] = ((out.splitlines() or [""])[-1], process.returncode)
        return said


class Killed(unittest.TestCase):
    def check_survivors(self, where, size, victim, **env):
        job = Job(self, size, where, victim, **env)
        job.until_ready()
        job.kill(victim)
        for rank, (line, code) in job.answers().items():
            if rank == victim:
                continue
            self.assertRegex(line, r"^ORIEL_ERR_PEER .*\brank %d\b" % victim,
                             f"{where}: rank {rank} of {size}")
            self.assertEqual(code, 1, line)

    def test_the_death_of_rank_1_ends_every_wait(self):
        for where in WAITS:
            with self.subTest(where):
                self.check_survivors(where, 3, 1)

    def test_a_death_ends_every_phase_of_an_all_gather(self):
        """ll has no credits, and so no half of an execution."""
        for algorithm, waits in [("store", GATHERS), ("direct", GATHERS), ("ring", GATHERS),
                                  ("ll", ["allgather", "allgather_running"])]:
            for where in waits:
                with self.subTest(f"{where}, {algorithm}"):
                    self.check_survivors(where, 3, 1, ORIEL_ALLGATHER=algorithm)

    def test_a_death_ends_every_phase_of_an_exchange(self):
        """Those of the default, and all-reduces by owners."""
        for where, algorithm in ([(where, "one_shot") for where in EXCHANGES] +
                                 [(where, "owner") for where in ALL_REDUCES]):
            with self.subTest(f"{where}, {algorithm}"):
                self.check_survivors(where, 3, 1, ORIEL_ALLREDUCE=algorithm)

    def test_the_death_of_the_root_ends_waits(self):
        for where in ["recv", "comm_barrier", "window_create", "comm_create"]:
            with self.subTest(where):
                self.check_survivors(where, 4, 0)

    def test_the_death_of_the_last_rank_ends_waits(self):
        for where in ["barrier", "comm_create"]:
            with self.subTest(where):
                self.check_survivors(where, 8, 7)


def batches(items):
    """@items, a few at a time."""
    items = list(items)
    return [items[i:i + AT_ONCE] for i in range(0, len(items), AT_ONCE)]


class Crossing(unittest.TestCase):
    def check_all(self, jobs, victim, number, pattern):
        """All ranks but a killed victim print what @pattern matches; @jobs: {name: job}."""
        for job in jobs.values():
            job.until_ready()
        for job in jobs.values():
            job.signal(victim, number)
        for name, job in jobs.items():
            for rank, (line, code) in job.answers().items():
                if rank == victim and number == signal.SIGKILL:
                    continue
                self.assertRegex(line, pattern, f"{name}: rank {rank} of {job.size}, code {code}")
                self.assertEqual(code, 1, line)


class Nodes(Crossing):
    """Ranks of different virtual nodes, which reach each other through HCAs."""

    def check_waits(self, waits, victim, number, pattern, **env):
        for size, nodes in NODES:
            for some in batches(waits):
                with self.subTest(ranks=size, nodes=nodes, waits=some):
                    jobs = {where: Job(self, size, where, victim, nodes=nodes, **env)
                            for where in some}
                    self.check_all(jobs, victim, number, pattern)

    def test_the_death_of_a_rank_ends_every_wait(self):
        # The exit of the rank, not the operation that failed on it.
        self.check_waits(WAITS + ["idle", "put_barrier"], 1, signal.SIGKILL,
                          r"^ORIEL_ERR_PEER .*\brank 1 (exited before the communicator was destroyed|of \d left)")

    def test_a_death_ends_every_phase_of_an_all_gather(self):
        for algorithm in ["direct", "ring", "bruck"]:
            self.check_waits(GATHERS, 1, signal.SIGKILL, r"^ORIEL_ERR_PEER .*\brank 1\b",
                              ORIEL_ALLGATHER=algorithm)

    def test_a_death_ends_every_phase_of_an_exchange(self):
        self.check_waits(EXCHANGES, 1, signal.SIGKILL, r"^ORIEL_ERR_PEER .*\brank 1\b")

    def test_operations_on_a_dead_rank_fail(self):
        for size, nodes in [(2, 2), (3, 3)]:
            jobs = {where: Job(self, size, where, 1, nodes=nodes) for where in POSTS}
            self.check_all(jobs, 1, signal.SIGKILL, r"^ORIEL_ERR_PEER .*\brank 1\b")

    def test_the_death_of_the_root_ends_waits(self):
        self.check_waits(["wait_signal", "comm_barrier", "idle"], 0, signal.SIGKILL,
                          r"^ORIEL_ERR_PEER .*\brank 0\b")

    def test_a_death_is_reported_without_a_single_post(self):
        # The text has the failure that the HCA reports.
        job = Job(self, 2, "idle", 1, nodes=2)
        self.check_all({"idle": job}, 1, signal.SIGKILL,
                       r"rank 1 exited before the communicator was destroyed: .*does not answer.*"
                       r"syndrome 0x15, .*WQE \d+ of queue 0x[0-9a-f]+$")

    def test_an_abort_ends_waits_on_all_nodes(self):
        self.check_waits([where for where in WAITS if where != "comm_create"] + ["idle"], 1,
                          signal.SIGUSR1, r"^ORIEL_ERR_ABORTED aborted by rank 1\b")

    def test_an_abort_ends_waits_without_a_timeout(self):
        self.check_waits(["wait_signal", "barrier", "recv"], 0, signal.SIGUSR1,
                          r"^ORIEL_ERR_ABORTED aborted by rank 0\b", ORIEL_TIMEOUT="infinite")

    def test_the_default_timeout_of_one_rank_breaks_all(self):
        self.check_waits(["wait_signal_from", "barrier_flat", "send", "idle"], 1, signal.SIGUSR2,
                          r"^ORIEL_ERR_TIMEOUT (rank 1: )?wait_signal timed out after .*"
                          r"window 1, signal 1, expected 0, seen 0; "
                          r"raise ORIEL_TIMEOUT if they are only slow$")

    def test_the_cause_is_the_rejected_request_not_a_flushed_one(self):
        for _ in range(3):
            jobs = {where: Job(self, 2, where, 1, nodes=2) for where in POSTS}
            self.check_all(jobs, 1, signal.SIGHUP, r"^ORIEL_ERR_ACCESS .*\(syndrome 0x13, ")

    def test_a_rejected_request_breaks_all_with_a_text(self):
        self.check_waits(["wait_signal_from", "barrier", "wait_counter", "idle"], 1,
                          signal.SIGHUP,
                          r"^ORIEL_ERR_ACCESS (rank \d: )?(put|link) to rank \d \((rdma|self)\) "
                          r"failed: remote access error .*\(syndrome 0x13, vendor 0x[0-9a-f]+\), "
                          r"WQE \d+ of queue 0x[0-9a-f]+$")

    def test_a_rejected_request_may_be_an_exit(self):
        """The kernel takes the memory of a killed process away before its queues."""
        for where, status in [("rejected_by_the_dead", "ORIEL_ERR_PEER rank 1 exited before "),
                              ("rejected", "ORIEL_ERR_ACCESS put to rank 1 ")]:
            job = Job(self, 2, where, 1, nodes=2)
            line, code = job.answers_of([0])[0]
            self.assertRegex(line.removeprefix("ready "), f"^{status}", where)
            self.assertEqual(code, 1)

    def test_a_queue_that_fails_is_named(self):
        # The first queue of rank 0 leads to rank 1; its tenth request is a fetch_add.
        job = Job(self, 3, "fetch_add", 1, nodes=3,
                  own={0: {"ORIEL_SOFT_HCA": "fail_wqe=10,qp=0"}})
        for rank, (line, code) in job.answers_of([0, 2]).items():
            self.assertRegex(line, r"^ORIEL_ERR_STATE (rank 0: )?(fetch_add|link) to rank 1 "
                                   r"\(rdma\) failed: flushed .*\(syndrome 0x05, .*\), WQE 10 of "
                                   r"queue 0x[0-9a-f]+$", f"rank {rank}")
            self.assertEqual(code, 1)

    def test_a_limit_has_the_progress_of_a_queue(self):
        job = Job(self, 2, "flush_twice", 1, nodes=2, ORIEL_TIMEOUT=SHORT,
                  own={0: {"ORIEL_SOFT_HCA": "halt_at=30,halt=100s"}})
        out, _ = job.ranks[0].communicate(timeout=DEADLINE)
        ready, own, last = out.splitlines()
        self.assertEqual(ready, "ready")
        found = [re.search(r"completed (\d+) of (\d+) WQEs", line) for line in (own, last)]
        self.assertTrue(all(found), out)
        self.assertRegex(own, r"^flush: window \d+: not all operations have ended within 0.5 s, the "
                              r"limit of the call; the queue to rank 1 has completed ")
        self.assertRegex(last, r"^ORIEL_ERR_TIMEOUT (put|flush|wait_local|link) to rank 1 \(rdma\) "
                               r"failed: .* Queue 0x[0-9a-f]+ has completed \d+ of \d+ WQEs; "
                               r"raise ORIEL_TIMEOUT if it is only slow$")
        first, second = [[int(number) for number in match.groups()] for match in found]
        self.assertLess(first[0], first[1])
        self.assertEqual(second[0], first[0])  # nothing goes on
        self.assertGreater(second[1], first[1])  # and more was posted

    def test_an_orderly_end_logs_nothing(self):
        job = Job(self, 4, "again", "-", nodes=2, ORIEL_LOG="warn")
        for process in job.ranks.values():
            out, _ = process.communicate(timeout=DEADLINE)
            self.assertEqual((out.strip(), process.returncode), ("ORIEL_OK", 0))


class Stopped(unittest.TestCase):
    """A rank that does not run any more is blamed, whichever rank it was that a wait was for."""

    PATHS = [(4, 0), (3, 3), (4, 2)]  # (ranks, nodes)
    LIMIT = "8"  # half of it, and the seconds that a suspicion travels, on a busy machine
    # The chain of waits of a barrier, and of what is made of one, leads through healthy ranks.
    WAITS = ["wait_signal", "wait_signal_from", "barrier", "barrier_flat", "wait_counter", "recv",
             "comm_barrier", "comm_split", "window_create", "allgather_create"]
    SILENT = r"rank 1 has not run for [0-9.]+ s: it is stopped, or its machine is$"

    def stop(self, where, size, nodes, **env):
        job = Job(self, size, where, 1, nodes=nodes, KILLED_GO="1", **env)
        job.until_ready()
        job.signal(1, signal.SIGSTOP)
        for rank in range(size):
            if rank != 1:
                job.signal(rank, signal.SIGUSR1)
        return job

    def check(self, jobs, pattern):
        for name, job in jobs.items():
            for rank, (line, code) in job.answers_of(sorted(job.ranks.keys() - {1})).items():
                self.assertRegex(line, pattern, f"{name}: rank {rank} of {job.size}")
                self.assertEqual(code, 1, line)

    def test_a_stopped_rank_is_blamed(self):
        for size, nodes in self.PATHS:
            with self.subTest(ranks=size, nodes=nodes):
                jobs = {where: self.stop(where, size, nodes, ORIEL_TIMEOUT=self.LIMIT)
                        for where in self.WAITS[::3 if nodes else 1]}
                self.check(jobs, r"^ORIEL_ERR_TIMEOUT .*; " + self.SILENT)

    def test_a_heartbeat_limit_ends_waits_without_one(self):
        for size, nodes in self.PATHS:
            jobs = {where: self.stop(where, size, nodes, ORIEL_TIMEOUT="infinite",
                                     ORIEL_HEARTBEAT="3")
                    for where in ("wait_signal_next", "comm_barrier", "recv")}
            self.check(jobs, r"^ORIEL_ERR_TIMEOUT (rank \d: )?ORIEL_HEARTBEAT; " + self.SILENT)

    def test_a_rank_that_runs_is_not_said_to_be_stopped(self):
        job = Job(self, 3, "barrier", 1, ORIEL_TIMEOUT="4")
        for line, _ in job.answers_of([0, 2]).values():
            self.assertRegex(line, r"^ORIEL_ERR_TIMEOUT .*; raise ORIEL_TIMEOUT if it is only slow$")

    def test_a_barrier_names_the_absent(self):
        job = Job(self, 3, "barrier_that_says", 1, ORIEL_TIMEOUT="4")
        said = "".join(job.ranks[rank].communicate(timeout=DEADLINE)[0] for rank in (0, 2))
        self.assertRegex(said, r"(?m)^barrier timed out after 4.* waiting for rank 1 .*"
                               r"; of 3 ranks these had not arrived: 1$")

    def test_a_call_of_all_names_the_absent_and_the_one_that_stands_still(self):
        """Rank 0 enters a barrier of all, and rank 1 waits for rank 2, which is stopped."""
        for nodes in (0, 3):
            with self.subTest(nodes=nodes):
                job = Job(self, 3, "comm_barrier_alone", 2, nodes=nodes, KILLED_GO="1",
                          ORIEL_TIMEOUT=self.LIMIT)
                job.until_ready()
                job.signal(2, signal.SIGSTOP)
                job.signal(0, signal.SIGUSR1)
                time.sleep(1)  # rank 0 reaches its limit first
                job.signal(1, signal.SIGUSR1)
                said = job.ranks[0].communicate(timeout=DEADLINE)[0].splitlines()
                self.assertRegex(said[0], r"ranks 1, 2 of 3 did not (enter oriel_comm_barrier|take part) within 8 s "
                                          r".*; rank 2 has not run for [0-9.]+ s: it is stopped, or its machine is$")

    def test_a_rank_that_goes_on_in_time_breaks_nothing(self):
        job = self.stop("wait_signal_from", 3, 0, ORIEL_TIMEOUT="60", ORIEL_HEARTBEAT="30")
        time.sleep(3)
        job.signal(1, signal.SIGCONT)
        job.signal(1, signal.SIGUSR1)
        self.check({"aborted": job}, r"^ORIEL_ERR_ABORTED aborted by rank 1\b")


class Rails(Crossing):
    """Several HCAs of each rank: of 3 ranks, 0 and 1 are linked by rail 1 of 2."""

    def check_rails(self, waits, victim, number, pattern):
        for some in batches(waits):
            jobs = {where: Job(self, 3, where, victim, nodes=3, ORIEL_RAILS="2") for where in some}
            self.check_all(jobs, victim, number, pattern)

    def test_the_death_of_a_rank_ends_waits(self):
        self.check_rails(["wait_signal", "barrier", "recv", "window_create", "idle"] + POSTS, 1,
                         signal.SIGKILL, r"^ORIEL_ERR_PEER .*\brank 1\b")

    def test_a_rejected_request_breaks_all(self):
        # The first rank that rank 1 reaches is rank 0, by rail 1.
        self.check_rails(["wait_signal_from", "barrier_flat", "idle"], 1, signal.SIGHUP,
                         r"^ORIEL_ERR_ACCESS (rank \d: )?(put|link) to rank \d \(rdma\) failed: .*"
                         r"\(syndrome 0x13, ")

    def test_ranks_must_agree_on_the_number_of_rails(self):
        for nodes in (0, 3):
            job = Job(self, 3, "nothing", "-", nodes=nodes, own={2: {"ORIEL_RAILS": "2"}})
            for line, code in job.answers().values():
                self.assertRegex(line, r"^ORIEL_ERR_MISMATCH .*ORIEL_RAILS is 1 on rank 0 and 2 "
                                       r"on rank 2$")
                self.assertEqual(code, 1)

    def test_a_number_of_rails_out_of_range_is_rejected(self):
        job = Job(self, 2, "nothing", "-", nodes=2, ORIEL_RAILS="5")
        for line, code in job.answers().values():
            self.assertRegex(line, r"ORIEL_RAILS is '5', but it may be a number from 1 to 4")
            self.assertEqual(code, 1)


class Missing(unittest.TestCase):
    def check_all(self, job, pattern):
        for rank, (line, code) in job.answers().items():
            self.assertRegex(line, pattern, f"rank {rank} of {job.size}")
            self.assertEqual(code, 1, line)

    def test_a_rank_that_never_joins_is_named_on_all_ranks(self):
        job = Job(self, 4, "nothing", "-", missing=[2], ORIEL_TIMEOUT=SHORT)
        self.check_all(job, r"^ORIEL_ERR_TIMEOUT .*\brank 2\b")

    def test_a_rank_that_exits_before_joining_is_named_on_all_ranks(self):
        # An invalid setting makes the rank exit at once, with the reason.
        job = Job(self, 3, "nothing", "-", ORIEL_TIMEOUT=SHORT,
                  own={1: {"ORIEL_TIMEOUT": "soon"}})
        said = job.answers()
        self.assertRegex(said[1][0], r"^ORIEL_ERR_CONFIG .*ORIEL_TIMEOUT.*soon")
        for rank in (0, 2):
            self.assertRegex(said[rank][0], r"^ORIEL_ERR_(TIMEOUT|PEER) .*\brank 1\b")

    def test_a_receive_of_more_than_was_sent_has_both_numbers(self):
        jobs = [Job(self, 2, "recv_more", 1, nodes=nodes, ORIEL_TIMEOUT=SHORT)
                for nodes in (0, 2)]
        for job in jobs:
            out, _ = job.ranks[0].communicate(timeout=DEADLINE)
            text = (r"recv timed out after .*, waiting for rank 1 \(\w+\): window 1, channel 0: "
                    r"100 bytes arrived in all, byte 101 did not; the lengths of the sends and the "
                    r"receives of a channel must add up; raise ORIEL_TIMEOUT if it is only slow")
            self.assertRegex(out, rf"^ready\n{text}; this call receives 200 bytes\n"
                                  rf"ORIEL_ERR_TIMEOUT {text}\n$")

    def test_an_all_gather_that_a_rank_does_not_start_is_named(self):
        for algorithm, who in (("direct", r"rank 1 \(mapped\)"), ("store", r"rank 1 \(mapped\)"),
                               ("ll", "a rank")):
            job = Job(self, 2, "allgather", 1, ORIEL_TIMEOUT="4", ORIEL_ALLGATHER=algorithm)
            line, _ = job.answers_of([0])[0]
            self.assertRegex(line, rf"^ORIEL_ERR_TIMEOUT all-gather timed out after [0-9.]+ s: {who} "
                                   r"has not started an execution that its peers wait in, or is slow: "
                                   r"all ranks start the same ones in one order, with equal bytes and "
                                   r"roots; raise ORIEL_TIMEOUT if it is only slow$")

    def test_a_missing_root_is_named(self):
        job = Job(self, 3, "nothing", "-", missing=[0], ORIEL_TIMEOUT="2")
        self.check_all(job, r"^ORIEL_ERR_TIMEOUT .*(rank 0|127\.0\.0\.1:%d)" % job.port)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen(16)
            port = holder.getsockname()[1]
            job = Job(self, 2, "nothing", "-", port=port, ORIEL_TIMEOUT="2")
            said = job.answers()
        self.assertRegex(said[0][0], r"^ORIEL_ERR_\w+ .*\b%d\b" % port)
        self.assertRegex(said[1][0], r"^ORIEL_ERR_\w+ .+")

    def test_a_flood_of_connections_is_a_few_lines(self):
        job = Job(self, 2, "nothing", "-", missing=[1], ORIEL_TIMEOUT="4", ORIEL_LOG="debug")
        begin, connections = time.monotonic(), 0
        while job.ranks[0].poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", job.port), timeout=1) as connection:
                    # What ends it differs: a malformed frame, or the end of a part of one.
                    connection.sendall(b"GET / HTTP/1.1\r\n\r\n" if connections % 2 else b"\1")
                    connections += 1
            except OSError:
                pass
        out, _ = job.ranks[0].communicate(timeout=DEADLINE)
        lines = out.count("oriel: warn:") + out.count("oriel: debug:")
        self.assertGreater(connections, 100)
        # Of warnings, rejections and notes one a second each, and those of the rank itself.
        self.assertLess(lines, 3 * (time.monotonic() - begin + 1) + 20, out)
        self.assertRegex(out, r"so were \d+ before it|\d+ more connections ended as those")

    def test_another_job_key_is_rejected(self):
        job = Job(self, 2, "nothing", "-", ORIEL_TIMEOUT="4", ORIEL_JOB_KEY="a" * 32,
                  own={1: {"ORIEL_JOB_KEY": "b" * 32}})
        said = job.answers()
        another = r"has another ORIEL_JOB_KEY than this process$"
        self.assertRegex(said[1][0], rf"^ORIEL_ERR_AUTH 127.0.0.1:\d+ {another}")
        self.assertRegex(said[0][0], r"^ORIEL_ERR_AUTH rank 1 of 2 did not join within 4 s; "
                                     rf"127.0.0.1:\d+ is rejected: it {another}")


class BadEnvironment(unittest.TestCase):
    def check_alone(self, pattern, **env):
        """Start rank 1 of 2 alone; its last line must match @pattern."""
        job = Job(self, 2, "nothing", "-", missing=[0], own={1: env}, ORIEL_TIMEOUT="4")
        line, code = job.answers()[1]
        self.assertRegex(line, pattern)
        self.assertEqual(code, 1)

    def test_a_rank_beyond_world_size_is_rejected(self):
        self.check_alone(r"^ORIEL_ERR_\w+ .*RANK.*7", RANK="7", WORLD_SIZE="4")

    def test_texts_that_are_no_numbers_are_rejected(self):
        for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
            for value in ("many", "-1", "3x", "", "0x2", "99999999999999999999"):
                with self.subTest(name=name, value=value):
                    self.check_alone(r"^ORIEL_ERR_CONFIG .*%s" % name, **{name: value})

    def test_a_world_size_of_zero_is_rejected(self):
        self.check_alone(r"^ORIEL_ERR_\w+ .*WORLD_SIZE", WORLD_SIZE="0")

    def test_a_port_out_of_range_is_rejected(self):
        self.check_alone(r"^ORIEL_ERR_\w+ .*MASTER_PORT", MASTER_PORT="65536")

    def test_unknown_settings_are_rejected(self):
        self.check_alone(r"^ORIEL_ERR_CONFIG .*ORIEL_TIMOUT", ORIEL_TIMOUT="3")

    def test_an_unknown_setting_is_corrected(self):
        self.check_alone(r"^ORIEL_ERR_CONFIG ORIEL_DEBUG is .*; is ORIEL_LOG=info meant\?$",
                         ORIEL_DEBUG="INFO")

    def check_all(self, pattern, **env):
        """Only rank 1 of 2 has @env; both ranks report what it says."""
        job = Job(self, 2, "nothing", "-", nodes=2, own={1: env})
        for rank, (line, code) in job.answers().items():
            self.assertRegex(line, "^ORIEL_ERR_CONFIG " + ("" if rank else "rank 1: ") + pattern)
            self.assertEqual(code, 1)

    def test_a_tier_of_the_software_hca_is_rejected(self):
        self.check_all("ORIEL_TIER is 't0', but .*software HCA.*ConnectX NIC$", ORIEL_TIER="t0")

    def test_a_required_fabric_without_a_gpu_is_rejected(self):
        self.check_all("ORIEL_FABRIC is 'require', but the communicator of rank 1 has no GPU: .*"
                       "ORIEL_FABRIC to auto$", ORIEL_FABRIC="require")

    def test_a_limit_of_file_sizes_kills_no_rank(self):
        job = Job(self, 1, "nothing", "-", limit=(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assertRegex(job.answers()[0][0], "^ORIEL_ERR_NOMEM .*4096 bytes; raise ulimit -f: ")

    def test_a_lack_of_descriptors_is_named(self):
        """One rank says which descriptor; the other one as well, or that this one is missing."""
        for count in range(6, 16):
            job = Job(self, 2, "nothing", "-", nodes=2, ORIEL_TIMEOUT="2",
                      limit=(resource.RLIMIT_NOFILE, (count, count)))
            lines = [line for line, _ in job.answers().values()]
            self.assertIn("Too many open files (raise ulimit -n)", " ".join(lines), count)
            self.assertNotIn("used up", " ".join(lines))

    def test_a_root_without_an_address_is_named(self):
        self.check_alone(r"^ORIEL_ERR_\w+ .*nowhere\.invalid", MASTER_ADDR="nowhere.invalid")


class Healthy(unittest.TestCase):
    def test_jobs_at_once_do_not_disturb_each_other(self):
        jobs = [Job(self, size, "nothing", "-") for size in (2, 3, 4, 2)]
        for job in jobs:
            for line, code in job.answers().values():
                self.assertEqual((line.strip(), code), ("ORIEL_OK", 0))

    def test_one_job_dies_and_the_other_does_not_notice(self):
        dying = Job(self, 3, "barrier", 1)
        dying.until_ready()
        living = Job(self, 3, "nothing", "-")
        dying.kill(1)
        for line, code in living.answers().values():
            self.assertEqual((line.strip(), code), ("ORIEL_OK", 0))
        dying.answers()

    def test_a_single_rank_needs_no_environment(self):
        job = Job(self, 1, "nothing", "-")
        line, code = job.answers()[0]
        self.assertEqual((line.strip(), code), ("ORIEL_OK", 0))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    KILLED = sys.argv.pop(1)
    unittest.main()
