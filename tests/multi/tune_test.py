#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The file of `oriel tune` is read, and errors in it are reported: tune_test.py ORIEL [TEST...]"""

import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

import tool

ORIEL = None
DEADLINE = 300
# On GPUs all but the last, and on those of several nodes the first three.
COLLECTIVES = ("all-gather", "all-to-all", "broadcast", "all-reduce", "reduce-scatter", "reduce")


def oriel(*arguments, **env):
    return tool.run([ORIEL, *arguments], DEADLINE, **{"ORIEL_HCA": "soft"} | env)


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, "new", "folder", "tune")

    def tune(self, *arguments, **env):
        code, out, err = oriel("tune", "--most", "2048", *arguments, **env)
        self.assertEqual((code, err), (0, ""))
        return out

    def lines(self):
        head, *rest = self.file.read_text(encoding="utf-8").splitlines()
        self.assertEqual(head, "oriel-tune 1")
        return rest

    def tuning(self, *job, **env):
        code, out, err = oriel("run", *job, "--no-prefix", ORIEL, "info", "--json", **env)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)["job"]["tuning"]

    def test_a_written_table_is_read(self):
        out = self.tune("-n", "2", "-o", str(self.file))
        self.assertRegex(out, r"(?m)^all-gather +8  ll \d+\.\d\d  store \d.* us -> \w+$")
        self.assertIn(f"written to {self.file}", out)
        lines = self.lines()
        for collective in COLLECTIVES:
            mine = [line for line in lines if line.startswith(f"{collective} host 2 1 ")]
            self.assertTrue(mine[-1].startswith(f"{collective} host 2 1 any "))
        tuning = self.tuning("-n", "2", ORIEL_TUNE=str(self.file))
        self.assertEqual((tuning["source"], tuning["rows"], tuning["nodes"]),
                         (str(self.file), len(lines), 1))
        self.assertTrue(all(line.endswith(" " + tuning["machine"]) for line in lines))
        for job in (("-n", "3"), ("-n", "2", "--nodes", "2")):
            self.assertEqual(self.tuning(*job, ORIEL_TUNE=str(self.file))["source"], "library")
        self.assertEqual(self.tuning("-n", "2", ORIEL_TUNE="off")["source"], "library")

    def test_a_table_executes_all_sizes_beyond_those_that_were_measured(self):
        """The fastest at the largest size may be one that has a limit."""
        for job in (("-n", "2"), ("-n", "4", "--nodes", "2")):
            out = self.tune(*job, "--most", "8", "-o", str(self.file))
            if "--nodes" in job:
                self.assertRegex(out, r"(?m)^all-reduce +8  owner \d+\.\d\d  hierarchical \d")
            for test in ("allgather", "all_reduce", "reduce_scatter"):
                code, _, err = oriel("run", *job, ORIEL, "perf", test, "--sizes", "8,2K,1M", "--check",
                                     "--iters", "5", "--reps", "1", ORIEL_TUNE=str(self.file))
                self.assertEqual(code, 0, err)

    def test_lines_of_other_jobs_stay(self):
        self.tune("-n", "2", "-o", str(self.file))
        older = self.lines()
        self.tune("-n", "2", "--nodes", "2", "-o", str(self.file))
        both = self.lines()
        self.assertEqual(both[:len(older)], older)
        self.assertTrue(all(" host 2 2 " in line for line in both[len(older):]))
        self.tune("-n", "2", "-o", str(self.file))
        again = self.lines()
        self.assertEqual(again[:len(both) - len(older)], both[len(older):])

    def test_the_users_own_file_is_found(self):
        home = str(self.file.parent.parent)
        self.tune("-n", "2", HOME=home)
        self.file = pathlib.Path(home, ".cache", "oriel", "tune")
        self.assertTrue(self.lines())
        self.assertEqual(self.tuning("-n", "2", HOME=home)["source"], str(self.file))
        self.assertEqual(self.tuning("-n", "2", HOME=str(self.file.parent))["source"], "library")

    def test_a_table_decides(self):
        self.file.parent.mkdir(parents=True)
        machine = self.tuning("-n", "2", ORIEL_TUNE="off")["machine"]
        self.file.write_text(f"oriel-tune 1\nall-gather host 2 1 any direct {machine}\n",
                             encoding="utf-8")
        arguments = ("run", "-n", "2", ORIEL, "perf", "allgather", "--sizes", "8", "--check",
                     "--iters", "5", "--reps", "1")
        self.assertEqual(oriel(*arguments, ORIEL_TUNE=str(self.file))[0], 0)
        # ce is only for GPUs, so the failure shows that the table was read.
        self.file.write_text(f"oriel-tune 1\n\nall-gather host 2 1 any ce {machine}\n",
                             encoding="utf-8")
        code, _, err = oriel(*arguments, ORIEL_TUNE=str(self.file))
        self.assertNotEqual(code, 0)
        self.assertIn(f"{self.file}:3: algorithm ce does not support messages of that size", err)

    def test_ranks_that_read_different_tables_fail(self):
        self.file.parent.mkdir(parents=True)
        machine = self.tuning("-n", "2", ORIEL_TUNE="off")["machine"]
        self.file.write_text(f"oriel-tune 1\nall-gather host 2 1 any store {machine}\n",
                             encoding="utf-8")
        script = (f'test $RANK = 0 || export ORIEL_TUNE={self.file}; '
                  'exec "$0" perf allgather --sizes 8 --iters 5 --reps 1')
        code, _, err = oriel("run", "-n", "2", "sh", "-c", script, ORIEL, ORIEL_TUNE="off")
        self.assertNotEqual(code, 0)
        self.assertRegex(err, r"the digest of the table of oriel tune \(ORIEL_TUNE\): 0 on "
                              r"rank 0, \d+ on rank 1")

    def test_errors_in_the_file_are_named(self):
        self.file.parent.mkdir(parents=True)
        arguments = ("run", "-n", "2", ORIEL, "perf", "allgather", "--sizes", "8", "--iters", "5")
        code, _, err = oriel(*arguments, ORIEL_TUNE=str(self.file))
        self.assertNotEqual(code, 0)
        self.assertIn(f"{self.file}, a table of oriel tune: No such file", err)
        self.file.write_text("oriel-tune 1\n# a word\nall-gather host two 1 any ring X\n",
                             encoding="utf-8")
        code, _, err = oriel(*arguments, ORIEL_TUNE=str(self.file))
        self.assertNotEqual(code, 0)
        self.assertIn(f"{self.file}:3: invalid number of ranks 'two'", err)
        # `oriel tune` replaces such a file.
        self.tune("-n", "2", "-o", str(self.file), ORIEL_TUNE=str(self.file))

    def test_a_file_that_no_setting_names_stops_no_job(self):
        home = self.file.parent
        path = pathlib.Path(home, ".cache", "oriel", "tune")
        path.parent.mkdir(parents=True)
        path.write_text("half a tab", encoding="utf-8")
        job = ("run", "-n", "2", ORIEL, "perf", "allgather", "--sizes", "8", "--iters", "5",
               "--reps", "1")
        for folder, why in ((str(home), "expected 'oriel-tune 1', found 'half a tab'"),
                            ("/dev/null", "Not a directory")):
            code, _, err = oriel(*job, HOME=folder)
            self.assertEqual(code, 0, err)
            for rank in range(2):
                self.assertEqual(len(re.findall(rf"(?m)^\[{rank}\] .*{why}; the library's own",
                                                err)), 1, err)
        path.unlink()
        os.mkfifo(path)
        code, _, err = oriel(*job, HOME=str(home))
        self.assertEqual(code, 0, err)
        self.assertIn("is not a regular file; the library's own", err)
        code, _, err = oriel(*job, ORIEL_TUNE=str(path))
        self.assertNotEqual(code, 0)
        self.assertIn(f"{path}, a table of oriel tune, is not a regular file", err)

    @unittest.skipUnless("FAKECUDA_FOLDER" in os.environ, "no driver of GPUs that are not there")
    def test_gpus_are_measured(self):
        env = {"LD_LIBRARY_PATH": os.environ["FAKECUDA_FOLDER"]}
        for nodes, algorithms in (("1", "ll|store|ce|one_shot|owner"), ("2", "direct|ring|bruck")):
            job = ("-n", "2", "--nodes", nodes)
            self.tune(*job, "--gpu", "-o", str(self.file), **env)
            mine = [line for line in self.lines() if f" gpu 2 {nodes} " in line]
            for collective in COLLECTIVES[:5 if nodes == "1" else 3]:
                self.assertTrue([line for line in mine if re.fullmatch(
                    f"{collective} gpu 2 {nodes} any ({algorithms}) Fake 0", line)])
            # Every job reads the file; it has no lines for other kinds of memory.
            self.assertEqual(self.tuning(*job, ORIEL_TUNE=str(self.file))["source"], "library")

    def test_what_lies_within_the_spread_changes_nothing(self):
        out = self.tune("-n", "2", "--json", "-o", str(self.file))
        *rows, written = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(written, {"written": str(self.file)})
        self.assertEqual({row["collective"] for row in rows}, set(COLLECTIVES))
        before = {"collective": None}
        for row in rows:
            times = {time["algorithm"]: time for time in row["times"]}
            self.assertTrue(all(0 < t["low_us"] <= t["high_us"] for t in times.values()))
            chosen, fastest = times[row["algorithm"]], times[row["fastest"]]
            self.assertEqual(fastest["low_us"], min(t["low_us"] for t in times.values()))
            if row["algorithm"] != row["fastest"]:
                self.assertTrue(fastest["high_us"] >= chosen["low_us"] or
                                fastest["low_us"] >= 0.97 * chosen["low_us"] or
                                row["algorithm"] != before.get("algorithm"))
            if row["collective"] == before["collective"] and before["algorithm"] in times and \
                    row["algorithm"] != before["algorithm"]:
                self.assertLess(chosen["high_us"], times[before["algorithm"]]["low_us"])
            before = row

    def test_a_file_that_cannot_be_written_is_an_error_before_measuring(self):
        self.file.parent.mkdir(parents=True)
        self.file.write_text("", encoding="utf-8")
        for path, why in ((self.file / "below", "Not a directory"),
                          (self.file.parent, "not a regular file"), ("/dev/null", "not a regular")):
            code, out, err = oriel("tune", "-o", str(path))
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(err, f"oriel tune: cannot write {path}: {why}")
        code, out, err = oriel("run", "-n", "2", ORIEL, "tune", "-o", str(self.file.parent))
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(len(re.findall("not a regular file", err)), 1)

    def test_only_the_file_remains_and_a_link_to_it_is_replaced(self):
        victim = self.file.parent.parent / "victim"
        self.file.parent.mkdir(parents=True)
        victim.write_text("not a table", encoding="utf-8")
        self.file.symlink_to(victim)
        self.tune("-n", "2", "-o", str(self.file))
        self.assertEqual(list(self.file.parent.iterdir()), [self.file])
        self.assertFalse(self.file.is_symlink())
        self.assertEqual(victim.read_text(encoding="utf-8"), "not a table")

    def test_wrong_arguments_are_rejected(self):
        for arguments in (("-n", "0"), ("--most", "x"), ("more",), ("--nodes", "1e3")):
            code, out, err = oriel("tune", *arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("oriel tune: ", err)
        self.assertEqual(oriel("tune", "--help")[0], 0)


if __name__ == "__main__":
    ORIEL = sys.argv[1]
    unittest.main(argv=sys.argv[1:])
