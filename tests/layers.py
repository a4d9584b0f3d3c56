#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layers.py [--self-test]: whether every #include keeps to the layers, no file is long, and
names and comments of device functions say who may call them.

The table is the one of docs/architecture.md. A module may include itself and
what its line names; names come from the lines above, so order is depth.
"""
import os
import re
import sys
import tempfile
from collections import namedtuple

Rule = namedtuple("Rule", "may why")

# Public headers. "types" are plain structs, "dev" is what kernels include,
# "public" are the host objects.
HEADERS = {
    "status": Rule("", "it is the bottom of everything"),
    "types": Rule("status", "plain structs that host and kernels share"),
    "dev": Rule("status types",
                "a kernel header that reaches host code drags drivers into user kernels"),
    "public": Rule("status types", "a program sees objects, neither kernels nor our modules"),
}

# Modules under src/. All of them may include "base", "status" and "types".
MODULES = {
    "base": Rule("", "it knows no GPU, no NIC, no peer"),
    "sys": Rule("", "it only opens libraries and asks the system"),
    "kernels": Rule("dev", "it is device code, for the GPU alone"),
    "net": Rule("sys", "it moves bytes and knows keys and limits; it knows no rank"),
    "bootstrap": Rule("sys net public", "it moves opaque bytes, so that a caller can supply its own"),
    "topo": Rule("sys public", "it describes and compares; talking is the work of comm"),
    "mem": Rule("sys net public", "it allocates, exports, imports; talking is the work of comm"),
    # The software HCA reads the WQEs that kernels write; a kernel tries the rings of a NIC.
    "hca": Rule("sys net mem kernels oriel/dev/detail/mlx5.h oriel/dev/detail/mlx5_queue.h"
                " oriel/dev/detail/mlx5_ring.h oriel/dev/detail/queue.h oriel/dev/detail/order.h",
                "no rank, no peer: addresses are bytes"),
    "rdma": Rule("hca mem topo dev", "a backend yields an address and takes addresses"),
    # Its health record is read by kernels, so it is written as they would.
    "comm": Rule("rdma/rdma.h rdma/rdma_choose.h sys topo mem net bootstrap kernels public"
                 " oriel/dev/detail/answer.h oriel/dev/detail/order.h oriel/dev/detail/wait.h",
                 "it owns the links, but names no backend"),
    "window": Rule("comm mem kernels dev public", "no backend name appears here"),
    "doctor": Rule("sys public", "it looks at the machine and judges a record; it moves nothing"),
    "hang": Rule("comm/answers.h comm/wait_report.h public",
                 "it reads other processes, and joins no job"),
    "progress": Rule("comm mem kernels dev public", "no backend name appears here"),
    # Endpoints may do without a communicator; p2p then opens an rdma context.
    "p2p": Rule("comm net mem hca topo sys"
                " rdma/rdma.h rdma/rdma_host.h dev public",
                "it drives links by calls; ranks are known to its cache alone"),
    "p2p_mock": Rule("p2p public oriel/dev/detail/order.h",
                     "it is a backend of p2p in a library of its own"),
    "p2p_calls": Rule("public dev",
                      "it stands in for p2p: of the library it has public functions alone"),
    # Kernels convert elements by the same text.
    "reduce": Rule("public oriel/dev/detail/convert.h",
                   "it is arithmetic: it knows addresses, no rank's memory"),
    "coll": Rule("public dev reduce", "it is a user of the public API"),
}

# Trees outside src/, longest path first.
OUTSIDE_WHY = "it is a user: if it needs an internal header, the API lacks something"
OUTSIDE = {
    "tests/conformance": Rule("status types dev public", OUTSIDE_WHY),
    "tests/fuzz": Rule("status types dev public base " + " ".join(MODULES), ""),
    "tests/model": Rule("status types dev public base " + " ".join(MODULES), ""),
    "tests/fakecuda": Rule("status types dev public kernels", OUTSIDE_WHY),
    "tests/hw": Rule("status types dev public base hca", OUTSIDE_WHY),
    "tests/fakemlx5": Rule("status types dev public base hca mem", OUTSIDE_WHY),
    "tests/fakenics": Rule("status types dev public base sys", OUTSIDE_WHY),
    "tests/fakeverbs": Rule("status types dev public base hca", OUTSIDE_WHY),
    "bench/verbs": Rule("status types dev public base hca rdma",
                        "it measures links that the host drives, and what carries them"),
    "tests": Rule("status types dev public", OUTSIDE_WHY),
    "tools/field": Rule("status types dev public tools base hca rdma sys/gpu.h"
                        " tests/conformance/conformance.h",
                        "it asks a NIC what no program may: a report for developers"),
    "adapters": Rule("status types dev public", OUTSIDE_WHY),
    "tools": Rule("status types dev public doctor/doctor.h hang/hang.h", OUTSIDE_WHY),
    "examples": Rule("status types dev public", OUTSIDE_WHY),
    "bench": Rule("status types dev public", OUTSIDE_WHY),
}

# Sources (and their tests) that define what a header above their layer declares.
DEFINES = {
    ("src/base/cpu.c", "oriel/dev/detail/order.h"),
    ("src/base/error.c", "oriel/dev/detail/cpu.h"),
    ("src/base/late.c", "oriel/dev/detail/cpu.h"),
    ("src/base/wait_page.c", "oriel/dev/detail/cpu.h"),
    ("src/sys/probe.c", "oriel/comm.h"),
}

# Device functions: users call those of DEV, by DEV_NAMES; helpers, which are no API, are those
# of DETAIL and have DETAIL_PREFIX. Only DETAIL_USERS name helpers: the two tools measure links.
DEV = "include/oriel/dev/"
DETAIL = "include/oriel/dev/detail/"
DEV_NAMES = re.compile(r"oriel_dev_\w+|oriel_at|oriel_team_open")
DETAIL_PREFIX = "ori_dev_"
DETAIL_USERS = (DEV, "src/", "tests/", "bench/", "tools/perf", "tools/field/")
DEFINITION = re.compile(r"^(?:ORIEL_DEV\w*|static)\b[^;{}()=#]*?\b(\w+)\(", re.MULTILINE)
HELPER = re.compile(rf"\b{DETAIL_PREFIX}\w+|oriel/dev/detail/")
# The comment right above a function of DEV.
COMMENT_ABOVE = re.compile(r"/\*(?:(?!\*/).)*\*/\n\Z", re.DOTALL)
CALLER = re.compile(r"\b([Oo]ne thread|[Ww]hole group|[Aa]ny thread|Each (?:thread|lane))\b")

PLAIN = {"stdbool.h", "stddef.h", "stdint.h", "string.h"}
SOURCES = (".c", ".h", ".cu", ".cuh", ".cpp")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def header_module(path):
    """The module of public header @path, "oriel/x.h"."""
    if path == "oriel/dev.h":
        return "dev"
    if path in ("oriel/status.h", "oriel/dev/types.h", "oriel/dev/detail/types.h"):
        return os.path.basename(path)[:-2]
    return "dev" if path.startswith("oriel/dev/") else "public"


def file_module(path):
    """(name, rule) for the file at @path; (name, None) for a module without a line."""
    parts = path.split("/")
    if parts[0] == "include":
        name = header_module("/".join(parts[1:]))
        return name, HEADERS[name]
    if parts[0] == "src":
        rule = MODULES.get(parts[1])
        return parts[1], rule and Rule("base status types " + rule.may, rule.why)
    for tree, rule in OUTSIDE.items():
        if path.startswith(tree + "/"):
            return tree, rule
    return parts[0], None


def is_test(path):
    return path.startswith("tests/") or path.endswith(("_test.c", "_test.h"))


def system_complaint(path, name, header):
    """What is wrong with @path, of module @name, including <@header>."""
    if path.startswith("include/") and header not in PLAIN:
        return f"a public header includes only {', '.join(sorted(PLAIN))}"
    # Examples are programs of users, who open what they like.
    if header == "dlfcn.h" and name not in ("sys", "examples"):
        return "sys is the one place that opens libraries"
    if header == "cmocka.h" and not is_test(path):
        return "cmocka is for tests"
    return None


def quoted_target(root, path, header):
    """(module, complaint) of @path including "@header"."""
    if header.split("/")[0] in MODULES:
        if not os.path.isfile(os.path.join(root, "src", header)):
            return None, "there is no such file under src/"
        return header.split("/")[0], None
    if header.startswith("oriel/"):
        return None, f"public headers are included as <{header}>"
    if path.startswith("include/"):
        return None, "public headers include public headers only"
    if path.startswith("src/"):
        return None, "src/ is the include root: name the module as well"
    if header.startswith("tests/"):
        if not os.path.isfile(os.path.join(root, header)):
            return None, "there is no such file"
        return file_module(header)[0], None
    beside = os.path.normpath(os.path.join(os.path.dirname(path), header))
    name = file_module(path)[0]
    if not beside.startswith(name + "/"):
        return None, f"that lies outside {name}/"
    return name, None


def include_complaint(root, path, bracket, header):
    """Why the file at @path may not include @header, or None."""
    name, rule = file_module(path)
    if rule is None:
        return f"tests/layers.py has no line for {name}"
    if bracket == '"':
        target, complaint = quoted_target(root, path, header)
        if complaint:
            return complaint
    elif header == "oriel/mpi.h":
        # It lies beside its library, since it needs a header of MPI.
        return None if name in ("adapters", "tests") else "only programs of MPI include it"
    elif header.startswith("oriel/"):
        if not os.path.isfile(os.path.join(root, "include", header)):
            return "there is no such file under include/"
        target = header_module(header)
    else:
        return system_complaint(path, name, header)
    allowed = set(rule.may.split()) | {name}
    defines = (path.replace("_test.c", ".c"), header) in DEFINES
    if target in allowed or header in allowed or defines:
        return None
    return rule.why


def sources(root):
    """Paths of all sources that the layers are about, relative to @root."""
    trees = ["include", "src"] + [tree for tree in OUTSIDE if "/" not in tree]
    for tree in trees:
        for folder, _, files in sorted(os.walk(os.path.join(root, tree))):
            for file in sorted(files):
                if file.endswith(SOURCES):
                    yield os.path.relpath(os.path.join(folder, file), root)


def twins(paths):
    """Complaints about two files of src/, or of include/, with one basename."""
    seen = {}
    for path in paths:
        tree = path.split("/")[0]
        if tree not in ("include", "src"):
            continue
        first = seen.setdefault((tree, os.path.basename(path)), path)
        # The helpers of a device header have its name.
        if path.startswith(DETAIL) and first == path.replace("/detail/", "/"):
            continue
        if first != path:
            yield f"{path}:1: has the basename of {first}: names are unique in {tree}/"


def has_caller(above):
    """Does the comment at the end of @above, the text ahead of a function, name its caller?"""
    comment = COMMENT_ABOVE.search(above)
    return bool(comment and CALLER.search(re.sub(r"\s*\n\s*\*?\s*", " ", comment[0])))


def name_complaints(path, text):
    """What is wrong with the device functions that @path defines, or names, in its @text."""
    for match in DEFINITION.finditer(text) if path.startswith(DEV) else ():
        line = text.count("\n", 0, match.start(1)) + 1
        if path.startswith(DETAIL) and not match[1].startswith(DETAIL_PREFIX):
            yield f"{path}:{line}: {match[1]} is a helper: its prefix is {DETAIL_PREFIX}"
        elif not path.startswith(DETAIL) and not DEV_NAMES.fullmatch(match[1]):
            yield f"{path}:{line}: {match[1]} is not oriel_dev_: helpers lie in {DETAIL}"
        elif not path.startswith(DETAIL) and not has_caller(text[:match.start()]):
            yield f"{path}:{line}: the comment of {match[1]} names no caller: one thread, or the whole group"
    match = not path.startswith(DETAIL_USERS) and HELPER.search(text)
    if match:
        line = text.count("\n", 0, match.start()) + 1
        yield f"{path}:{line}: {match[0]} is no API of device functions"


def twin_functions(root, paths):
    """Complaints about a function of DEV beside a helper of its name: one of them is enough."""
    def names(path):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            return DEFINITION.findall(file.read())

    helpers = {name for path in paths if path.startswith(DETAIL) for name in names(path)}
    for path in paths:
        for name in names(path) if path.startswith(DEV) and not path.startswith(DETAIL) else ():
            if name.replace("oriel_dev_", DETAIL_PREFIX) in helpers:
                yield f"{path}:1: {name} has a helper of its name: helpers may call {name}"


def check(root):
    """All complaints about the tree at @root."""
    paths = list(sources(root))
    complaints = [*twins(paths), *twin_functions(root, paths)]
    for path in paths:
        name = file_module(path)[0]
        number = 0
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
            complaints.extend(name_complaints(path, text))
            for number, line in enumerate(text.splitlines(), 1):
                match = INCLUDE.match(line)
                why = match and include_complaint(root, path, *match.groups())
                if why:
                    complaints.append(
                        f"{path}:{number}: module {name} may not include {match[2]}: {why}")
            if number > LINES_MOST:
                complaints.append(f"{path}: {number} lines, of at most {LINES_MOST}")
    return complaints


# A file that is longer has more than one noun.
LINES_MOST = 700

# What --self-test plants: (path, its text, whether that is a violation).
PLANTED = [
    ("include/oriel/status.h", "#include <stdint.h>", False),
    ("include/oriel/window.h", "#include <oriel/status.h>", False),
    ("include/oriel/comm.h", '#include "base/error.h"', True),
    ("include/oriel/region.h", "#include <pthread.h>", True),
    ("include/oriel/dev.h", "#include <oriel/comm.h>", True),
    ("include/oriel/dev/types.h", "#include <oriel/status.h>", False),
    ("include/oriel/dev/detail/order.h", "#include <oriel/dev/types.h>", False),
    ("include/oriel/dev/window.h", "", True),
    ("include/oriel/dev/detail/types.h", "#include <oriel/dev/types.h>", False),
    ("include/oriel/dev/detail/window.h", "", True),
    ("include/oriel/dev/detail/cpu.h", "uint64_t oriel_cpu_clock_ns(void);", False),
    ("include/oriel/dev/data.h",
     "/* Whole group. */\nORIEL_DEV int64_t oriel_dev_put(int a);", False),
    ("include/oriel/dev/word.h", "ORIEL_DEV void ori_dev_store(void)\n{\n}", True),
    ("include/oriel/dev/group.h",
     "/*\n * Opens it. One\n * thread.\n */\nORIEL_DEV bool\noriel_team_open(int a)", False),
    ("include/oriel/dev/other.h",
     "/* One thread. */\n\nORIEL_DEV bool oriel_dev_first(int a);", True),
    ("include/oriel/dev/second.h", "/* One thread. */\nORIEL_DEV bool oriel_dev_one(int a);\n"
     "/* The same. */\nORIEL_DEV bool oriel_dev_same(int a);", True),
    ("include/oriel/dev/third.h", "ORIEL_DEV bool oriel_dev_bare(int a);", True),
    ("include/oriel/dev/link.h", "static __device__ void oriel_link_put(int a)", True),
    ("include/oriel/dev/detail/copy.h", "ORIEL_DEV_COLD bool ori_dev_copy(int a)", False),
    ("include/oriel/dev/copies.h", "ORIEL_DEV bool oriel_dev_copy(int a)", True),
    ("include/oriel/dev/detail/rdma.h", "ORIEL_DEV bool oriel_dev_is_rdma(int a)", True),
    ("examples/ring.c", "#include <oriel/dev/detail/cpu.h>", True),
    ("examples/put.c", "\tori_dev_link_put(l);", True),
    ("tools/perf_wqe.c", "#include <oriel/dev/detail/cpu.h>", False),
    ("src/base/error.h", "#include <oriel/status.h>", False),
    ("src/base/error.c", '#include "error.h"', True),
    ("src/base/long.c", "\n" * 700, True),
    ("src/base/not_long.c", "\n" * 699, False),
    ("src/base/log.c", "#include <oriel/comm.h>", True),
    ("src/base/cpu.c", "#include <oriel/dev/detail/order.h>", False),
    ("src/base/clock.c", "#include <oriel/dev/detail/order.h>", True),
    ("src/base/ring_test.c", "#include <cmocka.h>", False),
    ("src/base/ring.c", "#include <cmocka.h>", True),
    ("src/base/list.c", '#include "base/other.h"', True),
    ("src/sys/nvml.c", "#include <dlfcn.h>", False),
    ("src/mem/memfd.c", "#include <dlfcn.h>", True),
    ("tools/doctor.c", "#include <dlfcn.h>", True),
    ("examples/kv_gpu.c", "#include <dlfcn.h>", False),
    ("src/mem/region.c", '#include "comm/comm_state.h"', True),
    ("src/mem/error.c", "", True),
    ("src/window/window.c", '#include "rdma/rdma.h"', True),
    ("src/window/window_test.c", '#include "bootstrap/tcp.h"', True),
    ("src/comm/comm_state.h", '#  include "rdma/rdma.h"', False),
    ("src/comm/paths.c", '#include "rdma/mapped.h"', True),
    ("src/rdma/rdma.h", "#include <oriel/dev/detail/order.h>", False),
    ("src/rdma/mapped.h", '#include "comm/comm_state.h"', True),
    ("src/bootstrap/tcp.h", '#include "base/error.h"', False),
    ("src/rumour/rumour.c", "#include <oriel/status.h>", True),
    ("tools/tool.h", "#include <oriel/oriel.h>", True),  # oriel.h is not planted
    ("tools/perf.c", '#include "tool.h"', False),
    ("tools/info.c", '#include "base/error.h"', True),
    ("examples/heat/heat.c", '#include "../../src/base/error.h"', True),
    ("bench/put.c", '#include "../tools/tool.h"', True),
    ("bench/verbs/link.c", '#include "rdma/rdma.h"', False),
    ("bench/verbs/window.c", '#include "comm/comm_state.h"', True),
    ("tests/fuzz/blob.c", '#include "comm/comm_state.h"', False),
    ("tests/conformance/put.c", '#include "comm/comm_state.h"', True),
    ("tests/conformance/conformance.h", "", False),
    ("tools/field/field_cases.c", '#include "tests/conformance/conformance.h"', False),
    ("tools/field/field_other.c", '#include "tests/conformance/other.h"', True),
    ("tools/demo.c", '#include "tests/conformance/conformance.h"', True),
]


def self_test():
    """Complaints about this program: what it misses, what it makes up."""
    above = set(HEADERS)
    for name, rule in MODULES.items():
        for may in rule.may.split():
            if may.split("/")[0] not in above | {"oriel"}:
                return [f"the table is out of order: {name} may include {may}"]
        above.add(name)

    with tempfile.TemporaryDirectory() as root:
        for path, line, _ in PLANTED:
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(line + "\n")
        found = {complaint.split(":")[0] for complaint in check(root)}
    planted = {path for path, _, is_violation in PLANTED if is_violation}
    return ([f"not found: {path}" for path in sorted(planted - found)] +
            [f"made up: {path}" for path in sorted(found - planted)])


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:] not in ([], ["--self-test"]):
        print(__doc__, file=sys.stderr)
        return 2
    complaints = self_test() if sys.argv[1:] else check(root)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
