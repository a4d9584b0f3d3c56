#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of the library in one run, in turns: did a change make any row slower?

    bench/two_builds.py OLD/bin/oriel NEW/bin/oriel -- put_bw counter --nodes 2 --sizes 8,4K

Everything after the dashes goes to `oriel perf`. A row is told to be slower if both the median
and the best repetition are slower by more than --tolerance; the exit status is 1 then.
"""
import argparse
import re
import statistics
import sys

from side_by_side import machine, measure, output, parse, print_columns


class Build:
    """The tool of one build; @name distinguishes it from the other."""

    def __init__(self, tool, name, perf):
        self.name = name
        self.command = [tool, "perf", *perf, "--json", "--reps", "3"]
        self.commit = re.search(r"commit (\w[\w-]*)|$", output([tool, "--version"]))[1]

    def lap(self):
        return parse(output(self.command))


def compare(old, new, tolerance):
    """One line of the table, and whether it is slower."""
    medians = statistics.median(new) / statistics.median(old)
    best = min(new) / min(old)
    is_slower = min(medians, best) > 1 + tolerance
    cells = [f"{statistics.median(laps):.4g}" for laps in (old, new)]
    spreads = [f"{(max(laps) - min(laps)) / statistics.median(laps):.0%}" for laps in (old, new)]
    return [cells[0], spreads[0], cells[1], spreads[1], f"{medians:.3f}", f"{best:.3f}",
            "SLOWER" if is_slower else ""], is_slower


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="the tool of the build before")
    parser.add_argument("new", help="the tool of the build after")
    parser.add_argument("--laps", type=int, default=9, help="repetitions (%(default)s)")
    parser.add_argument("--tolerance", type=float, default=0.05,
                        help="a part of the time (%(default)s)")
    parser.add_argument("perf", nargs="+", help="arguments of `oriel perf`, behind --")
    options = parser.parse_args()
    builds = [Build(options.old, "old", options.perf), Build(options.new, "new", options.perf)]
    print(f"{builds[0].commit} and {builds[1].commit}; {machine()}; {options.laps} repetitions of "
          f"oriel perf {' '.join(options.perf)}; us")
    taken = measure(builds, options.laps)
    lines = [["test", "mode", "bytes", "old", "spread", "new", "spread", "new/old", "of best", ""]]
    slower = 0
    for key, old in taken["old"].items():
        if key not in taken["new"]:
            continue
        cells, is_slower = compare(old, taken["new"][key], options.tolerance)
        lines.append([key[0], key[1], str(key[2]), *cells])
        slower += is_slower
    print_columns(lines)
    print(f"{slower} of {len(lines) - 1} rows are slower by more than {options.tolerance:.0%}")
    return slower > 0


if __name__ == "__main__":
    sys.exit(main())
