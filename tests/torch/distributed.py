#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""distributed.py [--backend NAME] [--ranks N] [--json FILE] [TEST...]: the tests of torch itself.

They are those of torch.testing._internal.distributed.distributed_test, which the wheel of torch
carries. Those that only run with gloo run with this backend, too: they are chosen as for gloo. Ranks
are forked, so that each test takes a fraction of a second. Prints a line for each test, and writes
a JSON object of {test: [result, reason]}.
"""
import argparse
import json
import os
import re
import sys
import tempfile
import time
import traceback
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="oriel")
parser.add_argument("--ranks", type=int, default=3)
parser.add_argument("--json")
parser.add_argument("--limit", type=int, default=60, help="seconds of one test")
parser.add_argument("tests", nargs="*")
args = parser.parse_args()

# The module reads these when it is imported.
scratch = tempfile.TemporaryDirectory()
os.environ.update(BACKEND="gloo", WORLD_SIZE=str(args.ranks), TEMP_DIR=scratch.name,
                  DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(args.limit), OMP_NUM_THREADS="1")
from torch.testing._internal.distributed import distributed_test as theirs  # noqa: E402



class Name(str):
    """The name of the backend; a test that asks whether it is gloo takes the same branch as for gloo."""

    def __eq__(self, other):
        return other == "gloo" or str(self) == other

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


theirs.BACKEND = Name(args.backend)


class Tests(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(theirs.torch.multiprocessing.get_context("fork").Process)


def reason_of(text):
    """The line of a traceback that says why."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    for line in reversed(lines):
        if re.match(r"\s*(\w+\.)*\w*(Error|Exception)\b", line):
            return line.strip()[:300]
    return lines[-1][:300] if lines else ""


def run(name):
    result = unittest.TestResult()
    unittest.TestSuite([Tests(name)]).run(result)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    for _, text in result.errors + result.failures:
        return "failed", reason_of(text)
    return "passed", ""


def main():
    names = args.tests or [n for n in unittest.TestLoader().getTestCaseNames(Tests)]
    results = {}
    for name in names:
        begun = time.monotonic()
        try:
            results[name] = run(name)
        except Exception:  # pylint: disable=broad-except
            results[name] = "failed", reason_of(traceback.format_exc())
        print(f"{results[name][0]:8} {time.monotonic() - begun:6.1f} s  {name}  {results[name][1]}", flush=True)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    counts = [sum(r == kind for r, _ in results.values()) for kind in ("passed", "failed", "skipped")]
    print(f"{args.backend}, {args.ranks} ranks: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
