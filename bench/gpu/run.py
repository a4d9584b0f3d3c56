#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Oriel's device code beside NVSHMEM and NCCL on the GPUs of this machine, in one run.

With one GPU: posting, and operations between ranks that share it (--gpus 1)."""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys

SECONDS = 100  # no single program takes longer
ON_ONE = ("post_rows", "peer_rows")  # programs that need one GPU
# Multicast can take the GPUs of a shared host out of service.
ENV = dict(os.environ, NCCL_NVLS_ENABLE="0", NVSHMEM_DISABLE_NVLS="1",
           TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
K, M, G = 1 << 10, 1 << 20, 1 << 30


@dataclasses.dataclass(frozen=True)
class Goal:
    """A goal: the most us, the least GB/s, or the least ratio to NCCL."""

    test: str
    mode: str  # or several, with commas
    bytes: int = 0
    threads: int = 0  # 0: the best of any
    blocks: int = 0
    ranks: int = 2
    us: float = None
    gbps: float = None
    ratio: float = None


GOALS = [
    Goal("put_bw", "one way", blocks=1, gbps=45),
    Goal("put_bw", "one way,in turns", blocks=8, gbps=350),
    Goal("put_bw", "one way,in turns", blocks=32, gbps=362),
    Goal("put_bw", "one way,in turns", blocks=132, gbps=370),
    Goal("put_value", "one way", 8, us=0.750),
    Goal("signal", "unordered", us=0.760),
    Goal("signal", "ordered", us=1.350),
    Goal("put_signal", "one way", 8, 32, us=1.800),
    Goal("put_signal", "one way", 4 * K, 256, us=1.850),
    Goal("put_signal", "one way", 64 * K, 1024, us=3.450),
    Goal("put_ll", "one way", 8, us=0.850),
    Goal("put_ll", "one way", 4 * K, 256, us=1.250),
    Goal("barrier", "in kernel", us=1.400),
    Goal("barrier", "in kernel", ranks=4, us=1.550),
    Goal("send_recv", "both ways", 8, ratio=1.3),
    Goal("send_recv", "both ways", M, ratio=1.3),
    Goal("send_recv", "both ways", G, ratio=1.02),
    Goal("post_put", "pinned ring", ranks=1, us=1.0),
    Goal("post_batch", "pinned ring", ranks=1, us=0.060),
]


def run(command, label, seconds=SECONDS):
    """The rows of the command, and whether it succeeded; @label is what they are said to be of."""
    name = label.split()[0]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=ENV)
    except subprocess.TimeoutExpired as expired:
        print(f"{name}: timed out after {seconds} s", file=sys.stderr)
        done = subprocess.CompletedProcess(command, 124, expired.stdout or "", "")
        if isinstance(done.stdout, bytes):
            done.stdout = done.stdout.decode()
    rows = [json.loads(line) | {"command": label}
            for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        print(f"{name}: exit code {done.returncode}: {done.stderr[-1500:]}", file=sys.stderr)
    return rows, done.returncode == 0


def run_program(program, *words):
    return run([str(program), *words], " ".join([program.name, *words]))


def turns(arguments):
    """The runs of each pass: program, arguments. First pairs of GPUs, then all GPUs."""
    for name in arguments.only.split(","):
        if arguments.gpus < 2 and name not in ON_ONE:
            continue
        if name in ("limits", *ON_ONE):
            yield name, []
            continue
        yield name, ["2"]
        if arguments.gpus > 2:
            yield name, [str(arguments.gpus)] + (["barrier"] if name == "oriel_rows" else [])


def measure(arguments):
    """All rows of all passes. Prints for each program whether it wrote all of its rows."""
    runs, seen = [], {}
    for turn in range(arguments.passes):
        for name, words in turns(arguments):
            if turn and not words:
                continue
            program = arguments.directory / name
            rows, is_well = run_program(program, *words) if program.exists() else ([], False)
            runs += rows
            seen.setdefault(" ".join([name, *words]), []).append(
                (is_well, {key_of(row) for row in rows}))
    is_complete = True
    for command, passes in seen.items():
        whole = set.union(*(keys for _, keys in passes))
        is_well = bool(whole) and all(well and keys == whole for well, keys in passes)
        is_complete &= is_well
        print(f"{command:16} {len(whole):4} rows, {len(passes)} passes: "
              f"{'complete' if is_well else 'NOT COMPLETE'}")
    return runs, is_complete


def key_of(row):
    return tuple(row[k] for k in ("test", "impl", "mode", "ranks", "bytes", "threads", "blocks"))


def merge(runs):
    """One row of all passes: median of the medians, worst p99, spread of the medians."""
    merged = {}
    for row in runs:
        merged.setdefault(key_of(row), []).append(row)
    result = []
    for rows in merged.values():
        medians = [r["median_us"] for r in rows]
        row = dict(rows[0])
        row["median_us"] = statistics.median(medians)
        row["p99_us"] = max(r["p99_us"] for r in rows)
        row["spread"] = (max(medians) - min(medians)) / row["median_us"]
        row["runs"] = len(rows)
        if row["gbps"] is not None:
            row["gbps"] = rows[0]["gbps"] * rows[0]["median_us"] / row["median_us"]
        result.append(row)
    return result


def fits(goal, row):
    return (row["test"] == goal.test and row["mode"] in goal.mode.split(",")
            and row["ranks"] == goal.ranks
            and (not goal.bytes or row["bytes"] == goal.bytes)
            and (not goal.blocks or row["blocks"] == goal.blocks))


def best(rows, goal, impl):
    rows = [r for r in rows if fits(goal, r) and r["impl"] == impl
            and (impl != "oriel" or not goal.threads or r["threads"] == goal.threads)]
    if not rows:
        return None
    if goal.gbps:
        return max(rows, key=lambda r: r["gbps"])
    return min(rows, key=lambda r: r["median_us"])


def show(row, goal):
    if row is None:
        return "-"
    return f"{row['gbps']:.1f} GB/s" if goal.gbps else f"{row['median_us'] * 1e3:.0f} ns"


def judge(rows, goals=GOALS):
    """Prints the goals and their results beside the best peer, missing rows included."""
    print(f"{'row':44} {'goal':>12} {'oriel':>12} {'spread':>7} {'best peer':>22}  verdict")
    for goal in goals:
        ours = best(rows, goal, "oriel")
        if ours is None:
            if goal.ranks == 2 or any(r["ranks"] == goal.ranks for r in rows):
                print(f"{goal.test} {goal.mode} {goal.bytes or ''} ranks {goal.ranks}: NO ROW")
            continue
        peers = [(p, best(rows, goal, p)) for p in ("nvshmem", "nccl")]
        peers = [(p, r) for p, r in peers if r]
        name, peer = min(peers, key=lambda x: x[1]["median_us"] / max(x[1]["bytes"], 1),
                         default=("", None))
        if goal.ratio:
            wanted = f"{goal.ratio}x of nccl"
            nccl = dict(peers).get("nccl")
            met = nccl and nccl["median_us"] / ours["median_us"] >= goal.ratio
            if nccl:
                wanted += f" ({nccl['median_us'] / ours['median_us']:.2f})"
        elif goal.gbps:
            wanted, met = f"{goal.gbps} GB/s", ours["gbps"] >= goal.gbps
        else:
            wanted, met = f"{goal.us * 1e3:.0f} ns", ours["median_us"] <= goal.us
        label = f"{goal.test} {ours['mode']} {goal.bytes or ''}"
        label += f" {ours['blocks']}x{ours['threads']} ranks {goal.ranks}"
        print(f"{label:44} {wanted:>12} {show(ours, goal):>12} {ours['spread']:6.1%} "
              f"{show(peer, goal) + ' ' + name:>22}  {'met' if met else 'MISSED'}")


def table(rows):
    print(f"\n{'test':17} {'mode':36} {'impl':8} {'R':>1} {'bytes':>10} {'blk':>4} {'thr':>4} "
          f"{'median':>10} {'p99':>10} {'GB/s':>8}")
    for r in rows:
        speed = f"{r['gbps']:8.1f}" if r["gbps"] is not None else ""
        print(f"{r['test']:17} {r['mode']:36} {r['impl']:8} {r['ranks']:1} {r['bytes']:10} "
              f"{r['blocks']:4} {r['threads']:4} {r['median_us']:10.3f} {r['p99_us']:10.3f} "
              f"{speed}")


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine():
    names = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    return f"{len(names)} x {names[0]}" if names else "unknown"


def versions(directory):
    """Of the driver and of what bench/gpu/build found, CUDA and the peers."""
    drivers = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    built = directory / "versions"
    names = [f"driver {d}" for d in sorted(set(drivers.splitlines()))]
    return ", ".join(names + (built.read_text().splitlines() if built.exists() else []))


def versions_text(rows):
    """For a page: the versions of its rows, by commit where rows of several are mixed."""
    by_commit = {}
    for row in rows:
        by_commit.setdefault(row.get("versions") or "not recorded", set()).add(row["commit"])
    return "; ".join(f"{names} ({', '.join(sorted(commits))})" for names, commits
                     in sorted(by_commit.items()))


def read_rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.startswith("{")]


def write_rows(rows, path, mode="w"):
    with open(path, mode, encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def stamped(runs, commit, directory):
    """One row of all passes, with what was measured and where."""
    stamp = {"commit": commit, "machine": machine(), "versions": versions(directory)}
    return [row | stamp for row in merge(runs)]


def add_commit(parser):
    parser.add_argument("--commit", default=output_of(
        "git", "-C", str(pathlib.Path(__file__).parent), "rev-parse", "--short", "HEAD"),
        help="of the sources, where git does not know")


def parser_of(text):
    """The arguments of gather.py and reduce.py."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("what", type=pathlib.Path)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    add_commit(parser)
    return parser


def rows_of(options, measure_on):
    """The rows of a file, or those of all passes of measure_on(GPUs); and are they complete?"""
    if not options.what.is_dir():
        return read_rows(options.what), True
    runs, is_complete = [], True
    for _ in range(options.passes):
        for gpus in sorted({2, options.gpus}):
            got, is_well = measure_on(gpus)
            runs += got
            is_complete &= is_well
    rows = stamped(runs, options.commit, options.what)
    if options.json:
        write_rows(rows, options.json)
    return rows, is_complete


def fastest(rows, impl):
    return min((r for r in rows if r["impl"] == impl), default=None, key=lambda r: r["median_us"])


def cell(row, width):
    """Time and method of a row, in a table."""
    if not row:
        return f"{'-':>{width + 10}}"
    return f"{row['median_us']:9.2f} {row['mode'].rsplit(', ', 1)[0]:{width}}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path, help="of bench/gpu/build")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--only", default="limits,oriel_rows,nvshmem_rows,nccl_rows,"
                        + ",".join(ON_ONE))
    parser.add_argument("--json", type=pathlib.Path, help="append the rows to this file")
    add_commit(parser)
    parser.add_argument("--all", action="store_true", help="print every row")
    arguments = parser.parse_args()
    runs, is_complete = measure(arguments)
    rows = stamped(runs, arguments.commit, arguments.directory)
    if arguments.json:
        write_rows(rows, arguments.json, "a")
    if arguments.all:
        table(rows)
    judge(rows, GOALS if arguments.gpus > 1 else [g for g in GOALS if g.ranks == 1])
    sys.exit(0 if is_complete else 1)


if __name__ == "__main__":
    main()
