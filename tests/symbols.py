#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symbols.py [--nm NM] LIBRARY.so LIBRARY.a CALLS.a P2P.h: whether the names they define are ours.

The shared library exports oriel_ only. The archive cannot hide what its modules
share, so there ori_ is allowed too. CALLS.a stands in for the functions that P2P.h declares: it
defines them all, but for those that answer without an object.
"""
import argparse
import re
import subprocess
import sys

# Of these the library's own serve scripts of calls.
ANSWERED = {"oriel_p2p_mode_name", "oriel_p2p_copy_group_hooks"}
MUST_EXPORT = {"oriel_version", "oriel_status_name", "oriel_last_error"}


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
    return set(re.findall(r"^(?:enum|const|void)[^;{}()]*?\b(oriel_\w+)\(", text, re.MULTILINE))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("shared")
    parser.add_argument("static")
    parser.add_argument("calls")
    parser.add_argument("header")
    args = parser.parse_args()

    exported = defined(args.nm, args.shared, "--dynamic")
    shared = defined(args.nm, args.static, "--extern-only")
    complaints = [f"{args.shared}: exports {name}, which is not oriel_"
                  for name in sorted(exported) if not name.startswith("oriel_")]
    complaints += [f"{args.shared}: does not export {name}"
                   for name in sorted(MUST_EXPORT - exported)]
    complaints += [f"{args.static}: {name} is global, but neither oriel_ nor ori_"
                   for name in sorted(shared) if not name.startswith(("oriel_", "ori_"))]
    complaints += [f"{args.shared}: {name} is in the archive, but not exported"
                   for name in sorted(shared - exported) if name.startswith("oriel_")]
    functions = declared(args.header)
    calls = defined(args.nm, args.calls, "--extern-only")
    if not ANSWERED < functions:
        complaints.append(f"{args.header}: declares {len(functions)} functions, not all")
    complaints += [f"{args.calls}: does not define {name}"
                   for name in sorted(functions - ANSWERED - calls)]
    complaints += [f"{args.calls}: {name} is global, but no function of {args.header}"
                   for name in sorted(calls - functions)
                   if not name.startswith(("oriel_p2p_calls_", "ori_p2p_call"))]
    print("\n".join(complaints) or f"{len(exported)} names exported, {len(shared)} global")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
