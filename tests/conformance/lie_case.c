/* SPDX-License-Identifier: Apache-2.0 */
/* Claims that do not hold: each is found and reported once, on CPUs and on GPUs. */
#include "harness.h"

CASE void wrong_claims_are_reported(struct rank *r)
{
	CHECK(r, r->rank == r->size);
	CHECK_EQ(r, r->size + 7, r->size);
	CHECK_STATUS(r, ORIEL_ERR_RANGE, ORIEL_ERR_TIMEOUT);
	CHECK_POSTED(r, (int64_t)ORIEL_ERR_RANGE);
	CHECK(r, r->rank < r->size);
}

CASE void false_claim_in_fork(struct rank *r, unsigned index, void *context)
{
	(void)context;
	CHECK_EQ(r, index, 1);
}

CASE void wrong_claims_of_forks_are_reported(struct rank *r)
{
	rank_fork(r, 2, false_claim_in_fork, NULL);
}

/* A byte that a peer did not put has not arrived. */
CASE void missing_bytes_are_reported(struct rank *r)
{
	RANK_ARRAY(r, char, block, 64);

	group_fill(r->group, block, 64, r->rank);
	CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, rank_next(r), 0, block, 63, NULL));
	rank_flush_barrier(r);
	CHECK_EQ(r, wrong(r->base, 63, rank_prev(r)), 0);
	CHECK_EQ(r, wrong(r->base, 64, rank_prev(r)), 0);
}

#define LIE_CASES(ROW)                                               \
	ROW(wrong_claims_are_reported, NULL, 1, REPORTS(4))          \
	ROW(wrong_claims_of_forks_are_reported, NULL, 1, REPORTS(1)) \
	ROW(missing_bytes_are_reported, NULL, 1, REPORTS(1))

#define LIE_FORKS(ROW) ROW(false_claim_in_fork)

DEVICE_SUITE(lie, LIE_CASES, LIE_FORKS, NULL);
