#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symbols.py [--nm NM] LIBRARY.so LIBRARY.a: whether the names they define are ours.

The shared library exports oriel_ only. The archive cannot hide what its modules
share, so there ori_ is allowed too.
"""
import argparse
import subprocess
import sys

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("shared")
    parser.add_argument("static")
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
    print("\n".join(complaints) or f"{len(exported)} names exported, {len(shared)} global")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
