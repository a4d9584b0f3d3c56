/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and regions: which memory may be shared, where peers map it, how long it lives. */
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH 50000u

static void check_dead(struct rank *r, enum oriel_status got, enum oriel_status expected,
		       const char *part)
{
	CHECK_STATUS(r, got, expected);
	CHECK_TEXT(r, oriel_last_error(), part);
}

static void allocated_memory_is_zeroed(struct rank *r)
{
	enum oriel_status status;
	void *a, *b, *huge;

	CHECK_OK(r, oriel_memory_alloc(1, 0, &a));
	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, &b));
	CHECK(r, a != b);
	CHECK_EQ(r, not_all(b, LENGTH, 0), 0);
	memset(b, 1, LENGTH);
	oriel_memory_free(a);
	CHECK_EQ(r, not_all(b, LENGTH, 1), 0);
	oriel_memory_free(b);
	oriel_memory_free(NULL);
	status = oriel_memory_alloc(LENGTH, ORIEL_MEMORY_HUGE, &huge);
	CHECK(r, status == ORIEL_OK || status == ORIEL_ERR_UNSUPPORTED);
	if (status == ORIEL_OK)
		oriel_memory_free(huge);
	else
		CHECK_TEXT(r, oriel_last_error(), "huge");
	CHECK_STATUS(r, oriel_memory_alloc(0, 0, &a), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_memory_alloc(1, 1u << 30, &a), ORIEL_ERR_INVALID);
}

/* Ranks that share a process must not allocate between the two calls. */
static void memory_is_freed_once(struct rank *r)
{
	char *memory = NULL;

	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, (void **)&memory));
	check_dead(r, oriel_memory_free(memory + 64), ORIEL_ERR_INVALID, "not the start");
	memory[64] = 1;
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	oriel_memory_free(memory);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_STATUS(r, oriel_memory_alloc(0, 0, (void **)&memory), ORIEL_ERR_INVALID);
	check_dead(r, oriel_memory_free(memory), ORIEL_ERR_INVALID, "oriel_memory_free");
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

/* Check that this rank sees the right bytes where it maps @peer's @region. */
static void check_mapped(struct rank *r, const struct oriel_region *region, unsigned peer,
			 size_t length)
{
	void *at;

	if (!CHECK_OK(r, oriel_region_peer_address(region, peer, 0, &at)))
		return;
	CHECK_EQ(r, wrong(at, length, peer), 0);
	CHECK_OK(r, oriel_region_peer_address(region, peer, length - 1, &at));
	CHECK_STATUS(r, oriel_region_peer_address(region, peer, length, &at), ORIEL_ERR_RANGE);
}

/*
 * Check that every rank's @region, of peer + 1 times @unit bytes, is where peers map it, and
 * that it has no address elsewhere.
 */
static void check_region(struct rank *r, const struct oriel_region *region, char *mine, size_t unit)
{
	unsigned peer;
	size_t length;
	void *at;

	fill(mine, unit * (r->rank + 1), r->rank);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (peer = 0; peer < r->size; peer++) {
		CHECK_OK(r, oriel_region_peer_length(region, peer, &length));
		CHECK_EQ(r, length, unit * (peer + 1));
		if (rank_is_in_domain(r, peer))
			check_mapped(r, region, peer, length);
		else
			CHECK_STATUS(r, oriel_region_peer_address(region, peer, 0, &at),
				     ORIEL_ERR_NO_PATH);
	}
	CHECK_OK(r, oriel_region_peer_address(region, r->rank, 0, &at));
	CHECK(r, at == mine);
	CHECK_STATUS(r, oriel_region_peer_length(region, r->size, &length), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_region_peer_address(region, r->size, 0, &at), ORIEL_ERR_RANGE);
}

/* ExchangeNvlBufferMultipleRoundTrips; N1: peers once got the start of the allocation instead. */
static void parts_of_an_allocation_keep_their_offset(struct rank *r)
{
	static const size_t offsets[] = {0, 4096, 8192 + 64, 12289, 1};
	const size_t unit = 1000;
	struct oriel_region *region = NULL;
	char *memory = NULL;
	size_t i;

	CHECK_OK(r, oriel_memory_alloc(16384 + unit * (r->rank + 1), 0, (void **)&memory));
	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		size_t offset = offsets[(i + r->rank) % 5];

		CHECK_OK(r, oriel_region_register(r->comm, memory + offset, unit * (r->rank + 1),
						  &region));
		CHECK_OK(r, oriel_region_share(region));
		check_region(r, region, memory + offset, unit);
		oriel_region_unregister(region);
	}
	oriel_memory_free(memory);
}

/* N1: sharing one pointer again once replaced the mappings of the first time. */
static void one_range_may_be_shared_twice(struct rank *r)
{
	struct oriel_region *first = NULL, *second = NULL;
	char *memory = NULL;

	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, (void **)&memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory, 100 * (r->rank + 1), &first));
	CHECK_OK(r, oriel_region_register(r->comm, memory, 10 * (r->rank + 1), &second));
	CHECK_OK(r, oriel_region_share(first));
	CHECK_OK(r, oriel_region_share(second));
	oriel_region_unregister(second);
	check_region(r, first, memory, 100);
	oriel_region_unregister(first);
	oriel_memory_free(memory);
}

static void regions_are_shared_once(struct rank *r)
{
	struct oriel_region *region = NULL;
	size_t length = 0;
	void *at = NULL;

	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, &at));
	CHECK_OK(r, oriel_region_register(r->comm, at, LENGTH, &region));
	CHECK_STATUS(r, oriel_region_peer_length(region, r->rank, &length), ORIEL_ERR_STATE);
	CHECK_STATUS(r, oriel_region_peer_address(region, r->rank, 0, &at), ORIEL_ERR_STATE);
	CHECK_TEXT(r, oriel_last_error(), "not shared");
	CHECK_OK(r, oriel_region_share(region));
	CHECK_STATUS(r, oriel_region_share(region), ORIEL_ERR_STATE);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	oriel_region_unregister(region);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	check_dead(r, oriel_region_unregister(region), ORIEL_ERR_STATE, "region");
	CHECK_OK(r, oriel_region_unregister(NULL));
	oriel_memory_free(at);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

static void any_memory_may_be_a_local_source(struct rank *r)
{
	struct oriel_region *region = NULL;
	char *memory = malloc(LENGTH);

	CHECK_OK(r, oriel_region_register(r->comm, memory, LENGTH, &region));
	/* A region that was never shared is local: each rank unregisters it alone. */
	oriel_region_unregister(region);
	CHECK_STATUS(r, oriel_region_register(r->comm, memory, 0, &region), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_region_register(r->comm, NULL, 1, &region), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_region_register(r->comm, memory, SIZE_MAX, &region),
		     ORIEL_ERR_INVALID);
	free(memory);
}

/* Whether @owner has a peer in another process that would map its memory. */
static bool is_mapped_by_others(const struct rank *r, unsigned owner)
{
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		if (rank_is_foreign(r, peer, owner))
			return true;
	return false;
}

/* N2: when one rank's buffer could not be exported, the others hung. */
static void one_private_buffer_fails_all(struct rank *r)
{
	struct oriel_region *region = NULL;
	char *private = malloc(LENGTH);
	void *memory = NULL;

	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, &memory));
	CHECK_OK(r,
		 oriel_region_register(r->comm, r->rank == 1 ? private : memory, LENGTH, &region));
	if (is_mapped_by_others(r, 1)) {
		CHECK_STATUS(r, oriel_region_share(region), ORIEL_ERR_UNSUPPORTED);
		CHECK_TEXT(r, oriel_last_error(), "oriel_memory_alloc");
		if (r->rank != 1)
			CHECK_TEXT(r, oriel_last_error(), "rank 1");
	} else {
		CHECK_OK(r, oriel_region_share(region));
	}
	oriel_region_unregister(region);
	oriel_memory_free(memory);
	free(private);
}

/* The library needs no file where no other process maps the memory. */
static void private_memory_may_be_shared_with_threads(struct rank *r)
{
	struct oriel_region *region = NULL;
	char *private = malloc(LENGTH);
	unsigned peer, owners = 0;

	for (peer = 0; peer < r->size; peer++)
		owners += is_mapped_by_others(r, peer);
	if (owners == 0) {
		CHECK_OK(r,
			 oriel_region_register(r->comm, private + 3, 100 * (r->rank + 1), &region));
		CHECK_OK(r, oriel_region_share(region));
		check_region(r, region, private + 3, 100);
		oriel_region_unregister(region);
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	free(private);
}

/* CudaIpcOpen: the memory lives as long as a window over it. */
static void freed_memory_stays_until_it_is_not_shared(struct rank *r)
{
	struct oriel_region *region = NULL;
	char *memory = NULL;

	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, (void **)&memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory, 70 * (r->rank + 1), &region));
	CHECK_OK(r, oriel_region_share(region));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	oriel_memory_free(memory);
	check_region(r, region, memory, 70);
	oriel_region_unregister(region);
}

static void a_file_of_the_user_can_be_shared(struct rank *r)
{
	int fd = memfd_create("conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct oriel_region *region = NULL;
	char *map;

	CHECK(r, fd >= 0 && ftruncate(fd, 65536) == 0);
	map = mmap(NULL, 65536 - 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
	CHECK(r, map != MAP_FAILED);
	if (CHECK_OK(r, oriel_memory_take_fd(map, 65536 - 4096, fd, 4096))) {
		CHECK(r, fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
		CHECK_OK(r, oriel_region_register(r->comm, map + 77, 900 * (r->rank + 1), &region));
		CHECK_OK(r, oriel_region_share(region));
		check_region(r, region, map + 77, 900);
		oriel_region_unregister(region);
		oriel_memory_release(map);
		CHECK(r, map[0] == 0);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		check_dead(r, oriel_memory_release(map), ORIEL_ERR_INVALID, "oriel_memory_release");
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
	munmap(map, 65536 - 4096);
}

/* The library rejects a file that could shrink while it is mapped; its owner keeps it. */
static void a_file_that_cannot_be_sealed_is_rejected(struct rank *r)
{
	FILE *file = tmpfile();
	char *map;

	CHECK(r, file && ftruncate(fileno(file), 4096) == 0);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	CHECK(r, map != MAP_FAILED);
	CHECK_STATUS(r, oriel_memory_take_fd(map, 4096, fileno(file), 0), ORIEL_ERR_UNSUPPORTED);
	CHECK(r, fcntl(fileno(file), F_GETFD) >= 0);
	munmap(map, 4096);
	fclose(file);
}

/* Ranks that share a process may allocate meanwhile: only identities at one address are compared.
 */
static void memory_has_an_identity_until_it_is_freed(struct rank *r)
{
	uint64_t first = 0, again = 0, part = 0;
	struct oriel_region *region = NULL;
	char *memory = NULL, private[64];

	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, (void **)&memory));
	CHECK_OK(r, oriel_memory_identity(r->comm, memory, LENGTH, &first));
	CHECK_OK(r, oriel_memory_identity(r->comm, memory + 100, 1, &part));
	CHECK(r, first != 0 && part == first);
	CHECK_OK(r, oriel_region_register(r->comm, memory, LENGTH, &region));
	CHECK_OK(r, oriel_region_share(region));
	/* The region keeps the memory, so that its address goes to no other memory. */
	oriel_memory_free(memory);
	CHECK_OK(r, oriel_memory_identity(r->comm, memory, LENGTH, &again));
	CHECK_EQ(r, again, 0);
	oriel_region_unregister(region);
	CHECK_OK(r, oriel_memory_identity(r->comm, private, sizeof(private), &again));
	CHECK_EQ(r, again, 0);
	CHECK_STATUS(r, oriel_memory_identity(r->comm, NULL, 1, &again), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_memory_identity(r->comm, private, 0, &again), ORIEL_ERR_INVALID);
}

struct attached {
	struct oriel_window *window;
	struct attached *other; /* closed before this one */
	bool is_closed, is_in_order;
};

static void attached_close(struct oriel_comm *comm, void *object)
{
	struct attached *a = object;

	a->is_closed = true;
	a->is_in_order = !a->other || a->other->is_closed;
	oriel_window_destroy(a->window);
	(void)oriel_comm_barrier(comm);
}

/* They are closed before children are counted, the last one first, and may be collective. */
static void attached_objects_are_closed_with_the_communicator(struct rank *r)
{
	static const char keys[2];
	struct oriel_window_attr attr = {.size = sizeof(attr)};
	struct attached objects[2] = {{0}, {0}};
	void *found = r;
	unsigned i;

	objects[0].other = &objects[1];
	if (!CHECK_OK(r, rank_join(r, NULL)))
		return;
	for (i = 0; i < 2; i++) {
		CHECK_OK(r, oriel_comm_attached(r->comm, &keys[i], &found));
		CHECK(r, !found);
		CHECK_OK(r, oriel_window_create(r->comm, &attr, &objects[i].window));
		CHECK_OK(r, oriel_comm_attach(r->comm, &keys[i], &objects[i], attached_close));
		CHECK_OK(r, oriel_comm_attached(r->comm, &keys[i], &found));
		CHECK(r, found == &objects[i]);
	}
	CHECK_STATUS(r, oriel_comm_attach(r->comm, keys, r, attached_close), ORIEL_ERR_STATE);
	CHECK_STATUS(r, oriel_comm_attach(r->comm, NULL, r, attached_close), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_comm_attach(r->comm, r, r, NULL), ORIEL_ERR_INVALID);
	CHECK_QUIET(r, oriel_comm_destroy(r->comm));
	r->comm = NULL;
	for (i = 0; i < 2; i++)
		CHECK(r, objects[i].is_closed && objects[i].is_in_order);
}

/* A communicator with a handle that has room for @regions of them. */
static void join_with_handle(struct rank *r, unsigned regions)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .buffers = regions + 1};

	if (rank_join(r, NULL) != ORIEL_OK || oriel_comm_device_create(r->comm, &attr) != ORIEL_OK)
		give_up(r, "no handle");
}

static void leave(struct rank *r)
{
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_QUIET(r, oriel_comm_destroy(r->comm));
	r->comm = NULL;
}

/* Check the rejected arguments that the handle has a record of, and that it is the only one. */
static void check_fault(struct rank *r, enum oriel_status expected, const char *text)
{
	struct oriel_dev_fault fault = {0};

	/* The call puts its text where those of failures are. */
	CHECK(r, oriel_comm_device_fault(r->comm, &fault) == ORIEL_OK);
	CHECK_LAST(r, text);
	CHECK_EQ(r, fault.status, (uint64_t)expected);
	CHECK_STATUS(r, oriel_comm_device_fault(r->comm, &fault), ORIEL_AGAIN);
}

/* Put to the next rank's region @number, and check what came from the previous rank. */
static void check_published(struct rank *r, uint32_t number, const char *mine, size_t length,
			    uint64_t seed)
{
	size_t next = 100 * (rank_next(r) + 1);
	char *block = rank_alloc(r, next);
	struct oriel_dev_window dev;

	CHECK_OK(r, oriel_comm_device(r->comm, &dev));
	fill(block, next, r->rank + seed);
	CHECK_POSTED(r, oriel_dev_put_signal(&dev, oriel_dev_thread(), rank_next(r),
					     oriel_at(number, 0), block, next, 0, 1, NULL));
	CHECK_OK(r,
		 oriel_dev_wait_signal_next(&dev, oriel_dev_thread(), rank_prev(r), 0, 1, LONG_NS));
	CHECK_EQ(r, wrong(mine, length, rank_prev(r) + seed), 0);
	CHECK_STATUS(r,
		     oriel_dev_put(&dev, oriel_dev_thread(), rank_next(r), oriel_at(number, 1),
				   block, next, NULL),
		     ORIEL_ERR_RANGE);
	check_fault(r, ORIEL_ERR_RANGE, "put: the end, byte");
	CHECK_OK(r, oriel_dev_drain(&dev, oriel_dev_thread(), LONG_NS));
	rank_free(r, block);
}

/* Ranks publish other lengths, and regions that are shared as well or not. */
static void published_regions_come_and_go(struct rank *r)
{
	size_t length = 100 * (r->rank + 1);
	struct oriel_region *regions[3];
	struct oriel_dev_window dev;
	uint32_t number, i;
	char *memory;

	join_with_handle(r, 2);
	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, (void **)&memory));
	for (i = 0; i < 3; i++)
		CHECK_OK(r,
			 oriel_region_register(r->comm, memory + 10000 * i, length, &regions[i]));
	CHECK_OK(r, oriel_region_share(regions[1]));
	for (i = 0; i < 2; i++) {
		CHECK_OK(r, oriel_region_publish(regions[i], &number));
		CHECK_EQ(r, number, i + 1);
		check_published(r, number, memory + 10000 * i, length, 10 * i);
	}
	CHECK_STATUS(r, oriel_region_publish(regions[2], &number), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "all 2 regions of the handle are in use; create it with more (buffers)");
	CHECK_OK(r, oriel_comm_device(r->comm, &dev));
	CHECK_QUIET(r, oriel_region_unregister(regions[0]));
	CHECK_STATUS(r,
		     oriel_dev_put(&dev, oriel_dev_thread(), rank_next(r), oriel_at(1, 0), memory,
				   1, NULL),
		     ORIEL_ERR_STATE);
	check_fault(r, ORIEL_ERR_STATE, "put: buffer 1 of rank");
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_region_publish(regions[2], &number));
	CHECK_EQ(r, number, 1);
	check_published(r, 1, memory + 20000, length, 30);
	check_published(r, 2, memory + 10000, length, 31);
	for (i = 1; i < 3; i++)
		CHECK_QUIET(r, oriel_region_unregister(regions[i]));
	oriel_memory_free(memory);
	leave(r);
}

static void a_communicator_has_one_handle(struct rank *r)
{
	struct oriel_region *region = NULL;
	struct oriel_dev_window dev;
	struct oriel_dev_fault fault;
	enum oriel_atomics agents[2];
	struct oriel_window *window;
	uint32_t number = 77;
	void *memory;

	CHECK_OK(r, rank_join(r, NULL));
	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, &memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory, LENGTH, &region));
	CHECK_STATUS(r, oriel_comm_device(r->comm, &dev), ORIEL_ERR_STATE);
	CHECK_LAST(r, "oriel_comm_device_as: the communicator has no handle");
	CHECK_STATUS(r, oriel_comm_device_fault(r->comm, &fault), ORIEL_ERR_STATE);
	CHECK_STATUS(r, oriel_comm_device_atomics(r->comm, &agents[0]), ORIEL_ERR_STATE);
	CHECK_STATUS(r, oriel_region_publish(region, &number), ORIEL_ERR_STATE);
	CHECK_OK(r, oriel_comm_device_create(r->comm, NULL));
	/* The default is that of windows. */
	CHECK_OK(r, oriel_window_create(r->comm, NULL, &window));
	CHECK_OK(r, oriel_comm_device_atomics(r->comm, &agents[0]));
	CHECK_OK(r, oriel_window_atomics(window, &agents[1]));
	CHECK_EQ(r, agents[0], agents[1]);
	CHECK_OK(r, oriel_window_destroy(window));
	CHECK_STATUS(r, oriel_comm_device_create(r->comm, NULL), ORIEL_ERR_STATE);
	CHECK_LAST(r, "has its handle");
	CHECK_STATUS(r, oriel_comm_device(r->comm, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_comm_device_fault(r->comm, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_region_publish(region, NULL), ORIEL_ERR_INVALID);
	CHECK_OK(r, oriel_region_publish(region, &number));
	CHECK_STATUS(r, oriel_region_publish(region, &number), ORIEL_ERR_STATE);
	CHECK_LAST(r, "is published as number 1");
	CHECK_EQ(r, number, 1);
	CHECK_OK(r, oriel_comm_device(r->comm, &dev));
	CHECK_OK(r, oriel_dev_barrier(&dev, oriel_dev_thread(), 0, LONG_NS));
	CHECK_QUIET(r, oriel_region_unregister(region));
	oriel_memory_free(memory);
	leave(r);
}

/* One rank alone passes a region that it has published before: no rank waits for it. */
static void one_rank_that_fails_to_publish_fails_all(struct rank *r)
{
	struct oriel_region *regions[2];
	uint32_t number = 0, i;
	char *memory;

	join_with_handle(r, 2);
	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, (void **)&memory));
	for (i = 0; i < 2; i++)
		CHECK_OK(r, oriel_region_register(r->comm, memory + 10000 * i, 100 * (r->rank + 1),
						  &regions[i]));
	CHECK_OK(r, oriel_region_publish(regions[0], &number));
	CHECK_STATUS(r, oriel_region_publish(regions[r->rank != 1], &number), ORIEL_ERR_STATE);
	CHECK_LAST(r, "is published as number 1");
	if (r->rank != 1)
		CHECK_LAST(r, "rank 1");
	CHECK_OK(r, oriel_region_publish(regions[1], &number));
	CHECK_EQ(r, number, 2);
	check_published(r, 2, memory + 10000, 100 * (r->rank + 1), 5);
	for (i = 0; i < 2; i++)
		CHECK_QUIET(r, oriel_region_unregister(regions[i]));
	oriel_memory_free(memory);
	leave(r);
}

/*
 * The handle ends in the call and the region does not: its number was of that handle, and is
 * another region's by the next.
 */
static void regions_may_outlive_the_handle(struct rank *r)
{
	struct oriel_region *first, *second;
	struct oriel_dev_window dev;
	uint32_t number;
	char *memory;

	join_with_handle(r, 1);
	CHECK_OK(r, oriel_memory_alloc(LENGTH, 0, (void **)&memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory, LENGTH, &first));
	CHECK_OK(r, oriel_region_publish(first, &number));
	CHECK_STATUS(r, oriel_comm_destroy(r->comm), ORIEL_ERR_STATE);
	CHECK_LAST(r, "still has its region");
	CHECK_STATUS(r, oriel_comm_device(r->comm, &dev), ORIEL_ERR_STATE);
	CHECK_OK(r, oriel_comm_device_create(r->comm, NULL));
	CHECK_OK(r, oriel_region_register(r->comm, memory + 10000, 100 * (r->rank + 1), &second));
	CHECK_OK(r, oriel_region_publish(second, &number));
	CHECK_EQ(r, number, 1);
	CHECK_QUIET(r, oriel_region_unregister(first));
	check_published(r, 1, memory + 10000, 100 * (r->rank + 1), 3);
	CHECK_QUIET(r, oriel_region_unregister(second));
	oriel_memory_free(memory);
	leave(r);
}

static const struct test_case region_cases[] = {
	{"allocated_memory_is_zeroed", allocated_memory_is_zeroed, NULL, 1, NO_WINDOW},
	{"memory_is_freed_once", memory_is_freed_once, NULL, 1, NO_WINDOW},
	{"parts_of_an_allocation_keep_their_offset", parts_of_an_allocation_keep_their_offset, NULL,
	 1, NO_WINDOW},
	{"one_range_may_be_shared_twice", one_range_may_be_shared_twice, NULL, 1, NO_WINDOW},
	{"regions_are_shared_once", regions_are_shared_once, NULL, 1, NO_WINDOW},
	{"any_memory_may_be_a_local_source", any_memory_may_be_a_local_source, NULL, 1, NO_WINDOW},
	{"one_private_buffer_fails_all", one_private_buffer_fails_all, NULL, 2, NO_WINDOW},
	{"private_memory_may_be_shared_with_threads", private_memory_may_be_shared_with_threads,
	 NULL, 1, NO_WINDOW},
	{"freed_memory_stays_until_it_is_not_shared", freed_memory_stays_until_it_is_not_shared,
	 NULL, 1, NO_WINDOW},
	{"a_file_of_the_user_can_be_shared", a_file_of_the_user_can_be_shared, NULL, 1, NO_WINDOW},
	{"memory_has_an_identity_until_it_is_freed", memory_has_an_identity_until_it_is_freed, NULL,
	 1, NO_WINDOW},
	{"attached_objects_are_closed_with_the_communicator",
	 attached_objects_are_closed_with_the_communicator, NULL, 1, OWN_COMM},
	{"published_regions_come_and_go", published_regions_come_and_go, NULL, 1, OWN_COMM},
	{"a_communicator_has_one_handle", a_communicator_has_one_handle, NULL, 1, OWN_COMM},
	{"one_rank_that_fails_to_publish_fails_all", one_rank_that_fails_to_publish_fails_all, NULL,
	 2, OWN_COMM},
	{"regions_may_outlive_the_handle", regions_may_outlive_the_handle, NULL, 1, OWN_COMM},
	{"a_file_that_cannot_be_sealed_is_rejected", a_file_that_cannot_be_sealed_is_rejected, NULL,
	 1, NO_WINDOW},
};

const struct suite region_suite = SUITE(region);
