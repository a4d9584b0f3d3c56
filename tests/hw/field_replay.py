#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""field_replay.py TOOL FAKES DIR ARCHIVE...: a field report becomes a personality of the fake.

Each ARCHIVE of `oriel field-report` says what a ConnectX NIC lacks, in the words of
FAKEMLX5_WITHOUT; the fake with these words must give the same report. Instead of a file,
"=devx,odp" makes an archive from the fake with those words first. CMake runs it.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

ORDERS = {"reordered": "order", "ordered": "default_order", "multipath": "one_path"}
# Why commands make no queues; what else the NIC lacks is not known then.
REASONS = {"do not complete": "doorbells", "no cq_oi": "oi"}
PARTS = ("contracts/auto", "contracts/t1-commands", "contracts/t1-verbs", "contracts/t3",
         "contracts/gpu")


def lines(archive, member):
    """The objects of JSON that a part printed, without the log around them."""
    with tarfile.open(archive) as tar:
        if member not in tar.getnames():
            return []
        text = tar.extractfile(member).read().decode()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def find(objects, part, name=None):
    """The object of that part, of a trial by name; {} if the NIC did not get so far."""
    for found in objects:
        if found["part"] == part and name in (None, found.get("name")):
            return found
    return {}


def is_same(old, new):
    """Does @new say all that @old says? An older tool says less."""
    said = [frozen(found) for found in new]
    return all(any(frozen(wanted).items() <= found.items() for found in said) for wanted in old)


def frozen(found):
    """An object of JSON whose values can be compared as items of a set."""
    return {key: tuple(value) if isinstance(value, list) else value
            for key, value in found.items()}


def words(archive):
    """What the NIC of the archive lacks."""
    commands = lines(archive, "contracts/t1-commands")
    nic, mlx5 = find(commands, "nic"), find(commands, "mlx5")
    verbs = lines(archive, "contracts/t1-verbs")
    why = find(lines(archive, "contracts/auto"), "nic")["why"]
    if "no on-demand paging" in why:
        return {"odp"}
    if not mlx5:
        return {next((word for phrase, word in REASONS.items() if phrase in why), "devx")}
    lacks = set()
    if nic["order"] in ORDERS:
        lacks.add(ORDERS[nic["order"]])
    if not nic["has_wait"]:
        lacks.add("wait")
    if not nic["reaches_all"] and find(verbs, "nic").get("reaches_all"):
        lacks.add("faults")
    if mlx5["doorbells"] in ("uncached", "combining"):
        lacks.add("dedicated")
    if mlx5["doorbells"] == "combining":
        lacks.add("uncached")
    lacks.update(f"event_{number:02x}" for number in mlx5.get("refused_events", []))
    lacks.update(word for word in ("events", "stamps", "master", "contexts")
                 if not mlx5.get(word, True))
    if find(lines(archive, "contracts/gpu"), "mlx5").get("rings") == "peermem":
        lacks.add("dmabuf")
    return lacks


def report(tool, fake, folder, lacks, archive):
    """A report of the fake."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = dict(os.environ, LD_LIBRARY_PATH=fake, FAKEMLX5_DIR=str(folder),
                       FAKECUDA_DMABUF="1",
                       FAKEMLX5_WITHOUT=",".join(sorted(lacks)), ORIEL_HCA="=mlx5_0")
    subprocess.run([tool, "field-report", "--quick", "-o", archive], env=environment,
                   check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def main():
    tool, fake, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    wrong = 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[4:]:
        archive = name
        if name.startswith("="):
            archive = folder / "made.tar"
            report(tool, fake, folder / "nics", name[1:].split(","), archive)
        lacks = words(archive)
        replayed = folder / "replayed.tar"
        report(tool, fake, folder / "nics", lacks, replayed)
        # A machine without a GPU says nothing about kernels.
        parts = [p for p in PARTS if find(lines(archive, p), "nic") or p != "contracts/gpu"]
        same = all(is_same(lines(archive, p), lines(replayed, p)) for p in parts)
        if name.startswith("="):
            same = same and lacks == set(filter(None, name[1:].split(",")))
        print("ok  " if same else "FAIL", name, "is the fake without", sorted(lacks) or "nothing")
        if not same:
            for p in parts:
                for old, new in zip(lines(archive, p), lines(replayed, p)):
                    if old != new:
                        print(f"  {p}\n    {old}\n    {new}")
        wrong += not same
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
