/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The costs of Oriel's device code in kernels: ping-pongs, bandwidths, barriers, channels, over
 * hand-made windows (bare.h). Every transfer is checked first in rounds that are not timed. run.py
 * calls it. usage: oriel_rows [GPUS [PARTS]], PARTS with commas: latency, barrier, atomic,
 * bandwidth, stream
 */
#include "oriel_bandwidth.h"
#include "oriel_measure.h"
#include "oriel_methods.h"

struct plan {
	uint64_t first; /* earlier messages of this method */
	uint32_t samples;
	uint32_t rounds;
	uint64_t *ns;         /* [samples]: time of @rounds round trips */
	uint32_t *wrong;      /* counts wrong bytes and failed waits */
	const uint32_t *zero; /* for in_register() */
	uint32_t sm;          /* the SM of a test with one block; or PLACE_ANY */
	uint32_t place;       /* its words are used */
	uint32_t *present;    /* for is_placed() */
};

template <class Method, bool IS_CHECKED>
static __device__ __forceinline__ void send_message(const struct side *s, struct oriel_dev_group g,
						    uint64_t n)
{
	uint64_t i;

	if (IS_CHECKED) {
		for (i = g.rank; i < s->bytes; i += g.size)
			s->source[i] = (char)pattern(n, s->w->rank, i);
		oriel_dev_sync(g);
	}
	Method::go(s, g, n);
}

template <class Method, bool IS_CHECKED>
static __device__ __forceinline__ bool
receive_message(const struct side *s, struct oriel_dev_group g, const struct plan *p, uint64_t n)
{
	uint64_t i;

	if (!Method::arrived(s, g, n)) {
		atomicAdd(p->wrong, 1u);
		return false;
	}
	if (IS_CHECKED) {
		for (i = g.rank; i < s->bytes; i += g.size)
			if ((unsigned char)s->target[i] != pattern(n, s->peer, i))
				atomicAdd(p->wrong, 1u);
		oriel_dev_sync(g);
	}
	return true;
}

/*
 * Makes @value a computed one, as in a user's kernel: without the load ptxas would load a constant
 * for each message, or recompute it.
 */
static __device__ __forceinline__ uint32_t in_register(const struct plan *p, uint32_t value)
{
	uint32_t zero;

	asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(zero) : "l"(p->zero));
	return value + zero;
}

template <class Method, int KIND, bool IS_CHECKED>
__global__ void __launch_bounds__(KIND == BIG     ? 1024
				  : KIND == BLOCK ? 256
						  : 32,
				  1)
	ping_pong(const __grid_constant__ struct oriel_dev_window w, uint32_t peer, uint64_t bytes,
		  char *source, char *target, const __grid_constant__ struct plan p)
{
	/* BIG has 64 registers per thread, and none to spare. */
	struct side s = {&w,     KIND == BIG ? peer : in_register(&p, peer), bytes, source, target,
			 p.place};
	struct oriel_dev_group g = group_of(KIND);
	uint64_t sent = p.first, received = p.first, start;
	uint32_t second = KIND == BIG ? w.rank : in_register(&p, w.rank), i, k;

	if (!is_placed(p.sm, p.present))
		return;
	for (i = 0; i < p.samples; i++) {
		start = oriel_dev_clock_ns();
		/*
		 * Rank 0 sends and receives; rank 1 receives first and then sends. One copy of the
		 * code of each, since two would need too many registers, with little in between.
		 */
		ORIEL_DEV_ROLL
		for (k = 0; k < p.rounds + second; k++) {
			if (k >= second)
				send_message<Method, IS_CHECKED>(&s, g, ++sent);
			if (k < p.rounds &&
			    !receive_message<Method, IS_CHECKED>(&s, g, &p, ++received))
				return;
		}
		if (g.rank == 0)
			p.ns[i] = oriel_dev_clock_ns() - start;
	}
}

template <class Method, int KIND, bool IS_CHECKED>
static void launch_ping_pong(struct bare *b, const struct row *r, struct plan p,
			     uint64_t count[PLACES])
{
	uint64_t *ns = p.ns;
	uint32_t i;

	p.first = count[p.place];
	for (i = 0; i < 2; i++) {
		CUDA_CHECK(cudaSetDevice(b->rank[i].gpu));
		p.ns = ns_buffer[i] + (ns - ns_buffer[0]);
		p.sm = place_sm(p.place, i);
		p.present = present[i];
		ping_pong<Method, KIND, IS_CHECKED>
			<<<place_blocks(), r->threads, 0, b->rank[i].stream>>>(b->window[i], 1 - i,
									       r->bytes,
									       b->rank[i].buffer[1],
									       b->rank[i].buffer[0],
									       p);
		CUDA_CHECK(cudaGetLastError());
	}
	bare_wait(b, r->test);
	count[p.place] += (uint64_t)p.samples * p.rounds;
}

template <class Method, int KIND>
static void run_ping_pong(struct bare *b, struct row r, uint64_t count[PLACES])
{
	uint32_t rounds = ping_pong_rounds(r.bytes, r.threads), i;
	struct plan p = {0, 4,   rounds < 8 ? rounds : 8, ns_buffer[0], wrong_buffer, zero_word, 0,
			 0, NULL};

	r.impl = "oriel";
	r.path = "mapped";
	r.ranks = 2;
	r.blocks = 1;
	if (!is_wanted(&r))
		return;
	launch_ping_pong<Method, KIND, Method::has_bytes>(b, &r, p, count);
	p.rounds = rounds < 50 ? rounds : 50;
	launch_ping_pong<Method, KIND, false>(b, &r, p, count);
	p.rounds = rounds;
	p.samples = EACH;
	for (i = 0; i < PLACES; i++) {
		p.place = i;
		p.ns = ns_buffer[0] + i * EACH;
		launch_ping_pong<Method, KIND, false>(b, &r, p, count);
	}
	if (is_right(&r))
		take(&r, 2ul * p.rounds, 0);
}

static void latencies(struct bare *b)
{
	uint64_t values[PLACES] = {0}, relaxed[PLACES] = {0}, signals[PLACES] = {0},
		 puts[PLACES] = {0}, lls[PLACES] = {0}, ll128s[PLACES] = {0}, sends[PLACES] = {0},
		 send_lls[PLACES] = {0}, send_ll128s[PLACES] = {0};
	static const uint64_t sizes[] = {8, 128, 1024, 4096, 65536};
	unsigned i;

	run_ping_pong<value_method, THREAD>(b, row_of("put_value", "one way", 8, 1), values);
	run_ping_pong<relaxed_method, THREAD>(b, row_of("signal", "unordered", 0, 1), relaxed);
	run_ping_pong<relaxed_method, WARP>(b, row_of("signal", "unordered", 0, 32), relaxed);
	run_ping_pong<signal_method, THREAD>(b, row_of("signal", "ordered", 0, 1), signals);
	run_ping_pong<signal_method, WARP>(b, row_of("signal", "ordered", 0, 32), signals);
	for (i = 0; i < 5; i++) {
		run_ping_pong<put_signal_method, THREAD>(
			b, row_of("put_signal", "one way", sizes[i], 1), puts);
		run_ping_pong<put_signal_method, WARP>(
			b, row_of("put_signal", "one way", sizes[i], 32), puts);
		run_ping_pong<put_signal_method, BLOCK>(
			b, row_of("put_signal", "one way", sizes[i], 256), puts);
		run_ping_pong<put_signal_method, BIG>(
			b, row_of("put_signal", "one way", sizes[i], 1024), puts);
	}
	for (i = 0; i < 5; i++) {
		if (sizes[i] <= 8)
			run_ping_pong<ll_method, THREAD>(b,
							 row_of("put_ll", "one way", sizes[i], 1),
							 lls);
		if (sizes[i] <= 1024)
			run_ping_pong<ll_method, WARP>(b, row_of("put_ll", "one way", sizes[i], 32),
						       lls);
		run_ping_pong<ll_method, BLOCK>(b, row_of("put_ll", "one way", sizes[i], 256), lls);
		run_ping_pong<ll_method, BIG>(b, row_of("put_ll", "one way", sizes[i], 1024), lls);
	}
	for (i = 0; i < 5; i++) {
		if (sizes[i] <= 1024)
			run_ping_pong<ll128_method, WARP>(
				b, row_of("put_ll128", "one way", sizes[i], 32), ll128s);
		run_ping_pong<ll128_method, BLOCK>(b, row_of("put_ll128", "one way", sizes[i], 256),
						   ll128s);
		run_ping_pong<ll128_method, BIG>(b, row_of("put_ll128", "one way", sizes[i], 1024),
						 ll128s);
	}
	for (i = 0; i < 5; i++) {
		if (sizes[i] <= 128)
			run_ping_pong<channel_method, WARP>(
				b, row_of("send_recv_kernel", "one way", sizes[i], 32), sends);
		run_ping_pong<channel_method, BLOCK>(
			b, row_of("send_recv_kernel", "one way", sizes[i], 256), sends);
		if (sizes[i] > b->attr.channel_bytes / 8)
			continue;
		if (sizes[i] <= 128)
			run_ping_pong<channel_ll_method, WARP>(
				b, row_of("send_recv_ll", "one way", sizes[i], 32), send_lls);
		run_ping_pong<channel_ll_method, BLOCK>(
			b, row_of("send_recv_ll", "one way", sizes[i], 256), send_lls);
		if (sizes[i] <= 128)
			run_ping_pong<channel_ll128_method, WARP>(
				b, row_of("send_recv_ll128", "one way", sizes[i], 32), send_ll128s);
		run_ping_pong<channel_ll128_method, BLOCK>(
			b, row_of("send_recv_ll128", "one way", sizes[i], 256), send_ll128s);
	}
}

template <int KIND>
__global__ void barriers(const __grid_constant__ struct oriel_dev_window w,
			 const __grid_constant__ struct plan p)
{
	struct oriel_dev_group g = group_of(KIND);
	uint32_t slot = in_register(&p, p.place * (APART / 8));
	uint64_t start;
	uint32_t i, k;

	if (!is_placed(p.sm, p.present))
		return;
	for (i = 0; i < p.samples; i++) {
		start = oriel_dev_clock_ns();
		for (k = 0; k < p.rounds; k++) {
			if (oriel_dev_barrier(&w, g, slot, 0) != ORIEL_OK) {
				atomicAdd(p.wrong, 1u);
				return;
			}
		}
		if (g.rank == 0)
			p.ns[i] = oriel_dev_clock_ns() - start;
	}
}

template <int KIND> static void run_barrier(struct bare *b, uint32_t threads)
{
	struct row r = row_of("barrier", "in kernel", 0, threads);
	struct plan p = {0, EACH, 200, NULL, wrong_buffer, zero_word, 0, 0, NULL};
	uint32_t place, i;

	r.ranks = b->attr.ranks;
	for (place = 0; place < PLACES; place++) {
		p.place = place;
		for (i = 0; i < b->attr.ranks; i++) {
			CUDA_CHECK(cudaSetDevice(b->rank[i].gpu));
			p.ns = ns_buffer[i] + place * EACH;
			p.sm = place_sm(place, i);
			p.present = present[i];
			barriers<KIND>
				<<<place_blocks(), threads, 0, b->rank[i].stream>>>(b->window[i],
										    p);
			CUDA_CHECK(cudaGetLastError());
		}
		bare_wait(b, "barrier");
	}
	if (*wrong_buffer)
		bare_die("barrier: failed");
	take(&r, p.rounds, 0);
}

template <bool IS_ORDERED, bool IS_CHECKED>
__global__ void fetch_adds(const __grid_constant__ struct oriel_dev_window w,
			   const __grid_constant__ struct plan p)
{
	uint64_t start, old = 0, last = 0, one, at;
	uint32_t peer = in_register(&p, 1), i, k;
	enum oriel_status status;

	if (!is_placed(p.sm, p.present))
		return;
	for (i = 0; i < p.samples; i++) {
		start = oriel_dev_clock_ns();
		for (k = 0; k < p.rounds; k++) {
			/*
			 * As in nvshmem_rows.cu: ptxas merges equal adds of a warp into one. And
			 * half of the value would be moved early, not when it is needed.
			 */
			one = 1 + (old == UINT64_MAX);
			at = 64 + word_of(p.place, IS_CHECKED ? 0 : k) * 8;
			status = IS_ORDERED ? oriel_dev_fetch_add(&w, peer, at, one, &old)
					    : oriel_dev_fetch_add_relaxed(&w, peer, at, one, &old);
			if (status != ORIEL_OK || (IS_CHECKED && old <= last && last))
				atomicAdd(p.wrong, 1u);
			last = old;
		}
		if (threadIdx.x == 0 && (p.sm != PLACE_ANY || blockIdx.x == 0))
			p.ns[i] = oriel_dev_clock_ns() - start;
	}
}

/* Time of one add to a word shared by all threads. Atomics of other libraries are relaxed. */
template <bool IS_ORDERED>
static void run_fetch_add(struct bare *b, const char *mode, uint32_t blocks, uint32_t threads)
{
	struct plan p = {0, EACH, 200, ns_buffer[0], wrong_buffer, zero_word, 0, 0, present[0]};
	struct row r = row_of("fetch_add", mode, 8, threads);
	uint32_t pass;

	r.blocks = blocks;
	CUDA_CHECK(cudaSetDevice(b->rank[0].gpu));
	for (pass = 0; pass < 1 + PLACES; pass++) {
		p.place = pass ? pass - 1 : 0;
		p.sm = blocks == 1 ? place_sm(p.place, 0) : PLACE_ANY;
		p.ns = ns_buffer[0] + p.place * EACH;
		(pass ? fetch_adds<IS_ORDERED, false>
		      : fetch_adds<IS_ORDERED, true>)<<<blocks == 1 ? place_blocks() : blocks,
							threads, 0, b->rank[0].stream>>>(
			b->window[0], p);
		CUDA_CHECK(cudaGetLastError());
		bare_wait(b, "fetch_add");
	}
	if (*wrong_buffer)
		bare_die("fetch_add: numbers came twice");
	take(&r, p.rounds, 0);
}

/* Is @part one of the requested @parts, separated by commas? NULL: all are. */
static bool wants(const char *parts, const char *part)
{
	return !parts || strstr(parts, part);
}

int main(int argc, char **argv)
{
	struct bare_attr attr = {2,         2,        16 + WORDS_APART, 16 + PLACES * (APART / 8),
				 4,         CHANNELS, CHANNEL_BYTES,    (1ul << 30) + 4096,
				 2000000000};
	const char *parts = argc > 2 ? argv[2] : NULL;
	struct bare b;
	int gpus = bare_begin();
	uint32_t i;

	if (argc > 1)
		gpus = atoi(argv[1]);
	if (argc > 3) {
		only_row = argv[3];
		attr.timeout_ns = PROFILED_NS;
	}
	if (gpus < 2 || gpus > (int)BARE_MAX)
		bare_die("usage: oriel_rows [GPUS [PARTS [ROW]]], GPUS from 2 to %u, a ROW of "
			 "latency, bandwidth or stream as \"put_signal 8 1x32\", or \"put_signal\"",
			 BARE_MAX);
	bare_enable_peers((uint32_t)gpus);
	wrong_buffer = (uint32_t *)bare_pinned(sizeof(uint32_t));
	zero_word = (uint32_t *)bare_pinned(sizeof(uint32_t));
	for (i = 0; i < BARE_MAX; i++)
		ns_buffer[i] = (uint64_t *)bare_pinned(sizeof(uint64_t) * PLACED);
	for (i = 0; i < (uint32_t)gpus; i++) {
		CUDA_CHECK(cudaSetDevice((int)i));
		CUDA_CHECK(cudaMalloc((void **)&present[i], 2 * sizeof(uint32_t)));
		CUDA_CHECK(cudaMemset(present[i], 0, 2 * sizeof(uint32_t)));
		CUDA_CHECK(cudaDeviceSynchronize());
	}

	bare_open(&b, &attr);
	if (wants(parts, "latency"))
		latencies(&b);
	if (wants(parts, "barrier")) {
		run_barrier<THREAD>(&b, 1);
		run_barrier<WARP>(&b, 32);
		run_barrier<BLOCK>(&b, 256);
	}
	if (wants(parts, "atomic")) {
		run_fetch_add<false>(&b, "round trip", 1, 1);
		run_fetch_add<true>(&b, "ordered", 1, 1);
		run_fetch_add<false>(&b, "contended", 32, 32);
	}
	if (wants(parts, "bandwidth"))
		put_bandwidths(&b);
	if (wants(parts, "stream"))
		streams(&b);
	bare_close(&b);

	if (gpus > 2 && wants(parts, "barrier")) {
		attr.ranks = attr.gpus = (uint32_t)gpus;
		attr.length = 1 << 20;
		attr.channels = 4;
		bare_open(&b, &attr);
		run_barrier<WARP>(&b, 32);
		run_barrier<BLOCK>(&b, 256);
		bare_close(&b);
	}
	if (only_row && !rows_wanted)
		bare_die("no row \"%s\" in %s", only_row, parts);
	return failures ? 1 : 0;
}
