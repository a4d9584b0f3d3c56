#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training of examples/train.c has the same bits however it runs: train_test.py ORIEL TRAIN"""

import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import tool

ORIEL = TRAIN = None
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else


def command(ranks, steps, checkpoint=None, nodes=1):
    return [ORIEL, "run", "-n", str(ranks), "--nodes", str(nodes), TRAIN, str(steps),
            *([checkpoint] if checkpoint else [])]


class Train(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "checkpoint"

    def output(self, *arguments, **more):
        code, out, err = tool.run(command(*arguments, **more), DEADLINE, ORIEL_HCA="soft")
        self.assertEqual(code, 0, out + err)
        return out

    def digest(self, ranks, steps, *arguments, **more):
        out = self.output(ranks, steps, *arguments, **more)
        found = re.findall(rf"step {steps}: digest ([0-9a-f]{{16}})$", out, re.MULTILINE)
        self.assertEqual(len(found), 1, out)
        return found[0]

    def test_the_network_learns(self):
        losses = [float(loss) for loss in re.findall("loss ([0-9.]+)", self.output(2, 500))]
        self.assertEqual(len(losses), 50)
        self.assertLess(losses[-1], losses[0] / 20)

    def test_a_run_in_parts_has_the_bits_of_an_uninterrupted_one(self):
        right = self.digest(3, 96)
        for ends in ((32, 64, 96), (1, 6, 59, 60, 96)):
            for steps in ends:
                found = self.digest(3, steps, self.path)
            self.assertEqual(found, right, ends)
            self.path.unlink()
        self.assertNotEqual(self.digest(3, 95), right)

    def test_a_killed_job_continues_with_the_same_bits(self):
        with subprocess.Popen(command(2, 10**9, self.path), start_new_session=True,
                              stdout=subprocess.DEVNULL, env=tool.environment()) as job:
            end = time.monotonic() + DEADLINE
            while not self.path.exists() or self.steps_done() < 50:
                self.assertIsNone(job.poll())
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            os.killpg(job.pid, signal.SIGKILL)
        self.await_end_of_ranks()
        steps = self.steps_done() + 37
        self.assertEqual(self.digest(2, steps, self.path), self.digest(2, steps))

    def steps_done(self):
        return struct.unpack("I", self.path.read_bytes()[:4])[0]

    def await_end_of_ranks(self):
        """A rank of the killed job may outlive it by a moment, and write the checkpoint."""
        end = time.monotonic() + DEADLINE
        while any(self.is_rank(pid) for pid in filter(str.isdigit, os.listdir("/proc"))):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def is_rank(self, pid):
        try:
            return str(self.path).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def test_nodes_change_no_bit(self):
        right = self.digest(4, 60)
        self.assertEqual(self.digest(4, 60, nodes=2), right)
        self.assertEqual(self.digest(4, 60, nodes=4), right)


if __name__ == "__main__":
    ORIEL, TRAIN = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
