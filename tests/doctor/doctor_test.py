#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`oriel doctor` on recorded machines: doctor_test.py ORIEL [--update] [TEST...]

machines/x.txt is a record, x.out the expected output and exit code.
--update rewrites the x.out: review the difference.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

ORIEL = None
MACHINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "machines")
DEADLINE = 200
RECORDS = sorted(glob.glob(os.path.join(MACHINES, "*.txt")))

# Checks that no record can make fail or pass, and why.
NEVER_FAILS = set()
NEVER_PASSES = set()


def doctor(*arguments, **env):
    done = subprocess.run([ORIEL, "doctor", *arguments], capture_output=True, text=True,
                          timeout=DEADLINE, stdin=subprocess.DEVNULL, env=dict(os.environ) | env)
    return done.returncode, done.stdout, done.stderr


def output_of(record):
    """Output for @record without the line with version and path, and exit code."""
    code, out, err = doctor("--from", record)
    return out.split("\n", 2)[2] + f"exit code {code}\n" + err


def expected(record):
    with open(record[:-4] + ".out", encoding="utf-8") as file:
        return file.read()


def update():
    for record in RECORDS:
        with open(record[:-4] + ".out", "w", encoding="utf-8") as file:
            file.write(output_of(record))


class Doctor(unittest.TestCase):
    maxDiff = None

    def report(self, record):
        _, out, err = doctor("--json", "--from", record)
        self.assertEqual(err, "")
        return json.loads(out)

    def verdicts(self):
        """(check, verdict) of all records."""
        return {(check["name"], check["verdict"])
                for record in RECORDS for check in self.report(record)["checks"]}

    def test_each_machine_gets_its_expected_output(self):
        self.assertGreater(len(RECORDS), 20)
        for record in RECORDS:
            with self.subTest(os.path.basename(record)):
                self.assertEqual(output_of(record), expected(record))

    def test_each_check_fails_and_passes_somewhere(self):
        verdicts = self.verdicts()
        names = {name for name, _ in verdicts}
        self.assertGreaterEqual(len(names), 30)
        for verdict, never in (("fail", NEVER_FAILS), ("pass", NEVER_PASSES)):
            self.assertEqual({name for name in names if (name, verdict) not in verdicts}, never)

    def test_a_check_without_facts_never_passes(self):
        report = self.report(os.path.join(MACHINES, "unknown.txt"))
        self.assertEqual([c["name"] for c in report["checks"] if c["verdict"] == "pass"],
                         ["RDMA NIC"])  # the record lists one
        self.assertEqual([w["tag"] for w in report["ways"] if w["verdict"] == "pass"], [])

    def test_each_failure_has_a_consequence(self):
        for record in RECORDS:
            for check in self.report(record)["checks"]:
                self.assertTrue(check["found"] and check["means"], check)
                if check["verdict"] != "fail":
                    self.assertEqual(check["mend"], "")

    def test_a_used_data_path_has_all_it_needs(self):
        for record in RECORDS:
            report = self.report(record)
            failed = {c["name"]: c["needed_by"] for c in report["checks"] if c["verdict"] == "fail"}
            used = [way["tag"] for way in report["ways"] if way["is_used"]]
            self.assertEqual([name for name in failed if set(failed[name]) & set(used)], [])
            self.assertLessEqual(len(set(used) & {"soft", "T3", "T2", "T1", "T0"}), 1)

    def test_this_machine_is_recorded_and_read_back(self):
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, "machine")
            code, out, err = doctor("--record", record)
            self.assertEqual(err, "")
            self.assertEqual(doctor("--from", record)[:2],
                             (code, out.replace(": this machine", f": {record}", 1)))
            with open(record, encoding="ascii") as file:
                text = file.read()
            self.assertTrue(text.startswith("oriel-doctor 1\nkernel "))
            self.assertNotIn(os.uname().nodename + "\n", text)

    def test_settings_exclude_data_paths(self):
        code, out, _ = doctor("--json", ORIEL_PATHS="mapped")
        ways = {way["tag"]: way for way in json.loads(out)["ways"]}
        self.assertEqual((ways["soft"]["verdict"], ways["soft"]["is_used"]), ("skip", False))
        self.assertIn("ORIEL_PATHS", ways["soft"]["why"])
        out = doctor("--json", ORIEL_HCA="none")[1]
        ways = {way["tag"]: way for way in json.loads(out)["ways"]}
        self.assertIn("ORIEL_HCA", ways["soft"]["why"])
        record = os.path.join(MACHINES, "rxe.txt")
        with open(record, encoding="ascii") as file, tempfile.NamedTemporaryFile("w") as off:
            off.write(file.read().replace("allows.soft yes", "allows.soft yes\nallows.nic no"))
            off.flush()
            ways = {way["tag"]: way for way in self.report(off.name)["ways"]}
        self.assertEqual((ways["T3"]["verdict"], ways["T3"]["is_used"]), ("skip", False))
        self.assertIn("ORIEL_HCA", ways["T3"]["why"])
        record = os.path.join(MACHINES, "nvl72.txt")
        with open(record, encoding="ascii") as file, tempfile.NamedTemporaryFile("w") as off:
            off.write(file.read().replace("allows.fabric yes", "allows.fabric no"))
            off.flush()
            ways = {way["tag"]: way for way in self.report(off.name)["ways"]}
        self.assertEqual(ways["fabric"]["why"], "ORIEL_FABRIC is off")
        out = doctor("--json", ORIEL_PATHS="pigeons")[1]
        ways = {way["tag"]: way for way in json.loads(out)["ways"]}
        self.assertEqual(ways["memory"]["verdict"], "unknown")

    def test_variables_of_the_mlx5_provider_are_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, "machine")
            doctor("--record", record, MLX5_CQE_SIZE="128", MLX5_ENABLE_CQE_COMPRESSION="1")
            with open(record, encoding="ascii") as file:
                text = file.read()
            self.assertIn("\ncqe.size 128\ncqe.compressed yes\n", text)

    def test_text_that_is_not_a_record_is_rejected(self):
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, "machine")
            for text, why in (("hello\n", "no record of a machine"),
                              ("oriel-doctor 1\nmemfd maybe\n", "line 2: memfd must be yes or no"),
                              ("#" * 70000, "too long")):
                with open(record, "w", encoding="ascii") as file:
                    file.write(text)
                code, out, err = doctor("--from", record)
                self.assertEqual((code, out), (1, ""))
                self.assertIn(why, err)
            code, out, err = doctor("--from", os.path.join(folder, "missing"))
            self.assertEqual((code, out), (1, ""))
            self.assertIn("No such file", err)
            code, out, err = doctor("--record", os.path.join(folder, "missing", "machine"))
            self.assertEqual((code, out), (1, ""))

    def test_bad_usage(self):
        for arguments in (("--colour",), ("more",), ("--from",),
                          ("--from", "a", "--record", "b")):
            code, out, err = doctor(*arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("oriel help doctor", err)


if __name__ == "__main__":
    ORIEL = os.path.abspath(sys.argv[1])
    if sys.argv[2:] == ["--update"]:
        update()
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
