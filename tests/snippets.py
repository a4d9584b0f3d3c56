#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code of README.md, docs/python.md, docs/tutorial.md and docs/launch.md is that of programs which are
built, or run by tests.
CTest calls it as tree/snippets. Exits 1 with a line for each difference; --self-test: the cases below.

A page has <!-- FILE [PART] --> ahead of each block of C, CUDA or Python, and the file has the text between
the comments [PART] and [/PART], as far to the right as it likes."""
import collections
import pathlib
import re
import sys
import tempfile
import textwrap

PAGES = ["README.md", "docs/python.md", "docs/tutorial.md", "docs/launch.md"]
LISTS = ["examples/CMakeLists.txt", "tests/device/CMakeLists.txt", "adapters/mpi/CMakeLists.txt",
         "tests/python/test_jobs.py"]
LONGEST = {"README.md": 25}  # lines of a program, so that the page stays one to be read at once
LANGUAGES = {"c", "cpp", "cuda", "cu", "python"}
MARK = re.compile(r"^<!-- (\S+) \[(\w+)\] -->$")


def part_of(text, name):
    """Lines between the two comments; None if they are not there once each, in this order."""
    lines = text.splitlines()
    begin = [i for i, line in enumerate(lines) if line.strip() in (f"/* [{name}] */", f"# [{name}]")]
    end = [i for i, line in enumerate(lines) if line.strip() in (f"/* [/{name}] */", f"# [/{name}]")]
    if len(begin) != 1 or len(end) != 1 or begin[0] >= end[0]:
        return None
    return textwrap.dedent("\n".join(lines[begin[0] + 1:end[0]])).strip("\n")


def blocks(text):
    """Of a page: number of the first line, language, line ahead of the block, text."""
    lines, i = text.splitlines(), 0
    while i < len(lines):
        if not lines[i].startswith("```"):
            i += 1
            continue
        end = next((k for k in range(i + 1, len(lines)) if lines[k].startswith("```")), len(lines))
        yield i + 1, lines[i][3:].strip(), lines[i - 1] if i else "", "\n".join(lines[i + 1:end])
        i = end + 1


def flaws_of(root, page, built):
    lines = collections.Counter()
    for number, language, ahead, text in blocks((root / page).read_text(encoding="utf-8")):
        mark = MARK.match(ahead)
        where = f"{page}:{number}"
        if not mark:
            if language in LANGUAGES:
                yield f"{where}: code of no program: <!-- FILE [PART] --> is missing ahead of it"
            continue
        file, name = mark.groups()
        if not (root / file).is_file():
            yield f"{where}: there is no {file}"
            continue
        part = part_of((root / file).read_text(encoding="utf-8"), name)
        if part is None:
            yield f"{where}: {file} has no part [{name}]"
        elif part != text.strip("\n"):
            pairs = zip(part.splitlines() + [""], text.strip("\n").splitlines() + [""])
            other = next((p for p in pairs if p[0] != p[1]), ("", ""))
            yield f"{where}: {file} [{name}] has {other[0]!r}, the page {other[1]!r}"
        lines[file] += len((part or "").splitlines())
        if lines[file] > LONGEST.get(page, 1000):
            yield f"{where}: {lines[file]} lines of {file}, {LONGEST[page]} at most"
        if not file.endswith(".h") and pathlib.PurePath(file).stem not in built:
            yield f"{where}: nothing builds {file}"


def flaws(root, pages, lists):
    built = set(re.findall(r"\w+", " ".join((root / l).read_text(encoding="utf-8") for l in lists)))
    for page in pages:
        yield from flaws_of(root, page, built)


PROGRAM = "int x;\n\t/* [one] */\n\tif (x)\n\t\ty();\n\t/* [/one] */\n/* [two] */\n/* [none] */\n"
RIGHT = "<!-- a.c [one] -->\n```c\nif (x)\n\ty();\n```\n"
CASES = [
    (RIGHT, True),
    ("```\nplain\n```\n\n```sh\nls\n```\n", True),
    (RIGHT.replace("y()", "z()"), False),
    (RIGHT.replace("\ty();\n", ""), False),
    (RIGHT.replace("```\n", "more();\n```\n"), False),
    (RIGHT.replace("\ty", "\t\ty"), False),
    (RIGHT.replace("[one]", "[two]"), False),
    (RIGHT.replace("[one]", "[three]"), False),
    (RIGHT.replace("a.c", "b.c"), False),
    (RIGHT.replace("a.c", "loose.c"), False),
    (RIGHT.split("\n", 1)[1], False),
    (RIGHT + "\n```cuda\nx\n```\n", False),
    ("<!-- a.py [one] -->\n```python\nx = 1\n```\n", True),
    ("<!-- a.py [one] -->\n```python\nx = 2\n```\n", False),
    ("```python\nx = 1\n```\n", False),
]


def self_test():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("a.c", "loose.c"):
            (root / name).write_text(PROGRAM, encoding="utf-8")
        (root / "a.py").write_text("# [one]\nx = 1\n# [/one]\n", encoding="utf-8")
        (root / "list").write_text("add_executable(a a.c)\n", encoding="utf-8")
        for text, is_right in CASES:
            (root / "page.md").write_text(text, encoding="utf-8")
            said = list(flaws(root, ["page.md"], ["list"]))
            if (not said) != is_right:
                wrong.append(f"{text!r}: {said or 'nothing said'}")
    return wrong


def main():
    if sys.argv[1:] not in ([], ["--self-test"]):
        sys.exit("usage: snippets.py [--self-test]")
    root = pathlib.Path(__file__).resolve().parent.parent
    said = self_test() if sys.argv[1:] else list(flaws(root, PAGES, LISTS))
    print("\n".join(said), end="\n" if said else "")
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
