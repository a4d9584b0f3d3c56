# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share."""
import os
import subprocess
import sys
import textwrap

import pytest

# Tests end by themselves long before; a hang of one must not become a hang of all.
LIMIT_S = 60
os.environ.setdefault("ORIEL_TIMEOUT", "30")
os.environ.setdefault("ORIEL_HCA", "soft")
os.environ.setdefault("ORIEL_LOG", "error")


def run_job(ranks, text, nodes=1, check=True, arguments=()):
    """Run the program @text by oriel run; returns what all ranks wrote, errors too."""
    command = ["oriel", "run", "-n", str(ranks), "--nodes", str(nodes), "--timeout", str(LIMIT_S),
               sys.executable, "-c", textwrap.dedent(text), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
                          env={**os.environ, "PYTHONUNBUFFERED": "1"})
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(params=[1, 2], ids=["mapped", "rdma"])
def nodes(request):
    """Two ranks on one node, and on two virtual ones: both paths."""
    return request.param
