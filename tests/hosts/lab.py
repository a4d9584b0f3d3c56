# SPDX-License-Identifier: Apache-2.0
"""Machines made of namespaces: hosts_test.py starts jobs on them.

Each host has a network of its own (eth0 on one switch, eth1 on another, IPv4 and IPv6), a host
name and a /dev/shm. All of it lies in namespaces of this process, which enter() makes: nothing of
it is seen outside, and the kernel removes it when the last process ends.
"""
import ctypes
import os
import signal
import subprocess

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = 0x00020000, 0x04000000, 0x08000000, \
    0x40000000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
SWITCHES = (("10.77.0", "fd77"), ("10.78.0", "fd78"))

libc = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def run(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def enter():
    """This process, and those it starts, are alone on a network. OSError: the kernel forbids it,
    or makes no bridges and no pairs of devices."""
    must(libc.unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC), "unshare")
    must(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
    os.makedirs("/run/netns", exist_ok=True)
    must(libc.mount(b"none", b"/run/netns", b"tmpfs", 0, None), "a tmpfs at /run/netns")
    try:
        Lab(1).close()
    except subprocess.CalledProcessError as error:
        raise OSError(f"{' '.join(error.cmd)} fails") from error


class Host:
    """One of them, by its number, from 1."""

    def __init__(self, number):
        self.number = number
        self.name = f"host{number}"
        self.processes = []

    def address(self, switch=0, family=4):
        v4, v6 = SWITCHES[switch]
        return f"{v4}.{self.number}" if family == 4 else f"{v6}::{self.number}"

    def boot(self):
        """A process that keeps the namespaces of the host, which others enter."""
        self.holder = subprocess.Popen(
            ["ip", "netns", "exec", self.name, "unshare", "-m", "-u", "sh", "-c",
             f"hostname {self.name} && mount -t tmpfs none /dev/shm && echo && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if not self.holder.stdout.readline():
            raise OSError(f"{self.name} does not start")

    def start(self, words, env, stdin=subprocess.DEVNULL, **more):
        """A process on it. All of a host share its /dev/shm and its name."""
        process = subprocess.Popen(
            ["nsenter", "-t", str(self.holder.pid), "-n", "-m", "-u", f"--wd={os.getcwd()}", *words],
            env=env, stdin=stdin, text=True, **more)
        self.processes.append(process)
        return process

    def set_link(self, is_up, switch=0):
        run("ip", "link", "set", f"sw{switch}h{self.number}", "up" if is_up else "down")

    def lose(self, share, switch=0):
        """Packets from and to it are lost, one of 1 / @share. CalledProcessError: the kernel
        has no such filter."""
        # Classic BPF: a random word (SKF_AD_RANDOM, linux/filter.h), TC_ACT_SHOT below the limit,
        # else TC_ACT_OK.
        program = f"4,32 0 0 {0xfffff000 + 56},53 1 0 {int(share * 2**32)},6 0 0 2,6 0 0 0"
        inside, outside = ("-n", self.name), ()
        # Each packet for itself, not 64 KiB of them.
        run("ip", *inside, "link", "set", f"eth{switch}", "gso_max_segs", "1")
        for where, device in (inside, f"eth{switch}"), (outside, f"sw{switch}h{self.number}"):
            run("tc", *where, "qdisc", "add", "dev", device, "clsact")
            run("tc", *where, "filter", "add", "dev", device, "egress", "bpf", "da", "bytecode",
                program)

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


class Lab:
    """@count hosts on two switches."""

    def __init__(self, count, mtu=1500):
        self.hosts = [Host(number) for number in range(1, count + 1)]
        for switch in range(len(SWITCHES)):
            run("ip", "link", "add", f"switch{switch}", "type", "bridge")
            run("ip", "link", "set", f"switch{switch}", "mtu", str(mtu), "up")
        for host in self.hosts:
            self.add(host, mtu)

    def add(self, host, mtu):
        run("ip", "netns", "add", host.name)
        run("ip", "-n", host.name, "link", "set", "lo", "up")
        for switch, (v4, v6) in enumerate(SWITCHES):
            end = f"sw{switch}h{host.number}"
            run("ip", "link", "add", end, "type", "veth", "peer", "name", f"eth{switch}",
                "netns", host.name)
            run("ip", "link", "set", end, "master", f"switch{switch}", "mtu", str(mtu), "up")
            inside = ("ip", "-n", host.name)
            run(*inside, "link", "set", f"eth{switch}", "mtu", str(mtu), "up")
            run(*inside, "addr", "add", f"{v4}.{host.number}/24", "dev", f"eth{switch}")
            run(*inside, "addr", "add", f"{v6}::{host.number}/64", "dev", f"eth{switch}", "nodad")
        host.boot()

    def close(self):
        for host in self.hosts:
            host.kill()
            for process in host.processes:
                process.wait()
                for stream in process.stdin, process.stdout, process.stderr:
                    if stream:
                        stream.close()
            host.holder.kill()
            host.holder.wait()
            host.holder.stdout.close()
            # The kernel takes its time with the devices of a namespace that is not used.
            for switch in range(len(SWITCHES)):
                run("ip", "link", "del", f"sw{switch}h{host.number}")
            run("ip", "netns", "del", host.name)
        for switch in range(len(SWITCHES)):
            run("ip", "link", "del", f"switch{switch}")
