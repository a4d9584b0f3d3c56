# SPDX-License-Identifier: Apache-2.0
"""Point to point: endpoints of two processes, for threads and for asyncio. docs/p2p.md has how it
works. Nothing moves unless a thread calls: waits and awaits make progress."""
from __future__ import annotations

import asyncio
import ctypes
import enum
from typing import Any, Dict, Generator, Optional, Tuple

from . import _declarations as c
from ._library import Handle, OneThread, failure, lib, nanoseconds, size_of, text
from .comm import Comm, Path
from .errors import Error, Status, TimeoutError  # pylint: disable=redefined-builtin
from .memory import Borrowed, Memory

# An await looks this often in turn with the other tasks of its loop, and then sleeps between two
# looks, longer each time: a loop without other work so uses little of its core.
_LOOKS = 200
_SLEEP_S, _SLEEP_MOST_S = 0.00005, 0.001


class Mode(enum.IntEnum):
    """How bytes travel between the buffers of the two users."""

    AUTO = c.ORIEL_P2P_AUTO
    ZERO_COPY = c.ORIEL_P2P_ZERO_COPY
    COPY_BASED = c.ORIEL_P2P_COPY_BASED


class Request:
    """An operation under way: wait(), test(), cancel() or `await` it. `result` is the buffer of a
    receive, the bytes of a control message, and None otherwise."""

    def __init__(self, endpoint: "Endpoint", what: str, buffer: Any, borrowed: Optional[Borrowed],
                 control: Any = None):
        self._endpoint = endpoint
        self._what = what
        self._buffer = buffer
        self._borrowed = borrowed
        self._control = control  # where a control message arrives
        self._struct = c.oriel_p2p_request()

    @property
    def status(self) -> Status:
        """AGAIN while it is under way."""
        return Status(self._struct.status)

    @property
    def is_done(self) -> bool:
        """Whether it has ended, well or not, as of the last call that made progress."""
        return self._struct.status != c.ORIEL_AGAIN

    @property
    def result(self) -> Any:
        """What wait() returns: see the class."""
        if self._control is not None and self._struct.status == c.ORIEL_OK:
            return self._control.raw[:self._struct.length]
        return self._buffer

    def test(self) -> bool:
        """Make some progress, without a wait; True once it is done. Raises how it failed."""
        endpoint = self._endpoint
        if self._struct.status == c.ORIEL_AGAIN:
            with endpoint._one:
                done = lib.oriel_p2p_test(endpoint._handle(), ctypes.byref(self._struct)) == c.ORIEL_OK
            if not done:
                return False
        endpoint._forget(self)
        self._raise()
        return True

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Wait until it is done, and return `result`. TimeoutError: it goes on."""
        endpoint = self._endpoint
        if self._struct.status == c.ORIEL_AGAIN:
            with endpoint._one:
                lib.oriel_p2p_wait(endpoint._handle(), ctypes.byref(self._struct), nanoseconds(timeout))
        endpoint._forget(self)
        self._raise()
        return self.result

    def _raise(self) -> None:
        if self._struct.status < 0:
            what = f"{self._what} of {self._endpoint!r}"
            raise failure(self._struct.status, f"{what}: {Status(self._struct.status).name}")

    def cancel(self) -> None:
        """Give it up, as if it had never been begun. StateError: too late, or done; it goes on."""
        endpoint = self._endpoint
        with endpoint._one:
            lib.oriel_p2p_cancel(endpoint._handle(), ctypes.byref(self._struct))
        endpoint._forget(self)

    async def _done(self) -> Any:
        """Look, let the loop run, and look again."""
        limit = self._endpoint._timeout
        loop = asyncio.get_running_loop()
        begun = loop.time()
        looks, sleep = 0, _SLEEP_S
        try:
            while not self.test():
                looks += 1
                if limit is not None and loop.time() - begun > limit:
                    raise TimeoutError(f"{self._what} of {self._endpoint!r} timed out after {limit} s")
                if looks < _LOOKS:
                    await asyncio.sleep(0)
                else:
                    await asyncio.sleep(sleep)
                    sleep = min(2 * sleep, _SLEEP_MOST_S)
        except asyncio.CancelledError:
            # The peer may know of the operation already: then it goes on, and keeps its memory.
            try:
                self.cancel()
            except Error:
                pass
            raise
        return self.result

    def __await__(self) -> Generator[Any, None, Any]:
        return self._done().__await__()

    def __repr__(self) -> str:
        return f"<oriel.Request {self._what} of {self._endpoint!r}: {self.status.name}>"


class Registration(Handle):
    """Memory registered with a context, so that bytes move to it and from it without staging.
    Local; any thread. Close it when no request uses it any more."""

    def __init__(self, context: "P2PContext", buffer: Any):
        self._context = context
        self._source: Tuple[Any, Any] = (buffer, None)
        if isinstance(buffer, Memory):
            self.address, self.length = buffer.address, buffer.length
        else:
            borrowed = Borrowed(buffer, is_written=True)
            self._source = (buffer, borrowed)
            self.address, self.length = borrowed.address, borrowed.length
        pointer = ctypes.c_void_p()
        lib.oriel_p2p_register(context._handle(), self.address, self.length, 0, ctypes.byref(pointer))
        self._open(pointer)

    def _destroy(self, pointer: int) -> None:
        lib.oriel_p2p_unregister(pointer)
        self._source = (None, None)

    def __repr__(self) -> str:
        return f"<oriel.Registration of {self.length} bytes with {self._context!r}; {self._state()}>"


class P2PContext(Handle):
    """What endpoints share that have no communicator: NICs, staging, registered memory.

    chunk: bytes of a staging slot. slots: how many to receive in. timeout: seconds, of connects
    and waits; None is ORIEL_TIMEOUT. 0 means the default. Local; any thread.
    """

    def __init__(self, *, chunk: int = 0, slots: int = 0, timeout: Optional[float] = None):
        pointer = ctypes.c_void_p()
        attr = size_of(c.oriel_p2p_context_attr(chunk=chunk, slots=slots,
                                                timeout_ns=nanoseconds(timeout)))
        lib.oriel_p2p_context_create(ctypes.byref(attr), ctypes.byref(pointer))
        self._open(pointer)
        self._owner: Optional[Comm] = None
        self._limit = timeout

    @classmethod
    def of(cls, comm: Comm) -> "P2PContext":
        """The context of the endpoints of `comm`, which alone ends it."""
        pointer = ctypes.c_void_p()
        lib.oriel_comm_p2p_context(comm._handle(), ctypes.byref(pointer))
        context = cls.__new__(cls)
        context._open(pointer)
        context._owner = comm
        context._limit = comm.timeout
        return context

    def _handle(self) -> int:
        if self._owner is not None:
            self._owner._handle()
        return super()._handle()

    def _destroy(self, pointer: int) -> None:
        if self._owner is None:
            lib.oriel_p2p_context_destroy(pointer)

    def __repr__(self) -> str:
        of = f" of {self._owner!r}" if self._owner is not None else ""
        return f"<oriel.P2PContext{of}; {self._state()}>"

    def register(self, buffer: Any) -> Registration:
        """Register a writable buffer or a Memory: see Registration."""
        return Registration(self, buffer)

    def endpoint(self, *, mode: Mode = Mode.AUTO, channels: int = 0, depth: int = 0) -> "Endpoint":
        """A new endpoint, to be joined to another one by address and connect()."""
        pointer = ctypes.c_void_p()
        attr = size_of(c.oriel_p2p_attr(mode=mode, channels=channels, depth=depth))
        lib.oriel_p2p_create(self._handle(), ctypes.byref(attr), ctypes.byref(pointer))
        return Endpoint(pointer, self, None, None)


class Remote:
    """Memory of the other endpoint that this one puts to: Endpoint.import_memory()."""

    def __init__(self, struct: Any, end: "Endpoint"):
        self._struct = struct
        self._endpoint = end
        self.length: int = struct.length

    def __repr__(self) -> str:
        return f"<oriel.Remote of {self.length} bytes behind {self._endpoint!r}>"


class Endpoint(Handle):
    """One end of a connection of two processes, or threads: endpoint(comm, peer), or
    P2PContext.endpoint(). One thread at a time calls it.

    send(), recv() and the others return a Request at once. Its memory stays until the request is
    done. `await endpoint.recv(buffer)` lets the other tasks of the loop run until then.
    The nth send of a channel meets the nth receive, of the same length (MismatchError on both).
    """

    def __init__(self, pointer: ctypes.c_void_p, context: P2PContext, comm: Optional[Comm],
                 peer: Optional[int]):
        self._open(pointer)
        self._context = context
        self._owner = comm  # which ends it
        self._peer = peer
        self._one = OneThread(self)
        self._requests: Dict[int, Request] = {}  # the library writes to them while under way
        self._timeout = None if context._limit in (None, float("inf")) else context._limit

    def _handle(self) -> int:
        self._context._handle()
        return super()._handle()

    def _destroy(self, pointer: int) -> None:
        if self._owner is None:
            lib.oriel_p2p_destroy(pointer)
            self._requests.clear()

    def __repr__(self) -> str:
        who = f"rank {self._owner.rank} to {self._peer}" if self._owner is not None else "alone"
        state = self._state()
        if state == "open":
            if self._context.is_closed or (self._owner is not None and self._owner.is_closed):
                state = "closed with its communicator" if self._owner is not None else "closed with its context"
            else:
                state = self._joined()
        return f"<oriel.Endpoint {who}; {state}>"

    def _joined(self) -> str:
        try:
            if lib.oriel_p2p_check(self._pointer) == c.ORIEL_AGAIN:
                return "not joined yet"
        except Error as error:
            return f"broken: {error}"
        info = size_of(c.oriel_p2p_info())
        lib.oriel_p2p_describe(self._pointer, ctypes.byref(info))
        return f"path {text(info.backend)}, joined"

    @property
    def path(self) -> Path:
        """How bytes reach the peer; NONE before the endpoints are joined."""
        info = size_of(c.oriel_p2p_info())
        lib.oriel_p2p_describe(self._handle(), ctypes.byref(info))
        return Path(info.path)

    @property
    def address(self) -> bytes:
        """What the peer needs for connect(); the caller carries it there."""
        room = ctypes.create_string_buffer(c.ORIEL_P2P_ADDRESS)
        lib.oriel_p2p_address(self._handle(), room)
        return room.raw

    def connect(self, address: bytes, timeout: Optional[float] = None) -> None:
        """Join the endpoint at `address`, while that one joins this one. Returns at once."""
        with self._one:
            lib.oriel_p2p_connect(self._handle(), address, len(address), nanoseconds(timeout))

    @property
    def is_joined(self) -> bool:
        """Raises what broke the endpoint, if it is broken."""
        return lib.oriel_p2p_check(self._handle()) == c.ORIEL_OK

    def _forget(self, request: Request) -> None:
        if request.is_done:
            self._requests.pop(id(request), None)

    def _begin(self, function: Any, request: Request, *arguments: Any) -> Request:
        with self._one:
            function(self._handle(), *arguments, ctypes.byref(request._struct))
        if not request.is_done:
            self._requests[id(request)] = request
            if len(self._requests) > 256:  # those that the caller dropped
                for other in list(self._requests.values()):
                    self._forget(other)
        return request

    @staticmethod
    def _buffer(borrowed: Borrowed, registration: Optional[Registration]) -> Any:
        memory = registration._handle() if registration is not None else None
        return ctypes.byref(c.oriel_p2p_buffer(borrowed.address, borrowed.length, memory))

    def send(self, data: Any, channel: int = 0, *,
             registration: Optional[Registration] = None) -> Request:
        """Send the bytes of `data`, which may be reused when the request is done."""
        source = Borrowed(data)
        return self._begin(lib.oriel_p2p_send, Request(self, "send", None, source), channel,
                           self._buffer(source, registration))

    def recv(self, into: Any, channel: int = 0, *,
             registration: Optional[Registration] = None) -> Request:
        """Receive as many bytes as `into` has; the request is done when all have arrived."""
        target = Borrowed(into, is_written=True)
        return self._begin(lib.oriel_p2p_recv, Request(self, "recv", into, target), channel,
                           self._buffer(target, registration))

    def send_control(self, tag: int, data: bytes) -> Request:
        """Send a message of up to 65536 bytes with a 64-bit tag."""
        source = Borrowed(data)
        return self._begin(lib.oriel_p2p_send_control, Request(self, "send_control", None, source),
                           tag, source.address, source.length)

    def recv_control(self, tag: int, room: int = c.ORIEL_P2P_CONTROL) -> Request:
        """Receive the next message with `tag`, of up to `room` bytes; its result is bytes."""
        control = ctypes.create_string_buffer(max(room, 1))
        request = Request(self, "recv_control", None, None, control)
        return self._begin(lib.oriel_p2p_recv_control, request, tag, control, room)

    def export_memory(self, registration: Registration) -> bytes:
        """Registered memory as bytes that the other endpoint imports. Once both are joined."""
        room = ctypes.create_string_buffer(c.ORIEL_P2P_EXPORT)
        buffer = c.oriel_p2p_buffer(registration.address, registration.length,
                                    registration._handle())
        with self._one:
            lib.oriel_p2p_export(self._handle(), ctypes.byref(buffer), room)
        return room.raw

    def import_memory(self, exported: bytes) -> Remote:
        """Memory of the other endpoint, to put() to."""
        remote = c.oriel_p2p_remote()
        with self._one:
            lib.oriel_p2p_import(self._handle(), exported, len(exported), ctypes.byref(remote))
        return Remote(remote, self)

    def put(self, data: Any, remote: Remote, offset: int = 0, channel: int = 0, *,
            registration: Optional[Registration] = None) -> Request:
        """Put the bytes of `data` to `offset` of `remote`, and complete the next expect() of
        `channel` there."""
        source = Borrowed(data)
        return self._begin(lib.oriel_p2p_put, Request(self, "put", None, source), channel,
                           self._buffer(source, registration), ctypes.byref(remote._struct), offset)

    def expect(self, channel: int = 0) -> Request:
        """Done when all bytes of the next put of `channel` have arrived."""
        return self._begin(lib.oriel_p2p_expect, Request(self, "expect", None, None), channel)

    def progress(self) -> None:
        """Advance all that is under way, without a wait."""
        with self._one:
            lib.oriel_p2p_progress(self._handle())

    def drain(self, timeout: Optional[float] = None) -> None:
        """Wait until all that was begun here is done and has left, but for receives for which
        nothing has arrived."""
        with self._one:
            lib.oriel_p2p_drain(self._handle(), nanoseconds(timeout))


def endpoint(comm: Comm, peer: int, *, mode: Mode = Mode.AUTO, channels: int = 0,
             depth: int = 0) -> Endpoint:
    """The endpoint of `mode` to rank `peer` that `comm` keeps: every call gets the same one.

    Local: it waits for no rank. channels: 1 to 64, 0 is 1. Attributes are equal in every call for
    `peer` and `mode`, on both ranks (MismatchError). It ends with `comm`.
    """
    pointer = ctypes.c_void_p()
    attr = size_of(c.oriel_p2p_attr(mode=mode, channels=channels, depth=depth))
    lib.oriel_comm_p2p(comm._handle(), peer, ctypes.byref(attr), ctypes.byref(pointer))
    known = comm._endpoints
    found = known.get((peer, mode))
    if found is None or found._pointer != pointer.value:
        found = known.setdefault((peer, mode), Endpoint(pointer, P2PContext.of(comm), comm, peer))
    return found


__all__ = ["Endpoint", "Mode", "P2PContext", "Registration", "Remote", "Request",
           "endpoint"]
