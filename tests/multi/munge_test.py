#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Job keys by munge: munge_test.py FIRST_PUT JOB_HELPER [TEST...]

Starts a munged with a key of its own at the usual socket, which only the namespaces of this process
have, and listens to all packets of their network. Exits with 77 where there can be none.
"""
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tool

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hosts"))
import lab  # noqa: E402

FIRST_PUT = JOB_HELPER = None
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else
SOCKET = "/run/munge/munge.socket.2"  # of Debian's libmunge: munged --help
OTHER_USER = 65534
AS_OTHER = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
# A process there has no munged.
WITHOUT_MUNGED = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run/munge && exec "$@"',
                  "sh"]
SECRET = b"greetings from rank"  # of first_put
ALL_PACKETS = 3                  # ETH_P_ALL
SEALED_KEY = 0xffff              # type of a frame


def why_not():
    lacking = [name for name in ("munged", "munge", "setpriv", "ip") if not shutil.which(name, path=PATH)]
    if lacking:
        return f"no {', '.join(lacking)} (Debian: munge)"
    if os.geteuid() != 0:
        return "namespaces, and other users, are root's"
    return None


PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def enter():
    lab.must(lab.libc.unshare(lab.CLONE_NEWNS | lab.CLONE_NEWNET), "unshare")
    lab.must(lab.libc.mount(None, b"/", None, lab.MS_REC | lab.MS_PRIVATE, None), "private mounts")
    lab.must(lab.libc.mount(b"none", b"/run", b"tmpfs", 0, None), "a tmpfs at /run")
    lab.run("ip", "link", "set", "lo", "up")


class Munged:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="oriel-munge-")
        key = os.path.join(self.folder, "key")
        with open(key, "wb") as file:
            file.write(os.urandom(128))
        os.chmod(key, 0o600)
        os.mkdir(os.path.dirname(SOCKET), 0o755)
        self.process = subprocess.Popen(
            [shutil.which("munged", path=PATH), "--foreground", "--force", f"--key-file={key}",
             f"--log-file={self.folder}/log", f"--seed-file={self.folder}/seed",
             f"--pid-file={self.folder}/pid"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + DEADLINE
        while subprocess.run(["munge", "--no-input", "--output=/dev/null"], check=False,
                             stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            assert self.process.poll() is None and time.monotonic() < end, "munged does not answer"
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE)
        shutil.rmtree(self.folder, ignore_errors=True)


class Sniffer(threading.Thread):
    """All bytes of the network, until stop()."""

    def __init__(self):
        super().__init__()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PACKETS))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
        self.socket.settimeout(0.1)
        self.bytes = b""
        self.is_over = threading.Event()
        self.start()

    def run(self):
        while True:
            with contextlib.suppress(TimeoutError):
                self.bytes += self.socket.recv(1 << 17)
                continue
            if self.is_over.is_set():
                return

    def stop(self):
        self.is_over.set()
        self.join()
        self.socket.close()
        return self.bytes


class Munge(unittest.TestCase):
    port = 29600

    def setUp(self):
        Munge.port += 1
        self.processes = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.processes:
            process.kill()
            process.communicate()

    def rank(self, rank, *before, program=(), **env):
        env = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(self.port), "ORIEL_LOG": "info", "ORIEL_TIMEOUT": "60"} | env
        self.processes.append(subprocess.Popen(
            [*before, *(program or [FIRST_PUT])], stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=tool.environment(**env)))
        return self.processes[-1]

    @staticmethod
    def result(process):
        out, err = process.communicate(timeout=DEADLINE)
        return process.returncode, out, err

    def job(self, key, *before, **env):
        """A job of three ranks that puts over TCP; returns what was seen on the network. Two ranks
        open the same credential."""
        sniffer = Sniffer()
        overall = {"WORLD_SIZE": "3", "ORIEL_PATHS": "rdma", "ORIEL_HCA": "soft",
                   "ORIEL_SOFT_HCA": "tcp=1"} | env
        ranks = [self.rank(rank, *before, **overall) for rank in range(3)]
        results = [self.result(process) for process in ranks]
        seen = sniffer.stop()
        for rank, (code, out, err) in enumerate(results):
            self.assertEqual((code, out), (0, f"rank {rank} of 3 got: greetings from rank "
                                              f"{(rank - 1) % 3}\n"), err)
        self.assertTrue(any(line.endswith(f", {key}") for line in results[0][2].splitlines()),
                        results[0][2])
        return seen

    def test_ranks_get_a_key_and_a_sniffer_reads_nothing(self):
        self.assertNotIn(SECRET, self.job("with a job key by munge"))
        # The same test finds it where the user wants no key.
        self.assertIn(SECRET, self.job("without a job key", ORIEL_JOB_KEY="none"))

    def test_a_key_by_munge_is_one_where_a_key_is_required(self):
        self.assertNotIn(SECRET, self.job("with a job key by munge", ORIEL_JOB_KEY="required"))

    def test_ranks_of_another_user_than_root_get_one(self):
        self.assertNotIn(SECRET, self.job("with a job key by munge", *AS_OTHER))

    def test_a_key_of_the_user_is_stronger(self):
        self.assertNotIn(SECRET, self.job("with a job key", ORIEL_JOB_KEY="c0ffee" * 8))

    def test_jobs_of_a_process_follow_each_other(self):
        ranks = [self.rank(rank, program=[JOB_HELPER, "environment"]) for rank in range(2)]
        for process in ranks:
            code, out, err = self.result(process)
            self.assertEqual((code, out), (0, "all rounds\n"), err)

    def test_without_munged_a_job_is_as_before(self):
        self.assertIn(SECRET, self.job("without a job key", *WITHOUT_MUNGED))
        code, _, err = self.result(self.rank(0, *WITHOUT_MUNGED, ORIEL_JOB_KEY="required"))
        self.assertNotEqual(code, 0)
        self.assertIn("ORIEL_JOB_KEY is 'required', but this job has no key: ", err)

    def test_another_user_is_refused_and_the_job_goes_on(self):
        root = self.rank(0)
        code, _, err = self.result(self.rank(1, *AS_OTHER))
        self.assertNotEqual(code, 0)
        self.assertIn(f"127.0.0.1:{self.port} has a job key that munge does not open for user "
                      f"{OTHER_USER}: munge says: Unauthorized credential", err)
        code, _, err = self.result(self.rank(1, *AS_OTHER, ORIEL_JOB_KEY="none"))
        self.assertNotEqual(code, 0)
        self.assertIn(f"127.0.0.1:{self.port} has a job key by munge, but this process asks for none", err)
        code, _, err = self.result(self.rank(1, *AS_OTHER, ORIEL_JOB_KEY="c0ffee" * 8))
        self.assertNotEqual(code, 0)
        self.assertIn("has another ORIEL_JOB_KEY than this process", err)
        member = self.rank(1)
        self.assertEqual([self.result(process)[0] for process in (root, member)], [0, 0])

    def test_another_user_cannot_pose_as_rank_0(self):
        sealed = subprocess.run([*AS_OTHER, "munge", "--restrict-uid=0", "--string=" + "k" * 32],
                                stdout=subprocess.PIPE, check=True).stdout.strip()
        with socket.create_server(("127.0.0.1", self.port)) as listener:
            listener.settimeout(DEADLINE)
            member = self.rank(1)
            with listener.accept()[0] as asks:
                asks.settimeout(DEADLINE)
                self.assertEqual(asks.recv(20, socket.MSG_WAITALL),
                                 struct.pack("<4sHHIQ", b"ORLB", 4, SEALED_KEY, 0, 0))
                asks.sendall(struct.pack("<4sHHIQ", b"ORLB", 4, SEALED_KEY, 0, len(sealed)) + sealed)
                code, _, err = self.result(member)
        self.assertNotEqual(code, 0)
        self.assertIn(f"127.0.0.1:{self.port} has a job key of user {OTHER_USER}, but this process "
                      "is of user 0", err)

    def test_munged_on_one_host_alone_is_named_at_both_ends(self):
        # Both roots wait for their limit at the same time.
        jobs = []
        for rank, at_root, at_member in (
                (0, "it asks for a job key by munge, but this process has none",
                 "has no job key by munge, but this process asks for one"),
                (1, "it does not ask for the job key, which is one by munge",
                 "has a job key by munge, but this process asks for none")):
            Munge.port += 1
            root = self.rank(0, *(WITHOUT_MUNGED if rank == 0 else []), ORIEL_TIMEOUT="5")
            member = self.rank(1, *(WITHOUT_MUNGED if rank == 1 else []))
            jobs.append((self.port, root, at_root, member, at_member))
        for port, root, at_root, member, at_member in jobs:
            code, _, err = self.result(member)
            self.assertNotEqual(code, 0)
            self.assertIn(f"127.0.0.1:{port} {at_member}", err)
            code, _, err = self.result(root)
            self.assertNotEqual(code, 0)
            self.assertRegex(err, f"rank 1 of 2 did not join within 5 s; .* is rejected: {at_root}")


def main():
    global FIRST_PUT, JOB_HELPER
    reason = why_not()
    if not reason:
        try:
            enter()
        except (OSError, subprocess.CalledProcessError) as error:
            reason = f"no namespaces: {error}"
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    FIRST_PUT, JOB_HELPER = map(os.path.abspath, sys.argv[1:3])
    munged = Munged()
    try:
        result = unittest.main(argv=sys.argv[:1] + sys.argv[3:], exit=False).result
    finally:
        munged.stop()
    sys.exit(not result.wasSuccessful())


main()
