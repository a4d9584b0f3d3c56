#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""guest.py DIR: starts the guest of DIR once and keeps it, as it waits for a job,
in DIR/ram and DIR/state. From there a run goes on in less than a second.

Memory is a file: shared while it is made, private (copied as it is written) in runs.
The job is an archive on a disk; /job/cmd in it is what the guest executes.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

MEMORY = 512 << 20
CPUS = 2
LIBRARIES = "lib/x86_64-linux-gnu"
JOB_MOST = 64 << 20  # the disk is as big for all jobs: the guest has seen it before
BOOT_LIMIT = 180
STARTING_LIMIT = 60

# Options that cost time under emulation, and have no effect on the tests, are off.
KERNEL = ("console=ttyS0 quiet panic=-1 nokaslr mitigations=off nowatchdog cryptomgr.notests "
          "no_timer_check random.trust_cpu=on rcupdate.rcu_expedited=1 tsc=reliable rodata=off "
          "init_on_alloc=0 initcall_blacklist=cubictcp_register,crypto_kdf108_init,"
          "init_kprobe_trace,init_zswap,apparmor_nf_ip_init")


class Failed(Exception):
    """The guest failed; the text says how."""


class Control:
    """QEMU's monitor."""

    def __init__(self, path, process):
        deadline = time.monotonic() + STARTING_LIMIT
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(STARTING_LIMIT)
        while True:
            try:
                self.socket.connect(path)
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"QEMU exited ({process.returncode})") from error
                time.sleep(0.01)
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self.call("qmp_capabilities")
        self.call("migrate-set-capabilities",
                  capabilities=[{"capability": "x-ignore-shared", "state": True}])

    def call(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        for line in self.file:
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise Failed(f"{command}: {answer['error']['desc']}")
        raise Failed(f"{command}: QEMU exited")

    def wait(self, command, key, good, bad):
        """Poll @command until its answer has @good under @key."""
        deadline = time.monotonic() + STARTING_LIMIT
        while (value := self.call(command).get(key)) != good:
            if value == bad or time.monotonic() > deadline:
                raise Failed(f"{command}: {key} is {value}, not {good}")
            time.sleep(0.005)

    def close(self):
        self.file.close()
        self.socket.close()


class Guest:
    """A QEMU over the files of @folder, with its console, monitor and job in a folder of its own."""

    def __init__(self, folder, is_shared, job, arguments, **pipes):
        self.work = tempfile.mkdtemp(prefix="rxe-")
        self.console = f"{self.work}/console"
        self.folder = folder
        command = self.command(is_shared, job) + arguments
        self.process = subprocess.Popen(command, env=self.environment(), **pipes)
        self.control = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.control:
            self.control.close()
        shutil.rmtree(self.work)

    def environment(self):
        """QEMU may be unpacked and not installed."""
        root = f"{self.folder}/host"
        if not os.path.exists(f"{root}/usr/bin/qemu-system-x86_64"):
            return None
        libraries = f"{root}/usr/{LIBRARIES}:{root}/{LIBRARIES}"
        return os.environ | {"LD_LIBRARY_PATH": libraries,
                             "QEMU_MODULE_DIR": f"{root}/usr/{LIBRARIES}/qemu"}

    def command(self, is_shared, job):
        unpacked = f"{self.folder}/host/usr/bin/qemu-system-x86_64"
        program = [unpacked] if os.path.exists(unpacked) else ["qemu-system-x86_64"]
        for data in ("qemu", "seabios"):
            program += ["-L", f"{self.folder}/host/usr/share/{data}"]
        share = "on" if is_shared else "off"
        return program + [
            "-L", "/usr/share/qemu", "-accel", "tcg,thread=multi", "-cpu", "max",
            "-smp", str(CPUS), "-m", f"{MEMORY >> 20}", "-M", "q35,memory-backend=ram",
            "-bios", "qboot.rom", "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot",
            "-object", f"memory-backend-file,id=ram,mem-path={self.folder}/ram,size={MEMORY},"
                       f"share={share}",
            "-serial", f"file:{self.console}",
            "-device", "isa-debug-exit,iobase=0x501,iosize=2",
            "-blockdev", f"raw,node-name=job,read-only=on,file.driver=file,file.filename={job}",
            "-device", "virtio-blk-pci,drive=job,romfile=",
            "-kernel", f"{self.folder}/vmlinux", "-initrd", f"{self.folder}/base.cpio",
            "-append", KERNEL, "-qmp", f"unix:{self.work}/control,server=on,wait=off"]

    def connect(self):
        self.control = Control(f"{self.work}/control", self.process)

    def lines(self):
        """Lines of the console."""
        try:
            with open(self.console, encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def find(self, word):
        """The rest of the last console line that begins with @word, or None."""
        lines = self.lines()
        found = [line.strip()[len(word):] for line in lines if line.startswith(word)]
        return found[-1] if found else None


def keep(folder):
    """Boot, and keep the guest as it waits for its job."""
    job = f"{folder}/nojob"
    for path, length in ((job, JOB_MOST), (f"{folder}/ram", MEMORY)):
        with open(path, "wb") as file:
            file.truncate(length)
    started = time.monotonic()
    with Guest(folder, True, job, ["-serial", "null"]) as guest:
        while guest.find("RXE-READY") is None:
            if guest.process.poll() is not None:
                raise Failed("the guest exited before it was ready")
            if time.monotonic() - started > BOOT_LIMIT:
                raise Failed(f"the guest is not ready within {BOOT_LIMIT} s: "
                             f"{guest.find('[init')}")
            time.sleep(0.05)
        if guest.find("RXE-FAILED") is not None:
            raise Failed("the guest cannot be set up:\n" + "\n".join(guest.lines()))
        time.sleep(0.3)  # the guest writes more after this line: let it reach read()
        guest.connect()
        guest.control.call("migrate", uri=f"exec:cat >'{folder}/state'")
        guest.control.wait("query-migrate", "status", "completed", "failed")
        guest.control.call("quit")
        guest.process.wait(STARTING_LIMIT)


def run(folder, job, limit):
    """The exit status of /job/cmd in the archive @job; its output goes to standard output."""
    arguments = ["-serial", "chardev:job", "-chardev", "stdio,id=job,signal=off",
                 "-incoming", "defer"]
    with Guest(folder, False, job, arguments, stdin=subprocess.PIPE) as guest:
        guest.connect()
        guest.control.call("migrate-incoming", uri=f"exec:cat '{folder}/state'")
        # A byte that is sent before the state is loaded would be lost.
        guest.control.wait("query-status", "running", True, None)
        guest.process.stdin.write(b"\n")
        guest.process.stdin.flush()
        try:
            guest.process.wait(limit)
        except subprocess.TimeoutExpired:
            return 124
        status = guest.find("RXE-EXIT:")
        if status is None:
            raise Failed("the guest ended without a status")
        return int(status)


if __name__ == "__main__":
    try:
        keep(sys.argv[1])
    except Failed as failure_text:
        sys.exit(f"guest.py: {failure_text}")
