#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`oriel run`, from the outside: launcher_test.py ORIEL RANK_HELPER [TEST...]"""

import collections
import fcntl
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import uuid

import tool

ORIEL = HELPER = None
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else


def until(claim, otherwise="it never became true"):
    end = time.monotonic() + DEADLINE
    while not claim():
        if time.monotonic() > end:
            raise AssertionError(otherwise)
        time.sleep(0.01)


def pids_with(mark):
    """Processes, zombies excepted, whose environment has the mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


class Launcher(unittest.TestCase):
    def setUp(self):
        self.mark = "LAUNCHER_TEST_MARK=" + uuid.uuid4().hex

    def tearDown(self):
        try:
            self.until_nothing_is_left()
        finally:
            for pid in pids_with(self.mark):
                os.kill(pid, signal.SIGKILL)

    def until_nothing_is_left(self):
        """Processes that the launcher killed may take a moment to exit."""
        until(lambda: not pids_with(self.mark), "processes survived the job")

    def start(self, *arguments, env=None, **options):
        name, _, value = self.mark.partition("=")
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE} | options
        # No slow rank is killed, unless @arguments set another grace.
        job = subprocess.Popen([ORIEL, "run", "--grace", str(DEADLINE * 2), *map(str, arguments)],
                               env=tool.environment(**{name: value}, **(env or {})), **options)
        self.addCleanup(self.forget, job)
        return job

    @staticmethod
    def forget(job):
        if job.poll() is None:
            job.kill()
            job.wait()
        for stream in (job.stdin, job.stdout, job.stderr):
            if stream:
                stream.close()

    def finish(self, job, given=None):
        """Exit code and outputs. No process of the job may remain."""
        out, err = job.communicate(given, timeout=DEADLINE)
        self.until_nothing_is_left()
        return job.returncode, out, err.decode()

    def run_job(self, *arguments, **options):
        return self.finish(self.start(*arguments, **options))

    def ranks(self):
        return [pid for pid in pids_with(self.mark)
                if os.path.samefile(f"/proc/{pid}/exe", HELPER)]

    def wait_ready(self, job, ranks, word=b"ready"):
        lines = [job.stdout.readline() for _ in range(ranks)]
        self.assertEqual(sorted(lines), [b"[%d] %s\n" % (i, word) for i in range(ranks)])

    # The end of ranks

    def test_success_is_silent(self):
        self.assertEqual(self.run_job("-n", 4, "true"), (0, b"", ""))

    def test_the_exit_code_of_a_rank_is_passed_on_and_named(self):
        code, out, err = self.run_job("-n", 4, HELPER, "fail", 2, 3, 0)
        self.assertEqual((code, out, err), (3, b"", "oriel run: rank 2 exited with code 3\n"))

    def test_the_first_failure_decides_and_all_are_named(self):
        code, _, err = self.run_job("-n", 3, HELPER, "fail", 1, 7, 5)
        lines = err.splitlines()
        self.assertEqual(code, 7)
        self.assertEqual(lines[0], "oriel run: rank 1 exited with code 7")
        # A rank without its handler in place died of SIGTERM, which is no failure.
        for line in lines[1:]:
            self.assertRegex(line, "^oriel run: rank [02] exited with code 5$")

    def test_a_signal_is_named(self):
        for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGUSR1):
            with self.subTest(number):
                code, _, err = self.run_job("-n", 3, HELPER, "die", 2, int(number))
                self.assertEqual(code, 128 + number)
                self.assertRegex(err, rf"^oriel run: rank 2 was killed by {number.name}"
                                 r"( \(core dumped\))?\n$")

    def test_a_signal_without_a_name_is_numbered(self):
        number = signal.SIGRTMIN + 3
        code, _, err = self.run_job("-n", 2, HELPER, "die", 1, int(number))
        self.assertEqual(code, 128 + number)
        self.assertEqual(err, f"oriel run: rank 1 was killed by signal {number}\n")

    def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(self):
        job = self.start("-n", 3, "--grace", "0.2", HELPER, "deaf", 9, stdin=subprocess.PIPE)
        lines = sorted(job.stdout.readline() for _ in range(2))
        self.assertEqual(lines, [b"[1] deaf\n", b"[2] deaf\n"])
        code, _, err = self.finish(job, b"x")
        self.assertEqual(code, 9)
        self.assertEqual(err, "oriel run: rank 0 exited with code 9\n"
                         "oriel run: ranks 1-2 did not end within 0.2 s of SIGTERM: killed\n")

    def test_a_stopped_rank_ends_as_well(self):
        script = 'if [ $RANK = 1 ]; then echo ready; kill -STOP $$; else read x; exit 3; fi'
        job = self.start("-n", 2, "sh", "-c", script, stdin=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), b"[1] ready\n")
        until(lambda: "T" in map(state, pids_with(self.mark)))
        stopped = job.stderr.readline().decode()
        self.assertRegex(stopped, r"^oriel run: rank 1 is stopped by SIGSTOP; `kill -CONT \d+`")
        self.assertEqual(self.finish(job, b"x\n"),
                         (3, b"", "oriel run: rank 0 exited with code 3\n"))

    def stop_and_go_on(self, job, name):
        """A rank of @job, which has two that wait, stops and goes on; both are told of @name."""
        self.wait_ready(job, 2)
        pid = self.ranks()[0]
        os.kill(pid, signal.SIGSTOP)
        text = job.stderr.readline().decode()
        rank = re.fullmatch(rf"oriel run: ({name}) is stopped by SIGSTOP; "
                            rf"`kill -CONT {pid}` lets it go on\n", text)
        self.assertTrue(rank, text)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(job.stderr.readline().decode(), f"oriel run: {rank[1]} goes on\n")

    def test_a_stopped_rank_is_reported_and_so_is_that_it_goes_on(self):
        job = self.start("-n", 2, HELPER, "wait")
        self.stop_and_go_on(job, "rank [01]")
        job.send_signal(signal.SIGTERM)
        code, _, err = self.finish(job)
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertNotIn("stopped", err)

    def test_a_running_rank_gets_no_sigcont(self):
        # SIGCONT would cancel the stop that a debugger has just requested.
        script = ('if [ $RANK = 0 ]; then read x; exit 3; fi\n'
                  'trap "echo continued" CONT\n'
                  'trap "sleep 0.2; echo ended; exit 0" TERM\n'
                  'echo ready\n'
                  'while :; do sleep 0.01; done')
        job = self.start("-n", 2, "bash", "-c", script, stdin=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), b"[1] ready\n")
        self.assertEqual(self.finish(job, b"x\n")[:2], (3, b"[1] ended\n"))

    def test_the_timeout_names_the_ranks_that_still_run(self):
        script = 'case $RANK in 1|3|4) exec sleep 1000;; esac'
        for timeout in (0.5, 5, 50):  # until the other ranks had time to end
            code, _, err = self.run_job("-n", 5, "--timeout", timeout, "sh", "-c", script)
            self.assertEqual(code, 124)
            expected = (f"oriel run: the job did not end within {timeout} s: "
                        "ranks 1, 3-4 still run\n")
            if err == expected:
                break
        self.assertEqual(err, expected)

    def test_a_missing_program_is_reported_once(self):
        code, out, err = self.run_job("-n", 8, "./no-such-program")
        self.assertEqual((code, out), (127, b""))
        self.assertEqual(err, "oriel run: cannot run './no-such-program': "
                         "No such file or directory\n")

    def test_a_file_that_is_no_program(self):
        code, _, err = self.run_job("-n", 2, "/etc/passwd")
        self.assertEqual(code, 126)
        self.assertEqual(err, "oriel run: cannot run '/etc/passwd': Permission denied\n")

    def test_many_ranks(self):
        code, out, err = self.run_job("-n", 64, HELPER, "env", "RANK")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()),
                         sorted(b"[%d] RANK=%d" % (i, i) for i in range(64)))

    # Output

    def test_unfinished_lines_are_not_joined(self):
        code, out, err = self.run_job("-n", 4, HELPER, "bytes", "one\ntwo", "three")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(out.split(b"\n")),
                         sorted(b"[%d] %s" % (i, word) for i in range(4)
                                for word in (b"one", b"two")))
        self.assertEqual(sorted(err.split("\n")), [f"[{i}] three" for i in range(4)])

    def test_the_bytes_of_a_rank_are_unchanged(self):
        raw = bytes(range(256)) * 10
        for option, prefix in (("--", b"[0] "), ("--no-prefix", b"")):
            code, out, _ = self.run_job("-n", 1, option, HELPER, "raw")
            self.assertEqual(code, 0)
            self.assertEqual(out, prefix + raw.replace(b"\n", b"\n" + prefix))

    def test_lines_stay_whole_and_in_order(self):
        code, out, _ = self.run_job("-n", 4, HELPER, "flood", 5000)
        lines = collections.defaultdict(list)
        for line in out.decode().splitlines():
            rank, _, text = line.partition(" ")
            lines[rank].append(text)
        expected = [f"{i}:{i:0{1 + i % 300}d}" for i in range(5000)]
        self.assertEqual(code, 0)
        self.assertEqual(dict(lines), {f"[{i}]": expected for i in range(4)})

    def test_a_line_of_megabytes(self):
        length = 5_000_001
        letters = (b"abcdefghijklmnopqrstuvwxyz" * (length // 26 + 1))[:length]
        code, out, _ = self.run_job("-n", 1, HELPER, "long", length)
        self.assertEqual((code, out == b"[0] " + letters), (0, True))

        # Pieces of two such lines may alternate, each on a line of its own.
        code, out, _ = self.run_job("-n", 2, HELPER, "long", length)
        pieces = {b"[0] ": b"", b"[1] ": b""}
        for line in out.split(b"\n"):
            pieces[line[:4]] += line[4:]
        self.assertEqual(code, 0)
        self.assertTrue(all(piece == letters for piece in pieces.values()))

    def test_the_last_lines_of_a_rank_precede_the_report_of_its_end(self):
        # More than one read() returns, all of it in the pipe before the launcher polls.
        job = self.start("-n", 1, HELPER, "words", 50000, stdin=subprocess.PIPE)
        if job.stdout.readline() != b"[0] ready\n":
            self.skipTest("a pipe may not become large enough")
        rank, = self.ranks()
        job.send_signal(signal.SIGSTOP)
        job.stdin.write(b"x")
        job.stdin.flush()
        until(lambda: state(rank) == "Z")
        job.send_signal(signal.SIGCONT)
        code, _, err = self.finish(job)
        self.assertEqual(code, 4)
        self.assertEqual(err.splitlines()[-1], "oriel run: rank 0 exited with code 4")
        self.assertEqual(err.count("[0] word\n"), 50000)

    def test_a_rank_that_aborts_keeps_its_last_words(self):
        lines = {b"[%d] last words of %d" % (i, i) for i in range(2)}
        code, out, _ = self.run_job("-n", 2, "--grace", "0", HELPER, "abort")
        self.assertEqual(code, 128 + signal.SIGABRT)
        # The second rank may have been killed before it said anything.
        self.assertTrue(set(out.splitlines()) and set(out.splitlines()) <= lines, out)
        # The C library asks the same before it chooses how to buffer.
        is_terminal = ("sh", "-c", "test -t 1 && echo yes || echo no")
        self.assertEqual(self.run_job("-n", 1, *is_terminal), (0, b"[0] yes\n", ""))
        self.assertEqual(self.run_job("-n", 1, "--no-pty", *is_terminal), (0, b"[0] no\n", ""))

    def test_colours_do_not_go_to_files(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        env = {"TERM": "xterm"}
        for options, term in (([], b"dumb"), (["--no-pty"], b"xterm")):
            _, out, _ = self.run_job("-n", 1, *options, HELPER, "env", "TERM", env=env)
            self.assertEqual(out, b"[0] TERM=" + term + b"\n")
        job = self.start("-n", 1, HELPER, "env", "TERM", env=env, stdout=theirs)
        os.close(theirs)
        self.assertEqual(job.wait(timeout=DEADLINE), 0)
        self.assertEqual(os.read(ours, 100), b"[0] TERM=xterm\r\n")

    def test_without_terminals_there_are_pipes(self):
        hide = "mount --bind /dev/null /dev/ptmx && exec \"$@\""
        command = ["unshare", "--mount", "sh", "-c", hide, "sh"]
        try:
            subprocess.run([*command, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no mounts of its own: {error}")
        done = subprocess.run([*command, ORIEL, "run", "-n", "2", "echo", "x"],
                              capture_output=True, env=tool.environment(), timeout=DEADLINE)
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                         (0, [b"[0] x", b"[1] x"]))
        self.assertRegex(done.stderr, b"^oriel run: no pseudo terminal for a rank: [^\n]*\n$")

    def test_a_stalled_reader_delays_no_deadline(self):
        job = self.start("-n", 2, "--timeout", "1", "--grace", "0.1", "yes")
        self.assertEqual(job.wait(timeout=DEADLINE), 124)
        self.assertIn(b"did not end within 1 s: ranks 0-1 still run", job.stderr.read())

    def test_a_closed_output_ends_the_job(self):
        job = self.start("-n", 2, "yes")
        job.stdout.readline()
        job.stdout.close()
        self.assertEqual(job.wait(timeout=DEADLINE), 128 + signal.SIGPIPE)

    def test_a_failed_write_of_output_is_reported(self):
        with open("/dev/full", "wb") as full:
            code, _, err = self.run_job("-n", 2, "echo", "x", stdout=full)
        self.assertEqual(code, 1)
        self.assertEqual(err, "oriel run: cannot write the output of the ranks: "
                         "No space left on device\n")

    def test_a_child_of_a_rank_that_keeps_the_outputs_open(self):
        code, out, err = self.run_job("-n", 2, HELPER, "orphan")
        self.assertEqual((code, sorted(out.splitlines()), err),
                         (0, [b"[0] left", b"[1] left"], ""))

    # Input

    def test_only_rank_0_gets_the_input(self):
        job = self.start("-n", 3, HELPER, "cat", stdin=subprocess.PIPE)
        code, out, _ = self.finish(job, b"to be read\n")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(out.splitlines()),
                         [b"[0] reads", b"[0] to be read", b"[1] reads", b"[2] reads"])

    def test_rank_0_reads_from_a_terminal(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)

        def take_terminal():
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        job = self.start("-n", 2, HELPER, "cat", stdin=theirs, start_new_session=True,
                         preexec_fn=take_terminal)
        os.close(theirs)
        self.wait_ready(job, 2, b"reads")
        os.write(ours, b"typed\n\x04")
        code, out, _ = self.finish(job)
        self.assertEqual((code, out), (0, b"[0] typed\n"))

    def test_closed_standard_files(self):
        job = self.start("-n", 2, "sh", "-c", "exit $((RANK + 5))", stdin=None, stdout=None,
                         stderr=None, preexec_fn=lambda: os.closerange(0, 3))
        self.assertIn(job.wait(timeout=DEADLINE), (5, 6))

    # Signals

    def test_signals_are_forwarded(self):
        numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
        job = self.start("-n", 3, HELPER, "catch", len(numbers))
        self.wait_ready(job, 3)
        for number in numbers:
            job.send_signal(number)
            self.wait_ready(job, 3, b"got %d" % number)
        self.assertEqual(self.finish(job)[0], 0)

    def test_a_signal_that_ends_the_ranks_sets_the_exit_code(self):
        job = self.start("-n", 3, HELPER, "wait")
        self.wait_ready(job, 3)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(job),
                         (128 + signal.SIGTERM, b"", "oriel run: SIGTERM goes to all ranks\n"))

    def test_a_second_sigint_kills(self):
        job = self.start("-n", 2, HELPER, "catch", 9)
        self.wait_ready(job, 2)
        job.send_signal(signal.SIGINT)
        self.wait_ready(job, 2, b"got %d" % signal.SIGINT)
        job.send_signal(signal.SIGINT)
        code, _, err = self.finish(job)
        self.assertEqual(code, 128 + signal.SIGINT)
        self.assertEqual(err, "oriel run: SIGINT goes to all ranks; a second one kills them\n"
                         "oriel run: second SIGINT: the ranks are killed\n")

    def test_stop_and_continue(self):
        job = self.start("-n", 2, HELPER, "wait")
        self.wait_ready(job, 2)
        ranks = self.ranks()
        self.assertEqual(len(ranks), 2)
        job.send_signal(signal.SIGTSTP)
        until(lambda: state(job.pid) == "T" and all(state(pid) == "T" for pid in ranks))
        job.send_signal(signal.SIGCONT)
        until(lambda: all(state(pid) != "T" for pid in [job.pid, *ranks]))
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(job)[0], 128 + signal.SIGTERM)

    def test_no_process_survives_a_killed_launcher(self):
        job = self.start("-n", 3, HELPER, "parent")
        self.wait_ready(job, 3)
        self.assertGreaterEqual(len(pids_with(self.mark)), 7)
        job.kill()
        job.wait()
        self.until_nothing_is_left()

    # Environment

    def env_of(self, name, *arguments, inherit=(), **env):
        code, out, err = self.run_job(*arguments, HELPER, "env", name, env=env,
                                      pass_fds=inherit)
        self.assertEqual((code, err), (0, ""))
        values = [re.fullmatch(r"\[(\d+)\] \w+(?: is not set|=(.*))", line).groups()
                  for line in out.decode().splitlines()]
        return [value for _, value in sorted(values, key=lambda pair: int(pair[0]))]

    def test_ranks_get_their_number_and_size(self):
        self.assertEqual(self.env_of("RANK", "-n", 3), ["0", "1", "2"])
        self.assertEqual(self.env_of("WORLD_SIZE", "-n", 3), ["3"] * 3)
        self.assertEqual(self.env_of("LOCAL_RANK", "-n", 3), ["0", "1", "2"])
        self.assertEqual(self.env_of("LOCAL_WORLD_SIZE", "-n", 3), ["3"] * 3)
        self.assertEqual(self.env_of("ORIEL_NODE", "-n", 3), [None] * 3)
        self.assertEqual(self.env_of("ORIEL_NODE", "-n", 2, ORIEL_NODE="mine"), ["mine"] * 2)

    def test_virtual_nodes(self):
        split = ("-n", 5, "--nodes", 2)
        self.assertEqual(self.env_of("ORIEL_NODE", *split), ["node0"] * 2 + ["node1"] * 3)
        self.assertEqual(self.env_of("LOCAL_RANK", *split), ["0", "1", "0", "1", "2"])
        self.assertEqual(self.env_of("LOCAL_WORLD_SIZE", *split), ["2"] * 2 + ["3"] * 3)
        for ranks, nodes in ((1, 1), (7, 3), (8, 4), (9, 9), (10, 4)):
            names = self.env_of("ORIEL_NODE", "-n", ranks, "--nodes", nodes)
            sizes = [names.count(f"node{i}") for i in range(nodes)]
            self.assertEqual(sum(sizes), ranks)
            self.assertLessEqual(max(sizes) - min(sizes), 1)
            self.assertEqual(names, sorted(names))

    def test_the_key_is_random_unless_given(self):
        first, second = (self.env_of("ORIEL_JOB_KEY", "-n", 2) for _ in range(2))
        self.assertRegex(first[0], "^[0-9a-f]{64}$")
        self.assertEqual(first[0], first[1])
        self.assertNotEqual(first[0], second[0])
        self.assertEqual(self.env_of("ORIEL_JOB_KEY", "-n", 2, ORIEL_JOB_KEY="abcd"), ["abcd"] * 2)
        required, = self.env_of("ORIEL_JOB_KEY", "-n", 1, ORIEL_JOB_KEY="required")
        self.assertRegex(required, "^[0-9a-f]{64}$")

    def test_ranks_read_the_file_of_the_key_but_no_pipe(self):
        file = {"ORIEL_JOB_KEY_FILE": "/nowhere/key"}
        self.assertEqual(self.env_of("ORIEL_JOB_KEY", "-n", 2, **file), [None] * 2)
        self.assertEqual(self.env_of("ORIEL_JOB_KEY_FILE", "-n", 2, **file), ["/nowhere/key"] * 2)
        for name, expected in (("ORIEL_JOB_KEY", "c0ffee" * 8), ("ORIEL_JOB_KEY_FILE", None)):
            # One process can read the pipe: the launcher, for all ranks.
            ends = os.pipe()
            os.write(ends[1], b"c0ffee" * 8 + b"\n")
            os.close(ends[1])
            found = self.env_of(name, "-n", 2, inherit=(ends[0],),
                                ORIEL_JOB_KEY_FILE=f"fd:{ends[0]}")
            os.close(ends[0])
            self.assertEqual(found, [expected] * 2)

    def test_variables_of_an_outer_job_are_removed(self):
        outer = {"ORIEL_LISTEN_FD": "77", "ORIEL_PORT": "78", "RANK": "79", "MASTER_PORT": "80",
                 "TORCHELASTIC_USE_AGENT_STORE": "True"}
        self.assertEqual(self.env_of("ORIEL_LISTEN_FD", "-n", 2, **outer)[1], None)
        self.assertNotEqual(self.env_of("ORIEL_LISTEN_FD", "-n", 2, **outer)[0], "77")
        self.assertEqual(self.env_of("RANK", "-n", 2, **outer), ["0", "1"])
        self.assertNotIn("80", self.env_of("MASTER_PORT", "-n", 2, **outer))
        self.assertEqual(self.env_of("ORIEL_LISTEN_FD", "-n", 2), [None] * 2)
        self.assertEqual(self.env_of("ORIEL_MEET", "-n", 2), ["unix"] * 2)
        self.assertEqual(self.env_of("ORIEL_MEET", "-n", 2, ORIEL_MEET="tcp"), ["tcp"] * 2)
        self.assertNotEqual(self.env_of("ORIEL_LISTEN_FD", "-n", 2, ORIEL_MEET="tcp")[0], None)
        for name in ("ORIEL_PORT", "TORCHELASTIC_USE_AGENT_STORE"):
            self.assertEqual(self.env_of(name, "-n", 2, **outer), [None] * 2)

    def test_concurrent_jobs_do_not_connect_to_each_other(self):
        # Without ORIEL_MEET the ranks of oriel run need no TCP port, and get no listener.
        jobs = [self.start("-n", 4, HELPER, "meet", env={"ORIEL_MEET": "tcp"}) for _ in range(8)]
        for job in jobs:
            out, err = job.communicate(timeout=DEADLINE)
            self.assertEqual((job.returncode, out, err), (0, b"[0] all have met\n", b""))

    # Other hosts, without an ssh: hosts/ssh_* have one

    def ssh(self, script):
        """A command in the place of ssh, whose first argument is the host."""
        path = f"{self.folder()}/ssh"
        with open(path, "w", encoding="utf-8") as stub:
            stub.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        return path

    def folder(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name

    def test_hosts_are_given_to_ssh(self):
        path = self.ssh('echo "$*" >> "$0.log"; exec sleep 1000')
        log = path + ".log"
        job = self.start("--hosts", "a,b-1.c:2,me@d:3,[::1]:4,you@[fe80::2%eth0]", "true",
                         env={"ORIEL_SSH": path + " -p 22"})
        until(lambda: os.path.exists(log) and pathlib.Path(log).read_text().count("\n") == 5)
        job.send_signal(signal.SIGTERM)
        code, _, _ = self.finish(job)
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertEqual(sorted(pathlib.Path(log).read_text().splitlines()),
                         sorted(f"-p 22 {host} exec '{os.path.realpath(ORIEL)}' run --agent"
                                for host in ("a", "b-1.c", "me@d", "::1", "you@fe80::2%eth0")))

    def on_hosts(self, script, *words, hosts="a:2,b:2", **env):
        return self.run_job("--hosts", hosts, *words,
                            env={"ORIEL_SSH": self.ssh(script), "MASTER_ADDR": "localhost"} | env)

    def test_what_ssh_prints_has_the_name_of_the_host(self):
        code, out, err = self.on_hosts('[ $1 = a ] && exec sleep 1000; echo no; echo way >&2; exit 9',
                                       "true")
        self.assertEqual((code, out), (1, b""))
        self.assertEqual(sorted(err.splitlines()),
                         ["b: no", "b: way",
                          "oriel run: host b has not started ranks 2-3: ssh exited with code 9"])

    def test_lines_of_a_login_script_do_not_disturb(self):
        code, out, err = self.on_hosts('echo welcome to $1; shift; exec sh -c "$*"', HELPER, "env",
                                       "RANK")
        self.assertEqual((code, sorted(err.splitlines())), (0, ["a: welcome to a", "b: welcome to b"]))
        self.assertEqual(sorted(out.splitlines()), [b"[%d] RANK=%d" % (i, i) for i in range(4)])

    AGENT = 'shift; exec sh -c "$*"'

    def test_bytes_and_lines_of_other_hosts_are_unchanged(self):
        raw = bytes(range(256)) * 10
        code, out, _ = self.on_hosts(self.AGENT, "--no-prefix", HELPER, "raw", hosts="a")
        self.assertEqual((code, out), (0, raw))
        code, out, _ = self.on_hosts(self.AGENT, HELPER, "flood", 5000)
        lines = collections.defaultdict(list)
        for line in out.decode().splitlines():
            rank, _, text = line.partition(" ")
            lines[rank].append(text)
        expected = [f"{i}:{i:0{1 + i % 300}d}" for i in range(5000)]
        self.assertEqual(code, 0)
        self.assertEqual(dict(lines), {f"[{i}]": expected for i in range(4)})

    def test_where_ranks_of_other_hosts_meet(self):
        def meet(**env):
            script = 'echo $MASTER_ADDR $MASTER_PORT $ORIEL_MEET${ORIEL_LISTEN_FD:+inherited}'
            code, out, err = self.run_job("--hosts", "me@a,b", "--no-prefix", "sh", "-c", script,
                                          env={"ORIEL_SSH": self.ssh(self.AGENT)} | env)
            self.assertEqual((code, err), (0, ""))
            lines = sorted(out.decode().splitlines(), key=len)
            self.assertEqual(lines[1], lines[0] + "inherited")
            return lines[0].split()

        self.assertRegex(" ".join(meet()), r"^a \d+ tcp$")
        self.assertEqual(meet(MASTER_ADDR="::1", MASTER_PORT="20021"), ["::1", "20021", "tcp"])
        outer = {"RANK": "0", "MASTER_ADDR": "c", "MASTER_PORT": "20022", "ORIEL_MEET": "unix"}
        self.assertRegex(" ".join(meet(**outer)), r"^a (?!20022)\d+ tcp$")
        for port in "0", "65536", "x":
            code, _, err = self.run_job("--hosts", "a", "true", env={"MASTER_PORT": port})
            self.assertEqual((code, err), (2, f"oriel run: MASTER_PORT is '{port}', but it may be "
                                              "1 to 65535\n"))

    def test_named_variables_reach_ranks_of_other_hosts(self):
        def seen(*options):
            script = 'echo "$GIVEN_A/$GIVEN_B/$ORIEL_X"'
            return self.run_job("--hosts", "a,b", "--no-prefix", *options, "sh", "-c", script,
                                env={"GIVEN_A": "one = two", "GIVEN_B": "three", "ORIEL_X": "x",
                                     "ORIEL_SSH": self.ssh("unset GIVEN_A GIVEN_B; " + self.AGENT)})

        self.assertEqual(seen(), (0, b"//x\n" * 2, ""))
        self.assertEqual(seen("-x", "GIVEN_A"), (0, b"one = two//x\n" * 2, ""))
        self.assertEqual(seen("-x", "GIVEN_B", "-x", "GIVEN_A", "-x", "GIVEN_A"),
                         (0, b"one = two/three/x\n" * 2, ""))
        for name, why in (("GIVEN_C", "-x GIVEN_C: this environment has no such variable"),
                          ("A=b", "-x takes the name of a variable, .*, not 'A=b'"),
                          ("", "-x takes the name of a variable, .*, not ''"),
                          ("RANK", "-x RANK: ranks get ORIEL_ variables and those of the job"),
                          ("ORIEL_X", "-x ORIEL_X: ranks get ORIEL_ variables")):
            code, out, err = seen("-x", name)
            self.assertEqual((code, out), (2, b""))
            self.assertRegex(err, "oriel run: " + why)
        code, _, err = self.run_job("-n", 1, "-x", "PATH", "true")
        self.assertEqual(code, 2)
        self.assertIn("-x is for --hosts", err)

    def test_input_reaches_rank_0_of_another_host(self):
        given = b"".join(b"line %d\n" % i for i in range(50000))
        job = self.start("--hosts", "a:2", "--no-prefix", "sh", "-c", "[ $RANK = 1 ] || exec cat",
                         env={"ORIEL_SSH": self.ssh(self.AGENT)}, stdin=subprocess.PIPE)
        self.assertEqual(self.finish(job, given), (0, given, ""))

    def test_a_stalled_reader_of_other_hosts_delays_no_deadline(self):
        job = self.start("--hosts", "a:2", "--timeout", "1", "--grace", "0.1", "yes",
                         env={"ORIEL_SSH": self.ssh(self.AGENT)})
        time.sleep(2)
        out, err = job.communicate(timeout=DEADLINE)
        self.assertEqual(job.returncode, 124)
        self.assertIn(b"did not end within 1 s: ranks 0-1 still run", err)

    def test_children_that_keep_the_outputs_of_other_hosts_open(self):
        code, out, err = self.on_hosts(self.AGENT, HELPER, "orphan")
        self.assertEqual((code, sorted(out.splitlines()), err),
                         (0, [b"[%d] left" % i for i in range(4)], ""))

    def test_no_rank_survives_a_killed_ssh(self):
        # A process of its own, which is killed as a broken connection would end it.
        path = self.ssh('[ $1 = a ] && { shift; exec sh -c "$*"; }; echo $$ > "$0.pid"; shift; '
                        'mkfifo "$0.in"; sh -c "$*" < "$0.in" & exec cat > "$0.in"')
        job = self.start("--hosts", "a,b", HELPER, "parent", env={"ORIEL_SSH": path})
        self.wait_ready(job, 2)
        with open(path + ".pid") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        code, _, err = self.finish(job)
        self.assertEqual(code, 1)
        self.assertIn("oriel run: the connection to host b (rank 1) broke: ssh exited with code 137",
                      err)

    def test_a_stop_on_another_host_is_reported(self):
        job = self.start("--hosts", "a,b", HELPER, "wait", env={"ORIEL_SSH": self.ssh(self.AGENT)})
        self.stop_and_go_on(job, "rank [01] on [ab]")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(job)[0], 128 + signal.SIGTERM)

    def test_a_missing_ssh_is_named(self):
        for env, text in (({"ORIEL_SSH": "/no/ssh -x"}, "cannot run '/no/ssh -x' (ORIEL_SSH) for host a"),
                          ({"PATH": "/no"}, "cannot run ssh for host a"),
                          ({"ORIEL_SSH": " "}, "cannot run ' ' (ORIEL_SSH)")):
            code, out, err = self.run_job("--hosts", "a", "true", env=env)
            self.assertEqual((code, out), (1 if env == {"ORIEL_SSH": " "} else 127, b""))
            self.assertIn(text, err)

    def test_an_agent_without_a_launcher_explains_itself(self):
        done = subprocess.run([ORIEL, "run", "--agent"], input=b"x" * 100, capture_output=True,
                              env=tool.environment(), timeout=DEADLINE)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"oriel run --agent is what `oriel run --hosts` starts on a host", done.stderr)

    def test_an_agent_that_sends_nonsense_is_named(self):
        path = self.ssh("printf '\\001oriel agent 1\\nnonsense of sixteen bytes'; exec cat")
        code, _, err = self.run_job("--hosts", "a", "true", env={"ORIEL_SSH": path})
        self.assertEqual((code, err), (1, "oriel run: host a sends something else than "
                                          "`oriel run --agent`\n"))

    # The command line

    def test_bad_usage(self):
        for arguments, text in (
                ((), "the number of ranks is missing"),
                (("true",), "the number of ranks is missing"),
                (("-n", "2"), "the program is missing"),
                (("-n", "2", "--"), "the program is missing"),
                (("-n", "2", ""), "the program is missing"),
                (("-n", "0", "true"), "not '0'"),
                (("-n", "4097", "true"), "not '4097'"),
                (("-n", "two", "true"), "not 'two'"),
                (("-n", "-1", "true"), "not '-1'"),
                (("-n", " 1", "true"), "not ' 1'"),
                (("-n", "1x", "true"), "not '1x'"),
                (("-n", "", "true"), "not ''"),
                (("-n", "99999999999999999999", "true"), "not '9999"),
                (("-n", "2", "--nodes", "3", "true"), "more nodes than ranks"),
                (("-n", "2", "--nodes", "0", "true"), "--nodes takes"),
                (("-n", "2", "--timeout", "soon", "true"), "--timeout takes"),
                (("-n", "2", "--timeout", "-1", "true"), "--timeout takes"),
                (("-n", "2", "--timeout", ".", "true"), "--timeout takes"),
                (("-n", "2", "--grace", "1.2.3", "true"), "--grace takes"),
                (("-n", "2", "--colour", "true"), "unrecognized option '--colour'"),
                (("--hosts", "a", "-n", "2", "true"), "--hosts has the ranks of each host: give no -n"),
                (("--hosts", "a", "--nodes", "2", "true"), "and no --nodes"),
                (("--hosts", "a"), "the program is missing"),
                (("--hosts", "", "true"), "--hosts has ''"),
                (("--hosts", "a,,b", "true"), "--hosts has ''"),
                (("--hosts", "a,b:0", "true"), "--hosts has 'b:0'"),
                (("--hosts", "a:4097", "true"), "--hosts has 'a:4097'"),
                (("--hosts", "a:2x", "true"), "--hosts has 'a:2x'"),
                (("--hosts", "a:", "true"), "--hosts has 'a:'"),
                (("--hosts", "-oProxyCommand=x", "true"), "--hosts has '-oProxyCommand=x'"),
                (("--hosts", "x@-a", "true"), "--hosts has 'x@-a'"),
                (("--hosts", "@a", "true"), "--hosts has '@a'"),
                (("--hosts", "a b", "true"), "--hosts has 'a b'"),
                (("--hosts", "$(x)", "true"), "--hosts has '$(x)'"),
                (("--hosts", "fe80::1", "true"), "--hosts has 'fe80::1'"),
                (("--hosts", "[fe80::1", "true"), "--hosts has '[fe80::1'"),
                (("--hosts", "[fe80::1]2", "true"), "--hosts has '[fe80::1]2'"),
                (("--hosts", "a:2,x@a", "true"), "--hosts has a twice"),
                (("--hosts", "a:4096,b", "true"), "--hosts has more than 4096 ranks"),
                (("--agent", "true"), "--agent takes no program"),
                (("-n",), "requires an argument")):
            with self.subTest(arguments):
                code, out, err = self.run_job(*arguments)
                self.assertEqual((code, out), (2, b""))
                self.assertIn(text, err)
                self.assertTrue(err.startswith("oriel run: "))

    def test_arguments_of_the_program_are_not_parsed(self):
        code, out, _ = self.run_job("-n", "1", "echo", "-n", "--nodes", "--", "x")
        self.assertEqual((code, out), (0, b"[0] --nodes -- x"))

    def oriel(self, *arguments):
        done = subprocess.run([ORIEL, *arguments], capture_output=True, text=True,
                              timeout=DEADLINE, env=tool.environment())
        return done.returncode, done.stdout, done.stderr

    def test_help(self):
        for arguments in (("--help",), ("help",), ("-h",)):
            code, out, err = self.oriel(*arguments)
            self.assertEqual((code, err), (0, ""))
            for name in ("run", "info"):
                self.assertRegex(out, rf"(?m)^  {name} ")
        for arguments in (("help", "run"), ("run", "--help"), ("run", "-h")):
            code, out, err = self.oriel(*arguments)
            self.assertEqual((code, err), (0, ""))
            self.assertTrue(out.startswith("usage: oriel run -n N"))
        self.assertTrue(self.oriel("help", "info")[1].startswith("usage: oriel info"))

    def test_version(self):
        code, out, _ = self.oriel("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^oriel \d+\.\d+\.\d+ \(.*\)\n$")

    def test_an_unknown_command_prints_the_list(self):
        for arguments in (("walk",), ("help", "walk")):
            code, out, err = self.oriel(*arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("unknown command 'walk'", err)
            self.assertRegex(err, r"(?m)^  run ")
        self.assertEqual(self.oriel()[0], 2)


if __name__ == "__main__":
    ORIEL, HELPER = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
