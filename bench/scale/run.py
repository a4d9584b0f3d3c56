#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The start of jobs of many ranks, and what a rank holds: rows, a fitted model, and its tables.

    bench/scale/run.py --json bench/results/scale.jsonl    # measures, and prints the page's tables
    bench/scale/run.py --from bench/results/scale.jsonl    # prints them again
    bench/scale/run.py --jobs 128x16 64x1                  # these jobs alone
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from side_by_side import output, stamp

# Ranks on nodes, +N: each puts to N ranks instead of one; "t": ranks as threads of one process;
# "mpi": the same by mpirun.
JOBS = ["2x1", "2x2", "4x1", "4x2", "8x1", "8x2", "8x8", "16x1", "16x4", "16x16", "32x1", "32x4",
        "32x16", "64x1", "64x8", "64x16", "128x1", "128x8", "128x16", "64mpi", "2t", "8t", "32t",
        "32x16+4", "32x16+16", "128t", "512t"]
SECONDS = 300
MANY = 16384  # ranks of the extrapolation
NODE = 8  # of them on a node

# Quantity of a rank, its name in the tables, and by how much its numbers are divided.
HELD = [("dirty_kib", "private memory, KiB", 1), ("rss_kib", "resident, KiB", 1),
        ("space_kib", "address space, MiB", 1024), ("files", "descriptors", 1),
        ("threads", "threads", 1)]
# What a rank's part of each grows by: see fit().
TERMS = ["base", "NICs", "per peer", "per mapped peer", "per link"]


class Tool:
    """The value from which stamp() gets the commit."""

    def __init__(self, path):
        self.path = path

    def version(self):
        return output([self.path, "--version"])


def compile_c(compiler, program, source, *libraries):
    output([*compiler, "-O2", "-o", program, source, *libraries])


def build_programs(options):
    library = pathlib.Path(options.oriel).parent.parent / "lib"
    include = HERE.parent.parent / "include"
    compile_c([os.environ.get("CC", "cc"), "-D_GNU_SOURCE", f"-I{include}"],
              options.build / "start", HERE / "start.c", f"-L{library}", "-loriel", "-lpthread",
              f"-Wl,-rpath,{library}")
    if shutil.which("mpicc") and shutil.which("mpirun"):
        compile_c(["mpicc"], options.build / "mpi_start", HERE / "mpi_start.c")


def command_of(options, job):
    start = options.build / "start"
    if job.endswith("mpi"):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", job[:-3],
                options.build / "mpi_start"]
    if job.endswith("t"):
        return [start, job[:-1]]
    ranks, nodes = job.partition("+")[0].split("x")
    return [options.oriel, "run", "-n", ranks, "--nodes", nodes, "--no-prefix", "--", start]


def measure_job(options, job):
    """The row of one job."""
    env = os.environ | {"START_NS": str(time.monotonic_ns()), "ORIEL_HCA": "soft",
                        "START_PEERS": job.partition("+")[2] or "1"}
    done = subprocess.run(command_of(options, job), env=env, capture_output=True, text=True,
                          timeout=SECONDS)
    rows = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(rows) != 1:
        raise RuntimeError(f"{job}: code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(rows[0]) | {"job": job}


def measure(options):
    """All jobs in turns, so that a slow second of the machine spoils one row of several."""
    common = stamp(Tool(options.oriel), "bench/scale/run.py")
    rows = []
    for lap in range(options.laps):
        for job in options.jobs:
            if job.endswith("mpi") and not (options.build / "mpi_start").exists():
                continue
            row = measure_job(options, job) | {"lap": lap}
            print(f"{job}: {row['ready_us_max'] / 1e6:.2f} s", file=sys.stderr)
            rows.append(row | common)
    return rows


def medians(rows):
    """{job: row}, with the median of each number over the laps."""
    of = collections.defaultdict(list)
    for row in rows:
        of[row["job"]].append(row)
    result = {}
    for job, laps in of.items():
        result[job] = dict(laps[0])
        for key, value in laps[0].items():
            if isinstance(value, (int, float)) and key != "lap":
                result[job][key] = statistics.median(lap[key] for lap in laps)
    return result


def terms_of(ranks, domain, links):
    """By what each of TERMS is multiplied for one rank."""
    return [1, int(domain < ranks), ranks - 1, domain - 1, links]


def solve(matrix, values):
    """Least squares by the normal equations, each row weighted by its own value."""
    count = len(matrix[0])
    a = [[0.0] * (count + 1) for _ in range(count)]
    for terms, value in zip(matrix, values):
        weight = 1 / max(value, 1) ** 2
        for i in range(count):
            for j in range(count):
                a[i][j] += weight * terms[i] * terms[j]
            a[i][count] += weight * terms[i] * value
    for i in range(count):
        pivot = max(range(i, count), key=lambda row: abs(a[row][i]))
        a[i], a[pivot] = a[pivot], a[i]
        if abs(a[i][i]) < 1e-12:
            raise RuntimeError("too few different jobs for the model")
        for row in range(count):
            if row != i:
                factor = a[row][i] / a[i][i]
                a[row] = [x - factor * y for x, y in zip(a[row], a[i])]
    return [a[i][count] / a[i][i] for i in range(count)]


def fit(jobs, key):
    """The terms of @key from all jobs of processes, and the largest relative error."""
    used = [job for job in jobs.values() if job["as"] == "processes"]
    matrix = [terms_of(job["ranks"], job["domain"], job["links"]) for job in used]
    values = [job[key] for job in used]
    terms = solve(matrix, values)
    errors = [abs(sum(t * m for t, m in zip(terms, row)) / value - 1)
              for row, value in zip(matrix, values) if value]
    return terms, max(errors)


def number(value):
    value = 0 if abs(value) < 1e-6 else value
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def print_table(head, lines):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def print_jobs(jobs):
    head = ["ranks", "nodes", "ready, s", *(name for _, name, _ in HELD), "links"]
    lines = []
    for job, row in jobs.items():
        if row["as"] == "mpirun":
            continue
        nodes = job.partition("x")[2] or "threads"
        lines.append([str(row["ranks"]), nodes, f"{row['ready_us_max'] / 1e6:.2f}",
                      *(f"{number(row[key] / scale)} ({number(row[key + '_max'] / scale)})"
                        for key, _, scale in HELD),
                      f"{number(row['links'])} ({number(row['links_max'])})"])
    print_table(head, lines)


def print_model(jobs):
    many = terms_of(MANY, NODE, 1)
    lines = []
    for key, name, scale in HELD:
        terms, error = fit(jobs, key)
        lines.append([name, *(number(term / scale) for term in terms), f"{error * 100:.0f} %",
                      number(sum(t * m for t, m in zip(terms, many)) / scale)])
    print_table(["of a rank", *TERMS, "largest error", f"at {MANY} ranks"], lines)


def print_mpi(jobs):
    for job, row in jobs.items():
        ours = jobs.get(f"{row['ranks']}x1")
        if row["as"] == "mpirun" and ours:
            print(f"{row['ranks']} mapped ranks: {ours['ready_us_max'] / 1e6:.2f} s, mpirun "
                  f"{row['ready_us_max'] / 1e6:.2f} s: "
                  f"{ours['ready_us_max'] / row['ready_us_max']:.2f} times\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oriel", default="build/release/bin/oriel", help="the tool (%(default)s)")
    parser.add_argument("--build", default="build/scale", type=pathlib.Path,
                        help="where the programs are compiled (%(default)s)")
    parser.add_argument("--jobs", nargs="+", default=JOBS, metavar="JOB",
                        help="RANKSxNODES, RANKSt for threads, RANKSmpi for mpirun")
    parser.add_argument("--laps", type=int, default=3, help="repetitions (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write one JSON object a line")
    parser.add_argument("--from", dest="rows", metavar="FILE", help="measure nothing: rows of FILE")
    options = parser.parse_args()
    options.oriel = str(pathlib.Path(options.oriel).resolve())
    return options


def main():
    options = parse_arguments()
    if options.rows:
        rows = [json.loads(line) for line in open(options.rows)]
    else:
        options.build.mkdir(parents=True, exist_ok=True)
        options.build = options.build.resolve()
        build_programs(options)
        rows = measure(options)
    if options.json:
        with open(options.json, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    jobs = medians(rows)
    print_jobs(jobs)
    print_mpi(jobs)
    if sum(job["as"] == "processes" for job in jobs.values()) > len(TERMS):
        print_model(jobs)


if __name__ == "__main__":
    main()
