/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A halo exchange by host operations; see docs/tutorial.md.
 * usage: oriel run -n 4 halo_host
 */
#include "line.h"

/* [step] */
static void step(struct oriel_window *w, char *memory, unsigned rank, unsigned ranks, unsigned s)
{
	const double *now = (const double *)(memory + line_at(s, 0));
	double *next = (double *)(memory + line_at(s + 1, 0));

	for (unsigned i = 1; i <= CELLS; i++)
		next[i] = line_next(now, i);
	if (rank > 0)
		must(oriel_window_put_signal(w, rank - 1, line_at(s + 1, CELLS + 1), next + 1,
					     sizeof(*next), ARRIVED, 1));
	if (rank + 1 < ranks)
		must(oriel_window_put_signal(w, rank + 1, line_at(s + 1, 0), next + CELLS,
					     sizeof(*next), ARRIVED, 1));
	if (rank > 0)
		must(oriel_window_wait_signal_next(w, rank - 1, ARRIVED, 1, ORIEL_TIMEOUT_DEFAULT));
	if (rank + 1 < ranks)
		must(oriel_window_wait_signal_next(w, rank + 1, ARRIVED, 1, ORIEL_TIMEOUT_DEFAULT));
	/* next[1] and next[CELLS] may change again after this */
	must(oriel_window_drain(w, ORIEL_TIMEOUT_DEFAULT));
}
/* [/step] */

/* [main] */
int main(void)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 2 * ROOM * sizeof(double)};
	struct oriel_window *window;
	struct oriel_comm *comm;
	void *memory;

	must(oriel_comm_create(NULL, NULL, &comm));
	must(oriel_window_create(comm, &attr, &window));
	must(oriel_window_buffer(window, 0, &memory, NULL));
	unsigned rank = oriel_comm_rank(comm), ranks = oriel_comm_size(comm);

	((double *)memory)[CELLS / 2] = rank + 1; /* all other cells are 0 already */
	for (unsigned s = 0; s < STEPS; s++)
		step(window, memory, rank, ranks, s);
	line_verify((double *)((char *)memory + line_at(STEPS, 0)), rank, ranks);

	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	return 0;
}
/* [/main] */
