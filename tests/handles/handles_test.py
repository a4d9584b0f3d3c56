#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""handles_test.py HANDLES INCLUDE: every public host function that takes a handle rejects
invalid ones, and has a case in HANDLES that shows it.
"""
import pathlib
import re
import subprocess
import sys

# Opaque public structs: declared and never defined in a header.
DECLARED = re.compile(r"^struct (\w+);", re.M)
FUNCTION = re.compile(r"^[a-z][\w \t\n*]*?\b(oriel_\w+)\(([^;{}]*)\);", re.M)


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)


def headers(include):
    """The texts of the host headers, and the names of their opaque structs. nulls_test.py calls it, too."""
    texts = [without_comments(path.read_text(encoding="utf-8"))
             for path in sorted((include / "oriel").glob("*.h"))]
    whole = "\n".join(texts + [without_comments(path.read_text(encoding="utf-8"))
                               for path in (include / "oriel" / "dev").glob("*.h")])
    return texts, {name for text in texts for name in DECLARED.findall(text)
                   if not re.search(rf"^struct {name} {{", whole, re.M)}


def main():
    handles, include = sys.argv[1], pathlib.Path(sys.argv[2])
    texts, opaque = headers(include)
    kinds = {name for name in opaque if name.startswith("oriel_")}
    wanted = set()
    for text in texts:
        for name, arguments in FUNCTION.findall(text):
            # The first argument is a handle: "struct x *", not a pointer to a new one.
            first = arguments.split(",")[0]
            match = re.match(r"\s*(?:const )?struct (oriel_\w+) \*(?!\*)", first)
            if match and match[1] in kinds:
                wanted.add(name)
    listed = subprocess.run([handles, "--list"], check=True, stdout=subprocess.PIPE,
                            universal_newlines=True).stdout.split()
    complaints = [f"{name} takes a handle and has no case" for name in sorted(wanted - set(listed))]
    complaints += [f"{name} is no function that takes a handle"
                   for name in sorted(set(listed) - wanted)]
    if len(wanted) < 100:
        complaints.append(f"the headers show {len(wanted)} functions only")
    print("\n".join(complaints) or f"{len(wanted)} functions, {len(kinds)} kinds")
    return 1 if complaints or subprocess.run([handles], check=False).returncode else 0


if __name__ == "__main__":
    sys.exit(main())
