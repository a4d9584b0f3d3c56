#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registers, stack, spills and instructions of kernels: registers.py LOG...

LOG is what ptxas -v wrote when the program beside it, LOG without .log, was compiled; its
instructions, all that there are and not those of one path, are counted where there is cuobjdump.
"""

import re
import shutil
import subprocess
import sys


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
    """How many each kernel of @program has, by name."""
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


def main():
    print(f"{'registers':>9} {'stack':>6} {'spilled':>7} {'instructions':>12}  kernel")
    for path in sys.argv[1:]:
        counts = instructions(path.removesuffix(".log"))
        for name, registers, stack, stores, loads in kernels(path):
            count = counts.get(name, "-")
            try:
                name = subprocess.run(["c++filt", "-p", name], capture_output=True, text=True,
                                      check=True).stdout.strip()
            except (OSError, subprocess.CalledProcessError):
                pass
            print(f"{registers:9} {stack:6} {stores + loads:7} {count:>12}  {name}")


if __name__ == "__main__":
    main()
