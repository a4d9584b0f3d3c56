#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hardened.py --readelf R --marks M,... --commands C --shared S --tool T --static A: what cmake/oriel_harden.cmake
asks of compiler and linker is in the library, the tool and the objects of the archive; what leaves no mark there is in
all commands of C, compile_commands.json, that compile them."""
import argparse
import json
import re
import subprocess
import sys

# Calls that glibc checks where it knows how large the buffer is (-D_FORTIFY_SOURCE).
CHECKED = {"__memcpy_chk", "__snprintf_chk", "__vsnprintf_chk"}


class File:
    def __init__(self, readelf, path):
        self.path = path

        def read(*options):
            return subprocess.run([readelf, *options, "-W", path], check=True, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        self.segments = read("-l")
        self.dynamic = read("-d")
        self.header = read("-h")
        self.symbols = set(re.findall(r"UND\s+(\w+)", read("--dyn-syms")))
        self.notes = read("-n")


def flaws_of_program(file, marks, is_tool):
    """What of @marks is missing in the library or the tool."""
    flags = " ".join(re.findall(r"\(FLAGS(?:_1)?\)\s+(?:Flags: )?(.*)", file.dynamic))
    stack = re.search(r"GNU_STACK(?:\s+0x\w+){5}\s+(\w+)", file.segments)
    writable = [line for line in file.segments.splitlines() if re.match(r"\s+LOAD\b.*\bRWE\b", line)]
    there = {
        "relro": "GNU_RELRO" in file.segments,
        "now": "NOW" in flags.split(),
        "nx": bool(stack) and "E" not in stack[1] and not writable,
        "pie": not is_tool or ("DYN" in file.header and "PIE" in flags.split()),
        "stack": "__stack_chk_fail" in file.symbols,
        "fortify2": CHECKED <= file.symbols,
        "fortify3": CHECKED <= file.symbols,
    }
    return [mark for mark in marks if not there.get(mark, mark in ELSEWHERE)]


ELSEWHERE = {"clash", "branches"}  # marks that the library and the tool do not show
# Levels of -D_FORTIFY_SOURCE leave the same symbols, and no symbol says that large frames are probed.
FLAGS = {"stack": "-fstack-protector-strong", "clash": "-fstack-clash-protection",
         "fortify2": "-D_FORTIFY_SOURCE=2", "fortify3": "-D_FORTIFY_SOURCE=3"}
HARDENED = re.compile(r"/(oriel_objects|oriel_tool_objects|oriel_tool)\.dir/\S+\.o\b")


def flaws_of_commands(path, marks):
    """What of @marks is missing in a command, or is taken back by a flag behind it."""
    with open(path, encoding="utf-8") as file:
        commands = [entry for entry in json.load(file)
                    if entry["file"].endswith(".c") and HARDENED.search(entry["command"])]
    flaws = [] if commands else [f"{path}: no command of the library is found in it"]
    for entry in commands:
        words = entry["command"].split()
        for flag in (FLAGS[mark] for mark in marks if mark in FLAGS):
            name = flag.split("=")[0].replace("-D", "").replace("-f", "")
            last = [word for word in words if re.match(rf"-(D|U|f|fno-){name.removesuffix('-strong')}\b", word)]
            if not last or last[-1] != flag:
                flaws.append(f"{entry['file']}: is compiled without {flag}")
    return flaws


# Marks of indirect branches and returns: IBT and SHSTK of x86, BTI and PAC of AArch64.
PROTECTED = {"X86-64": r"x86 feature: .*IBT.*SHSTK", "AArch64": r"AArch64 feature: .*BTI.*PAC"}


def objects_without(mark, file):
    """Objects of the archive whose code does not have @mark; how many objects there are.

    The linker keeps the property of a program only if all of its files have it, and those of
    the C runtime of some distributions have not (Debian 12: crti.o, Scrt1.o).
    """
    parts = re.split(r"^File: ", file.notes, flags=re.M)[1:]
    return [part.split("\n")[0] for part in parts if not re.search(mark, part)], len(parts)


def main():
    parser = argparse.ArgumentParser()
    for name in ("readelf", "marks", "commands", "shared", "tool", "static"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    marks = options.marks.split(",")
    flaws = flaws_of_commands(options.commands, marks)
    for path in (options.shared, options.tool):
        missing = flaws_of_program(File(options.readelf, path), marks, path == options.tool)
        flaws += [f"{path}: no mark of {mark}" for mark in missing]
    archive = File(options.readelf, options.static)
    machine = next((name for name in PROTECTED if name in archive.header), None)
    if "branches" in marks and machine:
        without, count = objects_without(PROTECTED[machine], archive)
        flaws += [f"{name}: no {PROTECTED[machine]}" for name in without]
        if not count:
            flaws.append(f"{options.static}: no objects are found in it")
    print("\n".join(flaws) or f"hardened: {', '.join(marks)}")
    return bool(flaws)


if __name__ == "__main__":
    sys.exit(main())
