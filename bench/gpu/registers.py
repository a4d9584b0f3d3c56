#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registers, stack and spills of the kernels in logs of ptxas -v: registers.py LOG..."""

import re
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


def main():
    print(f"{'registers':>9} {'stack':>6} {'spilled':>7}  kernel")
    for path in sys.argv[1:]:
        for name, registers, stack, stores, loads in kernels(path):
            try:
                name = subprocess.run(["c++filt", "-p", name], capture_output=True, text=True,
                                      check=True).stdout.strip()
            except (OSError, subprocess.CalledProcessError):
                pass
            print(f"{registers:9} {stack:6} {stores + loads:7}  {name}")


if __name__ == "__main__":
    main()
