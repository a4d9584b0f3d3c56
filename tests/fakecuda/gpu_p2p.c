/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of oriel/p2p.h with memory of the fake driver. gpu_p2p local: both endpoints in one
 * thread, over every path. oriel run -n 2 gpu_p2p pair: endpoints of a communicator, over its
 * path. gpu_p2p apart: GPUs that do not reach each other.
 */
#include <stdlib.h>

#include "endpoints.h"

static void puts_and_expects(struct rank *r, struct endpoints *e, struct data *d)
{
	struct oriel_p2p *to = e->p2p[e->count - 1];
	struct oriel_p2p_buffer all = {d->at[1] + 5, PIECE * PIECES - 5, d->memory[1]};
	struct oriel_p2p_buffer from = {d->at[0] + 1, LONG, d->memory[0]};
	struct oriel_p2p_request put, expect;
	struct oriel_p2p_remote remote;
	char bytes[ORIEL_P2P_EXPORT];

	CHECK_OK(r, oriel_p2p_export(to, &all, bytes));
	CHECK_OK(r, oriel_p2p_import(e->p2p[0], bytes, sizeof(bytes), &remote));
	for (unsigned i = 0; i < 3; i++) {
		fill(from.address, LONG, i);
		memset(d->at[1], 0, PIECE);
		CHECK_OK(r, oriel_p2p_put(e->p2p[0], 0, &from, &remote, i * 7, &put));
		CHECK_OK(r, oriel_p2p_expect(to, 0, &expect));
		CHECK_OK(r, wait_for(e, &expect));
		CHECK_OK(r, wait_for(e, &put));
		CHECK(r, is_filled(d->at[1] + 5 + i * 7, LONG, i));
		CHECK(r, d->at[1][4 + i * 7] == 0);
	}
}

static void test_sites(struct rank *r, enum oriel_path path, enum oriel_p2p_mode mode,
		       unsigned channels)
{
	static const unsigned both[2] = {ORIEL_P2P_GPU, ORIEL_P2P_GPU};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels};
	struct data d;
	struct endpoints e;

	endpoints_open(r, &e, path, &attr, both);
	for (unsigned sites = 1; sites < SITES * SITES; sites++) {
		/*
		 * A peer maps few pieces of memory, one for each transfer from unregistered
		 * memory.
		 */
		bool is_registered = (sites + channels + mode) % 3 ||
				     (mode == ORIEL_P2P_ZERO_COPY && channels > 1);

		data_open(r, &e, &d, sites % SITES, sites / SITES, is_registered);
		move(r, &e, &d, channels);
		if (is_registered && mode != ORIEL_P2P_COPY_BASED)
			puts_and_expects(r, &e, &d);
		data_close(r, &e, &d);
	}
	endpoints_close(&e);
}

/*
 * Requests in flight have completed when the first of the endpoints is destroyed, either of
 * them.
 */
static void test_destroy_in_flight(struct rank *r, enum oriel_path path, enum oriel_p2p_mode mode,
				   unsigned turns)
{
	static const unsigned both[2] = {ORIEL_P2P_GPU, ORIEL_P2P_GPU};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 4};
	struct oriel_p2p_request out[4], in[4];
	unsigned first = turns % 2;
	struct data d;
	struct endpoints e;

	endpoints_open(r, &e, path, &attr, both);
	data_open(r, &e, &d, OWN, LEGACY, true);
	for (unsigned c = 0; c < 4; c++) {
		struct oriel_p2p_buffer f = {d.at[0] + c * LONG / 4, LONG / 4, d.memory[0]};
		struct oriel_p2p_buffer t = {d.at[1] + c * LONG / 4, LONG / 4, d.memory[1]};

		CHECK_OK(r, oriel_p2p_send(e.p2p[0], c, &f, &out[c]));
		CHECK_OK(r, oriel_p2p_recv(e.p2p[e.count - 1], c, &t, &in[c]));
	}
	for (unsigned i = 0; i < turns; i++)
		turn(&e);
	/* After its destruction an endpoint's memory is not in use, nor is that of its GPU. */
	oriel_p2p_destroy(e.p2p[e.count - 1 - (e.count == 2 && first)]);
	oriel_p2p_unregister(d.memory[!first]);
	site_close(r, d.site[!first], d.at[!first]);
	if (e.count == 2)
		oriel_p2p_destroy(e.p2p[first]);
	for (unsigned c = 0; c < 4; c++)
		CHECK(r, out[c].status != ORIEL_AGAIN && in[c].status != ORIEL_AGAIN);
	oriel_p2p_unregister(d.memory[first]);
	site_close(r, d.site[first], d.at[first]);
	for (unsigned i = 0; i < e.count; i++)
		oriel_p2p_context_destroy(e.contexts[i]);
}

/* The sender has no GPU: transfers to the GPU of the receiver are staged, or fail. */
static void test_one_without(struct rank *r, enum oriel_path path, enum oriel_p2p_mode mode)
{
	static const unsigned one[2] = {0, ORIEL_P2P_GPU};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 2};
	struct oriel_p2p_memory *memory = NULL;
	struct oriel_p2p_request in;
	struct oriel_p2p_buffer to;
	struct data d;
	struct endpoints e;
	char *gpu;

	endpoints_open(r, &e, path, &attr, one);
	gpu = site_open(r, OWN);
	CHECK_FAILS(r, oriel_p2p_register(e.contexts[0], gpu, PIECE, 0, &memory), ORIEL_ERR_INVALID,
		    "the context needs ORIEL_P2P_GPU");
	data_open(r, &e, &d, HOST, LEGACY, true);
	if (path == ORIEL_PATH_MAPPED && mode == ORIEL_P2P_ZERO_COPY) {
		to = (struct oriel_p2p_buffer){d.at[1], 8, d.memory[1]};
		CHECK_FAILS(r, oriel_p2p_recv(e.p2p[1], 0, &to, &in), ORIEL_ERR_UNSUPPORTED,
			    "out of reach of the peer, whose context has none");
	} else {
		move(r, &e, &d, 2);
	}
	data_close(r, &e, &d);
	site_close(r, OWN, gpu);
	endpoints_close(&e);
}

/* A connect that fails leaves no streams and no pinned memory behind, and may be called again. */
static void test_connect_again(struct rank *r)
{
	const struct oriel_p2p_attr mapped = {.size = sizeof(mapped),
					      .paths = 1u << ORIEL_PATH_MAPPED};
	const struct oriel_p2p_attr rdma = {.size = sizeof(rdma), .paths = 1u << ORIEL_PATH_RDMA};
	const struct oriel_p2p_context_attr attr = {.size = sizeof(attr), .flags = ORIEL_P2P_GPU};
	const struct oriel_p2p_attr *attrs[3] = {&mapped, &rdma, &mapped};
	char address[3][ORIEL_P2P_ADDRESS];
	struct oriel_p2p_context *context;
	unsigned left = fakecuda_left();
	struct oriel_p2p *p2p[3];

	rank_use_gpu(r);
	CHECK_OK(r, oriel_p2p_context_create(&attr, &context));
	for (unsigned i = 0; i < 3; i++) {
		CHECK_OK(r, oriel_p2p_create(context, attrs[i], &p2p[i]));
		CHECK_OK(r, oriel_p2p_address(p2p[i], address[i]));
	}
	for (unsigned i = 0; i < 2; i++)
		CHECK_FAILS(r, oriel_p2p_connect(p2p[0], address[1], ORIEL_P2P_ADDRESS, 0),
			    ORIEL_ERR_NO_PATH, "no path");
	fakecuda_fail("cuStreamCreate", 1);
	CHECK(r, oriel_p2p_connect(p2p[0], address[2], ORIEL_P2P_ADDRESS, 0) < 0);
	fakecuda_fail(NULL, 0);
	CHECK_OK(r, oriel_p2p_connect(p2p[0], address[2], ORIEL_P2P_ADDRESS, 0));
	for (unsigned i = 0; i < 3; i++)
		oriel_p2p_destroy(p2p[i]);
	oriel_p2p_context_destroy(context);
	CHECK(r, fakecuda_left() == left);
}

static unsigned run_here(void)
{
	struct rank r = {.size = 2};

	test_connect_again(&r);
	for (unsigned p = 0; p < 3; p++)
		for (unsigned m = 0; m < 3; m++)
			for (unsigned channels = 1; channels <= 8; channels *= 2) {
				fakecuda_async(channels > 1);
				test_sites(&r, paths[p], modes[m], channels);
			}
	for (unsigned p = 0; p < 3; p++)
		for (unsigned m = 0; m < 3; m++)
			for (unsigned turns = 0; turns < 12; turns++)
				test_destroy_in_flight(&r, paths[p], modes[m], turns);
	fakecuda_async(false);
	for (unsigned p = 1; p < 3; p++)
		for (unsigned m = 0; m < 3; m++)
			test_one_without(&r, paths[p], modes[m]);
	return r.failures;
}

/* Run with FAKECUDA_ISLANDS=0,1. */
static unsigned run_apart(void)
{
	static const unsigned both[2] = {ORIEL_P2P_GPU, ORIEL_P2P_GPU};
	struct rank r = {.size = 2};

	for (unsigned m = 0; m < 3; m++) {
		const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = modes[m]};
		struct oriel_p2p_request in;
		struct oriel_p2p_buffer to;
		struct data d;
		struct endpoints e;

		endpoints_open(&r, &e, ORIEL_PATH_MAPPED, &attr, both);
		data_open(&r, &e, &d, LEGACY, OWN, true);
		if (modes[m] == ORIEL_P2P_ZERO_COPY) {
			to = (struct oriel_p2p_buffer){d.at[1], 8, d.memory[1]};
			CHECK_FAILS(&r, oriel_p2p_recv(e.p2p[1], 0, &to, &in),
				    ORIEL_ERR_UNSUPPORTED,
				    "out of reach of the peer, whose context has another GPU");
		} else {
			move(&r, &e, &d, 1);
		}
		data_close(&r, &e, &d);
		endpoints_close(&e);
	}
	return r.failures;
}

/* Transfers go both ways between two ranks, between all kinds of memory. */
static void exchange(struct rank *r, struct oriel_p2p *p, struct oriel_p2p_memory *memory[2],
		     char *at[2], size_t length, unsigned seed)
{
	struct oriel_p2p_buffer from = {at[0] + 3, length, memory[0]};
	struct oriel_p2p_buffer to = {at[1] + 9, length, memory[1]};
	struct oriel_p2p_request out, in;

	fill(from.address, length, seed + r->rank);
	memset(to.address, 0x77, length + 1);
	CHECK_OK(r, oriel_p2p_send(p, seed % 4, &from, &out));
	CHECK_OK(r, oriel_p2p_recv(p, seed % 4, &to, &in));
	CHECK_OK(r, oriel_p2p_wait(p, &in, 0));
	CHECK_OK(r, oriel_p2p_wait(p, &out, 0));
	CHECK(r, is_filled(to.address, length, seed + !r->rank));
	CHECK(r, at[1][9 + length] == 0x77);
}

/* Puts go both ways; a control message carries the export of the peer's memory. */
static void put_to_peer(struct rank *r, struct oriel_p2p *p, struct oriel_p2p_memory *memory[2],
			char *at[2])
{
	struct oriel_p2p_buffer from = {at[0] + 3, LONG, memory[0]};
	struct oriel_p2p_buffer to = {at[1], PIECE * PIECES, memory[1]};
	struct oriel_p2p_request out, in;
	struct oriel_p2p_remote remote;
	char bytes[2][ORIEL_P2P_EXPORT];

	CHECK_OK(r, oriel_p2p_export(p, &to, bytes[0]));
	CHECK_OK(r, oriel_p2p_send_control(p, 1, bytes[0], sizeof(bytes[0]), &out));
	CHECK_OK(r, oriel_p2p_recv_control(p, 1, bytes[1], sizeof(bytes[1]), &in));
	CHECK_OK(r, oriel_p2p_wait(p, &in, 0));
	CHECK_OK(r, oriel_p2p_wait(p, &out, 0));
	CHECK_OK(r, oriel_p2p_import(p, bytes[1], sizeof(bytes[1]), &remote));
	fill(from.address, LONG, r->rank);
	CHECK_OK(r, oriel_p2p_put(p, 2, &from, &remote, 77, &out));
	CHECK_OK(r, oriel_p2p_expect(p, 2, &in));
	CHECK_OK(r, oriel_p2p_wait(p, &in, 0));
	CHECK_OK(r, oriel_p2p_wait(p, &out, 0));
	CHECK(r, is_filled(at[1] + 77, LONG, !r->rank));
}

static void test_pair(struct rank *r, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 4};
	struct oriel_p2p_context *context = NULL;
	struct oriel_p2p *p = NULL;

	rank_join(r, LONG_NS);
	CHECK_OK(r, oriel_comm_p2p(r->comm, !r->rank, &attr, &p));
	CHECK_OK(r, oriel_comm_p2p_context(r->comm, &context));
	for (unsigned sites = 0; p && context && sites < SITES * SITES; sites++) {
		struct oriel_p2p_memory *memory[2] = {0};
		enum site site[2] = {sites % SITES, sites / SITES};
		char *at[2];

		for (unsigned i = 0; i < 2; i++) {
			at[i] = site_open(r, site[i]);
			if (sites % 3)
				CHECK_OK(r, oriel_p2p_register(context, at[i], PIECE * PIECES, 0,
							       &memory[i]));
		}
		for (unsigned i = 0; i < SIZES; i++)
			exchange(r, p, memory, at, sizes[i], sites + i);
		if (sites % 3 && mode != ORIEL_P2P_COPY_BASED)
			put_to_peer(r, p, memory, at);
		/* No rank frees memory while its peer may write to it. */
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		for (unsigned i = 0; i < 2; i++)
			oriel_p2p_unregister(memory[i]);
		for (unsigned i = 0; i < 2; i++)
			site_close(r, site[i], at[i]);
	}
	oriel_comm_destroy(r->comm);
}

/*
 * The sender leaves while its engine copies, and the receiver learns of that before the copies are
 * over: no byte of them lands once its request has ended.
 */
#define LEAVE (16u << 20)

static void test_destroy_of_the_peer(struct rank *r, bool is_broken)
{
	const struct oriel_p2p_context_attr context = {.size = sizeof(context),
						       .paths = 1u << ORIEL_PATH_MAPPED,
						       .flags = ORIEL_P2P_GPU,
						       .timeout_ns = LONG_NS};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_ZERO_COPY,
					    .channels = 2};
	char mine[ORIEL_P2P_ADDRESS], of[2][ORIEL_P2P_ADDRESS];
	struct oriel_p2p_memory *memory = NULL;
	struct oriel_p2p_context *ctx = NULL;
	struct oriel_p2p_request request, wrong;
	struct oriel_p2p *p = NULL;
	struct oriel_p2p_buffer b;
	size_t late = 0;
	void *memory_at = NULL;
	char *at;

	rank_join(r, LONG_NS);
	CHECK_OK(r, oriel_p2p_context_create(&context, &ctx));
	CHECK_OK(r, oriel_p2p_create(ctx, &attr, &p));
	CHECK_OK(r, oriel_p2p_address(p, mine));
	CHECK_OK(r, oriel_comm_all_gather(r->comm, mine, of, sizeof(mine)));
	CHECK_OK(r, oriel_p2p_connect(p, of[!r->rank], sizeof(mine), 0));
	CHECK_OK(r, oriel_memory_alloc(LEAVE, ORIEL_MEMORY_DEVICE, &memory_at));
	at = memory_at;
	memset(at, (int)r->rank, LEAVE);
	CHECK_OK(r, oriel_p2p_register(ctx, at, LEAVE, 0, &memory));
	b = (struct oriel_p2p_buffer){at, LEAVE, memory};
	CHECK_OK(r,
		 r->rank ? oriel_p2p_send(p, 0, &b, &request) : oriel_p2p_recv(p, 0, &b, &request));
	if (r->rank) {
		uint64_t before = fakecuda_copied();

		while (fakecuda_copied() == before && request.status == ORIEL_AGAIN)
			(void)oriel_p2p_progress(p);
		b.length = 8;
		/* The endpoint breaks by this instead of leaving: the peer receives less. */
		if (is_broken) {
			(void)oriel_p2p_send(p, 1, &b, &wrong);
			CHECK_FAILS(r, oriel_p2p_wait(p, &wrong, 0), ORIEL_ERR_MISMATCH, "");
		}
		CHECK_OK(r, oriel_p2p_destroy(p));
	} else {
		b.length = 4;
		if (is_broken)
			CHECK_OK(r, oriel_p2p_recv(p, 1, &b, &wrong));
		CHECK(r, oriel_p2p_wait(p, &request, 0) != ORIEL_ERR_TIMEOUT);
		memset(at, 0x5a, LEAVE);
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (size_t i = 0; !r->rank && i < LEAVE; i++)
		late += at[i] != 0x5a;
	CHECK(r, late == 0);
	if (!r->rank)
		CHECK_OK(r, oriel_p2p_destroy(p));
	CHECK_OK(r, oriel_p2p_unregister(memory));
	CHECK_OK(r, oriel_p2p_context_destroy(ctx));
	CHECK_OK(r, oriel_memory_free(at));
	oriel_comm_destroy(r->comm);
}

static void test_pairs(struct rank *r)
{
	for (unsigned m = 0; m < 6; m++) {
		fakecuda_async(m >= 3);
		test_pair(r, modes[m % 3]);
	}
	if (getenv("ORIEL_NODE"))
		return;
	test_destroy_of_the_peer(r, false);
	test_destroy_of_the_peer(r, true);
}

int main(int argc, char **argv)
{
	unsigned fds = count_fds(), failures;

	if (argc == 2 && strcmp(argv[1], "pair") == 0)
		return run_rank_of_two(test_pairs) != 0;
	failures = argc == 2 && strcmp(argv[1], "apart") == 0 ? run_apart() : run_here();
	return rank_finish(failures, fds);
}
