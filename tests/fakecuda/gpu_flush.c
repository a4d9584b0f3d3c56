/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of oriel/p2p.h over HCAs that reach GPU memory by dma-buf, and GPUs that see writes
 * of an HCA only after a flush. CTest runs it as fakecuda/p2p_flush.
 */
#include "endpoints.h"
#include "fakeverbs.h"

#define CHANNELS 4u
#define ROOM ((size_t)CHANNELS * 131072)

static const unsigned both[2] = {ORIEL_P2P_GPU, ORIEL_P2P_GPU};
static const unsigned in_slots[2] = {ORIEL_P2P_GPU, ORIEL_P2P_GPU | ORIEL_P2P_GPU_SLOTS};

/* A transfer from host memory to GPU memory. */
struct flow {
	struct endpoints e;
	char *at[2];
	struct oriel_p2p_memory *memory[2];
};

static void flow_open(struct rank *r, struct flow *f, enum oriel_p2p_mode mode,
		      const unsigned flags[2], bool is_registered)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = CHANNELS};
	void *at;

	*f = (struct flow){.at = {0}};
	endpoints_open(r, &f->e, ORIEL_PATH_RDMA, &attr, flags);
	for (unsigned i = 0; i < 2; i++) {
		r->rank = i;
		rank_use_gpu(r);
		CHECK_OK(r, oriel_memory_alloc(ROOM, i ? ORIEL_MEMORY_DEVICE : 0, &at));
		f->at[i] = at;
		if (is_registered)
			CHECK_OK(r,
				 oriel_p2p_register(f->e.contexts[i], at, ROOM, 0, &f->memory[i]));
	}
}

static void flow_close(struct flow *f)
{
	endpoints_destroy(&f->e);
	for (unsigned i = 0; i < 2; i++) {
		oriel_p2p_unregister(f->memory[i]);
		oriel_memory_free(f->at[i]);
	}
	endpoints_close_contexts(&f->e);
}

static char *part(const struct flow *f, unsigned end, unsigned channel)
{
	return f->at[end] + channel * (ROOM / CHANNELS) + 5;
}

/* The data of a receive is visible when the receive completes, whatever else is in flight. */
static void flow_move(struct rank *r, struct flow *f, size_t length, unsigned seed)
{
	struct oriel_p2p_request out[CHANNELS], in[CHANNELS];

	for (unsigned c = 0; c < CHANNELS; c++) {
		struct oriel_p2p_buffer from = {part(f, 0, c), length, f->memory[0]};
		struct oriel_p2p_buffer to = {part(f, 1, c), length, f->memory[1]};

		fill(from.address, length, seed + c);
		memset(to.address, 0x77, length);
		CHECK_OK(r, oriel_p2p_recv(f->e.p2p[1], c, &to, &in[c]));
		CHECK_OK(r, oriel_p2p_send(f->e.p2p[0], c, &from, &out[c]));
	}
	for (unsigned c = 0; c < CHANNELS; c++) {
		CHECK_OK(r, wait_for(&f->e, &in[c]));
		CHECK(r, is_filled(part(f, 1, c), length, seed + c));
	}
	for (unsigned c = 0; c < CHANNELS; c++)
		CHECK_OK(r, wait_for(&f->e, &out[c]));
}

static void flow_put(struct rank *r, struct flow *f, size_t length, unsigned seed)
{
	struct oriel_p2p_buffer from = {f->at[0], length, f->memory[0]};
	struct oriel_p2p_buffer all = {f->at[1], ROOM, f->memory[1]};
	struct oriel_p2p_request out, in;
	struct oriel_p2p_remote remote;
	char bytes[ORIEL_P2P_EXPORT];

	CHECK_OK(r, oriel_p2p_export(f->e.p2p[1], &all, bytes));
	CHECK_OK(r, oriel_p2p_import(f->e.p2p[0], bytes, sizeof(bytes), &remote));
	fill(from.address, length, seed);
	memset(f->at[1], 0x77, length + 3);
	CHECK_OK(r, oriel_p2p_put(f->e.p2p[0], 1, &from, &remote, 3, &out));
	CHECK_OK(r, oriel_p2p_expect(f->e.p2p[1], 1, &in));
	CHECK_OK(r, wait_for(&f->e, &in));
	CHECK(r, is_filled(f->at[1] + 3, length, seed));
	CHECK_OK(r, wait_for(&f->e, &out));
}

static void test_mode(struct rank *r, enum oriel_p2p_mode mode, const unsigned flags[2],
		      bool is_registered, bool is_flushed)
{
	unsigned before = fakecuda_flushes();
	struct flow f;

	flow_open(r, &f, mode, flags, is_registered);
	for (unsigned i = 0; i < 3 * SIZES; i++)
		flow_move(r, &f, sizes[i % SIZES], i);
	for (unsigned i = 0; i < SIZES && is_registered && mode != ORIEL_P2P_COPY_BASED; i++)
		flow_put(r, &f, sizes[i], i + 100);
	flow_close(&f);
	CHECK(r, (fakecuda_flushes() > before) == is_flushed);
}

/* A failed flush breaks the endpoint: no receive completes for bytes that are not visible. */
static void test_failure(struct rank *r)
{
	struct oriel_p2p_buffer from, to;
	struct oriel_p2p_request out, in;
	struct flow f;

	flow_open(r, &f, ORIEL_P2P_ZERO_COPY, both, true);
	from = (struct oriel_p2p_buffer){f.at[0], LONG, f.memory[0]};
	to = (struct oriel_p2p_buffer){f.at[1], LONG, f.memory[1]};
	fakecuda_fail("cuFlushGPUDirectRDMAWrites", 0);
	CHECK_OK(r, oriel_p2p_recv(f.e.p2p[1], 0, &to, &in));
	CHECK_OK(r, oriel_p2p_send(f.e.p2p[0], 0, &from, &out));
	CHECK(r, wait_for(&f.e, &in) < 0);
	CHECK_FAILS(r, oriel_p2p_check(f.e.p2p[1]), in.status, "flushing RDMA writes to GPU");
	(void)wait_for(&f.e, &out);
	flow_close(&f);
}

static void test_refused(struct rank *r)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_ZERO_COPY};
	struct oriel_p2p_memory *memory = NULL;
	struct endpoints e;
	void *at;

	setenv("FAKECUDA_FLUSHES", "0", 1);
	endpoints_open(r, &e, ORIEL_PATH_RDMA, &attr, both);
	CHECK_OK(r, oriel_memory_alloc(ROOM, ORIEL_MEMORY_DEVICE, &at));
	CHECK_FAILS(r, oriel_p2p_register(e.contexts[1], at, ROOM, 0, &memory),
		    ORIEL_ERR_UNSUPPORTED, "needs a flush after the writes of a NIC");
	oriel_memory_free(at);
	endpoints_close(&e);
	unsetenv("FAKECUDA_FLUSHES");
}

int main(void)
{
	struct rank r = {.size = 2};
	unsigned fds = count_fds();

	setenv("FAKECUDA_DMABUF", "1", 1);
	setenv("FAKECUDA_ORDERING", "0", 1);
	fakecuda_on_flush(fake_flush);
	fake_hold(true);
	for (unsigned is_registered = 0; is_registered < 2; is_registered++) {
		test_mode(&r, ORIEL_P2P_ZERO_COPY, both, is_registered, true);
		/* In mode auto the HCA writes directly to registered memory alone. */
		test_mode(&r, ORIEL_P2P_AUTO, both, is_registered, is_registered);
		test_mode(&r, ORIEL_P2P_COPY_BASED, both, is_registered, false);
		/* The HCA writes directly to slots in GPU memory. */
		test_mode(&r, ORIEL_P2P_AUTO, in_slots, is_registered, true);
		test_mode(&r, ORIEL_P2P_COPY_BASED, in_slots, is_registered, true);
	}
	test_failure(&r);
	test_refused(&r);
	/* A GPU that sees the HCA's writes by itself is not flushed. */
	fake_hold(false);
	setenv("FAKECUDA_ORDERING", "100", 1);
	test_mode(&r, ORIEL_P2P_ZERO_COPY, both, true, false);
	if (fake_left()) {
		fprintf(stderr, "%d objects of the HCAs were not destroyed\n", fake_left());
		r.failures++;
	}
	return rank_finish(r.failures, fds);
}
