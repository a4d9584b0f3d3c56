#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks from a shared counter, and results put where they belong: no rank hands out the work.
usage: oriel run -n 4 windows.py"""
import numpy
import oriel

TASKS = 200
COUNTER = 0  # offset, on rank 0, of the number of the next task
RESULTS = 64  # offset of the results
DONE = 0  # id of a signal: one for each task


def work(task):
    return float(task) ** 2


# [main]
def main():
    with oriel.Comm() as comm, oriel.Window(comm, RESULTS + 8 * TASKS) as window:
        tasks = 0
        while (task := window.fetch_add(0, COUNTER, 1)) < TASKS:
            window.put(0, RESULTS + 8 * task, numpy.float64(work(task)), signal=DONE)
            tasks += 1
        window.drain()
        print(f"rank {comm.rank} did {tasks} tasks")
        if comm.rank == 0:
            window.wait_signal(DONE, TASKS)
            results = window.array("f8", TASKS, RESULTS)
            assert (results == numpy.arange(TASKS) ** 2.0).all()
            print(f"{TASKS} tasks were done once each")
# [/main]


if __name__ == "__main__":
    main()
