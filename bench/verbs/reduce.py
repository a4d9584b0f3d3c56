#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduces of two nodes in the virtual machine of tests/rxe: Oriel over Soft-RoCE and over the
software HCA, and Open MPI over the TCP of that HCA, each in a fresh machine, in turns."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from side_by_side import (K, M, SECONDS, arguments, compile_peer, figure, measure, output, parse,
                          pick, print_columns, ready, spread, stamp, write_json)

RUN = ROOT / "tests" / "rxe" / "run"
PEERS = HERE.parent / "cpu-peers"
SIZES = (8, 64, 512, 4 * K, 32 * K, 256 * K, M)
# What a job over TCP takes of Open MPI 4; other components want libraries of networks.
COMPONENTS = re.compile(
    r"mca_(allocator_b|bml_r2|btl_(self|tcp)|coll_(basic|libnbc|tuned|self|inter|sync)|errmgr"
    r"|ess_(env|hnp|pmi)|filem|grpcomm|iof|mpool|odls_default|oob_tcp|op_avx|patcher|plm_rsh"
    r"|pmix_ext3x|pml_ob1|pstat|rcache|reachable_weighted|regx|rmaps_round|rml_oob|routed"
    r"|rtc_hwloc|schizo_o|shmem_(mmap|posix)|state|topo_basic)")


@dataclasses.dataclass(frozen=True)
class Row:
    bytes: int
    test: str = "all_reduce"
    mode: str = "fp32 sum"
    ranks: int = 2
    unit: str = "us"

    @property
    def key(self):
        return self.test, self.mode, self.bytes, self.ranks


ROWS = [Row(size) for size in SIZES]


def in_machine(*words):
    """The rows of a program that ran in a virtual machine of its own."""
    return parse(output([RUN, "-t", str(SECONDS - 20), *words]))


class Oriel:
    """@device: soft, or verbs, by which each node has a device of its own."""

    def __init__(self, tool, device):
        self.name = device
        self.tool = tool

    def missing(self):
        if not os.access(self.tool, os.X_OK):
            return f"{self.tool}: build it or give --oriel"
        return None if subprocess.run([RUN, "true"], check=False).returncode == 0 else \
            "no virtual machine: tests/rxe/setup"

    def version(self):
        return output([self.tool, "--version"]).strip().removeprefix("oriel ")

    def lap(self):
        perf = ["./oriel", "perf", "all_reduce", "--sizes", ",".join(map(str, SIZES)),
                "--reps", "1", "--json"]
        if self.name == "verbs":
            return in_machine("-f", ROOT / "tests/rxe/by-verbs", "-e", self.tool,
                              "two-nodes", "sh", "./by-verbs", *perf)
        return in_machine("-E", "ORIEL_HCA=soft", "-e", self.tool, "two-nodes", *perf)


class OpenMpi:
    name = "openmpi"

    def __init__(self, build):
        self.program = build / "reduce_mpi"
        self.files = build / "openmpi"

    def missing(self):
        if not shutil.which("mpicc") or not shutil.which("orterun"):
            return "apt install openmpi-bin libopenmpi-dev"
        compile_peer(["mpicc", "-D_GNU_SOURCE", f"-I{PEERS}"], self.program,
                     HERE / "reduce_mpi.c", PEERS / "peer.c")
        self.collect()
        return None

    def version(self):
        return output(["orterun", "--version"]).splitlines()[0] + ", TCP between the nodes"

    def collect(self):
        """Open MPI as it is here: its programs, components and their libraries."""
        said = output(["ompi_info", "--path", "pkglibdir", "--parsable"]).strip()
        modules = pathlib.Path(said.rsplit(":", 1)[1])
        programs = [pathlib.Path(shutil.which(name)) for name in ("orterun", "orted")]
        programs += [path for path in modules.glob("mca_*.so") if COMPONENTS.match(path.name)]
        shutil.rmtree(self.files, ignore_errors=True)
        for path in programs:
            self.copy(path)
        for path in (self.program, *programs):
            for library in re.findall(r"=> (/\S+)", output(["ldd", path])):
                self.copy(pathlib.Path(library))
        for path in pathlib.Path("/usr/share/openmpi").glob("*.txt"):
            self.copy(path)

    def copy(self, path):
        """To its path below the folder; /lib is a link there."""
        parts = path.parts[1:]
        to = self.files.joinpath(*(("usr", *parts) if parts[0] == "lib" else parts))
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)

    def lap(self):
        return in_machine("-f", self.files, "-e", self.program,
                          "--script", HERE / "reduce_mpi.sh", *map(str, SIZES))


def report(taken):
    lines = [["bytes", *(word for name in taken for word in (f"{name} us", "spread")),
              *(f"openmpi/{name}" for name in taken if name != "openmpi")]]
    for row in ROWS:
        line = [str(row.bytes)]
        for name in taken:
            line += [figure(pick(taken, name, row)), figure(spread(taken, name, row), "{:.0%}")]
        if "openmpi" in taken:
            line += [f"{pick(taken, 'openmpi', row) / pick(taken, name, row):.1f}"
                     for name in taken if name != "openmpi"]
        lines.append(line)
    print_columns(lines)


def main():
    options = arguments(__doc__, "build/verbs")
    programs = ready([Oriel(options.oriel, "verbs"), Oriel(options.oriel, "soft"),
                      OpenMpi(options.build)])
    if not programs or programs[0].name != "verbs":
        return 1
    common = stamp(programs[0], "bench/verbs/reduce.py")
    print(f"machine: {common['machine']}, with an emulated virtual machine of 2 CPUs; "
          f"median of {options.laps} repetitions in turns\n")
    taken = measure(programs, options.laps)
    report(taken)
    if options.json:
        write_json(options.json, ROWS, taken, common,
                   lambda name, _: {"verbs": "rdma[verbs]", "soft": "rdma[soft]"}.get(name, "tcp"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
