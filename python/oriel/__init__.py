# SPDX-License-Identifier: Apache-2.0
"""Oriel: one-sided communication between the ranks of a job, from Python.

>>> import oriel
>>> with oriel.Comm() as comm, oriel.Window(comm, 64) as window:
...     window.put((comm.rank + 1) % comm.size, 0, b"greetings", signal=0)
...     window.wait_signal_next((comm.rank - 1) % comm.size, 0)

docs/python.md has the tour. Failures are exceptions, one class for each status; timeouts are in
seconds, offsets and lengths in bytes.
"""
from __future__ import annotations

import ctypes as _ctypes
import dataclasses as _dataclasses
from typing import Callable as _Callable, List as _List

from . import _declarations as _c
from ._library import FOLDER as _FOLDER, VERSION as __version__, lib as _lib, size_of as _size_of
from ._library import text as _text
from .collectives import (Algorithm, AllGather, AllReduce, AllToAll, Broadcast, Gather, Reduce,
                          ReduceScatter, Scatter)
from .comm import (SPLIT_DOMAIN, SPLIT_NONE, Comm, Connect, Health, JobId, Path, Peer, run_threads)
from .errors import (AbortedError, AccessError, AuthError, ConfigError, Error, ForkedError,
                     InvalidError, MismatchError, NoMemoryError, NoPathError, OsError, PeerError,
                     ProtocolError, RangeError, StateError, Status, TimeoutError,
                     UnsupportedError, VersionError)
from .memory import Memory
from .p2p import Endpoint, Mode, P2PContext, Registration, Remote, Request, endpoint
from .progress import show_progress
from .reductions import Op, Type
from .window import Atomics, Compare, Region, SignalOp, Window, at


@_dataclasses.dataclass(frozen=True)
class Setting:
    """A setting of the library, as the environment has it now."""

    name: str
    value: str
    source: str
    help: str


@_dataclasses.dataclass(frozen=True)
class Feature:
    """A feature that this machine offers or lacks."""

    name: str
    is_present: bool
    detail: str
    serves: str


def version() -> str:
    """Version and commit of the library that is loaded."""
    return _text(_lib.oriel_version())


def include_folder() -> str:
    """Where the C headers of this package lie, for extensions that use the library."""
    return str(_FOLDER / "include")


def settings() -> _List[Setting]:
    """All settings: ORIEL_TIMEOUT and the others of docs/launch.md."""
    return _each(_lib.oriel_setting_get, _c.oriel_setting, lambda s: Setting(
        _text(s.name), _text(s.value), _text(s.source), _text(s.help)))


def features() -> _List[Feature]:
    """What this machine offers to the library."""
    return _each(_lib.oriel_feature_get, _c.oriel_feature, lambda f: Feature(
        _text(f.name), f.is_present, _text(f.detail), _text(f.serves)))


def _each(function: _Callable, struct: type, convert: _Callable) -> list:
    found: list = []
    while True:
        answer = _size_of(struct())
        try:
            function(len(found), _ctypes.byref(answer))
        except RangeError:
            return found
        found.append(convert(answer))


__all__ = [
    "AbortedError", "AccessError", "Algorithm", "AllGather", "AllReduce", "AllToAll", "Atomics",
    "AuthError", "Broadcast", "Comm", "Compare", "ConfigError", "Connect", "Endpoint", "Error",
    "Feature", "ForkedError", "Gather", "Health", "InvalidError", "JobId", "Memory",
    "MismatchError", "Mode", "NoMemoryError", "NoPathError", "Op", "OsError", "P2PContext", "Path",
    "Peer", "PeerError", "ProtocolError", "RangeError", "Reduce", "ReduceScatter", "Region",
    "Registration", "Remote", "Request", "SPLIT_DOMAIN", "SPLIT_NONE", "Scatter", "Setting",
    "SignalOp", "StateError", "Status", "TimeoutError", "Type", "UnsupportedError", "VersionError",
    "Window", "__version__", "at", "endpoint", "features", "include_folder", "run_threads",
    "settings", "show_progress", "version",
]
