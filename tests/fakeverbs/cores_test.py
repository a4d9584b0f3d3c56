#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How ranks share cores with the threads that post for them: cores_test.py CONFORMANCE FAKEVERBS-FOLDER"""

import os
import re
import subprocess
import sys
import unittest

DEADLINE = 200
CROWDED, ROOMY = "ranks share CPUs", "a CPU for each rank"


class Cores(unittest.TestCase):
    def verdict(self, hca, cores):
        """How the log rates two ranks, each on a node of its own, that share @cores CPUs."""
        mine = sorted(os.sched_getaffinity(0))
        if len(mine) < cores:
            self.skipTest(f"there are not {cores} CPUs")
        done = subprocess.run(
            [CONFORMANCE, "--threads", "2", "--nodes", "2", "topo/self_is_self"], text=True, timeout=DEADLINE,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.sched_setaffinity(0, mine[:cores]),
            env=os.environ | {"LD_LIBRARY_PATH": FAKE, "ORIEL_HCA": hca, "ORIEL_LOG": "info"})
        self.assertEqual(done.returncode, 0, done.stdout)
        logged = set(re.findall(f"domain of 1, ({CROWDED}|{ROOMY})", done.stdout))
        self.assertEqual(len(logged), 1, done.stdout)
        return logged.pop()

    def test_a_software_hca_needs_a_core_beside_its_rank(self):
        self.assertEqual(self.verdict("soft", 2), CROWDED)

    def test_a_proxy_that_ranks_help_needs_no_core(self):
        self.assertEqual(self.verdict("verbs", 2), ROOMY)

    def test_two_ranks_share_one_core(self):
        self.assertEqual(self.verdict("verbs", 1), CROWDED)


if __name__ == "__main__":
    CONFORMANCE, FAKE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
