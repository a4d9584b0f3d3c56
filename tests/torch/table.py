#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py [--check] PAGE RESULTS [GLOO]: results of distributed.py as the table of a page.

Replaces what lies between the marks <!-- results --> and <!-- /results --> of PAGE. RESULTS and GLOO
are JSON files of the same tests with the backends oriel and gloo. --check writes nothing to the page: it
prints how many passed and how many failed that the page names, and exits 1 if another one failed.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

MARKS = re.compile(r"(<!-- results -->\n).*?(<!-- /results -->)", re.DOTALL)


def short(reason):
    """A reason without what differs from run to run."""
    reason = re.sub(r"^(\w+\.)*(\w+(Error|Exception)): ", "", reason)
    reason = re.sub(r"^Process \d+ (exited|terminated).*?(error code|exit code) ", "exit code ", reason)
    return reason.replace("|", "\\|")[:120] or "no reason"


def table(results, gloo):
    """Of tests that are not skipped with both: what passes, and what does not with its reason."""
    counts = collections.Counter(result for result, _ in results.values())
    yield "| | oriel |" + (" gloo |" if gloo else "")
    yield "|---|---|" + ("---|" if gloo else "")
    theirs = collections.Counter(result for result, _ in gloo.values())
    for kind in ("passed", "failed", "skipped"):
        yield f"| {kind} | {counts[kind]} |" + (f" {theirs[kind]} |" if gloo else "")
    yield ""
    yield "| not passed | reason |" + (" gloo |" if gloo else "")
    yield "|---|---|" + ("---|" if gloo else "")
    for name, (result, reason) in sorted(results.items()):
        if result == "failed":
            yield f"| `{name}` | {short(reason)} |" + (f" {gloo.get(name, ['-'])[0]} |" if gloo else "")


def summary(results, worse):
    counts = collections.Counter(result for result, _ in results.values())
    failed = f"{counts['failed'] - len(worse)} failed as expected"
    if worse:
        failed += f", {len(worse)} failed"
    return f"tests of torch: {counts['passed']} passed, {failed}, {counts['skipped']} skipped"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    page = args.page.read_text("utf-8")
    found = [json.loads(path.read_text("utf-8")) for path in args.results]
    if args.check:
        known = set(re.findall(r"^\| `(test_\w+)` \|", page, re.MULTILINE))
        worse = sorted(n for n, (result, _) in found[0].items() if result == "failed" and n not in known)
        for name in worse:
            print(f"FAIL {name}: {found[0][name][1]}; {args.page} does not name it")
        print(summary(found[0], worse))
        return 1 if worse else 0
    text = "\n".join(table(found[0], found[1] if len(found) > 1 else {}))
    args.page.write_text(MARKS.sub(lambda m: f"{m[1]}{text}\n{m[2]}", page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
