#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calls.py [--self-test | [--nm NM] LIST]: whether calls between files keep to the layers.

layers.py reads #include lines; a declaration in a header of a low layer can still be defined by a
high one. This program reads the symbols of the library's objects: a module may use symbols of the
modules that its line in layers.py names, and no files call each other in a circle.
"""
import argparse
import os
import re
import subprocess
import sys
from collections import defaultdict

from layers import MODULES

# Device headers declare these; a module above base defines them: a proxy posts for its caller.
UPWARD = {"oriel_cpu_ask_proxy", "oriel_cpu_help_proxy", "oriel_cpu_reject"}

ORDER = list(MODULES)


def source_of(path):
    """"hca/hca.c" of the object .../src/hca/hca.c.o or .../oriel_objects.dir/hca/hca.c.o."""
    match = re.search(r"(?:.*/oriel_objects\.dir|.*/src)/(?:\./)?(.+)\.o(?:bj)?$", path)
    return match[1] if match else None


def symbols(nm, path):
    """(defined, undefined) global names of the object at @path."""
    text = subprocess.run([nm, "--format=posix", path], check=True, stdout=subprocess.PIPE,
                          universal_newlines=True).stdout
    fields = [line.split() for line in text.splitlines()]
    return ({f[0] for f in fields if f[1].isupper() and f[1] != "U"},
            {f[0] for f in fields if f[1] == "U"})


def may_call(caller, owner, symbol):
    """May module @caller use @symbol, which module @owner defines?"""
    named = {part.split("/")[0] for part in MODULES[caller].may.split()}
    if owner in {caller, "base"} | named or symbol in UPWARD:
        return True
    # A public function of a lower layer, or one that device headers call.
    is_public = "public" in named and symbol.startswith("oriel_")
    is_device = named & {"dev", "oriel"} and symbol.startswith("oriel_cpu_")
    return bool(is_public or is_device) and ORDER.index(owner) < ORDER.index(caller)


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
        caller = source.split("/")[0]
        if caller not in MODULES:
            complaints.append(f"src/{source}: tests/layers.py has no line for {caller}")
            continue
        for name in sorted(undefined):
            target = owner.get(name)
            if target is None or target == source:
                continue
            graph[source].add(target)
            if not may_call(caller, target.split("/")[0], name):
                complaints.append(f"src/{source}: {caller} may not call {name}() of src/{target}: "
                                  + MODULES[caller].why)
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
    for path in ("/src/x/src/hca/soft/soft.c.o", "src/x/oriel_objects.dir/./hca/soft/soft.c.o"):
        if source_of(path) != "hca/soft/soft.c":
            wrong.append(f"source_of({path})")
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
        objects = {source_of(path): symbols(args.nm, path) for path in paths}
        complaints = check(objects) if objects else [f"{args.list} names no object"]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
