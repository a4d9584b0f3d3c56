# SPDX-License-Identifier: Apache-2.0
"""A call that takes long says so on a terminal, and nowhere else."""
import io
import os
import pty
import subprocess
import sys
import threading

import oriel
from oriel import progress

RANK = """
import sys, oriel
with oriel.Comm.from_id(bytes.fromhex(sys.argv[1]), 1, 2) as comm:
    comm.barrier()
"""


def test_a_terminal_shows_what_a_rank_waits_for():
    ours, theirs = pty.openpty()
    with oriel.JobId() as job:
        with subprocess.Popen([sys.executable, "-c", RANK, bytes(job).hex()], stderr=theirs) as other:
            os.close(theirs)
            seen = b""
            while b"waiting for the other ranks of 2" not in seen:
                seen += os.read(ours, 1000)
            with oriel.Comm.from_id(bytes(job), 0, 2) as comm:
                comm.barrier()
            assert other.wait(60) == 0
            try:
                while True:
                    seen += os.read(ours, 1000)
            except OSError:  # the other end is closed
                pass
    os.close(ours)
    assert seen.startswith(b"\roriel: waiting") and b" s" in seen and seen.endswith(b" \r"), seen


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal
        self.is_written = threading.Event()

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.is_written.set()
        return super().write(text)


def test_only_terminals_and_notebooks_are_written_to(monkeypatch):
    monkeypatch.setattr(progress, "_AFTER_S", 0)
    notebook = type("OutStream", (Stream,), {"__module__": "ipykernel.iostream"})(False)
    for stream in (Stream(True), notebook):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.progress("waiting"):
            assert stream.is_written.wait(60)
        assert "\roriel: waiting " in stream.getvalue() and stream.getvalue().endswith(" \r")
    for stream, is_wanted in ((Stream(False), True), (Stream(True), False), (None, True)):
        monkeypatch.setattr(sys, "stderr", stream)
        oriel.show_progress(is_wanted)
        try:
            with progress.progress("waiting"):
                assert "oriel progress" not in [thread.name for thread in threading.enumerate()]
        finally:
            oriel.show_progress(True)
        assert stream is None or stream.getvalue() == ""
