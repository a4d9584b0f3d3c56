# SPDX-License-Identifier: Apache-2.0
"""liboriel.so by ctypes. Each function of the headers is an attribute of `lib`, and one that fails
raises the exception of its status. Called by the modules of this package alone.

ctypes, and not cffi: it is a part of Python, so that the package needs nothing but itself, it lets
other threads run during each call, and what cffi would parse at import the build has parsed already
(python/declare.py).
"""
from __future__ import annotations

import contextlib
import ctypes
import math
import os
import pathlib
import threading
from typing import Any, Iterator, Optional, TypeVar

from . import _declarations as c
from .errors import BY_STATUS, Error, InvalidError, Status

FOLDER = pathlib.Path(__file__).parent
VERSION = f"{c.ORIEL_VERSION_MAJOR}.{c.ORIEL_VERSION_MINOR}.{c.ORIEL_VERSION_PATCH}"
PATH = FOLDER / "lib" / c.SONAME


def _status(value: int) -> int:
    """Of every function that returns a status: failures become exceptions."""
    if value >= 0:
        return value
    text = lib.oriel_last_error().decode("utf-8", "replace")
    raise failure(value, text)


def failure(status: int, text: str = "") -> Error:
    """The exception for @status, a failure."""
    kind = BY_STATUS.get(status, Error)
    return kind(text or lib.oriel_status_text(status).decode())


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(PATH))
    except OSError as error:
        raise ImportError(f"oriel: cannot load {PATH}: {error}; install the package again, or "
                          "build the target oriel_python of a clone") from error
    for name, (result, parameters) in c.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"oriel: {PATH} has no {name}: it is of another version than the "
                              f"package, {VERSION}") from None
        function.argtypes = parameters
        function.restype = _status if result == "status" else result
    loaded = library.oriel_version().decode()
    if loaded.split()[0] != VERSION:
        raise ImportError(f"oriel: {PATH} is version {loaded}, the package {VERSION}")
    return library


lib = _load()


def size_of(struct: ctypes.Structure) -> ctypes.Structure:
    """@struct with its size set, as attributes and answers of the library need it."""
    struct.size = ctypes.sizeof(struct)
    return struct


def nanoseconds(timeout: Optional[float]) -> int:
    """A limit in seconds as the library takes it: None is the default of the communicator,
    math.inf none at all, 0 a look without a wait."""
    if timeout is None:
        return c.ORIEL_TIMEOUT_DEFAULT
    if timeout == math.inf:
        return c.ORIEL_TIMEOUT_INFINITE
    if not timeout >= 0:
        raise InvalidError(f"a timeout of {timeout} s: it is 0 or more, math.inf, or None")
    return max(1, min(int(timeout * 1e9), c.ORIEL_TIMEOUT_INFINITE - 1))


def text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


@contextlib.contextmanager
def together(function: Any, *arguments: Any) -> Iterator[None]:
    """Where the block, which looks at the arguments of a collective call, fails on this rank: calls
    @function without buffers, so that the library fails on all ranks and none waits for this one."""
    try:
        yield
    except Exception:
        try:
            function(*arguments)
        except Error:
            pass  # what the block has found says more
        raise


_Self = TypeVar("_Self", bound="Handle")  # typing.Self is of Python 3.11


class Handle:
    """An object of the library. It knows whether it is closed and which process made it.

    A subclass sets `_pointer` and defines `_destroy()`, which may raise and then leaves the
    object as it was.
    """

    _pointer: Optional[int] = None
    _pid: int = 0
    _comm: Any = None  # the communicator whose ranks close it together, if any

    def _open(self, pointer: ctypes.c_void_p) -> None:
        self._pointer = pointer.value
        self._pid = os.getpid()

    def _handle(self) -> int:
        """The pointer, for a call. A child of fork() gets ForkedError from the call itself."""
        pointer = self._pointer
        if pointer is None:
            raise failure(Status.STATE, f"{self!r} is closed")
        return pointer

    def _destroy(self, pointer: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """End the object; collective where the class says so. Closing it again does nothing."""
        if self._pointer is not None:
            self._destroy(self._pointer)
            self._pointer = None

    @property
    def is_closed(self) -> bool:
        """Whether close() has ended it."""
        return self._pointer is None

    def _state(self) -> str:
        if self._pointer is None:
            return "closed"
        if self._pid != os.getpid():
            return f"of process {self._pid}, which forked this one"
        return "open"

    def _standing(self) -> str:
        """The paths and the state that repr() shows: those of its communicator, while it is open."""
        state = self._state()
        return self._comm._condition() if state == "open" and self._comm is not None else state

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if kind is None:
            self.close()
            return
        # This rank leaves in the middle. The others would wait for it, and it for them, so all
        # learn of it now; the caller gets the first exception, not what follows from it.
        try:
            if self._comm is not None and not self.is_closed and not self._comm.health.is_broken:
                self._comm.abort(f"rank {self._comm.rank}: {kind.__name__}: {error}")
            self.close()
        except Error:
            pass

    def __reduce__(self):
        raise TypeError(
            f"{self!r} belongs to this process and cannot be pickled: a worker of a pool or a "
            "DataLoader makes a communicator of its own (oriel.Comm.from_id), or has none")


class OneThread:
    """Lets one thread at a time into an object, and names the other one to the second."""

    def __init__(self, owner: object):
        self._owner = owner
        self._lock = threading.Lock()
        self._holder = ""

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise failure(Status.STATE, f"{self._owner!r} is in use by thread {self._holder}: "
                                        "one thread at a time calls it")
        self._holder = threading.current_thread().name

    def __exit__(self, *_) -> None:
        self._lock.release()
