#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py --soak PROGRAM --oriel PROGRAM SECONDS [SEED]
soak.py --soak PROGRAM --oriel PROGRAM --replay SEED

Runs rounds of the soak until the time is over. The seed of each round follows from
SEED and its number. The operations of a round follow from its own seed, which is
printed when the round fails, and can be replayed.
"""
import argparse
import collections
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

OUTCOME = re.compile(r"soak: life (\d) rank (\d+) (ok|broken), (\d+) operations, (\d+) bytes(.*)")


def round_seed(base, number):
    digest = hashlib.sha256(f"{base}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def read_plan(soak, seed):
    text = subprocess.run([soak, "--plan", str(seed)], check=True, capture_output=True,
                          text=True).stdout
    return dict(word.split("=", 1) for word in text.split())


def processes_of(session):
    """Yield the processes of @session, which this driver started."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getsid(int(name)) == session:
                yield int(name)
        except ProcessLookupError:
            pass


def print_stacks(session):
    for pid in processes_of(session):
        try:
            text = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"],
                                  capture_output=True, text=True, timeout=60).stdout
        except (FileNotFoundError, subprocess.TimeoutExpired):
            print(f"  process {pid}: no stacks (gdb is missing or failed)")
            continue
        print(f"  process {pid}:")
        for line in text.splitlines():
            if line.startswith(("#", "Thread")):
                print("    " + line)


def end_session(session):
    for pid in list(processes_of(session)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run_round(args, plan, seed):
    """(exit code, output); the code is None for a round that hangs."""
    command = [args.soak, str(seed)]
    if plan["threads"] == "0":
        command = [args.oriel, "run", "-n", plan["ranks"], "--nodes", plan["nodes"],
                   "--grace", str(2 * args.limit), "--", *command]
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith("ORIEL_") or k == "ORIEL_LOG"}
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, env=environment,
                                 start_new_session=True)
        try:
            code = child.wait(timeout=args.limit)
        except subprocess.TimeoutExpired:
            code = None
            print_stacks(child.pid)
        end_session(child.pid)
        child.wait()
        output.seek(0)
        return code, output.read()


def complaint_of_first(plan, code, ends):
    """The same for the first life, whose ranks ended as @ends says."""
    ranks, fate, victim = int(plan["ranks"]), plan["fate"], int(plan["victim"])
    if fate == "kill":
        left = [end for r, end in ends.items() if r != victim]
        if code != 128 + signal.SIGKILL:
            return f"the round ended with code {code}, not by the death of a rank"
        if len(left) != ranks - 1 or any(end != "broken" for end in left):
            return f"not all survivors broke: {ends}"
        return None
    if code != 0:
        return f"the round ended with code {code}"
    if len(ends) != ranks:
        return f"{len(ends)} of {ranks} ranks reported how they ended"
    if fate == "survives" and set(ends.values()) != {"ok"}:
        return f"not all ranks ended well: {ends}"
    if plan["sure"] == "1" and set(ends.values()) != {"broken"}:
        return f"not all ranks broke: {ends}"
    if len(set(ends.values())) != 1:
        return f"some ranks broke and some ended well: {ends}"
    return None


def complaint(plan, code, outcomes):
    """A text if the ranks ended wrongly, else None."""
    if code is None:
        return "the round hangs"
    ends = [{r: o[0] for (life, r), o in outcomes.items() if life == each} for each in range(3)]
    left = int(plan["ranks"]) - (plan["fate"] == "kill")
    expected = {"ends": [0, 0], "shrinks": [left, 0],
                "replaces": [left, left + int(plan["newcomers"])]}[plan["heal"]]
    wrong = complaint_of_first(plan, code, ends[0])
    for life in (1, 2):
        if not wrong and ends[life] != {r: "ok" for r in range(expected[life - 1])}:
            wrong = f"of {expected[life - 1]} ranks that go on in life {life}: {ends[life]}"
    return wrong


class Totals:
    def __init__(self):
        self.start = time.monotonic()
        self.rounds = self.operations = self.bytes = self.harmed = self.proxied = 0
        self.fates = collections.Counter()
        self.heals = collections.Counter()

    def add(self, plan, outcomes):
        self.rounds += 1
        self.operations += sum(o[1] for o in outcomes.values())
        self.bytes += sum(o[2] for o in outcomes.values())
        self.harmed += int(plan["nodes"]) > 1 and "," in plan["hca"]
        self.proxied += int(plan["nodes"]) > 1 and plan["proxied"] == "1"
        self.heals[plan["heal"]] += 1
        if any(o[0] == "broken" for o in outcomes.values()):
            self.fates[plan["fate"]] += 1

    def text(self):
        fates = ", ".join(f"{n} {fate}" for fate, n in sorted(self.fates.items())) or "none"
        return (f"{self.rounds} rounds, {self.operations} operations, "
                f"{self.bytes / 1e6:.1f} MB checked, {self.harmed} rounds with a faulty HCA, "
                f"{self.proxied} posted by a proxy, broken on purpose: {fates}; after it "
                f"{self.heals['shrinks'] + self.heals['replaces']} shrank and "
                f"{self.heals['replaces']} grew; {time.monotonic() - self.start:.0f} s")


def soak_round(args, seed, totals):
    """Run one round; return whether it passed."""
    plan = read_plan(args.soak, seed)
    if args.verbose:
        print(f"soak: seed {seed}: " + " ".join(f"{k}={v}" for k, v in plan.items()), flush=True)
    begin = time.monotonic()
    code, output = run_round(args, plan, seed)
    outcomes = {(int(m[1]), int(m[2])): (m[3], int(m[4]), int(m[5]))
                for m in OUTCOME.finditer(output)}
    wrong = complaint(plan, code, outcomes)
    totals.add(plan, outcomes)
    if args.verbose:
        print(f"soak: seed {seed}: {time.monotonic() - begin:.2f} s", flush=True)
    if wrong is None and not args.replay:
        return True
    print(output, end="")
    if wrong is None:
        return True
    print(f"soak: round {totals.rounds}, seed {seed}: {wrong}")
    print("soak: the plan: " + " ".join(f"{k}={v}" for k, v in plan.items()))
    print(f"soak: again: scripts/soak --replay {seed}", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--soak", required=True)
    parser.add_argument("--oriel", required=True)
    parser.add_argument("--replay", type=int, metavar="SEED")
    parser.add_argument("--limit", type=int, default=300, help="seconds a round may take")
    parser.add_argument("--verbose", action="store_true", help="print a line for each round")
    parser.add_argument("seconds", type=float, nargs="?")
    parser.add_argument("seed", nargs="?")
    args = parser.parse_args()
    totals = Totals()
    if args.replay is not None:
        return 0 if soak_round(args, args.replay, totals) else 1
    if not args.seconds:
        parser.error("SECONDS is missing")
    base = args.seed or str(time.time_ns())
    print(f"soak: {args.seconds:g} s, seed {base}", flush=True)
    reports = 0
    while time.monotonic() - totals.start < args.seconds:
        if not soak_round(args, round_seed(base, totals.rounds), totals):
            print("soak: FAILED: " + totals.text())
            return 1
        if time.monotonic() - totals.start > 30 * (reports + 1):
            reports = int((time.monotonic() - totals.start) / 30)
            print("soak: " + totals.text(), flush=True)
    print(f"soak: passed with seed {base}: " + totals.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
