# SPDX-License-Identifier: Apache-2.0
"""Persistent collectives: made once over memory of every rank, executed any number of times.
docs/allgather.md has the algorithms; Comm.allgather() and the others are calls without an object."""
from __future__ import annotations

import ctypes
import enum
from typing import Any, List, Optional, Sequence, Tuple, Union

from . import _declarations as c
from ._library import Handle, lib, nanoseconds, size_of, together
from .comm import Comm
from .errors import InvalidError
from .memory import Borrowed, Memory
from .reductions import Op, Reduction, TypeLike, type_like, type_of
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
    HIERARCHICAL = c.ORIEL_ALGORITHM_HIERARCHICAL
    RECURSIVE = c.ORIEL_ALGORITHM_RECURSIVE


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
        create, handle, pointer = self._function("create"), comm._handle(), ctypes.c_void_p()
        with together(create, handle, None, *self._NOTHING, None, ctypes.byref(pointer)):
            what = self._what()
            view = size_of(c.oriel_view(length=length or recv.length - offset))
            if isinstance(recv, Window):
                view.kind, view.window, view.at = c.ORIEL_VIEW_WINDOW, recv._handle(), offset
            else:
                view.kind, view.buffer = c.ORIEL_VIEW_BUFFER, recv.address + offset
            attr = size_of(c.oriel_coll_attr(algorithm=algorithm, chunk=chunk))
        create(handle, ctypes.byref(view), *what, ctypes.byref(attr), ctypes.byref(pointer))
        self._open(pointer)

    _NOTHING: Tuple[None, ...] = ()  # in place of _what(), for a rank that has failed

    def _what(self) -> Tuple[Any, ...]:
        """What the create function of the kind takes besides."""
        return ()

    @classmethod
    def _function(cls, verb: str) -> Any:
        return getattr(lib, f"oriel_{cls._kind}_{verb}")

    def _destroy(self, pointer: int) -> None:
        self._function("destroy")(pointer)
        self._source = None

    def __repr__(self) -> str:
        return (f"<oriel.{type(self).__name__} of rank {self._comm.rank} of {self._comm.size}; "
                f"{self._standing()}>")

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
        """Begin one execution, as run() without its wait."""
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
        """Begin one execution, as run() without its wait."""
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


class _Rooted(Collective):
    """Those with a root, which any execution may choose; equal on all ranks."""

    def run(self, send: Any, root: int = 0) -> None:
        """One execution; see the class."""
        source = Borrowed(send)
        self._execute("run", source, root, source.address, source.length)

    def start(self, send: Any, root: int = 0) -> None:
        """Begin one execution, as run() without its wait."""
        source = Borrowed(send)
        self._execute("start", source, root, source.address, source.length)


class Broadcast(_Rooted):
    """The message of one rank, the root, to every rank. `send` of every rank has the same length;
    only the root's is read."""

    _kind = "bcast"


class Gather(_Rooted):
    """The message of every rank to one, the root: rank r's n bytes at byte r * n of its result.
    Results of other ranks do not change. `send` has n bytes, equal on all ranks."""

    _kind = "gather"


class Scatter(Collective):
    """A message of one rank, the root, for every rank."""

    _kind = "scatter"

    def run(self, send: Any, length: int, root: int = 0) -> None:
        """One execution. length: n, bytes of one message, equal on all ranks. send: of the root,
        size * n bytes, part r for rank r; None elsewhere."""
        self._scatter("run", send, length, root)

    def start(self, send: Any, length: int, root: int = 0) -> None:
        """Begin one execution, as run() without its wait."""
        self._scatter("start", send, length, root)

    def _scatter(self, verb: str, send: Any, length: int, root: int) -> None:
        source = Borrowed(b"" if self._comm.rank != root or send is None else send)
        if self._comm.rank == root and source.length != length * self._comm.size:
            raise InvalidError(f"scatter: send has {source.length} bytes, not {self._comm.size} parts "
                               f"of {length}")
        self._execute(verb, source, root, source.address if self._comm.rank == root else None, length)


class _Reducing(Collective):
    """Persistent reductions. Parameters besides those of the others, equal on all ranks:

    type: of the elements, a Type or what numpy.dtype() takes. op: the operation. block: so many
    consecutive ranks are added first; 0 is the ranks of a domain. factor: of this rank, for
    Op.PREMUL_SUM; a whole number for integers. fast: an AllReduce may add in another order where
    that is faster (docs/reductions.md, "Other orders"); the algorithms RING and RECURSIVE need it.

    UnsupportedError: the type has no such operation. MismatchError: ranks differ in the type, the
    operation or the block.
    """

    def __init__(self, comm: Comm, recv: Union[Memory, Window], type: TypeLike,  # pylint: disable=redefined-builtin
                 op: Op = Op.SUM, *, block: int = 0, factor: Optional[float] = None,
                 fast: bool = False, offset: int = 0, length: int = 0,
                 algorithm: Algorithm = Algorithm.DEFAULT):
        self._given = type, op, block, factor, fast
        super().__init__(comm, recv, offset=offset, length=length, algorithm=algorithm)

    _NOTHING = (None,)

    def _what(self) -> Tuple[Any, ...]:
        kind, *others = self._given
        self._reduction = Reduction(type_like(kind), *others)
        return (self._reduction.pointer,)

    def _elements(self, send: Any, parts: int = 1) -> Tuple[Borrowed, int]:
        source, kind = Borrowed(send, is_typed=True), self._reduction.type
        found = type_of(source.element)
        # Bytes are of any type.
        if found not in (None, kind) and source.element not in ("B", "c", (1, 8)):
            raise InvalidError(f"{self._kind} of {kind.text}, but send has elements of "
                               f"type {found.text}")
        if source.length % (kind.size * parts):
            raise InvalidError(f"{self._kind}: {source.length} bytes are no {parts} equal parts of "
                               f"elements of type {kind.text}")
        return source, source.length // kind.size // parts

    def algorithm(self, length: int) -> Algorithm:
        """The algorithm that executes `length` bytes of a result. Local."""
        return super().algorithm(length // self._reduction.type.size)


class AllReduce(_Reducing):
    """The reduction of the elements of all ranks to every rank."""

    _kind = "allreduce"

    def run(self, send: Any) -> None:
        """One execution; `send` has equally many elements on all ranks. It is the beginning of
        `recv` (in place), or does not overlap the result."""
        source, count = self._elements(send)
        self._execute("run", source, source.address, count)

    def start(self, send: Any) -> None:
        """Begin one execution, as run() without its wait."""
        source, count = self._elements(send)
        self._execute("start", source, source.address, count)


class Reduce(_Reducing):
    """The reduction of the elements of all ranks to one, the root."""

    _kind = "reduce"

    def run(self, send: Any, root: int = 0) -> None:
        """One execution; results of other ranks than `root` do not change."""
        source, count = self._elements(send)
        self._execute("run", source, root, source.address, count)

    def start(self, send: Any, root: int = 0) -> None:
        """Begin one execution, as run() without its wait."""
        source, count = self._elements(send)
        self._execute("start", source, root, source.address, count)


class ReduceScatter(_Reducing):
    """Part r of the reduction of the elements of all ranks to rank r."""

    _kind = "reduce_scatter"

    def run(self, send: Any) -> None:
        """One execution; `send` has size parts of n elements, n equal on all ranks."""
        source, count = self._elements(send, self._comm.size)
        self._execute("run", source, source.address, count)

    def start(self, send: Any) -> None:
        """Begin one execution, as run() without its wait."""
        source, count = self._elements(send, self._comm.size)
        self._execute("start", source, source.address, count)
