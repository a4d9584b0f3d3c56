#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi.py [--accept] CC INCLUDE TABLE: are the public structs and numbers those that TABLE has?

TABLE has a line for each struct of INCLUDE/oriel with its size, and one for each of its fields with
offset and size; then one for each enum, and for each enumerator with its value; then one for each
macro that is a number or a text, also those of oriel/dev/detail. Programs are compiled with these
layouts and values, and kernels and inline functions read the structs of oriel/dev by themselves, so
a difference breaks programs that are not compiled again: raise ORIEL_DEV_VERSION for what kernels
read, append fields of others and enumerators, and then --accept.
"""
import argparse
import collections
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

# They say which version it is, and are no part of what a program relies on.
VERSIONS = {"ORIEL_VERSION_MAJOR", "ORIEL_VERSION_MINOR", "ORIEL_VERSION_PATCH"}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRUCT = re.compile(r"^struct ((?:oriel|ori_dev)_\w+) \{\n(.*?)^\}[^;]*;", re.MULTILINE | re.DOTALL)
ENUM = re.compile(r"^enum ((?:oriel|ori_dev)_\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
MACRO = re.compile(r"^#[ \t]*define (ORI\w+)(?=\s)", re.MULTILINE)  # those without arguments
TEXT = re.compile(r'("[^"]*"\s*)+')
# What a number is made of: literals, operators, types in casts, and enumerators.
PART = re.compile(r"\b(?:0x[0-9a-fA-F]+|\d+)[uUlL]*\b|\bu?int(?:32|64)_t\b|\bORIEL_\w+|[-+*/%&|^~<>()\s]")


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


def enumerators(body):
    """The names in the @body of an enum."""
    return re.findall(r"^\s*(ORI\w+)", body.replace(",", "\n"), re.MULTILINE)


def run(compiler, include, program):
    with tempfile.TemporaryDirectory() as scratch:
        source, binary = pathlib.Path(scratch, "abi.c"), pathlib.Path(scratch, "abi")
        source.write_text("\n".join(program) + "\n", "utf-8")
        # Optimised, so that no inline function stays, which would need the library.
        subprocess.run([*compiler.split(), "-std=gnu11", "-O1", "-w", "-I", include, source, "-o",
                        binary], check=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()


def expansions(compiler, include, includes, names):
    """The names of macros that are defined, and what the compiler makes of them."""
    lines = [*includes, *(f'#ifdef {name}\n"{name}" : {name}\n#endif' for name in names), ""]
    said = subprocess.run([*compiler.split(), "-std=gnu11", "-E", "-P", "-I", include, "-x", "c", "-"],
                          input="\n".join(lines), check=True, capture_output=True, text=True).stdout
    return re.findall(r'^"(ORI\w+)" :(.*)$', said, re.MULTILINE)


def prints_of_macros(found):
    for name, text in found:
        if TEXT.fullmatch(text.strip()):
            yield f'printf("define %-24s \\"%s\\"\\n", "{name}", {name});'
        elif text.strip() and not PART.sub("", text):
            yield f'NUMBER("define", {name});'


def table_of(compiler, include):
    """The lines of the table."""
    texts = {path.relative_to(include): COMMENT.sub("", path.read_text("utf-8"))
             for path in sorted((include / "oriel").glob("**/*.h"))}
    includes = [f"#include <{path}>" for path in texts]
    prints = []
    for text in texts.values():
        for name, body in STRUCT.findall(text):
            body = "\n".join(line for line in body.split("\n") if not line.startswith("#"))
            prints.append(f'printf("%s %zu\\n", "{name}", sizeof(struct {name}));')
            prints += [f'printf("    %-24s %5zu %5zu\\n", "{field}", offsetof(struct {name}, {field}), '
                       f"sizeof(((struct {name} *)0)->{field}));" for field in fields(body)]
    for text in texts.values():
        for name, body in ENUM.findall(text):
            prints.append(f'printf("enum %s\\n", "{name}");')
            prints += [f'NUMBER("   ", {each});' for each in enumerators(body)]
    names = dict.fromkeys(name for text in texts.values() for name in MACRO.findall(text)
                          if name not in VERSIONS)
    prints += prints_of_macros(expansions(compiler, include, includes, names))
    return run(compiler, include, [
        "#include <stddef.h>", "#include <stdio.h>", *includes,
        '#define NUMBER(kind, name) printf((name) < 0 ? "%s %-30s %lld\\n" : "%s %-30s %llu\\n", '
        "kind, #name, (unsigned long long)(name))",
        "int main(void)", "{", *prints, "return 0;", "}"])


def unnamed(table):
    """Complaints about bytes without a name in structs that begin with their size: a field that a later
    version has there would read what older programs, or libraries, left in them."""
    struct, size, end = "", 0, None  # None: the struct has no size
    for line in [*table, "end 0"]:
        name, *numbers = line.split()
        if not line.startswith(" "):
            if end is not None and end != size:
                yield f"{struct}: bytes {end} to {size} have no name: call them reserved"
            struct, size, end = name, int(numbers[-1]) if numbers[-1].isdigit() else 0, None
        elif len(numbers) == 2:
            at, length = map(int, numbers)
            if at == 0 and name == "size":
                end = 0
            if end is not None and at > end:
                yield f"{struct}: bytes {end} to {at} have no name: call them reserved"
            end = None if end is None else max(end, at + length)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accept", action="store_true", help="write the table")
    parser.add_argument("compiler")
    parser.add_argument("include", type=pathlib.Path)
    parser.add_argument("table", type=pathlib.Path)
    args = parser.parse_args()

    now = table_of(args.compiler, args.include)
    if complaints := list(unnamed(now)):
        print("\n".join(complaints))
        return 1
    if args.accept:
        args.table.write_text("\n".join(now) + "\n", "utf-8")
        return 0
    then = args.table.read_text("utf-8").splitlines()
    changes = list(difflib.unified_diff(then, now, str(args.table), "the headers", lineterm="", n=2))
    kinds = collections.Counter(line.split()[0] if line.startswith(("enum ", "define ")) else "struct"
                                for line in now if not line.startswith(" "))
    print("\n".join(changes) or f"{kinds['struct']} structs, {kinds['enum']} enums, {kinds['define']} macros "
          "as they were")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
