/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of oriel/p2p.h whose staging slots are in GPU memory of the fake driver, on one side
 * or both. gpu_slots local: both endpoints in one thread. oriel run -n 2 gpu_slots pair: two
 * processes.
 */
#include <pthread.h>

#include <oriel/dev/copy_group.h>

#include "endpoints.h"

#define SLOTS (ORIEL_P2P_GPU | ORIEL_P2P_GPU_SLOTS)

static const unsigned kinds[][2] = {
	{SLOTS, SLOTS}, {ORIEL_P2P_GPU, SLOTS}, {SLOTS, ORIEL_P2P_GPU}, {0, SLOTS}, {SLOTS, 0}};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* On the mapped path an endpoint without a GPU does not reach slots in GPU memory. */
static bool is_reachable(enum oriel_path path, const unsigned flags[2])
{
	return path != ORIEL_PATH_MAPPED || (flags[0] && flags[1]);
}

static void test_sites(struct rank *r, enum oriel_path path, enum oriel_p2p_mode mode,
		       const unsigned flags[2], unsigned channels)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels};
	struct data d;
	struct endpoints e;

	endpoints_open(r, &e, path, &attr, flags);
	for (unsigned sites = 0; sites < SITES * SITES; sites++) {
		enum site from = sites % SITES, to = sites / SITES;

		if ((from != HOST && !flags[0]) || (to != HOST && !flags[e.count - 1]))
			continue;
		data_open(r, &e, &d, from, to, sites % 3);
		move(r, &e, &d, channels);
		data_close(r, &e, &d);
	}
	endpoints_close(&e);
}

static void test_out_of_reach(struct rank *r, const unsigned flags[2])
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_COPY_BASED};
	struct endpoints e;

	endpoints_begin(r, &e, ORIEL_PATH_MAPPED, &attr, flags);
	for (unsigned i = 0; i < 2; i++)
		CHECK_FAILS(r, oriel_p2p_check(e.p2p[i]), ORIEL_ERR_UNSUPPORTED,
			    "does not reach, whose context has");
	endpoints_close(&e);
}

/*
 * A worker thread that stands for a kernel: it finds in a slot the bytes that the other side
 * wrote.
 */
struct worker {
	struct oriel_dev_copy_group group;
	enum oriel_dev_side side;
	int device;
	enum oriel_status status;
	unsigned foreign; /* chunks that its GPU does not reach */
	uint64_t bytes;
	pthread_t id;
};

static void *worker_main(void *argument)
{
	struct worker *h = argument;
	struct oriel_dev_group g = oriel_dev_thread();
	struct oriel_dev_chunk chunk;
	CUmemorytype type = 0;
	uint64_t bytes = 0;

	h->status = oriel_dev_copy_group_enter(&h->group, g, h->side, 0);
	if (h->status != ORIEL_OK)
		return NULL;
	while (bytes < h->bytes && h->status == ORIEL_OK) {
		h->status = oriel_dev_copy_group_next(&h->group, g, h->side, 0, 0, &chunk);
		if (h->status != ORIEL_OK)
			break;
		if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					  (CUdeviceptr)chunk.slot) != CUDA_SUCCESS ||
		    type != CU_MEMORYTYPE_DEVICE || !fakecuda_reaches(h->device, chunk.slot))
			h->foreign++;
		oriel_dev_copy_group_copy(&h->group, g, h->side, 0, &chunk);
		bytes += chunk.length;
	}
	oriel_dev_copy_group_leave(&h->group, g, h->side, 0);
	return NULL;
}

/* Each endpoint has a copy group of one worker a side, and slots on its own GPU. */
struct group_pair {
	struct endpoints e;
	struct oriel_p2p_copy_group *groups[2];
	struct worker workers[2];
};

static void group_pair_open(struct rank *r, struct group_pair *c, enum oriel_path path)
{
	char address[2][ORIEL_P2P_ADDRESS];

	*c = (struct group_pair){.e = {.count = path == ORIEL_PATH_SELF ? 1 : 2}};
	for (unsigned i = 0; i < c->e.count; i++) {
		struct oriel_p2p_context_attr context = {.size = sizeof(context),
							 .chunk = CHUNK,
							 .slots = 24,
							 .paths = 1u << path,
							 .timeout_ns = LONG_NS,
							 .flags = SLOTS};
		struct oriel_p2p_attr attr = {.size = sizeof(attr),
					      .mode = ORIEL_P2P_COPY_BASED,
					      .hooks = oriel_p2p_copy_group_hooks()};

		r->rank = i;
		rank_use_gpu(r);
		CHECK_OK(r, oriel_p2p_context_create(&context, &c->e.contexts[i]));
		CHECK_OK(r, oriel_p2p_copy_group_create(c->e.contexts[i], NULL, &c->groups[i]));
		attr.context = c->groups[i];
		CHECK_OK(r, oriel_p2p_create(c->e.contexts[i], &attr, &c->e.p2p[i]));
		CHECK_OK(r, oriel_p2p_address(c->e.p2p[i], address[i]));
	}
	for (unsigned i = 0; i < c->e.count; i++)
		CHECK_OK(r, oriel_p2p_connect(c->e.p2p[i], address[c->e.count - 1 - i],
					      ORIEL_P2P_ADDRESS, 0));
}

static void test_copy_group(struct rank *r, enum oriel_path path)
{
	struct oriel_p2p_request out, in;
	struct oriel_p2p_buffer from, to;
	struct group_pair c;
	struct data d;

	group_pair_open(r, &c, path);
	data_open(r, &c.e, &d, OWN, LEGACY, false);
	from = (struct oriel_p2p_buffer){d.at[0] + 1, LONG, NULL};
	to = (struct oriel_p2p_buffer){d.at[1] + 2, LONG, NULL};
	fill(from.address, LONG, 5);
	memset(to.address, 0x77, LONG);
	for (unsigned i = 0; i < 2; i++) {
		unsigned end = i && c.e.count == 2;

		c.workers[i].side = i ? ORIEL_DEV_UNPACK : ORIEL_DEV_PACK;
		c.workers[i].bytes = LONG;
		c.workers[i].device = (int)end;
		CHECK_OK(r, oriel_p2p_copy_group_device(c.groups[end], &c.workers[i].group));
		if (pthread_create(&c.workers[i].id, NULL, worker_main, &c.workers[i]))
			abort();
	}
	CHECK_OK(r, oriel_p2p_send(c.e.p2p[0], 0, &from, &out));
	CHECK_OK(r, oriel_p2p_recv(c.e.p2p[c.e.count - 1], 0, &to, &in));
	CHECK_OK(r, wait_for(&c.e, &in));
	CHECK_OK(r, wait_for(&c.e, &out));
	CHECK(r, is_filled(to.address, LONG, 5));
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(c.workers[i].id, NULL);
		CHECK(r, c.workers[i].status == ORIEL_OK && !c.workers[i].foreign);
	}
	data_close(r, &c.e, &d);
	endpoints_destroy(&c.e);
	for (unsigned i = 0; i < c.e.count; i++)
		oriel_p2p_copy_group_destroy(c.groups[i]);
	endpoints_close_contexts(&c.e);
}

static void test_attr(struct rank *r)
{
	struct oriel_p2p_context_attr attr = {.size = sizeof(attr), .flags = ORIEL_P2P_GPU_SLOTS};
	struct oriel_p2p_context *context = NULL;

	rank_use_gpu(r);
	CHECK_FAILS(r, oriel_p2p_context_create(&attr, &context), ORIEL_ERR_INVALID,
		    "needs ORIEL_P2P_GPU");
	attr.flags = SLOTS;
	fakecuda_fail("cuMemCreate", 0);
	CHECK(r, oriel_p2p_context_create(&attr, &context) < 0);
	fakecuda_fail(NULL, 0);
}

static unsigned run_here(void)
{
	static const enum oriel_p2p_mode staged[] = {ORIEL_P2P_AUTO, ORIEL_P2P_COPY_BASED};
	struct rank r = {.size = 2};

	test_attr(&r);
	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned p = 0; p < 3; p++)
			for (unsigned m = 0; m < 2; m++) {
				fakecuda_async((k + p + m) % 2);
				if (!is_reachable(paths[p], kinds[k]))
					test_out_of_reach(&r, kinds[k]);
				else if (paths[p] != ORIEL_PATH_SELF || kinds[k][0] == SLOTS)
					test_sites(&r, paths[p], staged[m], kinds[k],
						   k % 2 ? 1 : 4);
			}
	for (unsigned p = 0; p < 3; p++)
		test_copy_group(&r, paths[p]);
	return r.failures;
}

/* Each rank creates its own context; the communicator carries the addresses. */
static void test_pair(struct rank *r, const unsigned flags[2])
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_COPY_BASED};
	char mine[ORIEL_P2P_ADDRESS] = "", all[2][ORIEL_P2P_ADDRESS];
	struct oriel_p2p_context_attr context_attr = {.size = sizeof(context_attr),
						      .chunk = CHUNK,
						      .slots = 24,
						      .flags = flags[r->rank]};
	enum oriel_path path = ORIEL_PATH_NONE;
	struct oriel_p2p_context *context = NULL;
	struct oriel_p2p_request out, in;
	struct oriel_p2p *p = NULL;

	CHECK_OK(r, oriel_comm_path(r->comm, !r->rank, &path));
	context_attr.paths = 1u << path;
	CHECK_OK(r, oriel_p2p_context_create(&context_attr, &context));
	CHECK_OK(r, oriel_p2p_create(context, &attr, &p));
	CHECK_OK(r, oriel_p2p_address(p, mine));
	CHECK_OK(r, oriel_comm_all_gather(r->comm, mine, all, sizeof(mine)));
	CHECK_OK(r, oriel_p2p_connect(p, all[!r->rank], sizeof(all[0]), 0));
	for (unsigned sites = 0; sites < SITES * SITES; sites++) {
		enum site site[2] = {sites % SITES, sites / SITES};
		struct oriel_p2p_buffer b[2];

		for (unsigned i = 0; i < 2; i++)
			b[i] = (struct oriel_p2p_buffer){site_open(r, site[i]) + 3,
							 sizes[sites % SIZES], NULL};
		fill(b[0].address, b[0].length, sites + r->rank);
		memset(b[1].address, 0x77, b[1].length);
		CHECK_OK(r, oriel_p2p_send(p, 0, &b[0], &out));
		CHECK_OK(r, oriel_p2p_recv(p, 0, &b[1], &in));
		CHECK_OK(r, oriel_p2p_wait(p, &in, 0));
		CHECK_OK(r, oriel_p2p_wait(p, &out, 0));
		CHECK(r, is_filled(b[1].address, b[1].length, sites + !r->rank));
		for (unsigned i = 0; i < 2; i++)
			site_close(r, site[i], (char *)b[i].address - 3);
	}
	CHECK_OK(r, oriel_p2p_drain(p, 0));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	oriel_p2p_destroy(p);
	oriel_p2p_context_destroy(context);
}

static void test_pairs(struct rank *r)
{
	rank_join(r, LONG_NS);
	for (unsigned k = 0; k < 3; k++) {
		fakecuda_async(k % 2);
		test_pair(r, kinds[k]);
	}
	oriel_comm_destroy(r->comm);
}

int main(int argc, char **argv)
{
	unsigned fds = count_fds();

	if (argc == 2 && strcmp(argv[1], "pair") == 0)
		return run_rank_of_two(test_pairs) != 0;
	return rank_finish(run_here(), fds);
}
