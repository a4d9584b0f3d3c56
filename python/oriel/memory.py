# SPDX-License-Identifier: Apache-2.0
"""Memory: addresses of what callers pass, and memory of the library as arrays.

Every call of this package takes any contiguous buffer: of bytes, bytearray, memoryview, array,
mmap, numpy, or of an object with `__dlpack__` (torch, jax), in host memory.
"""
from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Optional, Tuple

from . import _declarations as c
from ._library import failure, lib
from .errors import InvalidError, Status, UnsupportedError

# Of Python's buffer protocol: PyBUF_SIMPLE, PyBUF_WRITABLE, and PyBUF_ND with PyBUF_FORMAT, which is
# contiguous memory as the first, with the type of its elements. Some types have no format.
_SIMPLE, _WRITABLE, _TYPED = 0, 1, 0x8 | 0x4


class _PyBuffer(ctypes.Structure):
    """Py_buffer, as the stable ABI of Python 3.11 has it (docs.python.org/3/c-api/buffer.html)."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]


class _Tensor(ctypes.Structure):
    """DLTensor of DLPack (dmlc.github.io/dlpack/latest/c_api.html), the head of what a capsule
    named "dltensor" points to."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, of DLPack 1.0 on, in a capsule named "dltensor_versioned"."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]


_HOST_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost
_READ_ONLY = 1          # DLPACK_FLAG_BITMASK_READ_ONLY

_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_is.restype = ctypes.c_int


class Borrowed:
    """The bytes of @source, which stay where they are as long as this object lives.

    element: with `is_typed` what the source says of the type of its elements, a format of the module
    struct, or (code, bits) of DLPack; None if it has elements and no format for them.
    """

    __slots__ = ("address", "length", "element", "_buffer", "_keep")

    def __init__(self, source: Any, is_written: bool = False, is_typed: bool = False):
        flags = (_WRITABLE if is_written else _SIMPLE) | (_TYPED if is_typed else 0)
        self._buffer: Optional[_PyBuffer] = None
        buffer = _PyBuffer()
        has_format = is_typed
        try:
            try:
                _get_buffer(source, ctypes.byref(buffer), flags)
            except (BufferError, ValueError):
                if not is_typed:
                    raise
                # Dates of numpy, for instance, have bytes and no format.
                has_format = False
                _get_buffer(source, ctypes.byref(buffer), flags & ~_TYPED)
        except TypeError:
            if not hasattr(source, "__dlpack__"):
                raise InvalidError(f"{type(source).__name__} has no bytes: neither the buffer "
                                   "protocol nor __dlpack__") from None
            self._borrow_tensor(source, is_written)
        except (BufferError, ValueError) as error:
            what = "written" if is_written else "read"
            raise InvalidError(f"this {type(source).__name__} cannot be {what} in place: {error}; "
                               "it must be contiguous, and writable for results") from None
        else:
            self._buffer = buffer
            self.address, self.length = buffer.buf or 0, buffer.len
            self.element: Any = (buffer.format or b"B").decode() if has_format else None

    def _borrow_tensor(self, source: Any, is_written: bool) -> None:
        capsule = _export(source)  # frees what it holds when it is collected
        if _capsule_is(capsule, b"dltensor_versioned"):
            versioned = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
            if versioned.major != 1:
                raise UnsupportedError(f"this {type(source).__name__} exports DLPack {versioned.major}."
                                       f"{versioned.minor}, not 1.x")
            if is_written and versioned.flags & _READ_ONLY:
                raise InvalidError(f"this {type(source).__name__} cannot be written in place: it is "
                                   "read-only")
            tensor = versioned.tensor
        else:
            tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        if tensor.device_type not in _HOST_DEVICES:
            raise UnsupportedError(f"this {type(source).__name__} is in memory of a device (DLPack "
                                   f"type {tensor.device_type}); this call takes host memory")
        count, stride = 1, 1
        for axis in reversed(range(tensor.ndim)):
            extent = tensor.shape[axis]
            if tensor.strides and extent > 1 and tensor.strides[axis] != stride:
                raise InvalidError(f"this {type(source).__name__} is not contiguous")
            stride *= extent
            count *= extent
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.length = count * tensor.bits * tensor.lanes // 8
        self.element = tensor.code, tensor.bits
        self._keep = (source, capsule)

    def __del__(self):
        if self._buffer is not None:
            _release_buffer(ctypes.byref(self._buffer))


def _export(source: Any) -> Any:
    """The capsule of DLPack of @source. One before 1.0 does not say whether it may be written."""
    try:
        try:
            return source.__dlpack__(max_version=(1, 0))
        except TypeError:  # it does not know that yet
            return source.__dlpack__()
    except Exception as error:
        raise InvalidError(f"this {type(source).__name__} gives no bytes by __dlpack__: {error}") from error


class _Bytes(ctypes.Array):
    """What arrays over memory of the library have as their base; it holds the memory's owner."""

    _type_ = ctypes.c_ubyte
    _length_ = 0
    owner: object


_bytes_types: dict = {}


def bytes_at(address: int, length: int, owner: object) -> ctypes.Array:
    """@length bytes at @address, which hold a reference to @owner."""
    kind = _bytes_types.get(length)
    if kind is None:
        kind = _bytes_types.setdefault(
            length, type("_Bytes", (_Bytes,), {"_length_": length, "_type_": ctypes.c_ubyte}))
        if len(_bytes_types) > 256:
            _bytes_types.clear()
    view = kind.from_address(address)
    view.owner = owner
    return view


def array_of(view: ctypes.Array, dtype: Any, shape: Any, offset: int):
    """A numpy array of @dtype and @shape, all that fits if None, over @view from @offset bytes."""
    import numpy  # pylint: disable=import-outside-toplevel
    dtype = numpy.dtype(dtype)
    room = len(view) - offset
    if shape is None:
        shape = (max(room, 0) // dtype.itemsize,)
    elif isinstance(shape, int):
        shape = (shape,)
    length = dtype.itemsize
    for extent in shape:
        length *= extent
    if offset < 0 or length > room:
        raise failure(Status.RANGE, f"an array of {length} bytes at offset {offset} exceeds the "
                                    f"{len(view)} bytes of this memory")
    return numpy.ndarray(tuple(shape), dtype, buffer=view, offset=offset)


class Views:
    """Counts the arrays over memory that a close would unmap, so that none is left dangling."""

    def __init__(self) -> None:
        self._live: dict = {}  # by id: arrays of ctypes have no hash

    def add(self, view: ctypes.Array) -> ctypes.Array:
        key = id(view)
        self._live[key] = weakref.ref(view, lambda _: self._live.pop(key, None))
        return view

    def refuse_any(self, what: str) -> None:
        """StateError while any array is left; @what is the object that would be closed."""
        if count := len(self._live):
            raise failure(Status.STATE, f"{what} cannot be closed: {count} array(s) over memory of "
                                        "its peers are still in use; delete them first")


class Memory:
    """Zeroed memory of this process that other ranks can map: for windows, regions and zero copy.

    Local; any thread. `length` is in bytes. It is freed when the last array over it, and the last
    object that shares it, is no more, so that no array ever dangles. `huge` asks for huge pages.

    >>> memory = oriel.Memory(1 << 20)
    >>> values = memory.array("f4")
    """

    def __init__(self, length: int, huge: bool = False):
        pointer = ctypes.c_void_p()
        if length <= 0:
            raise InvalidError(f"memory of {length} bytes")
        flags = c.ORIEL_MEMORY_HUGE if huge else 0
        lib.oriel_memory_alloc(length, flags, ctypes.byref(pointer))
        self.address: int = pointer.value or 0
        self.length = length
        self._pid = os.getpid()
        self._end = weakref.finalize(self, _free, self.address, self._pid)
        self._end.atexit = False  # the process returns it then

    @property
    def buffer(self) -> memoryview:
        """All of it as writable bytes."""
        return memoryview(bytes_at(self.address, self.length, self)).cast("B")

    def array(self, dtype: Any = "u1", shape: Any = None, offset: int = 0) -> Any:
        """A numpy array over it: `shape` in elements (all that fits if None), from byte `offset`.

        RangeError: it does not fit.
        """
        return array_of(bytes_at(self.address, self.length, self), dtype, shape, offset)

    def __repr__(self) -> str:
        return f"<oriel.Memory of {self.length} bytes at {self.address:#x}>"


def _free(address: int, pid: int) -> None:
    if pid == os.getpid():
        lib.oriel_memory_free(address)


def shape_of(source: Any) -> Tuple[int, ...]:
    """The shape of @source as numpy sees it."""
    import numpy  # pylint: disable=import-outside-toplevel
    return numpy.asarray(source).shape


def result_of_shape(source: Any, shape: Tuple[int, ...], recv: Any) -> Tuple[Any, Borrowed]:
    """@recv, or a new array of numpy of @shape with elements as @source has, and its bytes."""
    if recv is None:
        import numpy  # pylint: disable=import-outside-toplevel
        recv = numpy.empty(shape, numpy.asarray(source).dtype)
    return recv, Borrowed(recv, is_written=True, is_typed=True)


def result_like(source: Any, count: int, recv: Any) -> Tuple[Any, Borrowed]:
    """@recv, or a new array of numpy for @count times @source, and its bytes."""
    return result_of_shape(source, (count, *shape_of(source)) if recv is None else (), recv)
