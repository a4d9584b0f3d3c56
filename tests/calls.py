#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calls.py [--self-test | [--nm NM] LIST]: whether calls between files keep to the layers.

layers.py reads #include lines; a declaration in a header of a low layer can still be defined by a
high one. This program reads the symbols of the objects of the libraries and of the tool: a module
or tree may use symbols of the modules that its line in layers.py names, and no files call each
other in a circle.
"""
import argparse
import os
import re
import subprocess
import sys
from collections import defaultdict

from layers import MODULES, OUTSIDE

# Device headers declare these; a module above base defines them: a proxy posts for its caller.
UPWARD = {"oriel_cpu_ask_proxy", "oriel_cpu_connect", "oriel_cpu_help_proxy", "oriel_cpu_reject"}

ORDER = list(MODULES)


def source_of(path):
    """"hca/hca.c" of the object .../src/hca/hca.c.o, or of .../x.dir/... in a build folder."""
    path = re.sub(r"CMakeFiles/[^/]+\.dir/", "", path).replace("/./", "/")
    match = re.search(r"(?:^|.*/)(?:src/|(?=tools/))(.+)\.o(?:bj)?$", path)
    return match[1] if match else None


def rule_of(source):
    """(name, rule) of the module or outer tree of @source; (name, None) without a line."""
    module = source.split("/")[0]
    for tree, rule in OUTSIDE.items():
        if source.startswith(tree + "/"):
            return tree, rule
    return module, MODULES.get(module)


def symbols(nm, paths):
    """(defined, undefined) global names of each object of @paths: by its source."""
    text = subprocess.run([nm, "--format=posix", *paths], check=True, stdout=subprocess.PIPE,
                          universal_newlines=True).stdout
    objects = {}
    for line in [paths[0] + ":"] + text.splitlines():  # of one object nm does not say which
        fields = line.split()
        if line.startswith("__gcov_"):  # of scripts/coverage
            continue
        if len(fields) == 1:
            source = source_of(line[:-1])
            defined, undefined = objects.setdefault(source, (set(), set()))
        elif len(fields) > 1 and fields[1] == "U":
            undefined.add(fields[0])
        elif len(fields) > 1 and fields[1].isupper():
            defined.add(fields[0])
    return objects


def may_call(source, target, symbol):
    """May @source use @symbol, which @target defines?"""
    (caller, rule), (owner, _) = rule_of(source), rule_of(target)
    named = {part.split("/")[0] for part in rule.may.split()}
    if caller in MODULES:
        named.add("base")
    # The trees of one program call each other.
    if owner in named or source.split("/")[0] == target.split("/")[0] or symbol in UPWARD:
        return True
    # A public function of a lower layer, or one that device headers call.
    is_public = "public" in named and symbol.startswith("oriel_")
    is_device = named & {"dev", "oriel"} and symbol.startswith("oriel_cpu_")
    is_below = owner in MODULES and (caller not in MODULES
                                     or ORDER.index(owner) < ORDER.index(caller))
    return bool(is_public or is_device) and is_below


def circles(graph):
    """Sets of more than one node that reach each other (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            at = stack.index(node)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                found.append(set(group))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def check(objects):
    """Complaints about @objects, {source: (defined, undefined)}."""
    owner = {name: source for source, (defined, _) in objects.items() for name in defined}
    graph, complaints = defaultdict(set), []
    for source, (_, undefined) in sorted(objects.items()):
        caller, rule = rule_of(source)
        if not rule:
            complaints.append(f"{source}: tests/layers.py has no line for {caller}")
            continue
        for name in sorted(undefined):
            target = owner.get(name)
            if target is None or target == source:
                continue
            graph[source].add(target)
            if not may_call(source, target, name):
                complaints.append(f"{source}: {caller} may not call {name}() of {target}: "
                                  + rule.why)
    for group in circles(graph):
        complaints.append("these files call each other in a circle: " + ", ".join(sorted(group)))
    return complaints


# What --self-test reads: (objects, how many complaints they earn).
PLANTED = [
    ({"base/a.c": ({"ori_a"}, set()), "hca/b.c": ({"ori_b"}, {"ori_a", "memcpy"})}, 0),
    ({"base/a.c": ({"ori_a"}, {"ori_b"}), "hca/b.c": ({"ori_b"}, set())}, 1),
    ({"comm/a.c": ({"ori_a"}, set()), "rdma/b.c": (set(), {"ori_a"})}, 1),
    ({"comm/a.c": ({"oriel_a"}, set()), "coll/b.c": (set(), {"oriel_a"})}, 0),
    ({"comm/a.c": ({"ori_a"}, set()), "coll/b.c": (set(), {"ori_a"})}, 1),
    ({"comm/a.c": ({"oriel_a"}, set()), "bootstrap/b.c": (set(), {"oriel_a"})}, 1),
    ({"rumour/a.c": (set(), set())}, 1),
    ({"topo/a.c": ({"ori_a"}, {"ori_b"}), "topo/b.c": ({"ori_b"}, {"ori_a"})}, 1),
    ({"topo/a.c": ({"ori_a"}, {"ori_b"}), "topo/b.c": ({"ori_b"}, {"ori_c"}),
      "topo/c.c": ({"ori_c"}, set())}, 0),
    ({"doctor/a.c": ({"ori_a"}, set()), "tools/b.c": ({"b"}, {"ori_a"})}, 0),
    ({"doctor/a.c": (set(), {"ori_b"}), "topo/b.c": ({"ori_b"}, set())}, 1),
    ({"hca/a.c": ({"ori_a"}, set()), "tools/b.c": (set(), {"ori_a"})}, 1),
    ({"hca/a.c": ({"ori_a"}, set()), "tools/field/b.c": (set(), {"ori_a"})}, 0),
    ({"comm/a.c": ({"oriel_a"}, set()), "tools/b.c": (set(), {"oriel_a"})}, 0),
    ({"p2p_mock/a.c": ({"ori_a"}, set()), "p2p/b.c": (set(), {"ori_a"})}, 1),
    ({"tools/a.c": ({"a"}, {"b"}), "tools/b.c": ({"b"}, {"a"})}, 1),
    ({"rdma/a.c": ({"oriel_cpu_ask_proxy"}, set()), "hca/b.c": (set(), {"oriel_cpu_ask_proxy"})},
     0),
]


def self_test():
    """Complaints about this program: what it misses, what it makes up."""
    wrong = []
    for objects, expected in PLANTED:
        found = check(objects)
        if len(found) != expected:
            wrong.append(f"{objects}: {len(found)} complaints, not {expected}: {found}")
    for path, source in (
            ("/src/x/src/hca/soft/soft.c.o", "hca/soft/soft.c"),
            ("/src/x/src/CMakeFiles/a.dir/./hca/soft/soft.c.o", "hca/soft/soft.c"),
            ("/src/x/src/doctor/CMakeFiles/b.dir/check.c.o", "doctor/check.c"),
            ("/src/x/tools/CMakeFiles/c.dir/./field/a.c.o", "tools/field/a.c")):
        if source_of(path) != source:
            wrong.append(f"source_of({path}): {source_of(path)}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("list", nargs="?", help="a file with a path of an object in each line")
    args = parser.parse_args()
    if args.self_test:
        complaints = self_test()
    else:
        with open(args.list, encoding="utf-8") as file:
            paths = [path for path in file.read().split() if os.path.isfile(path)]
        objects = symbols(args.nm, paths) if paths else {}
        complaints = check(objects) if objects else [f"{args.list} names no object"]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
