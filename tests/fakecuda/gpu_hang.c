/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_hang MODE: ranks of a job whose windows, in memory of fake GPUs, have arrivals of kernels
 * that no peer answers; multi/hang_test.py starts it. Each prints "PID" before. No thread waits:
 * with arrivals alone the words are those that a kernel which waits has left. "barrier": all but
 * rank 2 have arrived at slot 3, for the second time. "flat": at slot 5, of the flat barrier.
 * "pair": each rank has arrived for the next one at slot 2. "flow": ranks go from one
 * barrier to the next.
 */
#include <unistd.h>

#include "rank.h"

static void arrive(struct rank *r, const char *how)
{
	struct oriel_dev_group me = oriel_dev_thread();

	if (strcmp(how, "pair") == 0)
		CHECK_OK(r, oriel_dev_barrier_peer_arrive(&r->dev, me, (r->rank + 1) % r->size, 2));
	else if (r->rank == 2)
		return;
	else if (strcmp(how, "flat") == 0)
		CHECK_OK(r, oriel_dev_barrier_flat_arrive(&r->dev, me, 5));
	else
		CHECK_OK(r, oriel_dev_barrier_arrive(&r->dev, me, 3));
}

int main(int argc, char **argv)
{
	struct rank r = {0};
	bool flows;

	if (argc != 2)
		return 2;
	rank_use_gpu(&r);
	rank_open(&r, ORIEL_TIMEOUT_INFINITE);
	r.rank = oriel_comm_rank(r.comm);
	r.size = oriel_comm_size(r.comm);
	CHECK_OK(&r, oriel_dev_barrier(&r.dev, oriel_dev_thread(), 3, 0));
	flows = strcmp(argv[1], "flow") == 0;
	if (!flows)
		arrive(&r, argv[1]);
	if (r.failures)
		return 1;
	printf("%d\n", (int)getpid());
	fflush(stdout);
	/* The test kills it. */
	while (flows)
		CHECK_OK(&r, oriel_dev_barrier(&r.dev, oriel_dev_thread(), 3, 0));
	for (;;)
		pause();
}
