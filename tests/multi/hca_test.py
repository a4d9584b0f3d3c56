#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where ranks take the software HCA without being asked: hca_test.py ORIEL FIRST_PUT TWO_HOSTS [FAKEVERBS-FOLDER]

The fake libibverbs has two ports that are up, so that three rails find too few, as on a machine
without a NIC. Without it the library was built without libibverbs.
"""

import os
import re
import socket
import subprocess
import sys
import unittest

import tool

DEADLINE = 200
HOST = re.escape(socket.gethostname()[:31])


def job(ranks, *options, **env):
    """(exit codes of the ranks, standard output, lines of standard error) of a job of first_put."""
    # The launcher ends the ranks that remain when one fails, which may be before they report it.
    rank = ("sh", "-c", f'"{FIRST_PUT}"; echo code $?')
    done = subprocess.run([ORIEL, "run", "-n", str(ranks), *options, "--no-pty", "--timeout", "120", "--", *rank],
                          capture_output=True, text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL,
                          env=tool.environment(**{"ORIEL_RAILS": "3"} | FAKE | env))
    codes = [int(code) for code in re.findall(r"\] code (\d+)", done.stdout)]
    return codes, done.stdout, done.stderr.splitlines()


class Hca(unittest.TestCase):
    def works(self, ranks, *options, **env):
        codes, out, err = job(ranks, *options, **env)
        self.assertEqual(codes, [0] * ranks, err)
        self.assertEqual(len(re.findall("got: greetings", out)), ranks)
        return err

    def hosts(self, **env):
        done = subprocess.run([ORIEL, "run", "-n", "2", "--no-pty", "--no-prefix", "--timeout", "120", "--", TWO_HOSTS],
                              capture_output=True, text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL,
                              env=tool.environment(**{"ORIEL_RAILS": "3"} | FAKE | env))
        return done.returncode, sorted(done.stdout.splitlines()), done.stderr

    def test_auto_does_not_join_hosts_without_a_nic(self):
        for env in ({}, {"ORIEL_HCA": "auto", "ORIEL_CONNECT": "lazy"}):
            code, out, err = self.hosts(**env)
            self.assertEqual((code, len(out)), (0, 2), err)
            for rank, text in enumerate(out):
                self.assertRegex(text, rf"^rank {rank}: (rank [01]: )?no NIC of host {HOST} is usable: {LACK} "
                                       r"\(see oriel doctor\); ORIEL_HCA=soft on all ranks takes the software "
                                       "HCA, for development$")

    def test_who_asks_for_the_software_hca_has_it(self):
        for env in ({"ORIEL_HCA": "soft"}, {"ORIEL_SOFT_HCA": "seed=7"}):
            self.assertEqual(self.hosts(**env), (0, ["rank 0: joined", "rank 1: joined"], ""))
            self.assertEqual(self.works(2, "--nodes", "2", **env), [])

    def test_on_one_host_rank_0_logs(self):
        for ranks, options, env in ((2, (), {"ORIEL_PATHS": "rdma"}), (4, (), {"ORIEL_PATHS": "rdma"}),
                                    (2, ("--nodes", "2"), {}), (4, ("--nodes", "4"), {"ORIEL_CONNECT": "lazy"})):
            err = self.works(ranks, *options, **env)
            self.assertEqual(len(err), 1, err)
            self.assertRegex(err[0], rf"^\[0\] oriel: warn: no NIC of host {HOST} is usable: {LACK}; ranks .*"
                                     r"the software HCA, for development \(ORIEL_HCA=soft asks for it\)$")
        self.assertEqual(self.works(2, ORIEL_PATHS="rdma", ORIEL_HCA="soft"), [])
        self.assertEqual(self.works(2), [])


if __name__ == "__main__":
    ORIEL, FIRST_PUT, TWO_HOSTS = map(os.path.abspath, sys.argv[1:4])
    FAKE = {"LD_LIBRARY_PATH": sys.argv[4]} if sys.argv[4:] else {}
    LACK = "2 ports are active, ORIEL_RAILS is 3" if FAKE else "this library was built without infiniband/verbs.h"
    unittest.main(argv=sys.argv[:1])
