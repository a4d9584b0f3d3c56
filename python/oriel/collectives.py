# SPDX-License-Identifier: Apache-2.0
"""Persistent collectives: made once over memory of every rank, executed any number of times.
docs/allgather.md has the algorithms; Comm.allgather() and the others are calls without an object."""
from __future__ import annotations

import ctypes
import enum
from typing import Any, List, Optional, Sequence, Tuple, Union

from . import _declarations as c
from ._library import Handle, lib, nanoseconds, size_of
from .comm import Comm
from .errors import InvalidError
from .memory import Borrowed, Memory
from .window import Window


class Algorithm(enum.IntEnum):
    """How an execution moves the bytes; DEFAULT chooses by a table."""

    DEFAULT = c.ORIEL_ALGORITHM_DEFAULT
    LL = c.ORIEL_ALGORITHM_LL
    STORE = c.ORIEL_ALGORITHM_STORE
    CE = c.ORIEL_ALGORITHM_CE
    DIRECT = c.ORIEL_ALGORITHM_DIRECT
    RING = c.ORIEL_ALGORITHM_RING
    BRUCK = c.ORIEL_ALGORITHM_BRUCK
    ONE_SHOT = c.ORIEL_ALGORITHM_ONE_SHOT
    OWNER = c.ORIEL_ALGORITHM_OWNER


class Collective(Handle):
    """What all kinds share. Collective to make and to close; one thread at a time uses it.

    comm: must outlive the object. recv: where results are written on this rank: a Memory, or a
    Window, then its memory from byte `offset` on, equal on all ranks. length: bytes of it, 0 is all.

    run() blocks until the execution is complete. start() returns at once; test() says whether it
    has ended, and wait() waits for that. The memory of the send buffer must not change meanwhile.
    All ranks execute in one order, by the same form, with equal numbers of bytes. With the next
    execution the previous result is given up.
    """

    _kind = ""

    def __init__(self, comm: Comm, recv: Union[Memory, Window], *, offset: int = 0, length: int = 0,
                 algorithm: Algorithm = Algorithm.DEFAULT, chunk: int = 0):
        self._comm = comm
        self._recv = recv
        self._offset = offset
        self._source: Optional[Borrowed] = None
        view = size_of(c.oriel_view(length=length or recv.length - offset))
        if isinstance(recv, Window):
            view.kind, view.window, view.at = c.ORIEL_VIEW_WINDOW, recv._handle(), offset
        else:
            view.kind, view.buffer = c.ORIEL_VIEW_BUFFER, recv.address + offset
        attr = size_of(c.oriel_coll_attr(algorithm=algorithm, chunk=chunk))
        pointer = ctypes.c_void_p()
        self._function("create")(comm._handle(), ctypes.byref(view), ctypes.byref(attr),
                                 ctypes.byref(pointer))
        self._open(pointer)

    @classmethod
    def _function(cls, verb: str) -> Any:
        return getattr(lib, f"oriel_{cls._kind}_{verb}")

    def _destroy(self, pointer: int) -> None:
        self._function("destroy")(pointer)
        self._source = None

    def __repr__(self) -> str:
        return (f"<oriel.{type(self).__name__} of rank {self._comm.rank} of {self._comm.size}; "
                f"{self._state()}>")

    def result(self, dtype: Any = "u1", shape: Any = None) -> Any:
        """This rank's results as a numpy array over `recv`."""
        return self._recv.array(dtype, shape, self._offset)

    def _execute(self, verb: str, source: Borrowed, *arguments: Any) -> None:
        self._function(verb)(self._handle(), *arguments)
        # An execution that was started reads it until it ends.
        self._source = source if verb.startswith("start") else None

    def test(self) -> bool:
        """True once the execution that was started last has ended. Raises how it failed."""
        if self._function("test")(self._handle()) == c.ORIEL_AGAIN:
            return False
        self._source = None
        return True

    def wait(self, timeout: Optional[float] = None) -> None:
        """Wait for its end. TimeoutError by a limit of the caller's own: it goes on."""
        self._function("wait")(self._handle(), nanoseconds(timeout))
        self._source = None

    def algorithm(self, length: int) -> Algorithm:
        """The algorithm that executes `length` bytes. Local."""
        info = size_of(c.oriel_coll_info())
        self._function("query")(self._handle(), length, ctypes.byref(info))
        return Algorithm(info.algorithm)


class AllGather(Collective):
    """The message of every rank to every rank: rank r's n bytes at byte r * n of the result."""

    _kind = "allgather"

    def run(self, send: Any) -> None:
        """One execution; n is the bytes of `send`, equal on all ranks."""
        source = Borrowed(send)
        self._execute("run", source, source.address, source.length)

    def start(self, send: Any) -> None:
        source = Borrowed(send)
        self._execute("start", source, source.address, source.length)


class AllToAll(Collective):
    """A message of every rank for every rank: rank p's n bytes for this one at byte p * n."""

    _kind = "alltoall"

    def _parts(self, send: Any) -> Tuple[Borrowed, int]:
        source = Borrowed(send)
        if source.length % self._comm.size:
            raise InvalidError(f"alltoall: {source.length} bytes are no {self._comm.size} equal parts")
        return source, source.length // self._comm.size

    def run(self, send: Any) -> None:
        """One execution; `send` has size parts of n bytes, part r for rank r."""
        source, part = self._parts(send)
        self._execute("run", source, source.address, part)

    def start(self, send: Any) -> None:
        source, part = self._parts(send)
        self._execute("start", source, source.address, part)

    def run_v(self, send: Any, layout: Sequence[Tuple[int, int, int, int]]) -> None:
        """Messages of any lengths. `layout`: for each rank (send offset, send length, receive
        offset, receive length), in bytes. MismatchError: the ranks of a pair differ in a length."""
        if len(layout) != self._comm.size:
            raise InvalidError(f"alltoall: a layout of {len(layout)} ranks, not {self._comm.size}")
        source = Borrowed(send)
        entries: List[Any] = [c.oriel_dev_alltoallv(*entry) for entry in layout]
        for rank, (at, length, _, _) in enumerate(layout):
            if at < 0 or length < 0 or at + length > source.length:
                raise InvalidError(f"alltoall: the message for rank {rank} exceeds the {source.length} "
                                   "bytes of the send buffer")
        self._execute("run_v", source, source.address,
                      (c.oriel_dev_alltoallv * self._comm.size)(*entries))


class Broadcast(Collective):
    """The message of one rank, the root, to every rank."""

    _kind = "bcast"

    def run(self, send: Any, root: int = 0) -> None:
        """One execution. `send` of every rank has the same length; only the root's is read."""
        source = Borrowed(send)
        self._execute("run", source, root, source.address, source.length)

    def start(self, send: Any, root: int = 0) -> None:
        source = Borrowed(send)
        self._execute("start", source, root, source.address, source.length)
