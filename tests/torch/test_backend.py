# SPDX-License-Identifier: Apache-2.0
"""The backend "oriel" of torch, by processes: scripts/check-torch runs it."""
import importlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import sysconfig

import pytest

RANK = pathlib.Path(__file__).with_name("backend_rank.py")
PARTS = ["broadcasts", "gathers", "exchanges", "reductions", "roots", "messages", "any_source", "lengths_that_differ", "works",
         "modes", "groups", "monitored", "refusals", "memory", "profiled", "timeouts", "splits", "windows",
         "symmetric"]


def job(ranks, *arguments, nodes=1, program=RANK):
    done = subprocess.run(["oriel", "run", "-n", str(ranks), "--nodes", str(nodes), "--timeout", "200",
                           sys.executable, str(program), *arguments],
                          capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("ranks, nodes", [(3, 1), (2, 1), (4, 2)])
def test_every_operation(ranks, nodes):
    code, said = job(ranks, nodes=nodes)
    assert code == 0, said
    for name in PARTS:
        for rank in range(ranks):
            assert f"rank {rank}: {name} passed" in said, said


def test_children_and_workers_are_refused_and_tasks_are_not():
    code, said = job(2, program=RANK.with_name("worker_rank.py"))
    assert code == 0, said
    for rank in range(2):
        for what in ("child: all_reduce", "child: all_reduce in the thread", "child: barrier", "child: send",
                     "child: a long send", "child: recv", "child: monitored_barrier", "child: put", "worker"):
            line = next(line for line in said.splitlines() if f"rank {rank}: {what}: " in line)
            assert "ORIEL_ERR_FORKED" in line and "this process was forked after" in line, said
        assert f"rank {rank}: child: ended" in said and f"rank {rank}: ended" in said, said


@pytest.mark.parametrize("name", ["calls", "order", "failures", "power_sgd", "quantized"])
def test_callbacks_of_futures_call_collectives(name):
    code, said = job(2, name, program=RANK.with_name("callback_rank.py"))
    assert code == 0 and said.count(f": {name} passed") == 2, said


def test_handlers_of_torch_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("ORIEL_LOG", "warn")  # as what it looks for is
    monkeypatch.setenv("ORIEL_HANG_SIGNAL", "SIGUSR2")
    monkeypatch.setenv("ORIEL_LOG_FILE", str(tmp_path / "log"))
    code, said = job(2, program=RANK.with_name("signals_rank.py"))
    assert code == 0, said
    for rank in range(2):
        assert f"rank {rank}: ended" in said, said
    log = (tmp_path / "log").read_text()
    assert log.count("the program handles or ignores SIGUSR2 itself") == 1, log


def test_a_killed_rank_is_named():
    _, said = job(3, "killed")
    for rank in (0, 1):
        assert f"rank {rank} learned: " in said and "rank 2" in said, said


def test_a_group_goes_on_without_a_killed_rank_and_with_others(tmp_path):
    # Started alone: the launcher ends all ranks when one is killed.
    ranks = [subprocess.Popen([sys.executable, RANK.with_name("reconfigure_rank.py"), str(rank), "3",
                               str(tmp_path / "store")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for rank in range(5)]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    for rank, was, now in ((2, 0, 0), (0, 2, 1)):
        assert ranks[rank].returncode == 0, said
        assert said[rank].count(f"was {was}, is {now} of 2") == 2, said
    for rank, now in ((3, 0), (0, 1), (4, 2), (2, 3)):
        assert f"is {now} of 4 after" in said[rank] and "ended" in said[rank], said


@pytest.mark.parametrize("part", ["closed", "waits", "viewed", "left"])
def test_a_group_ends_with_an_open_window(part, tmp_path):
    ranks = [subprocess.Popen([sys.executable, RANK.with_name("window_end_rank.py"), str(rank), str(tmp_path / "store"),
                               part], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]
    try:
        said = [ranks[1].communicate(timeout=100)[0]]
        import torch.distributed as dist  # pylint: disable=import-outside-toplevel
        dist.PrefixStore("box", dist.FileStore(str(tmp_path / "store"), 2)).set("rank 1 has exited", "yes")
        said.append(ranks[0].communicate(timeout=100)[0])
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0] and all("ended" in text for text in said), said


@pytest.mark.parametrize("part", ["registered", "dropped"])
def test_a_group_ends_behind_the_exit_of_the_backend(part):
    job = subprocess.run(["oriel", "run", "-n", "2", sys.executable, RANK.with_name("exit_rank.py"), part],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, check=False)
    assert job.returncode == 0 and job.stdout.count("ended") == 2, job.stdout


def test_a_group_that_shuts_down_while_it_is_reconfigured_ends(tmp_path):
    ranks = [subprocess.Popen([sys.executable, RANK.with_name("reconfigure_rank.py"), str(rank), "0",
                               str(tmp_path / "store")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for rank in range(2)]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0] and "ended" in said[0] and "ended" in said[1], said


@pytest.mark.parametrize("part", ["apart", "ahead", "shuffled", "left_out", "aborted", "other_lists"])
def test_ranks_that_live_form_other_groups(part, tmp_path):
    ranks = [subprocess.Popen([sys.executable, RANK.with_name("regroup_rank.py"), str(rank), "3", str(tmp_path / "store"),
                               part], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(3)]
    try:
        said = [rank.communicate(timeout=200)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert all(rank.returncode == 0 for rank in ranks) and all("ended" in text for text in said), said


@pytest.mark.parametrize("ranks, nodes, ways", [
    (2, 1, ["ddp", "fsdp2", "tensor_parallel", "dtensor", "pipeline", "checkpoint"]),
    (4, 2, ["ddp", "fsdp2", "pipeline"])])
def test_training_has_the_losses_of_gloo(ranks, nodes, ways):
    code, said = job(ranks, *ways, nodes=nodes, program=RANK.with_name("training_rank.py"))
    assert code == 0, said
    for name in ways:
        same = "has the bits of gloo" if ranks == 2 else ""
        assert said.count(f": {name} {same}") == ranks, said


@pytest.fixture(scope="module")
def fake_gpu(tmp_path_factory):
    """The environment of ranks with a fake GPU, and the folder of fake_gpu.so."""
    from torch.utils import cpp_extension
    drivers = pathlib.Path(os.environ.get("FAKECUDA", ""))
    if not (drivers / "libcuda.so.1").exists():
        pytest.skip("FAKECUDA names no folder with the fake driver of a build tree, build/release/fakecuda")
    folder = tmp_path_factory.mktemp("fake_gpu")
    include = [sysconfig.get_paths()["include"], os.environ.get("CUDA_PATH", "/usr/local/cuda") + "/include",
               *cpp_extension.include_paths()]
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", "-std=c++20", "-DTORCH_EXTENSION_NAME=fake_gpu",
                    *(f"-I{path}" for path in include), RANK.with_name("fake_gpu.cpp"), "-o", folder / "fake_gpu.so",
                    drivers / "libcuda.so.1", *(f"-L{path}" for path in cpp_extension.library_paths()), "-ltorch",
                    "-ltorch_cpu", "-ltorch_python", "-lc10"], check=True)
    return {"LD_LIBRARY_PATH": str(drivers), "ORIEL_HCA": "none", "FAKECUDA_DEVICES": "1",
            "FAKECUDA_PROCESSORS": "4"}, folder


def job_on_fake_gpu(ranks, *arguments, nodes=1):
    code, said = job(ranks, *arguments, nodes=nodes, program=RANK.with_name("fake_gpu_rank.py"))
    if "the library was built without nvcc" in said:
        pytest.skip("the library has no operations in streams: it was built without nvcc")
    return code, said


@pytest.mark.parametrize("ranks", [2, 3])
def test_tensors_of_a_fake_gpu(fake_gpu, ranks, monkeypatch):
    environment, folder = fake_gpu
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    parts = ["gathers", "broadcasts", "reductions", "exchanges", "messages", "groups", "windows", "open_windows",
             "captures"]
    code, said = job_on_fake_gpu(ranks, str(folder), *parts)
    assert code == 0, said
    for name in parts:
        for rank in range(ranks):
            assert f"rank {rank}: {name} passed" in said, said
    _, said = job_on_fake_gpu(ranks, str(folder), "killed")
    for rank in range(ranks - 1):
        assert f"rank {rank} learned: " in said, said
    assert f"rank {ranks - 1} exited" in said, said


def test_a_rank_that_is_left_out_stores_to_no_tensor_of_a_fake_gpu(fake_gpu, monkeypatch):
    environment, folder = fake_gpu
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, said = job_on_fake_gpu(2, str(folder), "left_out")
    assert code == 0 and said.count(": left_out passed") == 2, said


def test_windows_of_a_fake_gpu_reach_ranks_that_are_not_mapped(fake_gpu, monkeypatch):
    environment, folder = fake_gpu
    for name, value in {**environment, "ORIEL_HCA": "soft"}.items():
        monkeypatch.setenv(name, value)
    code, said = job_on_fake_gpu(2, str(folder), "windows", nodes=2)
    assert code == 0 and said.count(": windows passed") == 2, said


def torchrun(agents, ranks, restarts):
    """Codes and output of so many agents, each with so many ranks."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    jobs = [subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(agents), "--nproc-per-node", str(ranks),
         "--max-restarts", str(restarts), "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
         "--rdzv-id", "test", "--rdzv-conf", f"is_host={int(agent == 0)}", "--monitor-interval", "0.2",
         str(RANK.with_name("elastic_rank.py"))], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for agent in range(agents)]
    said = [job.communicate(timeout=200)[0] for job in jobs]
    return [job.returncode for job in jobs], "".join(said)


AGAIN = """
import datetime, sys, time, torch.distributed as dist
rank, store = int(sys.argv[1]), dist.FileStore(sys.argv[2], 2)
for number in range(2):
    if number and rank == 0:
        store.get("rank 1 comes")
        time.sleep(1)
    elif number:
        store.set("rank 1 comes", "yes")
    dist.init_process_group("oriel", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=40))
    dist.barrier()
    dist.destroy_process_group()
"""


def test_ranks_that_are_started_again_with_a_store_find_nothing_of_before(tmp_path):
    ranks = [subprocess.Popen([sys.executable, "-c", AGAIN, str(rank), str(tmp_path / "store")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said


SYMMETRIC_AGAIN = """
import sys, torch, torch.distributed as dist, torch.distributed._symmetric_memory as symm, oriel.torch
number, folder = int(sys.argv[1]), sys.argv[2]
symm.set_backend("ORIEL")
tensor = symm.empty(64, device="cpu").fill_(number)
for again, ranks in enumerate(([0, 1], [1, 0], [1, 0], None)):
    rank, size = (ranks[number], 2) if ranks else (0, 1)
    store = dist.FileStore(f"{folder}/{again}" + str(number) * (size == 1), size)
    dist.init_process_group("oriel", store=store, rank=rank, world_size=size)
    handle = symm.rendezvous(tensor, dist.group.WORLD)
    assert (handle.rank, handle.world_size) == (rank, size), handle
    handle.barrier()
    for peer in range(size):
        assert (handle.get_buffer(peer, (64,), torch.float32) == (ranks.index(peer) if ranks else number)).all()
    handle.barrier()
    dist.destroy_process_group()
"""


def test_symmetric_memory_is_of_the_group_and_not_of_its_name(tmp_path):
    ranks = [subprocess.Popen([sys.executable, "-c", SYMMETRIC_AGAIN, str(rank), str(tmp_path)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said


def test_an_agent_restarts_after_a_killed_rank():
    codes, said = torchrun(1, 3, 1)
    assert codes == [0] and "learned that rank 1 is lost" in said, said
    for rank in range(3):
        assert f"rank {rank} of 3 ended after 1 restart" in said, said


def test_two_agents_learn_of_a_killed_rank():
    # No restart: torch counts those of each agent alone, and ranks with different counts do not meet.
    codes, said = torchrun(2, 2, 0)
    assert codes == [1, 1], said
    assert re.search("rank [23] learned that rank 1 is lost", said), said


@pytest.mark.parametrize("name, expected", [("ddp.py", "2 ranks: the loss went from"),
                                            ("moe.py", "2 experts: every token came back")])
def test_examples(name, expected):
    code, said = job(2, program=RANK.parents[2] / "examples/python" / name)
    assert code == 0 and expected in said, said


def test_another_torch_is_refused():
    import torch
    import oriel.torch
    from oriel.torch import _built
    right, _built.TORCH = _built.TORCH, "2.14.0"
    try:
        with pytest.raises(ImportError, match=re.escape(f"built for torch 2.14.0, and this is torch {torch.__version__}:")):
            importlib.reload(oriel.torch)
    finally:
        _built.TORCH = right
