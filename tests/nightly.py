#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/nightly.md has a row for each part of scripts/nightly, in its order, also for those that never
ran, so that none is missing without a word. CTest calls it as tree/nightly."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
ROW = re.compile(r"^\| ([\w-]+) \| (\w+) \|(?: [^|]*\|){5}$", re.MULTILINE)


def parts_of(script):
    """The parts that it lists, and those that it runs."""
    listed = re.search(r"^all=\(([^)]*)\)", script, re.MULTILINE)[1].split()
    return listed, re.findall(r"^part ([\w-]+) ", script, re.MULTILINE)


def rows_of(page):
    return [name for name, _ in ROW.findall(page)][1:]  # without the head


def written(script, old, name, row):
    """The page that the script makes of the page @old when the part @name ends."""
    function = re.search(r"^write_page\(\) \{.*?^\}", script, re.MULTILINE | re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as scratch:
        page = pathlib.Path(scratch, "page.md")
        page.write_text(old, "utf-8")
        subprocess.run(["bash", "-euc", f'{function}\nall=(one two three)\npage=$1\nwrite_page "$2" "$3"',
                        "bash", page, name, row], check=True)
        return page.read_text("utf-8")


def complaints(script, page):
    listed, run = parts_of(script)
    if listed != run:
        yield f"scripts/nightly lists {listed} and runs {run}"
    if rows_of(page) != listed:
        yield f"docs/nightly.md has rows of {rows_of(page)}, not of {listed}"
    passed = "| two | passed | 01234567 | 2026-01-01 | 2, 6 | 1 | said |"
    failed = "| one | FAILED | 01234568 | 2026-01-02 | 2, 6 | 1 | said |"
    first = written(script, "", "two", passed)
    if rows_of(first) != ["one", "two", "three"] or first.count("| never |") != 2 or passed not in first:
        yield f"of one part that ended scripts/nightly makes\n{first}"
    second = written(script, first, "one", failed)
    if rows_of(second) != ["one", "two", "three"] or second.count("| never |") != 1 \
            or failed not in second or passed not in second:
        yield f"of two parts that ended scripts/nightly makes\n{second}"


def main():
    found = list(complaints((ROOT / "scripts/nightly").read_text("utf-8"),
                            (ROOT / "docs/nightly.md").read_text("utf-8")))
    print("\n".join(found) or "each part has its row")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
