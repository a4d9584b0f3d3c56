/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators of fake GPUs: records of their windows, regions, the failure that is reported,
 * and what they accept. gpu_window calls its tests.
 */
#include <time.h>

#include "window_tests.h"

#define MANY 66 /* more windows than the records that are allocated at once */

static struct oriel_window *open_small(struct rank *r)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = 64,
					       .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_window *window = NULL;

	if (!CHECK_OK(r, oriel_window_create(r->comm, &attr, &window)))
		_Exit(1);
	return window;
}

/* Each window has a record of its own, which starts empty and ends with the window. */
void test_records(struct rank *r)
{
	struct oriel_window *windows[MANY];
	struct oriel_dev_fault fault;
	struct oriel_dev_window dev;
	unsigned left = 0, round, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < MANY; i++) {
			windows[i] = open_small(r);
			CHECK_OK(r, oriel_window_device(windows[i], &dev));
			CHECK(r, oriel_window_fault(windows[i], &fault) == ORIEL_AGAIN);
			CHECK(r,
			      oriel_dev_put_value(&dev, 0, 64 + 8 * i, 0, NULL) == ORIEL_ERR_RANGE);
		}
		for (i = 0; i < MANY; i++) {
			if (i % 2)
				CHECK(r, oriel_window_fault(windows[i], &fault) == ORIEL_OK &&
						 fault.seen == 64 + 8 * i + 8);
			oriel_window_destroy(windows[i]);
		}
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		if (round)
			CHECK(r, fakecuda_left() == left);
		left = fakecuda_left();
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
}

/* A region accepts each kind of memory. */
void test_region(struct rank *r)
{
	struct oriel_region *region = NULL;
	void *memory = NULL, *address = NULL;
	unsigned next = (r->rank + 1) % r->size;

	CHECK_OK(r, oriel_memory_alloc(8192, r->rank % 2 ? 0 : ORIEL_MEMORY_DEVICE, &memory));
	((char *)memory)[100] = (char)(r->rank + 1);
	CHECK_OK(r, oriel_region_register(r->comm, memory, 8192, &region));
	CHECK_OK(r, oriel_region_share(region));
	if (!is_remote(r, next)) {
		CHECK_OK(r, oriel_region_peer_address(region, next, 100, &address));
		CHECK(r, *(char *)address == (char)(next + 1));
	}
	oriel_region_unregister(region);
	oriel_memory_free(memory);
}

/* Rank 0 only polls memory here: all others have seen the failure when their words arrive. */
static void await_others(struct rank *r)
{
	const uint64_t *arrived = oriel_dev_address(&r->dev, 0, 0);
	unsigned tries, peer, count = 0;

	for (tries = 0; tries < 2000 && count + 1 < r->size; tries++) {
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		for (count = 0, peer = 1; peer < r->size; peer++)
			count += oriel_dev_load_acquire(&arrived[peer]) == 1;
	}
	CHECK(r, count + 1 == r->size);
}

/*
 * The limit of the communicator passes on rank 0. It has one of its own in its copy of the handle,
 * so that all ranks can join in the usual time, and waits until they have.
 */
void test_blame(struct rank *r)
{
	struct oriel_health health = {.size = sizeof(health)};
	struct oriel_dev_group g = oriel_dev_thread();
	struct oriel_dev_window impatient;

	rank_open(r, LONG_NS);
	impatient = r->dev;
	impatient.timeout_ns = 50000000;
	if (r->rank)
		CHECK(r, oriel_dev_signal(&r->dev, g, 0, 8, ORIEL_SIGNAL_ADD, 1, NULL) == ORIEL_OK);
	else
		CHECK_OK(r, oriel_dev_wait_signal(&r->dev, g, 8, ORIEL_GE, r->size - 1, 0));
	CHECK(r, oriel_dev_wait_signal_from(r->rank ? &r->dev : &impatient, g, r->rank, 9, ORIEL_GE,
					    1, r->rank ? ORIEL_TIMEOUT_INFINITE : 0) ==
			 ORIEL_ERR_TIMEOUT);
	if (r->rank == 0 && !is_remote(r, r->size - 1))
		await_others(r);
	else if (!is_remote(r, 0))
		CHECK_OK(r, oriel_dev_put_value(&r->dev, 0, 8 * r->rank, 1, NULL));
	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK(r, health.status == ORIEL_ERR_TIMEOUT && health.id == 9 && health.object == 1);
	CHECK(r, oriel_comm_barrier(r->comm) == ORIEL_ERR_TIMEOUT);
	rank_close(r);
}

void test_cpu_rank(struct rank *r)
{
	struct oriel_comm_attr comm = {.size = sizeof(comm),
				       .timeout_ns = LONG_NS,
				       .flags = r->rank ? 0 : ORIEL_COMM_GPU};
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = LENGTH,
					 .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_window *window = NULL;

	fakecuda_posted();
	CHECK_OK(r, oriel_comm_create(r->bootstrap, &comm, &r->comm));
	/* No kernel of the library is launched for the first time while other kernels wait. */
	CHECK(r, fakecuda_posted().kernels == (r->rank ? 0 : fakecuda_kernels()));
	if (r->size > 1)
		CHECK_FAILS(r, oriel_window_create(r->comm, &attr, &window), ORIEL_ERR_INVALID,
			    "ORIEL_COMM_GPU");
	attr.flags = 0;
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
	CHECK_OK(r, oriel_window_barrier(window, 0, 0));
	oriel_window_destroy(window);
	oriel_comm_destroy(r->comm);
}

/* A communicator for the CPU takes no memory of a GPU. */
void test_cpu_comm(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .timeout_ns = LONG_NS, .flags = 0};
	struct oriel_region *region = NULL;
	void *memory = NULL;

	CHECK_OK(r, oriel_comm_create(r->bootstrap, &attr, &r->comm));
	CHECK_OK(r, oriel_memory_alloc(4096, ORIEL_MEMORY_DEVICE, &memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory, 4096, &region));
	CHECK_FAILS(r, oriel_region_share(region), ORIEL_ERR_INVALID, "needs ORIEL_COMM_GPU");
	oriel_region_unregister(region);
	oriel_memory_free(memory);
	oriel_comm_destroy(r->comm);
}

void test_no_context(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .flags = ORIEL_COMM_GPU};
	struct oriel_comm *comm = NULL;

	if (r->rank == 0)
		cuCtxSetCurrent(NULL);
	CHECK_FAILS(r, oriel_comm_create(r->bootstrap, &attr, &comm), ORIEL_ERR_STATE,
		    "no CUDA context is current");
}
