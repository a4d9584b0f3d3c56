/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of oriel/p2p.h over adapters that reach memory of GPUs by dma-buf, and GPUs that
 * see what these write to them after a flush only.
 */
#include "endpoints.h"
#include "fakeverbs.h"

#define CHANNELS 4u
#define ROOM ((size_t)CHANNELS * 131072)

static const unsigned both[2] = {ORIEL_P2P_GPU, ORIEL_P2P_GPU};
static const unsigned in_slots[2] = {ORIEL_P2P_GPU, ORIEL_P2P_GPU | ORIEL_P2P_GPU_SLOTS};

/* From memory of the host to that of a GPU. */
struct flow {
	struct ends e;
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
	ends_open(r, &f->e, ORIEL_PATH_RDMA, &attr, flags);
	for (unsigned i = 0; i < 2; i++) {
		r->rank = i;
		rank_use_gpu(r);
		CHECK_OK(r, oriel_memory_alloc(ROOM, i ? ORIEL_MEMORY_DEVICE : 0, &at));
		f->at[i] = at;
		if (is_registered)
			CHECK_OK(r, oriel_p2p_register(f->e.hubs[i], at, ROOM, 0, &f->memory[i]));
	}
}

static void flow_close(struct flow *f)
{
	ends_close_ends(&f->e);
	for (unsigned i = 0; i < 2; i++) {
		oriel_p2p_unregister(f->memory[i]);
		oriel_memory_free(f->at[i]);
	}
	ends_close_hubs(&f->e);
}

static char *part(const struct flow *f, unsigned end, unsigned channel)
{
	return f->at[end] + channel * (ROOM / CHANNELS) + 5;
}

/* What a receive has brought is there as soon as that is done, whatever else is under way. */
static void flow_move(struct rank *r, struct flow *f, size_t length, unsigned seed)
{
	struct oriel_p2p_request out[CHANNELS], in[CHANNELS];

	for (unsigned c = 0; c < CHANNELS; c++) {
		struct oriel_p2p_buffer from = {part(f, 0, c), length, f->memory[0]};
		struct oriel_p2p_buffer to = {part(f, 1, c), length, f->memory[1]};

		fill(from.address, length, seed + c);
		memset(to.address, 0x77, length);
		CHECK_OK(r, oriel_p2p_recv(f->e.of[1], c, &to, &in[c]));
		CHECK_OK(r, oriel_p2p_send(f->e.of[0], c, &from, &out[c]));
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

	CHECK_OK(r, oriel_p2p_export(f->e.of[1], &all, bytes));
	CHECK_OK(r, oriel_p2p_import(f->e.of[0], bytes, sizeof(bytes), &remote));
	fill(from.address, length, seed);
	memset(f->at[1], 0x77, length + 3);
	CHECK_OK(r, oriel_p2p_put(f->e.of[0], 1, &from, &remote, 3, &out));
	CHECK_OK(r, oriel_p2p_expect(f->e.of[1], 1, &in));
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

/* A flush that fails ends the transport: nobody is told of bytes that are not there. */
static void test_failure(struct rank *r)
{
	struct oriel_p2p_buffer from, to;
	struct oriel_p2p_request out, in;
	struct flow f;

	flow_open(r, &f, ORIEL_P2P_ZERO_COPY, both, true);
	from = (struct oriel_p2p_buffer){f.at[0], LONG, f.memory[0]};
	to = (struct oriel_p2p_buffer){f.at[1], LONG, f.memory[1]};
	fakecuda_fail("cuFlushGPUDirectRDMAWrites", 0);
	CHECK_OK(r, oriel_p2p_recv(f.e.of[1], 0, &to, &in));
	CHECK_OK(r, oriel_p2p_send(f.e.of[0], 0, &from, &out));
	CHECK(r, wait_for(&f.e, &in) < 0);
	CHECK_FAILS(r, oriel_p2p_check(f.e.of[1]), in.status, "flushing RDMA writes to GPU");
	(void)wait_for(&f.e, &out);
	flow_close(&f);
}

static void test_refused(struct rank *r)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_ZERO_COPY};
	struct oriel_p2p_memory *memory = NULL;
	struct ends e;
	void *at;

	setenv("FAKECUDA_FLUSHES", "0", 1);
	ends_open(r, &e, ORIEL_PATH_RDMA, &attr, both);
	CHECK_OK(r, oriel_memory_alloc(ROOM, ORIEL_MEMORY_DEVICE, &at));
	CHECK_FAILS(r, oriel_p2p_register(e.hubs[1], at, ROOM, 0, &memory), ORIEL_ERR_UNSUPPORTED,
		    "needs a flush after the writes of a NIC, which its driver does not have");
	oriel_memory_free(at);
	ends_close(&e);
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
		/* Of what nobody has registered nothing goes straight. */
		test_mode(&r, ORIEL_P2P_AUTO, both, is_registered, is_registered);
		test_mode(&r, ORIEL_P2P_COPY_BASED, both, is_registered, false);
		/* Into slots of the GPU all goes straight. */
		test_mode(&r, ORIEL_P2P_AUTO, in_slots, is_registered, true);
		test_mode(&r, ORIEL_P2P_COPY_BASED, in_slots, is_registered, true);
	}
	test_failure(&r);
	test_refused(&r);
	/* A GPU that sees what is written to it is not flushed. */
	fake_hold(false);
	setenv("FAKECUDA_ORDERING", "100", 1);
	test_mode(&r, ORIEL_P2P_ZERO_COPY, both, true, false);
	if (fake_left()) {
		fprintf(stderr, "%d things of the adapters were left behind\n", fake_left());
		r.failures++;
	}
	return rank_finish(r.failures, fds);
}
