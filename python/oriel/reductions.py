# SPDX-License-Identifier: Apache-2.0
"""What is reduced, and how: types of elements and operations. oriel/reduce.h defines the bits of the
results, which do not depend on timing; docs/reductions.md has the algorithms. The communicator and
the persistent reductions call it."""
from __future__ import annotations

import ctypes
import enum
from typing import Any, Optional, Union

from . import _declarations as c
from ._library import lib, size_of
from .errors import InvalidError, UnsupportedError
from .memory import Borrowed


class Op(enum.IntEnum):
    """The operation of a reduction. An operation of a program's own is for C alone."""

    SUM = c.ORIEL_OP_SUM
    PROD = c.ORIEL_OP_PROD
    MIN = c.ORIEL_OP_MIN
    MAX = c.ORIEL_OP_MAX
    AVG = c.ORIEL_OP_AVG
    BAND = c.ORIEL_OP_BAND
    BOR = c.ORIEL_OP_BOR
    BXOR = c.ORIEL_OP_BXOR
    PREMUL_SUM = c.ORIEL_OP_PREMUL_SUM


class Type(enum.IntEnum):
    """The type of an element. Arrays of numpy and tensors tell theirs; bytes of a type that numpy
    does not have, such as BF16, are reduced with `type=`."""

    INT8 = c.ORIEL_TYPE_INT8
    INT16 = c.ORIEL_TYPE_INT16
    INT32 = c.ORIEL_TYPE_INT32
    INT64 = c.ORIEL_TYPE_INT64
    UINT8 = c.ORIEL_TYPE_UINT8
    UINT16 = c.ORIEL_TYPE_UINT16
    UINT32 = c.ORIEL_TYPE_UINT32
    UINT64 = c.ORIEL_TYPE_UINT64
    FP16 = c.ORIEL_TYPE_FP16
    BF16 = c.ORIEL_TYPE_BF16
    FP32 = c.ORIEL_TYPE_FP32
    FP64 = c.ORIEL_TYPE_FP64
    FP8_E4M3 = c.ORIEL_TYPE_FP8_E4M3
    FP8_E5M2 = c.ORIEL_TYPE_FP8_E5M2

    @property
    def size(self) -> int:
        """In bytes."""
        return lib.oriel_type_size(self)

    @property
    def text(self) -> str:
        """Its name: "fp32", ..."""
        return lib.oriel_type_name(self).decode()


# (letter, bytes): formats of the module struct by what they are, for any machine.
_SIGNED, _UNSIGNED, _FLOATS = "bhilqn", "BHILQN", "efd"
_INTEGERS = {1: (Type.INT8, Type.UINT8), 2: (Type.INT16, Type.UINT16), 4: (Type.INT32, Type.UINT32),
             8: (Type.INT64, Type.UINT64)}
_REALS = {2: Type.FP16, 4: Type.FP32, 8: Type.FP64}
# DLDataTypeCode of DLPack (dmlc.github.io/dlpack/latest/c_api.html): kDLInt, kDLUInt, kDLFloat,
# kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e5m2.
_CODES = {4: Type.BF16, 10: Type.FP8_E4M3, 12: Type.FP8_E5M2}

TypeLike = Union[Type, str, Any]  # a Type, or what numpy.dtype() takes


def _of_format(text: str) -> Optional[Type]:
    import struct  # pylint: disable=import-outside-toplevel
    letter = text.lstrip("@=<")
    if len(letter) != 1 or letter not in _SIGNED + _UNSIGNED + _FLOATS + "c":
        return None
    if letter in _FLOATS:
        return _REALS[struct.calcsize(letter)]
    if letter == "c":
        return Type.UINT8
    return _INTEGERS[struct.calcsize("@" + letter)][letter in _UNSIGNED]


def type_of(element: Any) -> Optional[Type]:
    """The type of elements as Borrowed.element says it; None: there is none for it."""
    if element is None or isinstance(element, str):
        return None if element is None else _of_format(element)
    code, bits = element
    if code in (0, 1):
        return _INTEGERS.get(bits // 8, (None, None))[code]
    return _REALS.get(bits // 8) if code == 2 else _CODES.get(code)


def type_like(kind: TypeLike) -> Type:
    """@kind as a Type. UnsupportedError: there are no reductions of it."""
    if isinstance(kind, Type):
        return kind
    import numpy  # pylint: disable=import-outside-toplevel
    dtype = numpy.dtype(kind)
    found = _of_format(dtype.char) if dtype.isnative else None
    if found is None:
        raise UnsupportedError(f"no reductions of {dtype}")
    return found


def is_bytes(element: Any) -> bool:
    """Whether elements are bytes, of which each type consists."""
    return _bare(element) in ("B", "c", (1, 8))


def _bare(element: Any) -> Any:
    return element.lstrip("@=<") if isinstance(element, str) else element


def check_result(what: str, source: Borrowed, target: Borrowed, kind: Optional[Type] = None) -> None:
    """InvalidError if the results of @what, which have the type of @source, or @kind, go to elements
    of another type."""
    sent, got = source.element, target.element
    if None in (sent, got) or is_bytes(got) or _bare(sent) == _bare(got):
        return
    if kind is None:
        kind = type_of(sent)
        # DLPack and the module struct have different names for what has no type here.
        if is_bytes(sent) or kind is type_of(got) is None and isinstance(sent, str) != isinstance(got, str):
            return
    if kind is None or type_of(got) != kind:
        raise InvalidError(f"{what}: recv has elements of {_name(got)}, the result those of "
                           f"{kind.text if kind else _name(sent)}; a view of its bytes takes any")


def _name(element: Any) -> str:
    kind = type_of(element)
    return kind.text if kind else f"format {element!r}"


def check_type(source: Borrowed, wanted: Optional[TypeLike]) -> Type:
    """The type of the elements of @source: the @wanted one, or its own."""
    kind = type_like(wanted) if wanted is not None else type_of(source.element)
    if kind is None:
        raise UnsupportedError(f"no reductions of elements of format {source.element!r}: pass type=")
    if source.length % kind.size:
        raise InvalidError(f"{source.length} bytes are no whole elements of type {kind.text}")
    return kind


class Reduction:
    """A reduction as the library takes it, with the factor that it may point to."""

    def __init__(self, kind: Type, op: Op, block: int, factor: Optional[float], fast: bool = False):
        self.type = kind
        self.struct = size_of(c.oriel_reduction(type=kind, op=op, block=block,
                                                flags=c.ORIEL_REDUCE_FAST if fast else 0))
        accumulation = lib.oriel_type_accumulation(kind, op)
        if accumulation == c.ORIEL_TYPE_NONE:
            raise UnsupportedError(f"no {Op(op).name} of elements of type {kind.text}")
        if (factor is None) == (op == Op.PREMUL_SUM):
            raise InvalidError("PREMUL_SUM needs a factor, and no other operation has one")
        if factor is not None:
            self._factor = _factor(factor, Type(accumulation))
            self.struct.factor = ctypes.addressof(self._factor)

    @property
    def pointer(self) -> Any:
        return ctypes.byref(self.struct)


def _factor(factor: float, kind: Type) -> Any:
    """@factor as the library reads it: of the accumulation type @kind."""
    if kind in (Type.FP32, Type.FP64):
        return (ctypes.c_float if kind == Type.FP32 else ctypes.c_double)(factor)
    try:
        whole = int(factor)
    except (OverflowError, ValueError):  # an infinity, or no number
        whole = None
    if whole != factor:
        raise InvalidError(f"PREMUL_SUM of {kind.text}: the factor {factor} is no whole number")
    return getattr(ctypes, f"c_{kind.name.lower()}")(whole)
