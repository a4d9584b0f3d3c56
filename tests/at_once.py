# SPDX-License-Identifier: Apache-2.0
"""Runs cases that mostly wait at the same time. shrink_test.py and grow_test.py import it."""

import time
import unittest
from concurrent.futures import ThreadPoolExecutor


def each_case(test, check, cases, jobs):
    """check(*case) for all cases, @jobs of them at the same time, each a subtest of @test."""
    with ThreadPoolExecutor(jobs) as pool:
        futures = [(case, pool.submit(check, *case)) for case in cases]
    for case, future in futures:
        with test.subTest(case):
            future.result()


class Runner:
    """For unittest.main(): runs @jobs tests at the same time, each with a result of its own."""

    def __init__(self, jobs):
        self.jobs = jobs

    def each(self, tests):
        for test in tests:
            if isinstance(test, unittest.TestSuite):
                yield from self.each(test)
            else:
                yield test

    @staticmethod
    def run_one(test):
        result = unittest.TestResult()
        begun = time.monotonic()
        test.run(result)
        return result, time.monotonic() - begun

    def run(self, tests):
        tests = list(self.each(tests))
        whole = unittest.TestResult()
        with ThreadPoolExecutor(self.jobs) as pool:
            for test, (result, seconds) in zip(tests, pool.map(self.run_one, tests)):
                print(f"{seconds:6.1f} s  {'ok' if result.wasSuccessful() else 'FAILED'}  {test.id()}", flush=True)
                whole.failures += result.failures
                whole.errors += result.errors
                whole.testsRun += 1
        for test, trace in whole.failures + whole.errors:
            print(f"\n{test}\n{trace}")
        return whole
