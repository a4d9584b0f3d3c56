#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots of measured rows, by gnuplot: plot.py ROWS.jsonl PREFIX writes PREFIX_NAME.svg."""

import argparse
import json
import pathlib
import subprocess
import sys

HEAD = """set terminal svg size 720,440 dynamic enhanced font 'sans,13' background '#ffffff'
set output '{output}'
set title '{title}'
set xlabel '{xlabel}'
set ylabel '{ylabel}'
set logscale x 2
set grid
set key {key}
{scale}
"""


def has(row, wanted):
    """A wanted field is a value, or a set of allowed values."""
    return all(row.get(k) in v if isinstance(v, tuple) else row.get(k) == v
               for k, v in wanted.items())


class Plot:
    """Curves over one field of the rows; each has a label and the fields that select its rows."""

    def __init__(self, name, title, over, value, curves, **wanted):
        self.name, self.title, self.over, self.value = name, title, over, value
        self.curves, self.wanted = curves, wanted

    def points(self, rows, **wanted):
        """The best of the rows at each point."""
        found = {}
        for row in rows:
            if has(row, self.wanted | wanted):
                x, y = row[self.over], row[self.value]
                best = max if self.value == "gbps" else min
                found[x] = best(found[x], y) if x in found else y
        return sorted(found.items())

    def script(self, rows, output):
        """None without any row. Reports a curve that is missing beside others."""
        is_time = self.value == "median_us"
        text = HEAD.format(output=output, title=self.title,
                           xlabel={"bytes": "bytes", "blocks": "blocks"}[self.over],
                           ylabel="µs" if is_time else "GB/s",
                           key="left top" if is_time or self.over == "blocks" else "right bottom",
                           scale="set logscale y 10" if is_time else "set yrange [0:*]")
        drawn, parts, missing = "", [], []
        for label, wanted in self.curves:
            points = self.points(rows, **wanted)
            if not points:
                missing.append(label)
                continue
            name = f"$curve{len(parts)}"
            drawn += f"{name} << end\n" + "".join(f"{x} {y}\n" for x, y in points) + "end\n"
            parts.append(f"{name} using 1:2 with linespoints linewidth 2 title '{label}'")
        if parts and missing:
            print(f"{self.name}: no rows of {', '.join(missing)}", file=sys.stderr)
        return text + drawn + "plot " + ", \\\n  ".join(parts) + "\n" if parts else None


def by(impl, **wanted):
    return {"impl": impl} | wanted


def gathers(end, value="median_us"):
    """All-gathers of GPUs; for NCCL the best of its modes."""
    modes = tuple(f"{mode}, {end}" for mode in ("default", "symmetric", "zero cta"))
    how = "in a graph" if end == "graph" else "started by the host"
    return [f"all-gather of GPUs, {how}, bytes of each", "bytes", value,
            [(f"{name} of {ranks}", by(impl, ranks=ranks, mode=mode))
             for ranks in (2, 4)
             for name, impl, mode in (("Oriel", "oriel", f"auto, {end}"), ("NCCL", "nccl", modes))]]


PLOTS = [
    Plot("put_bw", "put of 256 MiB to a GPU", "blocks", "gbps",
         [("Oriel", by("oriel", mode="one way")), ("Oriel, blocks in turns",
                                                   by("oriel", mode="in turns")),
          ("NVSHMEM", by("nvshmem", mode="one way"))],
         test="put_bw", bytes=256 << 20, ranks=2),
    Plot("messages", "message from kernel to kernel, one way, one block", "bytes", "median_us",
         [("put\\\\_signal", by("oriel", test="put_signal")),
          ("put\\\\_ll", by("oriel", test="put_ll")),
          ("put\\\\_ll128", by("oriel", test="put_ll128")),
          ("NVSHMEM put\\\\_signal", by("nvshmem", test="put_signal"))],
         mode="one way", ranks=2),
    Plot("send_recv_us", "send and receive, both ways at once", "bytes", "median_us",
         [("Oriel", by("oriel")), ("NCCL", by("nccl"))],
         test="send_recv", mode="both ways", ranks=2),
    Plot("send_recv_bw", "send and receive, both ways at once", "bytes", "gbps",
         [("Oriel", by("oriel")), ("NCCL", by("nccl"))],
         test="send_recv", mode="both ways", ranks=2),
    Plot("eager", *gathers("eager"), test="allgather", path="mapped"),
    Plot("graph", *gathers("graph"), test="allgather", path="mapped"),
    Plot("bw", *gathers("graph", "gbps"), test="allgather", path="mapped"),
    Plot("peers", "all-gather of processes on two cores, bytes of each", "bytes", "median_us",
         [(f"{name} of {ranks}", by(impl, ranks=ranks)) for ranks in (2, 4)
          for name, impl in (("Oriel", "oriel"), ("Open MPI", "openmpi"),
                             ("OpenSHMEM", "openshmem"))],
         test="allgather", mode="all"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=pathlib.Path)
    parser.add_argument("prefix")
    arguments = parser.parse_args()
    with open(arguments.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    is_drawn = False
    for plot in PLOTS:
        output = f"{arguments.prefix}_{plot.name}.svg"
        script = plot.script(rows, output)
        if script is None:
            continue
        try:
            subprocess.run(["gnuplot"], input=script, text=True, check=True)
        except FileNotFoundError:
            sys.exit("gnuplot is not installed")
        is_drawn = True
        print(output)
    if not is_drawn:
        sys.exit(f"{arguments.rows}: no rows of any plot")


if __name__ == "__main__":
    main()
