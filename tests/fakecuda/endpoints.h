/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two endpoints of oriel/p2p.h in one thread, each with a GPU or without one; gpu_p2p, gpu_slots
 * and gpu_flush include it.
 */
#ifndef FAKECUDA_ENDPOINTS_H
#define FAKECUDA_ENDPOINTS_H

#include <sched.h>

#include "rank.h"

#define CHUNK 4096u
#define LONG (CHUNK * 23 + 5)
#define PIECE 65536u
#define PIECES 4u

static const enum oriel_path paths[] = {ORIEL_PATH_SELF, ORIEL_PATH_MAPPED, ORIEL_PATH_RDMA};
static const enum oriel_p2p_mode modes[] = {ORIEL_P2P_AUTO, ORIEL_P2P_ZERO_COPY,
					    ORIEL_P2P_COPY_BASED};
static const size_t sizes[] = {1, 8, CHUNK - 1, CHUNK + 1, 8 * CHUNK, LONG};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* The kinds of memory that a buffer has. */
enum site { HOST, LEGACY, OWN, SEVERAL, SITES };

static inline char *site_open(struct rank *r, enum site site)
{
	CUdeviceptr at = 0;
	void *own = NULL;

	switch (site) {
	case LEGACY:
		CHECK(r, cuMemAlloc(&at, PIECE * PIECES) == CUDA_SUCCESS);
		return (char *)at;
	case OWN:
		CHECK_OK(r, oriel_memory_alloc(PIECE * PIECES, ORIEL_MEMORY_DEVICE, &own));
		return own;
	case SEVERAL:
		return map(r, PIECE, PIECES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	default:
		CHECK_OK(r, oriel_memory_alloc(PIECE * PIECES, 0, &own));
		return own;
	}
}

static inline void site_close(struct rank *r, enum site site, char *at)
{
	if (site == LEGACY)
		CHECK(r, cuMemFree((CUdeviceptr)at) == CUDA_SUCCESS);
	else if (site == SEVERAL)
		unmap(r, at, PIECE, PIECES);
	else
		oriel_memory_free(at);
}

static inline void fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed * 7 + 1);
}

static inline bool is_filled(const char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (at[i] != (char)(i * 31 + i / 251 + seed * 7 + 1))
			return false;
	return true;
}

/* On path self one endpoint is its own peer. */
struct endpoints {
	struct oriel_p2p_context *contexts[2];
	struct oriel_p2p *p2p[2];
	unsigned count;
};

static inline void turn(struct endpoints *e)
{
	for (unsigned i = 0; i < e->count; i++)
		(void)oriel_p2p_progress(e->p2p[i]);
	sched_yield();
}

static inline enum oriel_status wait_for(struct endpoints *e,
					 const struct oriel_p2p_request *request)
{
	uint64_t begin = oriel_cpu_clock_ns();

	while (request->status == ORIEL_AGAIN && oriel_cpu_clock_ns() - begin < LONG_NS)
		turn(e);
	return request->status;
}

/* Connect, and progress until both are connected or broken. */
static inline void endpoints_begin(struct rank *r, struct endpoints *e, enum oriel_path path,
				   const struct oriel_p2p_attr *attr, const unsigned flags[2])
{
	char address[2][ORIEL_P2P_ADDRESS];
	uint64_t begin = oriel_cpu_clock_ns();

	*e = (struct endpoints){.count = path == ORIEL_PATH_SELF ? 1 : 2};
	for (unsigned i = 0; i < e->count; i++) {
		struct oriel_p2p_context_attr context = {.size = sizeof(context),
							 .chunk = CHUNK,
							 .slots = 24,
							 .paths = 1u << path,
							 .timeout_ns = LONG_NS,
							 .flags = flags[i]};

		r->rank = i;
		rank_use_gpu(r);
		CHECK_OK(r, oriel_p2p_context_create(&context, &e->contexts[i]));
		CHECK_OK(r, oriel_p2p_create(e->contexts[i], attr, &e->p2p[i]));
		CHECK_OK(r, oriel_p2p_address(e->p2p[i], address[i]));
	}
	for (unsigned i = 0; i < e->count; i++)
		CHECK_OK(r, oriel_p2p_connect(e->p2p[i], address[e->count - 1 - i],
					      ORIEL_P2P_ADDRESS, 0));
	for (unsigned i = 0; i < e->count; i++)
		while (oriel_p2p_check(e->p2p[i]) == ORIEL_AGAIN &&
		       oriel_cpu_clock_ns() - begin < LONG_NS)
			turn(e);
}

static inline void endpoints_open(struct rank *r, struct endpoints *e, enum oriel_path path,
				  const struct oriel_p2p_attr *attr, const unsigned flags[2])
{
	endpoints_begin(r, e, path, attr, flags);
	for (unsigned i = 0; i < e->count; i++)
		CHECK_OK(r, oriel_p2p_check(e->p2p[i]));
}

static inline void endpoints_destroy(struct endpoints *e)
{
	for (unsigned i = 0; i < e->count; i++)
		oriel_p2p_destroy(e->p2p[i]);
}

static inline void endpoints_close_contexts(struct endpoints *e)
{
	for (unsigned i = 0; i < e->count; i++)
		oriel_p2p_context_destroy(e->contexts[i]);
}

static inline void endpoints_close(struct endpoints *e)
{
	endpoints_destroy(e);
	endpoints_close_contexts(e);
}

/* Two buffers at each endpoint. */
struct data {
	enum site site[2];
	char *at[2];
	struct oriel_p2p_memory *memory[2];
};

static inline void data_open(struct rank *r, struct endpoints *e, struct data *d, enum site from,
			     enum site to, bool is_registered)
{
	*d = (struct data){.site = {from, to}};
	for (unsigned i = 0; i < 2; i++) {
		r->rank = e->count == 2 ? i : 0;
		rank_use_gpu(r);
		d->at[i] = site_open(r, d->site[i]);
		if (is_registered)
			CHECK_OK(r, oriel_p2p_register(e->contexts[r->rank], d->at[i],
						       PIECE * PIECES, 0, &d->memory[i]));
	}
}

static inline void data_close(struct rank *r, struct endpoints *e, struct data *d)
{
	for (unsigned i = 0; i < 2; i++) {
		r->rank = e->count == 2 ? i : 0;
		rank_use_gpu(r);
		oriel_p2p_unregister(d->memory[i]);
		site_close(r, d->site[i], d->at[i]);
	}
}

/*
 * Move one buffer of each size on each channel, all in flight at once, at offsets of a few
 * bytes.
 */
static inline void move(struct rank *r, struct endpoints *e, struct data *d, unsigned channels)
{
	struct oriel_p2p *to = e->p2p[e->count - 1];
	struct oriel_p2p_request out[8], in[8];

	for (unsigned i = 0; i < SIZES; i++) {
		size_t step = (PIECE * PIECES - LONG - 64) / channels / 64 * 64 + 3;

		for (unsigned c = 0; c < channels; c++) {
			struct oriel_p2p_buffer f = {d->at[0] + c * step, sizes[i], d->memory[0]};
			struct oriel_p2p_buffer t = {d->at[1] + c * step, sizes[i], d->memory[1]};

			if (sizes[i] > step && channels > 1)
				f.length = t.length = step;
			fill(f.address, f.length, i + c);
			memset(t.address, 0x77, t.length + 1);
			CHECK_OK(r, oriel_p2p_send(e->p2p[0], c, &f, &out[c]));
			CHECK_OK(r, oriel_p2p_recv(to, c, &t, &in[c]));
		}
		for (unsigned c = 0; c < channels; c++) {
			size_t length = sizes[i] > step && channels > 1 ? step : sizes[i];

			CHECK_OK(r, wait_for(e, &in[c]));
			CHECK_OK(r, wait_for(e, &out[c]));
			CHECK(r, is_filled(d->at[1] + c * step, length, i + c));
			/* The next channel's bytes may arrive at its beginning. */
			CHECK(r, c + 1 < channels || d->at[1][c * step + length] == 0x77);
		}
	}
}

/* Run @test as one of two ranks of a job; return how many of its checks failed. */
static inline unsigned run_rank_of_two(void (*test)(struct rank *r))
{
	struct oriel_bootstrap bootstrap;
	struct rank r = {.size = 2};

	if (oriel_bootstrap_open_env(0, &bootstrap) != ORIEL_OK) {
		fprintf(stderr, "%s\n", oriel_last_error());
		return 1;
	}
	r.rank = bootstrap.rank;
	r.bootstrap = &bootstrap;
	rank_use_gpu(&r);
	test(&r);
	oriel_bootstrap_close(&bootstrap);
	return r.failures;
}

#endif
