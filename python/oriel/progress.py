# SPDX-License-Identifier: Apache-2.0
"""A line that says what a call waits for, once that takes long. comm.py and oriel.torch show it.

It is for people: on a terminal, or in a notebook, and on standard error. Files and pipes get nothing.
"""
from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Iterator

_AFTER_S = 1.5
_EVERY_S = 0.5

_is_wanted = True


def show_progress(is_wanted: bool) -> None:
    """Whether calls that take more than 1.5 s say on a terminal what they wait for. On at first."""
    global _is_wanted  # pylint: disable=global-statement
    _is_wanted = is_wanted


def _is_watched(stream: Any) -> bool:
    # The stream of a notebook is no terminal, but a user reads it.
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel."))


def _show(stream: Any, what: str, is_over: threading.Event) -> None:
    begun, width = time.monotonic(), 0
    if is_over.wait(_AFTER_S):
        return
    try:
        for marks in range(sys.maxsize):
            line = f"oriel: {what} {'.' * (marks % 4):3} {time.monotonic() - begun:.0f} s"
            width = max(width, len(line))
            stream.write("\r" + line)
            stream.flush()
            if is_over.wait(_EVERY_S):
                break
        stream.write("\r" + " " * width + "\r")
        stream.flush()
    except (OSError, ValueError):
        pass  # the terminal was closed


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Say @what while the block takes long."""
    stream = sys.stderr
    if not _is_wanted or not _is_watched(stream):
        yield
        return
    is_over = threading.Event()
    thread = threading.Thread(target=_show, args=(stream, what, is_over), name="oriel progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
