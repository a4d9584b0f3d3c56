/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of the library that poll yield the CPU in between by this. */
#ifndef ORI_BASE_YIELD_H
#define ORI_BASE_YIELD_H

/*
 * Gives the CPU to other threads. One that keeps it for a slice of its own, milliseconds, shows
 * that threads compete for CPUs: from then on the calling thread has the shortest slices that Linux
 * gives. Its share of the CPU stays, and where no thread competes none has them.
 */
void ori_yield(void);

#endif
