#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nulls_test.py NULLS INCLUDE: every public host function refuses NULL for each pointer that it needs,
and NULLS has a row for each pointer, with which it is refused or which may be NULL.
"""
import pathlib
import re
import subprocess
import sys

from handles_test import FUNCTION, headers

# They take the place of the library: unit/p2p_calls_test has them.
ELSEWHERE = {"oriel_p2p_calls_begin attr"}


def parameters(text):
    """The parts of @text between commas that are in no parentheses."""
    depth, part = 0, ""
    for letter in text + ",":
        if letter == "," and depth == 0:
            yield " ".join(part.split())
            part = ""
            continue
        depth += {"(": 1, ")": -1}.get(letter, 0)
        part += letter


def pointers(text, opaque):
    """The names of the pointers among the parameters, but for handles and streams."""
    for parameter in parameters(text):
        if handle := re.fullmatch(r"(?:const )?struct (\w+) \*\w+", parameter):
            if handle[1] in opaque:
                continue
        if function := re.search(r"\(\*(\w+)\)\(", parameter):
            yield function[1]
        elif array := re.fullmatch(r".*?(\w+)\[\w*\]", parameter):
            yield array[1]
        elif pointer := re.fullmatch(r".*\*\s*(?:const )?(\w+)", parameter):
            yield pointer[1]


def main():
    nulls, include = sys.argv[1], pathlib.Path(sys.argv[2])
    texts, opaque = headers(include)
    wanted = {f"{name} {pointer}" for text in texts for name, arguments in FUNCTION.findall(text)
              if not re.search(rf"^typedef [^;]*\b{name}\(", text, re.M)
              for pointer in pointers(arguments, opaque)} - ELSEWHERE
    listed = subprocess.run([nulls, "--list"], check=True, stdout=subprocess.PIPE,
                            universal_newlines=True).stdout.splitlines()
    complaints = [f"{name} has no row" for name in sorted(wanted - set(listed))]
    complaints += [f"{name} is no pointer of a function" for name in sorted(set(listed) - wanted)]
    complaints += [f"{name} has two rows" for name in sorted({name for name in listed
                                                              if listed.count(name) > 1})]
    if len(wanted) < 300:
        complaints.append(f"the headers show {len(wanted)} pointers only")
    print("\n".join(complaints) or f"{len(wanted)} pointers, of which NULL is refused or allowed")
    return 1 if complaints or subprocess.run([nulls], check=False).returncode else 0


if __name__ == "__main__":
    sys.exit(main())
