# SPDX-License-Identifier: Apache-2.0
"""An ssh that reaches the hosts of lab.py: ssh_test.py starts jobs with it.

Keys, configuration and logs are in a temporary folder; nothing of the user's is read or written.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

DEADLINE = 60
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
CONFIG = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PrintMotd no
MaxStartups 100
SetEnv HOME={folder}
"""
# MaxStartups, StrictModes and SetEnv: sshd_config(5). It ignores what the user has configured for
# ssh; and for the shell, whose start-up files may print or write anything.
COMMAND = ("ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR "
           "-o UserKnownHostsFile={folder}/known -o IdentitiesOnly=yes -i {folder}/user_key")


def why_not():
    """Why there can be no sshd here, or None."""
    lacking = [name for name in ("sshd", "ssh", "ssh-keygen") if not shutil.which(name, path=PATH)]
    return f"no {', '.join(lacking)} (Debian: openssh-server)" if lacking else None


class Sshd:
    """One on each of @hosts."""

    def __init__(self, hosts):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="oriel-ssh-"))
        os.makedirs("/run/sshd", exist_ok=True)  # the Debian package's, for its unprivileged child
        for name in "host_key", "user_key":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name],
                           check=True, stdin=subprocess.DEVNULL)
        (self.folder / "config").write_text(CONFIG.format(folder=self.folder))
        self.command = COMMAND.format(folder=self.folder)
        program = shutil.which("sshd", path=PATH)
        for host in hosts:
            with open(self.folder / f"{host.name}.log", "wb") as log:
                host.start([program, "-D", "-e", "-f", str(self.folder / "config")],
                           {"PATH": PATH}, stdout=subprocess.PIPE, stderr=log)
        for host in hosts:
            self.until_it_answers(host)

    def until_it_answers(self, host):
        end = time.monotonic() + DEADLINE
        probe = [*self.command.split(), host.address(), "true"]
        while True:
            process = host.start(probe, {"PATH": PATH}, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
            said, _ = process.communicate(timeout=DEADLINE)
            if process.returncode == 0:
                return
            if time.monotonic() > end:
                log = (self.folder / f"{host.name}.log").read_text(errors="replace")
                raise AssertionError(f"sshd of {host.name} does not answer: {said}\n{log}")
            time.sleep(0.1)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
