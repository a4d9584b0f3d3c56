#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""alone.py [--readelf READELF] [--newest GLIBC] [--run] PROGRAM...: whether each PROGRAM needs libc alone.

It may need no library but those of glibc, names no folder for libraries, and exports nothing but
what is Oriel's, so that a driver's own OpenSSL does not meet the one inside. With --run, a copy
in an empty folder runs without any environment: a job of two ranks, whose connections are TLS, and
the quick report. Prints the glibc that it needs, which with --newest may not be a newer one. CMake and
scripts/wheel run it; 77: there is no such program.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

# https://sourceware.org/glibc/wiki/ABIList; in 2.34 libc.so.6 took in most of the others.
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
         "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# What the linker and the start files define in any program.
START = {"_init", "_fini", "_start", "_edata", "_end", "__bss_start", "_IO_stdin_used", "main",
         "data_start", "__data_start", "__libc_csu_init", "__libc_csu_fini"}
QUICK = ["doctor.record", "doctor.txt", "info.json", "contracts/auto", "contracts/t1-commands",
         "contracts/t2-commands", "contracts/t1-verbs", "contracts/t2-verbs", "contracts/t3",
         "contracts/gpu", "summary"]
DEADLINE = 500


def read(readelf, option, program):
    return subprocess.run([readelf, "--wide", option, program], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def linked(readelf, program):
    """What is wrong with how @program is linked."""
    dynamic = read(readelf, "--dynamic", program)
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if library not in GLIBC:
            yield f"needs {library}"
    for folder in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        yield f"looks for libraries in {folder}"
    exported = []
    for line in read(readelf, "--dyn-syms", program).splitlines():
        field = line.split()
        if len(field) < 8 or field[6] in ("UND", "Ndx", "ABS") or field[4] == "LOCAL":
            continue
        name = field[7].split("@")[0]
        # Variables of libc that the program refers to are copied into it.
        if not name.startswith("oriel_") and name not in START and "@" not in field[7]:
            exported.append(name)
    if exported:
        yield f"exports {len(exported)} names that are not the library's, such as {exported[0]}"


def numbers(version):
    return [int(part) for part in version.split(".")]


def glibc(readelf, program):
    """The newest version of glibc among those of its symbols."""
    return max(re.findall(r"GLIBC_(\d+(?:\.\d+)+)", read(readelf, "--version-info", program)),
               key=numbers)


def run(folder, *words):
    done = subprocess.run(["./carried", *words], cwd=folder, env={}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=DEADLINE)
    if done.returncode:
        raise SystemExit(f"FAIL {' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def carried(program):
    """What is wrong with a run without an environment, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(program, pathlib.Path(folder, "carried"))
        if not run(folder, "--version").startswith("oriel "):
            yield "does not know its version"
        run(folder, "perf", "put_lat", "-n", "2", "--nodes", "2", "--check", "--iters", "20",
            "--reps", "1", "--sizes", "8")
        run(folder, "field-report", "--quick", "--minutes", "60")
        with tarfile.open(pathlib.Path(folder, "field-report.tar")) as tar:
            if tar.getnames() != QUICK:
                yield f"its report has {tar.getnames()}"
            summary = [json.loads(line) for line in tar.extractfile("summary")]
    # What a NIC does, and if there is one, is the machine's.
    for part in summary:
        if "lacks" in part or (part["code"] and not part["part"].startswith("contracts/")):
            yield f"its report has {part}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--newest")
    parser.add_argument("program", nargs="+")
    args = parser.parse_args()
    failed = False
    for program in args.program:
        if not pathlib.Path(program).exists():
            print(f"skipped: there is no {program}: it is built where libssl.a and libcrypto.a "
                  "are, without sanitizers")
            return 77
        complaints = list(linked(args.readelf, program))
        needed = glibc(args.readelf, program)
        if args.newest and numbers(needed) > numbers(args.newest):
            complaints.append(f"needs glibc {needed}, which is newer than {args.newest}")
        if args.run:
            complaints += carried(program)
        for complaint in complaints:
            print(f"FAIL {program} {complaint}")
            failed = True
        print(f"{program} needs glibc {needed} or later")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
