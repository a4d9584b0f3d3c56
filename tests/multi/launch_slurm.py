# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one machine, in a temporary folder: munged, slurmctld and slurmd, started as root."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
DEADLINE = 60
# proctrack/linuxproc and task/none need no cgroups; config_overrides lets the node have more CPUs
# than the machine (slurm.conf of Slurm 22.05).
CONFIG = """
ClusterName=oriel
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def why_not():
    """Why there can be no Slurm here, or None."""
    lacking = [name for name in NEEDED if not shutil.which(name, path=PATH)]
    if lacking:
        return f"no {', '.join(lacking)} (Debian: slurm-wlm, munge)"
    return None if os.geteuid() == 0 else "Slurm is started as root"


PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class Slurm:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="oriel-slurm-"))
        self.daemons = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        for name in "munge", "state", "spool":
            (self.folder / name).mkdir(mode=0o700)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        sockets = [socket.socket() for _ in range(2)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
        for each in sockets:
            each.close()
        self.conf = self.folder / "slurm.conf"
        self.conf.write_text(CONFIG.format(host=socket.gethostname().split(".")[0],
                                           folder=self.folder, ports=ports))
        # In /tmp, one that is left over is in the way of a step with the same number (mpi.conf(5)).
        (self.folder / "pmix").mkdir(mode=0o700)
        (self.folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.folder}/pmix\n")
        munge = self.folder / "munge"
        self.daemon("munged", "--foreground", "--force", f"--key-file={key}",
                    f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                    f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self.until(lambda: (munge / "socket").exists(), "munged made no socket")
        self.daemon("slurmctld", "-D", "-i")
        self.daemon("slurmd", "-D")
        self.until(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T"), "no node became idle")

    def environment(self):
        return {"SLURM_CONF": str(self.conf)}

    def daemon(self, *command):
        with open(self.folder / f"{command[0]}.out", "wb") as out:
            self.daemons.append(subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=self.folder, env={"PATH": PATH} | self.environment()))

    def ask(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False,
                              stdin=subprocess.DEVNULL, env={"PATH": PATH} | self.environment())
        return done.stdout

    def until(self, claim, otherwise):
        end = time.monotonic() + DEADLINE
        while not claim():
            dead = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if dead or time.monotonic() > end:
                logs = "\n".join(f"{path.name}: {path.read_text(errors='replace')[-2000:]}"
                                 for path in sorted(self.folder.glob("*.out")))
                raise AssertionError(f"{otherwise}; exited: {dead}\n{logs}")
            time.sleep(0.05)

    def has_jobs(self):
        return self.ask("squeue", "--noheader", "--states=all", "--format=%T").replace(
            "COMPLETED", "").replace("FAILED", "").replace("CANCELLED", "").strip()

    def stop(self):
        # A slurmstepd outlives slurmd.
        if len(self.daemons) == 3:
            self.ask("scancel", "--user=root")
            end = time.monotonic() + DEADLINE
            while self.has_jobs() and time.monotonic() < end:
                time.sleep(0.05)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
