#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links in the *.md files of the tree lead to files of the tree and to headings of their pages.
CTest calls it as tree/links. Exits 1 with a line for each link that does not; --self-test: the cases below."""
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\]\([^()]*\))*\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
NAMED = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s<>]+)")
ATTRIBUTE = re.compile(r"(?:href|src|srcset)=\"([^\"]+)\"")
ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
CODE = re.compile(r"(`+).*?\1")
OUTSIDE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def prose(text):
    """Number and text of each line that is not in a block of code."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = None
        elif mark:
            fence = mark[1]
        elif not line.startswith("    "):
            yield number, line


def anchors(text):
    """Those that GitHub makes: lower case, no punctuation, hyphens for spaces, -1 for the second."""
    found = set()
    for _, line in prose(text):
        found.update(ANCHOR.findall(line))
        heading = HEADING.match(line)
        if not heading:
            continue
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        base = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        slug, count = base, 0
        while slug in found:
            count += 1
            slug = f"{base}-{count}"
        found.add(slug)
    return found


def links(text):
    for number, line in prose(text):
        line = CODE.sub(lambda code: " " * len(code[0]), line)
        # A link around a picture is found by its address, the picture once more by itself.
        for pattern in (LINK, NAMED, ATTRIBUTE):
            for match in pattern.finditer(line):
                yield number, match[1]
                for inner in LINK.finditer(match[0][1:]):
                    yield number, inner[1]


def flaws(root, names):
    """@names: the files of the tree, relative to @root; links to others are flaws, as they are not in a clone."""
    known = {str(n) for n in names}
    known |= {str(p) for n in names for p in pathlib.PurePosixPath(n).parents}
    pages = {}
    for name in sorted(names):
        if name.endswith(".md"):
            pages[name] = (root / name).read_text(encoding="utf-8")
    found = {name: anchors(text) for name, text in pages.items()}
    for name, text in pages.items():
        for number, address in dict.fromkeys(links(text)):
            if OUTSIDE.match(address):
                continue
            where, _, anchor = urllib.parse.unquote(address).partition("#")
            target = name
            if where:
                parts = []
                for part in (pathlib.PurePosixPath(name).parent / where).parts:
                    if part != "..":
                        parts.append(part)
                    elif parts:
                        parts.pop()
                    else:
                        parts = ["(outside of the tree)"]
                        break
                target = "/".join(parts) or "."
            if target not in known:
                yield f"{name}:{number}: {address}: the tree has no {target}"
            elif anchor and target not in found:
                yield f"{name}:{number}: {address}: {target} has no headings"
            elif anchor and anchor not in found[target]:
                yield f"{name}:{number}: {address}: {target} has no heading #{anchor}"


def files_of(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-coz", "--exclude-standard"], capture_output=True, check=False)
    if listed.returncode == 0:
        return [n for n in listed.stdout.decode().split("\0") if n and (root / n).exists()]
    return [p.relative_to(root).as_posix() for p in root.rglob("*")
            if p.is_file() and p.relative_to(root).parts[0] != "build"]


# Text of docs/a.md beside docs/b.md and x.c: whether each address of it is right.
CASES = [
    ("[b](b.md)", True),
    ("[b](b.md#two-words)", True),
    ("[b](b.md#two-words-1)", True),
    ("[b](b.md#code-and-link)", True),
    ("[x](../x.c) and [here](#top)\n# Top", True),
    ("[folder](../docs)", True),
    ("[net](https://example.org/none)", True),
    ("`[no link](none.md)`", True),
    ("```\n[no link](none.md)\n```", True),
    ("[![picture](b.md)](b.md)", True),
    ("[b](none.md)", False),
    ("[b](b.md#none)", False),
    ("[b](b.md#two-words-2)", False),
    ("[b](b.md#in-a-block)", False),
    ("[here](#none)", False),
    ("[x](x.c)", False),
    ("[x](../x.c#line)", False),
    ("[out](../../x.c)", False),
    ("![picture](none.svg)", False),
    ("[![picture](none.svg)](b.md)", False),
    ("<img src=\"none.svg\">", False),
    ("[b][1]\n\n[1]: none.md", False),
    ("```\nblock\n```\n[b](none.md)", False),
]
OTHER = "# Two words\n## Two, words!\n### `code` and [link](a.md)\n```\n# In a block\n```\n"


def self_test():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "docs/b.md").write_text(OTHER, encoding="utf-8")
        (root / "x.c").write_text("", encoding="utf-8")
        for text, is_right in CASES:
            (root / "docs/a.md").write_text(text, encoding="utf-8")
            said = list(flaws(root, ["docs/a.md", "docs/b.md", "x.c"]))
            if (not said) != is_right:
                wrong.append(f"{text!r}: {said or 'nothing said'}")
    return wrong


def main():
    if sys.argv[1:] not in ([], ["--self-test"]):
        sys.exit("usage: links.py [--self-test]")
    root = pathlib.Path(__file__).resolve().parent.parent
    said = self_test() if sys.argv[1:] else list(flaws(root, files_of(root)))
    print("\n".join(said), end="\n" if said else "")
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
