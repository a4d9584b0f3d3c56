#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [--ranks N,N] [--laps N] [--page FILE] [TEST...]: the backend oriel of torch beside gloo.

Runs rank.py with each number of ranks on this machine, by the Python that runs this: both backends in
turns in the same processes, so that the load of the machine is that of both. Prints a table, and
writes it as a page with --page.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from side_by_side import K, machine  # noqa: E402

SMALL, SMALL_GOAL, LARGE_GOAL = 64 * K, 8, 3


def rows_of(ranks, laps, tests):
    """The rows of one job."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    base = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "LAPS": str(laps), "OMP_NUM_THREADS": "1"}
    jobs = [subprocess.Popen([sys.executable, HERE / "rank.py", *tests], env={**base, "RANK": str(rank)},
                             stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, text=True)
            for rank in range(ranks)]
    said, _ = jobs[0].communicate(timeout=1200)
    if any(job.wait(60) for job in jobs):
        sys.exit(f"run.py: a rank failed: codes {[job.returncode for job in jobs]}")
    return [json.loads(line) for line in said.splitlines()]


def cells(row):
    yield row["test"]
    yield f"{row['bytes']}"
    yield str(row["ranks"])
    medians = {}
    for name in ("oriel", "gloo"):
        laps = row["laps_us"][name]
        medians[name] = statistics.median(laps)
        yield f"{medians[name]:.1f}"
        yield f"{min(laps):.1f}"
        yield f"{(max(laps) - min(laps)) / medians[name]:.0%}"
    yield f"{medians['gloo'] / medians['oriel']:.1f}x"
    goal = SMALL_GOAL if row["bytes"] <= SMALL else LARGE_GOAL
    yield "met" if medians["gloo"] >= goal * medians["oriel"] else f"missed ({goal}x)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--laps", type=int, default=9)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    import oriel  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    lines = [["test", "bytes", "ranks", "oriel us", "best", "spread", "gloo us", "best", "spread", "gloo/oriel", "goal"]]
    for ranks in args.ranks.split(","):
        lines += [list(cells(row)) for row in rows_of(int(ranks), args.laps, args.tests)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    table = "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines)
    print(table)
    if args.page:
        args.page.write_text(
            "# The backend oriel of torch beside gloo\n\n"
            "After this page you know what a call of `torch.distributed` takes on CPUs, by either backend.\n\n"
            f"{oriel.version()}; torch {torch.__version__}, Python {sys.version.split()[0]}; {machine()}, load "
            f"{os.getloadavg()[1]:.1f} when it ended. Medians, best and spread of {args.laps} laps in turns, us a call on rank "
            "0, tensors of float32; bytes are those of one rank; by\n\n"
            f"    bench/torch/run.py {' '.join(sys.argv[1:])}\n\n"
            f"The goal is {SMALL_GOAL} times gloo up to {SMALL // K} KiB and {LARGE_GOAL} times above; `send_recv` is half a "
            f"ping-pong.\n\n```\n{table}\n```\n", "utf-8")


if __name__ == "__main__":
    main()
