#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first put of README.md, in Python. usage: oriel run -n 2 first_put.py"""
import oriel

# [main]
with oriel.Comm() as comm, oriel.Window(comm, 64) as window:
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    window.put(after, 0, b"greetings from rank %d" % comm.rank, signal=0)
    window.wait_signal_next(before, 0)
    print(f"rank {comm.rank} of {comm.size} got: {bytes(window.buffer[:21]).decode()}")
# [/main]
