/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a trace of queues: WQEs, doorbells and CQEs in their order and
 * encoding. hw_replay calls it.
 */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/mlx5.h>

#include "hca/soft/soft_wqe.h"

#define TRACE_QUEUES 16u
#define TRACE_WQES 64u /* WQEs of a queue that a check remembers */

struct queue {
	char name[32];
	unsigned qpn, cqn, depth;
	uint64_t wqes, posted, cqes;
	uint8_t opcodes[TRACE_WQES];
	bool has_failed;
};

struct trace {
	const char *name;
	unsigned line;
	int wrong;
	bool has_begun;
	unsigned count;
	struct queue queues[TRACE_QUEUES];
};

static void complain(struct trace *t, const char *what)
{
	fprintf(stderr, "%s:%u: %s\n", t->name, t->line, what);
	t->wrong++;
}

static struct queue *find(struct trace *t, const char *name)
{
	for (unsigned i = 0; i < t->count; i++)
		if (strcmp(t->queues[i].name, name) == 0)
			return &t->queues[i];
	complain(t, "a queue without a queue line");
	return NULL;
}

static bool hex(const char *text, uint8_t *bytes, unsigned count)
{
	unsigned value;

	if (strlen(text) != 2 * (size_t)count)
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (sscanf(text + 2 * (size_t)i, "%2x", &value) != 1)
			return false;
		bytes[i] = (uint8_t)value;
	}
	return true;
}

static void check_queue(struct trace *t, const char *rest)
{
	struct queue *q = &t->queues[t->count];

	if (t->count == TRACE_QUEUES ||
	    sscanf(rest, "%31s %x %x %u", q->name, &q->qpn, &q->cqn, &q->depth) != 4 ||
	    q->depth < 2 || (q->depth & (q->depth - 1)))
		complain(t, "no queue");
	else
		t->count++;
}

static void check_wqe(struct trace *t, const char *rest)
{
	unsigned long long index;
	uint8_t bytes[ORIEL_MLX5_BLOCK];
	char name[32], text[200];
	struct soft_wqe wqe;
	struct queue *q;
	const char *flaw;

	if (sscanf(rest, "%31s %llu %199s", name, &index, text) != 3 ||
	    !hex(text, bytes, sizeof(bytes))) {
		complain(t, "no WQE");
		return;
	}
	q = find(t, name);
	if (!q)
		return;
	flaw = ori_soft_wqe_parse(bytes, 1, index, q->qpn, &wqe);
	if (flaw)
		complain(t, flaw);
	if (index != q->wqes++)
		complain(t, "a WQE out of turn");
	if (!wqe.is_signaled)
		complain(t, "a WQE that asks for no CQE");
	q->opcodes[index % TRACE_WQES] = wqe.opcode;
}

static void check_bell(struct trace *t, const char *rest)
{
	uint8_t record[4], doorbell[8];
	char name[32], first[16], second[32];
	unsigned long long end;
	struct queue *q;

	if (sscanf(rest, "%31s %llu %15s %31s", name, &end, first, second) != 4 ||
	    !hex(first, record, 4) || !hex(second, doorbell, 8)) {
		complain(t, "no doorbell");
		return;
	}
	q = find(t, name);
	if (!q)
		return;
	if (end != q->wqes || end < q->posted)
		complain(t, "a doorbell of other WQEs than were written");
	if (ori_dev_mlx5_get32(record, 0) != (end & 0xffff))
		complain(t, "a record that is not what the doorbell says");
	if (ori_dev_mlx5_get32(doorbell, 0) >> 8 != (end & 0xffff) ||
	    ori_dev_mlx5_get32(doorbell, 4) >> 8 != q->qpn)
		complain(t, "a doorbell of another queue or index");
	q->posted = end;
}

/* Bytes that hardware alone decides (time stamps, checksums) are not compared. */
static void check_cqe_fields(struct trace *t, struct queue *q, uint64_t index, const uint8_t *cqe)
{
	uint32_t origin = ori_dev_mlx5_get32(cqe, ORIEL_MLX5_ORIGIN), tail, error;
	uint32_t completion;

	memcpy(&tail, cqe + ORIEL_MLX5_TAIL, 4);
	memcpy(&error, cqe + ORIEL_MLX5_ERROR, 4);
	completion = ori_dev_mlx5_tail_completion(tail);
	if (completion != ORIEL_MLX5_DONE && completion != ORIEL_MLX5_FAILED)
		complain(t, "a CQE that is neither a success nor a failure");
	if (ori_dev_mlx5_tail_owner(tail) != (index / q->depth & 1))
		complain(t, "a CQE with the owner of another lap");
	if (ori_dev_mlx5_tail_counter(tail) != (index & 0xffff))
		complain(t, "CQE and WQE have different indices");
	if ((origin & 0xffffff) != q->qpn)
		complain(t, "a CQE of another queue");
	if (completion == ORIEL_MLX5_DONE && q->has_failed)
		complain(t, "success after a failure");
	if (completion == ORIEL_MLX5_DONE && origin >> 24 != q->opcodes[index % TRACE_WQES])
		complain(t, "a CQE of another opcode than its WQE");
	if (completion == ORIEL_MLX5_FAILED && ori_dev_mlx5_error_syndrome(error) == 0)
		complain(t, "a failure without a syndrome");
	if (completion == ORIEL_MLX5_FAILED && q->has_failed &&
	    ori_dev_mlx5_error_syndrome(error) != ORIEL_SYNDROME_FLUSHED)
		complain(t, "a WQE after a failure is not flushed");
	q->has_failed |= completion == ORIEL_MLX5_FAILED;
}

static void check_cqe(struct trace *t, const char *rest)
{
	unsigned long long index;
	uint8_t bytes[ORIEL_MLX5_BLOCK];
	char name[32], text[200];
	struct queue *q;

	if (sscanf(rest, "%31s %llu %199s", name, &index, text) != 3 ||
	    !hex(text, bytes, sizeof(bytes))) {
		complain(t, "no CQE");
		return;
	}
	q = find(t, name);
	if (!q)
		return;
	if (index != q->cqes++ || index >= q->posted)
		complain(t, "a CQE out of turn");
	check_cqe_fields(t, q, index, bytes);
}

static void check_line(struct trace *t, const char *line)
{
	static const struct {
		const char *word;
		void (*check)(struct trace *t, const char *rest);
	} kinds[] = {{"queue ", check_queue},
		     {"wqe ", check_wqe},
		     {"bell ", check_bell},
		     {"cqe ", check_cqe}};

	if (t->line == 1) {
		t->has_begun = strncmp(line, "trace 1 ", 8) == 0;
		if (!t->has_begun)
			complain(t, "not a trace of version 1");
		return;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strncmp(line, kinds[i].word, strlen(kinds[i].word)) == 0) {
			kinds[i].check(t, line + strlen(kinds[i].word));
			return;
		}
	complain(t, "a line of an unknown kind");
}

int hw_trace_check(const char *name)
{
	struct trace t = {.name = name};
	FILE *file = fopen(name, "re");
	char line[400];

	if (!file) {
		complain(&t, "cannot be read");
		return t.wrong;
	}
	while (fgets(line, sizeof(line), file)) {
		t.line++;
		line[strcspn(line, "\n")] = '\0';
		check_line(&t, line);
	}
	fclose(file);
	if (!t.has_begun || t.count == 0)
		complain(&t, "the trace is empty");
	for (unsigned i = 0; i < t.count; i++)
		if (t.queues[i].cqes != t.queues[i].wqes)
			complain(&t, "WQEs without CQEs");
	return t.wrong;
}
