/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat in a rose window: its lead bars are kept cold, a lamp burns behind each pane, and the
 * result that the ranks compute together must be, bit for bit, the one that rank 0 computes alone.
 *
 * The rows of the plate are split over the ranks. Each rank keeps its slab twice, before and after
 * the step, both in its window and both with a halo row above and below that the neighbours write.
 *
 * One signal per neighbour and step suffices. A rank puts its edge row of step s + 1 into a halo
 * of the field that its neighbour read in step s - 1 and will read in step s + 1:
 *  - The halo is not overwritten too early: the rank reaches step s only after the neighbour's
 * signal of step s - 1, which the neighbour sends after it has computed its own edge row, the only
 * row that reads this halo.
 *  - The halo is not read too early: the neighbour reaches step s + 1 only after the rank's signal
 * of step s, and put_signal guarantees that a receiver of the signal sees the row.
 * So neighbours are never more than one step apart, and a rank waits for no others.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#include "heat_picture.h"

enum { ROW_ARRIVED }; /* the one signal */

struct plate {
	unsigned width;
	unsigned height;
	unsigned steps;
	const char *output;
};

/* Rows [first, first + rows) of the plate. Each field has two more rows, the halos. */
struct slab {
	const struct plate *plate;
	unsigned first;
	unsigned rows;
	double *field[2]; /* field[step % 2] is the current one */
	double *rate;     /* [rows]; 0 where the temperature is fixed */
};

static size_t slab_row_bytes(const struct slab *s)
{
	return s->plate->width * sizeof(double);
}

static double *slab_row(const struct slab *s, unsigned step, unsigned row)
{
	return s->field[step % 2] + (size_t)row * s->plate->width;
}

/* Offset of that row in the window of the slab's rank: the fields follow each other. */
static uint64_t slab_row_at(const struct slab *s, unsigned step, unsigned row)
{
	return ((step % 2) * (s->rows + 2ull) + row) * slab_row_bytes(s);
}

/* The rows of @rank: the first ranks get one more if the division leaves a remainder. */
static struct slab slab_of(const struct plate *plate, unsigned rank, unsigned ranks)
{
	unsigned share = plate->height / ranks, rest = plate->height % ranks;
	struct slab s = {.plate = plate};

	s.first = rank * share + (rank < rest ? rank : rest);
	s.rows = share + (rank < rest);
	return s;
}

/*
 * The initial state: field 0 with its halos, so that the first step needs no exchange. Field 1 is
 * not touched: a neighbour that is ahead may be writing to it.
 */
static void slab_paint(struct slab *s)
{
	const struct plate *p = s->plate;
	double scale = 2.06 / (p->width < p->height ? p->width : p->height);
	unsigned row, x;

	for (row = 0; row < s->rows + 2; row++) {
		double y = s->first + row - 1.0;

		for (x = 0; x < p->width; x++) {
			bool is_fixed, is_edge = x == 0 || x == p->width - 1 || y <= 0 ||
						 y >= p->height - 1.0;
			double heat = heat_rose((x + 0.5 - p->width / 2.0) * scale,
						(y + 0.5 - p->height / 2.0) * scale, &is_fixed);

			slab_row(s, 0, row)[x] = heat;
			if (row >= 1 && row <= s->rows)
				s->rate[(size_t)(row - 1) * p->width + x] =
					is_fixed || is_edge ? 0 : 0.24;
		}
	}
}

/* One step of one row, 1 .. rows. Identical to the last bit for one rank and for many. */
static void slab_relax(const struct slab *s, unsigned step, unsigned row)
{
	const double *restrict up = slab_row(s, step, row - 1);
	const double *restrict now = slab_row(s, step, row);
	const double *restrict down = slab_row(s, step, row + 1);
	const double *restrict rate = s->rate + (size_t)(row - 1) * s->plate->width;
	double *restrict next = slab_row(s, step + 1, row);
	unsigned x, last = s->plate->width - 1;

	next[0] = now[0];
	for (x = 1; x < last; x++)
		next[x] =
			now[x] + rate[x] * (up[x] + down[x] + now[x - 1] + now[x + 1] - 4 * now[x]);
	next[last] = now[last];
}

/* Put this rank's new row @mine into row @theirs, a halo, of @peer. */
static enum oriel_status send_row(const struct oriel_dev_window *w, const struct slab *s,
				  unsigned step, unsigned mine, unsigned peer, unsigned theirs)
{
	struct slab there = slab_of(s->plate, peer, w->ranks);

	return oriel_dev_put_signal(w, oriel_dev_thread(), peer, slab_row_at(&there, step, theirs),
				    slab_row(s, step, mine), slab_row_bytes(s), ROW_ARRIVED, 1,
				    NULL);
}

/* The edge rows are first, so that they travel while the inner rows are computed. */
static enum oriel_status slab_step(const struct oriel_dev_window *w, const struct slab *s,
				   unsigned step)
{
	bool has_upper = w->rank > 0, has_lower = w->rank + 1 < w->ranks;
	enum oriel_status status = ORIEL_OK;
	unsigned row;

	slab_relax(s, step, 1);
	slab_relax(s, step, s->rows);
	if (has_upper)
		status = send_row(w, s, step + 1, 1, w->rank - 1,
				  slab_of(s->plate, w->rank - 1, w->ranks).rows + 1);
	if (has_lower && status == ORIEL_OK)
		status = send_row(w, s, step + 1, s->rows, w->rank + 1, 0);
	for (row = 2; row < s->rows; row++)
		slab_relax(s, step, row);
	if (has_upper && status == ORIEL_OK)
		status = oriel_dev_wait_signal_next(w, oriel_dev_thread(), w->rank - 1, ROW_ARRIVED,
						    1, 0);
	if (has_lower && status == ORIEL_OK)
		status = oriel_dev_wait_signal_next(w, oriel_dev_thread(), w->rank + 1, ROW_ARRIVED,
						    1, 0);
	return status;
}

/* Rank 0 collects the rows of all ranks in @whole, after the last step. */
static enum oriel_status gather(const struct oriel_dev_window *w, const struct plate *p,
				double *whole)
{
	struct oriel_dev_group me = oriel_dev_thread();
	unsigned rank;

	for (rank = 0; rank < w->ranks; rank++) {
		struct slab s = slab_of(p, rank, w->ranks);
		struct oriel_dev_ticket ticket;
		enum oriel_status status = oriel_dev_get(w, me, rank, slab_row_at(&s, p->steps, 1),
							 whole + (size_t)s.first * p->width,
							 s.rows * slab_row_bytes(&s), &ticket);

		if (status == ORIEL_OK)
			status = oriel_dev_wait_local(w, me, ticket, 0);
		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

/*
 * The computation by all ranks. @whole is NULL except on rank 0; @seconds gets the time of the
 * steps.
 */
static enum oriel_status compute(struct oriel_window *window, struct slab *mine, double *whole,
				 double *seconds)
{
	struct oriel_dev_window w;
	enum oriel_status status;
	unsigned step;
	uint64_t start;

	status = oriel_window_device(window, &w);
	if (status != ORIEL_OK)
		return status;
	mine->field[0] = oriel_dev_address(&w, w.rank, 0);
	mine->field[1] = mine->field[0] + (size_t)(mine->rows + 2) * mine->plate->width;
	slab_paint(mine);

	status = oriel_dev_barrier(&w, oriel_dev_thread(), 0, 0);
	start = oriel_dev_clock_ns();
	for (step = 0; step < mine->plate->steps && status == ORIEL_OK; step++)
		status = slab_step(&w, mine, step);
	/* So that all slabs are complete when rank 0 reads them. */
	if (status == ORIEL_OK)
		status = oriel_dev_barrier(&w, oriel_dev_thread(), 0, 0);
	*seconds = (oriel_dev_clock_ns() - start) * 1e-9;
	if (status == ORIEL_OK && whole)
		status = gather(&w, mine->plate, whole);
	return status;
}

/* The computation by rank 0 alone, from the start, in its own memory. */
static bool compute_alone(const struct plate *p, double *whole, double *seconds)
{
	size_t cells = (size_t)p->width * p->height, with_halo = cells + 2 * (size_t)p->width;
	struct slab s = slab_of(p, 0, 1);
	bool is_done = false;
	uint64_t start;
	unsigned step, row;

	s.field[0] = calloc(with_halo, sizeof(double));
	s.field[1] = calloc(with_halo, sizeof(double));
	s.rate = calloc(cells, sizeof(double));
	if (s.field[0] && s.field[1] && s.rate) {
		slab_paint(&s);
		start = oriel_dev_clock_ns();
		for (step = 0; step < p->steps; step++)
			for (row = 1; row <= s.rows; row++)
				slab_relax(&s, step, row);
		*seconds = (oriel_dev_clock_ns() - start) * 1e-9;
		memcpy(whole, slab_row(&s, p->steps, 1), cells * sizeof(double));
		is_done = true;
	}
	free(s.rate);
	free(s.field[1]);
	free(s.field[0]);
	return is_done;
}

static bool is_identical(const struct plate *p, const double *together, const double *alone)
{
	size_t i, cells = (size_t)p->width * p->height, different = 0, first = cells;
	double most = 0;

	for (i = 0; i < cells; i++) {
		if (memcmp(&together[i], &alone[i], sizeof(double)) == 0)
			continue;
		first = different++ ? first : i;
		most = fmax(most, fabs(together[i] - alone[i]));
	}
	if (different == 0) {
		printf("identical to the single-rank run: %zu cells, bit for bit\n", cells);
		return true;
	}
	fprintf(stderr,
		"heat: %zu of %zu cells differ from the single-rank run, by up to %g; "
		"the first is (%zu, %zu): %.17g here, %.17g there\n",
		different, cells, most, first % p->width, first / p->width, together[first],
		alone[first]);
	return false;
}

/* After the other ranks have finished, rank 0 compares and draws. */
static bool judge(const struct plate *p, unsigned ranks, const double *together, double seconds)
{
	double *alone = calloc((size_t)p->width * p->height, sizeof(double));
	double alone_seconds = 0;
	bool is_good = false;

	if (!alone || !compute_alone(p, alone, &alone_seconds)) {
		fprintf(stderr, "heat: no memory for the single-rank run\n");
	} else {
		printf("%u x %u cells, %u steps\n", p->width, p->height, p->steps);
		printf("together, on %u rank%s: %.2f s, %.3f ms a step\n", ranks,
		       ranks > 1 ? "s" : "", seconds, seconds * 1e3 / p->steps);
		printf("rank 0 alone: %.2f s, %.3f ms a step\n", alone_seconds,
		       alone_seconds * 1e3 / p->steps);
		is_good = is_identical(p, together, alone) &&
			  heat_write_png(p->output, p->width, p->height, together);
		if (is_good)
			printf("the field is in %s\n", p->output);
	}
	free(alone);
	return is_good;
}

/* Collective. @together is the whole plate on rank 0, NULL on the others. */
static enum oriel_status run(struct oriel_comm *comm, const struct plate *p, double *together,
			     double *seconds)
{
	struct slab mine = slab_of(p, oriel_comm_rank(comm), oriel_comm_size(comm));
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = 2 * (mine.rows + 2ull) * slab_row_bytes(&mine),
					 .signals = 1,
					 .barriers = 1,
					 .counters = ORIEL_NONE};
	struct oriel_window *window = NULL;
	enum oriel_status status = ORIEL_OK;

	mine.rate = calloc(mine.rows, slab_row_bytes(&mine));
	if (!mine.rate || (oriel_comm_rank(comm) == 0 && !together))
		status = ORIEL_ERR_NOMEM;
	status = oriel_comm_agree(comm, status);
	if (status == ORIEL_OK)
		status = oriel_window_create(comm, &attr, &window);
	if (status == ORIEL_OK)
		status = compute(window, &mine, together, seconds);

	/* Collective, so no slab is freed before rank 0 has read it. */
	oriel_window_destroy(window);
	free(mine.rate);
	return status;
}

static bool heat(const struct plate *p)
{
	struct oriel_comm *comm = NULL;
	double *together = NULL, seconds = 0;
	enum oriel_status status;
	unsigned rank = 0, ranks = 1;
	bool is_good;

	status = oriel_comm_create(NULL, NULL, &comm);
	if (status == ORIEL_OK) {
		rank = oriel_comm_rank(comm);
		ranks = oriel_comm_size(comm);
	}
	if (ranks > p->height) {
		fprintf(stderr, "heat: %u rows are too few for %u ranks\n", p->height, ranks);
		oriel_comm_destroy(comm);
		return false;
	}
	if (status == ORIEL_OK && rank == 0)
		together = calloc((size_t)p->width * p->height, sizeof(double));
	if (status == ORIEL_OK)
		status = run(comm, p, together, &seconds);
	if (status != ORIEL_OK)
		fprintf(stderr, "heat: rank %u: %s: %s\n", rank, oriel_status_name(status),
			oriel_last_error());
	oriel_comm_destroy(comm);

	is_good = status == ORIEL_OK && (rank > 0 || judge(p, ranks, together, seconds));
	free(together);
	return is_good;
}

static bool parse_size(const char *text, struct plate *p)
{
	char rest;

	return sscanf(text, "%5ux%5u%c", &p->width, &p->height, &rest) == 2 && p->width >= 3 &&
	       p->height >= 3;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"size", required_argument, NULL, 's'},
						{"steps", required_argument, NULL, 'n'},
						{"output", required_argument, NULL, 'o'},
						{NULL, 0, NULL, 0}};
	struct plate p = {.width = 1024, .height = 768, .steps = 2000, .output = "heat.png"};
	bool is_good = true;
	int option;

	while (is_good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's')
			is_good = parse_size(optarg, &p);
		else if (option == 'n')
			is_good = sscanf(optarg, "%7u", &p.steps) == 1 && p.steps > 0;
		else if (option == 'o')
			p.output = optarg;
		else
			is_good = false;
	}
	if (!is_good || optind < argc) {
		fprintf(stderr, "usage: heat [--size WxH] [--steps N] [--output FILE]\n");
		return 2;
	}
	return heat(&p) ? 0 : 1;
}
