# SPDX-License-Identifier: Apache-2.0
"""Endpoints: requests of threads, and of tasks of asyncio."""
import asyncio
import gc
import threading
import time

import numpy
import oriel
import pytest

MODES = [oriel.Mode.AUTO, oriel.Mode.COPY_BASED]


@pytest.mark.parametrize("mode", MODES)
def test_send_and_recv(nodes, mode):
    def check(comm):
        peer = 1 - comm.rank
        end = oriel.endpoint(comm, peer, mode=mode)
        assert oriel.endpoint(comm, peer, mode=mode) is end
        for size in (0, 1, 1000, 300_000):
            data = numpy.arange(size, dtype="i4") + comm.rank
            into = numpy.zeros(size, "i4")
            sent, received = end.send(data), end.recv(into)
            assert received.wait() is into and sent.wait() is None
            assert (into == numpy.arange(size) + peer).all()
        assert end.is_joined and end.path == comm.path(peer)
        comm.barrier()
    oriel.run_threads(2, check, nodes=nodes)


def test_an_endpoint_to_oneself():
    def check(comm):
        end = oriel.endpoint(comm, comm.rank)
        sent, into = end.send(b"to myself"), bytearray(9)
        end.recv(into).wait()
        sent.wait()
        assert into == b"to myself"
    oriel.run_threads(1, check)


def test_control_messages_have_tags(nodes):
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        if comm.rank == 0:
            end.send_control(5, b"five").wait()
            end.send_control(6, b"s" * 3000).wait()
            end.drain()
        else:
            assert end.recv_control(6).wait() == b"s" * 3000
            short = end.recv_control(7, room=2)
            assert end.recv_control(5).wait() == b"five"
            assert not short.test() and "AGAIN" in repr(short)
        comm.barrier()
    oriel.run_threads(2, check, nodes=nodes)


def test_a_message_that_is_too_long_is_an_error_of_its_receive():
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        if comm.rank == 0:
            end.send_control(7, b"longer").wait()
        else:
            with pytest.raises(oriel.MismatchError, match="6 bytes arrived for a receive of 2"):
                end.recv_control(7, room=2).wait()
        comm.barrier()
    oriel.run_threads(2, check)


def test_puts_into_exported_memory(nodes):
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        memory = oriel.Memory(4096)
        with oriel.P2PContext.of(comm).register(memory) as mine:
            while not end.is_joined:
                end.progress()
            sent = end.send_control(1, end.export_memory(mine))
            remote = end.import_memory(end.recv_control(1).wait())
            sent.wait()
            assert remote.length == 4096
            assert f"4096 bytes behind <oriel.Endpoint rank {comm.rank} to" in repr(remote)
            assert f"4096 bytes with <oriel.P2PContext of <oriel.Comm rank {comm.rank} of 2; 1 " in repr(mine)
            expected = end.expect()
            put = end.put(b"put here", remote, offset=8)
            expected.wait()
            put.wait()
            assert bytes(memory.buffer[8:16]) == b"put here"
            end.drain()
            comm.barrier()
    oriel.run_threads(2, check, nodes=nodes)


def test_registered_memory_is_received_into():
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank, mode=oriel.Mode.ZERO_COPY)
        memory = oriel.Memory(1 << 20)
        with oriel.P2PContext.of(comm).register(memory) as mine:
            sent = end.send(numpy.full(1 << 17, comm.rank + 1.0))
            end.recv(memory.buffer, registration=mine).wait()
            sent.wait()
            assert (memory.array("f8") == 2 - comm.rank).all()
            comm.barrier()
    oriel.run_threads(2, check)


def test_requests_that_were_dropped_keep_their_memory():
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        into = numpy.zeros((400, 100))
        if comm.rank == 0:
            for i in range(400):
                end.send(numpy.full(100, float(i)))
                gc.collect(0)
            end.drain()
        else:
            for i in range(399):
                end.recv(into[i])
            end.recv(into[399]).wait()
            assert len(end._requests) < 400
            assert (into == numpy.arange(400)[:, None]).all()
        comm.barrier()
    oriel.run_threads(2, check)


def test_endpoints_without_a_communicator():
    addresses, ready = [None, None], threading.Barrier(2)
    failures = []

    def side(me):
        try:
            with oriel.P2PContext(timeout=20) as context, context.endpoint(channels=2) as end:
                addresses[me] = end.address
                ready.wait()
                end.connect(addresses[1 - me])
                into = bytearray(5)
                sent = end.send(b"hello", channel=1)
                end.recv(into, channel=1).wait()
                sent.wait()
                end.drain()
                ready.wait()
                assert into == b"hello" and "alone; path mapped, joined" in repr(end)
        except BaseException as error:
            failures.append(error)
            ready.abort()
    threads = [threading.Thread(target=side, args=(i,)) for i in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures, failures


def test_await_lets_the_loop_run(nodes):
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.001)

        async def main():
            other = asyncio.create_task(tick())
            if comm.rank == 0:
                into = numpy.zeros(50_000)
                assert await end.recv(into) is into
                assert into[-1] == 49_999 and len(ticks) > 20
                await end.send(into)
            else:
                time.sleep(0.1)
                values = numpy.arange(50_000.0)
                sent, back = await asyncio.gather(end.send(values), end.recv(numpy.empty(50_000)))
                assert sent is None and (back == values).all()
            other.cancel()
        asyncio.run(main())
        comm.barrier()
    oriel.run_threads(2, check, nodes=nodes)


def test_many_tasks_of_one_endpoint():
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank, channels=4)

        async def exchange(channel):
            for i in range(50):
                into = numpy.zeros(10)
                await asyncio.gather(end.send(numpy.full(10, i * 4.0 + channel), channel),
                                     end.recv(into, channel))
                assert (into == i * 4 + channel).all()

        async def main():
            await asyncio.gather(*(exchange(channel) for channel in range(4)))
        asyncio.run(main())
        comm.barrier()
    oriel.run_threads(2, check)


def test_a_cancelled_task_gives_its_receive_up():
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank, mode=oriel.Mode.COPY_BASED)

        async def main():
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(end.recv_control(3), 0.05)
        if comm.rank == 0:
            asyncio.run(main())
            assert not end._requests
            comm.barrier()
            assert end.recv_control(3).wait() == b"later"
        else:
            comm.barrier()
            end.send_control(3, b"later").wait()
            end.drain()
        comm.barrier()
    oriel.run_threads(2, check)


def test_an_await_has_the_limit_of_the_communicator():
    over = threading.Event()

    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        while not end.is_joined:
            end.progress()

        async def main():
            await end.recv_control(3)
        if comm.rank == 0:
            with pytest.raises(oriel.TimeoutError, match="recv_control of .*rank 0 to 1.* timed out after 1.0 s"):
                asyncio.run(main())
            over.set()
        assert over.wait(20)
        comm.barrier()
    oriel.run_threads(2, check, timeout=1)


def test_a_second_thread_is_an_error():
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        if comm.rank == 0:
            waiting = threading.Thread(name="the waiter", target=lambda: end.recv_control(1).wait(), daemon=True)
            waiting.start()
            time.sleep(0.05)
            with pytest.raises(oriel.StateError, match="the waiter.*one thread at a time"):
                end.send_control(2, b"")
            comm.barrier()
            waiting.join()
        else:
            comm.barrier()
            end.send_control(1, b"").wait()
            end.drain()
        comm.barrier()
    oriel.run_threads(2, check)


def test_errors_name_what_is_wrong():
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        with pytest.raises(oriel.RangeError, match="channel"):
            end.send(b"x", channel=1)
        with pytest.raises(oriel.RangeError):
            oriel.endpoint(comm, 2)
        with pytest.raises(oriel.MismatchError):
            oriel.endpoint(comm, 1 - comm.rank, channels=3)
        with pytest.raises(oriel.TimeoutError):
            end.recv_control(1).wait(timeout=0.01)
        comm.barrier()
        return end
    end = oriel.run_threads(2, check)[0]
    assert "rank 0 to 1; closed with its communicator" in repr(end)
    with pytest.raises(oriel.StateError, match="closed"):
        end.send(b"x")


def test_transfers_of_two_lengths_break_both_ends():
    def check(comm):
        end = oriel.endpoint(comm, 1 - comm.rank)
        data = bytearray(100_000 + comm.rank)
        with pytest.raises(oriel.MismatchError):
            (end.send(data) if comm.rank == 0 else end.recv(data)).wait()
            end.recv_control(1).wait()  # the bytes may have left before the receiver saw the length
        assert "broken" in repr(end)
        comm.barrier()
    oriel.run_threads(2, check)
