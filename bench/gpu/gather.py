#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Oriel's all-gathers of GPU memory beside NCCL's: gather.py DIRECTORY [--json FILE], measure
with DIRECTORY/gather_rows and print a table; gather.py FILE [--page PREFIX], print that of rows,
and write PREFIX.jsonl, PREFIX_*.svg and PREFIX.md, whose text from "What the numbers say:" on
stays."""

import contextlib
import io
import pathlib
import sys

import report
import run

K, M = 1 << 10, 1 << 20
# us at most, by ranks and bytes: eager, in a graph.
GOALS = {
    (2, K): (4.5, 3.0), (2, 64 * K): (5.5, 4.5), (2, M): (8.0, 7.5),
    (2, 16 * M): (52, 52), (2, 256 * M): (700, 700),
    (4, K): (4.3, 3.3), (4, 64 * K): (7.0, 6.0), (4, M): (14.5, 13.5),
    (4, 16 * M): (142, 142), (4, 256 * M): (2100, 2100),
}
ENGINE_GOALS = {1024 * M: 393}  # GB/s at least


def table(rows):
    rows = [r for r in rows if r["test"] == "allgather"]
    print(f"{'GPUs':>4} {'bytes':>9} {'':5} {'auto us':>9}  {'best of Oriel':19} {'best of NCCL':19}"
          f" {'ratio':>5} {'goal':>6}")
    keys = sorted({(r["ranks"], r["bytes"], r["mode"].split(", ")[1]) for r in rows})
    for ranks, size, mode in keys:
        mine = [r for r in rows if (r["ranks"], r["bytes"]) == (ranks, size)
                and r["mode"].endswith(mode)]
        best = {impl: run.fastest(mine, impl) for impl in ("oriel", "nccl")}
        auto = next((r["median_us"] for r in mine if r["mode"] == f"auto, {mode}"), 0)
        ratio = best["nccl"]["median_us"] / auto if best["nccl"] and auto else 0
        goal = GOALS.get((ranks, size), ("", ""))[mode == "graph"]
        met = "" if goal == "" else "met" if auto <= goal else "MISSED"
        print(f"{ranks:4} {size:9} {mode:5} {auto:9.2f}  {run.cell(best['oriel'], 9)} "
              f"{run.cell(best['nccl'], 9)} {ratio:5.2f} {goal:>6} {met}")


def disturbance(rows):
    """A kernel that uses all SMs, beside all-gathers and alone."""
    rows = [r for r in rows if r["test"] == "compute"]
    for ranks in sorted({r["ranks"] for r in rows}):
        alone = min(r["median_us"] for r in rows if r["ranks"] == ranks and r["mode"] == "alone")
        for row in rows:
            if row["ranks"] == ranks and row["mode"] != "alone":
                print(f"{ranks:4} GPUs, a kernel on all SMs beside {row['impl']} {row['mode']:9} of "
                      f"{row['bytes'] // M} MiB: {row['median_us']:8.1f} us, alone {alone:8.1f}: "
                      f"{row['median_us'] / alone - 1:+.1%}")


def engines(rows):
    """Puts of one rank to another, one behind the other."""
    for row in (r for r in rows if (r["test"], r["mode"]) == ("put_bw", "copy engine")):
        goal = ENGINE_GOALS.get(row["bytes"])
        met = f", goal {goal} {'met' if row['gbps'] >= goal else 'MISSED'}" if goal else ""
        print(f"{row['ranks']:4} GPUs, a put of {row['bytes'] // M:4} MiB by a copy engine: "
              f"{row['gbps']:.1f} GB/s{met}")


def show(rows):
    table(rows)
    print()
    disturbance(rows)
    engines(rows)


def page(rows, prefix):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        table(rows)
        print()
        disturbance(rows)
    target, notes = prefix.with_suffix(".md"), report.notes(prefix.with_suffix(".md"))
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    machines = ", ".join(sorted({row["machine"] for row in rows}))
    numbers = prefix.with_suffix(".jsonl")
    run.write_rows(rows, numbers)
    status = report.draw(numbers, prefix)
    target.write_text(f"""# AllGather on GPUs, beside NCCL

Commit {commits}; {machines}; NVLink multicast off (`NCCL_NVLS_ENABLE=0`).
Versions of driver, CUDA and NCCL: {run.versions_text(rows)}. Made by `scripts/gpu-check bench DIR` and
`bench/gpu/gather.py DIR/bench/gather.jsonl --page {prefix.name}`; all rows, each algorithm and each
mode of NCCL, are in [{prefix.name}.jsonl]({prefix.name}.jsonl). Bytes are those of each rank, times
those of one call; the best of NCCL is that of default, symmetric window, and symmetric window
with zero-CTA policy. "MISSED" is against the goal of the project, not against NCCL.

```
{text.getvalue()}```

{report.pictures(prefix)}
{notes}""", encoding="utf-8")
    print(target)
    return status == 0


def main():
    parser = run.parser_of(__doc__)
    parser.add_argument("--page", type=pathlib.Path)
    options = parser.parse_args()
    rows, is_complete = run.rows_of(
        options, lambda gpus: run.run_program(options.what / "gather_rows", str(gpus)))
    if options.page:
        is_complete &= page(rows, options.page)
    show(rows)
    sys.exit(0 if rows and is_complete else 1)


if __name__ == "__main__":
    main()
