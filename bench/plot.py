#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots of measured rows, by gnuplot: plot.py ROWS.jsonl PREFIX writes PREFIX_NAME.svg.

A library has one colour and a number of ranks one dash, in all plots; limits are grey. The
second panel has the best peer's time divided by Oriel's (or Oriel's bandwidth by that of
the best peer), so that more is better. `oriel perf --plot` (tools/perf_plot.c) has the same look.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

STYLE = """set encoding utf8
set terminal svg size 900,640 dynamic noenhanced font 'sans-serif,13' background '#ffffff'
set border 3 linecolor '#555555'
set tics nomirror out
set grid xtics ytics linecolor '#e4e4e4' linetype 1 linewidth 1
set logscale x 2
set lmargin at screen 0.10
set rmargin at screen 0.73
set key at screen 0.745,0.92 left top Left reverse samplen 3 spacing 1.2 maxrows 32
"""
TOP = "set tmargin at screen 0.92\nset bmargin at screen 0.47\n"
BOTTOM = "set tmargin at screen 0.39\nset bmargin at screen 0.11\n"
WHOLE = "set tmargin at screen 0.92\nset bmargin at screen 0.11\n"

LIBRARIES = {"oriel": "Oriel", "nccl": "NCCL", "nvshmem": "NVSHMEM", "openmpi": "Open MPI",
             "openshmem": "OpenSHMEM", "ucx": "UCX"}
# Okabe and Ito's colours, which differ for colour-blind readers too.
COLOURS = {"oriel": "#0072B2", "nccl": "#D55E00", "nvshmem": "#009E73", "openmpi": "#E69F00",
           "openshmem": "#CC79A7", "ucx": "#56B4E9"}
LIMIT = "#777777"
DASHES = {2: 1, 4: "'-'", 8: "'.'"}
POINTS = (7, 5, 9, 13)  # of the curves of one library and number of ranks


def has(row, wanted):
    """A wanted field is a value, or a set of allowed values."""
    return all(row.get(k) in v if isinstance(v, tuple) else row.get(k) == v
               for k, v in wanted.items())


def size(log):
    return f"{1 << log % 10} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[log // 10]}"


def size_tics(sizes):
    """The sizes as people say them; of many only those of 1 KiB, 32 KiB, 1 MiB ..."""
    logs = sorted({math.log2(each) for each in sizes})
    if any(each != int(each) for each in logs) or len(logs) > 10 or \
            any(10 * (b - a) < logs[-1] - logs[0] for a, b in zip(logs, logs[1:])):
        first, last = math.ceil(logs[0]), math.floor(logs[-1])
        step = 1 if last < first + 9 else 2 if last < first + 18 else 5
        logs = range(-(-first // step) * step, last + 1, step)
    return ", ".join(f"'{size(int(log))}' {1 << int(log)}" for log in logs)


def decade_tics(least, most):
    """1, 2 and 5 of each decade where the axis is short, else the decades."""
    steps = (1, 2, 5) if most / least < 300 else (1,)
    decades = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 1)
    return ", ".join(f"'{k * 10.0 ** d:g}' {k * 10.0 ** d:g}" for d in decades for k in steps)


class Curve:
    """Rows of a library at a number of ranks; @name distinguishes it from its others."""

    def __init__(self, impl, ranks, name="", **wanted):
        self.impl, self.ranks = impl, ranks
        self.label = " ".join(filter(None, (LIBRARIES[impl], name)))
        self.wanted = {"impl": impl, "ranks": ranks} | wanted
        self.points, self.mark = [], 0

    def style(self):
        return (f"linewidth 2 linecolor '{COLOURS[self.impl]}' dashtype {DASHES[self.ranks]} "
                f"pointtype {POINTS[self.mark]} pointsize 0.6")


class Limit:
    """The best that the machine does without a library: a curve, or with @is_level one value."""

    def __init__(self, label, is_level=False, **wanted):
        self.label, self.is_level, self.wanted, self.points = label, is_level, wanted, []


class Plot:
    """Curves of one value over one field of the rows."""

    def __init__(self, name, title, over, value, curves, limits=(), label=None, **wanted):
        self.name, self.title, self.over, self.value = name, title, over, value
        self.curves, self.limits, self.wanted, self.label = curves, limits, wanted, label
        self.is_time = value == "median_us"
        marks = {}
        for curve in curves:
            key = curve.impl, curve.ranks
            curve.mark = marks[key] = marks.get(key, -1) + 1

    def points(self, rows, wanted):
        """The best of the rows at each point."""
        found = {}
        best = min if self.is_time else max
        for row in rows:
            if has(row, wanted) and row[self.value]:
                x, y = row[self.over], row[self.value]
                found[x] = best(found[x], y) if x in found else y
        return sorted(found.items())

    def read(self, rows):
        """The curves and limits that have rows. Reports a curve that is missing beside others."""
        for curve in self.curves:
            curve.points = self.points(rows, self.wanted | curve.wanted)
        curves = [curve for curve in self.curves if curve.points]
        missing = [curve.label for curve in self.curves if not curve.points]
        if curves and missing:
            print(f"{self.name}: no rows of {', '.join(missing)}", file=sys.stderr)
        xs = [x for curve in curves for x, _ in curve.points]
        for limit in self.limits:
            limit.points = self.points(rows, limit.wanted)
            if limit.is_level and limit.points and curves:
                best = (min if self.is_time else max)(y for _, y in limit.points)
                limit.points = [(min(xs), best), (max(xs), best)]
        return curves, [limit for limit in self.limits if limit.points]

    def ratios(self, curves):
        """[(Oriel's curve, [(x, how many times better than the best peer there)])]"""
        found = []
        for mine in (curve for curve in curves if curve.impl == "oriel"):
            peers = {}
            for curve in curves:
                if curve.impl != "oriel" and curve.ranks == mine.ranks:
                    for x, y in curve.points:
                        peers.setdefault(x, []).append(y)
            points = [(x, min(peers[x]) / y if self.is_time else y / max(peers[x]))
                      for x, y in mine.points if x in peers]
            if points:
                found.append((mine, points))
        return found

    def axes(self, curves, limits):
        xs = [x for curve in curves for x, _ in curve.points]
        ys = [y for drawn in curves + limits for _, y in drawn.points]
        text = f"set xrange [{min(xs) * 0.8}:{max(xs) * 1.25}]\n"
        text += ("set xtics (" + (size_tics(xs) if self.over == "bytes" else
                                  ", ".join(f"'{x}' {x}" for x in sorted(set(xs)))) + ")\n")
        if self.is_time:
            text += (f"set logscale y 10\nset yrange [{min(ys) / 1.3}:{max(ys) * 1.3}]\n"
                     f"set ytics ({decade_tics(min(ys), max(ys))})\n")
        else:
            text += "set yrange [0:*]\n"
        label = self.label or ("time (µs)" if self.is_time else "bandwidth (GB/s)")
        return text + f"set ylabel {quote(label)} offset 1\n"

    def script(self, rows, output):
        """None without any row."""
        curves, limits = self.read(rows)
        if not curves:
            return None
        has_ranks = len({curve.ranks for curve in curves}) > 1
        data, parts = "", []
        for limit in limits:
            data += block(f"limit{len(parts)}", limit.points)
            shape = "lines" if limit.is_level else "linespoints pointtype 7 pointsize 0.4"
            parts.append(f"$limit{len(parts)} with {shape} linewidth 1.5 dashtype {len(parts) + 2} "
                         f"linecolor '{LIMIT}' title {quote(limit.label)}")
        for curve in curves:
            data += block(f"curve{len(parts)}", curve.points)
            ranks = f", {curve.ranks} ranks" if has_ranks else ""
            parts.append(f"$curve{len(parts)} with linespoints {curve.style()} "
                         f"title {quote(curve.label + ranks)}")
        ratios, below = self.ratios(curves), []
        for curve, points in ratios:
            data += block(f"ratio{len(below)}", points)
            below.append(f"$ratio{len(below)} with linespoints {curve.style()} notitle")
        xlabel = {"bytes": "message size", "blocks": "blocks"}[self.over]
        text = STYLE + f"set output {quote(output)}\n" + data
        text += f"set multiplot title {quote(self.title)}\n" + self.axes(curves, limits)
        bottom = f"set xlabel '{xlabel}' offset 0,0.3\n"
        if not below:
            return text + WHOLE + bottom + "plot " + ", \\\n  ".join(parts) + "\n"
        text += TOP + "plot " + ", \\\n  ".join(parts) + "\n" + BOTTOM + bottom
        text += ("unset logscale y\nset yrange [0:*]\nset ytics autofreq\nunset key\n"
                 "set ylabel 'times the best peer' offset 1\n"
                 "set arrow from graph 0,first 1 to graph 1,first 1 nohead linewidth 1.5 "
                 f"dashtype 2 linecolor '{LIMIT}'\n")
        return text + "plot " + ", \\\n  ".join(below) + "\n"


def quote(text):
    """Inside of single quotes gnuplot knows no escape but the doubled quote."""
    return "'" + text.replace("'", "''") + "'"


def block(name, points):
    return f"${name} << end\n" + "".join(f"{x} {y:.9g}\n" for x, y in points) + "end\n"


def gathers(end):
    """All-gathers of GPUs; for NCCL the best of its modes."""
    modes = tuple(f"{mode}, {end}" for mode in ("default", "symmetric", "zero cta"))
    return [curve for ranks in (2, 4) for curve in (Curve("oriel", ranks, mode=f"auto, {end}"),
                                                    Curve("nccl", ranks, mode=modes))]


def peers(ranks, *impls):
    return [Curve(impl, count) for count in ranks for impl in impls]


GATHER = {"test": "allgather", "path": "mapped"}
MESSAGE = {"mode": "one way", "ranks": 2}
EXCHANGE = {"test": "send_recv", "mode": "both ways"}
PLOTS = [
    Plot("put_bw", "put of 256 MiB between two H200", "blocks", "gbps",
         [Curve("oriel", 2, mode="one way"), Curve("oriel", 2, "in turns", mode="in turns"),
          Curve("nvshmem", 2, mode="one way")],
         [Limit("bare copy in a kernel", impl="limit", test="copy")],
         test="put_bw", bytes=256 << 20),
    Plot("messages", "put with signal between kernels of two H200, one way, one block", "bytes",
         "median_us",
         [Curve("oriel", 2, "put_signal", test="put_signal"),
          Curve("oriel", 2, "put_ll", test="put_ll"),
          Curve("oriel", 2, "put_ll128", test="put_ll128"),
          Curve("nvshmem", 2, "put_signal", test="put_signal")],
         [Limit("bare word and flag", True, impl="limit", test="data_flag",
                mode="fence.release red; poll ld.acquire"),
          Limit("bare line of 16 B", True, impl="limit", test="line")], **MESSAGE),
    Plot("send_recv_us", "send and receive between two H200, both ways at once", "bytes",
         "median_us", peers((2,), "oriel", "nccl"), **EXCHANGE),
    Plot("send_recv_bw", "send and receive between two H200, both ways at once", "bytes", "gbps",
         peers((2,), "oriel", "nccl"), label="bandwidth, both ways (GB/s)", **EXCHANGE),
    Plot("eager", "all-gather on H200, started by the host, size of each rank's message", "bytes",
         "median_us", gathers("eager"), **GATHER),
    Plot("graph", "all-gather on H200, in a CUDA graph, size of each rank's message", "bytes",
         "median_us", gathers("graph"), **GATHER),
    Plot("bw", "all-gather on H200, in a CUDA graph, size of each rank's message", "bytes", "gbps",
         gathers("graph"), [Limit("put by a copy engine", True, test="put_bw", mode="copy engine")],
         label="bus bandwidth (GB/s)", **GATHER),
    Plot("peers", "all-gather of processes on two cores, size of each rank's message", "bytes",
         "median_us", peers((2, 4), "oriel", "openmpi", "openshmem"), mode="all", **GATHER),
    Plot("put_signal", "put with signal between two processes of one machine, one way", "bytes",
         "median_us", peers((2,), "oriel", "openmpi", "openshmem", "ucx"),
         [Limit("bare copy and flag", impl="limit", test="put_signal_lat", path="mapped")],
         test="put_signal_lat", mode="one way", path="mapped"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=pathlib.Path)
    parser.add_argument("prefix")
    parser.add_argument("--only", help="names of plots, separated by commas (all)")
    arguments = parser.parse_args()
    with open(arguments.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    is_drawn = False
    for plot in PLOTS:
        if arguments.only and plot.name not in arguments.only.split(","):
            continue
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
