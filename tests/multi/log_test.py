#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lines of the log (docs/logging.md): log_test.py ORIEL LOG_HELPER [TEST...]"""

import collections
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

import tool

ORIEL = HELPER = None
DEADLINE = 200
LINE = re.compile(r"oriel: (error|warn|info|debug): (?:(\S+Z) )?(?:rank (\d+): )?(.*)$")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
# The first words of lines of rank 0, for a job on one node.
ALONE = ["version", "bootstrap", "host", "memory", "limits", "job", "algorithm"]

Line = collections.namedtuple("Line", "level time rank text")


def environment(env):
    return tool.environment(**{"ORIEL_HCA": "soft", "ORIEL_TUNE": "off"} | env)


def run(command, **env):
    """(exit code, standard output, lines of standard error)"""
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL, env=environment(env))
    return done.returncode, done.stdout, done.stderr.splitlines()


def words(lines, rank):
    """The first words of the lines of @rank, but those of settings."""
    return [line.text.split()[0].rstrip(":") for line in lines
            if line.rank == rank and not line.text.startswith("setting")]


def normal(line):
    """A line without what differs from run to run."""
    return line.level, line.rank, re.sub(r"0x[0-9a-f]+|@oriel-[0-9a-f]+|\d+|ORIEL_LOG=\w+", "N", line.text)


class Log(unittest.TestCase):
    def parse(self, err):
        lines = [LINE.match(line) for line in err]
        self.assertNotIn(None, lines, err)
        return [Line(m[1], m[2], m[3] and int(m[3]), m[4]) for m in lines]

    def lines(self, *command, **env):
        code, out, err = run(command, **({"ORIEL_LOG": "info"} | env))
        self.assertEqual((code, out), (0, ""), err)
        return self.parse(err)

    def of_job(self, ranks, *options, program=None, **env):
        return self.lines(ORIEL, "run", "-n", str(ranks), *options, "--no-prefix", "--no-pty", "--",
                          *(program or [HELPER]), **env)

    def text(self, lines, word, rank=0):
        texts = [line.text for line in lines if line.rank == rank and line.text.startswith(word)]
        self.assertEqual(len(texts), 1, lines)
        return texts[0]

    def settings(self, lines, rank):
        return sorted(line.text for line in lines if line.rank == rank and line.text.startswith("setting"))

    def test_without_a_level_nothing_is_logged(self):
        self.assertEqual(self.of_job(2, "--nodes", "2", ORIEL_LOG="warn"), [])

    def test_one_rank(self):
        lines = self.lines(HELPER)
        self.assertEqual(words(lines, 0), ALONE)
        self.assertEqual({line.level for line in lines}, {"info"})
        self.assertRegex(self.text(lines, "version"), r"^version \d+\.\d+\.\d+ \(commit \S+\)$")
        self.assertEqual(self.text(lines, "bootstrap"), "bootstrap: local, since RANK, WORLD_SIZE, MASTER_ADDR and "
                                                        "MASTER_PORT are not set, and no launcher is found: this "
                                                        "process alone")
        self.assertRegex(self.text(lines, "job"), "^job of 1 rank: domain of 1, a CPU for each rank; ")
        self.assertEqual(self.settings(lines, 0), ["setting ORIEL_HCA=soft (environment)",
                                                   "setting ORIEL_LOG=info (environment)",
                                                   "setting ORIEL_TUNE=off (environment)"])

    def test_rank_0_logs_what_all_ranks_share(self):
        lines = self.of_job(4)
        self.assertEqual(words(lines, 0), ALONE[:5] + ["path"] + ALONE[5:])
        for rank in 1, 2, 3:
            self.assertEqual([line.text.split(",")[0] for line in lines if line.rank == rank],
                             [f"host {socket.gethostname()[:63]}"])
        self.assertRegex(self.text(lines, "bootstrap"),
                         r"^bootstrap: env, since RANK is set: rank 0 of 4 listens at unix socket @oriel-[0-9a-f]{32} "
                         r"\(ORIEL_MEET is 'unix'\), with a job key$")
        self.assertEqual(self.text(lines, "path"), "path mapped to 3 peers, such as rank 1: mapped: same machine")
        self.assertRegex(self.text(lines, "limits"), r"^limits: waits 600 s, .*open files \d+")
        self.assertEqual(self.text(lines, "algorithm"),
                         "algorithm of all-gather in host memory: ll to 256 bytes, store to 16384 bytes "
                         "(by the library's table: there is no table of the user)")

    def test_nodes_and_the_path_between_them(self):
        lines = self.of_job(4, "--nodes", "2")
        self.assertEqual(words(lines, 0), ALONE[:5] + ["path", "path", "NIC"] + ALONE[5:])
        paths = [line.text for line in lines if line.text.startswith("path")]
        self.assertEqual(paths, [
            "path mapped to 1 peer, such as rank 1: mapped: same machine",
            "path rdma to 2 peers, such as rank 2: mapped: different virtual nodes (ORIEL_NODE "
            '"node0", "node1"); rdma: software HCAs on both'])
        self.assertRegex(self.text(lines, "NIC"), r"^NIC soft0: software HCA, for development and tests: no NIC is "
                                                  r"used \(ORIEL_HCA is soft\), MTU 4096, queue depth 1024 \(<= \d+\), .*, "
                                                  "posted to by callers$")
        self.assertEqual(self.settings(lines, 1), [])
        for rank in 2, 3:
            self.assertEqual(self.settings(lines, rank), ["setting ORIEL_NODE=node1 (environment)"])
            self.assertEqual(words(lines, rank), ["host"])
            self.assertIn('node "node1"', self.text(lines, "host", rank))

    def test_a_rank_with_other_paths_logs_them(self):
        lines = self.of_job(3, "--nodes", "2")
        counts = [len([line for line in lines if line.rank == rank and line.text.startswith("path")])
                  for rank in range(3)]
        self.assertEqual(counts, [1, 2, 2])

    def test_a_rank_with_other_settings_and_limits_logs_them(self):
        odd = 'if [ "$RANK" = 2 ]; then export ORIEL_IB_TC=5; unset ORIEL_SOFT_HCA; ulimit -Sn 512; fi; exec "$0"'
        lines = self.of_job(4, "--nodes", "2", program=["sh", "-c", odd, HELPER],
                            ORIEL_SOFT_HCA="reads=4")
        self.assertEqual(self.settings(lines, 1), [])
        self.assertEqual(self.settings(lines, 2), ["setting ORIEL_IB_TC=5 (environment)",
                                                   "setting ORIEL_NODE=node1 (environment)",
                                                   "setting ORIEL_SOFT_HCA= (default)"])
        self.assertEqual(words(lines, 2), ["host", "limits", "NIC"])
        self.assertIn("open files 512", self.text(lines, "limits", 2))
        self.assertIn("max_rd_atomic <= 16,", self.text(lines, "NIC", 2))
        self.assertIn("max_rd_atomic <= 4,", self.text(lines, "NIC", 0))
        self.assertEqual(words(lines, 3), ["host"])

    def test_an_attribute_replaces_what_the_environment_says_of_the_order(self):
        lines = self.of_job(2, "--nodes", "2", program=[HELPER, "relaxed"], ORIEL_NET_ORDER="ordered")
        self.assertIn("setting ORIEL_NET_ORDER=relaxed (oriel_comm_attr)", self.settings(lines, 0))
        self.assertNotIn("ORIEL_NET_ORDER=ordered", "\n".join(line.text for line in lines))

    def test_every_line_is_documented(self):
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/logging.md")
        with open(page, encoding="utf-8") as file:
            table = re.findall(r"^\| (\w+) \| .* \| .* \| .* \|$", file.read(), re.MULTILINE)
        lines = self.of_job(4, "--nodes", "2")
        self.assertEqual({line.text.split()[0].rstrip(":") for line in lines}, set(table) - {"line"}, lines)

    def test_a_limit_that_is_none_is_infinite(self):
        lines = self.of_job(2, ORIEL_TIMEOUT="infinite")
        self.assertIn("setting ORIEL_TIMEOUT=infinite (environment)", self.settings(lines, 0))
        self.assertRegex(self.text(lines, "limits"), "^limits: waits infinite, late ranks named after 30 s")

    def test_a_secret_is_hidden(self):
        key = "0123456789abcdef" * 2
        code, _, err = run([ORIEL, "run", "-n", "2", HELPER], ORIEL_LOG="debug", ORIEL_JOB_KEY=key)
        self.assertEqual(code, 0)
        self.assertIn("setting ORIEL_JOB_KEY=(hidden) (environment)", "\n".join(err))
        self.assertNotIn(key, "\n".join(err))

    def test_threads_as_ranks(self):
        lines = self.lines(HELPER, "4")
        self.assertEqual(words(lines, 0), ALONE[:5] + ["path"] + ALONE[5:])
        self.assertEqual(self.text(lines, "bootstrap"), "bootstrap: 4 threads of this process")
        self.assertIn("mapped: same process", self.text(lines, "path"))
        for rank in 1, 2, 3:
            self.assertEqual(words(lines, rank), ["host"])

    def test_a_table_of_the_caller(self):
        lines = self.lines(HELPER, "2", "table")
        self.assertIn("bootstrap: a table of the caller", [line.text for line in lines if line.rank == 0])

    def test_debug_adds_lines_with_time_and_rank(self):
        for command in ([ORIEL, "run", "-n", "4", "--nodes", "2", "--no-prefix", "--no-pty", HELPER],
                        [HELPER, "4"], [HELPER]):
            info = self.lines(*command)
            debug = self.lines(*command, ORIEL_LOG="debug")
            self.assertEqual({line.time for line in info}, {None})
            for line in debug:
                self.assertRegex(line.time or "", TIME)
                self.assertIsNotNone(line.rank, line)
            of_info = collections.Counter(map(normal, info))
            of_debug = collections.Counter(map(normal, debug))
            self.assertEqual(of_info - of_debug, collections.Counter())
            self.assertEqual({key[0] for key in of_debug - of_info}, {"debug"})

    def test_debug_has_connections_and_registrations_of_each_rank(self):
        lines = self.of_job(4, "--nodes", "2", ORIEL_LOG="debug", ORIEL_CONNECT="eager")
        for rank, neighbour, others in (0, 1, (2, 3)), (3, 2, (0, 1)):
            texts = [line.text for line in lines if line.rank == rank]
            for other in others:
                self.assertEqual(texts.count(f"link to rank {other}, of rail 0, is connected"), 1)
            self.assertEqual(len([text for text in texts if re.match(
                f"connected to the unix socket of rank {neighbour}$|rank {neighbour} connects to its unix", text)]), 1)
            for pattern in (r"region of 65536 bytes at 0x\w+ is registered$",
                            r"registered 65536 bytes at 0x\w+ with 1 NIC, for this rank$",
                            r"window 1 is created: host memory, ", r"window 1 is destroyed$",
                            r"the communicator of 4 ranks is destroyed$"):
                self.assertEqual(len([text for text in texts if re.match(pattern, text)]), 1, pattern)

    def start(self, rank, port, log, level):
        return subprocess.Popen([HELPER], stdin=subprocess.DEVNULL, stderr=log, env=environment(
            {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
             "ORIEL_LOG": level}))

    def late_rank_0(self, level):
        """The lines of rank 1, which starts before rank 0."""
        with tempfile.TemporaryFile("w+") as log, socket.socket() as reserved:
            # Bound and not listening: connections to the port are refused until rank 0 listens.
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
            first = self.start(1, port, log, level)
            while level == "debug" and "tries again" not in os.pread(log.fileno(), 10000, 0).decode():
                self.assertIsNone(first.poll())
            reserved.close()
            second = self.start(0, port, subprocess.DEVNULL, level)
            self.assertEqual((first.wait(DEADLINE), second.wait(DEADLINE)), (0, 0))
            log.seek(0)
            return self.parse(log.read().splitlines())

    def test_attempts_are_lines_of_level_debug(self):
        lines = self.late_rank_0("debug")
        self.assertRegex(self.text(lines, "connecting to rank 0", 1),
                         r"at 127\.0\.0\.1:\d+: Connection refused; this rank tries again$")
        attempts = re.search(r"attempt (\d+)$", self.text(lines, "connected to rank 0 at", 1))
        self.assertGreater(int(attempts[1]), 1)
        self.assertEqual(words(self.late_rank_0("info"), 1), ["host"])

    def test_each_process_has_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = self.of_job(2, ORIEL_LOG_FILE=f"{folder}/log.%h.%p")
            self.assertEqual(lines, [])
            names = sorted(os.listdir(folder))
            self.assertEqual(len(names), 2)
            for name in names:
                self.assertRegex(name, rf"^log\.{re.escape(socket.gethostname())}\.\d+$")
                self.assertEqual(os.stat(f"{folder}/{name}").st_mode & 0o777, 0o600)
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    lines += self.parse(file.read().splitlines())
            self.assertEqual(words(lines, 0), ALONE[:5] + ["path"] + ALONE[5:])
            self.assertEqual(words(lines, 1), ["host"])

    def test_processes_share_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                self.assertEqual(self.of_job(2, ORIEL_LOG_FILE=f"{folder}/log"), [])
            with open(f"{folder}/log", encoding="utf-8") as file:
                lines = self.parse(file.read().splitlines())
        self.assertEqual(words(lines, 1), ["host", "host"])

    def test_a_file_that_cannot_be_opened_fails_the_job(self):
        code, out, err = run([HELPER], ORIEL_LOG_FILE="/dev/null/log")
        self.assertEqual((code, out), (1, "log_helper: ORIEL_ERR_CONFIG: ORIEL_LOG_FILE: cannot open "
                                          "'/dev/null/log': Not a directory\n"), err)
        code, out, _ = run([HELPER], ORIEL_LOG_FILE="log.%r")
        self.assertEqual(code, 1)
        self.assertIn("ORIEL_LOG_FILE is 'log.%r', but it may be the path of a file, with %h for the host, "
                      "%p for the process, %% for a percent sign", out)


if __name__ == "__main__":
    ORIEL, HELPER = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
