#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How jobs begin beside each other: job_test.py ORIEL JOB_HELPER [TEST...]"""

import os
import re
import subprocess
import sys
import unittest

ORIEL = HELPER = None
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else
# What a launcher around these tests might have set.
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|SLURM_|PMIX_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")


def environment(**more):
    ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    return ours | more


class Job(unittest.TestCase):
    def start(self, *command, **env):
        job = subprocess.Popen([*map(str, command)], env=environment(**env), text=True,
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

    def test_the_same_ranks_open_job_after_job(self):
        self.assertEqual(self.run_job(4, "rounds"),
                         (0, [f"[{rank}] all rounds" for rank in range(4)], ""))

    def test_a_job_beside_an_open_one_is_refused_on_all_ranks(self):
        code, out, err = self.run_job(3, "both")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(out), 3)
        for rank, line in enumerate(out):
            self.assertRegex(line, rf"\[{rank}\] second: ORIEL_ERR_STATE: this process has a "
                             rf"bootstrap open as rank {rank} of the job at port \d+: close that")


if __name__ == "__main__":
    ORIEL, HELPER = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
