# SPDX-License-Identifier: Apache-2.0
"""Exceptions, one for each failure status of the library. All modules raise them."""
from __future__ import annotations

import builtins
import enum

from . import _declarations as c


class Status(enum.IntEnum):
    """What a call of the library returned: 0 is success, failures are negative."""

    OK = c.ORIEL_OK
    AGAIN = c.ORIEL_AGAIN
    INVALID = c.ORIEL_ERR_INVALID
    RANGE = c.ORIEL_ERR_RANGE
    STATE = c.ORIEL_ERR_STATE
    NOMEM = c.ORIEL_ERR_NOMEM
    TIMEOUT = c.ORIEL_ERR_TIMEOUT
    PEER = c.ORIEL_ERR_PEER
    ABORTED = c.ORIEL_ERR_ABORTED
    MISMATCH = c.ORIEL_ERR_MISMATCH
    NO_PATH = c.ORIEL_ERR_NO_PATH
    UNSUPPORTED = c.ORIEL_ERR_UNSUPPORTED
    CONFIG = c.ORIEL_ERR_CONFIG
    AUTH = c.ORIEL_ERR_AUTH
    PROTOCOL = c.ORIEL_ERR_PROTOCOL
    VERSION = c.ORIEL_ERR_VERSION
    SYSTEM = c.ORIEL_ERR_SYSTEM
    ACCESS = c.ORIEL_ERR_ACCESS
    FORKED = c.ORIEL_ERR_FORKED


class Error(Exception):
    """A call of Oriel failed. str() is the text of the library, which names ranks and limits.

    `status` says which failure it is; each status has a subclass.
    """

    status: Status = Status.INVALID


class InvalidError(Error, ValueError):
    """An argument makes no sense."""

    status = Status.INVALID


class RangeError(Error, IndexError):
    """A rank, id, offset or length is beyond its limit."""

    status = Status.RANGE


class StateError(Error, RuntimeError):
    """The call came at the wrong moment: the object is closed, for instance."""

    status = Status.STATE


class NoMemoryError(Error, MemoryError):
    """Memory or descriptors are used up."""

    status = Status.NOMEM


class TimeoutError(Error, builtins.TimeoutError):  # pylint: disable=redefined-builtin
    """A limit passed. With a limit of the caller's own nothing is broken, and the call may be
    made again; the limit of the communicator breaks the communicator."""

    status = Status.TIMEOUT


class PeerError(Error, ConnectionError):
    """Another rank has left or died; the text names it."""

    status = Status.PEER


class AbortedError(Error, RuntimeError):
    """Some rank called Comm.abort()."""

    status = Status.ABORTED


class MismatchError(Error, ValueError):
    """The ranks disagree about a parameter; the text names it and the ranks."""

    status = Status.MISMATCH


class NoPathError(Error, ConnectionError):
    """No path leads to a peer."""

    status = Status.NO_PATH


class UnsupportedError(Error, RuntimeError):
    """This machine, build or memory cannot do it."""

    status = Status.UNSUPPORTED


class ConfigError(Error, ValueError):
    """A setting of the environment is unknown or wrong; the text names it."""

    status = Status.CONFIG


class AuthError(Error, PermissionError):
    """The other end is of another job, or bytes were altered."""

    status = Status.AUTH


class ProtocolError(Error, ConnectionError):
    """Bytes from a peer make no sense."""

    status = Status.PROTOCOL


class VersionError(Error, RuntimeError):
    """Ranks or libraries are of different versions."""

    status = Status.VERSION


class OsError(Error, OSError):
    """The operating system rejected a call."""

    status = Status.SYSTEM


class AccessError(Error, PermissionError):
    """Memory, of this rank or a peer, may not be used so."""

    status = Status.ACCESS


class ForkedError(Error, RuntimeError):
    """The object belongs to the process that forked this one."""

    status = Status.FORKED


BY_STATUS: dict[int, type[Error]] = {
    kind.status: kind for kind in vars().copy().values()
    if isinstance(kind, type) and issubclass(kind, Error) and kind is not Error
}
