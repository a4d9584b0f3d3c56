/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series of executions by threads of the host: its window, which has the result between guards
 * and the staging behind, and no signal more than the series needs. series_case.c and
 * series_reduce_case.c include it.
 */
#ifndef CONFORMANCE_SERIES_H
#define CONFORMANCE_SERIES_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 0x5a
#define BEGIN 192u   /* offset of the result */
#define BEHIND 256u  /* guarded bytes behind the result */
#define FIRST_ID 3u  /* of the signals */
#define PARTS_MAX 3u /* an execution has 1 up to this many */

struct series {
	struct oriel_window *window;
	struct oriel_dev_gather gather;
	char *result;
	char *send; /* one byte longer than the result, so that a message may be at odd addresses */
	size_t length; /* of the result */
	uint32_t parts;
	uint64_t round;
};

static inline void series_open(struct rank *r, struct series *s, size_t length, uint32_t parts,
			       uint64_t staging)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .signals = FIRST_ID + 2 * parts};
	void *base = NULL;

	memset(s, 0, sizeof(*s));
	s->length = length;
	s->parts = parts;
	s->gather.to = oriel_at(0, BEGIN);
	s->gather.staging = (BEGIN + length + BEHIND + 127) & ~(uint64_t)127;
	s->gather.id = FIRST_ID;
	attr.length = s->gather.staging + staging;
	s->send = malloc(length + 1);
	if (!s->send || !CHECK_OK(r, oriel_window_create(r->comm, &attr, &s->window)) ||
	    !CHECK_OK(r, oriel_window_buffer(s->window, 0, &base, NULL)))
		give_up(r, "cannot open a series");
	memset(base, GUARD, BEGIN + length + BEHIND);
	s->gather.result = s->result = (char *)base + BEGIN;
}

static inline void series_close(struct rank *r, struct series *s)
{
	CHECK_EQ(r, not_all(s->result - BEGIN, BEGIN, GUARD), 0);
	CHECK_EQ(r, not_all(s->result + s->length, BEHIND, GUARD), 0);
	free(s->send);
	CHECK_OK(r, oriel_window_destroy(s->window));
}

/*
 * In each execution one rank looks at its result late, while its peers have started the next one:
 * no peer may have written to it.
 */
static inline void series_linger(const struct rank *r, const struct series *s)
{
	if (s->round % r->size == r->rank && s->round % 3 == 0)
		oriel_cpu_back_off(300000);
}

#endif
