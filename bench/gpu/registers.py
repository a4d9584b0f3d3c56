#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registers, stack, spills and instructions of kernels: registers.py LOG...

LOG is the output of ptxas -v when it compiled the program beside it, LOG without .log. If
cuobjdump is installed, all instructions of the program are counted, not those of one path.
Ends with 1 if a kernel has more in local memory than the record of a failure, which a function
of its own makes there. A kernel with too many registers for blocks of 1024 threads is only listed.
"""

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


def main():
    count, local = 0, []
    print(f"{'registers':>9} {'stack':>6} {'spilled':>7} {'instructions':>12}  kernel")
    for path in sys.argv[1:]:
        counts, found = instructions(path.removesuffix(".log")), list(kernels(path))
        for (symbol, *used), name in zip(found, readable([k[0] for k in found])):
            registers, stack, stores, loads = used
            if is_local(*used):
                local.append(name)
            print(f"{registers:9} {stack:6} {stores + loads:7} {counts.get(symbol, '-'):>12}  "
                  f"{name}")
        count += len(found)
    print(f"{count} kernels, local memory in the way of {', '.join(local) or 'none'}")
    sys.exit(0 if count and not local else 1)


if __name__ == "__main__":
    main()
