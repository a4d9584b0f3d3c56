#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ssh_test.py ORIEL CONFORMANCE: `oriel run --hosts` by real ssh, on hosts made of namespaces.

Exits with 77 where the kernel allows no namespaces, or there is no sshd.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import uuid

import lab
import sshd

ORIEL, CONFORMANCE = map(os.path.abspath, sys.argv[1:3])
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else


def until(claim, otherwise):
    end = time.monotonic() + DEADLINE
    while not claim():
        if time.monotonic() > end:
            raise AssertionError(otherwise)
        time.sleep(0.05)


def processes(pattern, file="cmdline"):
    """Those whose command line, or other file of /proc, has the bytes; pid to the file."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = pathlib.Path(f"/proc/{pid}/{file}").read_bytes()
        except OSError:
            continue
        if pattern in text:
            found[int(pid)] = text
    return found


class Ssh(unittest.TestCase):
    def setUp(self):
        # A word in the command line of each rank, by which its processes are found.
        self.mark = f"mark-{uuid.uuid4().hex}"
        made = lab.Lab(2)
        self.addCleanup(made.close)
        self.hosts = made.hosts
        self.sshd = sshd.Sshd(made.hosts)
        self.addCleanup(self.sshd.close)

    def two(self, ranks=2):
        return ",".join(f"{host.address()}:{ranks}" for host in self.hosts)

    def start(self, *words, oriel=ORIEL, hosts=None, stdin=subprocess.DEVNULL, **env):
        """The launcher, on the first host."""
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        ours |= {"ORIEL_SSH": self.sshd.command, "ORIEL_HCA": "soft", "ORIEL_TIMEOUT": "60"} | env
        return self.hosts[0].start([oriel, "run", "--hosts", hosts or self.two(), *words], ours,
                                   stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, job, given=None):
        out, err = job.communicate(given, timeout=DEADLINE)
        return job.returncode, out, err

    def run_job(self, *words, **more):
        return self.finish(self.start(*words, **more))

    def shell(self, script):
        return "sh", "-c", script, self.mark

    def until_nothing_is_left(self):
        until(lambda: not processes(self.mark.encode()), "processes survived the job")

    def wait_ready(self, job, ranks=4):
        lines = sorted(job.stdout.readline() for _ in range(ranks))
        self.assertEqual(lines, [f"[{rank}] ready\n" for rank in range(ranks)], lines)

    def test_a_program_runs(self):
        script = ('echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $(hostname) '
                  '$PWD $ORIEL_X${ORIEL_SSH-} $GIVEN${LOCAL-}; [ $RANK = 0 ] && cat; true')
        code, out, err = self.finish(self.start("-x", "GIVEN", *self.shell(script), hosts=self.two(3),
                                                stdin=subprocess.PIPE, ORIEL_X="x y", GIVEN="z",
                                                LOCAL="here"),
                                     "one\ntwo\n")
        self.assertEqual((code, err), (0, ""))
        master = self.hosts[0].address()
        expected = [f"[{rank}] {rank} 6 {rank % 3} 3 {master} host{rank // 3 + 1} {os.getcwd()} x y z\n"
                    for rank in range(6)]
        self.assertEqual(sorted(out.splitlines(keepends=True)),
                         sorted([*expected, "[0] one\n", "[0] two\n"]))

    def test_ranks_of_both_hosts_meet(self):
        code, out, err = self.run_job(CONFORMANCE, "data/put", "barrier/groups", "split/")
        self.assertEqual(code, 0, out + err)
        self.assertRegex(out, r"\[0\] .*[1-9]\d* cases passed, 0 failed")

    def test_hosts_may_be_ipv6_and_have_a_user(self):
        hosts = ",".join(f"root@[{host.address(family=6)}]:2" for host in self.hosts)
        code, out, err = self.run_job(CONFORMANCE, "signal/every", hosts=hosts, ORIEL_FAMILY="ipv6")
        self.assertEqual(code, 0, out + err)
        self.assertRegex(out, r"[1-9]\d* cases passed, 0 failed")

    def test_the_user_may_choose_the_address_and_the_port(self):
        name = self.hosts[0].address(switch=1)
        code, out, err = self.run_job(*self.shell("echo $MASTER_ADDR $MASTER_PORT"),
                                      MASTER_ADDR=name, MASTER_PORT="29511")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()),
                         [f"[{rank}] {name} 29511" for rank in range(4)])
        code, out, err = self.run_job(CONFORMANCE, "signal/every", MASTER_ADDR=name, MASTER_PORT="29512")
        self.assertEqual(code, 0, out + err)

    def test_a_rank_that_fails_is_named_with_its_host(self):
        other = self.hosts[1].address()
        job = self.start(*self.shell('if [ $RANK = 3 ]; then read x; exit 7; fi; echo ready; '
                                     'exec sleep 1000'))
        code, _, err = self.finish(job)
        self.assertEqual((code, err), (7, f"oriel run: rank 3 on {other} exited with code 7\n"))
        self.until_nothing_is_left()
        code, _, err = self.run_job(*self.shell('[ $RANK = 2 ] && kill -SEGV $$; exec sleep 1000'))
        self.assertEqual(code, 128 + signal.SIGSEGV)
        self.assertRegex(err, rf"^oriel run: rank 2 on {re.escape(other)} was killed by SIGSEGV")
        self.until_nothing_is_left()

    def test_a_host_that_is_cut_is_named_and_all_ends(self):
        job = self.start(*self.shell('echo ready; while :; do sleep 1; done'))
        self.wait_ready(job)
        begun = time.monotonic()
        self.hosts[1].set_link(False)
        code, _, err = self.finish(job)
        self.assertEqual(code, 1, err)
        self.assertIn(f"host {self.hosts[1].address()} (ranks 2-3) has not answered for 20 s", err)
        # 20 s without an answer, after up to 5 s to the next ping, and 3 s of grace.
        self.assertLess(time.monotonic() - begun, 60)
        # The agent there hears nothing for 60 s, and kills its ranks.
        self.until_nothing_is_left()

    def test_an_interrupt_leaves_no_process(self):
        for number, script in ((signal.SIGINT, 'echo ready; while :; do sleep 1; done'),
                               (signal.SIGTERM, 'sleep 1000 & echo ready; wait'),
                               (signal.SIGKILL, 'trap "" TERM HUP; echo ready; while :; do sleep 1; done')):
            with self.subTest(number):
                job = self.start(*self.shell(script))
                self.wait_ready(job)
                self.assertGreaterEqual(len(processes(self.mark.encode())), 4)
                job.send_signal(number)
                code, _, err = self.finish(job)
                self.assertEqual(code, -number if number == signal.SIGKILL else 128 + number, err)
                self.until_nothing_is_left()
                until(lambda: not processes(b"run\0--agent\0"), "an agent is left")

    def test_signals_and_stops_reach_the_hosts(self):
        # No command in the loop: a shell whose child is stopped between vfork() and exec() is not stopped, but waits.
        job = self.start(*self.shell('trap "echo usr1" USR1; (trap "" USR1; exec sleep 1000) & echo ready; '
                                     'while :; do wait; done'))
        self.wait_ready(job)
        job.send_signal(signal.SIGUSR1)
        self.assertEqual(sorted(job.stdout.readline() for _ in range(4)),
                         [f"[{rank}] usr1\n" for rank in range(4)])
        stopped = lambda: all(b"State:\tT" in text for text in self.statuses())
        job.send_signal(signal.SIGTSTP)
        until(stopped, "SIGTSTP does not stop all ranks")
        job.send_signal(signal.SIGCONT)
        until(lambda: not stopped(), "SIGCONT does not continue")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(job)[0], 128 + signal.SIGTERM)

    def statuses(self):
        return [pathlib.Path(f"/proc/{pid}/status").read_bytes()
                for pid, text in processes(self.mark.encode()).items() if text.startswith(b"sh\0")]

    def test_the_key_is_in_no_command_line_and_not_given_to_ssh(self):
        for given in (uuid.uuid4().hex * 2, None):
            env = {"ORIEL_JOB_KEY": given} if given else {}
            job = self.start(*self.shell('echo $ORIEL_JOB_KEY; exec sleep 1000'), **env)
            keys = {job.stdout.readline().split()[1] for _ in range(4)}
            self.assertEqual(len(keys), 1)
            key = keys.pop().encode()
            if given:
                self.assertEqual(key, given.encode())
            # The ranks have it, or the search would find nothing anywhere.
            until(lambda: len(set(processes(b"sleep\0001000")) & set(processes(key, "environ"))) == 4,
                  "not all ranks have the key and sleep")
            self.assertEqual(processes(key), {})
            ssh = processes(self.sshd.command.encode().replace(b" ", b"\0"))
            self.assertEqual(len(ssh), 2)
            with_key = processes(key, "environ")
            self.assertFalse(set(ssh) & set(with_key))
            job.send_signal(signal.SIGTERM)
            self.finish(job)

    def test_a_host_that_cannot_be_reached_is_named(self):
        code, out, err = self.run_job(*self.shell("exec sleep 1000"),
                                      hosts=self.two() + ",10.77.0.9")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("oriel run: host 10.77.0.9 cannot be reached: ssh exited with code 255", err)
        self.assertIn("10.77.0.9: ssh: connect to host 10.77.0.9 port 22: No route to host", err)
        self.until_nothing_is_left()

    def test_a_host_without_the_tool_is_named(self):
        # Each host has a /dev/shm of its own.
        holder = self.hosts[0].holder.pid
        copy = "/dev/shm/oriel"
        shutil.copy(ORIEL, f"/proc/{holder}/root{copy}")
        code, out, err = self.run_job(*self.shell("exec sleep 1000"), oriel=copy)
        self.assertEqual((code, out), (127, ""))
        self.assertIn(f"host {self.hosts[1].address()} has no {copy}", err)
        self.until_nothing_is_left()

    def test_a_folder_or_program_that_is_missing_is_named(self):
        code, _, err = self.run_job("./no-such-program")
        self.assertEqual(code, 127)
        self.assertRegex(err, r"10\.77\.0\.\d: oriel run: cannot run './no-such-program': No such file")
        self.assertRegex(err, r"oriel run: host 10\.77\.0\.\d has not started ranks [02]-[13]")


if __name__ == "__main__":
    try:
        if sshd.why_not():
            raise OSError(sshd.why_not())
        lab.enter()
    except OSError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
