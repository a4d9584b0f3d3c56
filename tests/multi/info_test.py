#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`oriel info`, alone and under the launcher: info_test.py ORIEL [TEST...]"""

import json
import os
import socket
import sys
import unittest

import tool

ORIEL = None
DEADLINE = 200


def oriel(*arguments, **env):
    return tool.run([ORIEL, *arguments], DEADLINE, **{"ORIEL_HCA": "soft"} | env)


class Info(unittest.TestCase):
    def output(self, *arguments, **env):
        code, out, err = oriel(*arguments, **env)
        self.assertEqual((code, err), (0, ""))
        return out

    def of_job(self, ranks, *options, **env):
        out = self.output("run", "-n", str(ranks), *options, "--no-prefix", ORIEL, "info", "--json",
                          **env)
        return json.loads(out)["job"]

    def test_features_of_the_machine_are_printed(self):
        out = self.output("info")
        self.assertRegex(out, r"(?m)^oriel \d+\.\d+\.\d+ ")
        self.assertRegex(out, r"(?m)^  memfd +(yes|no) +\S")
        self.assertNotIn("ORIEL_TIMEOUT", out)

    def test_the_end_of_a_list_is_no_failure_in_the_log(self):
        code, _, err = oriel("info", "--config", ORIEL_LOG="info")
        self.assertEqual(code, 0)
        self.assertNotIn("ORIEL_ERR", err)

    def test_settings_are_printed_with_their_source(self):
        out = self.output("info", "--config", ORIEL_TIMEOUT="7.5")
        self.assertRegex(out, r"(?m)^  ORIEL_TIMEOUT +7\.5 +environment +\S")
        self.assertRegex(out, r"(?m)^  ORIEL_LOG +\w+ +default +\S")

    def test_json_has_settings_and_features(self):
        report = json.loads(self.output("info", "--json", ORIEL_NODE='quote " and\ttab'))
        settings = {setting["name"]: setting for setting in report["settings"]}
        self.assertEqual(settings["ORIEL_NODE"]["value"], 'quote " and\ttab')
        self.assertEqual(settings["ORIEL_NODE"]["source"], "environment")
        self.assertIn("memfd", [feature["name"] for feature in report["features"]])
        self.assertNotIn("job", report)

    def test_bytes_that_are_not_utf8_leave_the_json_valid(self):
        raw = b"\xff\xc3\xa9\xed\xa0\x80\xf4\x90\x80\x80\xc0\x80\xe2\x82"
        report = json.loads(self.output("info", "--json", ORIEL_NODE=os.fsdecode(raw)))
        values = [s["value"] for s in report["settings"] if s["name"] == "ORIEL_NODE"]
        self.assertEqual(values, ["\ufffd\u00e9" + "\ufffd" * 11])

    def test_rank_0_prints_the_job(self):
        out = self.output("run", "-n", "3", ORIEL, "info")
        self.assertEqual({line[:4] for line in out.splitlines()}, {"[0] "})
        self.assertIn("job of 3 ranks", out)
        for row in ("0 S M M", "1 M S M", "2 M M S"):
            self.assertRegex(out, r"(?m)^\[0\] +" + row.replace(" ", " +") + "$")

    def test_json_has_the_job(self):
        job = self.of_job(4)
        self.assertEqual(job["ranks"], 4)
        self.assertEqual(job["paths"], [["self" if i == k else "mapped" for k in range(4)]
                                        for i in range(4)])
        self.assertEqual([peer["rank"] for peer in job["peers"]], [0, 1, 2, 3])
        self.assertEqual({peer["host"] for peer in job["peers"]}, {socket.gethostname()})
        self.assertEqual(len({peer["pid"] for peer in job["peers"]}), 4)
        self.assertEqual(job["reasons"], [])

    def test_the_software_hca_is_marked_as_one(self):
        out = self.output("run", "-n", "2", "--nodes", "2", "--no-prefix", ORIEL, "info")
        self.assertRegex(out, r"(?m)^  NIC +kind +tier +mtu +queue depth +max_rd_atomic +WAIT +rails +posts "
                              r"+order +port +description$")
        self.assertRegex(out, r"(?m)^  soft\d+ +soft +- +4096 +1024 \(<= \d+\) +<= 16 +yes +1 +rings +ordered +- +software HCA, for "
                              r"development and tests: no NIC is used$")
        self.assertRegex(out, r"(?m)^ +0 +S +R$")
        self.assertNotIn("kind", self.output("run", "-n", "2", "--no-prefix", ORIEL, "info"))

    def test_json_has_the_nic(self):
        job = self.of_job(3, "--nodes", "2", ORIEL_SOFT_HCA="mtu=1024,reads=4")
        self.assertEqual(job["paths"], [["self", "rdma", "rdma"], ["rdma", "self", "mapped"],
                                        ["rdma", "mapped", "self"]])
        nic = job["nic"]
        self.assertEqual((nic["kind"], nic["mtu"], nic["outstanding_max"]),
                         ("soft", 1024, 4))
        self.assertRegex(nic["name"], r"^soft\d+$")
        self.assertGreaterEqual(nic["depth_max"], 1024)
        self.assertEqual(nic["depth"], 1024)
        self.assertEqual((nic["has_wait"], nic["is_software"], nic["is_sink"]),
                         (True, True, False))
        self.assertIn("development", nic["note"])
        self.assertEqual((nic["rails"], nic["tier"]), (1, ""))
        self.assertNotIn("nic", self.of_job(2))

    def test_the_posting_thread_is_reported(self):
        for post in ("rings", "proxy"):
            self.assertEqual(self.of_job(2, "--nodes", "2", ORIEL_POST=post)["nic"]["post"],
                             post)
        code, _, err = oriel("run", "-n", "2", "--nodes", "2", ORIEL, "info", ORIEL_POST="unknown")
        self.assertNotEqual(code, 0)
        self.assertIn("ORIEL_POST is 'unknown', but it may be auto, rings or proxy", err)

    def test_the_order_of_the_network_is_reported(self):
        for settings, order in (({}, "ordered"),
                                ({"ORIEL_NET_ORDER": "relaxed"}, "relaxed"),
                                ({"ORIEL_SOFT_HCA": "reorder=1us"}, "relaxed"),
                                ({"ORIEL_SOFT_HCA": "reorder=1us", "ORIEL_NET_ORDER": "ordered"}, "ordered")):
            self.assertEqual(self.of_job(2, "--nodes", "2", **settings)["nic"]["order"], order)

    def test_the_number_of_rails_is_reported(self):
        nic = self.of_job(3, "--nodes", "3", ORIEL_RAILS="4")["nic"]
        self.assertEqual(nic["rails"], 4)

    def test_an_invalid_number_of_rails_is_rejected(self):
        for rails in ("0", "5", "two"):
            code, _, err = oriel("run", "-n", "2", "--nodes", "2", ORIEL, "info",
                                 ORIEL_RAILS=rails)
            self.assertNotEqual(code, 0)
            self.assertIn(f"ORIEL_RAILS is '{rails}', but it may be a number from 1 to 4", err)

    def test_a_sink_is_marked_as_one(self):
        nic = self.of_job(2, "--nodes", "2", ORIEL_SOFT_HCA="sink=1")["nic"]
        self.assertTrue(nic["is_sink"])
        self.assertIn("discard all data", nic["note"])

    def test_the_software_hca_is_a_feature_that_a_setting_disables(self):
        out = self.output("info")
        self.assertRegex(out, r"(?m)^  software HCA +yes +.*for development and tests")
        out = self.output("info", ORIEL_HCA="none")
        self.assertRegex(out, r"(?m)^  software HCA +no +.*ORIEL_HCA is none")

    def test_the_log_names_the_software_hca(self):
        code, _, err = oriel("run", "-n", "2", "--nodes", "2", ORIEL, "info", ORIEL_LOG="info")
        self.assertEqual(code, 0)
        self.assertRegex(err, r"(?i)software HCA, for development")

    def test_a_failure_is_reported_with_exit_code_1(self):
        code, out, err = oriel("info", RANK="0", WORLD_SIZE="many")
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, "^oriel info: .*WORLD_SIZE")

    def test_bad_usage(self):
        for arguments in (("--colour",), ("more",)):
            code, out, err = oriel("info", *arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(arguments[0], err)


if __name__ == "__main__":
    ORIEL = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
