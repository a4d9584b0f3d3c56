#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi.py [--accept] CC INCLUDE TABLE: do the public structs have the layout that TABLE says?

TABLE has a line for each struct of INCLUDE/oriel with its size, and one for each of its fields with
offset and size. Programs are compiled with these layouts, and kernels and inline functions read
the structs of oriel/dev by themselves, so a difference breaks programs that are not compiled again:
raise ORIEL_DEV_VERSION for a struct of kernels, append fields of others, and then --accept.
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

# Headers of libraries that are linked into tests alone.
OF_TESTS = {"p2p_calls.h", "p2p_mock.h"}
STRUCT = re.compile(r"^struct (oriel_\w+) \{\n(.*?)^\}[^;]*;", re.MULTILINE | re.DOTALL)


def fields(body):
    """The names of the members in the @body of a struct, those of inner structs and unions too."""
    names = []
    depth = 0
    for part in re.split(r"([{};])", body):
        if part == "{":
            depth += 1
        elif part == "}":
            depth -= 1
        elif part != ";" and depth == 0:
            names += declared(part)
    return names


def declared(text):
    """The names in one declaration: also of arrays, pointers to functions, and lists."""
    text = text.strip()
    if not text or re.fullmatch(r"(struct|union|enum)(\s+\w+)?", text):
        return []
    if found := re.match(r"[^()]*\(\*(\w+)(\[[^]]*\])?\)\(", text):
        return [found[1]]
    text = re.sub(r"\[[^]]*\]", "", text)
    return [name[1] for part in text.split(",") if (name := re.search(r"(\w+)\s*$", part))]


def layouts(compiler, include):
    """The lines of the table."""
    includes, prints = [], []
    for path in sorted((include / "oriel").glob("**/*.h")):
        if path.name in OF_TESTS:
            continue
        includes.append(f"#include <{path.relative_to(include)}>")
        text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
        for name, body in STRUCT.findall(text):
            body = "\n".join(line for line in body.split("\n") if not line.startswith("#"))
            prints.append(f'printf("%s %zu\\n", "{name}", sizeof(struct {name}));')
            prints += [f'printf("    %-24s %5zu %5zu\\n", "{field}", offsetof(struct {name}, {field}), '
                       f"sizeof(((struct {name} *)0)->{field}));" for field in fields(body)]
    program = "\n".join(["#include <stddef.h>", "#include <stdio.h>", *includes, "int main(void)", "{",
                         *prints, "return 0;", "}", ""])
    with tempfile.TemporaryDirectory() as scratch:
        source, binary = pathlib.Path(scratch, "abi.c"), pathlib.Path(scratch, "abi")
        source.write_text(program, "utf-8")
        # Optimised, so that no inline function stays, which would need the library.
        subprocess.run([*compiler.split(), "-std=gnu11", "-O1", "-w", "-I", include, source, "-o",
                        binary], check=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accept", action="store_true", help="write the table")
    parser.add_argument("compiler")
    parser.add_argument("include", type=pathlib.Path)
    parser.add_argument("table", type=pathlib.Path)
    args = parser.parse_args()

    now = layouts(args.compiler, args.include)
    if args.accept:
        args.table.write_text("\n".join(now) + "\n", "utf-8")
        return 0
    then = args.table.read_text("utf-8").splitlines()
    changes = list(difflib.unified_diff(then, now, str(args.table), "the headers", lineterm="", n=2))
    print("\n".join(changes) or f"{sum(not line.startswith(' ') for line in now)} structs as they were")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
