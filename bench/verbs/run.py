#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links that the host drives and windows by proxy, over libibverbs and Soft-RoCE, beside
perftest: in one virtual machine, row by row in turns."""

import dataclasses
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from side_by_side import (K, M, SECONDS, arguments, better, figure, output, pick, print_columns,
                          spread, stamp, verdict, write_json)

RUN = ROOT / "tests" / "rxe" / "run"
NO_MACHINE = 77


@dataclasses.dataclass(frozen=True)
class Row:
    """@goal: as a part of perftest; the most us, the least GB/s. None: it is not comparable."""

    test: str
    bytes: int
    rounds: int
    goal: float | None
    unit: str = "us"
    ranks: int = 2
    by: str = "oriel"

    @property
    def mode(self):
        return {"write_lat": "one way", "write_bw": "128 under way",
                "atomic_lat": "fetch_add"}[self.test]

    @property
    def key(self):
        return self.test, self.bytes


SIZES = (8, 64, 512, 4 * K)
ROWS = [
    *(Row("write_lat", size, 400, 1.05) for size in SIZES),
    Row("write_lat", 64 * K, 60, 1.05),
    *(Row("write_bw", size, rounds, 0.97, "GB/s")
      for size, rounds in ((64 * K, 150), (256 * K, 60), (M, 24))),
    Row("atomic_lat", 8, 400, 1.1),
]
# Rows of windows; perftest has the same rows.
PROXIED = [Row("write_lat", size, 0, 1.3, by="proxied") for size in (*SIZES, 64 * K)]
# The same from memory that is not registered, and with two requests from 16 bytes on.
PUT_LAT = [Row("write_lat", size, 0, None, by="put_lat") for size in (*SIZES, 64 * K)]
# A row of p2p endpoints; perftest has the same row.
P2P = [Row("write_bw", M, 0, 0.95, "GB/s", by="p2p")]
LISTS = {"oriel": ROWS, "perftest": ROWS, "proxied": PROXIED, "put_lat": PUT_LAT, "p2p": P2P}


class Oriel:
    """The value from which stamp() gets the commit."""

    def __init__(self, tool):
        self.tool = tool

    def version(self):
        return output([self.tool, "--version"]).strip()


def run_machine(peer, tool, first):
    """The lines of lap.sh for one lap in a virtual machine."""
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder, "rows")
        rows.write_text("".join(f"{row.test} {row.bytes} {row.rounds}\n" for row in ROWS))
        command = [RUN, "-t", str(2 * SECONDS), "-e", peer, "-e", tool, "-f", rows,
                   "--script", HERE / "lap.sh", first]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * SECONDS)
    if done.returncode == NO_MACHINE:
        sys.exit(done.stderr)
    if done.returncode != 0:
        raise RuntimeError(f"a lap ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def take(text):
    """us for each row of @text, also for rows that are rates."""
    taken = {name: {} for name in LISTS}
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+) (\w+) (\d+) ([\d.]+)", line.strip())
        if not match:
            continue
        name, test, size, value = match[1], match[2], int(match[3]), float(match[4])
        taken[name][test, size] = size / value if test == "write_bw" else value
    return taken


def missing(taken):
    """The programs and rows that are missing."""
    return [f"{name} {row.test} {row.bytes}" for name, rows in LISTS.items() for row in rows
            if row.key not in taken[name]]


def lap(peer, tool, first):
    """All rows of a virtual machine; if some are missing, of another one, up to twice."""
    for _ in range(3):
        taken = take(run_machine(peer, tool, first))
        if not missing(taken):
            return taken
        print(f"\nmissing, repeating in another virtual machine: {', '.join(missing(taken))}",
              file=sys.stderr)
    raise RuntimeError("three virtual machines in a row have not printed all rows")


def measure(peer, tool, laps):
    taken = {name: {row.key: [] for row in rows} for name, rows in LISTS.items()}
    for number in range(laps):
        print(f"\rlap {number + 1} of {laps}", end="", file=sys.stderr)
        rows_of_lap = lap(peer, tool, ("perftest", "oriel")[number % 2])
        for name, rows in taken.items():
            for key, figures in rows.items():
                figures.append(rows_of_lap[name][key])
    print("\r" + " " * 20 + "\r", end="", file=sys.stderr)
    return taken


def ratio(row, taken, choose):
    """The ratio of our time, or GB/s, to perftest's."""
    return pick(taken, row.by, row, choose) / pick(taken, "perftest", row, choose)


def judge(row, taken):
    if row.goal is None:
        return ""
    part = ratio(row, taken, statistics.median)
    noise = max(spread(taken, name, row) for name in (row.by, "perftest"))
    return verdict(better(row, part, row.goal), noise)


def report(taken):
    """Prints the table. Returns the number of met goals and of all goals."""
    lines = [["test", "bytes", "by", "unit", "oriel", "spread", "at best", "perftest", "spread",
              "at best", "ratio", "at best", "goal", ""]]
    results = []
    for row in ROWS + PROXIED + PUT_LAT + P2P:
        results.append(judge(row, taken))
        beside = [text for name in (row.by, "perftest")
                  for text in (figure(pick(taken, name, row)),
                               figure(spread(taken, name, row), "{:.0%}"),
                               figure(pick(taken, name, row, min)))]
        sign = ">=" if row.unit == "GB/s" else "<="
        goal = "-" if row.goal is None else f"{sign} {row.goal:g}"
        lines.append([row.test, str(row.bytes), row.by, row.unit, *beside,
                      f"{ratio(row, taken, statistics.median):.3f}",
                      f"{ratio(row, taken, min):.3f}", goal, results[-1]])
    print_columns(lines)
    return results.count("met"), len(results) - results.count("")


def path_of(name, _):
    return {"oriel": "rdma[verbs, host]", "proxied": "rdma[verbs, proxy]",
            "put_lat": "rdma[verbs, proxy]", "p2p": "rdma[verbs, p2p]"}.get(name, "verbs")


def main():
    options = arguments(__doc__, "build/verbs")
    peer = pathlib.Path(options.oriel).parent.parent / "rxe" / "host_peer"
    if not os.access(peer, os.X_OK):
        sys.exit(f"{peer}: build it (target host_peer) or give --oriel")
    common = stamp(Oriel(options.oriel), "bench/verbs/run.py")
    print(f"machine: {common['machine']}, with an emulated virtual machine of 2 CPUs; "
          f"median of {options.laps} repetitions in turns\n")
    taken = measure(peer, options.oriel, options.laps)
    met, goals = report(taken)
    print(f"\n{met} of {goals} goals met")
    if options.json:
        write_json(options.json, ROWS, taken, common, path_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
