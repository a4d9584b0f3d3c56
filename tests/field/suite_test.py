#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""suite_test.py PROGRAM FAKES [TEST...]: the conformance suite in a field report, over fake NICs.

By each tier and route the report has a line for each suite, and none has a case that fails; on a
NIC that breaks a rule some fails, and the report says which. CMake runs it.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest

PROGRAM = FAKES = None
DEADLINE = 600
LINE = re.compile(r"suite (\S+): (\d+) passed, (\d+) failed, (\d+) do not apply, (\d+) had no time, "
                  r"[0-9.]+ s$")
# Short cases of suites of all kinds: hw/check_fake has all of them, by each tier.
FEW = ["region/", "signal/add", "order/signal_publishes_the", "fault/old"]
MOST = FEW + ["topo/", "connect/", "counter/counter"]


def report(*words, **settings):
    """(exit code, output) of a report over two fake NICs that find each other in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"LD_LIBRARY_PATH": FAKES, "FAKEMLX5_DIR": folder, "ORIEL_HCA": "=mlx5_0",
                       "PATH": os.environ["PATH"]} | settings
        done = subprocess.run([PROGRAM, "field-report", *words], env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=DEADLINE)
    return done.returncode, done.stdout


def suites(text):
    """{suite: (passed, failed, that do not apply, that had no time)}"""
    found = (LINE.match(line) for line in text.splitlines())
    return {m[1]: tuple(int(m[i]) for i in range(2, 6)) for m in found if m}


class Suite(unittest.TestCase):
    def check_tier(self, part, cases, nic, **settings):
        code, text = report("--part", part, "--seconds", "200", "--cases", ",".join(cases), **settings)
        self.assertEqual(code, 0, text)
        self.assertRegex(text, rf"(?m)^nic \S+ \S+: tier {nic}$")
        found = suites(text)
        self.assertEqual(set(found), {case.split("/")[0] for case in cases}, text)
        self.assertEqual([s for s in found if found[s][1] or not found[s][0]], [], text)

    def test_rings_by_commands(self):
        self.check_tier("conformance", MOST, "T1, posted to by callers, network ordered, queues WAIT",
                        ORIEL_TIER="t1", ORIEL_DEVX="on")

    def test_rings_by_verbs_have_no_counters(self):
        self.check_tier("conformance-no-wait", FEW,
                        "T2, posted to by callers, network ordered, no queue WAITs",
                        ORIEL_TIER="t2", ORIEL_DEVX="off")

    def test_a_proxy(self):
        self.check_tier("conformance", MOST, "T3, posted to by a proxy, network ordered, no queue WAITs",
                        ORIEL_TIER="t3")

    def test_a_suite_whose_time_is_over_has_run_its_first_case(self):
        code, text = report("--part", "conformance", "--seconds", "1", "--cases", "region/,topo/,order/",
                            ORIEL_TIER="t3")
        self.assertEqual(code, 0, text)
        found = suites(text)
        self.assertEqual(set(found), {"region", "topo", "order"}, text)
        self.assertEqual([s for s in found if not found[s][0]], [], text)
        self.assertGreater(found["order"][3], 0, text)

    def test_a_report_that_is_cut_names_all_its_suites(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {"LD_LIBRARY_PATH": FAKES, "FAKEMLX5_DIR": folder, "ORIEL_HCA": "=mlx5_0",
                           "PATH": os.environ["PATH"], "ORIEL_TIER": "t3"}
            command = [PROGRAM, "field-report", "--part", "conformance", "--seconds", "200", "--cases", ",".join(MOST)]
            lines = []
            with subprocess.Popen(command, env=environment, text=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  start_new_session=True) as part:
                for line in part.stdout:
                    lines.append(line)
                    if line.startswith("run "):
                        os.killpg(part.pid, signal.SIGKILL)
        planned = {line.split()[1].rstrip(":") for line in lines if line.startswith("plan ")}
        self.assertEqual(planned, {case.split("/")[0] for case in MOST}, lines)

    def test_names_of_cases_are_checked(self):
        for cases, why in ((",", "--cases has no name"), (",".join("a" * 40), "--cases has more than 37 names"),
                           ("a" * 1024, "--cases has more than 1023 bytes")):
            code, text = report("--part", "conformance", "--cases", cases)
            self.assertNotEqual(code, 0)
            self.assertIn(why, text)

    def test_a_nic_that_breaks_the_order_it_reports(self):
        with tempfile.TemporaryDirectory() as folder:
            archive = pathlib.Path(folder, "report.tar")
            code, text = report("--only", "conformance/t1-commands", "--minutes", "60", "-o",
                                str(archive), "--cases", "order/signal_publishes_the,topo/",
                                FAKEMLX5_SOFT="reorder=500us")
            self.assertEqual(code, 0, text)
            with tarfile.open(archive) as tar:
                self.assertEqual(tar.getnames(), ["conformance/t1-commands", "summary"])
                text = tar.extractfile("conformance/t1-commands").read().decode()
                summary = json.loads(tar.extractfile("summary").read())
        self.assertEqual((summary["part"], summary["code"], summary["is_late"]),
                         ("conformance/t1-commands", 1, False), text)
        self.assertRegex(text, r"(?m)^FAIL order/signal_publishes_the_put$")
        # The claim, with the file that makes it, is in the archive.
        self.assertRegex(text, r"tests/conformance/order_case\.c:\d+: rank \d of 2, order/signal_")
        self.assertEqual(suites(text)["topo"][1], 0, text)
        self.assertGreater(suites(text)["order"][1], 0, text)


def main():
    global PROGRAM, FAKES
    PROGRAM, FAKES = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], verbosity=2)


if __name__ == "__main__":
    main()
