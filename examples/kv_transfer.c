/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 prefills the pages of a KV cache, rank 1 pulls those it needs: it lists them in a control
 * message, and they arrive over the channels of a p2p endpoint in its free slots, first straight
 * from cache to cache (zero copy), then through staging slots. With --gpu both caches are in GPU
 * memory, with --gpu-slots the staging slots too. Without a GPU the exit code is 77.
 * oriel run -n 2 kv_transfer [--pages N] [--page BYTES] [--rounds N] [--gpu | --gpu-slots]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oriel/oriel.h>

#include "kv_gpu.h"

enum { CHANNELS = 4, LIST_MAX = 512, SKIPPED = 77, PAGES_OF, SUMS_OF };

struct cache {
	struct oriel_comm *comm;
	unsigned rank, flags;         /* flags of the context */
	uint64_t pages, page, rounds; /* number of pages, bytes of each, lists to pull */
	char *memory;
	char *staging;  /* a page in host memory, if the cache is on a GPU */
	uint64_t *sums; /* [pages], of the pages that rank 0 computed */
	struct oriel_p2p_context *context;
	struct oriel_p2p_memory *handle;
	struct oriel_p2p *p2p;
	uint64_t moved, wrong; /* bytes moved, wrong pages */
	struct oriel_p2p_request transfers[LIST_MAX];
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t checksum(const char *page, uint64_t length)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325), word;

	for (uint64_t i = 0; i + sizeof(word) <= length; i += sizeof(word)) {
		memcpy(&word, page + i, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x100000001b3);
	}
	return sum;
}

static struct oriel_p2p_buffer page_of(const struct cache *c, uint64_t number)
{
	struct oriel_p2p_buffer b = {c->memory + number * c->page, c->page, c->handle};

	return b;
}

static enum oriel_status wait_all(struct cache *c, uint64_t count)
{
	enum oriel_status status = ORIEL_OK;

	for (uint64_t i = 0; i < count && status == ORIEL_OK; i++)
		status = oriel_p2p_wait(c->p2p, &c->transfers[i], 0);
	return status;
}

static enum oriel_status send_message(struct cache *c, uint64_t tag, const void *data,
				      size_t length)
{
	struct oriel_p2p_request r;
	enum oriel_status status = oriel_p2p_send_control(c->p2p, tag, data, length, &r);

	return status == ORIEL_OK ? oriel_p2p_wait(c->p2p, &r, 0) : status;
}

static enum oriel_status receive_message(struct cache *c, uint64_t tag, void *data, size_t room,
					 size_t *length)
{
	struct oriel_p2p_request r;
	enum oriel_status status = oriel_p2p_recv_control(c->p2p, tag, data, room, &r);

	if (status == ORIEL_OK)
		status = oriel_p2p_wait(c->p2p, &r, 0);
	if (status == ORIEL_OK)
		*length = r.length;
	return status;
}

/* Rank 0: stands for the computation of a model. */
static enum oriel_status prefill(struct cache *c)
{
	uint64_t word, state = 1;

	for (uint64_t i = 0; i < c->pages; i++) {
		char *page = c->memory + i * c->page, *target = c->staging ? c->staging : page;

		for (uint64_t k = 0; k + sizeof(word) <= c->page; k += sizeof(word)) {
			word = state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			memcpy(target + k, &word, sizeof(word));
		}
		c->sums[i] = checksum(target, c->page);
		if (c->staging && !kv_gpu_write(page, target, c->page))
			return ORIEL_ERR_SYSTEM;
	}
	return ORIEL_OK;
}

static bool is_right(const struct cache *c, uint64_t number, uint64_t sum)
{
	const char *page = c->memory + number * c->page;

	if (!c->staging)
		return checksum(page, c->page) == sum;
	return kv_gpu_read(c->staging, page, c->page) && checksum(c->staging, c->page) == sum;
}

/* Rank 0: serves lists until an empty one arrives. */
static enum oriel_status serve(struct cache *c)
{
	uint32_t list[LIST_MAX];
	uint64_t sums[LIST_MAX];
	enum oriel_status status;
	size_t length;

	for (;;) {
		status = receive_message(c, PAGES_OF, list, sizeof(list), &length);
		if (status != ORIEL_OK || length == 0)
			return status;
		for (size_t i = 0; i < length / sizeof(list[0]) && status == ORIEL_OK; i++) {
			struct oriel_p2p_buffer from = page_of(c, list[i] % c->pages);

			status = oriel_p2p_send(c->p2p, i % CHANNELS, &from, &c->transfers[i]);
		}
		for (size_t i = 0; i < length / sizeof(list[0]); i++)
			sums[i] = c->sums[list[i] % c->pages];
		if (status == ORIEL_OK)
			status = send_message(c, SUMS_OF, sums, length * 2);
		if (status == ORIEL_OK)
			status = wait_all(c, length / sizeof(list[0]));
		if (status != ORIEL_OK)
			return status;
	}
}

/* Rank 1: receive the pages of @list in the slots from 0 on, and compare their checksums. */
static enum oriel_status pull(struct cache *c, const uint32_t *list, uint64_t count,
			      double *seconds)
{
	uint64_t sums[LIST_MAX];
	enum oriel_status status = ORIEL_OK;
	double began = now();
	size_t length;

	for (uint64_t i = 0; i < count && status == ORIEL_OK; i++) {
		struct oriel_p2p_buffer to = page_of(c, i);

		status = oriel_p2p_recv(c->p2p, i % CHANNELS, &to, &c->transfers[i]);
	}
	if (status == ORIEL_OK)
		status = send_message(c, PAGES_OF, list, count * sizeof(list[0]));
	if (status == ORIEL_OK)
		status = wait_all(c, count);
	*seconds += now() - began;
	if (status == ORIEL_OK)
		status = receive_message(c, SUMS_OF, sums, sizeof(sums), &length);
	if (status != ORIEL_OK)
		return status;
	for (uint64_t i = 0; i < count; i++)
		c->wrong += !is_right(c, i, sums[i]);
	c->moved += count * c->page;
	return ORIEL_OK;
}

/* Rank 1: pulls random lists of random length. */
static enum oriel_status decode(struct cache *c, const char *mode)
{
	uint64_t most = c->pages < LIST_MAX ? c->pages : LIST_MAX, state = 7, count;
	enum oriel_status status = ORIEL_OK;
	uint32_t list[LIST_MAX];
	double seconds = 0;

	c->moved = 0;
	for (uint64_t round = 0; round < c->rounds && status == ORIEL_OK; round++) {
		count = 1 + (state >> 33) % most;
		for (uint64_t i = 0; i < count; i++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			list[i] = (uint32_t)(state >> 33) % (uint32_t)c->pages;
		}
		status = pull(c, list, count, &seconds);
	}
	if (status == ORIEL_OK)
		status = send_message(c, PAGES_OF, NULL, 0);
	if (status == ORIEL_OK)
		printf("%-10s %6.2f GB/s, %" PRIu64 " pages of %" PRIu64 " bytes, %s\n", mode,
		       (double)c->moved / seconds / 1e9, c->moved / c->page, c->page,
		       c->wrong ? "checksums differ" : "all checksums right");
	return status;
}

/*
 * Create an endpoint and connect it to the other rank; the communicator only exchanges the
 * addresses.
 */
static enum oriel_status connect_peer(struct cache *c, enum oriel_p2p_mode mode)
{
	struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = CHANNELS};
	char mine[ORIEL_P2P_ADDRESS] = "", all[2][ORIEL_P2P_ADDRESS];
	enum oriel_status status = oriel_p2p_create(c->context, &attr, &c->p2p);

	if (status == ORIEL_OK)
		status = oriel_p2p_address(c->p2p, mine);
	status = oriel_comm_agree(c->comm, status);
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(c->comm, mine, all, sizeof(mine));
	if (status == ORIEL_OK)
		status = oriel_p2p_connect(c->p2p, all[!c->rank], sizeof(all[0]), 0);
	return status;
}

static enum oriel_status transfer(struct cache *c, enum oriel_p2p_mode mode)
{
	enum oriel_status status = connect_peer(c, mode);

	if (status == ORIEL_OK)
		status = c->rank == 0 ? serve(c) : decode(c, oriel_p2p_mode_name(mode));
	if (status == ORIEL_OK)
		status = oriel_p2p_drain(c->p2p, 0);
	if (status != ORIEL_OK)
		fprintf(stderr, "kv_transfer: %s\n", oriel_last_error());
	/* Neither rank destroys its endpoint before the other has finished. */
	status = oriel_comm_agree(c->comm, status);
	oriel_p2p_destroy(c->p2p);
	c->p2p = NULL;
	return status;
}

static enum oriel_status cache_open(struct cache *c)
{
	enum oriel_path path = ORIEL_PATH_NONE;
	struct oriel_p2p_context_attr attr = {.size = sizeof(attr), .flags = c->flags};
	enum oriel_status status = oriel_comm_path(c->comm, !c->rank, &path);
	void *memory;

	/* The communicator alone knows virtual nodes (oriel run --nodes 2). */
	attr.paths = 1u << path;
	if (status == ORIEL_OK)
		status = oriel_memory_alloc(c->pages * c->page, c->flags ? ORIEL_MEMORY_DEVICE : 0,
					    &memory);
	if (status != ORIEL_OK)
		return status;
	c->memory = memory;
	c->sums = calloc(c->pages, sizeof(*c->sums));
	if (c->flags)
		c->staging = malloc(c->page);
	if (!c->sums || (c->flags && !c->staging))
		return ORIEL_ERR_NOMEM;
	status = oriel_p2p_context_create(&attr, &c->context);
	if (status == ORIEL_OK)
		status = oriel_p2p_register(c->context, memory, c->pages * c->page, 0, &c->handle);
	return status;
}

/* Equal on both ranks: does either lack the GPU that --gpu needs? */
static bool is_skipped(struct cache *c)
{
	const char *why = NULL;
	bool has_gpu = !c->flags || kv_gpu_open(c->rank, &why);

	if (why)
		printf("kv_transfer: skipped: rank %u finds %s\n", c->rank, why);
	return oriel_comm_agree(c->comm, has_gpu ? ORIEL_OK : ORIEL_ERR_UNSUPPORTED) ==
	       ORIEL_ERR_UNSUPPORTED;
}

static int run(struct cache *c)
{
	enum oriel_status status = ORIEL_ERR_STATE;

	if (is_skipped(c))
		return SKIPPED;
	if (oriel_comm_size(c->comm) != 2)
		fprintf(stderr, "kv_transfer: it takes two ranks\n");
	else
		status = cache_open(c);
	if (status == ORIEL_OK && c->rank == 0)
		status = prefill(c);
	status = oriel_comm_agree(c->comm, status);
	if (status == ORIEL_OK)
		status = transfer(c, ORIEL_P2P_ZERO_COPY);
	if (status == ORIEL_OK)
		status = transfer(c, ORIEL_P2P_COPY_BASED);
	oriel_p2p_unregister(c->handle);
	oriel_p2p_context_destroy(c->context);
	oriel_memory_free(c->memory);
	free(c->staging);
	free(c->sums);
	return status == ORIEL_OK && !c->wrong ? 0 : 1;
}

static void read_options(struct cache *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		uint64_t value = i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : 0;

		if (strcmp(argv[i], "--gpu") == 0)
			c->flags |= ORIEL_P2P_GPU;
		else if (strcmp(argv[i], "--gpu-slots") == 0)
			c->flags |= ORIEL_P2P_GPU | ORIEL_P2P_GPU_SLOTS;
		else if (strcmp(argv[i], "--pages") == 0 && value)
			c->pages = value;
		else if (strcmp(argv[i], "--page") == 0 && value)
			c->page = value;
		else if (strcmp(argv[i], "--rounds") == 0 && value)
			c->rounds = value;
	}
}

int main(int argc, char **argv)
{
	struct cache c = {.pages = 256, .page = 64 << 10, .rounds = 20};
	enum oriel_status status;
	int code = 1;

	read_options(&c, argc, argv);
	status = oriel_comm_create(NULL, NULL, &c.comm);
	if (status == ORIEL_OK) {
		c.rank = oriel_comm_rank(c.comm);
		code = run(&c);
	} else {
		fprintf(stderr, "kv_transfer: %s\n", oriel_last_error());
	}
	oriel_comm_destroy(c.comm);
	return code;
}
