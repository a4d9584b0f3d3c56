#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""registers.py [--accept] [--table TABLE] LOG...: registers, spills and instructions of kernels.

LOG is the output of nvcc --version, and of ptxas -v when it compiled the program beside it, LOG
without .log, as bench/gpu/build leaves it. If cuobjdump is installed, all instructions of the
program are counted, not those of one path.
Ends with 1 if a kernel has more in local memory than the record of a failure, which a function
of its own makes there. A kernel with too many registers for blocks of 1024 threads is only listed.

--table TABLE: compares registers and spilled bytes with those of the table instead, and ends with
1 if one of them rose, or if the table has no such kernel. A table is of one version of nvcc and one
kind of GPU: with others nothing is compared. --accept: writes the table.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

RECORD = 64  # bytes of struct oriel_dev_fault
LEAST = 64  # registers of each of 1024 threads


def is_local(registers, stack, stores, loads):
    """Whether a path that is not cold uses local memory needlessly."""
    beside = stack - (stores + 7) // 8 * 8  # a stack is of whole words
    return beside > RECORD or (stores + loads > 0 and registers != LEAST)


def kernels(path):
    name, spills = None, None
    for line in open(path, encoding="utf-8"):
        if found := re.search(r"Compiling entry function '(\S+)'", line):
            name, spills = found[1], None
        elif name and "spill" in line and spills is None:
            spills = [int(n) for n in re.findall(r"(\d+) bytes", line)]
        elif name and (found := re.search(r"Used (\d+) registers", line)):
            yield name, int(found[1]), *spills
            name = None


def instructions(program):
    """The number of instructions of each kernel of @program, by name."""
    tool = shutil.which("cuobjdump") or "/usr/local/cuda/bin/cuobjdump"
    try:
        text = subprocess.run([tool, "-sass", program], capture_output=True, text=True,
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    counts, name = {}, None
    for line in text.splitlines():
        if found := re.search(r"Function : (\S+)", line):
            name = found[1]
            counts[name] = 0
        elif name and re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?!\s|NOP)", line):
            counts[name] += 1
    return counts


def readable(names):
    try:
        return subprocess.run(["c++filt", "-p", *names], capture_output=True, text=True,
                              check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return names


def show(logs):
    count, local = 0, []
    print(f"{'registers':>9} {'stack':>6} {'spilled':>7} {'instructions':>12}  kernel")
    for path in logs:
        counts, found = instructions(path.removesuffix(".log")), list(kernels(path))
        for (symbol, *used), name in zip(found, readable([k[0] for k in found])):
            registers, stack, stores, loads = used
            if is_local(*used):
                local.append(name)
            print(f"{registers:9} {stack:6} {stores + loads:7} {counts.get(symbol, '-'):>12}  "
                  f"{name}")
        count += len(found)
    print(f"{count} kernels, local memory in the way of {', '.join(local) or 'none'}")
    return 0 if count and not local else 1


def compiler(logs):
    """What compiled all of them, as the first line of a table."""
    found = set()
    for path in logs:
        text = pathlib.Path(path).read_text("utf-8")
        version = re.search(r"release .*, V([\d.]+)$", text, re.MULTILINE)
        kinds = set(re.findall(r"Compiling entry function '\S+' for '(\w+)'", text))
        found |= {f"nvcc {version[1] if version else '?'}, {kind}" for kind in kinds}
    return " and ".join(sorted(found)) or "no compiler"


def measured(logs):
    """{program and kernel: (registers, bytes spilled)}."""
    rows = {}
    for path in logs:
        found, program = list(kernels(path)), pathlib.Path(path).stem
        for (_, registers, _, stores, loads), name in zip(found, readable([k[0] for k in found])):
            rows[f"{program} {name}"] = registers, stores + loads
    return rows


def compare(table, logs):
    """Of kernels of the programs in @logs."""
    first, *lines = table.read_text("utf-8").splitlines()
    if first != compiler(logs):
        print(f"0 kernels compared: {table.name} is of {first}, the programs of {compiler(logs)}")
        return 0
    then = {name: (int(registers), int(spilled))
            for registers, spilled, name in (line.split(None, 2) for line in lines)}
    now, worse, other = measured(logs), 0, 0
    for name, row in sorted(now.items()):
        old = then.get(name)
        if old == row:
            continue
        rose = old is None or any(new > known for new, known in zip(row, old))
        worse, other = worse + rose, other + (not rose)
        before = f"{old[0]} and {old[1]}" if old else "not there"
        print(f"{'FAIL' if rose else 'less'} {name}: {row[0]} registers, {row[1]} bytes spilled; "
              f"before: {before}")
    programs = {pathlib.Path(path).stem for path in logs}
    for name in sorted(set(then) - set(now)):
        if name.split()[0] in programs:
            other += 1
            print(f"less {name}: the program has no such kernel")
    print(f"{len(now)} kernels compared, {worse} with more registers or spills than in {table.name}"
          + (f"; {other} that --accept would change" if other else ""))
    return 1 if worse or not now else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accept", action="store_true", help="write the table")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("logs", metavar="LOG", nargs="+")
    args = parser.parse_args()
    if args.accept and not args.table:
        parser.error("--accept writes --table")
    if args.accept:
        rows = [f"{registers:3} {spilled:5}  {name}"
                for name, (registers, spilled) in sorted(measured(args.logs).items())]
        args.table.write_text("\n".join([compiler(args.logs), *rows]) + "\n", "utf-8")
        return 0
    return compare(args.table, args.logs) if args.table else show(args.logs)


if __name__ == "__main__":
    sys.exit(main())
