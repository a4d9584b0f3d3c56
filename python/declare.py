#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""declare.py INCLUDE SONAME OUTPUT: write what the public headers declare as a module of ctypes, and
the name of the library.

The build calls it, and the package imports the result as oriel._declarations: constants, structs
and the types of functions are never written a second time by hand. tests/python compares the
result with tests/abi.txt, which a compiler has measured, and with the functions of the library.
"""
import pathlib
import re
import sys

# Headers of kernels, and of libraries that only tests link, declare nothing that Python calls.
LEFT_OUT = {"dev.h", "p2p_calls.h", "p2p_mock.h"}
# The headers of kernels whose constants hosts need, and those of their structs that hosts fill in.
SHARED = "dev/types.h"
SHARED_STRUCTS = {"oriel_dev_buffer", "oriel_dev_alltoallv"}

SCALARS = {
    "bool": "c_bool", "char": "c_char", "unsigned char": "c_ubyte", "int": "c_int",
    "unsigned": "c_uint", "size_t": "c_size_t", "uint8_t": "c_uint8", "uint16_t": "c_uint16",
    "uint32_t": "c_uint32", "int32_t": "c_int32", "uint64_t": "c_uint64", "void": "None",
}
LIMITS = {"UINT32_MAX": "0xffffffff", "UINT64_MAX": "0xffffffffffffffff"}

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
INLINE = re.compile(r"^(?:static inline|ORIEL_DEV)\b[^;{]*\{.*?^\}", re.MULTILINE | re.DOTALL)
DEFINE = re.compile(r"^#define (ORIEL_\w+)[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
ENUM = re.compile(r"^enum (oriel_\w+) \{(.*?)\};", re.MULTILINE | re.DOTALL)
STRUCT = re.compile(r"^struct (oriel_\w+) \{\n(.*?)^\}[^;]*;", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^((?:const |unsigned |enum |struct )*\w+(?: \*+|\s+\**))(oriel_\w+)\(([^;{]*)\);",
                      re.MULTILINE)


class Unknown(Exception):
    """A declaration in a form that this program does not know."""


def type_of(text):
    """The ctypes name of the C type @text."""
    text = " ".join(text.replace("*", " * ").split())
    if text in ("const char *", "char const *"):
        return "c_char_p"
    if "*" in text:
        return "c_void_p"
    text = text.removeprefix("const ")
    if text.startswith("enum "):
        return "c_int"
    if text.startswith("struct "):
        return text.split()[1]
    if text not in SCALARS:
        raise Unknown(f"type '{text}'")
    return SCALARS[text]


def split_list(text):
    """The parts of @text between commas that are in no parentheses."""
    depth, part = 0, ""
    for letter in text + ",":
        if letter == "," and depth == 0:
            if part.strip():
                yield part.strip()
            part = ""
            continue
        depth += {"(": 1, ")": -1}.get(letter, 0)
        part += letter


def parameter_type(text):
    if "(*" in text or "[" in text:
        return "c_void_p"
    if named := re.fullmatch(r"(.*?[\s*])(\w+)", text, re.DOTALL):
        return type_of(named[1])
    raise Unknown(f"parameter '{text}'")


def fields_of(body):
    """Name and type of each member in the @body of a struct."""
    for text in body.split(";"):
        text = " ".join(text.split())
        if not text:
            continue
        if pointer := re.match(r"[^()]*\(\*(\w+)\)\(", text):
            yield pointer[1], "c_void_p"
            continue
        first, *more = split_list(text)
        head = re.fullmatch(r"(.*?[\s*])(\w+(?:\[\w+\])?)", first)
        if not head or "*" in "".join(more):
            raise Unknown(f"member '{text}'")
        kind = type_of(head[1])
        for name in [head[2], *more]:
            array = re.fullmatch(r"(\w+)\[(\w+)\]", name)
            yield (array[1], f"{kind} * {array[2]}") if array else (name, kind)


def number(text):
    """The Python text of a C expression of constants; None for a text that is no number."""
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    for name, value in LIMITS.items():
        text = re.sub(rf"\b{name}\b", value, text)
    term = r"(?:0x[0-9a-f]+|-?\d+|ORIEL_\w+)"
    return text if re.fullmatch(rf"\(*{term}\)*(?:\s*(?:<<|[+|-])\s*\(*{term}\)*)*", text) else None


def constants(text, known):
    """Name and value of each constant. @known: those so far; other macros are no numbers."""
    for name, value in DEFINE.findall(text):
        value = number(value)
        if value is not None and known.issuperset(re.findall(r"ORIEL_\w+", value)):
            known.add(name)
            yield name, value
    for _, body in ENUM.findall(text):
        before = "-1"
        for entry in split_list(body):
            name, _, value = (part.strip() for part in entry.partition("="))
            value = number(value) if value else f"{before} + 1"
            known.add(name)
            yield name, value
            before = name


def enums(text):
    for name, body in ENUM.findall(text):
        yield name, [entry.partition("=")[0].strip() for entry in split_list(body)]


def functions(text):
    for result, name, parameters in FUNCTION.findall(text):
        parameters = " ".join(parameters.split())
        kinds = [] if parameters == "void" else [parameter_type(p) for p in split_list(parameters)]
        result = " ".join(result.split())
        yield name, "status" if result == "enum oriel_status" else type_of(result), kinds


def lines_of(include, soname):
    """The lines of the module."""
    paths = sorted(p for p in (include / "oriel").glob("*.h") if p.name not in LEFT_OUT)
    shared = include / "oriel" / SHARED
    texts = {path: COMMENT.sub("", path.read_text("utf-8")) for path in [shared, *paths]}
    # An include comes before its user, so that structs find the structs that they hold.
    order = []

    def add(path):
        if path in texts and path not in order:
            for name in re.findall(r"#include <(oriel/[\w/]+\.h)>", texts[path]):
                add(include / name)
            order.append(path)
    for path in texts:
        add(path)

    yield '"""Made by python/declare.py from the headers of include/oriel."""'
    yield ("from ctypes import (Structure, c_bool, c_char, c_char_p, c_int, c_int32, c_size_t, "
           "c_ubyte, c_uint,\n                    c_uint8, c_uint16, c_uint32, c_uint64, c_void_p)")
    yield ""
    yield f'SONAME = "{soname}"'
    known = set()
    for path in order:
        for name, value in constants(texts[path], known):
            yield f"{name} = {value}"
    bare = {path: DIRECTIVE.sub("", INLINE.sub("", text)) for path, text in texts.items()}
    structs = []
    for path in order:
        for name, body in STRUCT.findall(bare[path]):
            if path != shared or name in SHARED_STRUCTS:
                structs.append(name)
                yield f"\n\nclass {name}(Structure):"
                yield "    _fields_ = ["
                yield from (f'        ("{field}", {kind}),' for field, kind in fields_of(body))
                yield "    ]"
    yield "\n\nENUMS = {"
    for path in order:
        yield from (f'    "{name}": {names},' for name, names in enums(texts[path]))
    yield "}\n"
    yield "STRUCTS = [" + ", ".join(structs) + "]\n"
    yield '# Name: (result, or "status" for enum oriel_status; parameters)'
    yield "FUNCTIONS = {"
    for path in order:
        for name, result, kinds in functions(bare[path]) if path != shared else ():
            quoted = '"status"' if result == "status" else result
            yield f'    "{name}": ({quoted}, [{", ".join(kinds)}]),'
    yield "}"


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: declare.py INCLUDE SONAME OUTPUT")
    try:
        text = "\n".join(lines_of(pathlib.Path(sys.argv[1]), sys.argv[2])) + "\n"
    except Unknown as unknown:
        sys.exit(f"declare.py: {unknown}: write it in a form that the others have, or teach this program")
    pathlib.Path(sys.argv[3]).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
