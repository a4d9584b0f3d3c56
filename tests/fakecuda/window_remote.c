/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on virtual nodes, whose windows an HCA reaches. gpu_window calls its test. */
#include <pthread.h>

#include "window_tests.h"

/* The software HCA reaches GPU memory through the driver, others by themselves. */
static bool has_soft_hca(struct rank *r)
{
	struct oriel_nic nic = {.size = sizeof(nic), .is_software = true};

	(void)oriel_comm_nic(r->comm, &nic);
	return nic.is_software;
}

/* The driver copies the GPU memory that the software HCA moves, out and in. */
static void test_copies(struct rank *r)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	uint64_t out = is_remote(r, next) ? 5000 : 0, in = is_remote(r, before) ? 5000 + 2 * 8 : 0;
	uint64_t start;

	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	CHECK_OK(r, oriel_dev_flush(&r->dev, me, 0));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	start = fakecuda_copied();
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_dev_put_signal(&r->dev, me, next, 10000,
					 oriel_dev_address(&r->dev, r->rank, 20000), 5000, 3, 1,
					 NULL));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, me, before, 3, 1, 0));
	CHECK_OK(r, oriel_dev_flush(&r->dev, me, 0));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	/*
	 * Ranks that are threads share one count, and two puts of the ring go through HCAs. Only
	 * the software HCA copies through the driver.
	 */
	if (has_soft_hca(r))
		CHECK(r, fakecuda_copied() - start ==
				 (r->node ? 2 * (5000u + 5000 + 2 * 8) : out + in));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

#define POSTERS 4
#define POST_ROUNDS 300u

struct poster {
	struct rank *rank;
	unsigned number;
	unsigned failures;
	pthread_t id;
};

/* Several threads post more than fits in the ring, with all kinds of posts. */
static void *post_rounds(void *argument)
{
	struct poster *p = argument;
	const struct oriel_dev_window *d = &p->rank->dev;
	struct oriel_dev_group me = oriel_dev_thread();
	uint32_t peer = (d->rank + d->ranks / 2) % d->ranks;
	const char *source = oriel_dev_address(d, d->rank, 8192);
	uint64_t old = 0, sum = 0;
	unsigned i;

	for (i = 0; i < POST_ROUNDS; i++) {
		p->failures +=
			oriel_dev_fetch_add(d, peer, 1024 + 8 * p->number, 1, &old) != ORIEL_OK;
		sum += old;
		p->failures += oriel_dev_put(d, me, peer, 4096, source, 100, NULL) < 0;
		p->failures += oriel_dev_signal(d, me, peer, 10, ORIEL_SIGNAL_ADD, 1, NULL) < 0;
	}
	/* No other thread adds to that word. */
	p->failures += sum != (uint64_t)POST_ROUNDS * (POST_ROUNDS - 1) / 2;
	return NULL;
}

static void test_posters(struct rank *r)
{
	struct poster posters[POSTERS];
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	unsigned i;

	for (i = 0; i < POSTERS; i++) {
		posters[i] = (struct poster){.rank = r, .number = i};
		if (pthread_create(&posters[i].id, NULL, post_rounds, &posters[i]))
			abort();
	}
	for (i = 0; i < POSTERS; i++) {
		pthread_join(posters[i].id, NULL);
		CHECK(r, !posters[i].failures);
	}
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, oriel_dev_thread(), peer, 10, ORIEL_EQ,
					       POSTERS * POST_ROUNDS, 0));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, oriel_dev_thread(), 0, 0));
}

/* The data of a get has arrived when the wait for its ticket returns. */
static void test_gets(struct rank *r)
{
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	char *from = oriel_dev_address(&r->dev, r->rank, 30000);
	char *to = oriel_dev_address(&r->dev, r->rank, 40000);
	struct oriel_dev_group me = oriel_dev_thread();
	struct oriel_dev_ticket ticket = {0, 0, 0};
	unsigned round;

	for (round = 0; round < 10; round++) {
		memset(from, (int)(r->rank * 10 + round + 1), 5000);
		CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
		CHECK_OK(r, oriel_dev_get(&r->dev, me, peer, 30000, to, 5000, &ticket));
		CHECK_OK(r, oriel_dev_wait_local(&r->dev, me, ticket, 0));
		CHECK(r, to[0] == (char)(peer * 10 + round + 1) && !memcmp(to, to + 1, 4999));
		CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	}
}

#define COUNTS 50u

/* NICs execute all atomics on a window of such ranks: those of mapped ranks and of the rank itself.
 */
static void test_counts(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .flags = ORIEL_WINDOW_DEVICE,
					 .length = 4096};
	enum oriel_atomics agent = ORIEL_ATOMICS_DEFAULT;
	uint64_t old, *memory = NULL, *word;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	uint32_t number = 0, half;
	unsigned i, peer;

	CHECK_OK(r, oriel_memory_alloc(4096, ORIEL_MEMORY_DEVICE, (void **)&memory));
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
	CHECK_OK(r, oriel_window_share(window, memory, 4096, &number));
	CHECK_OK(r, oriel_window_atomics(window, &agent));
	CHECK(r, agent == ORIEL_ATOMICS_HCA);
	CHECK_OK(r, oriel_window_device(window, &dev));
	word = (uint64_t *)oriel_dev_address(&dev, r->rank, 0);
	memset(word, 0, 16);
	memset(memory, 0, 16);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (i = 0; i < COUNTS * r->size; i++) {
		peer = i % r->size;
		CHECK_OK(r, oriel_dev_fetch_add(&dev, peer, 0, 1, &old));
		CHECK_OK(r, oriel_dev_fetch_add(&dev, peer, oriel_at(number, 0), 1, &old));
		CHECK_OK(r, oriel_dev_fetch_xor_32(&dev, peer, 12, 1u << r->rank, &half));
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK(r, word[0] == COUNTS * r->size && word[1] == 0);
	CHECK(r, memory[0] == COUNTS * r->size);
	oriel_window_destroy(window);
	oriel_memory_free(memory);
}

/* Does the host register what kernels name outside windows? A proxy looks it up itself. */
static bool has_reach(struct rank *r)
{
	struct oriel_nic nic = {.size = sizeof(nic)};

	CHECK_OK(r, oriel_comm_nic(r->comm, &nic));
	return !nic.is_software && !nic.is_proxied;
}

/* Posts the word of allocation @i, whose memory is outside the window, to the peer's window. */
static enum oriel_status put_word(struct rank *r, CUstream stream, const CUdeviceptr *from,
				  unsigned i)
{
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	uint64_t *word = (uint64_t *)from[i];

	*word = (uint64_t)(r->rank + 1) << 32 | i;
	return oriel_window_put_on_stream(r->window, peer, sizeof(*word) * i, word, sizeof(*word),
					  stream);
}

static void wait_for_words(struct rank *r, CUstream stream)
{
	fakecuda_finish(stream);
	CHECK_OK(r, oriel_dev_flush(&r->dev, oriel_dev_thread(), 0));
}

/* The first allocation that a link has no room for; it then has the room of one that was freed. */
static unsigned fill_reach(struct rank *r, CUstream stream, CUdeviceptr *from)
{
	enum oriel_status status = ORIEL_OK;
	unsigned room = 0;

	while (room <= ORIEL_LINK_REACH && status == ORIEL_OK)
		status = put_word(r, stream, from, room++);
	room--;
	wait_for_words(r, stream);
	if (!has_reach(r)) {
		CHECK_OK(r, status);
		return room;
	}
	CHECK_FAILS(r, status, ORIEL_ERR_NOMEM, "there is no room for more");
	CHECK(r, room > ORIEL_LINK_REACH / 2);
	CHECK_FAILS(r, put_word(r, stream, from, room), ORIEL_ERR_NOMEM, "256 allocations");
	CHECK(r, cuMemFree(from[2]) == CUDA_SUCCESS);
	from[2] = 0;
	return room;
}

static void name_many(struct rank *r, CUstream stream)
{
	CUdeviceptr from[ORIEL_LINK_REACH + 1] = {0};
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	const uint64_t *words = (uint64_t *)oriel_dev_address(&r->dev, r->rank, 0);
	unsigned room, i;

	for (i = 0; i <= ORIEL_LINK_REACH; i++)
		CHECK(r, cuMemAlloc(&from[i], 4096) == CUDA_SUCCESS);
	room = fill_reach(r, stream, from);
	/* Those that were there before have kept their room. */
	for (i = room + 1; i-- > 0;)
		if (from[i])
			CHECK_OK(r, put_word(r, stream, from, i));
	wait_for_words(r, stream);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (i = 0; i <= room; i++)
		CHECK(r, words[i] == ((uint64_t)(peer + 1) << 32 | i));
	for (i = 0; i <= ORIEL_LINK_REACH; i++)
		if (from[i])
			CHECK(r, cuMemFree(from[i]) == CUDA_SUCCESS);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

/* Kernels name more allocations than a link has room for. */
static void test_reach(struct rank *r)
{
	CUstream stream;

	CHECK(r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	if (oriel_window_barrier_on_stream(r->window, 3, 0, stream) != ORIEL_ERR_UNSUPPORTED)
		name_many(r, stream);
	CHECK(r, cuStreamDestroy(stream) == CUDA_SUCCESS);
}

/*
 * Puts that are in flight when the window is destroyed still arrive; only the destruction waits
 * for them.
 */
static void test_remote_destroy(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_dev_group me = oriel_dev_thread();
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	struct oriel_dev_window dev;
	struct oriel_window *window;
	void *memory = NULL;
	unsigned round, i;

	CHECK_OK(r, oriel_memory_alloc(1 << 20, ORIEL_MEMORY_DEVICE, &memory));
	attr.buffer = memory;
	attr.length = 1 << 20;
	for (round = 0; round < 5; round++) {
		CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
		CHECK_OK(r, oriel_window_device(window, &dev));
		for (i = 0; i < 20; i++)
			CHECK_OK(r, oriel_dev_put_counter(&dev, me, peer, 0, memory, 1 << 20, 0,
							  NULL));
		oriel_window_destroy(window);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
	oriel_memory_free(memory);
}

/* The copies of a GPU fail: the initiator gets the status, and so do all other ranks. */
static void test_remote_failure(struct rank *r)
{
	struct oriel_health health = {.size = sizeof(health)};

	rank_open(r, LONG_NS);
	if (!has_soft_hca(r)) {
		rank_close(r);
		return;
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	if (r->rank == 0)
		fakecuda_fail("cuMemcpyAsync", 0);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	if (r->rank != 0 && is_remote(r, 0))
		oriel_dev_signal(&r->dev, oriel_dev_thread(), 0, 1, ORIEL_SIGNAL_ADD, 1, NULL);
	CHECK(r, oriel_dev_wait_signal_from(&r->dev, oriel_dev_thread(), r->rank, 9, ORIEL_GE, 1,
					    ORIEL_TIMEOUT_INFINITE) == ORIEL_ERR_PEER);
	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK(r, health.status == ORIEL_ERR_PEER && strcmp(health.reason, "") != 0);
	rank_close(r);
	if (r->rank == 0)
		fakecuda_fail(NULL, 0);
}

/*
 * The source is not mapped memory: the initiator gets the status, and the software HCA survives
 * it.
 */
static void test_remote_bad_source(struct rank *r)
{
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	struct oriel_health health = {.size = sizeof(health)};
	struct oriel_dev_ticket ticket = {0, 0, 0};
	enum oriel_status status;

	rank_open(r, LONG_NS);
	if (!has_soft_hca(r)) {
		rank_close(r);
		return;
	}
	if (r->rank == 0) {
		CHECK_OK(r, oriel_dev_put(&r->dev, me, peer, 0, (void *)(uintptr_t)8192, 4096,
					  &ticket));
		status = oriel_dev_wait_local(&r->dev, me, ticket, 0);
		CHECK(r, status == ORIEL_ERR_ACCESS);
	} else {
		status = oriel_dev_wait_signal_from(&r->dev, me, r->rank, 9, ORIEL_GE, 1,
						    ORIEL_TIMEOUT_INFINITE);
		CHECK(r, status == ORIEL_ERR_ACCESS || status == ORIEL_ERR_PEER);
	}
	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK(r, health.status == status);
	rank_close(r);
}

/* Virtual nodes, with the software HCA between them. */
void test_remote(struct rank *r)
{
	rank_open(r, LONG_NS);
	CHECK(r, is_remote(r, (r->rank + r->size / 2) % r->size));
	test_operations(r);
	test_copies(r);
	test_posters(r);
	test_gets(r);
	test_counts(r);
	test_region(r);
	test_mistakes(r);
	test_streams(r);
	test_reach(r);
	test_remote_destroy(r);
	test_records(r);
	test_buffers(r);
	test_published(r);
	rank_close(r);
	test_blame(r);
	test_stream_timeout(r);
	test_stream_barrier_limit(r);
	test_stream_peer_limit(r);
	test_remote_failure(r);
	test_remote_bad_source(r);
}
