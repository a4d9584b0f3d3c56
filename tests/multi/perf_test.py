#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report of `oriel perf`, not the speed it reports: perf_test.py ORIEL [TEST...]"""

import json
import os
import re
import subprocess
import sys
import unittest

ORIEL = None
DEADLINE = 300
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
SHORT = ("--iters", "5", "--reps", "1")


def oriel(*arguments, **env):
    ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    done = subprocess.run([ORIEL, *arguments], capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL, env=ours | env)
    return done.returncode, done.stdout, done.stderr


class Perf(unittest.TestCase):
    def rows(self, *arguments, **env):
        code, out, err = oriel("perf", *arguments, *SHORT, "--json", **env)
        self.assertEqual((code, err), (0, ""))
        return [json.loads(line) for line in out.splitlines()]

    def paths(self, *arguments, **env):
        return {(row["test"], row["path"]) for row in self.rows(*arguments, **env)}

    def fails(self, pattern, *arguments, **env):
        code, out, err = oriel("perf", *arguments, *SHORT, **env)
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, pattern)

    def test_each_row_names_its_path(self):
        tests = ("memcpy", "put_flush", "barrier", "--sizes", "8")
        self.assertEqual(self.paths(*tests), {("memcpy", "self"), ("put_flush", "mapped"),
                                              ("barrier", "mapped")})
        self.assertEqual(self.paths(*tests, "--nodes", "2"),
                         {("memcpy", "self"), ("put_flush", "rdma[soft]"),
                          ("barrier", "rdma[soft]")})
        self.assertEqual(self.paths(*tests, "-n", "4", "--nodes", "2"),
                         {("memcpy", "self"), ("put_flush", "mapped"),
                          ("barrier", "mapped+rdma[soft]")})

    def test_the_table_names_the_software_hca(self):
        code, out, _ = oriel("perf", "put_flush", "--sizes", "8", "--nodes", "2", *SHORT)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^# rdma is the software HCA, for development and tests")
        self.assertRegex(out, r"(?m)^put_flush +origin +rdma\[soft\] +8 ")
        code, out, _ = oriel("perf", "put_flush", "--sizes", "8", *SHORT)
        self.assertEqual(code, 0)
        self.assertNotIn("software", out)

    def test_the_command_of_a_row_reproduces_it(self):
        row, = self.rows("put_flush", "--sizes", "8", "--nodes", "2", ORIEL_SOFT_HCA="mtu=512")
        self.assertRegex(row["command"], r"^ORIEL_SOFT_HCA=mtu=512 oriel run -n 2 --nodes 2 "
                                         r"oriel perf .*put_flush")
        self.assertNotIn("KEY", row["command"])

    def test_a_case_that_a_path_does_not_allow_is_skipped_and_named(self):
        code, out, _ = oriel("perf", "store_flag", "atomic_rate", "wqe_rate", "--sizes", "8",
                             "--nodes", "2", *SHORT)
        self.assertEqual(code, 0)
        self.assertIn("\n# skipped, not for this path: store_flag, fetch_add contended\n", out)
        self.assertRegex(out, r"(?m)^fetch_add +uncontended ")
        self.assertNotRegex(out, r"(?m)^(store_flag|fetch_add +contended)")
        self.fails("the path mapped has no wqe_rate\n", "wqe_rate")
        self.fails("the path rdma has no store_flag\n", "store_flag", "--nodes", "2")

    def test_posts_are_measured_one_by_one_in_batches_and_by_a_team(self):
        modes = [f"{count} a post" for count in (1, 2, 4, 8, 16, 32)] + ["cooperative"]
        for threads, group in ((1, "thread"), (3, "team:3")):
            rows = self.rows("wqe_rate", "--nodes", "2", "--group", group, ORIEL_SOFT_HCA="sink=1")
            self.assertEqual([row["mode"] for row in rows], modes)
            self.assertEqual({(row["path"], row["threads"]) for row in rows},
                             {("rdma[sink]", threads)})
            for row in rows:
                self.assertGreater(row["median_us"], 0)

    def test_a_sink_measures_only_posts(self):
        for tests in (("put_flush",), ("wqe_rate", "put_flush"), ("wqe_rate", "--check")):
            self.fails("a sink, which discards data", *tests, "--nodes", "2", ORIEL_SOFT_HCA="sink=1")

    def test_counters_are_reported_beside_tickets(self):
        for nodes in ((), ("--nodes", "2")):
            rows = self.rows("counter", "--check", *nodes)
            self.assertEqual([(row["test"], row["bytes"]) for row in rows],
                             [(test, size) for test in ("put_local", "put_counter")
                              for size in (8, 64, 512, 4096, 65536)])


if __name__ == "__main__":
    ORIEL = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
