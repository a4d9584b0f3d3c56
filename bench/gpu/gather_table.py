#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gather_table.py FILE: all-gathers of gather_rows, a line for each size and mode."""

import json
import sys

K, M = 1 << 10, 1 << 20
# us at most, by ranks and bytes: eager, in a graph.
GOALS = {
    (2, K): (4.5, 3.0), (2, 64 * K): (5.5, 4.5), (2, M): (8.0, 7.5),
    (2, 16 * M): (52, 52), (2, 256 * M): (700, 700),
    (4, K): (4.3, 3.3), (4, 64 * K): (7.0, 6.0), (4, M): (14.5, 13.5),
    (4, 16 * M): (142, 142), (4, 256 * M): (2100, 2100),
}


def cell(row):
    return f"{row['median_us']:9.2f} {row['mode'].split(',')[0]:9}" if row else f"{'-':>19}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.startswith("{")]
    print(f"{'GPUs':>4} {'bytes':>9} {'':5} {'auto us':>9}  {'best of Oriel':19} {'best of NCCL':19}"
          f" {'ratio':>5} {'goal':>6}")
    keys = sorted({(r["ranks"], r["bytes"], r["mode"].split(", ")[1]) for r in rows})
    for ranks, size, mode in keys:
        mine = [r for r in rows if (r["ranks"], r["bytes"]) == (ranks, size)
                and r["mode"].endswith(mode)]
        best = {impl: min((r for r in mine if r["impl"] == impl), default=None,
                          key=lambda r: r["median_us"]) for impl in ("oriel", "nccl")}
        auto = next((r["median_us"] for r in mine if r["mode"] == f"auto, {mode}"), 0)
        ratio = best["nccl"]["median_us"] / auto if best["nccl"] and auto else 0
        goal = GOALS.get((ranks, size), ("", ""))[mode == "graph"]
        met = "" if goal == "" else "met" if auto <= goal else "MISSED"
        print(f"{ranks:4} {size:9} {mode:5} {auto:9.2f}  {cell(best['oriel'])} "
              f"{cell(best['nccl'])} {ratio:5.2f} {goal:>6} {met}")


if __name__ == "__main__":
    main()
