#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symbols.py [--nm NM] LIBRARY.so LIBRARY.a CALLS.a MAP INCLUDE: are the names they define right?

The shared library exports what the headers of INCLUDE/oriel declare, and MAP lists that. The
archive cannot hide what its modules share, so there ori_ is allowed too. CALLS.a stands in for
the functions that oriel/p2p.h declares: it defines them all, but for those that answer without
an object.
"""
import argparse
import pathlib
import re
import subprocess
import sys

# Of these the library's own serve scripts of calls.
ANSWERED = {"oriel_p2p_mode_name", "oriel_p2p_copy_group_hooks"}
# Of these headers the functions are in libraries of their own.
OF_OTHERS = {"p2p_calls.h", "p2p_mock.h"}


def defined(nm, library, *options):
    """The global names that @library defines, without their versions."""
    text = subprocess.run(
        [nm, "--defined-only", "--format=posix", *options, library],
        check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    # "name type value size"; the archive has "archive[member]:" lines in between.
    # Type A is the name of a version node.
    fields = [line.split() for line in text.splitlines()]
    return {f[0].split("@")[0] for f in fields if len(f) >= 2 and f[1] != "A"}


def declared(header):
    """The functions that @header declares."""
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    function = r"^(?!ORIEL_DEV|static|typedef)\w[^;{}()#=]*?\b(oriel_\w+)\([^{}]*?\);"
    return set(re.findall(function, text, re.MULTILINE))


def listed(version_map):
    """The functions that @version_map names."""
    return set(re.findall(r"^\t(\w+);", pathlib.Path(version_map).read_text("utf-8"), re.MULTILINE))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("shared")
    parser.add_argument("static")
    parser.add_argument("calls")
    parser.add_argument("map")
    parser.add_argument("include", type=pathlib.Path)
    args = parser.parse_args()

    exported = defined(args.nm, args.shared, "--dynamic")
    shared = defined(args.nm, args.static, "--extern-only")
    promised = set()
    for path in sorted((args.include / "oriel").glob("**/*.h")):
        if path.name not in OF_OTHERS:
            promised |= declared(path)
    named = listed(args.map)
    complaints = [f"{args.shared}: exports {name}, which no header declares"
                  for name in sorted(exported - promised)]
    complaints += [f"{args.shared}: does not export {name}, which a header declares"
                   for name in sorted(promised - exported)]
    complaints += [f"{args.map}: lists {name}, which is not exported"
                   for name in sorted(named - exported)]
    complaints += [f"{args.static}: {name} is global, but neither oriel_ nor ori_"
                   for name in sorted(shared) if not name.startswith(("oriel_", "ori_"))]
    complaints += [f"{args.shared}: {name} is in the archive, but not exported"
                   for name in sorted(shared - exported) if name.startswith("oriel_")]
    header = args.include / "oriel/p2p.h"
    functions = declared(header)
    calls = defined(args.nm, args.calls, "--extern-only")
    if not ANSWERED < functions:
        complaints.append(f"{header}: declares {len(functions)} functions, not all")
    complaints += [f"{args.calls}: does not define {name}"
                   for name in sorted(functions - ANSWERED - calls)]
    complaints += [f"{args.calls}: {name} is global, but no function of {header}"
                   for name in sorted(calls - functions)
                   if not name.startswith(("oriel_p2p_calls_", "ori_p2p_call"))]
    print("\n".join(complaints) or f"{len(exported)} names exported, {len(shared)} global")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
