#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The instructions at which the warps of a kernel wait, by Nsight Compute: profile.py DIRECTORY
[TITLE...], DIRECTORY of the programs that build makes; reports are left in DIRECTORY/profile.

Kernels that talk to each other cannot take turns, so one GPU alone is looked at, that which is
started last, and programs are run again for each pass.
"""

import argparse
import collections
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

SECONDS = 90  # of one row
STALL = "smsp__pcsamp_warps_issue_stalled_"
COUNTED = ("gpu__time_duration.sum", "smsp__cycles_active.avg", "sm__cycles_active.avg",
           "nvltx__bytes.sum.per_second", "nvltx__bytes_data_user.sum.per_second",
           "nvlrx__bytes.sum.per_second")


@dataclasses.dataclass(frozen=True)
class Row:
    title: str
    command: tuple  # program and arguments
    kernel: str
    device: int = 1
    skip: int = 4  # kernels that check, or warm


def message(name):
    return Row(name, ("oriel_rows", "2", "latency", name), "ping_pong")


ROWS = [
    message("put_signal 8 1x32"),
    message("put_signal 4096 1x256"),
    message("put_signal 65536 1x1024"),
    message("put_signal 65536 1x256"),
    message("put_ll 4096 1x256"),
    message("signal 0 1x1"),
    Row("put_bw 268435456 32x512", ("oriel_rows", "2", "bandwidth", "put_bw 268435456 32x512"),
        "put_blocks|put_turns", 0, 1),
    Row("post_put, device ring 1x1", ("post_rows",), "posts", 0, 0),
    Row("post_batch, device ring 1x32", ("post_rows",), "posts", 0, 5),
]


def profiler():
    """ncu, and the folder of the module that reads its output."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not os.access(ncu, os.X_OK):
        sys.exit("profile.py: no ncu")
    places = [pathlib.Path(ncu).resolve().parent, *pathlib.Path("/opt/nvidia/nsight-compute").glob("*"),
              *pathlib.Path("/usr/local/cuda").resolve().glob("nsight-compute*")]
    for place in places:
        if (place / "extras/python/ncu_report.py").exists():
            return ncu, place / "extras/python"
    sys.exit("profile.py: ncu, but no ncu_report.py")


def sample(ncu, programs, row, report, metrics):
    command = [ncu, "-f", "-o", str(report), "--devices", str(row.device),
               "--replay-mode", "application", "--clock-control", "none",
               "--cache-control", "none", "--kernel-name", f"regex:{row.kernel}",
               "--launch-skip", str(row.skip), "--launch-count", "1",
               "--warp-sampling-interval", "0", "--metrics", ",".join(metrics),
               str(programs / row.command[0]), *row.command[1:]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as expired:
        return f"no end after {SECONDS} s: {(expired.stdout or b'')[-600:]!r}"
    if done.returncode or not report.exists():
        return f"exit code {done.returncode}: {done.stdout[-900:]}{done.stderr[-300:]}"
    return None


def by_place(action):
    """Samples by address: the total, and by reason."""
    places = collections.defaultdict(collections.Counter)
    for name in action.metric_names():
        if not name.startswith(STALL) or name.endswith("_not_issued"):
            continue
        metric = action.metric_by_name(name)
        if not metric.has_correlation_ids():
            continue
        ids = metric.correlation_ids()
        for i in range(metric.num_instances()):
            if count := metric.as_uint64(i):
                places[ids.as_uint64(i)][name.removeprefix(STALL)] += count
    return places


def say(row, action, most):
    places = by_place(action)
    total = sum(sum(reasons.values()) for reasons in places.values())
    reasons = sum(places.values(), collections.Counter())
    print(f"\n{row.title}: {total} samples")
    for name in COUNTED:
        if metric := action.metric_by_name(name):
            print(f"  {name} {metric.as_double():.6g} {metric.unit()}")
    print("  " + ", ".join(f"{name} {count / total:.1%}" for name, count in reasons.most_common(8)))
    addresses = sorted(places)
    hot = sorted(addresses, key=lambda at: -sum(places[at].values()))[:most]
    for at in sorted(hot):
        here = places[at]
        why = ", ".join(f"{name} {n / total:.1%}" for name, n in here.most_common(2))
        text = re.sub(r"\s+", " ", action.sass_by_pc(at))
        print(f"  {sum(here.values()) / total:6.1%}  {at - addresses[0]:5x}  {text:52} {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("titles", nargs="*")
    parser.add_argument("--most", type=int, default=8, help="instructions printed for each kernel")
    options = parser.parse_intermixed_args()
    ncu, module = profiler()
    sys.path.insert(0, str(module))
    import ncu_report
    folder = options.programs / "profile"
    folder.mkdir(exist_ok=True)
    failures = 0
    for row in ROWS:
        if options.titles and row.title not in options.titles:
            continue
        report = folder / (re.sub(r"\W+", "_", row.title) + ".ncu-rep")
        report.unlink(missing_ok=True)
        wrong = sample(ncu, options.programs, row, report,
                       ["group:smsp__pcsamp_warp_stall_reasons", *COUNTED])
        if wrong:
            print(f"\n{row.title}: {wrong}")
            failures += 1
            continue
        say(row, ncu_report.load_report(str(report)).range_by_idx(0).action_by_idx(0), options.most)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
