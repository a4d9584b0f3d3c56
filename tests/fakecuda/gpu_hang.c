/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_hang MODE: ranks of a job whose kernels wait; multi/hang_test.py starts it. Each prints "PID"
 * before. No thread waits: one answers as those of a GPU do, for as long as it is asked. "barrier":
 * all but rank 2 wait for it at slot 3, for the second time. "flat": at slot 5, of the flat
 * barrier. "pair": each rank waits for the next one at slot 2. "signals": rank 0 waits for two
 * signals of rank 1. "new": it begins to wait again and again. "nic": it waits for its NIC, which
 * has requests for rank 1. "flow": ranks go from one barrier to the next.
 */
#include <time.h>
#include <unistd.h>

#include "rank.h"

static const struct {
	const char *mode;
	struct oriel_dev_aim aim;
	uint64_t seen;
} waits[] = {
	{"barrier", {NULL, 2, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER, 2, 3}, 1},
	{"flat", {NULL, 3, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER_FLAT, ORIEL_DEV_NO_RANK, 5}, 2},
	{"pair", {NULL, 1, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER_PEER, 0, 2}, 0},
	{"signals", {NULL, 7, ORIEL_GE, ORIEL_DEV_WAIT_SIGNAL_FROM, 1, 4}, 6},
	{"signals", {NULL, 9, ORIEL_EQ, ORIEL_DEV_WAIT_SIGNAL_FROM, 1, 5}, 0},
	{"new", {NULL, 1, ORIEL_GE, ORIEL_DEV_WAIT_SIGNAL_FROM, 1, 6}, 0},
};

/* As detail/wait.h does it, for waits that have lasted 42 s, or 1 us. */
static void answer(const struct rank *r, const char *mode)
{
	uint32_t asked = ori_dev_load_relaxed32(&r->dev.health->asked);
	size_t i;

	if (strcmp(mode, "nic") == 0 && r->rank == 0)
		ori_dev_answer_nic(r->dev.health, asked, 1, UINT64_C(42000000000));
	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		struct oriel_dev_aim aim = waits[i].aim;

		if (strcmp(waits[i].mode, mode) != 0)
			continue;
		if (aim.what == ORIEL_DEV_BARRIER_PEER)
			aim.peer = (r->rank + 1) % r->size;
		else if (aim.what == ORIEL_DEV_WAIT_SIGNAL_FROM ? r->rank != 0 : r->rank == 2)
			continue;
		ori_dev_answer(r->dev.health, asked, r->dev.number, &aim, waits[i].seen,
			       strcmp(mode, "new") == 0 ? 1000 : UINT64_C(42000000000));
	}
}

int main(int argc, char **argv)
{
	const struct timespec pause = {0, 1000000};
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
	if (r.failures)
		return 1;
	printf("%d\n", (int)getpid());
	fflush(stdout);
	/* The test kills it. */
	while (flows)
		CHECK_OK(&r, oriel_dev_barrier(&r.dev, oriel_dev_thread(), 3, 0));
	for (;;) {
		answer(&r, argv[1]);
		nanosleep(&pause, NULL);
	}
}
