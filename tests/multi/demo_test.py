#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where `oriel demo` puts its picture: demo_test.py ORIEL [TEST...]"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ORIEL = None
# Root may write anywhere but to a file system that is mounted read-only.
READ_ONLY = ["unshare", "--mount", "sh", "-c",
             'mount -t tmpfs -o ro none "$0" && cd "$0" && exec "$@"']


class Demo(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.here = pathlib.Path(made.name, "here")
        self.temporary = pathlib.Path(made.name, "temporary")
        self.here.mkdir()
        self.temporary.mkdir()

    def demo(self, *head):
        return subprocess.run([*head, ORIEL, "demo", "-n", "2", "--seed", "1"], cwd=self.here,
                              env=os.environ | {"TMPDIR": str(self.temporary)},
                              capture_output=True, text=True, timeout=600)

    def check_picture(self, done, path):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("All checks passed", done.stdout)
        self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_the_picture_is_here(self):
        done = self.demo()
        self.check_picture(done, self.here / "heat.png")
        self.assertEqual((done.stderr, list(self.temporary.iterdir())), ("", []))

    def test_where_nothing_may_be_written_it_is_elsewhere(self):
        head = [*READ_ONLY, str(self.here)]
        try:
            subprocess.run([*head, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no mounts of its own: {error}")
        done = self.demo(*head)
        found = re.search(r"^the field is in (.*)$", done.stdout, re.M)
        self.assertTrue(found, done.stdout + done.stderr)
        self.check_picture(done, pathlib.Path(found[1]))
        self.assertEqual(list(self.temporary.iterdir()), [pathlib.Path(found[1])])
        self.assertRegex(done.stderr, "^oriel demo: cannot write heat.png here: Read-only")

        shutil.rmtree(self.temporary)
        done = self.demo(*head)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("All checks passed", done.stdout)
        self.assertIn("so the heat example does not run", done.stderr)


if __name__ == "__main__":
    ORIEL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
