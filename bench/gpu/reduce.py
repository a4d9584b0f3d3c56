#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Oriel's reductions of GPU memory beside NCCL's and PyTorch's, in one command: reduce.py DIRECTORY
[--gpus N] [--json FILE], measure with DIRECTORY/reduce_rows, and with PyTorch where that is, and
print a table; reduce.py FILE, print that of rows."""

import os
import pathlib
import subprocess
import sys

import run

K, M = 1 << 10, 1 << 20
GOALS = {(2, 512 * K): 6.5}  # us at most of an all-reduce, by ranks and bytes
LIMIT_BYTES, LIMIT_RATIO = 256 * M, 0.95  # of the bare kernel's speed
TORCH_SECONDS = 150
PEERS = ("nccl", "torch")


def table(rows, test):
    rows = [r for r in rows if r["test"] == test]
    if not rows:
        return
    print(f"{test}\n{'GPUs':>4} {'bytes':>9} {'':5} {'auto us':>9} {'GB/s':>6}  {'best of Oriel':29} "
          f"{'best of NCCL':29} {'best of PyTorch':29} {'ratio':>5}")
    keys = sorted({(r["ranks"], r["bytes"], r["mode"].rsplit(", ", 1)[1]) for r in rows})
    for ranks, size, form in keys:
        mine = [r for r in rows if (r["ranks"], r["bytes"]) == (ranks, size)
                and r["mode"].endswith(form)]
        auto = next((r for r in mine if r["impl"] == "oriel" and r["mode"] == f"auto, {form}"),
                    None)
        best = {impl: run.fastest(mine, impl) for impl in ("oriel", *PEERS)}
        peer = min((best[p]["median_us"] for p in PEERS if best[p]), default=0)
        ratio = peer / auto["median_us"] if auto else 0
        goal = GOALS.get((ranks, size)) if test == "allreduce" else None
        met = "" if not goal or not auto else (
            f"goal {goal} {'met' if auto['median_us'] <= goal else 'MISSED'}")
        print(f"{ranks:4} {size:9} {form:5} {auto['median_us'] if auto else 0:9.2f} "
              f"{auto['gbps'] if auto else 0:6.1f}  "
              f"{' '.join(run.cell(best[impl], 19) for impl in ('oriel', *PEERS))} "
              f"{ratio:5.2f} {'' if ratio >= 1 else 'BEHIND'} {met}")
    print()


def limits(rows):
    """The longest all-reduce in place beside the kernel that synchronises nothing."""
    for row in rows:
        if (row["impl"], row["mode"], row["bytes"]) != ("bare", "two shots, eager", LIMIT_BYTES):
            continue
        for mode in ("in place, eager", "auto, eager"):
            mine = next((r for r in rows if r["impl"] == "oriel" and r["mode"] == mode and
                         (r["test"], r["ranks"], r["bytes"]) ==
                         ("allreduce", row["ranks"], row["bytes"])), None)
            if mine:
                ratio = row["median_us"] / mine["median_us"]
                print(f"{row['ranks']:4} GPUs, {mode} of {LIMIT_BYTES // M} MiB: "
                      f"{mine['gbps']:.1f} GB/s, {ratio:.3f} of the bare two shots "
                      f"({row['gbps']:.1f}), goal {LIMIT_RATIO} "
                      f"{'met' if ratio >= LIMIT_RATIO else 'MISSED'}")


def torch_rows(gpus):
    """Rows of PyTorch, and whether it ended well; none where it is not installed."""
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch.distributed._symmetric_memory"],
                      capture_output=True, check=False).returncode:
        print("no PyTorch with symmetric memory (TORCH_PYTHON names its python)", file=sys.stderr)
        return [], True
    script = pathlib.Path(__file__).with_name("reduce_torch.py")
    return run.run([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                    str(gpus), str(script)], f"{script.name} {gpus}", TORCH_SECONDS)


def main():
    options = run.parser_of(__doc__).parse_args()

    def measure_on(gpus):
        (rows, is_well), (others, are_well) = (
            run.run_program(options.what / "reduce_rows", str(gpus)), torch_rows(gpus))
        return rows + others, is_well and are_well

    rows, is_complete = run.rows_of(options, measure_on)
    for test in ("allreduce", "reduce_scatter"):
        table(rows, test)
    limits(rows)
    sys.exit(0 if rows and is_complete else 1)


if __name__ == "__main__":
    main()
