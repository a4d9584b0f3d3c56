/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random data of the demo, and the comparison of sent with received data: checksums per pair of
 * ranks, and the first difference in full. All cases use it.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

static uint64_t results_mix(uint64_t value)
{
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

/* The hash depends on order and length: each word mixes with all bits before it. */
static uint64_t results_hash(uint64_t hash, const void *data, size_t length)
{
	const char *from = data;
	uint64_t word;
	size_t i, part;

	for (i = 0; i < length; i += part) {
		part = length - i < sizeof(word) ? length - i : sizeof(word);
		word = 0;
		memcpy(&word, from + i, part);
		hash = results_mix(hash + part + 0x9e3779b97f4a7c15u) ^ results_mix(word + i);
	}
	return hash;
}

struct demo_random demo_random_of(const struct demo_results *r, unsigned source, unsigned target)
{
	uint64_t position[] = {r->round, source, target};
	uint64_t hash = results_hash(r->d->seed, r->name, strlen(r->name));

	return (struct demo_random){results_hash(hash, position, sizeof(position))};
}

uint64_t demo_random_next(struct demo_random *random)
{
	random->state += 0x9e3779b97f4a7c15u;
	return results_mix(random->state);
}

struct demo_range demo_image(const struct demo_results *r, unsigned source, unsigned target,
			     unsigned unit, char *image)
{
	struct demo_random random = demo_random_of(r, source, target);
	uint64_t kind = demo_random_next(&random) % 8;
	uint64_t a = demo_random_next(&random) % (DEMO_BLOCK + 1);
	uint64_t b = demo_random_next(&random) % (DEMO_BLOCK + 1);
	uint64_t from = a < b ? a : b, to = a < b ? b : a, value, i;

	/* An empty transfer and a whole block are cases of their own. */
	if (kind == 0)
		to = from;
	if (kind == 1)
		from = 0, to = DEMO_BLOCK;
	from -= from % unit;
	to -= to % unit;
	if (image)
		memset(image, DEMO_FILL, DEMO_BLOCK);
	for (i = from; i < to && image; i += sizeof(value)) {
		value = demo_random_next(&random);
		memcpy(image + i, &value, to - i < sizeof(value) ? to - i : sizeof(value));
	}
	return (struct demo_range){(uint32_t)from, (uint32_t)(to - from)};
}

void demo_results_open(struct demo_results *r, const struct demo *d, const char *name)
{
	memset(r, 0, sizeof(*r));
	r->d = d;
	r->name = name;
}

void demo_results_sent(struct demo_results *r, unsigned target, const void *data, size_t length)
{
	r->record.sent[target] = results_hash(r->record.sent[target], data, length);
}

/* Report one failure per case and rank: later ones mostly have the same cause. */
static bool results_is_first_failure(struct demo_results *r, unsigned peer)
{
	if (r->record.failures++)
		return false;
	fprintf(stderr, "oriel demo: %s, round %u, from rank %u, on rank %u: ", r->name, r->round,
		peer, r->d->w.rank);
	return true;
}

void demo_results_received(struct demo_results *r, unsigned source, const void *expected,
			   const void *got, size_t length)
{
	const unsigned char *a = expected, *b = got;
	size_t i = 0;

	r->record.received[source] = results_hash(r->record.received[source], got, length);
	if (memcmp(a, b, length) == 0)
		return;
	while (a[i] == b[i])
		i++;
	if (results_is_first_failure(r, source))
		fprintf(stderr, "byte %zu of %zu: expected 0x%02x, got 0x%02x\n", i, length, a[i],
			b[i]);
}

void demo_results_received_word(struct demo_results *r, unsigned source, uint64_t expected,
				uint64_t got, unsigned transfers)
{
	r->record.received[source] = results_hash(r->record.received[source], &got, sizeof(got));
	r->record.transfers += transfers;
	r->record.bytes += transfers * sizeof(got);
	demo_results_compare(r, source, expected, got);
}

void demo_results_compare(struct demo_results *r, unsigned peer, uint64_t expected, uint64_t got)
{
	if (got != expected && results_is_first_failure(r, peer))
		fprintf(stderr, "expected %#llx, got %#llx\n", (unsigned long long)expected,
			(unsigned long long)got);
}

/*
 * For every ordered pair, the data sent must equal the data received. All ranks compute the same
 * result.
 */
static uint64_t results_compare(const struct demo_results *r, const struct demo_record *all,
				struct demo_record *sum)
{
	unsigned source, target, ranks = r->d->w.ranks;

	memset(sum, 0, sizeof(*sum));
	for (source = 0; source < ranks; source++) {
		sum->failures += all[source].failures;
		sum->transfers += all[source].transfers;
		sum->bytes += all[source].bytes;
		for (target = 0; target < ranks; target++) {
			if (all[source].sent[target] == all[target].received[source])
				continue;
			sum->failures++;
			if (r->d->w.rank == 0)
				fprintf(stderr,
					"oriel demo: %s: %u -> %u: checksum %016llx sent, "
					"%016llx received\n",
					r->name, source, target,
					(unsigned long long)all[source].sent[target],
					(unsigned long long)all[target].received[source]);
		}
	}
	return sum->failures;
}

static const char *results_bytes(uint64_t bytes, char *text, size_t length)
{
	if (bytes < 10240)
		snprintf(text, length, "%llu B", (unsigned long long)bytes);
	else if (bytes < 1024 * 1024)
		snprintf(text, length, "%.1f KiB", (double)bytes / 1024);
	else
		snprintf(text, length, "%.1f MiB", (double)bytes / 1024 / 1024);
	return text;
}

void demo_abort(const struct demo_results *r, enum oriel_status status)
{
	struct oriel_health health = {.size = sizeof(health)};
	struct oriel_dev_fault fault;
	char text[512];

	fprintf(stderr, "oriel demo: %s, round %u, rank %u: %s\n", r->name, r->round, r->d->w.rank,
		oriel_status_text(status));
	if (oriel_window_fault(r->d->window, &fault) == ORIEL_OK)
		fprintf(stderr, "oriel demo: invalid argument: %s\n", oriel_last_error());
	if (oriel_comm_health(r->d->comm, &health) == ORIEL_OK && health.status != ORIEL_OK) {
		oriel_health_text(&health, text, sizeof(text));
		fprintf(stderr, "oriel demo: %s\n", text);
	}
	oriel_comm_abort(r->d->comm, "an operation of the demo failed");
}

enum oriel_status demo_results_close(struct demo_results *r, enum oriel_status status)
{
	unsigned ranks = r->d->w.ranks;
	struct demo_record sum, *all;
	char bytes[32];

	if (status != ORIEL_OK) {
		demo_abort(r, status);
		return status;
	}
	all = calloc(ranks, sizeof(*all));
	status = oriel_comm_agree(r->d->comm, all ? ORIEL_OK : ORIEL_ERR_NOMEM);
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(r->d->comm, &r->record, all, sizeof(r->record));
	assert(all || status != ORIEL_OK);
	if (status == ORIEL_OK && results_compare(r, all, &sum))
		status = ORIEL_ERR_PROTOCOL;
	if (status == ORIEL_OK && r->d->w.rank == 0)
		printf("  %-26s %4u pairs %6llu transfers %10s   checksums equal\n", r->name,
		       ranks * (ranks - 1), (unsigned long long)sum.transfers,
		       results_bytes(sum.bytes, bytes, sizeof(bytes)));
	fflush(stdout);
	free(all);
	return status;
}
