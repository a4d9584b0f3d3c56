#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report of `oriel perf`, not the speed it reports: perf_test.py ORIEL [TEST...]"""

import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import tool

ORIEL = None
DEADLINE = 300
SHORT = ("--iters", "5", "--reps", "1")


def oriel(*arguments, **env):
    return tool.run([ORIEL, *arguments], DEADLINE, **{"ORIEL_HCA": "soft"} | env)


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
        self.assertRegex(row["command"], r"^ORIEL_HCA=soft ORIEL_SOFT_HCA=mtu=512 oriel run -n 2 --nodes 2 "
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

    def test_a_fan_out_counts_each_peer(self):
        rows = self.rows("fan_out", "put_signal_counter", "--sizes", "64", "-n", "4", "--nodes",
                         "2", "--check")
        self.assertEqual([(row["test"], row["mode"], row["path"]) for row in rows],
                         [("fan_out", "put", "mapped+rdma[soft]"),
                          ("fan_out", "put_signal", "mapped+rdma[soft]"),
                          ("fan_out", "drain", "mapped+rdma[soft]"),
                          ("fan_out", "wait_counter", "mapped+rdma[soft]"),
                          ("put_signal_counter", "wait_counter", "mapped")])
        self.assertEqual({row["wrong"] for row in rows}, {0})

    def test_a_signal_to_all_is_measured_with_and_without_answers(self):
        for ranks in ("2", "5"):
            rows = self.rows("signal_all", "-n", ranks, "--nodes", ranks, "--check")
            self.assertEqual([(row["test"], row["mode"], row["path"]) for row in rows],
                             [("signal_all", "flush", "rdma[soft]"),
                              ("signal_all", "one way", "rdma[soft]")])

    def test_threads_put_and_flush_together_and_each_by_itself(self):
        for nodes in ((), ("--nodes", "2")):
            rows = self.rows("put_flush", "put_flush_each", "--sizes", "64", "--group", "team:3",
                             "--check", *nodes)
            self.assertEqual([(row["mode"], row["threads"], row["wrong"]) for row in rows],
                             [("origin", 3, 0), ("each thread", 3, 0)])

    def test_collectives_have_the_columns_of_nccl_tests(self):
        code, out, _ = oriel("perf", "allgather", "bcast", "--sizes", "64", "--check", "-n", "3",
                             *SHORT)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^test +mode +path +size +count +time us +algbw +busbw +#wrong")
        self.assertRegex(out, r"(?m)^allgather +all +mapped +192 +64 +[\d.]+ +[\d.]+ +[\d.]+ +0 ")
        gather, bcast = self.rows("allgather", "bcast", "--sizes", "64", "-n", "3")
        self.assertEqual((gather["bytes"], gather["size"], gather["count"]), (64, 192, 64))
        self.assertAlmostEqual(gather["algbw"], 192 / gather["median_us"] / 1e3, places=4)
        self.assertAlmostEqual(gather["busbw"], gather["algbw"] * 2 / 3, places=6)
        self.assertEqual((bcast["size"], bcast["busbw"]), (64, bcast["algbw"]))
        self.assertNotIn("wrong", bcast)
        reduce, scatter = self.rows("all_reduce", "reduce_scatter", "--sizes", "64", "-n", "3",
                                    "--check")
        self.assertEqual((reduce["size"], scatter["size"]), (64, 192))
        self.assertAlmostEqual(reduce["busbw"], reduce["algbw"] * 4 / 3, places=6)
        self.assertAlmostEqual(scatter["busbw"], scatter["algbw"] * 2 / 3, places=6)
        self.assertEqual((reduce["wrong"], scatter["wrong"]), (0, 0))
        reduce, gather, scatter = self.rows("reduce", "gather", "scatter", "--sizes", "64", "-n",
                                            "3", "--check")
        self.assertEqual([row["size"] for row in (reduce, gather, scatter)], [64, 192, 192])
        self.assertEqual({row["wrong"] for row in (reduce, gather, scatter)}, {0})
        self.assertEqual(reduce["busbw"], reduce["algbw"])
        self.assertAlmostEqual(scatter["busbw"], scatter["algbw"] * 2 / 3, places=6)
        code, out, _ = oriel("perf", "bcast", "--sizes", "64", *SHORT)
        self.assertRegex(out, r"(?m)^bcast .* N/A ")

    @unittest.skipUnless("FAKECUDA_FOLDER" in os.environ, "no driver of GPUs that are not there")
    def test_collectives_are_measured_in_gpu_memory(self):
        env = {"LD_LIBRARY_PATH": os.environ["FAKECUDA_FOLDER"]}
        tests = ("all_reduce", "reduce_scatter", "allgather", "alltoall", "bcast", "reduce",
                 "gather", "scatter")
        # Two and three ranks have two GPUs.
        for ranks, nodes, path in ((2, "1", "mapped"), (3, "1", "mapped"), (2, "2", "rdma[soft]")):
            rows = self.rows(*tests, "--gpu", "--sizes", "64,4K", "--check", "-n", str(ranks),
                             "--nodes", nodes, **env)
            self.assertEqual([(row["test"], row["count"]) for row in rows],
                             [(test, count) for test in tests for count in (64, 4096)])
            self.assertEqual({(row["path"], row["wrong"]) for row in rows}, {(path, 0)})
            for row in rows:
                self.assertTrue(row["mode"].endswith(", gpu") and row["median_us"] > 0)
                self.assertTrue(row["machine"].startswith("Fake 0, "))
            self.assertAlmostEqual(rows[0]["busbw"], rows[0]["algbw"] * 2 * (ranks - 1) / ranks,
                                   places=6)
            self.assertEqual(rows[2]["size"], 64 * ranks)
        self.fails("GPU memory has no put_bw\n", "put_bw", "--gpu", **env)

    def test_puts_have_the_columns_of_perftest(self):
        code, out, _ = oriel("perf", "put_bw", "--sizes", "64", *SHORT)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^test +mode +path +bytes +t_min us +median us +p99 us +"
                              r"p99.9 us +BW GB/s +Mmsg/s +spread")
        row, = self.rows("put_bw", "--sizes", "64")
        self.assertTrue(row["min_us"] <= row["median_us"] <= row["p99_us"] <= row["p99_9_us"])
        self.assertAlmostEqual(row["mops"] * row["median_us"], 1, places=6)
        self.assertEqual(row["medians_us"], [row["median_us"]])

    def test_a_sweep_is_named_as_by_nccl_tests(self):
        self.assertEqual([row["bytes"] for row in self.rows("put_flush", "-b", "16", "-e", "1K",
                                                             "-f", "4")], [16, 64, 256, 1024])
        for arguments in (("-b", "2K", "-e", "1K"), ("-f", "1"), ("-b", "x"),
                          ("-b", "8", "--sizes", "8")):
            code, out, err = oriel("perf", "put_flush", *arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("oriel perf: ", err)

    def test_limits_come_first_so_that_each_row_names_its_part(self):
        code, out, _ = oriel("perf", "put_flush", "memcpy", "--sizes", "64", *SHORT)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?s)\nmemcpy .*\nput_flush [^\n]* [\d.]+ of memcpy\n")

    def test_csv_has_the_values_of_json(self):
        code, out, err = oriel("perf", "put_flush", "allgather", "--sizes", "8,64", "--csv", *SHORT)
        self.assertEqual((code, err), (0, ""))
        rows = list(csv.DictReader(out.splitlines()))
        self.assertEqual([(row["test"], row["bytes"]) for row in rows],
                         [("put_flush", "8"), ("put_flush", "64"), ("allgather", "8"),
                          ("allgather", "64")])
        self.assertEqual((rows[0]["busbw"], rows[0]["impl"]), ("", "oriel"))
        self.assertGreater(float(rows[2]["busbw"]), 0)
        self.assertEqual(oriel("perf", "put_flush", "--csv", "--json")[0], 2)

    def test_rows_stream_and_an_interrupt_keeps_them(self):
        # 100 repetitions of 30 ms a row: the first row is there long before the last.
        with subprocess.Popen([ORIEL, "perf", "put_flush", "--sizes", "8:65536", "--reps", "100",
                               "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=tool.environment()) as job:
            first = json.loads(job.stdout.readline())
            self.assertEqual((first["bytes"], len(first["medians_us"])), (8, 100))
            self.assertIsNone(job.poll())
            job.send_signal(signal.SIGINT)
            out, err = job.communicate(timeout=DEADLINE)
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(job.returncode, 128 + signal.SIGINT, err)
        # The row under way has some of its repetitions; those before it are whole.
        self.assertTrue(rows and rows[-1]["bytes"] < 65536, out)
        self.assertLess(len(rows[-1]["medians_us"]), 100)
        self.assertEqual([len(row["medians_us"]) for row in rows[:-1]], [100] * (len(rows) - 1))


class Compare(unittest.TestCase):
    """Files with known times, so the interval is known too."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, times, **more):
        row = {"test": "put_flush", "path": "mapped", "ranks": 2, "bytes": 8, "impl": "oriel",
               "threads": 1, "mode": "origin", "median_us": sorted(times)[len(times) // 2],
               "medians_us": times, "machine": "one"} | more
        path = self.folder / name
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")
        return str(path)

    def compare(self, old, new, *arguments):
        code, out, err = oriel("perf", "--from", new, "--compare", old, "--json", *arguments)
        return code, [json.loads(line) for line in out.splitlines()], err

    def test_the_interval_is_that_of_the_rank_test(self):
        old = self.file("old", [10.0, 10.0, 10.0, 10.0, 10.0])
        new = self.file("new", [11.0, 12.0, 13.0, 14.0, 15.0])
        code, (row,), err = self.compare(old, new)
        self.assertEqual((code, err), (1, ""))
        # Five beside five: the third of the 25 ratios from either end, each of which is there
        # five times.
        self.assertEqual((row["ratio"], row["ratio_low"], row["ratio_high"], row["verdict"]),
                         (1.3, 1.1, 1.5, "slower"))
        self.assertEqual(self.compare(old, new, "--tolerance", "0.4")[0], 0)
        code, (row,), _ = self.compare(new, old)
        self.assertEqual((code, row["verdict"]), (0, "faster"))

    def test_a_difference_within_the_interval_is_none(self):
        old = self.file("old", [10.0, 11.0, 12.0, 13.0, 20.0])
        new = self.file("new", [10.5, 12.0, 13.0, 14.0, 15.0])
        code, (row,), _ = self.compare(old, new)
        self.assertEqual((code, row["verdict"]), (0, "same"))
        self.assertTrue(row["ratio_low"] < 1 < row["ratio_high"])

    def test_many_repetitions(self):
        old = self.file("old", [10 + i / 100 for i in range(40)])
        new = self.file("new", [11 + i / 100 for i in range(40)])
        code, (row,), _ = self.compare(old, new)
        self.assertEqual((code, row["verdict"]), (1, "slower"))
        self.assertTrue(1.08 < row["ratio_low"] < row["ratio"] < row["ratio_high"] < 1.12)

    def test_what_cannot_be_compared_is_said(self):
        few = self.file("few", [10.0, 10.0, 10.0])
        new = self.file("new", [20.0, 20.0, 20.0])
        code, (row,), err = self.compare(few, new)
        self.assertEqual((code, row["verdict"]), (1, "too few repetitions"))
        self.assertIn("four or more each", err)
        other = self.file("other", [10.0] * 5, bytes=16, machine="two")
        code, _, err = self.compare(other, new)
        self.assertEqual(code, 1)
        self.assertIn("it has none of them", err)
        self.assertIn("is of another machine: two", err)
        (self.folder / "bad").write_text('{"test": "put_flush"\n', encoding="utf-8")
        code, _, err = self.compare(str(self.folder / "bad"), new)
        self.assertEqual(code, 1)
        self.assertIn("bad:1: not a row of --json", err)
        self.assertIn("cannot read", self.compare("/nowhere/old", new)[2])

    def test_a_run_is_compared_with_a_file(self):
        code, out, _ = oriel("perf", "put_flush", "--sizes", "8", "--iters", "50", "--reps", "5",
                             "--json")
        self.assertEqual(code, 0)
        old = self.folder / "old"
        row = json.loads(out)
        for factor, expected in ((1e6, 0), (1e-6, 1)):
            row["medians_us"] = [time * factor for time in row["medians_us"]]
            old.write_text(json.dumps(row) + "\n", encoding="utf-8")
            code, out, _ = oriel("perf", "put_flush", "--sizes", "8", "--iters", "50",
                                 "--compare", str(old))
            self.assertEqual(code, expected, out)
            row["medians_us"] = [time / factor for time in row["medians_us"]]

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_rows_are_drawn(self):
        rows = str(self.folder / "rows")
        picture = self.folder / "it's.svg"
        pathlib.Path(rows).write_text("".join(
            json.dumps({"test": "put_flush", "mode": "origin", "bytes": size, "gbps": 1.5,
                        "median_us": size / 100}) + "\n" for size in (8, 1024, 1 << 20)),
            encoding="utf-8")
        code, _, err = oriel("perf", "--from", rows, "--plot", str(picture))
        self.assertEqual((code, err), (0, ""))
        text = picture.read_text(encoding="utf-8")
        texts = set(re.findall("<text>(.*?)</text>", text))
        self.assertLessEqual({"put_flush origin", "1 KiB", "1 MiB", "time (µs)",
                              "bandwidth (GB/s)"}, {text.strip() for text in texts})

    def test_without_gnuplot_nothing_is_measured(self):
        code, out, err = oriel("perf", "put_flush", "--plot", "x.svg", PATH="/nowhere")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("--plot needs gnuplot, which is not installed", err)


if __name__ == "__main__":
    ORIEL = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
