#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A halo exchange: each rank has rows of a plate, and puts its outer rows into its neighbours'.
usage: oriel run -n 4 halo.py"""
import numpy
import oriel

ROWS, COLUMNS, STEPS = 16, 64, 50
UP, DOWN = 0, 1  # ids of signals: a row has come from below, from above


def smooth(plate):
    """The next state of all cells but the outer ones."""
    return 0.25 * (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:])


def beginning(ranks):
    plate = numpy.zeros((ROWS * ranks + 2, COLUMNS))
    plate[1:-1, 1:-1] = numpy.random.default_rng(1).random((ROWS * ranks, COLUMNS - 2))
    return plate


# [step]
def step(window, now, then, offset):
    """Compute @then, which lies at @offset of the window, from @now, both with a row of each
    neighbour above and below."""
    comm = window.comm
    above, below = comm.rank - 1, comm.rank + 1
    row = then[0].nbytes
    then[1:-1, 1:-1] = smooth(now)
    if above >= 0:
        window.put(above, offset + row * (ROWS + 1), then[1], signal=UP)
    if below < comm.size:
        window.put(below, offset, then[ROWS], signal=DOWN)
    if above >= 0:
        window.wait_signal_next(above, DOWN)
    if below < comm.size:
        window.wait_signal_next(below, UP)
    window.drain()  # the rows that were put may change again
# [/step]


def main():
    with oriel.Comm() as comm:
        nbytes = 8 * (ROWS + 2) * COLUMNS
        with oriel.Window(comm, 2 * nbytes) as window:
            plates = window.array("f8", (2, ROWS + 2, COLUMNS))
            plates[0] = beginning(comm.size)[ROWS * comm.rank:ROWS * (comm.rank + 1) + 2]
            window.barrier()
            for s in range(STEPS):
                step(window, plates[s % 2], plates[1 - s % 2], nbytes * (1 - s % 2))

            expected = beginning(comm.size)
            for _ in range(STEPS):
                expected[1:-1, 1:-1] = smooth(expected)
            mine = expected[ROWS * comm.rank + 1:ROWS * (comm.rank + 1) + 1]
            assert (plates[STEPS % 2, 1:-1] == mine).all()
            print(f"rank {comm.rank} of {comm.size}: every cell is right after {STEPS} steps")


if __name__ == "__main__":
    main()
