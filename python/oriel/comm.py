# SPDX-License-Identifier: Apache-2.0
"""The communicator, and how its ranks meet. Programs make it first."""
from __future__ import annotations

import ctypes
import dataclasses
import enum
import math
import threading
from typing import Any, Callable, List, Optional, Sequence, Tuple

from . import _declarations as c
from ._library import Handle, failure, lib, nanoseconds, size_of, text, together
from .errors import AbortedError, Error, InvalidError, Status
from .memory import Borrowed, result_like, result_of_shape, shape_of
from .progress import progress
from .reductions import Op, Reduction, TypeLike, check_result, check_type

# docs/launch.md has the colours of parts.
SPLIT_NONE: int = c.ORIEL_SPLIT_NONE
SPLIT_DOMAIN: int = c.ORIEL_SPLIT_DOMAIN


class Path(enum.IntEnum):
    """How bytes reach a peer."""

    NONE = c.ORIEL_PATH_NONE
    SELF = c.ORIEL_PATH_SELF
    MAPPED = c.ORIEL_PATH_MAPPED
    RDMA = c.ORIEL_PATH_RDMA


class Connect(enum.IntEnum):
    """When links to peers of the rdma path are made."""

    DEFAULT = c.ORIEL_CONNECT_DEFAULT
    EAGER = c.ORIEL_CONNECT_EAGER
    LAZY = c.ORIEL_CONNECT_LAZY
    DEMAND = c.ORIEL_CONNECT_DEMAND


@dataclasses.dataclass(frozen=True)
class Peer:
    """What is known of a rank: its machine, and why bytes take the path that they take."""

    rank: int
    path: Path
    reason: str
    host: str
    node: str
    pid: int
    is_same_process: bool
    is_connected: bool


@dataclasses.dataclass(frozen=True)
class Health:
    """The failure that broke a communicator; `status` is OK while it is not broken."""

    status: Status
    rank: Optional[int]  # the rank concerned
    finder: int  # the rank that found it
    what: str  # the operation
    text: str  # one line
    json: str

    @property
    def is_broken(self) -> bool:
        """Whether a failure broke it."""
        return self.status != Status.OK


class JobId:
    """How ranks meet where they have a channel of their own: rank 0 opens it and passes its
    128 bytes to the others, which call Comm.from_id(). Outsiders must not read the bytes.

    >>> with oriel.JobId() as job:          # on rank 0
    ...     channel.broadcast(bytes(job))
    ...     comm = oriel.Comm.from_id(bytes(job), 0, size)
    """

    def __init__(self) -> None:
        self._id = c.oriel_job_id()
        lib.oriel_job_id_open(ctypes.byref(self._id))
        self._is_open = True

    def __bytes__(self) -> bytes:
        return bytes(self._id.bytes)

    def close(self) -> None:
        """Listen for further jobs no more; communicators that were made stay."""
        if self._is_open:
            self._is_open = False
            lib.oriel_job_id_close(ctypes.byref(self._id))

    def __enter__(self) -> "JobId":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<oriel.JobId, {'open' if self._is_open else 'closed'}>"


def _attributes(timeout: Optional[float], node: Optional[str], connect: Connect,
                queue_depth: int, can_shrink: bool = False, kill_suspects: bool = False) -> Any:
    flags = c.ORIEL_COMM_SHRINK if can_shrink or kill_suspects else 0
    return size_of(c.oriel_comm_attr(
        timeout_ns=nanoseconds(timeout), node=None if node is None else node.encode(),
        connect=connect, queue_depth=queue_depth,
        flags=flags | (c.ORIEL_COMM_KILL_SUSPECTS if kill_suspects else 0)))


class Comm(Handle):
    """The communicator: this rank's connection to all others. Collective: every rank makes it.

    `Comm()` joins the job of the launcher (oriel run, torchrun, mpirun, srun, ...), or is a job of
    one rank without any. Parameters, for all ways to make one:

    timeout: seconds that any wait may take before it breaks the communicator; None is
        ORIEL_TIMEOUT, math.inf waits for ever. Equal on all ranks.
    node: the name of this rank's virtual node; None is ORIEL_NODE.
    connect: when links to peers over NICs are made.
    queue_depth: requests that a queue to such a peer holds; 0 is the default.
    can_shrink: shrink() may be called. Equal on all ranks.
    kill_suspects: shrink() may kill the process of a rank that does not answer and maps memory of
        one that is left. Equal on all ranks; it implies can_shrink.

    Errors: ConfigError (a setting or variable), PeerError or TimeoutError (a rank did not join),
    NoPathError (two ranks cannot reach each other), MismatchError (attributes differ).

    Use it as a context manager: close() is collective too, and waits for the other ranks. All that
    was made on it is closed before. An exception that leaves the block, or that of a window on it,
    aborts the communicator, so that no other rank waits for this one. One thread of a rank at a time makes collective
    calls, in one order on all ranks; other calls may come from any thread. Every call that waits
    lets other threads of Python run; signals such as Ctrl-C are handled when it returns.
    """

    def __init__(self, *, timeout: Optional[float] = None, node: Optional[str] = None,
                 connect: Connect = Connect.DEFAULT, queue_depth: int = 0,
                 can_shrink: bool = False, kill_suspects: bool = False):
        pointer = ctypes.c_void_p()
        attr = _attributes(timeout, node, connect, queue_depth, can_shrink, kill_suspects)
        with progress("waiting for the other ranks of the job"):
            lib.oriel_comm_create(None, ctypes.byref(attr), ctypes.byref(pointer))
        self._opened(pointer)

    @classmethod
    def from_id(cls, job: bytes, rank: int, size: int, *, timeout: Optional[float] = None,
                node: Optional[str] = None, connect: Connect = Connect.DEFAULT,
                queue_depth: int = 0, can_shrink: bool = False,
                kill_suspects: bool = False) -> "Comm":
        """Join the job of a JobId, of which `job` is the bytes, as `rank` of `size`. Collective."""
        if len(job) != c.ORIEL_JOB_ID_LENGTH:
            raise InvalidError(f"a job id has {c.ORIEL_JOB_ID_LENGTH} bytes, not {len(job)}")
        pointer = ctypes.c_void_p()
        attr = _attributes(timeout, node, connect, queue_depth, can_shrink, kill_suspects)
        wanted = c.oriel_job_id((ctypes.c_ubyte * c.ORIEL_JOB_ID_LENGTH)(*job))
        with progress(f"waiting for the other ranks of {size}"):
            lib.oriel_comm_create_id(ctypes.byref(wanted), rank, size, ctypes.byref(attr),
                                     ctypes.byref(pointer))
        return cls._made(pointer)

    @classmethod
    def _made(cls, pointer: ctypes.c_void_p, bootstrap: Any = None) -> "Comm":
        comm = cls.__new__(cls)
        comm._opened(pointer)
        comm._bootstrap = bootstrap
        return comm

    def _opened(self, pointer: ctypes.c_void_p) -> None:
        self._open(pointer)
        self._bootstrap: Any = None
        self._endpoints: dict = {}  # of oriel.endpoint(), by peer and mode
        self._comm = self
        self.rank: int = lib.oriel_comm_rank(pointer)
        self.size: int = lib.oriel_comm_size(pointer)

    def split(self, colour: int, key: int = 0, **attributes: Any) -> Optional["Comm"]:
        """A communicator of the ranks with one `colour`, ordered by `key`, then by rank.

        Collective. SPLIT_NONE as the colour gives None, SPLIT_DOMAIN a communicator of the ranks
        that map each other's memory. It shares nothing with this one. attributes: those of Comm(),
        from timeout on; without any the part has those of this communicator.
        """
        pointer = ctypes.c_void_p()
        with progress(f"waiting for the other ranks of {self.size}"):
            lib.oriel_comm_split(self._handle(), colour, key, _part_attributes(attributes),
                                 ctypes.byref(pointer))
        return Comm._made(pointer) if pointer.value else None

    def shrink(self, **attributes: Any) -> "Comm":
        """A communicator of the ranks that are left, numbered in their old order (origin()).

        Collective among those that are alive, after a failure or at any time; needs can_shrink.
        It breaks this communicator, which is then only to be closed. All that was made on it is
        closed before, else StateError; its endpoints end with the call. attributes: as of split().

        Blocks up to the timeout of this communicator, again for each rank that is alive and does
        not come. StateError: such a rank maps memory of a rank that is left and may not be killed
        (kill_suspects), more ranks are suspected than are left, or it was shrunk already; the text
        says what to do, and unsafe_rank() which memory is in use. PeerError: the others went on
        without this rank.
        """
        pointer = ctypes.c_void_p()
        with progress(f"looking for the ranks that are left of {self.size}"):
            lib.oriel_comm_shrink(self._handle(), _part_attributes(attributes), ctypes.byref(pointer))
        return Comm._made(pointer)

    def invite(self) -> str:
        """The text of an invitation, which lets new ranks in. Local; rank 0 alone, else StateError.

        It is a secret: hand it to the new processes, for join(), merge() or as ORIEL_INVITATION. It
        counts until grow() has succeeded, this communicator is shrunk or closed, or the next call.
        """
        invitation = c.oriel_invitation()
        line = ctypes.create_string_buffer(2 * c.ORIEL_INVITATION_LENGTH + 1)
        lib.oriel_comm_invite(self._handle(), ctypes.byref(invitation))
        lib.oriel_invitation_text(ctypes.byref(invitation), line)
        return text(line.value)

    def grow(self, count: int, **attributes: Any) -> "Comm":
        """A communicator of these ranks, in their order, and `count` new ones behind them, which
        come by join() or merge() with the invitation of rank 0. Collective; `count` is equal.

        It shares nothing with this one, which stays as it is. attributes: as of split().
        TimeoutError: fewer came within half of the timeout; PeerError: a new rank was lost after it
        had arrived. Then all may call again. StateError: rank 0 has no invitation.
        """
        pointer = ctypes.c_void_p()
        with progress(f"waiting for {count} new ranks"):
            lib.oriel_comm_grow(self._handle(), count, _part_attributes(attributes),
                                ctypes.byref(pointer))
        return Comm._made(pointer)

    @classmethod
    def join(cls, invitation: str, **attributes: Any) -> "Comm":
        """Join the communicator of `invitation` as one new rank, once its ranks call grow().

        attributes: those of Comm(), from timeout on; without any those of the ranks that invite.
        InvalidError: the text is of no invitation. PeerError: no process listens for it any more.
        TimeoutError: those that invite did not come. StateError: it is of another epoch.
        """
        pointer = ctypes.c_void_p()
        with progress("waiting for the ranks that invite"):
            lib.oriel_comm_join(_invitation(invitation), _part_attributes(attributes),
                                ctypes.byref(pointer))
        return cls._made(pointer)

    def merge(self, invitation: str, **attributes: Any) -> "Comm":
        """Join the communicator of `invitation` with all ranks of this one, in their order.
        Collective; the invitation of rank 0 counts. Errors are those of join(); this communicator
        stays as it is. attributes: as of split()."""
        pointer = ctypes.c_void_p()
        with progress("waiting for the ranks that invite"):
            lib.oriel_comm_merge(self._handle(), _invitation(invitation), _part_attributes(attributes),
                                 ctypes.byref(pointer))
        return Comm._made(pointer)

    @property
    def epoch(self) -> int:
        """How often ranks were removed or added: one more with each shrink() and grow(). Local."""
        return lib.oriel_comm_epoch(self._handle())

    def unsafe_rank(self, memory: Any) -> Optional[int]:
        """The lowest rank that shrink() suspected and that may still write to `memory`, any buffer;
        None if there is none. Local."""
        rank = ctypes.c_uint()
        part = Borrowed(memory)
        lib.oriel_comm_unsafe(self._handle(), part.address, part.length, ctypes.byref(rank))
        return None if rank.value == c.ORIEL_NO_RANK else rank.value

    def _destroy(self, pointer: int) -> None:
        lib.oriel_comm_destroy(pointer)
        if self._bootstrap is not None:
            lib.oriel_bootstrap_close(ctypes.byref(self._bootstrap))
            self._bootstrap = None

    def __repr__(self) -> str:
        return f"<oriel.Comm rank {self.rank} of {self.size}; {self._standing()}>"

    def _condition(self) -> str:
        """The paths to the other ranks, and whether it works: "3 mapped; open"."""
        paths = [self.path(peer).name.lower() for peer in range(self.size)]
        counts = ", ".join(f"{paths.count(p)} {p}" for p in dict.fromkeys(paths) if p != "self")
        health = self.health
        return f"{counts or 'alone'}; " + (f"broken: {health.text}" if health.is_broken else "open")

    @property
    def timeout(self) -> float:
        """The limit of every wait, in seconds."""
        value = lib.oriel_comm_timeout(self._handle())
        return math.inf if value == c.ORIEL_TIMEOUT_INFINITE else value / 1e9

    def path(self, peer: int) -> Path:
        """The path by which bytes reach rank `peer`. Local."""
        path = ctypes.c_int()
        lib.oriel_comm_path(self._handle(), peer, ctypes.byref(path))
        return Path(path.value)

    def peer(self, rank: int) -> Peer:
        """What is known of `rank`. Local. RangeError: there is no such rank."""
        peer = size_of(c.oriel_peer())
        lib.oriel_comm_peer(self._handle(), rank, ctypes.byref(peer))
        return Peer(peer.rank, Path(peer.path), text(peer.reason), text(peer.host), text(peer.node),
                    peer.pid, peer.is_same_process, peer.is_connected)

    @property
    def domain(self) -> List[int]:
        """The ranks that map each other's memory, this one among them. Local."""
        ranks = []
        for index in range(lib.oriel_comm_domain_size(self._handle())):
            rank = ctypes.c_uint()
            lib.oriel_comm_domain_rank(self._handle(), index, ctypes.byref(rank))
            ranks.append(rank.value)
        return ranks

    def origin(self, rank: int) -> Optional[int]:
        """The rank that `rank` has in the communicator that this one was split, shrunk, grown or
        merged from; None for a rank that is new to it. Local."""
        origin = ctypes.c_uint()
        lib.oriel_comm_origin(self._handle(), rank, ctypes.byref(origin))
        return None if origin.value == c.ORIEL_NO_RANK else origin.value

    @property
    def health(self) -> Health:
        """Whether the communicator is broken, and by what. Local, any thread."""
        health = size_of(c.oriel_health())
        lib.oriel_comm_health(self._handle(), ctypes.byref(health))
        line = ctypes.create_string_buffer(1024)
        lib.oriel_health_text(ctypes.byref(health), line, len(line))
        json = ctypes.create_string_buffer(4096)
        lib.oriel_health_json(ctypes.byref(health), json, len(json))
        return Health(Status(health.status), health.rank if health.rank >= 0 else None,
                      health.finder, text(health.what), text(line.value), text(json.value))

    def abort(self, why: str) -> None:
        """End the waits of all ranks with AbortedError; any thread, also while others wait."""
        lib.oriel_comm_abort(self._handle(), why.encode())

    def connect(self, peers: Sequence[int]) -> None:
        """Make the links to `peers` that a lazy communicator has not made; both ends call it."""
        lib.oriel_comm_connect(self._handle(), (ctypes.c_uint * len(peers))(*peers), len(peers))

    def barrier(self) -> None:
        """Return once all ranks have called it. Collective; it flushes no window."""
        lib.oriel_comm_barrier(self._handle())

    def exchange(self, data: bytes) -> List[bytes]:
        """The `data` of every rank, by rank; lengths may differ. Collective. For setting things
        up; allgather() is for speed."""
        handle = self._handle()
        mine = ctypes.c_uint64(len(data))
        lengths = (ctypes.c_uint64 * self.size)()
        lib.oriel_comm_all_gather(handle, ctypes.byref(mine), lengths, 8)
        room = max(lengths)
        if not room:
            return [b""] * self.size
        every = ctypes.create_string_buffer(room * self.size)
        lib.oriel_comm_all_gather(handle, data.ljust(room, b"\0"), every, room)
        return [every.raw[rank * room:rank * room + length] for rank, length in enumerate(lengths)]

    def agree(self, error: Optional[Error] = None) -> None:
        """Collective: raises, on all ranks, the error of the lowest rank that passed one. A rank
        that fails alone so does not leave the others waiting."""
        status = Status.OK
        if error is not None:
            status = error.status
            try:
                lib.oriel_error_set(status, str(error).encode())
            except Error:
                pass  # it returns the status that it is given
        lib.oriel_comm_agree(self._handle(), status)

    def allgather(self, send: Any, recv: Any = None) -> Any:
        """The `send` of every rank, in `recv`: rank r's at index r. Collective.

        send: n bytes, equal on all ranks. recv: size * n bytes, or None for a new numpy array of
        shape (size, *send.shape). Returns recv. MismatchError: ranks differ in n. RangeError: recv
        is too short. Memory of a Window or Memory is written in place; other memory costs a copy.
        """
        handle = self._handle()
        with together(lib.oriel_allgather_once, handle, None, None, 1):
            source = Borrowed(send, is_typed=True)
            recv, target = result_like(send, self.size, recv)
            _room("allgather", target, self.size * source.length)
            check_result("allgather", source, target)
        lib.oriel_allgather_once(handle, source.address, target.address, source.length)
        return recv

    def alltoall(self, send: Any, recv: Any = None) -> Any:
        """Part r of every rank's `send`, in `recv`: rank p's at index p, for this rank r. Collective.

        send: size parts of n bytes each, n equal on all ranks, such as an array of shape
        (size, ...). recv: as many bytes, or None for a new numpy array like send. Returns recv.
        """
        handle = self._handle()
        with together(lib.oriel_alltoall_once, handle, None, None, 1):
            source = Borrowed(send, is_typed=True)
            if source.length % self.size:
                raise InvalidError(f"alltoall: {source.length} bytes are no {self.size} equal parts")
            recv, target = result_of_shape(send, shape_of(send) if recv is None else (), recv)
            _room("alltoall", target, source.length)
            check_result("alltoall", source, target)
        lib.oriel_alltoall_once(handle, source.address, target.address, source.length // self.size)
        return recv

    def bcast(self, buffer: Any, root: int = 0) -> Any:
        """The bytes of `buffer` of rank `root` in that of every rank, which have one length.
        Collective. Returns buffer."""
        handle = self._handle()
        with together(lib.oriel_bcast_once, handle, root, None, None, 1):
            target = Borrowed(buffer, is_written=True)
        lib.oriel_bcast_once(handle, root, target.address, target.address, target.length)
        return buffer

    def _reduce(self, name: str, send: Any, parts: int, recv: Any, op: Op, kind: Optional[TypeLike],
                block: int, factor: Optional[float], *roots: int, fast: bool = False) -> Any:
        """What allreduce(), reduce() and reduce_scatter() share; the result is one of @parts."""
        handle, function = self._handle(), getattr(lib, f"oriel_{name}_once")
        with together(function, handle, *roots, None, None, 1, None):
            source = Borrowed(send, is_typed=True)
            reduction = Reduction(check_type(source, kind), op, block, factor, fast)
            count = source.length // reduction.type.size
            if count % parts:
                raise InvalidError(f"{name}: {count} elements are no {parts} equal parts")
            shape: Tuple[int, ...] = shape_of(send) if recv is None else ()
            if recv is None and (parts > 1 or name == "reduce_scatter"):
                shape = shape[1:] if shape[:1] == (parts,) else (count // parts,)
            recv, target = result_of_shape(send, shape, recv)
            _room(name, target, source.length // parts)
            check_result(name, source, target, reduction.type)
        function(handle, *roots, source.address, target.address, count // parts, reduction.pointer)
        return recv

    def allreduce(self, send: Any, recv: Any = None, op: Op = Op.SUM, *,
                  type: Optional[TypeLike] = None,  # pylint: disable=redefined-builtin
                  block: int = 0, factor: Optional[float] = None, fast: bool = False) -> Any:
        """The reduction of the elements of `send` of all ranks, in `recv` of every rank. Collective.

        send: n elements, equal on all ranks. recv: n elements, `send` itself (in place) or memory
        that does not overlap it; None for a new numpy array like send. Returns recv.
        op, type, block: equal on all ranks. type: a Type or dtype; None is that of send.
        block: so many consecutive ranks are added first; 0 is those of a domain. The bits of a
        result depend on the values, the number of ranks and the block alone.
        factor: of this rank, for Op.PREMUL_SUM; a whole number for integers.
        fast: it may add in another order where that is faster (docs/reductions.md, "Other
        orders"); equal on all ranks.

        UnsupportedError: the type has no such operation. MismatchError: ranks differ in n, the
        type, the operation or the block; nothing was done. RangeError: recv is too short.
        """
        return self._reduce("allreduce", send, 1, recv, op, type, block, factor, fast=fast)

    def reduce(self, send: Any, recv: Any = None, op: Op = Op.SUM, root: int = 0, *,
               type: Optional[TypeLike] = None,  # pylint: disable=redefined-builtin
               block: int = 0, factor: Optional[float] = None) -> Any:
        """The same for rank `root` alone. recv of every rank has room for the result, and only the
        root's changes, which is returned there; other ranks return None."""
        recv = self._reduce("reduce", send, 1, recv, op, type, block, factor, root)
        return recv if self.rank == root else None

    def reduce_scatter(self, send: Any, recv: Any = None, op: Op = Op.SUM, *,
                       type: Optional[TypeLike] = None,  # pylint: disable=redefined-builtin
                       block: int = 0, factor: Optional[float] = None) -> Any:
        """Part r of the reduction of `send` of all ranks, in `recv` of rank r. Collective.

        send: size parts of n elements, such as an array of shape (size, ...). recv: n elements;
        None for a new numpy array of shape send.shape[1:], or (n,) if send has not that shape. The
        rest is as of allreduce().
        """
        return self._reduce("reduce_scatter", send, self.size, recv, op, type, block, factor)

    def gather(self, send: Any, recv: Any = None, root: int = 0) -> Any:
        """The `send` of every rank, in `recv` of rank `root`: rank r's at index r. Collective.

        send: n bytes, equal on all ranks. recv: size * n bytes, on the root alone; None for a new
        numpy array of shape (size, *send.shape). Returns recv on the root, None elsewhere.
        """
        handle, where = self._handle(), None
        with together(lib.oriel_gather_once, handle, root, None, None, 1):
            source = Borrowed(send, is_typed=True)
            if self.rank == root:
                recv, target = result_like(send, self.size, recv)
                _room("gather", target, self.size * source.length)
                check_result("gather", source, target)
                where = target.address
        lib.oriel_gather_once(handle, root, source.address, where, source.length)
        return recv if self.rank == root else None

    def scatter(self, send: Any, recv: Any, root: int = 0) -> Any:
        """Part r of `send` of rank `root`, in `recv` of rank r. Collective.

        recv: n bytes, equal on all ranks. send: size * n bytes on the root, such as an array of
        shape (size, ...), and None elsewhere. Returns recv.
        """
        handle, where = self._handle(), None
        with together(lib.oriel_scatter_once, handle, root, None, None, 1):
            target = Borrowed(recv, is_written=True, is_typed=True)
        with together(lib.oriel_scatter_once, handle, root, None, target.address, target.length or 1):
            if self.rank == root:
                source = Borrowed(send, is_typed=True)
                if source.length != self.size * target.length:
                    raise InvalidError(f"scatter: send has {source.length} bytes, not {self.size} "
                                       f"parts of {target.length}")
                check_result("scatter", source, target)
                where = source.address
        lib.oriel_scatter_once(handle, root, where, target.address, target.length)
        return recv


def _invitation(line: str) -> Any:
    invitation = c.oriel_invitation()
    lib.oriel_invitation_read(line.encode(), ctypes.byref(invitation))
    return ctypes.byref(invitation)


def _part_attributes(attributes: dict) -> Any:
    """Of split(), shrink(), grow() ...: NULL, which is the attributes of the communicator, without
    any."""
    if not attributes:
        return None
    every = {"timeout": None, "node": None, "connect": Connect.DEFAULT, "queue_depth": 0,
             **attributes}
    return ctypes.byref(_attributes(**every))


def _room(what: str, target: Borrowed, length: int) -> None:
    if target.length < length:
        raise failure(Status.RANGE, f"{what}: recv has {target.length} bytes, the result {length}")


def run_threads(size: int, function: Callable[[Comm], Any], *, timeout: Optional[float] = None,
                nodes: int = 1, can_shrink: bool = False) -> List[Any]:
    """Call function(comm) in `size` threads of this process, each a rank of one job, and return
    what they return, by rank. For notebooks and tests.

    nodes: split the ranks into so many virtual nodes, which do not map each other's memory.
    can_shrink: as of Comm(). The
    exception of the rank that failed first is raised when all have ended: what another rank raises
    because of it is no cause.
    """
    job = ctypes.c_void_p()
    lib.oriel_local_job_create(size, ctypes.byref(job))
    results: List[Any] = [None] * size
    errors: List[BaseException] = []
    per_node = -(-size // nodes)

    def rank_main(rank: int) -> None:
        bootstrap = c.oriel_bootstrap()
        pointer = ctypes.c_void_p()
        try:
            lib.oriel_bootstrap_open_local(job, rank, ctypes.byref(bootstrap))
            name = f"node{rank // per_node}" if nodes > 1 else None
            attr = _attributes(timeout, name, Connect.DEFAULT, 0, can_shrink)
            try:
                lib.oriel_comm_create(ctypes.byref(bootstrap), ctypes.byref(attr),
                                      ctypes.byref(pointer))
            except Error:
                lib.oriel_bootstrap_close(ctypes.byref(bootstrap))
                raise
            with Comm._made(pointer, bootstrap) as comm:  # pylint: disable=protected-access
                results[rank] = function(comm)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=rank_main, args=(rank,), name=f"rank {rank}")
               for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lib.oriel_local_job_destroy(job)
    if errors:
        raise next((e for e in errors if not isinstance(e, AbortedError)), errors[0])
    return results
