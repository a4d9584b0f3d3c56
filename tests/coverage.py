#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py BUILD GAPS: what of the library and the tools do tests enter?

BUILD was compiled by gcc --coverage, and its tests were run. Prints lines, branches and functions of
each module, and exits 1 unless GAPS lists, with a reason each, exactly the functions of src that no
test enters. scripts/coverage calls it. --self-test: the cases below.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Folders of BUILD with objects of src and tools: the fake driver runs src/kernels.
FOLDERS = ["src", "tools", "tests/fakecuda"]
# The tests themselves.
SUPPORT = re.compile(r"_test\.[ch]$|/test_support/")
# A list that begins so is of functions that some runs enter, and some do not.
CHANCE = "Sometimes"


def read_gaps(text):
    """{(file, function): is by chance} of the lists: a reason, and behind tabs "file: function, ..."."""
    gaps, reason = {}, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            reason = reason if line else ""
        elif not line.startswith("\t"):
            reason += line
        else:
            file, colon, names = line.strip().partition(": ")
            if not colon or not reason:
                raise SystemExit(f"line {number} of the gaps is no \"file: function, ...\" below a reason")
            for name in names.split(", "):
                if (file, name) in gaps:
                    raise SystemExit(f"line {number} of the gaps: {name} is listed twice")
                gaps[file, name] = reason.startswith(CHANCE)
    return gaps


class Counts:
    """Of all objects together: a file of a header is in several, and several programs have an object."""
    def __init__(self):
        self.functions = {}  # (file, function): is entered
        self.lines = {}      # (file, line): is run
        self.branches = {}   # (file, line, index): is taken

    def add(self, report):
        for file in report["files"]:
            path = os.path.join(report["current_working_directory"], file["file"])
            name = os.path.relpath(os.path.normpath(path), ROOT)
            if not re.match(r"(src|tools)/", name) or SUPPORT.search(name):
                continue
            for function in file["functions"]:
                # One that is always inlined is entered as lines of its callers.
                count = function["execution_count"] or sum(
                    line["count"] for line in file["lines"]
                    if function["start_line"] <= line["line_number"] <= function["end_line"])
                self.note(self.functions, (name, function["name"]), count)
            for line in file["lines"]:
                self.note(self.lines, (name, line["line_number"]), line["count"])
                for i, branch in enumerate(line["branches"]):
                    self.note(self.branches, (name, line["line_number"], i), branch["count"])

    @staticmethod
    def note(flags, key, count):
        # A process that a signal ends while it counts makes some counts negative.
        flags[key] = flags.get(key, False) or count > 0


def read_object(path):
    done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", path.name],
                          cwd=path.parent, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def read_build(build):
    counts = Counts()
    objects = [path for folder in FOLDERS for path in sorted((build / folder).rglob("*.gcno"))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for report in pool.map(read_object, objects):
            # A build may have objects of sources that are no longer there.
            report["files"] = [file for file in report["files"] if os.path.exists(
                os.path.join(report["current_working_directory"], file["file"]))]
            counts.add(report)
    return counts


def complaints(entered, gaps):
    for (file, name), is_entered in sorted(entered.items()):
        if not is_entered and file.startswith("src/") and (file, name) not in gaps:
            yield f"{file}: no test enters {name}()"
    for (file, name), is_chance in sorted(gaps.items()):
        if (file, name) not in entered:
            yield f"{file} has no function {name}(), which is listed as a gap"
        elif entered[file, name] and not is_chance:
            yield f"{file}: {name}() is listed as a gap, and entered"


def module(file):
    return "/".join(file.split("/")[:2]) if file.startswith("src/") else file.split("/")[0]


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(counts):
    """{module: [lines, of them run, branches, of them taken, functions, of them entered]}"""
    modules = {}
    for column, flags in enumerate((counts.lines, counts.branches, counts.functions)):
        for (file, *_), is_reached in flags.items():
            for name in (module(file), "all"):
                row = modules.setdefault(name, [0] * 6)
                row[2 * column] += 1
                row[2 * column + 1] += is_reached
    return modules


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    gaps = read_gaps(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    counts = read_build(pathlib.Path(sys.argv[1]).resolve())
    modules = table(counts)
    print(f"{'module':16}{'lines':>8}{'run':>9}{'branches':>10}{'taken':>9}{'functions':>11}{'entered':>9}")
    for name, row in sorted(modules.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"{name:16}{row[0]:8}{share(row[1], row[0]):>9}{row[2]:10}{share(row[3], row[2]):>9}"
              f"{row[4]:11}{share(row[5], row[4]):>9}")
    found = list(complaints(counts.functions, gaps))
    print(*found, sep="\n", end="\n" if found else "")
    row = modules["all"]
    print(f"coverage: {share(row[1], row[0])} of {row[0]} lines, {share(row[3], row[2])} of {row[2]} branches, "
          f"{row[5]} of {row[4]} functions; {len(gaps)} gaps listed, {len(found)} not as listed")
    return 1 if found else 0


def self_test():
    gaps = read_gaps("# of src\n\nNeeds a NIC.\n\tsrc/a/b.c: f, g\n\nSometimes: a race.\n\tsrc/a/b.c: h\n")
    assert gaps == {("src/a/b.c", "f"): False, ("src/a/b.c", "g"): False, ("src/a/b.c", "h"): True}

    def counted(*reports):
        counts = Counts()
        for report in reports:
            counts.add({"current_working_directory": str(ROOT), "files": [{
                "file": file, "lines": [], "functions": [
                    {"name": name, "execution_count": count, "start_line": 1, "end_line": 9} for name, count in report.items()]}
                for file in ("src/a/b.c", "src/a/b_test.c", "/usr/include/x.h")]})
        return list(complaints(counts.functions, gaps))

    assert not counted({"f": 0, "g": 0, "h": 1, "i": 1}) and not counted({"f": 0, "g": 0, "h": 0})
    assert not counted({"f": 0, "g": 0, "h": 0, "i": 0}, {"i": 1})
    assert counted({"f": 1, "h": 0, "i": 0}) == [
        "src/a/b.c: no test enters i()", "src/a/b.c: f() is listed as a gap, and entered",
        "src/a/b.c has no function g(), which is listed as a gap"]
    lines = [{"line_number": 7, "count": 2, "branches": [{"count": -1}, {"count": 2}]},
             {"line_number": 8, "count": 0, "branches": []}]
    counts = Counts()
    counts.add({"current_working_directory": str(ROOT / "build"),
                "files": [{"file": "../src/a/b.c", "functions": [], "lines": lines}]})
    assert table(counts)["src/a"] == [2, 1, 2, 1, 0, 0]
    return 0


if __name__ == "__main__":
    sys.exit(main())
