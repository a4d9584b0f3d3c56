#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Expressions by which CMakePresets.json and .ci/run choose tests have at most nine groups: of those
with more CTest says nothing, and acts as if there were none (NSUBEXP of KWSys' RegularExpression).
CTest calls it as tree/filters. Exits 1 with a line for each; --self-test: the cases below."""
import json
import pathlib
import re
import subprocess
import sys

GROUPS = 9
ASSIGNMENT = re.compile(r"^[a-z]+\+?='[^']*'$", re.MULTILINE)
CHOICE = re.compile(r" -(?:LE?|[RE]) (\"[^\"]*\"|'[^']*'|[^\s\"']+)")


def groups(expression):
    """Neither an escaped parenthesis nor one in brackets begins a group."""
    return re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", expression).count("(")


def of_presets(text):
    for preset in json.loads(text)["testPresets"]:
        for kind, what in preset.get("filter", {}).items():
            yield f"{preset['name']}, {kind}", what["name"]


def of_script(text):
    """Expressions as the shell passes them."""
    variables = "\n".join(ASSIGNMENT.findall(text))
    for line in text.splitlines():
        if not line.lstrip().startswith("ctest "):
            continue
        for choice in CHOICE.finditer(line):
            shell = subprocess.run(["bash", "-euc", f"{variables}\nprintf %s {choice[1]}"],
                                   capture_output=True, text=True, check=True)
            yield choice[0].strip(), shell.stdout


def complaints(expressions):
    return [f"{where}: {groups(what)} groups, of at most {GROUPS}"
            for where, what in expressions if groups(what) > GROUPS]


def self_test():
    nine = "(a)" * 9
    script = f"many='{nine}'\nmany+='|b'\nother='(c)'\n\tctest --preset asan -E \"$many|$other\" -j 2\n"
    assert groups(nine) == 9 and groups(r"\([(](a)[]()]") == 1
    assert complaints(of_script(script)) == ['-E "$many|$other": 10 groups, of at most 9']
    assert not complaints(of_script(script.replace("(c)", "c")))
    presets = json.dumps({"testPresets": [{"name": "check", "filter": {"exclude": {"name": nine + "(b)"}}}]})
    assert complaints(of_presets(presets)) == ["check, exclude: 10 groups, of at most 9"]


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(__file__).parents[1]
    expressions = [*of_presets((root / "CMakePresets.json").read_text()),
                   *of_script((root / ".ci/run").read_text())]
    if len(expressions) < 6:
        return f"{len(expressions)} expressions: where are the others?"
    return "\n".join(complaints(expressions)) or None


sys.exit(main())
