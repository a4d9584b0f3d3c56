# SPDX-License-Identifier: Apache-2.0
"""Windows and regions: memory of every rank that every rank can reach, with signals, barriers,
counters and channels. docs/memory-model.md says what each operation promises."""
from __future__ import annotations

import ctypes
import enum
from typing import Any, List, Optional, Tuple

from . import _declarations as c
from ._library import Handle, failure, lib, nanoseconds, size_of
from .comm import Comm
from .errors import Error, InvalidError, Status
from .memory import Borrowed, Memory, Views, array_of, bytes_at

_PENDING = 1024  # sources that a window keeps before it waits until they may be reused


class Compare(enum.IntEnum):
    """The condition of a wait: the word COMPARE the operand, unsigned."""

    EQ = c.ORIEL_EQ
    NE = c.ORIEL_NE
    GT = c.ORIEL_GT
    GE = c.ORIEL_GE
    LT = c.ORIEL_LT
    LE = c.ORIEL_LE


class SignalOp(enum.IntEnum):
    """How a signal changes its word."""

    ADD = c.ORIEL_SIGNAL_ADD
    SET = c.ORIEL_SIGNAL_SET


class Atomics(enum.IntEnum):
    """The agent that executes the atomics of a window: see docs/memory-model.md."""

    DEFAULT = c.ORIEL_ATOMICS_DEFAULT
    MAPPED = c.ORIEL_ATOMICS_MAPPED
    HCA = c.ORIEL_ATOMICS_HCA
    OWNER = c.ORIEL_ATOMICS_OWNER


def at(buffer: int, offset: int) -> int:
    """The offset that names byte `offset` of buffer `buffer` of a window (Window.share())."""
    return buffer << c.ORIEL_AT_BITS | offset


class Window(Handle):
    """Memory of every rank that any rank reads, writes and signals. Collective: every rank makes
    it and closes it, in one order with all collective calls.

    comm: must outlive the window.
    length: bytes that this rank exposes, zeroed; ranks may differ, also 0.
    memory: a Memory to expose instead of new memory.
    signals: 64-bit words that each rank may change at each other one.
    barriers, counters (for each peer), channels (for each pair of ranks and direction): how many.
    channel_bytes: staging of a channel, a power of two from 4096 on.
    sparse: make no links; operations on peers without one raise NoPathError.
    atomics: who executes atomics.
    0 means the default of the library: 64 signals, 16 barriers, 16 counters, no channels of 64 KiB.

    Offsets are in bytes, into the memory of the rank that is named. Timeouts are in seconds: None
    is the communicator's, and breaks it when it passes; another limit only raises TimeoutError, and
    the call may be made again. Sources are kept until drain() or flush(), or close(), as NICs read
    them until then; their content must not change before.

    >>> with oriel.Window(comm, 64) as window:
    ...     window.put(peer, 0, b"greetings", signal=0)
    ...     window.wait_signal_next(peer, 0)
    ...     window.array("S64")[0]
    """

    def __init__(self, comm: Comm, length: int = 0, *, memory: Optional[Memory] = None,
                 signals: int = 0, barriers: int = 0, counters: int = 0, channels: int = 0,
                 channel_bytes: int = 0, sparse: bool = False, huge: bool = False,
                 atomics: Atomics = Atomics.DEFAULT):
        self._comm = comm
        self._views = Views()
        self._shared: List[Any] = []
        self._pending: List[Borrowed] = []
        pointer = ctypes.c_void_p()
        # A rank that fails alone, as it has no memory for the window, reports that to the others.
        error: Optional[Error] = None
        try:
            if memory is None and length > 0:
                memory = Memory(length, huge)
            elif memory is not None and length > memory.length:
                raise failure(Status.RANGE, f"{length} bytes of a memory of {memory.length}")
            self._memory = memory
            self.length = length or (memory.length if memory else 0)
            attr = size_of(c.oriel_window_attr(
                buffer=memory.address if memory else None, length=self.length,
                flags=(c.ORIEL_WINDOW_SPARSE if sparse else 0) | (c.ORIEL_WINDOW_HUGE if huge else 0),
                signals=signals, barriers=barriers, counters=counters, channels=channels,
                channel_bytes=channel_bytes, atomics=atomics))
        except Exception as failed:  # pylint: disable=broad-except
            error = failed if isinstance(failed, Error) else InvalidError(f"window: {failed}")
        comm.agree(error)
        lib.oriel_window_create(comm._handle(), ctypes.byref(attr), ctypes.byref(pointer))
        self._open(pointer)

    def _destroy(self, pointer: int) -> None:
        self._views.refuse_any(repr(self))
        lib.oriel_window_destroy(pointer)
        self._pending.clear()
        self._shared.clear()

    def __repr__(self) -> str:
        return (f"<oriel.Window of rank {self._comm.rank} of {self._comm.size}, "
                f"{self.length} bytes; {self._standing()}>")

    @property
    def comm(self) -> Comm:
        """The communicator that it was made on."""
        return self._comm

    @property
    def buffer(self) -> memoryview:
        """This rank's memory as writable bytes; it stays valid when the window is closed."""
        return self._own().buffer

    def array(self, dtype: Any = "u1", shape: Any = None, offset: int = 0) -> Any:
        """This rank's memory as a numpy array; it stays valid when the window is closed.

        dtype: of the elements. shape: in elements; None: all that fits. offset: in bytes.
        RangeError: it does not fit.
        """
        return self._own().array(dtype, shape, offset)

    def _own(self) -> Memory:
        if self._memory is None:
            raise failure(Status.RANGE, f"{self!r} has no memory")
        return self._memory

    def peer_length(self, peer: int, buffer: int = 0) -> int:
        """How many bytes rank `peer` exposes."""
        length = ctypes.c_size_t()
        lib.oriel_window_peer_length(self._handle(), peer, buffer, ctypes.byref(length))
        return length.value

    def peer_array(self, peer: int, dtype: Any = "u1", shape: Any = None, offset: int = 0) -> Any:
        """The memory of a mapped peer as a numpy array of this process, for loads and stores.

        The window cannot be closed while such arrays are in use (StateError). NoPathError: the peer
        is not mapped. Order against the peer comes from signals and barriers.
        """
        if peer == self._comm.rank:
            return self.array(dtype, shape, offset)
        address = ctypes.c_void_p()
        lib.oriel_window_peer_address(self._handle(), peer, 0, ctypes.byref(address))
        view = self._views.add(bytes_at(address.value or 0, self.peer_length(peer), self))
        return array_of(view, dtype, shape, offset)

    def share(self, memory: Optional[Memory]) -> int:
        """Expose one more Memory, or none on this rank, and get its number for at().
        Collective."""
        number = ctypes.c_uint32()
        lib.oriel_window_share(self._handle(), memory.address if memory else None,
                               memory.length if memory else 0, ctypes.byref(number))
        self._shared.append(memory)
        return number.value

    # Data.

    def put(self, peer: int, to: int, data: Any, *, signal: Optional[int] = None, value: int = 1,
            counter: Optional[int] = None) -> None:
        """Write the bytes of `data` to offset `to` of `peer`; needs no call of the peer.

        signal: the id of a signal that `value` is added to at the peer behind the bytes.
        counter: of this rank and peer, incremented when `data` may be reused.
        `data` must not change before drain(), flush(), or the counter.
        """
        source = Borrowed(data)
        where, length = source.address, source.length
        if signal is None and counter is None:
            lib.oriel_window_put(self._handle(), peer, to, where, length)
        elif counter is None:
            lib.oriel_window_put_signal(self._handle(), peer, to, where, length, signal, value)
        elif signal is None:
            lib.oriel_window_put_counter(self._handle(), peer, to, where, length, counter)
        else:
            lib.oriel_window_put_signal_counter(self._handle(), peer, to, where, length, signal,
                                                value, counter)
        self._keep(source)

    def put_all(self, to: int, data: Any) -> None:
        """Write the bytes of `data` to offset `to` of every rank, this one among them."""
        source = Borrowed(data)
        lib.oriel_window_put_all(self._handle(), to, source.address, source.length)
        self._keep(source)

    def _keep(self, source: Borrowed) -> None:
        """Behind its put, so that a drain of another thread that lets it go has waited for it."""
        self._pending.append(source)
        if len(self._pending) >= _PENDING:
            self.drain()

    def put_value(self, peer: int, to: int, value: int) -> None:
        """Write the 64-bit `value` to offset `to` of `peer`, a multiple of 8."""
        lib.oriel_window_put_value(self._handle(), peer, to, value & 0xffffffffffffffff)

    def get(self, peer: int, source: int, into: Any) -> Any:
        """Read from offset `source` of `peer` as many bytes as `into` has. Complete on return.

        `into` may be an int: then that many bytes are returned as bytes.
        """
        if isinstance(into, int):
            room = ctypes.create_string_buffer(max(into, 1))
            lib.oriel_window_get(self._handle(), peer, source, room, into)
            return room.raw[:into]
        target = Borrowed(into, is_written=True)
        lib.oriel_window_get(self._handle(), peer, source, target.address, target.length)
        return into

    def drain(self, timeout: Optional[float] = None) -> None:
        """Wait until the sources of all puts so far may be reused."""
        self._complete(lib.oriel_window_drain, timeout)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Wait until all puts so far are visible at their peers."""
        self._complete(lib.oriel_window_flush, timeout)

    def _complete(self, function: Any, timeout: Optional[float]) -> None:
        done, self._pending = self._pending, []
        try:
            function(self._handle(), nanoseconds(timeout))
        except Error:
            self._pending = done + self._pending
            raise

    # Atomics, on words of 8 bytes (bits=64) or 4 (bits=32). Those that change a word, but for set(),
    # return its value before.

    def _atomic(self, name: str, bits: int, peer: int, offset: int, *operands: int) -> int:
        if bits not in (32, 64):
            raise InvalidError(f"{name} of {bits} bits: 32 or 64")
        function = getattr(lib, f"oriel_window_{name}" + ("_32" if bits == 32 else ""))
        old = ctypes.c_uint32() if bits == 32 else ctypes.c_uint64()
        mask = (1 << bits) - 1
        function(self._handle(), peer, offset, *(o & mask for o in operands), ctypes.byref(old))
        return old.value

    def fetch_add(self, peer: int, offset: int, value: int, bits: int = 64) -> int:
        """Add `value`, modulo 2**bits, to the word at `offset` of `peer`."""
        return self._atomic("fetch_add", bits, peer, offset, value)

    def fetch_and(self, peer: int, offset: int, value: int, bits: int = 64) -> int:
        """Replace the word by its bitwise AND with `value`."""
        return self._atomic("fetch_and", bits, peer, offset, value)

    def fetch_or(self, peer: int, offset: int, value: int, bits: int = 64) -> int:
        """Replace the word by its bitwise OR with `value`."""
        return self._atomic("fetch_or", bits, peer, offset, value)

    def fetch_xor(self, peer: int, offset: int, value: int, bits: int = 64) -> int:
        """Replace the word by its bitwise XOR with `value`."""
        return self._atomic("fetch_xor", bits, peer, offset, value)

    def swap(self, peer: int, offset: int, value: int, bits: int = 64) -> int:
        """Store `value` in the word."""
        return self._atomic("swap", bits, peer, offset, value)

    def compare_swap(self, peer: int, offset: int, compare: int, value: int, bits: int = 64) -> int:
        """Store `value` if the word is `compare`; it was if `compare` is returned."""
        return self._atomic("compare_swap", bits, peer, offset, compare, value)

    def fetch(self, peer: int, offset: int, bits: int = 64) -> int:
        """Read the word, atomically with the others."""
        return self._atomic("fetch", bits, peer, offset)

    def set(self, peer: int, offset: int, value: int, bits: int = 64) -> None:
        """Store `value` in the word, atomically with the others; nothing is returned."""
        if bits not in (32, 64):
            raise InvalidError(f"set of {bits} bits: 32 or 64")
        function = lib.oriel_window_set_32 if bits == 32 else lib.oriel_window_set
        function(self._handle(), peer, offset, value & ((1 << bits) - 1))

    # Signals.

    def signal(self, peer: int, id: int, value: int = 1,  # pylint: disable=redefined-builtin
               op: SignalOp = SignalOp.ADD) -> None:
        """Change this rank's word `id` at `peer`, behind all puts to that peer so far."""
        lib.oriel_window_signal(self._handle(), peer, id, op, value)

    def signal_all(self, id: int, value: int = 1,  # pylint: disable=redefined-builtin
                   op: SignalOp = SignalOp.ADD) -> None:
        """The same at every other rank."""
        lib.oriel_window_signal_all(self._handle(), id, op, value)

    def wait_signal(self, id: int, operand: int,  # pylint: disable=redefined-builtin
                    compare: Compare = Compare.GE, *, source: Optional[int] = None,
                    timeout: Optional[float] = None) -> None:
        """Wait until word `id` of rank `source`, or the sum over all ranks, compares to `operand`.
        The puts before those signals are visible then."""
        if source is None:
            lib.oriel_window_wait_signal(self._handle(), id, compare, operand, nanoseconds(timeout))
        else:
            lib.oriel_window_wait_signal_from(self._handle(), source, id, compare, operand,
                                              nanoseconds(timeout))

    def wait_signal_next(self, source: int, id: int, count: int = 1,  # pylint: disable=redefined-builtin
                         *, timeout: Optional[float] = None) -> None:
        """Wait until `source` has added `count` since the last such call for it and `id`."""
        lib.oriel_window_wait_signal_next(self._handle(), source, id, count, nanoseconds(timeout))

    def read_signal(self, id: int,  # pylint: disable=redefined-builtin
                    source: Optional[int] = None) -> int:
        """The word of `source`, or the sum over all ranks, now."""
        value = ctypes.c_uint64()
        if source is None:
            lib.oriel_window_read_signal(self._handle(), id, ctypes.byref(value))
        else:
            lib.oriel_window_read_signal_from(self._handle(), source, id, ctypes.byref(value))
        return value.value

    def reset_signals(self) -> None:
        """Set all signals of this rank to 0, while no rank signals it. Local."""
        lib.oriel_window_reset_signals(self._handle())

    # Barriers, counters, channels.

    def barrier(self, slot: int = 0, *, peer: Optional[int] = None,
                timeout: Optional[float] = None) -> None:
        """Meet all ranks, or `peer` alone, at `slot`. What they put here before is visible then.
        After TimeoutError by a limit of the caller's own the same call continues the wait."""
        if peer is None:
            lib.oriel_window_barrier(self._handle(), slot, nanoseconds(timeout))
        else:
            lib.oriel_window_barrier_peer(self._handle(), peer, slot, nanoseconds(timeout))

    def barrier_arrive(self, slot: int = 0, *, peer: Optional[int] = None) -> None:
        """The first half of barrier(): it does not wait."""
        if peer is None:
            lib.oriel_window_barrier_arrive(self._handle(), slot)
        else:
            lib.oriel_window_barrier_peer_arrive(self._handle(), peer, slot)

    def barrier_wait(self, slot: int = 0, *, peer: Optional[int] = None,
                     timeout: Optional[float] = None) -> None:
        """The second half."""
        if peer is None:
            lib.oriel_window_barrier_wait(self._handle(), slot, nanoseconds(timeout))
        else:
            lib.oriel_window_barrier_peer_wait(self._handle(), peer, slot, nanoseconds(timeout))

    def wait_counter(self, peer: int, counter: int, operand: int, compare: Compare = Compare.GE, *,
                     timeout: Optional[float] = None) -> None:
        """Wait for the counter of puts to `peer`."""
        lib.oriel_window_wait_counter(self._handle(), peer, counter, compare, operand,
                                      nanoseconds(timeout))

    def read_counter(self, peer: int, counter: int) -> int:
        """How many puts to `peer` with this counter have let their source go, now."""
        value = ctypes.c_uint64()
        lib.oriel_window_read_counter(self._handle(), peer, counter, ctypes.byref(value))
        return value.value

    def reset_counter(self, peer: int, counter: int) -> None:
        """Set it to 0, behind a drain() or flush()."""
        lib.oriel_window_reset_counter(self._handle(), peer, counter)

    def send(self, peer: int, data: Any, channel: int = 0, *,
             timeout: Optional[float] = None) -> None:
        """Append the bytes of `data` to the stream of `channel` to `peer`; `data` may be reused on
        return. It waits while the channel is full."""
        source = Borrowed(data)
        lib.oriel_window_send(self._handle(), peer, channel, source.address, source.length,
                              nanoseconds(timeout))

    def recv(self, peer: int, into: Any, channel: int = 0, *,
             timeout: Optional[float] = None) -> Any:
        """Take the next bytes of that stream, as many as `into` has. Returns into."""
        target = Borrowed(into, is_written=True)
        lib.oriel_window_recv(self._handle(), peer, channel, target.address, target.length,
                              nanoseconds(timeout))
        return into


class Region(Handle):
    """Memory that is registered with a communicator. Local; share() makes it reachable by all.

    comm: must outlive the region. buffer: any writable buffer, or a Memory; ranks of other
    processes map a Memory alone, so share() of another buffer raises UnsupportedError there.
    close() is collective once the region was shared.
    """

    def __init__(self, comm: Comm, buffer: Any):
        self._of = comm
        self._views = Views()
        self._is_shared = False
        self._source: Tuple[Any, Any] = (buffer, None)
        if isinstance(buffer, Memory):
            address, self.length = buffer.address, buffer.length
        else:
            borrowed = Borrowed(buffer, is_written=True)
            self._source = (buffer, borrowed)
            address, self.length = borrowed.address, borrowed.length
        pointer = ctypes.c_void_p()
        lib.oriel_region_register(comm._handle(), address, self.length, ctypes.byref(pointer))
        self._open(pointer)

    def _destroy(self, pointer: int) -> None:
        self._views.refuse_any(repr(self))
        lib.oriel_region_unregister(pointer)
        self._source = (None, None)

    def __repr__(self) -> str:
        shared = ", shared" if self._is_shared else ""
        return (f"<oriel.Region of rank {self._of.rank} of {self._of.size}, {self.length} "
                f"bytes{shared}; {self._standing()}>")

    def share(self) -> "Region":
        """Let every rank reach it. Collective, once; each rank passes its own. Returns self."""
        lib.oriel_region_share(self._handle())
        self._is_shared = True
        self._comm = self._of
        return self

    def peer_length(self, peer: int) -> int:
        """How many bytes the region of `peer` has. StateError before it is shared."""
        length = ctypes.c_size_t()
        lib.oriel_region_peer_length(self._handle(), peer, ctypes.byref(length))
        return length.value

    def peer_array(self, peer: int, dtype: Any = "u1", shape: Any = None, offset: int = 0) -> Any:
        """The region of a mapped peer as a numpy array; see Window.peer_array()."""
        address = ctypes.c_void_p()
        lib.oriel_region_peer_address(self._handle(), peer, 0, ctypes.byref(address))
        view = self._views.add(bytes_at(address.value or 0, self.peer_length(peer), self))
        return array_of(view, dtype, shape, offset)
