#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reserved_test.py RESERVED INCLUDE: every reserved field of the attribute structs of INCLUDE/oriel has
a case in RESERVED, which shows that it is refused unless it is 0.
"""
import pathlib
import re
import subprocess
import sys

STRUCT = re.compile(r"^struct (oriel_\w+_attr) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
# It takes the place of the library: unit/p2p_calls_test has the case.
ELSEWHERE = {"oriel_p2p_calls_attr.reserved"}


def main():
    program, include = sys.argv[1], pathlib.Path(sys.argv[2])
    wanted = {f"{name}.{field}" for path in (include / "oriel").glob("*.h")
              for name, body in STRUCT.findall(path.read_text("utf-8"))
              for field in re.findall(r"\b(reserved\d*)\b(?=[;\[])", body)} - ELSEWHERE
    listed = set(subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split())
    complaints = [f"{field} has no case" for field in sorted(wanted - listed)]
    complaints += [f"{field} is no reserved field" for field in sorted(listed - wanted)]
    if len(wanted) < 5:
        complaints.append(f"the headers show {len(wanted)} fields only")
    print("\n".join(complaints) or f"{len(wanted)} fields")
    return 1 if complaints or subprocess.run([program], check=False).returncode else 0


if __name__ == "__main__":
    sys.exit(main())
