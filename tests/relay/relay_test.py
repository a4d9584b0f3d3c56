#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""relay_test.py ORIEL RELAY_RANK SHIM [TEST...]: a relay in the middle of all TCP connections of a
job, which records what passes, or alters, drops, repeats or swaps bytes of one connection.

The ranks are led to the relay by a preloaded connect(). A fault is made once, in the bytes that
pass one way behind the first AFTER of them.
"""
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ORIEL = RANK = SHIM = None
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else
NAMED = r"(\brank [01]\b|[\d\]]:\d+\b)"
NOTICED = NAMED + r".*(altered on the way|ORIEL_JOB_KEY|malformed)"
# Before TLS is there, altered bytes look like those of another program.
REJECTED = f"{NOTICED}|{NAMED}.*(does not speak Oriel's protocol|is no software HCA)"
KEY = "00c0ffee11c0ffee22c0ffee33c0ffee"
MARKER = b"window data that no relay may read"
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|SLURM_|PMIX_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
# Each gets bytes that the reader may not take for those that were sent.
FAULTS = {
    "alter": lambda data: data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1])
    + data[len(data) // 2 + 1:],
    "drop": lambda data: data[7:],
    "repeat": lambda data: data + data,
    "swap": lambda data: data[len(data) // 2:] + data[:len(data) // 2],
}


class Relay:
    """@fault is (kind of connection, which way: to the acceptor or the connector, after, how)."""

    def __init__(self, fault=None):
        self.fault, self.done = fault, 0
        self.lock = threading.Lock()
        self.targets, self.seen, self.bytes = {}, {}, {}
        self.listeners = {}  # kinds of those that say so
        self.asked = "demand"
        self.longest = {}  # what has passed over one connection, by its kind and way
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "relay")
        self.notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notes.bind(self.path)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def close(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        self.notes.close()
        self.listener.close()
        self.folder.cleanup()

    def boot_id(self):
        """A file with the id of another kernel than this one's."""
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            own = file.read()
        path = os.path.join(self.folder.name, "boot_id")
        with open(path, "w", encoding="ascii") as file:
            file.write(("1" if own[0] == "0" else "0") + own[1:])
        return path

    def environment(self):
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        return ours | {"LD_PRELOAD": SHIM, "RELAY_PORT": str(self.listener.getsockname()[1]),
                       "RELAY_SOCKET": self.path}

    def serve(self):
        while not self.is_over.is_set():
            ready, _, _ = select.select([self.notes, self.listener], [], [], 0.1)
            if self.notes in ready:
                words = self.notes.recv(256).decode().split()
                if words[0] == "listen":
                    self.listeners[int(words[1])] = words[2]
                    continue
                port, host, to, kind = words
                kind = self.listeners.get(int(to), kind)
                # The link that was asked for joins next.
                if kind == "demand":
                    kind, self.asked = self.asked, "soft"
                self.targets[int(port)] = (host, int(to)), kind
            # A note comes before its connection, which is accepted once the notes are read.
            elif self.listener in ready:
                sock, address = self.listener.accept()
                thread = threading.Thread(target=self.carry,
                                          args=(sock, *self.targets[address[1]]))
                self.threads.append(thread)
                thread.start()

    def carry(self, connector, target, kind):
        try:
            acceptor = socket.create_connection(target)
        except OSError:
            connector.close()
            return
        with self.lock:
            self.seen[kind] = self.seen.get(kind, 0) + 1
        whole = {"acceptor": b"", "connector": b""}
        passed = {connector: 0, acceptor: 0}
        ways = {connector: (acceptor, "acceptor"), acceptor: (connector, "connector")}
        while ways and not self.is_over.is_set():
            for sock in select.select(list(ways), [], [], 0.1)[0]:
                other, way = ways[sock]
                try:
                    data = sock.recv(65536)
                    whole[way] += data
                    if data:
                        other.sendall(self.change(kind, way, passed[sock], data))
                    else:
                        other.shutdown(socket.SHUT_WR)
                except OSError:
                    data = b""
                passed[sock] += len(data)
                if not data:
                    del ways[sock]
        with self.lock:
            for way, data in whole.items():
                self.longest[kind, way] = max(self.longest.get((kind, way), b""), data, key=len)
        connector.close()
        acceptor.close()

    def change(self, kind, way, passed, data):
        """What the relay sends for @data, which follows @passed bytes."""
        with self.lock:
            self.bytes[kind, way] = self.bytes.get((kind, way), b"") + data
            if not self.fault or self.done or len(data) < 16:
                return data
            of, to, after, how = self.fault
            if (of, to) != (kind, way) or passed + len(data) <= after:
                return data
            self.done += 1
        return FAULTS[how](data)


def records_of(data):
    """Where the records of TLS begin in @data that have data, or encrypted words of a handshake:
    RFC 8446, section 5.1."""
    at = 0
    while at + 5 <= len(data):
        if data[at] == 0x17:
            yield at
        at += 5 + int.from_bytes(data[at + 3:at + 5], "big")


class Relayed(unittest.TestCase):
    def run_job(self, relay, kind, rounds, **more):
        env = relay.environment() | {
            "ORIEL_HCA": "soft", "ORIEL_SOFT_HCA": "tcp=1", "ORIEL_P2P_TCP": "on",
            "ORIEL_FAMILY": "ipv4", "ORIEL_MEET": "tcp", "ORIEL_TIMEOUT": "20", "ORIEL_LOG": "warn"} | more
        # By demand, and to vote, ranks of one host join by unix sockets.
        if kind in ("demand", "vote"):
            env["RELAY_BOOT_ID"] = relay.boot_id()
        # Without a key it is env(1), behind oriel run, which would make one.
        words = [RANK, kind, str(rounds)]
        if not more.get("ORIEL_JOB_KEY"):
            words = ["env", "-u", "ORIEL_JOB_KEY", *words]
        job = subprocess.run([ORIEL, "run", "-n", "2", "--nodes", "2", "--grace", "60", "--timeout",
                              str(DEADLINE), *words], env=env, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=2 * DEADLINE)
        relay.close()
        return job.returncode, job.stdout, job.stderr

    def check_fault(self, kind, way, after, how, rounds=2000):
        relay = Relay((kind, way, after, how))
        code, out, err = self.run_job(relay, kind, rounds, ORIEL_JOB_KEY=KEY)
        said = f"{kind}, to the {way}, after {after}: {how}\n{out}{err}"
        self.assertEqual(relay.done, 1, said)
        self.assertNotIn("WRONG", out, said)
        return code, out, err, said

    def check_open(self, kind, ways, after=4000):
        """The connection is open: its bytes are data, and the job ends, on both ranks."""
        for way in ways:
            for how in FAULTS:
                code, out, err, said = self.check_fault(kind, way, after, how)
                self.assertNotEqual(code, 0, said)
                self.assertNotIn("ends", out, said)
                self.assertRegex(out + err, "altered on the way", said)
                self.assertRegex(out, r"\[\d\] ORIEL_ERR_\w+ .*(\brank [01]\b|127\.0\.0\.1)", said)

    def check_handshake(self, kind):
        """The connection is not open: it is rejected, and made again or given up."""
        for way in ("acceptor", "connector"):
            for how in FAULTS:
                code, out, err, said = self.check_fault(kind, way, 0, how, 20)
                self.assertRegex(out + err, REJECTED, said)
                if code == 0:
                    self.assertEqual(out.count("ends"), 2, said)
                else:
                    self.assertRegex(out + err, "ORIEL_ERR_", said)

    def test_faults_in_the_tree(self):
        self.check_open("join", ("acceptor", "connector"))

    def test_faults_in_messages(self):
        self.check_open("message", ("acceptor",))  # they carry data one way

    def test_faults_in_the_software_hca(self):
        self.check_open("soft", ("acceptor",))  # so do these

    def test_faults_in_handshakes(self):
        for kind in ("join", "message", "soft", "p2p", "demand", "vote", "grow"):
            with self.subTest(kind):
                self.check_handshake(kind)

    def test_faults_between_endpoints(self):
        # Behind the handshake: the hello, the endpoint and what follows it.
        for way, after in (("acceptor", 500), ("connector", 300)):
            for how in FAULTS:
                code, out, err, said = self.check_fault("p2p", way, after, how)
                self.assertNotEqual(code, 0, said)
                self.assertRegex(out, r"\[\d\] ORIEL_ERR_\w+ ", said)
                self.assertRegex(out + err, "altered on the way", said)

    def check_protocol(self, kind, most):
        """Each of the first @most records of the kind's longest connection. Either the ranks go on,
        after a line that names the connection, or all end, and name it or its rank."""
        relay = Relay()
        code, out, err = self.run_job(relay, kind, 20, ORIEL_JOB_KEY=KEY)
        self.assertEqual((code, out.count("ends")), (0, 2), out + err)
        for way in ("acceptor", "connector"):
            records = list(records_of(relay.longest[kind, way]))[:most]
            self.assertGreater(len(records), 2)
            for after in records:
                for how in FAULTS:
                    # A record that is repeated behind the last one that is read changes nothing, nor
                    # does one of a connection that the ranks gave up for another one.
                    for _ in range(3):
                        code, out, err, said = self.check_fault(kind, way, after, how, 20)
                        if code != 0 or how == "repeat" or re.search(NOTICED, out + err):
                            break
                    if code != 0 or how != "repeat":
                        self.assertRegex(out + err, NOTICED, said)
                    if code == 0:
                        self.assertEqual(out.count("ends"), 2, said)
                    else:
                        self.assertNotIn("ends", out, said)
                        self.assertRegex(out, r"\[\d\] ORIEL_ERR_\w+ .*" + NAMED, said)

    def test_faults_in_links_on_demand(self):
        self.check_protocol("demand", 10)

    def test_faults_in_votes(self):
        self.check_protocol("vote", 6)

    def test_faults_in_growth(self):
        self.check_protocol("grow", 10)

    def check_keyless(self, kind):
        """Without a key altered data may pass for data, and so be wrong; but no rank crashes or waits
        for ever, and one that fails says with whom."""
        relay = Relay()
        code, out, err = self.run_job(relay, kind, 20)
        self.assertEqual((code, out.count("ends")), (0, 2), out + err)
        for way in ("acceptor", "connector"):
            length = len(relay.longest.get((kind, way), b""))
            for after in sorted({0, 40, 100, length // 2, length - length // 4}):
                for how in FAULTS:
                    fault = Relay((kind, way, after, how))
                    begun = time.monotonic()
                    code, out, err = self.run_job(fault, kind, 20, ORIEL_TIMEOUT="4")
                    said = f"{kind}, to the {way}, after {after} of {length}: {how}\n{out}{err}"
                    self.assertLess(time.monotonic() - begun, 40, said)
                    self.assertNotRegex(out + err, "signal|Sanitizer", said)
                    if "WRONG" not in out and code != 0:
                        self.assertRegex(out, r"\[\d\] ORIEL_ERR_\w+ .*" + NAMED, said)

    def test_without_a_key_faults_end(self):
        for kind in ("join", "message", "soft", "p2p", "demand", "vote", "grow"):
            with self.subTest(kind):
                self.check_keyless(kind)

    def recorded(self, kind, key):
        relay = Relay()
        code, out, err = self.run_job(relay, kind, 50, ORIEL_JOB_KEY=key)
        self.assertEqual(code, 0, out + err)
        self.assertGreaterEqual(relay.seen.get(kind, 0), 1, relay.seen)
        secrets = [bytes.fromhex(words) for words in re.findall(r"export (\w+)", out)]
        return relay, secrets

    def test_a_relay_reads_no_data_no_rkey_and_no_key(self):
        for kind in ("join", "message", "soft", "p2p", "demand", "vote", "grow"):
            for key in ("", KEY):
                with self.subTest(kind, key=key):
                    relay, exports = self.recorded(kind, key)
                    all_bytes = b"\0".join(relay.bytes.values())
                    # Without a key it reads all: what is looked for can be found.
                    expect = self.assertNotIn if key else self.assertIn
                    expect(MARKER, all_bytes)
                    for exported in exports:
                        expect(exported[40:56], all_bytes)  # the rkeys by rail
                    self.assertEqual(len(exports), 2 if kind == "p2p" else 0)
                    self.assertNotIn(KEY.encode(), all_bytes)
                    self.assertNotIn(bytes.fromhex(KEY), all_bytes)


if __name__ == "__main__":
    ORIEL, RANK, SHIM = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
