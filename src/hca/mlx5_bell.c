/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells of posters that do not reach the registers: a thread polls a word
 * of each queue and copies each new value to the register. Words hold absolute
 * indices, so an overwritten value that the thread did not see is not missed.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oriel/dev/order.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "hca/mlx5_device.h"

#define BELL_WORDS (MLX5_PAGE / 8)
#define BELL_SPIN_NS 50000u /* without news before the thread sleeps: no poster can wake it */
#define BELL_NAP_NS 20000

static bool bells_look(struct mlx5_bells *b)
{
	bool has_news = false;

	for (unsigned i = 0; i < b->count; i++) {
		struct mlx5_bell *bell = &b->of[i];
		/*
		 * Acquires the WQEs and the record from the poster that rang.
		 */
		uint64_t value = oriel_dev_load_acquire(bell->word);

		if (value == bell->told)
			continue;
		oriel_dev_record_before_doorbell();
		oriel_dev_doorbell(bell->reg, value);
		bell->told = value;
		has_news = true;
	}
	/* The register may combine stores; the fence drains them. */
	if (has_news)
		oriel_dev_fence_full();
	return has_news;
}

static void *bells_main(void *context)
{
	static const struct timespec nap = {.tv_nsec = BELL_NAP_NS};
	struct mlx5_bells *b = context;
	uint64_t idle_since = ori_clock_ns();
	bool is_stopping, has_news;

	do {
		pthread_mutex_lock(&b->lock);
		has_news = bells_look(b);
		is_stopping = b->is_stopping;
		pthread_mutex_unlock(&b->lock);
		if (has_news)
			idle_since = ori_clock_ns();
		if (ori_clock_ns() - idle_since > BELL_SPIN_NS)
			nanosleep(&nap, NULL);
		else
			sched_yield();
	} while (!is_stopping);
	return NULL;
}

static enum oriel_status bells_alloc(struct mlx5_device *d)
{
	struct mlx5_bells *b = &d->bells;
	enum oriel_status st;

	if (!d->gpu) {
		b->words = aligned_alloc(MLX5_PAGE, MLX5_PAGE);
	} else {
		st = ori_mem_alloc_pinned(d->gpu, MLX5_PAGE, &b->mem);
		if (st != ORIEL_OK)
			return st;
		b->words = (uint64_t *)(void *)b->mem->address;
	}
	if (!b->words)
		return ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for doorbells", d->verbs.name);
	memset(b->words, 0, MLX5_PAGE);
	return ORIEL_OK;
}

static enum oriel_status bells_start(struct mlx5_device *d)
{
	struct mlx5_bells *b = &d->bells;
	enum oriel_status st = b->words ? ORIEL_OK : bells_alloc(d);

	if (st != ORIEL_OK)
		return st;
	if (ori_thread_start(&b->thread, bells_main, b) != 0)
		return ori_fail(ORIEL_ERR_NOMEM, "%s: cannot start the thread of its doorbells",
				d->verbs.name);
	b->is_running = true;
	return ORIEL_OK;
}

enum oriel_status ori_mlx5_bell_open(struct mlx5_device *d, uint64_t *reg, struct mlx5_bell *bell)
{
	struct mlx5_bells *b = &d->bells;
	enum oriel_status st = ORIEL_OK;
	unsigned char *free_word;

	pthread_mutex_lock(&b->lock);
	if (!b->is_running)
		st = bells_start(d);
	free_word = memchr(b->taken, 0, BELL_WORDS);
	if (st == ORIEL_OK && !free_word)
		st = ori_fail(ORIEL_ERR_NOMEM, "%s: %u doorbells at most are carried by a thread",
			      d->verbs.name, (unsigned)BELL_WORDS);
	if (st == ORIEL_OK) {
		*free_word = 1;
		*bell = (struct mlx5_bell){.word = &b->words[free_word - b->taken], .reg = reg};
		*bell->word = 0;
		b->of[b->count++] = *bell;
	}
	pthread_mutex_unlock(&b->lock);
	return st;
}

void ori_mlx5_bell_close(struct mlx5_device *d, struct mlx5_bell *bell)
{
	struct mlx5_bells *b = &d->bells;
	unsigned i = 0;

	if (!bell->word)
		return;
	pthread_mutex_lock(&b->lock);
	while (b->of[i].word != bell->word)
		i++;
	b->of[i] = b->of[--b->count];
	b->taken[bell->word - b->words] = 0;
	pthread_mutex_unlock(&b->lock);
	bell->word = NULL;
}

void ori_mlx5_bells_stop(struct mlx5_device *d)
{
	struct mlx5_bells *b = &d->bells;

	if (b->is_running) {
		pthread_mutex_lock(&b->lock);
		b->is_stopping = true;
		pthread_mutex_unlock(&b->lock);
		pthread_join(b->thread, NULL);
	}
	if (b->mem)
		ori_mem_unref_pinned(d->gpu, b->mem);
	else
		free(b->words);
	b->mem = NULL;
	b->words = NULL;
	b->is_running = b->is_stopping = false;
}
