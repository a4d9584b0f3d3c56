/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of the hardware, without a library: one-way times for each kind of release and
 * acquire, copy loops, and the cost of a table lookup after an acquire. usage: limits
 */
#include "limits_copy.h"
#include "limits_size.h"

enum release { NO_ORDER, ST_RELEASE, FENCE_ST, HALF_ST, RED_RELEASE, HALF_RED, RELEASES };
enum acquire {
	POLL_ONLY,
	POLL_ACQUIRE,
	ONE_ACQUIRE,
	HALF_ACQUIRE,
	FULL_ACQUIRE,
	TWO_POLLS,
	TWO_POLLS_ACQUIRE,
	ACQUIRES
};

static const char *const release_names[] = {"st.relaxed",       "st.release",  "fence.acq_rel st",
					    "fence.release st", "red.release", "fence.release red"};
static const char *const acquire_names[] = {"poll",
					    "ld.acquire poll",
					    "poll ld.acquire",
					    "poll fence.acquire",
					    "poll fence.acq_rel",
					    "two polls",
					    "two polls fence.acquire"};

template <int RELEASE>
static __device__ __forceinline__ void go(unsigned long long *word, unsigned long long value)
{
	if (RELEASE == FENCE_ST)
		asm volatile("fence.acq_rel.sys;" ::: "memory");
	if (RELEASE == HALF_ST || RELEASE == HALF_RED)
		asm volatile("fence.release.sys;" ::: "memory");
	if (RELEASE == ST_RELEASE)
		asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value)
			     : "memory");
	else if (RELEASE == RED_RELEASE)
		asm volatile("red.release.sys.global.add.u64 [%0], 1;" ::"l"(word) : "memory");
	else if (RELEASE == HALF_RED)
		asm volatile("red.relaxed.sys.global.add.u64 [%0], 1;" ::"l"(word) : "memory");
	else
		asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value)
			     : "memory");
}

static __device__ __forceinline__ unsigned long long peek(const unsigned long long *word)
{
	unsigned long long seen;

	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(word) : "memory");
	return seen;
}

/* Two loads in flight, the second one started half a load later. */
static __device__ __forceinline__ bool come_twice(const unsigned long long *word,
						  unsigned long long value)
{
	unsigned long long one = peek(word), two;
	unsigned polls = 0, start, now;

	asm volatile("mov.u32 %0, %%clock;" : "=r"(start)::"memory");
	do {
		asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
	} while (now - start < 250);
	two = peek(word);
	while (one < value) {
		one = peek(word);
		if (two >= value || ++polls > LOST)
			break;
		two = peek(word);
	}
	return polls <= LOST;
}

template <int ACQUIRE>
static __device__ __forceinline__ bool come_once(const unsigned long long *word,
						 unsigned long long value)
{
	unsigned long long seen;
	unsigned polls = 0;

	do {
		if (ACQUIRE == POLL_ACQUIRE)
			asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
				     : "=l"(seen)
				     : "l"(word)
				     : "memory");
		else
			asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
				     : "=l"(seen)
				     : "l"(word)
				     : "memory");
		if (++polls > LOST)
			return false;
	} while (seen < value);
	if (ACQUIRE == ONE_ACQUIRE)
		asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
			     : "=l"(seen)
			     : "l"(word)
			     : "memory");
	if (ACQUIRE == HALF_ACQUIRE)
		asm volatile("fence.acquire.sys;" ::: "memory");
	if (ACQUIRE == FULL_ACQUIRE)
		asm volatile("fence.acq_rel.sys;" ::: "memory");
	return true;
}

template <int ACQUIRE>
static __device__ __forceinline__ bool come(const unsigned long long *word,
					    unsigned long long value)
{
	if constexpr (ACQUIRE == TWO_POLLS || ACQUIRE == TWO_POLLS_ACQUIRE) {
		bool has_come = come_twice(word, value);

		if (ACQUIRE == TWO_POLLS_ACQUIRE)
			asm volatile("fence.acquire.sys;" ::: "memory");
		return has_come;
	} else {
		return come_once<ACQUIRE>(word, value);
	}
}

/*
 * The payload before the flag: none; the number, which the receiver checks; the number, which is
 * not checked; a word of memory, which is not checked.
 */
enum data { NO_DATA, DATA_READ, DATA_UNREAD, DATA_LOADED };

static const char *const data_names[] = {"flag", "data_flag", "data_unread", "data_loaded"};

template <int DATA>
static __device__ __forceinline__ void lay(unsigned long long *mine, unsigned long long *theirs,
					   unsigned long long n)
{
	if (DATA == DATA_READ || DATA == DATA_UNREAD)
		theirs[32] = n;
	if (DATA == DATA_LOADED)
		theirs[32] = mine[48];
}

/* @stale counts payloads that were older than the flag that announced them. */
template <int RELEASE, int ACQUIRE, int DATA>
__global__ void flags(unsigned long long *mine, unsigned long long *theirs, bool is_first,
		      unsigned long long *ns, unsigned *lost, unsigned *stale)
{
	unsigned long long n = 0, start, end;
	unsigned i, k;

	for (i = 0; i < SAMPLES; i++) {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start)::"memory");
		for (k = 0; k < ROUNDS; k++) {
			n++;
			if (is_first) {
				lay<DATA>(mine, theirs, n);
				go<RELEASE>(theirs, n);
			}
			if (!come<ACQUIRE>(mine, n)) {
				*lost = 1;
				return;
			}
			if (DATA == DATA_READ && mine[32] != n)
				(*stale)++;
			if (!is_first) {
				lay<DATA>(mine, theirs, n);
				go<RELEASE>(theirs, n);
			}
		}
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end)::"memory");
		ns[i] = end - start;
	}
}

struct pair {
	cudaStream_t stream[2];
	unsigned long long *words[2];
	unsigned long long *ns; /* pinned [2][SAMPLES] */
	unsigned *lost;         /* pinned [2] */
};

template <int RELEASE, int ACQUIRE, int DATA> static void run_flags(struct pair *p)
{
	char mode[96];
	struct row r = {data_names[DATA], "limit", mode, "mapped", 2, DATA ? 8ull : 0, 1, 1};
	double us[SAMPLES];
	int i;

	snprintf(mode, sizeof(mode), "%s; %s", release_names[RELEASE], acquire_names[ACQUIRE]);
	p->lost[0] = p->lost[1] = 0;
	for (i = 0; i < 2; i++) {
		CHECK(cudaSetDevice(i));
		CHECK(cudaMemset(p->words[i], 0, 4096));
		CHECK(cudaDeviceSynchronize());
	}
	for (i = 0; i < 2; i++) {
		CHECK(cudaSetDevice(i));
		flags<RELEASE, ACQUIRE, DATA>
			<<<1, 1, 0, p->stream[i]>>>(p->words[i], p->words[1 - i], i == 0,
						    p->ns + i * SAMPLES, &p->lost[0], &p->lost[1]);
		CHECK(cudaGetLastError());
	}
	for (i = 0; i < 2; i++) {
		CHECK(cudaSetDevice(i));
		CHECK(cudaStreamSynchronize(p->stream[i]));
	}
	if (p->lost[0]) {
		fprintf(stderr, "%s: lost\n", mode);
		exit(2);
	}
	if (p->lost[1] && RELEASE != NO_ORDER && ACQUIRE != POLL_ONLY && ACQUIRE != TWO_POLLS) {
		fprintf(stderr, "%s: %u payloads were stale\n", mode, p->lost[1]);
		exit(1);
	}
	for (i = 0; i < SAMPLES; i++)
		us[i] = (double)p->ns[i] / (2.0 * ROUNDS) / 1e3;
	row_print(&r, us, SAMPLES, 0);
}

template <int RELEASE, int DATA> static void run_acquires(struct pair *p)
{
	run_flags<RELEASE, POLL_ONLY, DATA>(p);
	run_flags<RELEASE, POLL_ACQUIRE, DATA>(p);
	run_flags<RELEASE, ONE_ACQUIRE, DATA>(p);
	run_flags<RELEASE, HALF_ACQUIRE, DATA>(p);
	run_flags<RELEASE, FULL_ACQUIRE, DATA>(p);
	run_flags<RELEASE, TWO_POLLS, DATA>(p);
	run_flags<RELEASE, TWO_POLLS_ACQUIRE, DATA>(p);
}

template <int DATA> static void run_releases(struct pair *p)
{
	run_acquires<NO_ORDER, DATA>(p);
	run_acquires<ST_RELEASE, DATA>(p);
	run_acquires<FENCE_ST, DATA>(p);
	run_acquires<HALF_ST, DATA>(p);
	run_acquires<RED_RELEASE, DATA>(p);
	run_acquires<HALF_RED, DATA>(p);
}

/*
 * A message in words that carry their own flag, as in oriel/dev/ll.h, with as little code around
 * them as possible.
 */
__global__ void lines(unsigned long long *mine, unsigned long long *theirs, bool is_first,
		      unsigned long long *ns, unsigned *lost)
{
	unsigned long long n = 0, start, end, low, high;
	unsigned i, k, turn, polls;

	for (i = 0; i < SAMPLES; i++) {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start)::"memory");
		for (k = 0; k < ROUNDS; k++) {
			n++;
			for (turn = 0; turn < 2; turn++) {
				if (is_first == (turn == 0)) {
					asm volatile(
						"st.relaxed.sys.global.v2.u64 [%0], {%1, %1};" ::
							"l"(theirs),
						"l"(n)
						: "memory");
					continue;
				}
				polls = 0;
				do {
					asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
						     : "=l"(low), "=l"(high)
						     : "l"(mine)
						     : "memory");
					if (++polls > LOST) {
						*lost = 1;
						return;
					}
				} while (low != n || high != n);
			}
		}
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end)::"memory");
		ns[i] = end - start;
	}
}

static void run_lines(struct pair *p)
{
	struct row r = {"line", "limit", "v2.u64; poll v2.u64", "mapped", 2, 16, 1, 1};
	double us[SAMPLES];
	int i;

	for (i = 0; i < 2; i++) {
		CHECK(cudaSetDevice(i));
		CHECK(cudaMemset(p->words[i], 0, 4096));
		CHECK(cudaDeviceSynchronize());
	}
	for (i = 0; i < 2; i++) {
		CHECK(cudaSetDevice(i));
		lines<<<1, 1, 0, p->stream[i]>>>(p->words[i], p->words[1 - i], i == 0,
						 p->ns + i * SAMPLES, &p->lost[0]);
		CHECK(cudaGetLastError());
	}
	for (i = 0; i < 2; i++) {
		CHECK(cudaSetDevice(i));
		CHECK(cudaStreamSynchronize(p->stream[i]));
	}
	if (p->lost[0]) {
		fprintf(stderr, "line: lost\n");
		exit(2);
	}
	for (i = 0; i < SAMPLES; i++)
		us[i] = (double)p->ns[i] / (2.0 * ROUNDS) / 1e3;
	row_print(&r, us, SAMPLES, 0);
}

enum fence { GPU_RELEASE, GPU_FULL, GPU_SC, SYS_RELEASE, SYS_FULL, SYS_SC, FENCES };

static const char *const fence_names[] = {"release.gpu", "acq_rel.gpu", "sc.gpu",
					  "release.sys", "acq_rel.sys", "sc.sys"};

/* Cycles of a fence after a store to @word, if that is not NULL. */
template <int FENCE> __global__ void fences(unsigned long long *word, unsigned long long *ns)
{
	unsigned i, start, end, total = 0;

	for (i = 0; i < 200; i++) {
		if (word)
			asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word),
				     "l"((unsigned long long)i)
				     : "memory");
		asm volatile("mov.u32 %0, %%clock;" : "=r"(start)::"memory");
		if (FENCE == GPU_RELEASE)
			asm volatile("fence.release.gpu;" ::: "memory");
		if (FENCE == GPU_FULL)
			asm volatile("fence.acq_rel.gpu;" ::: "memory");
		if (FENCE == GPU_SC)
			asm volatile("fence.sc.gpu;" ::: "memory");
		if (FENCE == SYS_RELEASE)
			asm volatile("fence.release.sys;" ::: "memory");
		if (FENCE == SYS_FULL)
			asm volatile("fence.acq_rel.sys;" ::: "memory");
		if (FENCE == SYS_SC)
			asm volatile("fence.sc.sys;" ::: "memory");
		asm volatile("mov.u32 %0, %%clock;" : "=r"(end)::"memory");
		if (i >= 8)
			total += end - start;
	}
	*ns = total;
}

template <int FENCE> static void run_fence(struct pair *p, unsigned long long *pinned)
{
	static const char *const targets[] = {"nothing", "own memory", "peer memory", "pinned"};
	unsigned long long *words[] = {NULL, p->words[0] + 96, p->words[1] + 96, pinned};
	char mode[64];
	struct row r = {"fence", "limit", mode, "self", 1, 0, 1, 1};
	double us;
	int i;

	CHECK(cudaSetDevice(0));
	for (i = 0; i < 4; i++) {
		snprintf(mode, sizeof(mode), "%s after %s", fence_names[FENCE], targets[i]);
		fences<FENCE><<<1, 1, 0, p->stream[0]>>>(words[i], p->ns);
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(p->stream[0]));
		us = (double)p->ns[0] / 192 / 1980;
		row_print(&r, &us, 1, 0);
	}
}

static void run_fences(struct pair *p)
{
	unsigned long long *pinned;

	CHECK(cudaHostAlloc(&pinned, 4096, cudaHostAllocPortable));
	run_fence<GPU_RELEASE>(p, pinned);
	run_fence<GPU_FULL>(p, pinned);
	run_fence<GPU_SC>(p, pinned);
	run_fence<SYS_RELEASE>(p, pinned);
	run_fence<SYS_FULL>(p, pinned);
	run_fence<SYS_SC>(p, pinned);
	CHECK(cudaFreeHost(pinned));
}

/* Cycles of a dependent lookup, in L1, before and after an acquire. */
template <int KIND>
__global__ void lookups(const unsigned long long *table, unsigned long long *word,
			unsigned long long *ns)
{
	unsigned long long seen, sum = 0, v;
	unsigned i, start, end, total = 0;

	for (i = 0; i < 1000; i++) {
		asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
			     : "=l"(seen)
			     : "l"(word)
			     : "memory");
		sum += seen;
		if (KIND != 2)
			asm volatile("fence.acquire.sys;" ::: "memory");
		asm volatile("mov.u32 %0, %%clock;" : "=r"(start)::"memory");
		if (KIND == 1)
			asm volatile("ld.global.nc.u64 %0, [%1];"
				     : "=l"(v)
				     : "l"(table + (sum & 1)));
		else
			asm volatile("ld.global.u64 %0, [%1];"
				     : "=l"(v)
				     : "l"(table + (sum & 1))
				     : "memory");
		sum += v;
		/* The clock is read only when the sum is known. */
		asm volatile("{\n\t.reg .pred p;\n\t"
			     "setp.eq.u64 p, %1, 12345;\n\t"
			     "@p nanosleep.u32 1;\n\t"
			     "mov.u32 %0, %%clock;\n\t}"
			     : "=r"(end)
			     : "l"(sum)
			     : "memory");
		if (i)
			total += end - start;
	}
	ns[0] = total;
	ns[1] = sum;
}

static void run_lookups(struct pair *p)
{
	static const char *const modes[] = {"after acquire", "nc after acquire", "no acquire"};
	int i;

	CHECK(cudaSetDevice(0));
	for (i = 0; i < 3; i++) {
		struct row r = {"look_up", "limit", modes[i], "self", 1, 8, 1, 1};
		double us;

		if (i == 0)
			lookups<0><<<1, 1, 0, p->stream[0]>>>(p->words[0] + 64, p->words[0], p->ns);
		else if (i == 1)
			lookups<1><<<1, 1, 0, p->stream[0]>>>(p->words[0] + 64, p->words[0], p->ns);
		else
			lookups<2><<<1, 1, 0, p->stream[0]>>>(p->words[0] + 64, p->words[0], p->ns);
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(p->stream[0]));
		/* Cycles at the 1.98 GHz that an H200 runs at under this load. */
		us = (double)p->ns[0] / 999 / 1980;
		row_print(&r, &us, 1, 0);
	}
}

int main(void)
{
	struct pair p;
	int i;

	/* A kernel loaded at its first launch would wait for one that spins. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	for (i = 0; i < 2; i++) {
		CHECK(cudaSetDevice(i));
		CHECK(cudaDeviceEnablePeerAccess(1 - i, 0));
		CHECK(cudaStreamCreateWithFlags(&p.stream[i], cudaStreamNonBlocking));
		CHECK(cudaMalloc(&p.words[i], 4096));
		CHECK(cudaMemset(p.words[i], 0, 4096));
		CHECK(cudaMalloc(&copy_ends[i], COPY_BYTES));
		CHECK(cudaMemset(copy_ends[i], 0x5a + i, COPY_BYTES));
	}
	CHECK(cudaHostAlloc(&p.ns, 2 * SAMPLES * sizeof(*p.ns), cudaHostAllocPortable));
	CHECK(cudaHostAlloc(&p.lost, 2 * sizeof(*p.lost), cudaHostAllocPortable));
	run_fences(&p);
	run_lines(&p);
	run_acquires<NO_ORDER, NO_DATA>(&p);
	run_acquires<HALF_ST, NO_DATA>(&p);
	run_acquires<HALF_RED, NO_DATA>(&p);
	run_releases<DATA_READ>(&p);
	run_releases<DATA_UNREAD>(&p);
	run_releases<DATA_LOADED>(&p);
	run_lookups(&p);
	CHECK(cudaSetDevice(0));
	run_copies<8, PLAIN>(p.stream[0]);
	for (i = 0; i < 7; i++) {
		static const unsigned blocks[] = {1, 8, 16, 24, 32, 64, 132};

		print_copy("in turns, unroll 1", blocks[i], 1024, p.stream[0], launch_turns<1>);
		print_copy("in turns, unroll 4", blocks[i], 1024, p.stream[0], launch_turns<4>);
		print_copy("in turns, unroll 8", blocks[i], 1024, p.stream[0], launch_turns<8>);
		print_copy("in turns, unroll 8", blocks[i], 512, p.stream[0], launch_turns<8>);
	}
	print_copy("bulk engine", 8, 32, p.stream[0], launch_bulk);
	return 0;
}
