/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of the library that poll yield the CPU in between by this. */
#ifndef ORI_BASE_YIELD_H
#define ORI_BASE_YIELD_H

/*
 * Gives the CPU to other threads. A yield of more than 2.5 ms shows that threads compete for CPUs:
 * for 200 ms from then on the calling thread sleeps for 0.1 ms at a time instead.
 */
void ori_yield(void);

#endif
