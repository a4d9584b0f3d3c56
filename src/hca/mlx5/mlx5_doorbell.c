/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells of posters that do not reach the registers: a thread polls a word
 * of each queue and copies each new value to the register. Words hold absolute
 * indices, so an overwritten value that the thread did not see is not missed.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oriel/dev/detail/order.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/yield.h"
#include "hca/mlx5/mlx5_device.h"

#define DOORBELL_WORDS (MLX5_PAGE / 8)
#define DOORBELL_SPIN_NS 50000u /* without news before the thread sleeps: no poster can wake it */
#define DOORBELL_NAP_NS 20000

static bool doorbells_look(struct mlx5_doorbells *b)
{
	bool has_news = false;

	for (unsigned i = 0; i < b->count; i++) {
		struct mlx5_doorbell *doorbell = &b->of[i];
		/* Acquires the WQEs and the record from the poster that rang. */
		uint64_t value = oriel_dev_load_acquire(doorbell->word);

		if (value == doorbell->rung)
			continue;
		ori_dev_record_before_doorbell();
		ori_dev_doorbell(doorbell->reg, value);
		doorbell->rung = value;
		has_news = true;
	}
	/* The register may combine stores; the fence drains them. */
	if (has_news)
		ori_dev_fence_full();
	return has_news;
}

static void *doorbells_main(void *context)
{
	static const struct timespec pause = {.tv_nsec = DOORBELL_NAP_NS};
	struct mlx5_doorbells *b = context;
	uint64_t idle_since = ori_clock_ns();
	bool is_stopping, has_news;

	do {
		pthread_mutex_lock(&b->lock);
		has_news = doorbells_look(b);
		is_stopping = b->is_stopping;
		pthread_mutex_unlock(&b->lock);
		if (has_news)
			idle_since = ori_clock_ns();
		if (ori_clock_ns() - idle_since > DOORBELL_SPIN_NS)
			nanosleep(&pause, NULL);
		else
			ori_yield();
	} while (!is_stopping);
	return NULL;
}

static enum oriel_status doorbells_alloc(struct mlx5_device *d)
{
	struct mlx5_doorbells *b = &d->bells;
	enum oriel_status status;

	if (!d->gpu) {
		b->words = aligned_alloc(MLX5_PAGE, MLX5_PAGE);
	} else {
		status = ori_mem_alloc_pinned(d->gpu, MLX5_PAGE, &b->mem);
		if (status != ORIEL_OK)
			return status;
		b->words = (uint64_t *)(void *)b->mem->address;
	}
	if (!b->words)
		return ori_fail_nomem(MLX5_PAGE, "doorbells of %s", d->verbs.name);
	memset(b->words, 0, MLX5_PAGE);
	return ORIEL_OK;
}

static enum oriel_status doorbells_start(struct mlx5_device *d)
{
	struct mlx5_doorbells *b = &d->bells;
	enum oriel_status status = b->words ? ORIEL_OK : doorbells_alloc(d);

	if (status != ORIEL_OK)
		return status;
	if (ori_thread_start(&b->thread, doorbells_main, b) != 0)
		return ori_fail(ORIEL_ERR_NOMEM, "%s: cannot start the thread of its doorbells",
				d->verbs.name);
	b->is_running = true;
	return ORIEL_OK;
}

enum oriel_status ori_mlx5_doorbell_open(struct mlx5_device *d, uint64_t *reg,
					 struct mlx5_doorbell *doorbell)
{
	struct mlx5_doorbells *b = &d->bells;
	enum oriel_status status = ORIEL_OK;
	unsigned char *free_word;

	pthread_mutex_lock(&b->lock);
	if (!b->is_running)
		status = doorbells_start(d);
	free_word = memchr(b->taken, 0, DOORBELL_WORDS);
	if (status == ORIEL_OK && !free_word)
		status = ori_fail(ORIEL_ERR_NOMEM, "%s: a thread carries at most %u doorbells",
				  d->verbs.name, (unsigned)DOORBELL_WORDS);
	if (status == ORIEL_OK) {
		*free_word = 1;
		*doorbell =
			(struct mlx5_doorbell){.word = &b->words[free_word - b->taken], .reg = reg};
		*doorbell->word = 0;
		b->of[b->count++] = *doorbell;
	}
	pthread_mutex_unlock(&b->lock);
	return status;
}

void ori_mlx5_doorbell_close(struct mlx5_device *d, struct mlx5_doorbell *doorbell)
{
	struct mlx5_doorbells *b = &d->bells;
	unsigned i = 0;

	if (!doorbell->word)
		return;
	pthread_mutex_lock(&b->lock);
	while (b->of[i].word != doorbell->word)
		i++;
	b->of[i] = b->of[--b->count];
	b->taken[doorbell->word - b->words] = 0;
	pthread_mutex_unlock(&b->lock);
	doorbell->word = NULL;
}

void ori_mlx5_doorbells_stop(struct mlx5_device *d)
{
	struct mlx5_doorbells *b = &d->bells;

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
