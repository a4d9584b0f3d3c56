/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows and buffers that are created and destroyed between epochs, and the check of their
 * bytes.
 */
#include "soak.h"

#include <stdlib.h>

#define WINDOW_SKEW 64u /* a buffer need not begin at the beginning of an allocation */

static void *window_calloc(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size);

	if (!memory)
		abort();
	return memory;
}

static uint32_t window_draw_length(struct soak_random *random)
{
	static const uint32_t most[] = {64, 1024, 5000, 20000, 70000, 262145};

	if (soak_chance(random, 8))
		return 0;
	return (uint32_t)soak_below(random, most[soak_below(random, 6)]);
}

static void window_add_model(struct soak_world *world, struct soak_window *w)
{
	unsigned r;

	for (r = 0; r < world->plan->ranks; r++) {
		struct soak_buffer *b = window_calloc(1, sizeof(*b));

		b->length = window_draw_length(&world->random);
		b->bytes = window_calloc(b->length, 1);
		w->buffer[w->buffers][r] = b;
	}
	w->buffers++;
}

static void window_draw(struct soak_world *world, struct soak_window *w)
{
	static const uint32_t signals[] = {1, 3, 8, 64}, channels[] = {1, 2, 5};
	struct soak_random *random = &world->random;
	size_t pairs = SOAK_RANKS * SOAK_RANKS;

	memset(w, 0, sizeof(*w));
	w->is_live = true;
	w->number = ++world->windows_made;
	w->attr.size = sizeof(w->attr);
	w->attr.signals = signals[soak_below(random, 4)];
	w->attr.barriers = soak_chance(random, 2) ? 4 : 16;
	w->attr.counters = soak_chance(random, 2) ? 2 : 16;
	w->attr.channels = channels[soak_below(random, 3)];
	w->attr.channel_bytes = 4096u << soak_below(random, 3);
	w->attr.buffers = SOAK_BUFFERS;
	w->has_own_memory = soak_chance(random, 3);
	window_add_model(world, w);
	w->signals = window_calloc(pairs * w->attr.signals, sizeof(*w->signals));
	w->counters = window_calloc(pairs * w->attr.counters, sizeof(*w->counters));
	w->streams = window_calloc(pairs * w->attr.channels, sizeof(*w->streams));
}

/* Allocate memory of this rank for buffer @b, which peers can map. */
static enum oriel_status window_give(struct soak_world *world, struct soak_window *w, unsigned b)
{
	uint32_t length = w->buffer[b][world->rank]->length;
	enum oriel_status status;

	if (!length)
		return ORIEL_OK;
	status = oriel_memory_alloc(length + WINDOW_SKEW, 0, &w->memory[b]);
	if (status == ORIEL_OK)
		w->base[b] = (char *)w->memory[b] + WINDOW_SKEW;
	return status;
}

static enum oriel_status window_create(struct soak_rank *r, struct soak_window *w)
{
	struct soak_world *world = &r->world;
	enum oriel_status status = ORIEL_OK;

	window_draw(world, w);
	w->attr.length = w->buffer[0][world->rank]->length;
	if (w->has_own_memory)
		status = window_give(world, w, 0);
	w->attr.buffer = w->base[0];
	if (status == ORIEL_OK)
		status = oriel_window_create(r->comm, &w->attr, &w->window);
	if (status == ORIEL_OK)
		status = oriel_window_device(w->window, &w->dev);
	if (status == ORIEL_OK)
		status = oriel_window_buffer(w->window, 0, (void **)&w->base[0], NULL);
	return status;
}

static enum oriel_status window_share(struct soak_rank *r, struct soak_window *w)
{
	struct soak_world *world = &r->world;
	unsigned b = w->buffers;
	enum oriel_status status;
	uint32_t number = 0;

	window_add_model(world, w);
	status = window_give(world, w, b);
	if (status == ORIEL_OK)
		status = oriel_window_share(w->window, w->base[b],
					    w->buffer[b][world->rank]->length, &number);
	if (status == ORIEL_OK && number != b)
		soak_wrong(world, -1, "buffer %u got number %u", b, number);
	return status;
}

static void window_close(struct soak_world *world, struct soak_window *w)
{
	unsigned b, r;

	oriel_window_destroy(w->window);
	for (b = 0; b < w->buffers; b++) {
		oriel_memory_free(w->memory[b]);
		for (r = 0; r < world->plan->ranks; r++) {
			free(w->buffer[b][r]->bytes);
			free(w->buffer[b][r]);
		}
	}
	free(w->signals);
	free(w->counters);
	free(w->streams);
	memset(w, 0, sizeof(*w));
}

static enum oriel_status window_reset(struct soak_window *w)
{
	size_t count = (size_t)SOAK_RANKS * SOAK_RANKS * w->attr.signals;

	memset(w->signals, 0, count * sizeof(*w->signals));
	return oriel_window_reset_signals(w->window);
}

static enum oriel_status window_change(struct soak_rank *r, struct soak_window *w, bool must_live)
{
	struct soak_random *random = &r->world.random;

	if (!w->is_live)
		return must_live || soak_chance(random, 3) ? window_create(r, w) : ORIEL_OK;
	if (!must_live && soak_chance(random, 4)) {
		window_close(&r->world, w);
		return ORIEL_OK;
	}
	if (soak_chance(random, 8))
		return window_reset(w);
	if (w->buffers < SOAK_BUFFERS && soak_chance(random, 2))
		return window_share(r, w);
	return ORIEL_OK;
}

enum oriel_status soak_windows_change(struct soak_rank *r)
{
	unsigned first = (unsigned)soak_below(&r->world.random, SOAK_WINDOWS), n;
	enum oriel_status status = ORIEL_OK;

	for (n = 0; n < SOAK_WINDOWS && status == ORIEL_OK; n++)
		status = window_change(r, &r->world.window[(first + n) % SOAK_WINDOWS], n == 0);
	/* No rank may signal again before all have reset their signals. */
	return status == ORIEL_OK ? oriel_comm_barrier(r->comm) : status;
}

void soak_windows_close(struct soak_rank *r)
{
	unsigned n;

	for (n = 0; n < SOAK_WINDOWS; n++)
		if (r->world.window[n].is_live)
			window_close(&r->world, &r->world.window[n]);
}

static void window_check_bytes(struct soak_rank *r, unsigned n)
{
	struct soak_window *w = &r->world.window[n];
	unsigned b;

	for (b = 0; b < w->buffers; b++) {
		const struct soak_buffer *should = w->buffer[b][r->world.rank];
		size_t i = 0;

		atomic_fetch_add(&r->bytes_checked, should->length);
		if (!should->length || memcmp(w->base[b], should->bytes, should->length) == 0)
			continue;
		while ((uint8_t)w->base[b][i] == should->bytes[i])
			i++;
		soak_wrong_bytes(&r->world, -1, b ? "a shared buffer of a window" : "a window", i,
				 w->base[b] + i, should->bytes + i, should->length - i);
	}
}

static void window_check_signals(struct soak_rank *r, unsigned n)
{
	const struct soak_world *world = &r->world;
	struct soak_window *w = &r->world.window[n];
	uint64_t value, sum, should;
	unsigned id, source;

	for (id = 0; id < w->attr.signals; id++) {
		sum = 0;
		for (source = 0; source < world->plan->ranks; source++) {
			should = soak_signal_of(world, n, world->rank, source, id)->value;
			sum += should;
			value = ~should;
			(void)oriel_dev_read_signal_from(&w->dev, source, id, &value);
			if (value != should)
				soak_wrong(
					world, -1,
					"window %u: signal %u of rank %u is %llu, should be %llu",
					n, id, source, (unsigned long long)value,
					(unsigned long long)should);
		}
		value = ~sum;
		(void)oriel_dev_read_signal(&w->dev, id, &value);
		if (value != sum)
			soak_wrong(world, -1, "window %u: signal %u sums up to %llu, not to %llu",
				   n, id, (unsigned long long)value, (unsigned long long)sum);
	}
}

static void window_check_counters(struct soak_rank *r, unsigned n)
{
	const struct soak_world *world = &r->world;
	struct soak_window *w = &r->world.window[n];
	uint64_t value, should;
	unsigned peer, c;

	for (peer = 0; peer < world->plan->ranks; peer++) {
		for (c = 0; c < w->attr.counters; c++) {
			should = soak_counter_of(world, n, world->rank, peer, c)->value;
			value = ~should;
			(void)oriel_dev_read_counter(&w->dev, peer, c, &value);
			if (value != should)
				soak_wrong(world, -1,
					   "window %u: counter %u for rank %u is %llu, not %llu", n,
					   c, peer, (unsigned long long)value,
					   (unsigned long long)should);
		}
	}
}

void soak_check_all(struct soak_rank *r)
{
	unsigned n;

	for (n = 0; n < SOAK_WINDOWS; n++) {
		if (!r->world.window[n].is_live)
			continue;
		window_check_bytes(r, n);
		window_check_signals(r, n);
		window_check_counters(r, n);
	}
}
