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
         "groups", "monitored", "refusals", "profiled", "timeouts", "splits", "windows"]


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


def test_a_group_goes_on_without_a_killed_rank(tmp_path):
    # Started alone: the launcher ends all ranks when one is killed.
    ranks = [subprocess.Popen([sys.executable, RANK.with_name("reconfigure_rank.py"), str(rank), "3",
                               str(tmp_path / "store")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for rank in range(3)]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    for rank, was, now in ((2, 0, 0), (0, 2, 1)):
        assert ranks[rank].returncode == 0, said
        assert said[rank].count(f"was {was}, is {now} of 2") == 2 and said[rank].count("sum 2.0") == 2, said


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
