/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the algorithm of an execution by its length: the request of the caller, the table of
 * oriel tune, or the table below. The latter was measured: docs/allgather.md says on which
 * machines. Called as objects are created and at each start.
 */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "coll/gather.h"
#include "coll/reduction.h"

#define CHOOSE_ANY SIZE_MAX

struct choose_row {
	size_t bytes; /* the most, of each rank */
	enum oriel_algorithm algorithm;
};

enum choose_topology {
	CHOOSE_HOST, /* one domain */
	CHOOSE_PAIR, /* two nodes of one rank: there is one route */
	CHOOSE_NODES,
	CHOOSE_GPUS,
	CHOOSE_TOPOLOGIES
};

#define CHOOSE_ROWS 3u

/* Up to so many bytes one wait costs more than adding them on each rank. */
#define CHOOSE_ONE_SHOT 4096u

/* Up to so many bytes few messages are more than few bytes. */
#define CHOOSE_RECURSIVE 16384u

/* In the order of their bytes; the last row of each is for any length. */
static const struct choose_row choose_rows[][CHOOSE_TOPOLOGIES][CHOOSE_ROWS] =
	{
		[ORI_ALLGATHER] =
			{
				[CHOOSE_HOST] = {{256, ORIEL_ALGORITHM_LL},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_STORE}},
				[CHOOSE_PAIR] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_NODES] = {{16384, ORIEL_ALGORITHM_BRUCK},
						  {CHOOSE_ANY, ORIEL_ALGORITHM_RING}},
				[CHOOSE_GPUS] = {{1u << 20, ORIEL_ALGORITHM_LL},
						 {16u << 20, ORIEL_ALGORITHM_STORE},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_CE}},
			},
		[ORI_ALLTOALL] =
			{
				[CHOOSE_HOST] = {{256, ORIEL_ALGORITHM_LL},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_STORE}},
				[CHOOSE_PAIR] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_NODES] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_GPUS] = {{1u << 20, ORIEL_ALGORITHM_LL},
						 {16u << 20, ORIEL_ALGORITHM_STORE},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_CE}},
			},
		[ORI_BCAST] =
			{
				[CHOOSE_HOST] = {{65536, ORIEL_ALGORITHM_DIRECT},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_RING}},
				[CHOOSE_PAIR] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_NODES] = {{16384, ORIEL_ALGORITHM_BRUCK},
						  {CHOOSE_ANY, ORIEL_ALGORITHM_RING}},
				[CHOOSE_GPUS] = {{16u << 20, ORIEL_ALGORITHM_STORE},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_CE}},
			},
		[ORI_ALLREDUCE] =
			{
				[CHOOSE_HOST] = {{CHOOSE_ONE_SHOT, ORIEL_ALGORITHM_ONE_SHOT},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
				[CHOOSE_PAIR] = {{CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
				[CHOOSE_NODES] = {{CHOOSE_ANY, ORIEL_ALGORITHM_HIERARCHICAL}},
				[CHOOSE_GPUS] = {{512u << 10, ORIEL_ALGORITHM_LL},
						 {2u << 20, ORIEL_ALGORITHM_ONE_SHOT},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
			},
		[ORI_REDUCE] =
			{
				[CHOOSE_HOST] = {{CHOOSE_ONE_SHOT, ORIEL_ALGORITHM_ONE_SHOT},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
				[CHOOSE_PAIR] = {{CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
				[CHOOSE_NODES] = {{CHOOSE_ANY, ORIEL_ALGORITHM_HIERARCHICAL}},
				[CHOOSE_GPUS] = {{CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
			},
		[ORI_REDUCE_SCATTER] =
			{
				[CHOOSE_HOST] = {{CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
				[CHOOSE_PAIR] = {{CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
				[CHOOSE_NODES] = {{CHOOSE_ANY, ORIEL_ALGORITHM_HIERARCHICAL}},
				[CHOOSE_GPUS] = {{512u << 10, ORIEL_ALGORITHM_LL},
						 {CHOOSE_ANY, ORIEL_ALGORITHM_OWNER}},
			},
		[ORI_GATHER] =
			{
				[CHOOSE_HOST] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_PAIR] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_NODES] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_GPUS] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
			},
		[ORI_SCATTER] =
			{
				[CHOOSE_HOST] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_PAIR] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_NODES] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
				[CHOOSE_GPUS] = {{CHOOSE_ANY, ORIEL_ALGORITHM_DIRECT}},
			},
};

size_t ori_gather_lines_max(bool is_gpu)
{
	return is_gpu ? 1u << 20 : 1u << 14;
}

/* The longest message by lines of @g. */
static size_t choose_lines_max(const struct ori_gather *g)
{
	return g->reduction ? ORI_REDUCE_LINES : ori_gather_lines_max(g->is_gpu);
}

/*
 * The most bytes of @row. In reductions by lines and by one shot a GPU sends its message once for
 * each peer, and the rows are those of two ranks. LL128 lines of four ranks were as far ahead as of
 * two, at the same bytes.
 */
static size_t choose_bytes(const struct ori_gather *g, const struct choose_row *row)
{
	size_t times = g->shape.ranks > 2 ? g->shape.ranks - 1 : 1, most = row->bytes;

	if (!g->reduction || !g->is_gpu || most == CHOOSE_ANY)
		return most;
	if (row->algorithm == ORIEL_ALGORITHM_LL && !g->is_narrow)
		return times <= 3 ? most : most * 3 / times;
	return most / times;
}

static bool choose_can(const struct ori_gather *g, enum oriel_algorithm algorithm, size_t bytes)
{
	if (algorithm == ORIEL_ALGORITHM_LL && bytes > choose_lines_max(g))
		return false;
	/*
	 * In host memory an all-reduce by owners has no rounds through the staging, and one shot is
	 * one round. In GPU memory one shot needs no limit, but is never the fastest above.
	 */
	if (algorithm == ORIEL_ALGORITHM_ONE_SHOT && g->kind->number == ORI_ALLREDUCE &&
	    bytes > (g->is_gpu ? ORI_REDUCE_ONE_SHOT : ORI_REDUCE_SLOT))
		return false;
	return g->supported >> algorithm & 1;
}

/*
 * Tables know the nodes, and not the block, the type and the flags, which are attributes of the
 * reduction.
 */
static enum oriel_algorithm choose_possible(const struct ori_gather *g,
					    enum oriel_algorithm algorithm)
{
	if (g->supported >> algorithm & 1 || !g->reduction)
		return algorithm;
	switch (algorithm) {
	case ORIEL_ALGORITHM_RING:
	case ORIEL_ALGORITHM_RECURSIVE:
		return choose_possible(g, ORIEL_ALGORITHM_HIERARCHICAL);
	case ORIEL_ALGORITHM_HIERARCHICAL:
		return ORIEL_ALGORITHM_OWNER;
	default:
		return algorithm;
	}
}

/*
 * A reduction that is fast has a row ahead of the others. RING was slower than OWNER where it was
 * measured, on virtual nodes of one machine, and HIERARCHICAL has not been measured on GPUs of
 * several nodes: requests and tables choose them.
 */
static enum oriel_algorithm choose_row(const struct ori_gather *g, const struct choose_row *row,
				       size_t bytes)
{
	if (g->is_gpu && row->algorithm == ORIEL_ALGORITHM_HIERARCHICAL)
		return ORIEL_ALGORITHM_OWNER;
	return g->reduction && g->reduction->is_fast && bytes <= CHOOSE_RECURSIVE
		       ? ORIEL_ALGORITHM_RECURSIVE
		       : row->algorithm;
}

enum oriel_status ori_gather_check_table(const struct ori_gather *g, const char *path)
{
	const struct ori_tune_row *row;
	unsigned i;

	for (i = 0; i < g->tune.count; i++) {
		row = &g->tune.rows[i];
		if (row->collective == g->kind->number &&
		    !choose_can(g, choose_possible(g, row->algorithm), row->bytes))
			return ori_fail(ORIEL_ERR_CONFIG,
					"%s:%u: algorithm %s does not support messages of that "
					"size on these ranks",
					path, row->line, oriel_algorithm_name(row->algorithm));
	}
	return ORIEL_OK;
}

static enum choose_topology choose_topology(const struct ori_gather *g)
{
	if (g->shape.nodes == 1)
		return g->is_gpu ? CHOOSE_GPUS : CHOOSE_HOST;
	return g->shape.nodes == 2 && g->shape.ranks == 2 ? CHOOSE_PAIR : CHOOSE_NODES;
}

enum oriel_algorithm ori_gather_choose(const struct ori_gather *g, size_t bytes)
{
	const struct ori_tune_row *tuned = ori_tune_row(&g->tune, g->kind->number, bytes);
	const struct choose_row *row = choose_rows[g->kind->number][choose_topology(g)];

	if (g->requested != ORIEL_ALGORITHM_DEFAULT && choose_can(g, g->requested, bytes))
		return g->requested;
	if (tuned)
		return choose_possible(g, tuned->algorithm);
	while (bytes > choose_bytes(g, row))
		row++;
	/* Ranks of one process share the few copy queues of their GPU, and would block each other.
	 */
	if (row->algorithm == ORIEL_ALGORITHM_CE && g->is_sharing)
		return ORIEL_ALGORITHM_STORE;
	return choose_possible(g, choose_row(g, row, bytes));
}

bool ori_gather_may_choose(const struct ori_gather *g, enum oriel_algorithm algorithm)
{
	const struct ori_tune_row *row;
	unsigned i;

	for (i = 0; i < g->tune.count; i++) {
		row = &g->tune.rows[i];
		if (row->collective == g->kind->number &&
		    choose_possible(g, row->algorithm) == algorithm)
			return true;
	}
	return g->requested == algorithm;
}

/* The most bytes, from @bytes on, for which the choice is certain to be the same. */
static size_t choose_end(const struct ori_gather *g, size_t bytes)
{
	const struct ori_tune_row *tuned = ori_tune_row(&g->tune, g->kind->number, bytes);
	const struct choose_row *row = choose_rows[g->kind->number][choose_topology(g)];
	size_t end = g->bytes_max, lines = choose_lines_max(g);

	while (bytes > choose_bytes(g, row))
		row++;
	if (choose_bytes(g, row) < end)
		end = choose_bytes(g, row);
	if (bytes <= CHOOSE_RECURSIVE && end > CHOOSE_RECURSIVE)
		end = CHOOSE_RECURSIVE;
	if (tuned && tuned->bytes < end)
		end = (size_t)tuned->bytes;
	return bytes <= lines && lines < end ? lines : end;
}

void ori_gather_log_choice(const struct ori_gather *g, const char *why)
{
	enum oriel_algorithm algorithm;
	size_t end = 0, used = 0;
	char text[400];

	if (oriel_comm_rank(g->comm) != 0 || !ori_log_has(ORIEL_LOG_INFO) || !g->bytes_max)
		return;
	while (end < g->bytes_max && used < sizeof(text)) {
		algorithm = ori_gather_choose(g, end + 1);
		do {
			end = choose_end(g, end + 1);
		} while (end < g->bytes_max && ori_gather_choose(g, end + 1) == algorithm);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s to %zu bytes",
					 used ? ", " : "", oriel_algorithm_name(algorithm), end);
	}
	ori_log_rank(ORIEL_LOG_INFO, 0, "algorithm of %s in %s memory: %s (%s)", g->kind->name,
		     g->is_gpu ? "GPU" : "host", text, why);
}

const char *ori_gather_setting_name(enum ori_collective collective)
{
	switch (collective) {
	case ORI_ALLGATHER:
		return "ORIEL_ALLGATHER";
	case ORI_ALLREDUCE:
		return "ORIEL_ALLREDUCE";
	default:
		return NULL;
	}
}

enum oriel_status ori_gather_setting(const struct ori_gather_kind *kind,
				     enum oriel_algorithm *algorithm)
{
	const char *name = ori_gather_setting_name(kind->number), *text;
	unsigned i;

	*algorithm = ORIEL_ALGORITHM_DEFAULT;
	if (!name)
		return ORIEL_OK;
	text = ori_setting_text(kind->number == ORI_ALLGATHER ? ORI_SETTING_ALLGATHER
							      : ORI_SETTING_ALLREDUCE);
	for (i = 0; i < ORI_ALGORITHMS; i++)
		if (strcmp(text, oriel_algorithm_name((enum oriel_algorithm)i)) == 0) {
			*algorithm = (enum oriel_algorithm)i;
			return ORIEL_OK;
		}
	return ori_fail(ORIEL_ERR_CONFIG, "%s: '%s' is not an algorithm", name, text);
}
