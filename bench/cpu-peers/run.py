#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Oriel beside Open MPI, OpenSHMEM and UCX on this machine, in one run."""

import dataclasses
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from side_by_side import (CORES, K, M, SECONDS, arguments, better, compile_peer, figure, measure,
                          output, parse, pick, print_columns, ready, spread, stamp, verdict,
                          write_json)


@dataclasses.dataclass(frozen=True)
class Row:
    """A compared row. Times are in us; a bandwidth is its bytes over its time."""

    test: str
    mode: str
    bytes: int
    ranks: int
    unit: str = "us"
    goal: float = None  # us at most, GB/s at least
    limit: float = None  # at most so many times the time of limits.c
    mpi: float = None  # at least so many times as fast as Open MPI
    then: float = None  # the best of these peers when the goal was set: makes a ratio

    @property
    def key(self):
        return self.test, self.mode, self.bytes, self.ranks


REDUCED = (8, 4 * K, 64 * K, M, 16 * M)
P2P = ("zero_copy", "copy_based")
ROOTED = (("reduce", "fp32 sum"), ("gather", "all"), ("scatter", "all"))
ROWS = [
    Row("put_flush", "origin", 8, 2, goal=0.02, then=0.051),
    Row("put_signal_lat", "one way", 8, 2, goal=0.125, then=0.13),
    Row("put_signal_lat", "one way", 4 * K, 2, goal=0.18, then=0.27),
    Row("put_signal_lat", "one way", 64 * K, 2, goal=2.4, then=2.35),
    Row("put_signal_lat", "one way", M, 2, limit=1.02),
    Row("put_signal_lat", "one way", 16 * M, 2, limit=1.02),
    Row("fetch_add", "uncontended", 0, 2, goal=0.06, then=0.12),
    Row("fetch_add", "contended", 0, 2, goal=0.25, then=0.38),
    Row("send_recv_lat", "one way", 8, 2, goal=0.18, then=0.27),
    Row("send_recv_lat", "one way", 4 * K, 2, goal=0.5, then=1.3),
    Row("send_recv_lat", "one way", 64 * K, 2, goal=4.5, then=5.2),
    Row("send_recv_bw", "one way", 64 * K, 2, "GB/s", goal=15, then=13.8),
    Row("send_recv_bw", "one way", M, 2, "GB/s", goal=13, then=11.0),
    Row("send_recv_bw", "one way", 16 * M, 2, "GB/s", goal=4.5, then=3.9),
    *(Row("p2p_lat", mode, size, 2) for mode in P2P for size in (8, 4 * K, 64 * K)),
    *(Row("p2p_put_lat", "zero_copy", size, 2) for size in (8, 4 * K, 64 * K)),
    *(Row("p2p_bw", mode, size, 2, "GB/s") for mode in P2P for size in (64 * K, M, 16 * M)),
    *(Row("p2p_bw", f"{mode}, both ways", M, 2, "GB/s") for mode in P2P),
    Row("barrier", "all", 0, 2, goal=0.16, then=0.29),
    Row("barrier", "all", 0, 4, goal=2.2, then=2.77),
    Row("barrier", "all", 0, 16, goal=60),
    Row("allgather", "all", 8, 2, goal=0.25, then=0.46),
    Row("allgather", "all", 64 * K, 2, goal=5.5, then=8.6),
    Row("allgather", "all", M, 2, goal=130, then=174),
    Row("allgather", "all", 8, 4, goal=2.5, then=4.2),
    Row("allgather", "all", 64 * K, 4, goal=40, then=73),
    Row("allgather", "all", M, 4, goal=1000, then=1550),
    *(Row("all_reduce", "fp32 sum", size, ranks, limit=1.11 if size >= M else None, mpi=1.5)
      for ranks in (2, 4) for size in REDUCED),
    *(Row("reduce_scatter", "fp32 sum", size, ranks) for ranks in (2, 4) for size in (8, 64 * K, M)),
    # Of four ranks on two cores the median says which rank ran, for these let ranks run ahead.
    *(Row(test, mode, size, 2, mpi=1) for test, mode in ROOTED for size in (8, 64 * K, M)),
    Row("window_create", "and destroy", M, 2, goal=400, then=880),
    Row("window_create", "and destroy", 16 * M, 2, goal=3000, then=12300),
    Row("launch", "empty program", 0, 4, mpi=4),
]


def timed_launch(command, **options):
    start = time.monotonic()
    output(command, **options)
    return {("launch", "empty program", 0, 4): (time.monotonic() - start) * 1e6}


class Oriel:
    name = "oriel"
    tests = ["put_flush", "put_signal_lat", "atomic_rate", "barrier", "send_recv_lat",
             "send_recv_bw", "p2p_lat", "p2p_put_lat", "p2p_bw", "allgather", "window_create"]

    def __init__(self, build, oriel):
        self.tool = oriel

    def missing(self):
        return None if os.access(self.tool, os.X_OK) else f"{self.tool}: build it or give --oriel"

    def version(self):
        return output([self.tool, "--version"]).strip().removeprefix("oriel ")

    def perf(self, ranks, tests):
        run = [self.tool, "run", "-n", str(ranks), "--no-prefix", "--timeout", str(SECONDS), "--"]
        return parse(output(run + [self.tool, "perf", *tests, "--json", "--reps", "1"]))

    def lap(self):
        rooted = [test for test, _ in ROOTED]
        rows = self.perf(2, self.tests + rooted) | self.perf(4, ["barrier", "allgather"]) | self.perf(16, ["barrier"])
        for ranks in (2, 4):
            rows |= self.perf(ranks, ["all_reduce", "--sizes", ",".join(map(str, REDUCED))])
            rows |= self.perf(ranks, ["reduce_scatter"])
        empty = [self.tool, "perf", "launch", "--json", "--reps", "1", "--iters", "1"]
        return rows | timed_launch([self.tool, "run", "-n", "4", "--", *empty])


class Limit:
    name = "limit"

    def __init__(self, build, oriel):
        self.program = build / "limits"

    def missing(self):
        compiler = os.environ.get("CC", "cc")
        if not shutil.which(compiler):
            return "no C compiler: apt install gcc"
        compile_here([compiler, "-D_GNU_SOURCE"], self.program, "limits.c")
        return None

    def version(self):
        return "plain stores, copies and atomics"

    def lap(self):
        rows = {}
        for ranks in (2, 4, 16):
            rows |= parse(output([self.program, str(ranks)]))
        return rows


class OpenMpi:
    name = "openmpi"
    compiler, source = "mpicc", "mpi_peer.c"
    package = "openmpi-bin libopenmpi-dev"
    environment = []

    def __init__(self, build, oriel):
        self.program = build / pathlib.Path(self.source).stem

    def missing(self):
        for tool in (self.compiler, "mpirun"):
            if not shutil.which(tool):
                return f"no {tool}: apt install {self.package}"
        compile_here([self.compiler], self.program, self.source)
        return None

    def version(self):
        return output(["mpirun", "--version"]).splitlines()[0]

    def command(self, ranks, *arguments):
        place = ["--bind-to", "core", "--map-by", "core"]
        if ranks > len(CORES):
            place = ["--oversubscribe", "--bind-to", "none"]
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return ["mpirun", *root, "-np", str(ranks), *place, *self.environment, self.program,
                *arguments]

    def lap(self):
        rows = {}
        for ranks in (2, 4, 16):
            rows |= parse(output(self.command(ranks)))
        return rows | timed_launch(self.command(4, "empty"))


class OpenShmem(OpenMpi):
    name = "openshmem"
    compiler, source = "oshcc", "shmem_peer.c"
    environment = ["-x", "SHMEM_SYMMETRIC_SIZE=64M"]

    def version(self):
        return f"of {super().version()}"

    def lap(self):
        """Open MPI 4.1's shmem_finalize may crash after the last row."""
        rows = {}
        for ranks in (2, 4, 16):
            done = subprocess.run(self.command(ranks), capture_output=True, text=True,
                                  timeout=SECONDS)
            rows |= parse(done.stdout)
            if ("barrier", "all", 0, ranks) not in rows:
                raise RuntimeError(f"{self.program}: code {done.returncode}\n{done.stderr}")
        return rows


class Ucx:
    name = "ucx"
    # our test and mode, theirs, sizes, rounds of each
    tests = [
        ("put_signal_lat", "one way", "ucp_put_lat", [(8, 200000), (4 * K, 100000), (64 * K, 20000),
                                                      (M, 1000), (16 * M, 20)]),
        ("fetch_add", "uncontended", "ucp_fadd", [(8, 300000)]),
        ("send_recv_lat", "one way", "tag_lat", [(8, 200000), (4 * K, 20000), (64 * K, 5000)]),
        ("send_recv_bw", "one way", "tag_bw", [(64 * K, 10000), (M, 600), (16 * M, 40)]),
    ]

    def __init__(self, build, oriel):
        self.environment = os.environ | {"UCX_TLS": "posix,self"}

    def missing(self):
        if not shutil.which("ucx_perftest"):
            return "no ucx_perftest: apt install ucx-utils"
        return None

    def version(self):
        return re.search(r"Version (\S+)", output(["ucx_info", "-v"]))[1] + ", UCX_TLS=posix,self"

    def pair(self, port, test, size, rounds):
        """us of one operation: the median or the mean, whichever is better."""
        server = subprocess.Popen(["ucx_perftest", "-p", str(port), "-c", str(CORES[-1])],
                                  env=self.environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        command = ["ucx_perftest", "127.0.0.1", "-p", str(port), "-c", str(CORES[0]), "-t", test,
                   "-s", str(size), "-n", str(rounds), "-w", str(max(2, rounds // 10)), "-f", "-v"]
        try:
            return self.client(command, test)
        finally:
            server.kill()
            server.wait()

    def client(self, command, test):
        deadline = time.monotonic() + 5
        while True:
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True,
                                  timeout=SECONDS)
            fields = done.stdout.strip().splitlines()[-1:] or [""]
            fields = fields[0].split(",")
            if done.returncode == 0 and len(fields) > 3:
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
            time.sleep(0.02)  # the server does not listen yet
        if test == "tag_bw":
            return float(fields[2])
        return min(float(fields[1]), float(fields[2]))

    def lap(self):
        rows = {}
        for test, mode, theirs, sizes in self.tests:
            for size, rounds in sizes:
                us = self.pair(random.randrange(20000, 30000), theirs, size, rounds)
                rows[test, mode, 0 if theirs == "ucp_fadd" else size, 2] = us
                if theirs.startswith("tag_"):
                    rows |= {(test.replace("send_recv", "p2p"), one, size, 2): us for one in P2P}
                if theirs == "ucp_put_lat":
                    rows["p2p_put_lat", "zero_copy", size, 2] = us
        return rows


def compile_here(compiler, program, source):
    compile_peer(compiler, program, HERE / source, HERE / "peer.c")


def pick_best(taken, names, row, choose=statistics.median):
    """The best of several programs."""
    known = [value for name in names if (value := pick(taken, name, row, choose)) is not None]
    if not known:
        return None
    return max(known) if row.unit == "GB/s" else min(known)


def at_limit(result, taken, row, mine):
    """A goal that is beyond what the machine allows is not missed."""
    limit = pick(taken, "limit", row)
    return "at the limit" if result != "met" and limit and mine <= 1.05 * limit else result


def judge(row, taken, mine, best):
    """The goal and its result; the same as a ratio to the best peer, or that to Open MPI."""
    noise = spread(taken, "oriel", row)
    limit, mpi = pick(taken, "limit", row), pick(taken, "openmpi", row)
    texts = []
    if row.limit and limit:
        texts += [f"<= {row.limit:g} of limit",
                  verdict(row.limit * limit / mine, max(noise, spread(taken, "limit", row)))]
    if row.mpi and mpi:
        result = verdict(mpi / row.mpi / mine, max(noise, spread(taken, "openmpi", row)))
        texts += [f">= {row.mpi:g}x openmpi", at_limit(result, taken, row, mine)]
    if texts:
        return (*texts, "", "")[:4]
    if row.goal is None:
        return "", "", "", ""
    sign = ">=" if row.unit == "GB/s" else "<="
    text = f"{sign} {row.goal:g} {row.unit}", verdict(better(row, mine, row.goal), noise)
    if best is None or row.then is None:
        return *text, "", ""
    wanted = better(row, row.goal, row.then)
    result = verdict(better(row, mine, best) / wanted, noise)
    return *text, f">= {wanted:.2f}x", at_limit(result, taken, row, mine)


def ratio(taken, peers, row, choose):
    best = pick_best(taken, peers, row, choose)
    return None if best is None else better(row, pick(taken, "oriel", row, choose), best)


def report(taken, names):
    peers = [name for name in names if name not in ("oriel", "limit")]
    lines = [["test", "mode", "bytes", "ranks", "unit", "oriel", "spread", *peers, "limit",
              "spread", "peer/oriel", "at best", "goal", "", "as a ratio", ""]]
    for row in ROWS:
        mine = pick(taken, "oriel", row)
        if mine is None:
            continue
        lines.append([row.test, row.mode, str(row.bytes), str(row.ranks), row.unit, figure(mine),
                      figure(spread(taken, "oriel", row), "{:.0%}"),
                      *(figure(pick(taken, name, row)) for name in peers),
                      figure(pick(taken, "limit", row)),
                      figure(spread(taken, "limit", row) if "limit" in taken else None, "{:.0%}"),
                      figure(ratio(taken, peers, row, statistics.median), "{:.2f}x"),
                      figure(ratio(taken, peers, row, min), "{:.2f}x"),
                      *judge(row, taken, mine, pick_best(taken, peers, row))])
    print_columns(lines)


def main():
    options = arguments(__doc__, "build/cpu-peers")
    programs = ready([kind(options.build, options.oriel)
                      for kind in (Oriel, Limit, OpenMpi, OpenShmem, Ucx)])
    if not programs or programs[0].name != "oriel":
        return 1
    common = stamp(programs[0], "bench/cpu-peers/run.py")
    print(f"machine: {common['machine']}; median of {options.laps} interleaved repetitions\n")
    taken = measure(programs, options.laps)
    report(taken, [program.name for program in programs])
    if options.json:
        write_json(options.json, ROWS, taken, common, lambda name, row: "mapped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
