/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hw_rings report DEVICE: the tier of a ConnectX HCA, and why it is not better.
 * hw_rings run DEVICE [DEVICE] [FILE]: queues of one device to another, or to
 * itself through its port: every WQE that the library makes, with a comparison
 * of the bytes; the state after an error; answers to questions that only
 * hardware can answer; latencies. FILE gets the trace. Exits with 77 if the
 * tier has no rings.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hca/mlx5/mlx5.h"
#include "hca/mlx5/ring_place_test.h"
#include "trace.h"

#define DEPTH 16u
#define LENGTH (1u << 20)
#define SOURCE 65536u
#define TARGET 524288u
#define RESULT 4096u
#define COUNT 512u
#define PATIENCE_NS UINT64_C(20000000000)
#define ROUNDS 500u

static const struct ori_dev_link_wait_limits patient = {NULL, PATIENCE_NS, 100, 0};
static const struct ori_dev_link_wait_limits hasty = {NULL, 300000000, 100, 0};

static FILE *trace;
static int failures;

/* A queue pair; its buffer is the memory of its side. */
struct queue {
	const char *name;
	struct side *side;
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
	uint32_t cqn;
	uint64_t written; /* WQEs written to the trace */
	_Alignas(128) struct ori_dev_mlx5_queue q;
};

struct side {
	const struct ori_hca_ops *ops;
	struct ori_hca *hca;
	struct ori_hca_caps caps;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
	char *memory;
};

static void row(bool is_well, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void row(bool is_well, const char *format, ...)
{
	va_list args;

	printf("%-6s ", is_well ? "ok" : "FAIL");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	failures += !is_well;
}

static void die(const char *what)
{
	printf("FAIL   %s: %s\n", what, oriel_last_error());
	exit(1);
}

static void must(enum oriel_status status, const char *what)
{
	if (status != ORIEL_OK)
		die(what);
}

static void side_open(struct side *s, const char *name)
{
	memset(s, 0, sizeof(*s));
	s->ops = ori_hca_mlx5();
	must(s->ops->open(name, 0, &s->hca), name);
	s->ops->caps(s->hca, &s->caps);
	if (!s->caps.rings) {
		printf("skipped: %s has no rings in this tier\n", s->caps.name);
		exit(77);
	}
	s->memory = aligned_alloc(4096, LENGTH);
	memset(s->memory, 0, LENGTH);
	must(s->ops->register_memory(s->hca, s->memory, LENGTH, 0,
				     ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE |
					     ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC,
				     &s->mr, &s->keys),
	     "memory");
}

static void side_close(struct side *s)
{
	s->ops->unregister_memory(s->mr);
	s->ops->close(s->hca);
	free(s->memory);
}

static enum oriel_status queue_open(struct queue *k, const char *name, struct side *s,
				    bool is_companion)
{
	struct ori_hca_cq_attr cq = {.depth = DEPTH, .has_own_ring = true};
	struct ori_hca_qp_attr qp = {.depth = DEPTH,
				     .has_own_ring = true,
				     .is_companion = is_companion};
	enum oriel_status status;

	memset(k, 0, sizeof(*k));
	k->name = name;
	k->side = s;
	status = s->ops->create_cq(s->hca, &cq, &k->cq, &k->cqn);
	if (status != ORIEL_OK)
		return status;
	qp.send_cq = k->cq;
	status = s->ops->create_qp(s->hca, &qp, &k->qp, &k->address);
	if (status != ORIEL_OK) {
		s->ops->destroy_cq(k->cq);
		return status;
	}
	ring_place(&k->q, &s->caps, k->qp, k->address.qpn, k->cqn, DEPTH);
	if (trace)
		fprintf(trace, "queue %s %06x %06x %u\n", name, k->address.qpn, k->cqn, DEPTH);
	return ORIEL_OK;
}

static void queue_close(struct queue *k)
{
	k->side->ops->destroy_qp(k->qp);
	k->side->ops->destroy_cq(k->cq);
}

static void join(struct queue *a, struct queue *b)
{
	must(a->side->ops->connect_qp(a->qp, &b->address), "connect");
	must(b->side->ops->connect_qp(b->qp, &a->address), "connect");
}

static void put_hex(const void *bytes, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		fprintf(trace, "%02x", ((const uint8_t *)bytes)[i]);
}

/* Write the WQEs that were posted to @k since the last call; they are complete. */
static void trace_queue(struct queue *k)
{
	uint64_t end = k->q.resv, i, doorbell = ori_dev_mlx5_doorbell_value(k->q.qpn, end);
	uint32_t record = k->q.record[1];

	if (!trace)
		return;
	for (i = k->written; i < end; i++) {
		fprintf(trace, "wqe %s %llu ", k->name, (unsigned long long)i);
		put_hex(ori_dev_mlx5_slot(&k->q, i), ORIEL_MLX5_BLOCK);
		fprintf(trace, "\n");
	}
	fprintf(trace, "bell %s %llu ", k->name, (unsigned long long)end);
	put_hex(&record, 4);
	fprintf(trace, " ");
	put_hex(&doorbell, 8);
	fprintf(trace, "\n");
	for (i = k->written; i < end; i++) {
		fprintf(trace, "cqe %s %llu ", k->name, (unsigned long long)i);
		put_hex(k->q.cq + (i & (DEPTH - 1)) * ORIEL_MLX5_BLOCK, ORIEL_MLX5_BLOCK);
		fprintf(trace, "\n");
	}
	k->written = end;
}

static uint64_t begin(struct queue *k, unsigned count)
{
	uint64_t base = 0;

	must(ori_dev_mlx5_reserve(&k->q, count, &patient, &base), "room in a ring");
	return base;
}

static struct ori_dev_mlx5_head head(struct queue *k, uint64_t index, uint32_t fence)
{
	return ori_dev_mlx5_head_of(&k->q, index, fence);
}

static enum oriel_status finish(struct queue *k, uint64_t base, unsigned count)
{
	enum oriel_status status = ori_dev_mlx5_post(&k->q, base, count, &patient);

	if (status == ORIEL_OK)
		status = ori_dev_mlx5_wait(&k->q, base + count - 1, &patient);
	return status;
}

static struct ori_dev_rdma_address at(const struct side *s, uint64_t offset)
{
	return (struct ori_dev_rdma_address){offset, s->keys.lkey};
}

static void fill(char *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		memory[i] = (char)(i * 31 + i / 251 + seed);
}

static void test_writes(struct queue *a, const struct side *remote)
{
	static const uint32_t lengths[] = {0, 1, 12, 13, 28, 29, 1023, 1025, 4096, 4097, 300000};
	struct side *local = a->side;
	bool is_well = true;

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t length = lengths[i];
		uint64_t base = begin(a, 1);

		fill(local->memory + SOURCE, length, i);
		if (length <= ORIEL_MLX5_INLINE_MAX)
			ori_dev_mlx5_wqe_write_inline(ori_dev_mlx5_slot(&a->q, base),
						      head(a, base, 0), at(remote, TARGET),
						      local->memory + SOURCE, length);
		else
			ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&a->q, base), head(a, base, 0),
					       at(remote, TARGET), at(local, SOURCE), length);
		is_well &= finish(a, base, 1) == ORIEL_OK &&
			   memcmp(local->memory + SOURCE, remote->memory + TARGET, length) == 0;
		trace_queue(a);
	}
	row(is_well, "WRITE of 0 to 300000 bytes, inline and not");
}

/* A window puts from any memory of its process: by the key of all memory, if rings reach it. */
static void test_any_memory(struct queue *a, const struct side *remote)
{
	const struct side *s = a->side;
	struct ori_hca_keys keys = {0};
	struct ori_hca_mr *mr;
	struct ori_dev_rdma_address from;
	char *fresh;
	uint64_t base;

	/* Else threads register what they name. */
	if (!s->caps.reaches_all)
		return;
	must(s->ops->register_memory(s->hca, (void *)(uintptr_t)4096,
				     ((size_t)1 << 47) - 2 * (size_t)4096, 4096,
				     ORI_HCA_LOCAL_WRITE | ORI_HCA_ANY_MEMORY, &mr, &keys),
	     "the key of all memory");
	fresh = aligned_alloc(4096, LENGTH);
	fill(fresh, 4096, 5);
	from = (struct ori_dev_rdma_address){(uintptr_t)fresh, keys.lkey};
	base = begin(a, 1);
	ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&a->q, base), head(a, base, 0), at(remote, TARGET),
			       from, 4096);
	row(finish(a, base, 1) == ORIEL_OK && memcmp(fresh, remote->memory + TARGET, 4096) == 0,
	    "a WRITE from memory that no request named before");
	s->ops->unregister_memory(mr);
	free(fresh);
}

static void test_read(struct queue *a, const struct side *remote)
{
	struct side *local = a->side;
	uint64_t base = begin(a, 2);

	fill(remote->memory + TARGET, 5000, 77);
	ori_dev_mlx5_wqe_read(ori_dev_mlx5_slot(&a->q, base), head(a, base, 0), at(remote, TARGET),
			      at(local, SOURCE), 5000);
	ori_dev_mlx5_wqe_dump(ori_dev_mlx5_slot(&a->q, base + 1),
			      head(a, base + 1, ORIEL_MLX5_FENCE_READS), at(local, SOURCE), 8);
	row(finish(a, base, 2) == ORIEL_OK &&
		    memcmp(local->memory + SOURCE, remote->memory + TARGET, 5000) == 0,
	    "READ, then DUMP behind a fence");
	trace_queue(a);
}

static uint64_t add(struct queue *a, const struct side *remote, uint64_t value)
{
	uint64_t base = begin(a, 1);

	ori_dev_mlx5_wqe_fetch_add(ori_dev_mlx5_slot(&a->q, base), head(a, base, 0), at(remote, 0),
				   at(a->side, RESULT), value);
	if (finish(a, base, 1) != ORIEL_OK)
		return UINT64_MAX;
	trace_queue(a);
	return ori_dev_mlx5_atomic_result(&a->q, *(uint64_t *)(void *)(a->side->memory + RESULT));
}

static void test_atomics(struct queue *a, const struct side *remote)
{
	uint64_t *word = (uint64_t *)(void *)remote->memory, base;

	*word = UINT64_C(0x123456789abcdef0);
	row(add(a, remote, 3) == UINT64_C(0x123456789abcdef0) &&
		    *word == UINT64_C(0x123456789abcdef3),
	    "FETCH_ADD returns the old value in the byte order of caps (%s-endian)",
	    a->q.flags & ORIEL_MLX5_ATOMICS_SWAPPED ? "big" : "host");
	base = begin(a, 1);
	ori_dev_mlx5_wqe_compare_swap(ori_dev_mlx5_slot(&a->q, base), head(a, base, 0),
				      at(remote, 0), at(a->side, RESULT),
				      UINT64_C(0x123456789abcdef3), 9);
	row(finish(a, base, 1) == ORIEL_OK && *word == 9, "COMPARE_SWAP");
	trace_queue(a);
	base = begin(a, 1);
	ori_dev_mlx5_wqe_nop(ori_dev_mlx5_slot(&a->q, base), head(a, base, 0));
	row(finish(a, base, 1) == ORIEL_OK, "NOP");
	trace_queue(a);
}

/*
 * More than one lap of the ring, several WQEs at a time: one record and one
 * doorbell for each batch.
 */
static void test_laps(struct queue *a, const struct side *remote)
{
	bool is_well = true;
	uint64_t base;

	for (unsigned i = 0; i < DEPTH && is_well; i++) {
		base = begin(a, 4);
		for (unsigned k = 0; k < 4; k++) {
			uint64_t value = i * 4 + k;

			ori_dev_mlx5_wqe_write_inline(ori_dev_mlx5_slot(&a->q, base + k),
						      head(a, base + k, 0),
						      at(remote, TARGET + 8 * (uint64_t)k), &value,
						      8);
		}
		is_well = finish(a, base, 4) == ORIEL_OK;
		trace_queue(a);
	}
	is_well &= ((uint64_t *)(void *)(remote->memory + TARGET))[3] == 4 * DEPTH - 1;
	row(is_well, "four laps of the ring; answer c: record, fence, one doorbell is enough");
}

/* A companion increments a counter when a WRITE is complete. */
static bool companion_counts(struct queue *a, const struct side *remote, struct queue *companion,
			     unsigned rounds, uint64_t *ns)
{
	uint64_t *count = (uint64_t *)(void *)(a->side->memory + COUNT), base, first, begun;
	uint64_t deadline;

	*count = 0;
	begun = oriel_dev_clock_ns();
	for (unsigned i = 0; i < rounds; i++) {
		first = begin(a, 1);
		ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&a->q, first), head(a, first, 0),
				       at(remote, TARGET), at(a->side, SOURCE), 8);
		if (ori_dev_mlx5_post(&a->q, first, 1, &patient) != ORIEL_OK)
			return false;
		base = begin(companion, 2);
		ori_dev_mlx5_wqe_wait(ori_dev_mlx5_slot(&companion->q, base),
				      head(companion, base, 0), a->cqn, first);
		ori_dev_mlx5_wqe_fetch_add(ori_dev_mlx5_slot(&companion->q, base + 1),
					   head(companion, base + 1, 0), at(a->side, COUNT),
					   at(a->side, RESULT), 1);
		if (ori_dev_mlx5_post(&companion->q, base, 2, &patient) != ORIEL_OK)
			return false;
		deadline = oriel_dev_clock_ns() + PATIENCE_NS;
		while (oriel_dev_load_acquire(count) != i + 1) {
			if (ori_dev_mlx5_poll(&companion->q, base + 1) < 0 ||
			    oriel_dev_clock_ns() > deadline)
				return false;
			sched_yield();
		}
		if (ori_dev_mlx5_wait(&a->q, first, &patient) != ORIEL_OK ||
		    ori_dev_mlx5_wait(&companion->q, base + 1, &patient) != ORIEL_OK)
			return false;
		if (rounds == 1) {
			trace_queue(a);
			trace_queue(companion);
		}
	}
	*ns = (oriel_dev_clock_ns() - begun) / rounds;
	return true;
}

/* Queues of a pair that are not in the trace. */
static void pair_open(struct queue *a, struct queue *b, struct side *local, struct side *remote,
		      bool is_companion)
{
	FILE *saved = trace;

	trace = NULL;
	must(queue_open(a, "untraced", local, is_companion), "queue");
	must(queue_open(b, "untraced", remote, false), "queue");
	join(a, b);
	trace = saved;
}

static void pair_close(struct queue *a, struct queue *b)
{
	queue_close(a);
	queue_close(b);
}

static void time_companion(struct side *local, struct side *remote)
{
	struct queue a, b, companion, responder;
	FILE *saved = trace;
	uint64_t ns = 0;
	bool is_well;

	pair_open(&a, &b, local, remote, false);
	pair_open(&companion, &responder, local, local, true);
	trace = NULL;
	is_well = companion_counts(&a, remote, &companion, ROUNDS, &ns);
	trace = saved;
	row(is_well, "answer g: WRITE, WAIT and FETCH_ADD by loopback take %llu ns",
	    (unsigned long long)ns);
	pair_close(&companion, &responder);
	pair_close(&a, &b);
}

static void test_companion(struct queue *a, struct side *remote)
{
	struct queue companion, responder;
	FILE *saved;
	uint64_t ns;

	if (!a->side->caps.has_wait) {
		row(true, "no companion: nothing of this tier WAITs");
		return;
	}
	must(queue_open(&companion, "companion", a->side, true), "companion");
	saved = trace;
	trace = NULL;
	must(queue_open(&responder, "untraced", a->side, false), "responder");
	trace = saved;
	join(&companion, &responder);
	row(companion_counts(a, remote, &companion, 1, &ns), "a companion WAITs and counts");
	pair_close(&companion, &responder);
	time_companion(a->side, remote);
}

/* Does a QP without cd_master WAIT? */
static void ask_about_master(struct side *local, struct side *remote)
{
	struct queue a, b, plain, responder;
	FILE *saved = trace;
	bool is_honoured;
	uint64_t ns;

	pair_open(&a, &b, local, remote, false);
	pair_open(&plain, &responder, local, local, false);
	trace = NULL;
	is_honoured = companion_counts(&a, remote, &plain, 1, &ns);
	trace = saved;
	row(true, "answer a: a WAIT on a queue without cd_master is %s",
	    is_honoured ? "honoured" : "refused");
	pair_close(&plain, &responder);
	pair_close(&a, &b);
}

/* Does a WAIT end if its WRITE fails? */
static void ask_about_errors(struct side *local, struct side *remote)
{
	uint64_t *count = (uint64_t *)(void *)(local->memory + COUNT), base;
	struct queue a, b, companion, responder;

	pair_open(&a, &b, local, remote, false);
	pair_open(&companion, &responder, local, local, true);
	*count = 0;
	base = begin(&a, 1);
	ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&a.q, base), head(&a, base, 0),
			       (struct ori_dev_rdma_address){0, remote->keys.rkey ^ 0x5500},
			       at(local, SOURCE), 8);
	(void)finish(&a, base, 1);
	base = begin(&companion, 2);
	ori_dev_mlx5_wqe_wait(ori_dev_mlx5_slot(&companion.q, base), head(&companion, base, 0),
			      a.cqn, 0);
	ori_dev_mlx5_wqe_fetch_add(ori_dev_mlx5_slot(&companion.q, base + 1),
				   head(&companion, base + 1, 0), at(local, COUNT),
				   at(local, RESULT), 1);
	(void)ori_dev_mlx5_post(&companion.q, base, 2, &patient);
	(void)ori_dev_mlx5_wait(&companion.q, base + 1, &hasty);
	row(true, "answer b: an error CQE %s a WAIT",
	    oriel_dev_load_acquire(count) ? "satisfies" : "does not satisfy");
	pair_close(&companion, &responder);
	pair_close(&a, &b);
}

/*
 * A WRITE with an invalid key, and others after it: one error, the rest
 * flushed, nothing written.
 */
static void test_error(struct side *local, struct side *remote)
{
	struct queue a, b;
	unsigned failed = 0, flushed = 0;
	bool is_refused;
	uint64_t base, deadline = oriel_dev_clock_ns() + PATIENCE_NS;
	uint32_t tail, error = 0;

	must(queue_open(&a, "broken", local, false), "queue");
	must(queue_open(&b, "victim", remote, false), "queue");
	join(&a, &b);
	base = begin(&a, 8);
	memset(remote->memory + TARGET, 0x55, 64);
	for (unsigned i = 0; i < 8; i++)
		ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&a.q, base + i), head(&a, base + i, 0),
				       i ? at(remote, TARGET)
					 : (struct ori_dev_rdma_address){TARGET, remote->keys.rkey ^
											 0x5500},
				       at(local, SOURCE), 64);
	(void)ori_dev_mlx5_post(&a.q, base, 8, &patient);
	is_refused = ori_dev_mlx5_wait(&a.q, base, &patient) == ORIEL_ERR_ACCESS;
	row(is_refused, "a wrong key is an error CQE (syndrome 0x%02x, vendor 0x%02x)",
	    ori_dev_queue_err_syndrome(a.q.err), ori_dev_queue_err_vendor(a.q.err));
	for (unsigned i = 0; i < 8; i++) {
		const char *cqe = a.q.cq + (size_t)i * ORIEL_MLX5_BLOCK;

		do {
			tail = ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
		} while (ori_dev_mlx5_tail_completion(tail) == ORIEL_MLX5_INVALID &&
			 oriel_dev_clock_ns() < deadline && sched_yield() == 0);
		memcpy(&error, cqe + ORIEL_MLX5_ERROR, 4);
		failed += ori_dev_mlx5_tail_completion(tail) == ORIEL_MLX5_FAILED;
		flushed += ori_dev_mlx5_tail_completion(tail) == ORIEL_MLX5_FAILED &&
			   ori_dev_mlx5_error_syndrome(error) == ORIEL_SYNDROME_FLUSHED;
	}
	row(failed == 8 && flushed == 7 && remote->memory[TARGET] == 0x55,
	    "answer f: of 8 WQEs %u have error CQEs, %u of them flushed", failed, flushed);
	trace_queue(&a);
	queue_close(&a);
	queue_close(&b);
}

static void measure(struct queue *a, const struct side *remote)
{
	uint64_t begun = oriel_dev_clock_ns(), base, ns;
	FILE *saved = trace;
	bool is_well = true;

	trace = NULL;
	for (unsigned i = 0; i < ROUNDS && is_well; i++) {
		base = begin(a, 1);
		ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&a->q, base), head(a, base, 0),
				       at(remote, TARGET), at(a->side, SOURCE), 8);
		is_well = finish(a, base, 1) == ORIEL_OK;
	}
	ns = (oriel_dev_clock_ns() - begun) / ROUNDS;
	row(is_well, "WRITE of 8 bytes until its CQE: %llu ns", (unsigned long long)ns);
	begun = oriel_dev_clock_ns();
	for (unsigned i = 0; i < ROUNDS && is_well; i++)
		is_well = add(a, remote, 1) != UINT64_MAX;
	ns = (oriel_dev_clock_ns() - begun) / ROUNDS;
	row(is_well, "FETCH_ADD until its CQE: %llu ns", (unsigned long long)ns);
	trace = saved;
}

static int report(const char *device)
{
	struct ori_mlx5_report r;

	must(ori_mlx5_probe(device, 0, NULL, &r), device);
	printf("%s reaches %s\n", r.name, ori_mlx5_tier_text(r.tier));
	printf("  queues by %s, doorbells %s, %s\n", r.is_devx ? "commands" : "verbs",
	       r.doorbells[0] ? r.doorbells : "none", r.has_wait ? "WAITs" : "no WAIT");
	printf("  tried %s\n", r.trial);
	for (unsigned t = 0; t < r.tier; t++)
		printf("  not T%u: %s\n", t, r.why[t]);
	return 0;
}

static int run(const char *first, const char *second)
{
	struct side local, remote;
	struct queue a, b;

	side_open(&local, first);
	side_open(&remote, second);
	if (trace)
		fprintf(trace, "trace 1 %s %s\n", local.caps.name,
			local.caps.has_wait ? "devx" : "verbs");
	must(queue_open(&a, "main", &local, false), "queue");
	must(queue_open(&b, "peer", &remote, false), "queue");
	join(&a, &b);
	test_writes(&a, &remote);
	test_read(&a, &remote);
	test_atomics(&a, &remote);
	test_companion(&a, &remote);
	test_laps(&a, &remote);
	test_error(&local, &remote);
	if (local.caps.has_wait) {
		ask_about_master(&local, &remote);
		ask_about_errors(&local, &remote);
	}
	measure(&a, &remote);
	test_any_memory(&a, &remote);
	queue_close(&a);
	queue_close(&b);
	side_close(&remote);
	side_close(&local);
	return failures != 0;
}

int main(int argc, char **argv)
{
	int failed;

	if (argc < 3 || argc > 5 || !ori_hca_mlx5()) {
		fprintf(stderr, "usage: hw_rings report DEVICE | run DEVICE [DEVICE] [FILE]%s\n",
			ori_hca_mlx5() ? "" : ": built without infiniband/mlx5dv.h");
		return 2;
	}
	if (strcmp(argv[1], "report") == 0)
		return report(argv[2]);
	trace = argc == 5 ? fopen(argv[4], "we") : NULL;
	if (argc == 5 && !trace)
		die(argv[4]);
	failed = run(argv[2], argc > 3 ? argv[3] : argv[2]);
	if (trace && fclose(trace) != 0)
		die(argv[4]);
	return failed;
}
