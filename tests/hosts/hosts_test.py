#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hosts_test.py CONFORMANCE KILLED P2P_PAIRS: jobs on several hosts, as far as namespaces make them.

Ranks of one host map each other's memory, those of others reach each other by the software HCA
over TCP. Exits with 77 where the kernel allows no namespaces.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import lab

CONFORMANCE, KILLED, P2P_PAIRS = map(os.path.abspath, sys.argv[1:4])
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
DEADLINE = 200  # seconds after which a test has failed; it never decides anything else
PORT = 29500
# Of each kind of frame some: nodes_2_2 has all cases.
SUITES = ["topo/paths", "region/", "data/put", "data/get", "atomic/each", "signal/every", "host/host_meets", "barrier/groups",
          "order/signal_publishes", "split/", "allgather/", "exchange/every"]


class Job:
    """@each ranks on each host of @hosts; rank 0 is on the first."""

    def __init__(self, hosts, each, *words, master=None, **common):
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        size = each * len(hosts)
        self.ranks = []
        for rank in range(size):
            env = ours | {"RANK": str(rank), "WORLD_SIZE": str(size),
                          "MASTER_ADDR": master or hosts[0].address(), "MASTER_PORT": str(PORT),
                          "ORIEL_HCA": "soft", "ORIEL_TIMEOUT": "60", "ORIEL_LOG": "error"} | common
            self.ranks.append(hosts[rank // each].start(
                words, env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))

    def answers(self, count=None):
        """What each rank printed, and its exit code; of the first @count ranks."""
        end = time.monotonic() + DEADLINE
        said = []
        for process in self.ranks[:count]:
            out, _ = process.communicate(timeout=max(1, end - time.monotonic()))
            said.append((out, process.returncode))
        return said

    def until_ready(self):
        for process in self.ranks:
            line = process.stdout.readline()
            assert line == "ready\n", line + process.stdout.read()


class Hosts(unittest.TestCase):
    def lab(self, *arguments, **more):
        """Hosts in place of those of the sub-test before."""
        self.doCleanups()
        made = lab.Lab(*arguments, **more)
        self.addCleanup(made.close)
        return made.hosts

    def check_conformance(self, hosts, suites, **more):
        for rank, (out, code) in enumerate(Job(hosts, 2, CONFORMANCE, *suites, **more).answers()):
            self.assertEqual(code, 0, f"rank {rank}:\n{out}")
            if rank == 0:
                self.assertRegex(out, r"[1-9]\d* cases passed, 0 failed")

    def test_two_hosts(self):
        self.check_conformance(self.lab(2), SUITES)

    def test_four_hosts_with_long_frames(self):
        self.check_conformance(self.lab(4, mtu=9000), ["data/", "signal/", "split/", "allgather/"])

    def test_ipv6_alone(self):
        hosts = self.lab(2)
        self.check_conformance(hosts, ["data/put", "signal/every", "split/"],
                               master=hosts[0].address(family=6), ORIEL_FAMILY="ipv6")

    def test_endpoints_of_p2p_join_all_pairs(self):
        # With a key a context without a communicator listens on TCP.
        key = {"ORIEL_JOB_KEY": "0123456789abcdef" * 4}
        for more in key, {"ORIEL_P2P_TCP": "on"}, key | {"ORIEL_FAMILY": "ipv6"}:
            with self.subTest(more):
                hosts = self.lab(2)
                job = Job(hosts, 2, P2P_PAIRS, "2", master=hosts[0].address(
                    family=6 if "ORIEL_FAMILY" in more else 4), **more)
                for rank, (out, code) in enumerate(job.answers()):
                    self.assertEqual((code, out), (0, f"rank {rank}: all pairs\n"))

    def set_hosts(self, host, lines):
        """The file /etc/hosts of @host alone."""
        with tempfile.NamedTemporaryFile("w", suffix=".hosts", delete=False) as file:
            file.write(lines)
        self.addCleanup(os.unlink, file.name)
        mount = host.start(["mount", "--bind", file.name, "/etc/hosts"], dict(os.environ))
        self.assertEqual(mount.wait(DEADLINE), 0)

    def name_hosts(self, hosts):
        """As Debian does: the own name of each host is 127.0.1.1 there."""
        for host in hosts:
            names = [f"{'127.0.1.1' if each is host else each.address()} {each.name}\n"
                     for each in hosts]
            self.set_hosts(host, "127.0.0.1 localhost\n" + "".join(names))

    def test_the_name_of_rank_0_may_be_loopback_at_home(self):
        hosts = self.lab(2)
        self.name_hosts(hosts)
        self.check_conformance(hosts, ["signal/"], master="host1")

    def test_torchrun_of_two_nodes(self):
        torchrun = os.environ.get("ORIEL_TEST_TORCHRUN") or shutil.which("torchrun")
        if not torchrun:
            self.skipTest("no torchrun (PyPI: torch), in PATH or ORIEL_TEST_TORCHRUN")
        hosts = self.lab(2)
        self.name_hosts(hosts)
        ours = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        agents = [host.start([torchrun, "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend",
                              "c10d", "--rdzv-endpoint", "host1:29400", "--rdzv-id", "hosts",
                              "--no-python", CONFORMANCE, "data/", "signal/", "barrier/"],
                             ours | {"ORIEL_HCA": "soft", "ORIEL_TIMEOUT": "60"},
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for host in hosts]
        said = [agent.communicate(timeout=DEADLINE)[0] for agent in agents]
        self.assertEqual([agent.returncode for agent in agents], [0, 0], said)
        self.assertRegex("".join(said), r"[1-9]\d* cases passed, 0 failed")

    def listeners(self, host):
        """Addresses at which TCP sockets listen on @host."""
        out = subprocess.run(["ip", "netns", "exec", host.name, "ss", "-Htln"], check=True,
                             capture_output=True, text=True).stdout
        return [line.split()[3] for line in out.splitlines()]

    def test_an_interface_is_chosen(self):
        hosts = self.lab(2)
        job = Job(hosts, 2, KILLED, "idle", "1", master=hosts[0].address(switch=1),
                  ORIEL_IFACE="=eth1")
        job.until_ready()
        for host in hosts:
            found = self.listeners(host)
            self.assertTrue(found)
            for at in found:
                self.assertTrue(at.startswith(host.address(switch=1) + ":"), found)
        # Nothing that goes by the other one.
        for host in hosts:
            host.set_link(False, switch=0)
        job.ranks[1].kill()
        for rank, (out, code) in enumerate(job.answers()):
            if rank != 1:
                self.assertRegex(out, r"ORIEL_ERR_PEER .*\brank 1\b", f"rank {rank}, {code}")

    def test_an_interface_that_is_missing_is_named(self):
        for out, code in Job(self.lab(2), 1, CONFORMANCE, "data/", ORIEL_IFACE="ib").answers():
            self.assertEqual(code, 1, out)
            self.assertIn("ORIEL_IFACE is 'ib'", out)
            self.assertIn("eth0 (IPv4)", out)

    def cut(self, how, where, timeout=8):
        hosts = self.lab(2)
        job = Job(hosts, 2, KILLED, where, "3", ORIEL_TIMEOUT=str(timeout))
        job.until_ready()
        begun = time.monotonic()
        how(hosts[1])
        for rank, (out, _) in enumerate(job.answers(2)):
            self.assertRegex(out, r"ORIEL_ERR_(PEER|TIMEOUT) .*\branks? [23]\b", f"rank {rank}")
        return time.monotonic() - begun

    def test_a_cable_that_is_cut_is_named(self):
        for where in ["barrier", "wait_signal_from", "comm_barrier"]:
            with self.subTest(where):
                self.cut(lambda host: host.set_link(False), where)

    @staticmethod
    def vanish(host):
        host.set_link(False)
        host.kill()

    def test_a_host_that_vanishes_is_named(self):
        for where in ["barrier", "recv"]:
            with self.subTest(where):
                self.cut(self.vanish, where)

    def test_a_host_that_vanishes_is_lost_before_the_timeout(self):
        # The software HCA waits for 30 s, and notices within a second or two.
        self.assertTrue(28 < self.cut(self.vanish, "barrier", timeout=150) < 60)

    def test_an_idle_endpoint_loses_a_host_that_vanishes(self):
        hosts = self.lab(2)
        job = Job(hosts, 1, P2P_PAIRS, "1", "lose", ORIEL_P2P_TCP="on", ORIEL_TIMEOUT="150")
        job.until_ready()
        begun = time.monotonic()
        self.vanish(hosts[1])
        out, _ = job.answers(1)[0]
        self.assertRegex(out, r"^ORIEL_ERR_PEER the host of the peer, .*, has acknowledged nothing "
                              r"for [3-9]\d s\n")
        self.assertTrue(28 < time.monotonic() - begun < 120)

    def test_every_fifth_packet_is_lost(self):
        hosts = self.lab(2)
        try:
            hosts[0].lose(1 / 5)
        except subprocess.CalledProcessError as error:
            self.skipTest(f"{' '.join(error.cmd)} fails")
        self.check_conformance(hosts, ["split/equal_keys", "signal/next_survives_wrap_around"],
                               ORIEL_TIMEOUT="150")

    def test_a_second_without_a_link_is_survived(self):
        hosts = self.lab(2)
        job = Job(hosts, 2, KILLED, "idle", "1")
        job.until_ready()
        hosts[1].set_link(False)
        time.sleep(1)
        hosts[1].set_link(True)
        time.sleep(3)
        # The communicator is well: what breaks it now is the death of rank 1 alone.
        job.ranks[1].kill()
        for rank, (out, _) in enumerate(job.answers()):
            if rank != 1:
                self.assertRegex(out, r"ORIEL_ERR_PEER .*\brank 1\b", f"rank {rank}")

    def test_ranks_may_come_before_their_link(self):
        hosts = self.lab(2)
        hosts[1].set_link(False)
        job = Job(hosts, 2, CONFORMANCE, "data/", "signal/")
        time.sleep(1)
        hosts[1].set_link(True)
        for rank, (out, code) in enumerate(job.answers()):
            self.assertEqual(code, 0, f"rank {rank}:\n{out}")


if __name__ == "__main__":
    try:
        lab.enter()
    except OSError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    result = unittest.main(argv=sys.argv[:1] + sys.argv[4:], exit=False).result
    if result.wasSuccessful() and len(result.skipped) == result.testsRun:
        print("skipped:", *(why for _, why in result.skipped))
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
