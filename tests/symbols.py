#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symbols.py [--nm NM] [--static LIBRARY.a] [--calls CALLS.a] LIBRARY.so MAP INCLUDE: are the names
that they define right?

The shared library exports what the headers of INCLUDE/oriel declare, and MAP lists that, with
versions, one of which each name has. The archive cannot hide what its modules share, so there ori_
is allowed too. CALLS.a stands in for the functions that oriel/p2p.h declares: it defines them all,
but for those that answer without an object.
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


def symbols(nm, library, *options):
    """The global names that @library defines, and their versions, "" if they have none."""
    text = subprocess.run(
        [nm, "--defined-only", "--format=posix", *options, library],
        check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    # "name type value size"; the archive has "archive[member]:" lines in between.
    # Type A is the name of a version node.
    fields = [line.split() for line in text.splitlines()]
    names = [f[0].partition("@") for f in fields if len(f) >= 2 and f[1] != "A"]
    return {name: version.lstrip("@") for name, _, version in names}


def declared(header):
    """The functions that @header declares."""
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    function = r"^(?!ORIEL_DEV|static|typedef)\w[^;{}()#=]*?\b(oriel_\w+)\([^{}]*?\);"
    return set(re.findall(function, text, re.MULTILINE))


def listed(version_map):
    """The versions that @version_map has, and the functions that it names."""
    text = pathlib.Path(version_map).read_text("utf-8")
    return (set(re.findall(r"^(\w[\w.]*) \{", text, re.MULTILINE)),
            set(re.findall(r"^\t(\w+);", text, re.MULTILINE)))


def complaints_of_shared(args):
    exported = symbols(args.nm, args.shared, "--dynamic")
    promised = set()
    for path in sorted((args.include / "oriel").glob("**/*.h")):
        if path.name not in OF_OTHERS:
            promised |= declared(path)
    versions, named = listed(args.map)
    for name in sorted(exported.keys() - promised):
        yield f"{args.shared}: exports {name}, which no header declares"
    for name in sorted(promised - exported.keys()):
        yield f"{args.shared}: does not export {name}, which a header declares"
    for name in sorted(exported):
        if exported[name] not in versions:
            yield f"{args.shared}: {name} has version '{exported[name]}', which {args.map} does not have"
    for name in sorted(named - exported.keys()):
        yield f"{args.map}: lists {name}, which is not exported"


def complaints_of_static(args):
    shared = symbols(args.nm, args.static, "--extern-only")
    exported = symbols(args.nm, args.shared, "--dynamic")
    for name in sorted(shared):
        if not name.startswith(("oriel_", "ori_")):
            yield f"{args.static}: {name} is global, but neither oriel_ nor ori_"
    for name in sorted(shared.keys() - exported.keys()):
        if name.startswith("oriel_"):
            yield f"{args.shared}: {name} is in the archive, but not exported"


def complaints_of_calls(args):
    header = args.include / "oriel/p2p.h"
    functions = declared(header)
    calls = symbols(args.nm, args.calls, "--extern-only")
    if not ANSWERED < functions:
        yield f"{header}: declares {len(functions)} functions, not all"
    for name in sorted(functions - ANSWERED - calls.keys()):
        yield f"{args.calls}: does not define {name}"
    for name in sorted(calls.keys() - functions):
        if not name.startswith(("oriel_p2p_calls_", "ori_p2p_call")):
            yield f"{args.calls}: {name} is global, but no function of {header}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--static")
    parser.add_argument("--calls")
    parser.add_argument("shared")
    parser.add_argument("map")
    parser.add_argument("include", type=pathlib.Path)
    args = parser.parse_args()

    complaints = list(complaints_of_shared(args))
    if args.static:
        complaints += complaints_of_static(args)
    if args.calls:
        complaints += complaints_of_calls(args)
    print("\n".join(complaints) or f"{len(symbols(args.nm, args.shared, '--dynamic'))} names exported")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
