/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks kernels, and reads what they answer: see answers.h, which names the callers. The file may be
 * another user's: what it says is checked, and it is read by pread(), since one that becomes
 * shorter would kill a reader that maps it.
 */
#include "comm/answers.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <oriel/dev/detail/answer.h>

#include "base/clock.h"

static const struct oriel_dev_answers answers_none;

static void answers_set(const struct ori_answers *a, uint32_t asked)
{
	(void)!pwrite(a->fd, &asked, sizeof(asked), offsetof(struct oriel_dev_fault, asked));
}

bool ori_answers_ask(struct ori_answers *a, const struct ori_wait_comm *comm, int fd,
		     uint64_t moment)
{
	const size_t at = comm->answers_at;
	struct stat file;

	/* A write beyond the end would make the file longer; ori_dev_answer() needs the upper bit.
	 */
	if (at < sizeof(struct oriel_dev_fault) || at % sizeof(answers_none.of_ranks[0]) ||
	    at >> 31 || fstat(fd, &file) != 0 ||
	    (uint64_t)file.st_size < at + sizeof(answers_none)) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	a->comm = *comm;
	a->fd = fd;
	a->moment = moment;
	a->count = 0;
	/* Earlier answers go; one that comes from now on is of a thread that still waits. */
	(void)!pwrite(fd, &answers_none, sizeof(answers_none), (off_t)at);
	answers_set(a, comm->answers_at);
	return true;
}

static bool answers_is_valid(const struct oriel_dev_answer *answer)
{
	return answer->what && answer->check == ori_dev_answer_check(answer->window, answer->what,
								     answer->peer, answer->id);
}

static bool answers_is_same(const struct ori_wait_note *a, const struct ori_wait_note *b)
{
	return a->window == b->window && a->what == b->what && a->peer == b->peer && a->id == b->id;
}

/* The one that has waited longest speaks for all that wait for the same thing. */
static void answers_add(struct ori_answers *a, const struct ori_wait_note *note)
{
	unsigned i;

	for (i = 0; i < a->count && !answers_is_same(&a->notes[i], note); i++)
		;
	if (i == ORI_ANSWERS || (i < a->count && a->notes[i].begun <= note->begun))
		return;
	a->notes[i] = *note;
	a->count += i == a->count;
}

/* @answer is the word of ori_dev_answer_nic(). */
static void answers_add_nic(struct ori_answers *a, uint64_t answer, uint64_t now)
{
	const uint64_t age_ns = (answer & UINT32_MAX) << ORIEL_DEV_ANSWER_AGE_AT;
	const struct ori_wait_note note = {
		.comm = a->comm.key,
		.rank = a->comm.rank,
		.what = ORIEL_DEV_NIC,
		.peer = (uint32_t)(answer >> 32) - 1,
		.begun = now > age_ns ? now - age_ns : 0,
	};

	if (answer && note.peer < a->comm.size && note.begun <= a->moment)
		answers_add(a, &note);
}

void ori_answers_read(struct ori_answers *a)
{
	struct oriel_dev_answers found;
	uint64_t now = ori_clock_ns();
	unsigned i;

	/* Another reader, which had asked before, may have ended its own question. */
	answers_set(a, a->comm.answers_at);
	if (pread(a->fd, &found, sizeof(found), a->comm.answers_at) != (ssize_t)sizeof(found))
		return;
	for (i = 0; i < ORIEL_DEV_ANSWERS; i++) {
		const struct oriel_dev_answer *answer = &found.of_ranks[i];
		const struct ori_wait_note note = {
			.comm = a->comm.key,
			.rank = a->comm.rank,
			.what = answer->what & ((1u << ORIEL_DEV_ANSWER_COMPARE_AT) - 1),
			.peer = answer->peer,
			.window = answer->window,
			.id = answer->id,
			.compare = answer->what >> ORIEL_DEV_ANSWER_COMPARE_AT,
			.expected = answer->expected,
			.seen = answer->seen,
			.begun = now > answer->age_ns ? now - answer->age_ns : 0,
		};

		if (answers_is_valid(answer) && note.begun <= a->moment)
			answers_add(a, &note);
	}
	answers_add_nic(a, found.of_nics, now);
}

void ori_answers_end(struct ori_answers *a)
{
	answers_set(a, 0);
	close(a->fd);
}

void ori_answers_list_ask(struct ori_answers_list *list, const struct ori_wait_comm *comm, int fd,
			  uint64_t moment)
{
	struct ori_answers *more = realloc(list->of, (list->count + 1) * sizeof(*more));

	if (!more) {
		if (fd >= 0)
			close(fd);
		return;
	}
	list->of = more;
	list->count += ori_answers_ask(&more[list->count], comm, fd, moment);
}

void ori_answers_list_read(const struct ori_answers_list *list)
{
	unsigned i;

	for (i = 0; i < list->count; i++)
		ori_answers_read(&list->of[i]);
}

void ori_answers_list_end(const struct ori_answers_list *list)
{
	unsigned i;

	for (i = 0; i < list->count; i++)
		ori_answers_end(&list->of[i]);
}

void ori_answers_list_free(struct ori_answers_list *list)
{
	free(list->of);
}
