# SPDX-License-Identifier: Apache-2.0
"""Buffers of callers, and memory of the library as arrays."""
import array
import ctypes
import gc
import mmap

import numpy
import oriel
import pytest
from oriel.memory import Borrowed


class OnlyDlpack:
    """As tensors of torch: no buffer protocol."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **arguments):
        return self.values.__dlpack__(**arguments)


@pytest.mark.parametrize("source", [
    b"12345678", bytearray(8), memoryview(bytearray(8)), array.array("d", [1.0]), numpy.arange(2, dtype="i4"),
    (ctypes.c_char * 8)(), mmap.mmap(-1, 8), OnlyDlpack(numpy.arange(4, dtype="i2")),
], ids=lambda s: type(s).__name__)
def test_any_buffer_serves(source):
    borrowed = Borrowed(source)
    assert borrowed.length == 8
    assert len(ctypes.string_at(borrowed.address, 8)) == 8


def test_a_dlpack_tensor_is_read_in_place():
    values = numpy.arange(6, dtype="f4").reshape(2, 3)
    borrowed = Borrowed(OnlyDlpack(values), is_written=True)
    ctypes.memset(borrowed.address, 0, 4)
    ctypes.memset(borrowed.address + 20, 0, 4)
    assert values.tolist() == [[0, 1, 2], [3, 4, 0]]


@pytest.mark.parametrize("source, why", [
    (numpy.zeros((4, 4))[:, 1], "contiguous"), (OnlyDlpack(numpy.zeros((4, 4))[:, 1]), "contiguous"),
    (3, "no bytes"), ("text", "no bytes"), ([1, 2], "no bytes"),
])
def test_what_has_no_bytes_in_a_row_is_named(source, why):
    with pytest.raises(oriel.InvalidError, match=why):
        Borrowed(source)


@pytest.mark.parametrize("source", [b"bytes", memoryview(b"bytes")])
def test_results_need_writable_memory(source):
    with pytest.raises(oriel.InvalidError, match="written"):
        Borrowed(source, is_written=True)


class OldDlpack(OnlyDlpack):
    """Of a library from before DLPack 1.0."""

    def __dlpack__(self):  # pylint: disable=arguments-differ
        return self.values.__dlpack__()


def read_only(count):
    values = numpy.arange(count, dtype="f4")
    values.flags.writeable = False
    return values


def test_a_tensor_that_is_read_only_is_read_and_not_written():
    values = read_only(3)
    borrowed = Borrowed(OnlyDlpack(values), is_typed=True)
    assert ctypes.string_at(borrowed.address, borrowed.length) == values.tobytes() and borrowed.element == (2, 32)
    with pytest.raises(oriel.InvalidError, match="OnlyDlpack cannot be written in place: it is read-only"):
        Borrowed(OnlyDlpack(values), is_written=True)
    values = numpy.zeros(3, "f4")
    ctypes.memset(Borrowed(OldDlpack(values), is_written=True).address, 255, 4)
    assert numpy.isnan(values[0]) and values[1] == 0


def test_what_an_exporter_says_is_an_error_of_oriel():
    # numpy cannot say that an array is read-only before DLPack 1.0, and refuses.
    with pytest.raises(oriel.InvalidError, match="OldDlpack gives no bytes by __dlpack__: .*readonly") as caught:
        Borrowed(OldDlpack(read_only(3)))
    assert isinstance(caught.value.__cause__, BufferError)


def test_a_borrowed_bytearray_cannot_be_resized_until_it_is_let_go():
    source = bytearray(8)
    borrowed = Borrowed(source)
    with pytest.raises(BufferError):
        source.extend(b"more")
    del borrowed
    source.extend(b"more")


def test_memory_lives_as_long_as_its_arrays():
    memory = oriel.Memory(4096)
    address, values = memory.address, memory.array("i8", (2, 3), offset=16)
    values[:] = 7
    del memory
    gc.collect()
    assert values.sum() == 42 and values.ctypes.data == address + 16
    part = values[1:]
    del values
    gc.collect()
    assert part.sum() == 21


def test_memory_is_freed_with_its_last_array():
    memory = oriel.Memory(4096)
    address, view = memory.address, memory.buffer
    del memory
    gc.collect()
    view[:4] = b"abcd"
    del view
    gc.collect()
    with pytest.raises(oriel.InvalidError):
        oriel._library.lib.oriel_memory_free(address)


def test_arrays_stay_inside():
    memory = oriel.Memory(64)
    assert memory.array("f8").shape == (8,) and memory.array("f8", 2, 48).shape == (2,)
    for shape, offset in ((9, 0), (2, 56), (1, -8), (1, 64)):
        with pytest.raises(oriel.RangeError, match="exceeds"):
            memory.array("f8", shape, offset)
    with pytest.raises(oriel.InvalidError):
        oriel.Memory(0)
    assert "64 bytes" in repr(memory)
