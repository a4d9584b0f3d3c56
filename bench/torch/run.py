#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [--ranks N,N] [--laps N] [--page FILE] [TEST...]: the backend oriel of torch beside gloo and mpi4py.

Runs rank.py with each number of ranks on this machine, by the Python that runs this: both backends, and
mpi4py with Open MPI, in turns in the same processes, so that the load of the machine is that of all. Prints
a table, and writes it as a page with --page. Torch's flight recorder is off, which takes more than a short operation.

Needs mpirun of Open MPI (scripts/setup --bench) and mpi4py (pip install mpi4py); says so where one is missing,
and --without-mpi does without.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from side_by_side import CORES, K, machine, output  # noqa: E402

SMALL, SMALL_GOAL, LARGE_GOAL = 64 * K, 8, 3


def mpirun(ranks):
    """The start of a command: a core for each rank if there are enough, as for the two backends."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "-np", str(ranks), "--bind-to", "none", *(["--oversubscribe"] if ranks > len(CORES) else [])]


def rows_of(ranks, laps, tests, with_mpi):
    """The rows of one job."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    base = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "LAPS": str(laps), "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "0"}
    if with_mpi:
        done = subprocess.run([*mpirun(ranks), sys.executable, HERE / "rank.py", *tests], env=base, timeout=1800,
                              stdout=subprocess.PIPE, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    jobs = [subprocess.Popen([sys.executable, HERE / "rank.py", *tests], env={**base, "RANK": str(rank)},
                             stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, text=True)
            for rank in range(ranks)]
    said, _ = jobs[0].communicate(timeout=1200)
    if any(job.wait(60) for job in jobs):
        sys.exit(f"run.py: a rank failed: codes {[job.returncode for job in jobs]}")
    return [json.loads(line) for line in said.splitlines()]


def mpi_version():
    from importlib import metadata  # pylint: disable=import-outside-toplevel
    return f"mpi4py {metadata.version('mpi4py')}, {output(['mpirun', '--version']).splitlines()[0]}"


def cells(row):
    yield row["test"]
    yield f"{row['bytes']}"
    yield str(row["ranks"])
    medians = {}
    for name, laps in row["laps_us"].items():
        medians[name] = statistics.median(laps)
        yield f"{medians[name]:.1f}"
        yield f"{min(laps):.1f}"
        yield f"{(max(laps) - min(laps)) / medians[name]:.0%}"
    for name in list(medians)[1:]:
        yield f"{medians[name] / medians['oriel']:.1f}x"
    goal = SMALL_GOAL if row["bytes"] <= SMALL else LARGE_GOAL
    yield "met" if medians["gloo"] >= goal * medians["oriel"] else f"missed ({goal}x)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--laps", type=int, default=9)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--without-mpi", action="store_true", help="measure beside gloo alone")
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    import oriel  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    peers = ["gloo"] if args.without_mpi else ["gloo", "mpi4py"]
    if not args.without_mpi:
        if not shutil.which("mpirun"):
            sys.exit("run.py: no mpirun: scripts/setup --bench installs it; or --without-mpi")
        if not importlib.util.find_spec("mpi4py"):
            sys.exit(f"run.py: no mpi4py: {sys.executable} -m pip install mpi4py; or --without-mpi")
    beside = [*peers, "copy"]
    lines = [["test", "bytes", "ranks", *(word for name in ["oriel", *beside] for word in (f"{name} us", "best", "spread")),
              *(f"{name}/oriel" for name in beside), "goal"]]
    for ranks in args.ranks.split(","):
        lines += [list(cells(row)) for row in rows_of(int(ranks), args.laps, args.tests, not args.without_mpi)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    table = "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines)
    print(table)
    if args.page:
        args.page.write_text(
            f"# The backend oriel of torch beside {' and '.join(peers)}\n\n"
            "After this page you know what a call of `torch.distributed` takes on CPUs, by either backend"
            f"{'' if args.without_mpi else ', and what one of mpi4py does'}.\n\n"
            f"{oriel.version()}; torch {torch.__version__}, Python {sys.version.split()[0]}; "
            f"{'' if args.without_mpi else mpi_version() + '; '}{machine()}, load "
            f"{os.getloadavg()[1]:.1f} when it ended. Medians, best and spread of {args.laps} laps in turns, us a call on rank "
            "0, tensors of float32; bytes are those of one rank; without torch's flight recorder (`TORCH_FR_BUFFER_SIZE=0`); "
            "by\n\n"
            f"    bench/torch/run.py {' '.join(sys.argv[1:])}\n\n"
            f"The goal is {SMALL_GOAL} times gloo up to {SMALL // K} KiB and {LARGE_GOAL} times above; `send_recv` is half a "
            "ping-pong. `copy` is a bare copy, on all ranks at once, of the bytes that a rank receives: no collective of long "
            f"messages can take much less.\n\n```\n{table}\n```\n", "utf-8")


if __name__ == "__main__":
    main()
