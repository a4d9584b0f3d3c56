/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat on a line of cells, of which each rank has CELLS. The three programs of docs/tutorial.md
 * include it.
 */
#ifndef LINE_H
#define LINE_H

#include <stdio.h>
#include <stdlib.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

/* [layout] */
#define CELLS 6u          /* of each rank */
#define ROOM (CELLS + 2u) /* and a halo cell at each end */
#define STEPS 100u

enum { ARRIVED }; /* the one signal */

/* Offset of cell @i in a window. Two fields take turns: one is read, the other written. */
ORIEL_DEV uint64_t line_at(unsigned step, unsigned i)
{
	return ((step % 2) * ROOM + i) * sizeof(double);
}

/* Cell @i after a step; multiples of 1/4 are exact, so every machine gets the same bits. */
ORIEL_DEV double line_next(const double *now, unsigned i)
{
	return 0.25 * now[i - 1] + 0.5 * now[i] + 0.25 * now[i + 1];
}
/* [/layout] */

/* [step] */
/* Whole group: step @s of this rank. */
ORIEL_DEV enum oriel_status line_step(const struct oriel_dev_window *w, struct oriel_dev_group g,
				      unsigned s)
{
	const double *now = (const double *)oriel_dev_address(w, w->rank, line_at(s, 0));
	double *next = (double *)oriel_dev_address(w, w->rank, line_at(s + 1, 0));
	bool has_left = w->rank > 0, has_right = w->rank + 1 < w->ranks;
	enum oriel_status status = ORIEL_OK;

	for (unsigned i = 1 + g.rank; i <= CELLS; i += g.size)
		next[i] = line_next(now, i);
	oriel_dev_sync(g); /* a thread may put a cell that another one has computed */
	if (has_left)
		status = oriel_dev_put_signal(w, g, w->rank - 1, line_at(s + 1, CELLS + 1),
					      next + 1, sizeof(*next), ARRIVED, 1, NULL);
	if (has_right && status == ORIEL_OK)
		status = oriel_dev_put_signal(w, g, w->rank + 1, line_at(s + 1, 0), next + CELLS,
					      sizeof(*next), ARRIVED, 1, NULL);
	if (has_left && status == ORIEL_OK)
		status = oriel_dev_wait_signal_next(w, g, w->rank - 1, ARRIVED, 1,
						    ORIEL_TIMEOUT_DEFAULT);
	if (has_right && status == ORIEL_OK)
		status = oriel_dev_wait_signal_next(w, g, w->rank + 1, ARRIVED, 1,
						    ORIEL_TIMEOUT_DEFAULT);
	return status == ORIEL_OK ? oriel_dev_drain(w, g, ORIEL_TIMEOUT_DEFAULT) : status;
}
/* [/step] */

/* Ends the program where a call fails. */
static inline void must(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "%s\n", oriel_last_error());
	exit(1);
}

/* The whole line by one thread; ends the program if @cells, of @rank, are others. */
static inline void line_verify(const double *cells, unsigned rank, unsigned ranks)
{
	size_t count = (size_t)ranks * CELLS + 2;
	double *line = (double *)calloc(2 * count, sizeof(*line));

	if (!line)
		exit(1);
	for (unsigned r = 0; r < ranks; r++)
		line[r * CELLS + CELLS / 2] = r + 1;
	for (unsigned s = 0; s < STEPS; s++)
		for (size_t i = 1; i <= ranks * CELLS; i++)
			line[(s + 1) % 2 * count + i] =
				line_next(line + s % 2 * count, (unsigned)i);
	for (unsigned i = 1; i <= CELLS; i++)
		if (cells[i] != line[STEPS % 2 * count + rank * CELLS + i]) {
			fprintf(stderr, "rank %u: cell %u is wrong\n", rank, i);
			exit(1);
		}
	free(line);
	printf("rank %u of %u: %u steps, every cell right\n", rank, ranks, STEPS);
}

#endif
