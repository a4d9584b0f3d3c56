#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rdma path over the software HCA, beside bare sockets, in one run."""

import dataclasses
import json
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from side_by_side import (K, M, SECONDS, arguments, better, compile_peer, figure, measure, output,
                          parse, pick, print_columns, ready, spread, stamp, verdict, write_json)

PEERS = ("proxy", "unix", "tcp")


@dataclasses.dataclass(frozen=True)
class Row:
    """A measured row; @threads of a team post, each by itself."""

    test: str
    mode: str
    bytes: int
    unit: str = "us"
    goal: float = None  # us or ns at most, GB/s at least
    threads: int = 1
    ranks: int = 2

    @property
    def key(self):
        return self.test, self.mode, self.bytes, self.ranks, self.threads


SIZES = [8, 4 * K, 64 * K, M]
POSTS = ["1 a post", "2 a post", "4 a post", "8 a post", "16 a post", "32 a post"]
GOALS = {"1 a post": 60, "32 a post": 15}
ROWS = [
    *(Row("put_signal_lat", "one way", size, goal=12 if size == 8 else None) for size in SIZES),
    *(Row("put_bw", "64 a flush", size, "GB/s", 2 if size == M else None) for size in SIZES),
    *(Row(test, mode, size) for size in (8, 4 * K, 64 * K)
      for test, mode in (("put_local", "wait_local"), ("put_counter", "wait_counter"))),
    Row("get_lat", "origin", 8),
    Row("fetch_add", "uncontended", 0),
    Row("barrier", "all", 0),
    *(Row("wqe_rate", mode, 0, "ns", GOALS.get(mode)) for mode in POSTS),
    *(Row("wqe_rate", mode, 0, "ns", threads=2) for mode in (*POSTS, "cooperative")),
]


def rows_of(text):
    """The JSON lines of @text by the key of Row."""
    threads = 1
    for line in text.splitlines():
        if line.startswith("{"):
            threads = json.loads(line).get("threads", 1)
    return {(*key, threads): us for key, us in parse(text).items()}


class Oriel:
    tests = ["put_signal_lat", "put_bw", "get_lat", "counter", "atomic_rate", "barrier"]

    def __init__(self, oriel, name="oriel", post="rings"):
        self.tool = oriel
        self.name = name
        self.post = post

    def missing(self):
        return None if os.access(self.tool, os.X_OK) else f"{self.tool}: build it or give --oriel"

    def version(self):
        return output([self.tool, "--version"]).strip().removeprefix("oriel ")

    def perf(self, *arguments, scenario=""):
        command = [self.tool, "run", "-n", "2", "--nodes", "2", "--no-prefix", "--timeout",
                   str(SECONDS), "--", self.tool, "perf", *arguments, "--json", "--reps", "1"]
        return rows_of(output(command, env=os.environ | {"ORIEL_HCA": "soft", "ORIEL_SOFT_HCA": scenario,
                                                         "ORIEL_POST": self.post}))

    def lap(self):
        sizes = ",".join(map(str, SIZES))
        return (self.perf(*self.tests, "--sizes", sizes)
                | self.perf("wqe_rate", scenario="sink=1")
                | self.perf("wqe_rate", "--group", "team:2", scenario="sink=1"))


class Wire:
    """A bare socket, which carries the packets of the software HCA."""

    def __init__(self, name, build):
        self.name = name
        self.program = build / "wire"

    def missing(self):
        compiler = os.environ.get("CC", "cc")
        if not shutil.which(compiler):
            return "no C compiler: apt install gcc"
        peers = HERE.parent / "cpu-peers"
        compile_peer([compiler, "-D_GNU_SOURCE", f"-I{peers}"], self.program, HERE / "wire.c",
                     peers / "peer.c")
        return None

    def version(self):
        return f"two processes and one {self.name} socket, polled"

    def lap(self):
        return rows_of(output([self.program, self.name]))


def judge(row, taken, mine):
    if row.goal is None:
        return "", ""
    sign = ">=" if row.unit == "GB/s" else "<="
    return (f"{sign} {row.goal:g} {row.unit}",
            verdict(better(row, mine, row.goal), spread(taken, "oriel", row)))


def report(taken, names):
    """Prints the table. Returns the rows whose goal is missed."""
    peers = [name for name in PEERS if name in names]
    lines = [["test", "mode", "threads", "bytes", "unit", "oriel", "spread", "at best",
              *(word for name in peers for word in (name, "spread")), "goal", ""]]
    missed = []
    for row in ROWS:
        mine = pick(taken, "oriel", row)
        if mine is None:
            raise RuntimeError(f"oriel perf measured no {row.key}")
        goal, result = judge(row, taken, mine)
        missed += [row] if result.startswith("missed") else []
        best = pick(taken, "oriel", row, min)
        beside = [text for name in peers
                  for text in (figure(pick(taken, name, row)),
                               figure(spread(taken, name, row), "{:.0%}"))]
        lines.append([row.test, row.mode, str(row.threads), str(row.bytes), row.unit, figure(mine),
                      figure(spread(taken, "oriel", row), "{:.0%}"), figure(best), *beside, goal,
                      result])
    print_columns(lines)
    return missed


def path_of(name, row):
    if name not in ("oriel", "proxy"):
        return name
    path = "rdma[sink" if row.test == "wqe_rate" else "rdma[soft"
    return path + (", proxy]" if name == "proxy" else "]")


def main():
    options = arguments(__doc__, "build/soft-hca")
    programs = ready([Oriel(options.oriel), Oriel(options.oriel, "proxy", "proxy"),
                      *(Wire(name, options.build) for name in ("unix", "tcp"))])
    if not programs or programs[0].name != "oriel":
        return 1
    common = stamp(programs[0], "bench/soft-hca/run.py")
    print(f"machine: {common['machine']}; median of {options.laps} interleaved repetitions")
    print("the software HCA is for development and tests: no NIC is used\n")
    taken = measure(programs, options.laps)
    missed = report(taken, [program.name for program in programs])
    goals = sum(row.goal is not None for row in ROWS)
    print(f"\n{goals - len(missed)} of {goals} goals met")
    if options.json:
        write_json(options.json, ROWS, taken, common, path_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
