#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hang_test.py ORIEL HELPER [GPU_HELPER]: `oriel hang` names the ranks that wait for others, and those that wait for none."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DEADLINE = 120  # seconds after which a test has failed; it never decides anything else


class Hang(unittest.TestCase):
    def start(self, mode, *options, ranks=4, helper=None, **env):
        """A job whose ranks are at their last call; the processes, by rank."""
        # With a limit of its own, so that nothing of it is left if the test ends badly.
        job = subprocess.Popen([ORIEL, "run", "-n", str(ranks), "--timeout", "300", *options,
                                helper or HELPER, mode], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=os.environ | {"ORIEL_TIMEOUT": "infinite"} | env)
        pids = {}
        self.addCleanup(self.end, job, pids)
        while len(pids) < ranks:
            found = re.fullmatch(r"\[(\d+)\] (\d+)\n", job.stdout.readline())
            self.assertTrue(found, "a rank did not begin")
            pids[int(found[1])] = int(found[2])
        return pids

    def end(self, job, pids):
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):  # the launcher ends the others
                os.kill(pid, signal.SIGKILL)
        job.wait(DEADLINE)
        job.stdout.close()

    def hang(self, *arguments):
        done = subprocess.run([ORIEL, "hang", *map(str, arguments)], capture_output=True, text=True,
                              timeout=DEADLINE, check=False)
        return done.returncode, done.stdout, done.stderr

    def until(self, pid, claim):
        """The only communicator, once @claim of it is true: ranks take a while to begin to wait."""
        end = time.monotonic() + DEADLINE
        while True:
            code, out, err = self.hang("--json", pid)
            self.assertEqual(err, "")
            comm, = json.loads(out)["communicators"]
            if claim(comm):
                return code, comm
            self.assertLess(time.monotonic(), end, out)
            time.sleep(0.05)

    def waits(self, comm):
        """The list of ranks that each one waits for; a rank that waits twice fails."""
        for rank in comm["ranks"]:
            self.assertLessEqual(len(rank["waits"]), 1)
        return [rank["waits"][0]["for"] if rank["waits"] else [] for rank in comm["ranks"]]

    def check_missing_rank_2(self, pids, text, first):
        """@first: the ranks that a rank which has arrived may be seen to wait for."""
        # Arrivals of others may still be on their way.
        code, comm = self.until(pids[0], lambda c: self.waits(c) == [first, first, [], first])
        self.assertEqual(code, 3)
        self.assertEqual((comm["cycle"], comm["awaited"]), ([], [2]))
        self.assertEqual([rank["process"] for rank in comm["ranks"]], [pids[r] for r in range(4)])
        code, out, err = self.hang(pids[3])
        self.assertEqual((code, err), (3, ""))
        self.assertRegex(out, rf"(?m)^  rank 0, process {pids[0]} \(hang_helper\), \w+$\n"
                              rf"^    thread {pids[0]} has waited \d+\.\d s for rank 2: {text}$")
        self.assertRegex(out, rf"(?m)^  rank 2, process {pids[2]} \(hang_helper\), runs, "
                              "waits for nothing in Oriel$")
        self.assertRegex(out, "(?m)^  others wait for rank 2, which waits for no rank: runs$")

    def test_a_missing_rank_of_a_barrier_is_named(self):
        self.check_missing_rank_2(self.start("barrier"),
                                  "barrier: window 1, barrier slot 3: expected >= 2, seen 1", [2])

    def test_over_rdma_as_well(self):
        self.check_missing_rank_2(self.start("barrier", "--nodes", "4"),
                                  "barrier: window 1, barrier slot 3: expected >= 2, seen 1", [2])

    def test_a_missing_rank_of_a_call_is_named(self):
        self.check_missing_rank_2(self.start("comm"), "oriel_comm_barrier", [2])

    def test_a_missing_rank_of_a_call_by_the_bootstrap_is_named(self):
        self.check_missing_rank_2(self.start("comm", "--nodes", "2"), "oriel_comm_barrier", [2])

    def test_a_missing_rank_of_a_shrink_is_named(self):
        pids = self.start("shrink")
        code, comm = self.until(pids[0], lambda c: self.waits(c) == [[2], [0], [], [0]])
        self.assertEqual((code, comm["awaited"]), (3, [2]))
        self.assertEqual(comm["ranks"][3]["waits"][0]["text"], "oriel_comm_shrink, agreement 1")
        self.assertRegex(self.hang(pids[3])[1], rf"(?m)^    thread {pids[0]} has waited \d+\.\d s for rank 2: "
                                                "oriel_comm_shrink, agreement 1$")

    def check_outside(self, mode, whom, call):
        pids = self.start(mode, ranks=2)
        end = time.monotonic() + DEADLINE
        line = rf"(?m)^    thread {pids[0]} has waited \d+\.\d s for {whom}: {call}$"
        while not re.search(line, self.hang(pids[1])[1]):
            self.assertLess(time.monotonic(), end, self.hang(pids[1])[1])
            time.sleep(0.05)
        self.assertRegex(self.hang(pids[0])[1], rf"(?m)^    thread {pids[1]} has waited \d+\.\d s for rank 0: {call}$")

    def test_a_wait_for_new_ranks_is_shown(self):
        self.check_outside("grow", "new ranks", "oriel_comm_grow")

    def test_a_wait_for_the_ranks_that_invite_is_shown(self):
        self.check_outside("merge", "the ranks that invite", "oriel_comm_merge")

    def test_ranks_that_wait_for_each_other_are_a_cycle(self):
        pids = self.start("signals", ranks=2)
        code, comm = self.until(pids[0], lambda c: all(r["waits"] for r in c["ranks"]))
        self.assertEqual(code, 3)
        self.assertEqual((self.waits(comm), comm["cycle"]), ([[1], [0]], [0, 1]))
        self.assertEqual({k: comm["ranks"][0]["waits"][0][k] for k in ("window", "id", "expected",
                                                                      "seen", "any")},
                         {"window": 1, "id": 5, "expected": 2, "seen": 0, "any": False})
        self.assertIn("  cycle: rank 0 waits for rank 1 waits for rank 0\n", self.hang(pids[1])[1])

    def test_a_long_cycle_is_printed_in_order(self):
        pids = self.start("signals")
        code, comm = self.until(pids[2], lambda c: all(r["waits"] for r in c["ranks"]))
        self.assertEqual((code, comm["cycle"]), (3, [0, 1, 2, 3]))

    def check_cycle(self, mode, ranks, text):
        pids = self.start(mode, ranks=ranks)
        code, comm = self.until(pids[0], lambda c: all(r["waits"] for r in c["ranks"]))
        self.assertEqual((code, comm["cycle"]), (3, list(range(ranks))))
        self.assertEqual(comm["ranks"][0]["waits"][0]["text"], text)
        self.assertEqual(self.waits(comm), [[(rank + 1) % ranks] for rank in range(ranks)])
        code, out, _ = self.hang(pids[1])
        self.assertEqual(code, 3)
        self.assertIn(f" s for rank 1: {text}\n", out)
        self.assertRegex(out, r"(?m)^  cycle: rank 0 waits for rank 1 .*waits for rank 0$")

    def test_endpoints_that_wait_for_each_other_are_a_cycle(self):
        self.check_cycle("p2p", 3, "p2p receive: channel 0, 1048576 bytes, 0 chunks done")

    def test_so_are_control_messages(self):
        self.check_cycle("control", 2, "p2p receive of a control message, tag 7")

    def test_a_cycle_may_go_by_an_endpoint_and_a_window(self):
        self.check_cycle("both", 2, "p2p receive: channel 0, 1048576 bytes, 0 chunks done")

    def test_a_rank_that_receives_nothing_is_named(self):
        pids = self.start("send", ranks=2)
        code, comm = self.until(pids[0], lambda c: c["ranks"][0]["waits"])
        self.assertEqual((code, self.waits(comm), comm["awaited"]), (3, [[1], []], [1]))
        self.assertEqual(comm["ranks"][0]["waits"][0]["text"], "p2p drain")

    def test_a_wait_for_any_rank_blames_none(self):
        pids = self.start("any")
        _, comm = self.until(pids[0], lambda c: c["ranks"][0]["waits"])
        self.assertEqual((comm["cycle"], comm["awaited"]), ([], []))
        self.assertIn("for any of ranks 1-3: wait_signal: window 1, signal 5", self.hang(pids[0])[1])

    def check_nic(self, pids, who):
        """Rank 0 waits for its NIC, and for no rank: the other one need not do anything for that."""
        code, comm = self.until(pids[0], lambda c: c["ranks"][0]["waits"])
        wait, = comm["ranks"][0]["waits"]
        self.assertEqual((code, comm["awaited"], comm["cycle"]), (0, [], []))
        self.assertEqual((wait["text"], wait["for"]), ("requests for rank 1 are not completed", []))
        self.assertRegex(self.hang(pids[0])[1], rf"(?m)^    {who} has waited \d+\.\d s for a NIC: "
                                                r"requests for rank 1 are not completed$")

    def test_a_wait_for_a_nic_is_shown(self):
        pids = self.start("nic", "--nodes", "2", ranks=2)
        # The software HCA at the other end stops with its process.
        os.kill(pids[1], signal.SIGSTOP)
        self.check_nic(pids, f"thread {pids[0]}")

    def test_so_is_one_for_a_proxy(self):
        pids = self.start("nic", "--nodes", "2", ranks=2, ORIEL_POST="proxy")
        os.kill(pids[1], signal.SIGSTOP)
        self.check_nic(pids, f"thread {pids[0]}")

    def test_a_stopped_rank_is_read_and_named(self):
        pids = self.start("flow")
        os.kill(pids[1], signal.SIGSTOP)
        # It is read by its own number, too.
        for pid in pids[1], pids[0]:
            # All of its threads stop some time after the signal.
            code, comm = self.until(pid, lambda c: 1 in sum(self.waits(c), [])
                                    and c["ranks"][1]["state"] == "T")
        # It was stopped in a wait, which is shown, or outside.
        if not comm["ranks"][1]["waits"]:
            self.assertEqual((code, comm["awaited"]), (3, [1]))
        self.assertIn(f"  rank 1, process {pids[1]} (hang_helper), stopped (SIGSTOP)",
                      self.hang(pids[0])[1])

    def test_all_ranks_may_be_stopped(self):
        pids = self.start("signals")
        self.until(pids[0], lambda c: all(r["waits"] for r in c["ranks"]))
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        _, comm = self.until(pids[0], lambda c: all(r["state"] == "T" for r in c["ranks"]))
        # A thread is stopped in the sleep of its wait, or, rarely, at the poll between two.
        self.assertGreaterEqual(sum(map(len, self.waits(comm))), 3)

    def test_a_job_that_flows_has_no_finding(self):
        pids = self.start("flow")
        for _ in range(5):
            _, comm = self.until(pids[0], lambda c: True)
            self.assertEqual(comm["cycle"], [])

    def test_kernels_that_flow_are_no_finding(self):
        pids = self.start_kernels("flow")
        for _ in range(20):
            _, comm = self.until(pids[0], lambda c: True)
            self.assertEqual(comm["cycle"], [])

    def start_kernels(self, mode, ranks=4, **env):
        if not GPU_HELPER:
            self.skipTest("there is no cuda.h for the fake driver")
        return self.start(mode, ranks=ranks, helper=GPU_HELPER, **env)

    def check_kernels(self, mode, text, awaited, cycle):
        """No rank has a thread that waits: what is shown is what kernels answer."""
        pids = self.start_kernels(mode)
        want = [sorted(awaited(rank)) for rank in range(4)]
        # A thread that answers may not run for a while.
        code, comm = self.until(pids[0], lambda c: [sorted({peer for wait in rank["waits"]
                                                           for peer in wait["for"]})
                                                   for rank in c["ranks"]] == want)
        self.assertEqual((code, comm["cycle"]), (3, cycle))
        for rank in comm["ranks"]:
            for wait in rank["waits"]:
                self.assertEqual((wait["kernel"], wait["text"]), (True, text))
                self.assertGreaterEqual(wait["seconds"], 42)
        return pids, comm

    def test_kernels_at_a_barrier_say_so(self):
        text = "barrier: window 1, barrier slot 3: expected >= 2, seen 1"
        pids, comm = self.check_kernels("barrier", text, lambda r: [] if r == 2 else [2], [])
        self.assertEqual(comm["awaited"], [2])
        self.assertRegex(self.hang(pids[1])[1],
                         rf"(?m)^    a kernel has waited 42\.\d s for rank 2: {text}$")
        # These stand still with their process, and what they have answered before does not count.
        os.kill(pids[0], signal.SIGSTOP)
        self.until(pids[1], lambda c: c["ranks"][0]["state"] == "T" and not c["ranks"][0]["waits"]
                   and c["ranks"][1]["waits"])
        os.kill(pids[0], signal.SIGCONT)
        self.until(pids[1], lambda c: c["ranks"][0]["waits"])

    def test_a_kernel_that_waits_for_a_nic_says_so(self):
        self.check_nic(self.start_kernels("nic", ranks=2), "a kernel")

    def test_kernels_may_wait_for_several_things(self):
        pids = self.start_kernels("signals", ranks=2)
        _, comm = self.until(pids[1], lambda c: len(c["ranks"][0]["waits"]) == 2)
        waits = sorted(comm["ranks"][0]["waits"], key=lambda wait: wait["id"])
        self.assertEqual([{k: wait[k] for k in ("window", "id", "expected", "seen", "for", "any", "text")}
                          for wait in waits],
                         [{"window": 1, "id": 4, "expected": 7, "seen": 6, "for": [1], "any": False,
                           "text": "wait_signal_from: window 1, signal 4: expected >= 7, seen 6"},
                          {"window": 1, "id": 5, "expected": 9, "seen": 0, "for": [1], "any": False,
                           "text": "wait_signal_from: window 1, signal 5: expected == 9, seen 0"}])
        self.assertEqual(comm["awaited"], [1])

    def test_waits_of_kernels_that_begin_later_are_not_shown(self):
        pids = self.start_kernels("new", ranks=2)
        for _ in range(5):
            _, comm = self.until(pids[0], lambda c: True)
            self.assertEqual(self.waits(comm), [[], []])

    def test_so_are_those_at_a_flat_barrier(self):
        self.check_kernels("flat", "barrier_flat: window 1, barrier slot 5: expected >= 3, seen 2",
                           lambda r: [] if r == 2 else [2], [])

    def test_kernels_that_wait_for_each_other_are_a_cycle(self):
        self.check_kernels("pair", "barrier_peer: window 1, barrier slot 2: expected >= 1, seen 0",
                           lambda r: [(r + 1) % 4], [0, 1, 2, 3])

    def test_a_signal_makes_a_process_write_what_its_kernels_wait_for(self):
        pids = self.start_kernels("barrier", ORIEL_HANG_SIGNAL="SIGUSR2",
                                  ORIEL_LOG_FILE=self.log_file())
        text = self.lines_of(pids, signal.SIGUSR2, lambda t: t.count("a kernel has waited") >= 3)
        for rank in 0, 1, 3:
            self.assertRegex(text, rf"rank {rank}.*a kernel has waited 42\.\d s for rank 2: barrier: window 1, "
                                   "barrier slot 3: expected >= 2, seen 1")

    def lines_of(self, pids, sent, claim):
        """Sends the signal until the log has the lines: threads take a while to begin to wait."""
        end = time.monotonic() + DEADLINE
        while True:
            for pid in pids.values():
                os.kill(pid, sent)
            time.sleep(0.1)
            with open(self.log, encoding="utf-8") as file:
                text = file.read()
            if claim(text):
                return text
            self.assertLess(time.monotonic(), end, text)

    def log_file(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.log = f"{made.name}/log"
        return self.log

    def test_a_signal_makes_each_process_write_its_waits(self):
        pids = self.start("barrier", ORIEL_HANG_SIGNAL="SIGUSR2", ORIEL_LOG_FILE=self.log_file())
        # A rank may wait for another one first, which has not arrived yet.
        lines = [rf"rank {rank}.*thread {pids[rank]} has waited \d+\.\d s for "
                 "rank 2: barrier: window 1, barrier slot 3: expected >= 2, seen 1"
                 for rank in (0, 1, 3)] + [f"process {pids[2]}: no thread waits in Oriel"]
        self.lines_of(pids, signal.SIGUSR2, lambda t: all(re.search(line, t) for line in lines))
        # It changes nothing: the ranks still wait.
        self.check_missing_rank_2(pids, "barrier: window 1, barrier slot 3: expected >= 2, seen 1",
                                  [2])

    def test_a_signal_of_the_program_is_left_alone(self):
        pids = self.start("handler", ORIEL_HANG_SIGNAL="SIGUSR2", ORIEL_LOG_FILE=self.log_file())
        with open(self.log, encoding="utf-8") as file:
            self.assertIn("ORIEL_HANG_SIGNAL: the program handles or ignores SIGUSR2 itself",
                          file.read())
        # Its own handler writes the line "handled".
        text = self.lines_of(pids, signal.SIGUSR2, lambda t: "handled" in t)
        self.assertNotIn("has waited", text)

    @unittest.skipUnless(shutil.which("gdb"), "no gdb")
    def test_gdb_gets_the_signal_first_and_holds_a_rank(self):
        pids = self.start("barrier", ORIEL_HANG_SIGNAL="SIGUSR2", ORIEL_LOG_FILE=self.log_file())
        # It attaches, stops at the signal as it does for any program, and holds rank 2 until it reads a line.
        gdb = subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-p", str(pids[2]), "-ex", f"shell kill -USR2 {pids[2]}",
                                "-ex", "continue", "-ex", "shell read line", "-ex", "detach"], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(gdb.kill)
        said = ""
        while "received signal SIGUSR2" not in said:
            line = gdb.stdout.readline()
            self.assertTrue(line, said)
            said += line
        _, comm = self.until(pids[0], lambda c: self.waits(c) == [[2], [2], [], [2]]
                             and c["ranks"][2]["state"] == "t")
        self.assertEqual(comm["awaited"], [2])
        self.assertRegex(self.hang(pids[2])[1], rf"(?m)^  rank 2, process {pids[2]} \(hang_helper\), stopped by a "
                                                "debugger, waits for nothing in Oriel$")
        with open(self.log, encoding="utf-8") as file:
            self.assertNotIn("no thread waits", file.read())
        gdb.communicate("go\n", timeout=DEADLINE)
        self.assertEqual(gdb.returncode, 0)
        # The handler runs when gdb has detached, at the signal that it had held, or at the next one.
        self.lines_of({2: pids[2]}, signal.SIGUSR2, lambda t: f"process {pids[2]}: no thread waits in Oriel" in t)

    def test_without_the_setting_the_signal_has_its_own_action(self):
        pids = self.start("signals", ranks=2)
        os.kill(pids[0], signal.SIGUSR2)
        end = time.monotonic() + DEADLINE
        while os.path.exists(f"/proc/{pids[0]}") and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(os.path.exists(f"/proc/{pids[0]}"), "SIGUSR2 did not end the rank")

    def test_processes_that_cannot_be_read(self):
        other = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        code, out, err = self.hang(other.pid)
        self.assertEqual((code, out, err), (1, "", f"oriel hang: process {other.pid} has no "
                                            "communicator of this version of Oriel\n"))
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.assertEqual(self.hang(ended.pid), (1, "", f"oriel hang: there is no process {ended.pid}\n"))
        for wrong in (), ("x",), ("0",), ("-1",), ("1", "2"), ("--what", "1"):
            code, out, err = self.hang(*wrong)
            self.assertEqual((code, out), (2, ""), err)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_processes_of_another_user_are_named(self):
        pids = self.start("signals", ranks=2)
        done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                               f"/proc/self/fd/{self.tool()}", "hang", str(pids[0])],
                              capture_output=True, text=True, timeout=DEADLINE, check=False,
                              pass_fds=[self.tool_fd])
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        # Nor may that user write the counters of scripts/coverage.
        said = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("profiling:"))
        self.assertEqual(said, f"oriel hang: process {pids[0]} is of uid 0, and uid 65534 may "
                               "not read it: run `oriel hang` as that user\n")

    def tool(self):
        """A descriptor of the program: another user may not reach its folder."""
        self.tool_fd = os.open(ORIEL, os.O_RDONLY)
        self.addCleanup(os.close, self.tool_fd)
        return self.tool_fd


if __name__ == "__main__":
    ORIEL, HELPER = map(os.path.abspath, sys.argv[1:3])
    GPU_HELPER = sys.argv[3] if len(sys.argv) > 3 else None
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
