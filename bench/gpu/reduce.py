#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Oriel's reductions of GPU memory beside NCCL's and PyTorch's, in one command: reduce.py DIRECTORY
[--gpus N] [--json FILE], measure with DIRECTORY/reduce_rows, and with PyTorch where that is, and
print a table; reduce.py FILE, print that of rows."""

import argparse
import json
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


def cell(row):
    return f"{row['median_us']:9.2f} {row['mode'].rsplit(', ', 1)[0]:19}" if row else f"{'-':>29}"


def best_of(rows, impl):
    return min((r for r in rows if r["impl"] == impl), default=None, key=lambda r: r["median_us"])


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
        best = {impl: best_of(mine, impl) for impl in ("oriel", *PEERS)}
        peer = min((best[p]["median_us"] for p in PEERS if best[p]), default=0)
        ratio = peer / auto["median_us"] if auto else 0
        goal = GOALS.get((ranks, size)) if test == "allreduce" else None
        met = "" if not goal or not auto else (
            f"goal {goal} {'met' if auto['median_us'] <= goal else 'MISSED'}")
        print(f"{ranks:4} {size:9} {form:5} {auto['median_us'] if auto else 0:9.2f} "
              f"{auto['gbps'] if auto else 0:6.1f}  {cell(best['oriel'])} {cell(best['nccl'])} "
              f"{cell(best['torch'])} {ratio:5.2f} {'' if ratio >= 1 else 'BEHIND'} {met}")
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


def torch_rows(gpus, env):
    """Rows of PyTorch, and whether it ended well; none where it is not installed."""
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch.distributed._symmetric_memory"],
                      capture_output=True, check=False).returncode:
        print("no PyTorch with symmetric memory (TORCH_PYTHON names its python)", file=sys.stderr)
        return [], True
    script = pathlib.Path(__file__).with_name("reduce_torch.py")
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
               str(gpus), str(script)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_SECONDS,
                              env=env, check=False)
    except subprocess.TimeoutExpired:
        print(f"reduce_torch.py: timed out after {TORCH_SECONDS} s", file=sys.stderr)
        return [], False
    rows = [json.loads(line) | {"command": f"reduce_torch.py {gpus}"}
            for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        print(f"reduce_torch.py: exit code {done.returncode}: {done.stderr[-1500:]}",
              file=sys.stderr)
    return rows, done.returncode == 0


def measure(options):
    # Multicast can take the GPUs of a shared host out of service.
    env = dict(os.environ, NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
    rows, is_complete = [], True
    for _ in range(options.passes):
        for gpus in sorted({2, options.gpus}):
            for got, is_well in (run.run(options.what / "reduce_rows", [str(gpus)], env),
                                 torch_rows(gpus, env)):
                rows += got
                is_complete &= is_well
    rows = run.merge(rows)
    stamp = {"commit": options.commit, "machine": run.machine(),
             "versions": run.versions(options.what)}
    for row in rows:
        row |= stamp
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return rows, is_complete


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", type=pathlib.Path)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    parser.add_argument("--commit", default=run.output_of(
        "git", "-C", str(pathlib.Path(__file__).parent), "rev-parse", "--short", "HEAD"),
        help="of the sources, where git does not know")
    options = parser.parse_args()
    is_complete = True
    if options.what.is_dir():
        rows, is_complete = measure(options)
    else:
        with open(options.what, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file if line.startswith("{")]
    for test in ("allreduce", "reduce_scatter"):
        table(rows, test)
    limits(rows)
    sys.exit(0 if rows and is_complete else 1)


if __name__ == "__main__":
    main()
