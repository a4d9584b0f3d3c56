# SPDX-License-Identifier: Apache-2.0
"""The backend "oriel" of torch, by processes: scripts/check-torch runs it."""
import importlib
import pathlib
import re
import subprocess
import sys

import pytest

RANK = pathlib.Path(__file__).with_name("backend_rank.py")
PARTS = ["broadcasts", "gathers", "exchanges", "reductions", "roots", "messages", "any_source", "lengths_that_differ", "works",
         "groups", "monitored", "refusals", "profiled"]


def job(ranks, *arguments, nodes=1):
    done = subprocess.run(["oriel", "run", "-n", str(ranks), "--nodes", str(nodes), "--timeout", "200",
                           sys.executable, str(RANK), *arguments],
                          capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("ranks, nodes", [(3, 1), (2, 1), (4, 2)])
def test_every_operation(ranks, nodes):
    code, said = job(ranks, nodes=nodes)
    assert code == 0, said
    for name in PARTS:
        for rank in range(ranks):
            assert f"rank {rank}: {name} passed" in said, said


def test_a_killed_rank_is_named():
    _, said = job(3, "killed")
    for rank in (0, 1):
        assert f"rank {rank} learned: " in said and "rank 2" in said, said


def test_another_torch_is_refused():
    import torch
    import oriel.torch
    from oriel.torch import _built
    right, _built.TORCH = _built.TORCH, "2.14.0"
    try:
        with pytest.raises(ImportError, match=re.escape(f"built for torch 2.14.0, and this is torch {torch.__version__}:")):
            importlib.reload(oriel.torch)
    finally:
        _built.TORCH = right
