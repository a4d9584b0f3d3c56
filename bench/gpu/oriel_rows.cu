/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The costs of Oriel's device code in kernels: ping-pongs, bandwidths, barriers, channels, over
 * hand-made windows (bare.h). Every transfer is checked first in rounds that are not timed. run.py
 * calls it. usage: oriel_rows [GPUS [PARTS]], PARTS with commas: latency, barrier, atomic,
 * bandwidth, stream
 */
#define ORIEL_DEV_PATHS 6u /* self and mapped */
#include "bare.h"
#include "samples.h"

#include <thread>

#define STREAM_THREADS 512
#define CHANNEL_BYTES (1ul << 20)
#define LL_CHANNEL 64 /* after the channels of streams */
#define LL128_CHANNEL 65
#define CHANNELS 66
#define WARM 3
#define PROFILED_NS 60000000000ul /* a profiler keeps one GPU while it gets ready */
#define AT_LL (64ul << 20)        /* offset of LL messages in the window */
#define AT_LL128 (96ul << 20)     /* offset of LL128 messages */

/* BIG: a block of up to 1024 threads, each of which has 64 registers. */
enum kind { THREAD, WARP, BLOCK, BIG };

static __device__ __forceinline__ struct oriel_dev_group group_of(int kind)
{
	return kind == THREAD ? oriel_dev_thread()
	       : kind == WARP ? oriel_dev_warp()
			      : oriel_dev_block();
}

/* One side of a ping-pong. */
struct side {
	const struct oriel_dev_window *w;
	uint32_t peer;
	uint64_t bytes;
	char *source;
	char *target; /* in the own window: the peer puts there */
	uint32_t place;
};

/* The signal @id of message @n. */
static __device__ __forceinline__ uint32_t signal_of(const struct side *s, uint32_t id, uint64_t n)
{
	return id + word_of(s->place, n);
}

/* Offset of the lines of this place, from @at on; there is room for lines of 64 KiB. */
static __device__ __forceinline__ uint64_t lines_of(const struct side *s, uint64_t at)
{
	return at + s->place * (262144ul + APART);
}

/* One method of a message. @n counts the messages of this direction, from 1, over all rows. */
struct value_method {
	static const bool has_bytes = false;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group,
						  uint64_t n)
	{
		oriel_dev_put_value(s->w, s->peer, word_of(s->place, n) * 8, n);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s, struct oriel_dev_group,
						       uint64_t n)
	{
		const uint64_t *word = (const uint64_t *)(s->target + word_of(s->place, n) * 8);
		uint64_t polls = 0;

		while (oriel_dev_load_relaxed(word) < n)
			if (++polls > 20000000)
				return false;
		return true;
	}
};

struct relaxed_method {
	static const bool has_bytes = false;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_signal_relaxed(s->w, g, s->peer, signal_of(s, 1, n), ORIEL_SIGNAL_ADD, 1);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_signal_relaxed(s->w, g, s->peer, signal_of(s, 1, n), ORIEL_GE,
						     turns_of(n), 0) == ORIEL_OK;
	}
};

struct signal_method {
	static const bool has_bytes = false;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_signal(s->w, g, s->peer, signal_of(s, 2, n), ORIEL_SIGNAL_ADD, 1);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_signal_from(s->w, g, s->peer, signal_of(s, 2, n), ORIEL_GE,
						  turns_of(n), 0) == ORIEL_OK;
	}
};

struct put_signal_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_put_signal(s->w, g, s->peer, 0, s->source, s->bytes, signal_of(s, 3, n),
				     1);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_signal_from(s->w, g, s->peer, signal_of(s, 3, n), ORIEL_GE,
						  turns_of(n), 0) == ORIEL_OK;
	}
};

struct ll_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_put_ll(s->w, g, s->peer, lines_of(s, AT_LL), s->source, s->bytes,
				 (uint32_t)n);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_ll(s->w, g, lines_of(s, AT_LL), s->target, s->bytes,
					 (uint32_t)n, 0) == ORIEL_OK;
	}
};

struct ll128_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_put_ll128(s->w, g, s->peer, lines_of(s, AT_LL128), s->source, s->bytes,
				    n);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_ll128(s->w, g, lines_of(s, AT_LL128), s->target, s->bytes, n,
					    0) == ORIEL_OK;
	}
};

struct channel_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t)
	{
		oriel_dev_send(s->w, g, s->peer, 0, s->source, s->bytes, 0);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t)
	{
		return oriel_dev_recv(s->w, g, s->peer, 0, s->target, s->bytes, 0) == ORIEL_OK;
	}
};

struct channel_ll_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t)
	{
		oriel_dev_send_ll(s->w, g, s->peer, LL_CHANNEL, s->source, s->bytes, 0);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t)
	{
		return oriel_dev_recv_ll(s->w, g, s->peer, LL_CHANNEL, s->target, s->bytes, 0) ==
		       ORIEL_OK;
	}
};

struct channel_ll128_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t)
	{
		oriel_dev_send_ll128(s->w, g, s->peer, LL128_CHANNEL, s->source, s->bytes, 0);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t)
	{
		return oriel_dev_recv_ll128(s->w, g, s->peer, LL128_CHANNEL, s->target, s->bytes,
					    0) == ORIEL_OK;
	}
};

static __device__ __forceinline__ unsigned char pattern(uint64_t round, uint32_t rank, uint64_t i)
{
	return (unsigned char)(i * 131 + (i >> 8) * 29 + round * 17 + rank * 7 + 3);
}

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

static uint64_t *ns_buffer[BARE_MAX];
static uint32_t *wrong_buffer, *zero_word, *present[BARE_MAX];
static unsigned failures;

/* Did all bytes arrive? If not, the program continues and fails at the end. */
static bool is_right(const struct row *r)
{
	if (!*wrong_buffer)
		return true;
	fprintf(stderr, "%s, %s, %llu bytes, %ux%u: %u wrong\n", r->test, r->mode,
		(unsigned long long)r->bytes, r->blocks, r->threads, *wrong_buffer);
	*wrong_buffer = 0;
	failures++;
	return false;
}

static const char *only_row; /* "TEST BYTES BLOCKSxTHREADS", or its first words; NULL: all */
static unsigned rows_wanted;

static bool is_wanted(const struct row *r)
{
	char name[96];
	size_t length = only_row ? strlen(only_row) : 0;
	bool is_it;

	snprintf(name, sizeof(name), "%s %llu %ux%u", r->test, (unsigned long long)r->bytes,
		 r->blocks, r->threads);
	is_it = !only_row ||
		(strncmp(only_row, name, length) == 0 && (name[length] == ' ' || !name[length]));
	rows_wanted += is_it;
	return is_it;
}

static void take(const struct row *r, uint64_t divisor, double moved)
{
	row_print_places(r, (unsigned long long *)ns_buffer[0], (double)divisor, moved);
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

static struct row row_of(const char *test, const char *mode, uint64_t bytes, uint32_t threads)
{
	struct row r = {test, "oriel", mode, "mapped", 2, bytes, threads, 1};

	return r;
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

__global__ void __launch_bounds__(1024, 1)
	put_blocks(const __grid_constant__ struct oriel_dev_window w, uint32_t peer, char *source,
		   uint64_t bytes, uint32_t rounds, uint32_t *wrong)
{
	uint64_t part = ((bytes + gridDim.x - 1) / gridDim.x + 15) & ~15ull;
	uint64_t from = part * blockIdx.x;
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t i;

	if (from >= bytes)
		return;
	if (bytes - from < part)
		part = bytes - from;
	for (i = 0; i < rounds; i++)
		if (oriel_dev_put(&w, g, peer, from, source + from, part) < 0)
			atomicAdd(wrong, 1u);
	oriel_dev_flush(&w, g, 0);
}

/* The same bytes by oriel_dev_put_part(). */
__global__ void __launch_bounds__(1024, 1)
	put_turns(const __grid_constant__ struct oriel_dev_window w, uint32_t peer, char *source,
		  uint64_t bytes, uint32_t rounds, uint32_t *wrong)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t i;

	for (i = 0; i < rounds; i++)
		if (oriel_dev_put_part(&w, g, blockIdx.x, gridDim.x, peer, 0, source, bytes) < 0)
			atomicAdd(wrong, 1u);
	oriel_dev_flush(&w, g, 0);
}

__global__ void __launch_bounds__(512) paint(char *at, uint64_t bytes, uint64_t seed)
{
	uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (uint64_t)gridDim.x * blockDim.x)
		at[i] = (char)pattern(seed, 1, i);
}

__global__ void __launch_bounds__(512)
	check_bytes(const char *at, uint64_t bytes, uint64_t seed, uint32_t *wrong)
{
	uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (uint64_t)gridDim.x * blockDim.x)
		if ((unsigned char)at[i] != pattern(seed, 1, i))
			atomicAdd(wrong, 1u);
}

static void paint_on(struct bare *b, uint32_t rank, char *at, uint64_t bytes, uint64_t seed)
{
	CUDA_CHECK(cudaSetDevice(b->rank[rank].gpu));
	paint<<<264, 512, 0, b->rank[rank].stream>>>(at, bytes, seed);
	CUDA_CHECK(cudaGetLastError());
	CUDA_CHECK(cudaStreamSynchronize(b->rank[rank].stream));
}

static void check_on(struct bare *b, uint32_t rank, const char *at, uint64_t bytes, uint64_t seed)
{
	CUDA_CHECK(cudaSetDevice(b->rank[rank].gpu));
	check_bytes<<<264, 512, 0, b->rank[rank].stream>>>(at, bytes, seed, wrong_buffer);
	CUDA_CHECK(cudaGetLastError());
	CUDA_CHECK(cudaStreamSynchronize(b->rank[rank].stream));
}

static void run_put_bw(struct bare *b, const char *mode, uint64_t bytes, uint32_t blocks,
		       uint32_t threads, uint64_t shift)
{
	struct row r = {"put_bw", "oriel", mode, "mapped", 2, bytes, threads, blocks};
	bool is_in_turns = strcmp(mode, "in turns") == 0;
	double guess = (double)bytes / (blocks < 8 ? 44e3 * blocks : 360e3), us[7];
	uint32_t rounds = (uint32_t)(1500 / guess) + 1, i;
	cudaEvent_t begin, end;
	float ms;

	if (!is_wanted(&r))
		return;
	paint_on(b, 1, b->rank[1].buffer[0], bytes + 64, 77);
	paint_on(b, 0, b->rank[0].buffer[1] + shift, bytes, bytes + blocks);
	CUDA_CHECK(cudaSetDevice(b->rank[0].gpu));
	CUDA_CHECK(cudaEventCreate(&begin));
	CUDA_CHECK(cudaEventCreate(&end));
	for (i = 0; i < 9; i++) {
		CUDA_CHECK(cudaEventRecord(begin, b->rank[0].stream));
		(is_in_turns ? put_turns : put_blocks)<<<blocks, threads, 0, b->rank[0].stream>>>(
			b->window[0], 1, b->rank[0].buffer[1] + shift, bytes, i ? rounds : 1,
			wrong_buffer);
		CUDA_CHECK(cudaEventRecord(end, b->rank[0].stream));
		CUDA_CHECK(cudaGetLastError());
		bare_wait(b, "put_bw");
		CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (i >= 2)
			us[i - 2] = ms * 1e3 / rounds;
	}
	check_on(b, 1, b->rank[1].buffer[0], bytes, bytes + blocks);
	if (is_right(&r))
		row_print(&r, us, 7, (double)bytes);
	CUDA_CHECK(cudaEventDestroy(begin));
	CUDA_CHECK(cudaEventDestroy(end));
}

static void put_bandwidths(struct bare *b)
{
	static const uint32_t blocks[] = {1, 2, 4, 8, 16, 32, 64, 132};
	static const uint64_t sizes[] = {65536, 1ul << 20, 16ul << 20, 256ul << 20};
	unsigned i, k;

	for (i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		for (k = 0; k < 4; k++)
			run_put_bw(b, "one way", sizes[k], blocks[i], 1024, 0);
	run_put_bw(b, "one way", 16ul << 20, 1, 256, 0);
	run_put_bw(b, "one way", 16ul << 20, 1, 512, 0);
	run_put_bw(b, "one way", 16ul << 20, 8, 512, 0);
	run_put_bw(b, "one way", 256ul << 20, 32, 512, 0);
	run_put_bw(b, "one way", 256ul << 20, 132, 512, 0);
	for (i = 3; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		for (k = 512; k <= 1024; k += 512)
			run_put_bw(b, "in turns", 256ul << 20, blocks[i], k, 0);
	run_put_bw(b, "misaligned", 16ul << 20, 1, 1024, 3);
	run_put_bw(b, "misaligned", 16ul << 20, 1, 1024, 8);
	run_put_bw(b, "misaligned", 256ul << 20, 32, 1024, 3);
}

/*
 * Blocks [0, senders) send their slice of @bytes through their channel; each of the other blocks
 * receives one.
 */
__global__ void __launch_bounds__(STREAM_THREADS)
	stream_blocks(const __grid_constant__ struct oriel_dev_window w, uint32_t peer,
		      uint32_t senders, uint32_t streams, const char *from, char *to,
		      uint64_t bytes, uint32_t *wrong)
{
	bool sends = blockIdx.x < senders;
	uint32_t channel = sends ? blockIdx.x : blockIdx.x - senders;
	uint64_t part = ((bytes + streams - 1) / streams + 127) & ~127ull, at = part * channel;
	struct oriel_dev_group g = oriel_dev_block();
	enum oriel_status status;

	if (at >= bytes)
		return;
	if (bytes - at < part)
		part = bytes - at;
	if (sends)
		status = oriel_dev_send(&w, g, peer, channel, from + at, part, 0);
	else
		status = oriel_dev_recv(&w, g, peer, channel, to + at, part, 0);
	if (status != ORIEL_OK && g.rank == 0)
		atomicAdd(wrong, 1u);
}

/* Small messages: one warp sends, the other receives. */
__global__ void stream_warps(const __grid_constant__ struct oriel_dev_window w, uint32_t peer,
			     bool sends, bool receives, const char *from, char *to, uint64_t bytes,
			     uint32_t *wrong)
{
	enum oriel_status status = ORIEL_OK;

	if (threadIdx.x < 32 && sends)
		status = oriel_dev_send_ll(&w, oriel_dev_warp(), peer, LL_CHANNEL, from, bytes, 0);
	if (threadIdx.x >= 32 && receives)
		status = oriel_dev_recv_ll(&w, oriel_dev_warp(), peer, LL_CHANNEL, to, bytes, 0);
	if (status != ORIEL_OK)
		atomicAdd(wrong, 1u);
}

static void launch_stream(struct bare *b, uint32_t rank, uint64_t bytes, uint32_t streams,
			  bool is_both)
{
	struct bare_rank *r = &b->rank[rank];
	bool sends = is_both || rank == 0, receives = is_both || rank == 1;
	uint32_t senders = sends ? streams : 0, blocks = senders + (receives ? streams : 0);

	CUDA_CHECK(cudaSetDevice(r->gpu));
	if (bytes <= 1024)
		stream_warps<<<1, 64, 0, r->stream>>>(b->window[rank], 1 - rank, sends, receives,
						      r->buffer[1], r->buffer[0], bytes,
						      wrong_buffer);
	else
		stream_blocks<<<blocks, STREAM_THREADS, 0, r->stream>>>(b->window[rank], 1 - rank,
									senders, streams,
									r->buffer[1], r->buffer[0],
									bytes, wrong_buffer);
	CUDA_CHECK(cudaGetLastError());
}

/*
 * Time of one of many queued operations on both GPUs. A thread for each GPU launches them, since
 * launches take longest.
 */
static void run_stream(struct bare *b, uint64_t bytes, uint32_t streams, bool is_both)
{
	struct row r = {"send_recv",    "oriel", is_both ? "both ways" : "one way",
			"mapped",       2,       bytes,
			STREAM_THREADS, streams};
	uint32_t rounds = bytes >= 1ul << 28 ? 4 : bytes >= 1ul << 24 ? 20 : 100, pass, k;
	cudaEvent_t begin, end;
	double us[7];
	float ms;

	if (!is_wanted(&r))
		return;
	for (k = 0; k < 2; k++) {
		paint_on(b, k, b->rank[k].buffer[1], bytes, bytes + streams + k);
		paint_on(b, k, b->rank[k].buffer[0], bytes, 99);
	}
	CUDA_CHECK(cudaSetDevice(b->rank[0].gpu));
	CUDA_CHECK(cudaEventCreate(&begin));
	CUDA_CHECK(cudaEventCreate(&end));
	for (pass = 0; pass < 8; pass++) {
		std::thread other([=] {
			for (uint32_t i = 0; i <= rounds; i++)
				launch_stream(b, 1, bytes, streams, is_both);
		});

		/* The first launch is not timed, since the other thread begins with it. */
		launch_stream(b, 0, bytes, streams, is_both);
		CUDA_CHECK(cudaEventRecord(begin, b->rank[0].stream));
		for (uint32_t i = 0; i < rounds; i++)
			launch_stream(b, 0, bytes, streams, is_both);
		CUDA_CHECK(cudaEventRecord(end, b->rank[0].stream));
		other.join();
		bare_wait(b, "send_recv");
		CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (pass)
			us[pass - 1] = ms * 1e3 / rounds;
	}
	for (k = is_both ? 0 : 1; k < 2; k++)
		check_on(b, k, b->rank[k].buffer[0], bytes, bytes + streams + (1 - k));
	if (is_right(&r))
		row_print(&r, us, 7, (double)bytes * (is_both ? 2 : 1));
	CUDA_CHECK(cudaEventDestroy(begin));
	CUDA_CHECK(cudaEventDestroy(end));
}

static void streams(struct bare *b)
{
	static const uint64_t sizes[] = {8,          1024,        65536,    1ul << 20,
					 16ul << 20, 256ul << 20, 1ul << 30};
	static const uint32_t counts[] = {1, 8, 16, 32, 64};
	int both;
	unsigned i, k;

	for (both = 0; both < 2; both++)
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			for (k = 0; k < 5; k++)
				if (sizes[i] > 1024 ? k && sizes[i] / counts[k] >= 4096 : k < 2)
					run_stream(b, sizes[i], counts[k], both);
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
