# SPDX-License-Identifier: Apache-2.0
"""Programs measured in turns: functions that the scripts of this directory share.

A program has a name, missing(), version() and lap(), which returns {key: us}.
A row has test, mode, bytes, ranks, key and unit: "us", "ns" or "GB/s".
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

SECONDS = 120  # no single program takes longer
CORES = sorted(os.sched_getaffinity(0))
K, M = 1 << 10, 1 << 20


def output(command, **options):
    """Standard output of a program that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: code {done.returncode}\n{done.stderr}")
    return done.stdout


def parse(text, **extra):
    """The JSON lines of @text as {key: us}."""
    rows = {}
    for line in text.splitlines():
        if line.startswith("{"):
            row = json.loads(line) | extra
            rows[row["test"], row["mode"], row["bytes"], row["ranks"]] = row["median_us"]
    return rows


def arguments(description, build):
    """The command line of a script that compiles its peers in @build by default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--oriel", default="build/release/bin/oriel", help="the tool (%(default)s)")
    parser.add_argument("--build", default=build, type=pathlib.Path,
                        help="where other programs are compiled (%(default)s)")
    parser.add_argument("--laps", type=int, default=9, help="repetitions (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="three repetitions")
    parser.add_argument("--json", metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args()
    if options.quick:
        options.laps = 3
    options.oriel = str(pathlib.Path(options.oriel).resolve())
    options.build.mkdir(parents=True, exist_ok=True)
    options.build = options.build.resolve()
    return options


def compile_peer(compiler, program, *sources):
    output([*compiler, "-O2", "-o", program, *sources])


def ready(programs):
    """The programs that can run; prints the version of each, or what it lacks."""
    able = []
    for program in programs:
        reason = program.missing()
        print(f"{program.name}: {'MISSING, ' + reason if reason else program.version()}")
        if not reason:
            able.append(program)
    return able


def measure(programs, laps):
    """{name: {key: [us of each lap]}}; each lap starts with another program."""
    taken = {program.name: {} for program in programs}
    for lap in range(laps):
        turn = lap % len(programs)
        for program in programs[turn:] + programs[:turn]:
            print(f"\rlap {lap + 1} of {laps}: {program.name:10}", end="", file=sys.stderr)
            for key, us in program.lap().items():
                taken[program.name].setdefault(key, []).append(us)
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return taken


def pick(taken, name, row, choose=statistics.median):
    """One of the laps in the unit of @row, None if it was not measured."""
    laps = taken.get(name, {}).get(row.key)
    if not laps:
        return None
    us = choose(laps)
    return {"GB/s": row.bytes / us / 1e3, "ns": us * 1e3, "us": us}[row.unit]


def spread(taken, name, row):
    laps = taken[name].get(row.key)
    return (max(laps) - min(laps)) / statistics.median(laps) if laps else None


def better(row, left, right):
    """How many times better @left is than @right."""
    return left / right if row.unit == "GB/s" else right / left


def verdict(part, noise):
    """@part: 1 or more reaches the goal. A difference below the spread is not reported."""
    if part >= 1:
        return "met"
    lack = 1 / part - 1
    return f"missed by {lack:.0%}" + (", within the spread" if lack < noise else "")


def figure(value, form="{:.4g}"):
    return "-" if value is None else form.format(value)


def machine():
    with contextlib.suppress(OSError):
        model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
        if model:
            return f"{model[1]}, {len(CORES)} cores"
    return f"{os.uname().machine}, {len(CORES)} cores"


def print_columns(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def stamp(oriel, script):
    """The origin of the rows, for every line; @oriel is the program of the library."""
    commit = re.search(r"commit (\w[\w-]*)|$", oriel.version())[1]
    return {"commit": commit, "machine": machine(), "command": " ".join([script, *sys.argv[1:]])}


def write_json(path, rows, taken, common, path_of):
    """@path_of(name, row) is the path by which that program moves its bytes."""
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            for name in taken:
                if row.key not in taken[name]:
                    continue
                us = statistics.median(taken[name][row.key])
                line = {"test": row.test, "path": path_of(name, row), "ranks": row.ranks,
                        "bytes": row.bytes, "impl": name, "threads": getattr(row, "threads", 1),
                        "blocks": 1, "mode": row.mode, "median_us": round(us, 6),
                        "laps_us": taken[name][row.key],
                        "spread": round(spread(taken, name, row), 4),
                        "gbps": round(row.bytes / us / 1e3, 4)}
                file.write(json.dumps(line | common) + "\n")
