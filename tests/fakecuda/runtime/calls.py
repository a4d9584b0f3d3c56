#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calls.py FROM TO: turns <<<>>> launches of kernels into calls that a C++ compiler accepts."""
import pathlib
import re
import sys

LAUNCH = re.compile(r"(\w+)<<<(.*?)>>>\(", re.DOTALL)

source, target = map(pathlib.Path, sys.argv[1:])
text = LAUNCH.sub(r"fakecuda_launch(\1, \2)(", source.read_text(encoding="utf-8"))
target.write_text(f'#line 1 "{source}"\n{text}', encoding="utf-8")
