/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline of both variants of fsdp_gather: a table, and two lines of text. */
#ifndef FSDP_TIMELINE_H
#define FSDP_TIMELINE_H

#include <stdio.h>

#define TIMELINE_COLUMNS 72u

struct span {
	double begin, end; /* in us */
};

struct layer {
	struct span gather, compute;
};

static inline double span_overlap(const struct span *a, const struct span *b)
{
	double begin = a->begin > b->begin ? a->begin : b->begin;
	double end = a->end < b->end ? a->end : b->end;

	return end > begin ? end - begin : 0;
}

/* A column shows the last digit of the layer that takes most of its time. */
static inline char timeline_cell(const struct layer *layers, unsigned count, int is_compute,
				 const struct span *column)
{
	double most = 0, part;
	char cell = '.';
	unsigned i;

	for (i = 0; i < count; i++) {
		part = span_overlap(is_compute ? &layers[i].compute : &layers[i].gather, column);
		if (part > most) {
			most = part;
			cell = (char)('0' + i % 10);
		}
	}
	return cell;
}

static inline void timeline_draw(const struct layer *layers, unsigned count, int is_compute,
				 double end)
{
	char line[TIMELINE_COLUMNS + 1];
	struct span column;
	unsigned i;

	for (i = 0; i < TIMELINE_COLUMNS; i++) {
		column.begin = end * i / TIMELINE_COLUMNS;
		column.end = end * (i + 1) / TIMELINE_COLUMNS;
		line[i] = timeline_cell(layers, count, is_compute, &column);
	}
	line[TIMELINE_COLUMNS] = '\0';
	printf("%-8s |%s|\n", is_compute ? "computed" : "gathered", line);
}

static inline void timeline_print(const struct layer *layers, unsigned count)
{
	double gathering = 0, hidden = 0, end = 0;
	unsigned i, k;

	printf("%5s %22s %22s\n", "layer", "gathered, us", "computed, us");
	for (i = 0; i < count; i++) {
		printf("%5u %10.0f - %9.0f %10.0f - %9.0f\n", i, layers[i].gather.begin,
		       layers[i].gather.end, layers[i].compute.begin, layers[i].compute.end);
		gathering += layers[i].gather.end - layers[i].gather.begin;
		end = layers[i].compute.end > end ? layers[i].compute.end : end;
		for (k = 0; k < count; k++)
			hidden += span_overlap(&layers[i].gather, &layers[k].compute);
	}
	timeline_draw(layers, count, 0, end);
	timeline_draw(layers, count, 1, end);
	printf("%.0f us of gathering, %.0f %% of it while a layer was computed\n", gathering,
	       gathering > 0 ? 100 * hidden / gathering : 0);
}

#endif
