/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random numbers of the software HCA: small, seeded, the same on every machine. Nodes seed
 * them; the wire, queues and memory draw.
 */
#ifndef ORI_HCA_SOFT_RAND_H
#define ORI_HCA_SOFT_RAND_H

#include <stdbool.h>
#include <stdint.h>

#define SOFT_CERTAIN (UINT64_C(1) << 32) /* probability 1 */

struct soft_rand {
	uint64_t state;
};

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t soft_rand_next(struct soft_rand *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* From 0 to @end - 1; 0 if @end is 0. */
static inline uint64_t soft_rand_below(struct soft_rand *r, uint64_t end)
{
	return end ? soft_rand_next(r) % end : 0;
}

/* True with probability @chance / SOFT_CERTAIN. An impossible event draws no number. */
static inline bool soft_rand_chance(struct soft_rand *r, uint64_t chance)
{
	return chance && (soft_rand_next(r) >> 32) < chance;
}

#endif
