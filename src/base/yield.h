/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of the library that poll yield the CPU in between by this. */
#ifndef ORI_BASE_YIELD_H
#define ORI_BASE_YIELD_H

/*
 * Gives the CPU to other threads. A yield of more than 2.5 ms shows that threads compete for CPUs:
 * the calling thread sleeps for 0.1 ms at a time instead then, for as long as the yield took, and
 * for twice as long each time that this is so again within 20 ms of its end, 200 ms at most.
 */
void ori_yield(void);

#endif
