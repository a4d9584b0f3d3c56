#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""boot_test.py KILL_RANK [TEST...]: ranks that stop while a job without a limit joins. The others
end by ORIEL_HEARTBEAT, and name them; the events are lines of their logs."""
import os
import re
import signal
import socket
import subprocess
import sys
import unittest

RANK = None
FOREIGN = re.compile("ORIEL_|KILL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
DEADLINE = 100  # seconds after which a test has failed; it never decides anything else


class Boot(unittest.TestCase):
    def setUp(self):
        self.holder = socket.socket()
        self.holder.bind(("127.0.0.1", 0))
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.addCleanup(self.holder.close)

    def start(self, rank):
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        env = ours | {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
                      "MASTER_PORT": str(self.holder.getsockname()[1]), "ORIEL_HCA": "soft",
                      "ORIEL_TIMEOUT": "infinite", "ORIEL_HEARTBEAT": "3", "ORIEL_LOG": "debug"}
        process = subprocess.Popen([RANK, "comm_barrier", "9", "1", "0"], env=env, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def await_line(self, process, text):
        said = ""
        while line := process.stdout.readline():
            said += line
            if text in line:
                return
        self.fail(said)

    def check_end(self, process, culprit):
        said, _ = process.communicate(timeout=DEADLINE)
        self.assertRegex(said, rf"(?m)^END ORIEL_ERR_TIMEOUT join .*\brank {culprit}\b")

    def test_rank_0_stops_while_others_are_to_join(self):
        root, member = self.start(0), self.start(1)
        self.await_line(member, "rank 0 beats while others are to join")
        root.send_signal(signal.SIGSTOP)
        self.check_end(member, 0)

    def test_a_rank_stops_before_all_have_joined(self):
        root, victim = self.start(0), self.start(2)
        self.await_line(victim, "rank 0 beats while others are to join")
        victim.send_signal(signal.SIGSTOP)
        for process in (self.start(1), root):
            self.check_end(process, 2)


if __name__ == "__main__":
    RANK = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
