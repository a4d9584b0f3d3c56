#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The results of run.py as text and plots: report.py ROWS.jsonl... PREFIX

Writes PREFIX.jsonl, PREFIX.md and PREFIX_*.svg. What people wrote stays: all from the line
"What the numbers say:" on of the older PREFIX.md, or of the file that --notes names.
"""

import argparse
import contextlib
import io
import pathlib
import subprocess
import sys

import run

NOTES = "What the numbers say:"
IMPLS = ("oriel", "nvshmem", "nccl")
SECTIONS = (
    ("Words and signals, one way", "us", ("put_value", "signal")),
    ("Messages, one way", "us", ("put_signal", "put_ll", "put_ll128")),
    ("Through channels, in a kernel, one way", "us", ("send_recv_kernel", "send_recv_ll", "send_recv_ll128")),
    ("Barriers, in a kernel", "us", ("barrier",)),
    ("Atomics", "us", ("fetch_add",)),
    ("Puts", "gbps", ("put_bw",)),
    ("Send and receive; GB/s of both directions together", "both", ("send_recv",)),
    ("Posting to a ring that no HCA executes, time of one WQE", "us",
     ("post_put", "post_value", "post_put_signal", "post_put_signal_counter",
      "post_fan_out", "post_batch")),
    ("Ranks that share one GPU: an operation and the wait for it, by path", "us",
     ("put_flush", "put_local", "put_counter", "put_signal_counter", "signal_flush", "signal_all",
      "fan_out", "signal_lat", "put_signal_lat")),
)


def figure(row, what):
    if row is None:
        return ""
    text = []
    if what in ("us", "both"):
        text.append(f"{row['median_us']:.2f} us" if row["median_us"] >= 10
                    else f"{row['median_us'] * 1e3:.0f} ns")
    if what in ("gbps", "both") and row["gbps"] is not None:
        text.append(f"{row['gbps']:.1f} GB/s")
    return f"{', '.join(text)} ±{row.get('spread', 0) / 2:.1%}"


def size(count):
    for unit in ("", " KiB", " MiB"):
        if count < 1024 or count % 1024:
            return f"{count}{unit}" if unit else f"{count} B"
        count //= 1024
    return f"{count} GiB"


def section(rows, title, what, tests):
    """A line for each point; blocks and threads of peers that choose them are 0."""
    table = {}
    for row in rows:
        if row["test"] in tests and row["impl"] in IMPLS:
            key = (tests.index(row["test"]), row["mode"], row["ranks"], row["bytes"],
                   row["blocks"], row["threads"])
            table.setdefault(key, {})[row["impl"]] = row
    if not table:
        return ""
    impls = [i for i in IMPLS if any(i in cells for cells in table.values())]
    lines = [f"## {title}", "", "| test | ranks | bytes | blocks x threads | " + " | ".join(impls)
             + " |", "|---" * (4 + len(impls)) + "|"]
    for key in sorted(table):
        test, mode, ranks, count, blocks, threads = key
        cells = " | ".join(figure(table[key].get(i), what) for i in impls)
        shape = f"{blocks} x {threads}" if blocks else "its own"
        lines.append(f"| {tests[test]}, {mode} | {ranks} | {size(count) if count else ''} | "
                     f"{shape} | {cells} |")
    return "\n".join(lines) + "\n"


def goals(rows):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run.judge(rows)
    return text.getvalue()


def notes(path):
    if not path.exists():
        return NOTES + "\n"
    text = path.read_text(encoding="utf-8")
    return text[text.index(NOTES):] if NOTES in text else NOTES + "\n"


def draw(rows, prefix):
    """The exit code of the program that makes PREFIX_*.svg."""
    plot = pathlib.Path(__file__).parent.parent / "plot.py"
    return subprocess.run([sys.executable, plot, rows, prefix], check=False).returncode


def pictures(prefix):
    plots = sorted(prefix.parent.glob(prefix.name + "_*.svg"))
    return "".join(f"![{p.stem}]({p.name})\n" for p in plots)


def document(rows, prefix, remarks):
    commits = sorted({row["commit"] for row in rows})
    machines = sorted({row["machine"] for row in rows})
    turns = " or ".join(map(str, sorted({row["runs"] for row in rows})))
    head = f"""# Device code on GPUs, beside NVSHMEM and NCCL

Commit {', '.join(commits)}; {', '.join(machines)}; NVLink multicast off
(`NCCL_NVLS_ENABLE=0`, `NVSHMEM_DISABLE_NVLS=1`). Versions of driver, CUDA, NCCL and NVSHMEM:
{run.versions_text(rows)}. Made by `scripts/gpu-check bench DIR` and
`bench/gpu/report.py DIR/bench/rows.jsonl {prefix.name}`; all rows, also of what each fence,
poll and copy costs bare, are in [{prefix.name}.jsonl]({prefix.name}.jsonl). Windows are made by
hand over `cudaMalloc()` memory (`bench/gpu/bare.h`). Programs take turns, {turns} times; numbers
are medians of their medians, ± is half of the spread between them. In each transfer the bytes
are compared. "MISSED" is against the goal of the project, not against the peer.

"""
    tables = "\n".join(filter(None, (section(rows, *s) for s in SECTIONS)))
    return f"{head}```\n{goals(rows)}```\n\n{pictures(prefix)}\n{tables}\n{remarks}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=pathlib.Path, nargs="+")
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("--notes", type=pathlib.Path)
    arguments = parser.parse_args()
    prefix, rows = arguments.prefix, []
    for path in arguments.rows:
        rows += run.read_rows(path)
    target, page = prefix.with_suffix(".jsonl"), prefix.with_suffix(".md")
    run.write_rows(rows, target)
    status = draw(target, prefix)
    page.write_text(document(rows, prefix, notes(arguments.notes or page)), encoding="utf-8")
    print(page)
    sys.exit(status)


if __name__ == "__main__":
    main()
