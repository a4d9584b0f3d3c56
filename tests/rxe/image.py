#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""image.py DIR: DIR/vmlinux and DIR/base.cpio, from the packages unpacked in
DIR/kernel and DIR/guest. Needs neither root nor cpio, depmod or modprobe.
"""
import glob
import lzma
import os
import re
import stat
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = "usr/lib/x86_64-linux-gnu"

# Before the snapshot; crc32_generic is what rdma_rxe asks for without saying so.
MODULES = ["crc32_generic", "rdma_rxe", "ib_uverbs", "veth", "sch_netem", "virtio_pci",
           "virtio_blk"]
PROGRAMS = ["bin/ip", "sbin/tc", "usr/bin/rdma", "usr/bin/ibv_devinfo", "usr/bin/ib_write_lat",
            "usr/bin/ib_write_bw", "usr/bin/ib_read_lat", "usr/bin/ib_atomic_lat"]
SCRIPTS = ["on-node", "two-nodes", "with-network", "with-tcp"]
FOLDERS = ["bb", "dev", "proc", "sys", "tmp", "run/netns", "root", "job", "var"]


def ldd(program, folders):
    """(name, path) of each shared library that @program needs, looked for in @folders first."""
    env = dict(os.environ)
    if folders:
        env["LD_LIBRARY_PATH"] = ":".join(folders)
    text = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env=env, check=False).stdout
    for line in text.splitlines():
        if "not found" in line:
            sys.exit(f"{program}: {line.strip()}")
        match = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x", line)
        if match:
            yield match[1] or match[2], match[2]


class Archive:
    """A cpio archive of the "newc" kind, as an initramfs is made of."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.seen = set()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.entry("TRAILER!!!", 0)
        self.file.write(b"\0" * (-self.file.tell() % 512))
        self.file.close()

    def entry(self, name, mode, data=b""):
        name = name.strip("/")
        if not name or name in self.seen:
            return
        if "/" in name:
            self.folder(os.path.dirname(name))
        self.seen.add(name)
        path = name.encode() + b"\0"
        fields = [len(self.seen), mode, 0, 0, 2 if stat.S_ISDIR(mode) else 1, 0, len(data), 0, 0, 0,
                  0, len(path), 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + path
        for part in (head, data):
            self.file.write(part + b"\0" * (-len(part) % 4))

    def folder(self, name):
        self.entry(name, stat.S_IFDIR | 0o755)

    def link(self, name, target):
        self.entry(name, stat.S_IFLNK | 0o777, target.encode())

    def copy(self, source, name):
        """The file, link or whole folder @source."""
        if os.path.islink(source):
            self.link(name, os.readlink(source))
        elif os.path.isdir(source):
            self.folder(name)
            for entry in sorted(os.listdir(source)):
                self.copy(f"{source}/{entry}", f"{name}/{entry}")
        else:
            mode = 0o755 if os.stat(source).st_mode & 0o111 else 0o644
            with open(source, "rb") as file:
                self.entry(name, stat.S_IFREG | mode, file.read())

    def program(self, source, name, folders=()):
        """@source, and the libraries it needs where its loader looks for them."""
        self.copy(os.path.realpath(source), name)
        for library, path in ldd(source, folders):
            where = re.sub("^/lib", "/usr/lib", path)
            if os.path.dirname(path) in folders or not where.startswith("/usr/lib"):
                where = f"{LIBRARIES}/{os.path.basename(library)}"
            self.copy(os.path.realpath(path), where)


def unpack_kernel(source, target):
    """The ELF kernel in the bzImage @source: unpacking it under emulation costs five seconds."""
    with open(source, "rb") as file:
        image = file.read()
    setup = (image[0x1f1] or 4) + 1
    offset, length = struct.unpack_from("<II", image, 0x248)
    payload = image[setup * 512 + offset:setup * 512 + offset + length]
    kernel = lzma.decompress(payload[:-4])  # the last four bytes are the length
    if image[0x202:0x206] != b"HdrS" or kernel[:4] != b"\x7fELF":
        sys.exit(f"{source}: no kernel that is known here")
    with open(target, "wb") as file:
        file.write(kernel)


class Modules:
    """Kernel modules in load order, without debug data and signatures, which are slow to check."""

    def __init__(self, kernel, target):
        found = glob.glob(f"{kernel}/lib/modules/*/kernel/**/*.ko*", recursive=True)
        self.paths = {self.name(path): path for path in found}
        self.target = target
        self.order = []

    @staticmethod
    def name(path):
        return os.path.basename(path).split(".ko")[0].replace("-", "_")

    def add(self, name):
        if name in self.order:
            return
        path = self.paths.get(name)
        if not path:
            sys.exit(f"the kernel's package has no module {name}")
        with (lzma.open if path.endswith(".xz") else open)(path, "rb") as file:
            data = file.read()
        needs = re.search(rb"\0depends=([^\0]*)\0", data)
        for other in needs[1].decode().split(",") if needs and needs[1] else []:
            self.add(other.replace("-", "_"))
        copy = f"{self.target}/{name}.ko"
        with open(copy, "wb") as file:
            file.write(data)
        subprocess.run(["strip", "--strip-debug", copy], check=True)
        self.order.append(name)


def make_base(folder, modules, path):
    root = f"{folder}/guest"
    folders = [f"{root}/{LIBRARIES}"]
    with Archive(path) as base:
        for name in ("bin", "sbin", "lib", "lib64"):
            base.folder(f"usr/{name}")
            base.link(name, f"usr/{name}")
        for name in FOLDERS:
            base.folder(name)
        base.link("var/run", "../run")
        base.copy(f"{HERE}/init", "init")
        for name in SCRIPTS:
            base.copy(f"{HERE}/{name}", f"usr/bin/{name}")
        base.copy(modules, "mod")
        base.copy(f"{root}/bin/busybox", "usr/bin/busybox")
        base.program(f"{root}/bin/dash", "usr/bin/sh", folders)
        for name in PROGRAMS:
            base.program(f"{root}/{name}", "usr/bin/" + os.path.basename(name), folders)
        provider = "libibverbs/librxe-rdmav34.so"
        base.program(f"{root}/{LIBRARIES}/{provider}", f"{LIBRARIES}/{provider}", folders)
        base.copy(f"{root}/etc/libibverbs.d/rxe.driver", "etc/libibverbs.d/rxe.driver")


def main():
    folder = sys.argv[1]
    unpack_kernel(glob.glob(f"{folder}/kernel/boot/vmlinuz-*")[0], f"{folder}/vmlinux")
    with tempfile.TemporaryDirectory() as target:
        modules = Modules(f"{folder}/kernel", target)
        for name in MODULES:
            modules.add(name)
        with open(f"{target}/order", "w", encoding="ascii") as file:
            file.write("".join(name + "\n" for name in modules.order))
        make_base(folder, target, f"{folder}/base.cpio")


if __name__ == "__main__":
    main()
