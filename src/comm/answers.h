/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernels of a communicator what they wait for (oriel/dev/detail/answer.h), by the file of
 * its control segment, which the GPU writes while the process itself may be stopped. src/hang asks
 * other processes, wait_report.c this one. Several may ask at once.
 */
#ifndef ORI_COMM_ANSWERS_H
#define ORI_COMM_ANSWERS_H

#include <stdbool.h>

#include "base/wait_page.h"

#define ORI_ANSWERS 256u

/*
 * Reads, 1 ms apart, in which all kernels that wait for something have answered: a thread does so
 * every 1024 polls, about 1 ms, and kernels of several processes take turns on a GPU.
 */
#define ORI_ANSWERS_READS 100u

struct ori_answers {
	struct ori_wait_comm comm;
	int fd;
	uint64_t moment;
	unsigned count;
	struct ori_wait_note notes[ORI_ANSWERS]; /* each wait once, for as long as it has lasted */
};

/*
 * Asks the kernels of @comm by @fd, its file, -1 if it could not be opened, which it takes over. A
 * wait counts if it had begun at @moment. False: no kernel of it could answer there.
 */
bool ori_answers_ask(struct ori_answers *answers, const struct ori_wait_comm *comm, int fd,
		     uint64_t moment);
/* Takes what has been answered since. */
void ori_answers_read(struct ori_answers *answers);
/* Kernels need not answer any more. */
void ori_answers_end(struct ori_answers *answers);

/* Those of several communicators. */
struct ori_answers_list {
	struct ori_answers *of;
	unsigned count;
};

/* ori_answers_ask(), of one more; kernels that cannot answer, or for lack of memory, are not asked.
 */
void ori_answers_list_ask(struct ori_answers_list *list, const struct ori_wait_comm *comm, int fd,
			  uint64_t moment);
void ori_answers_list_read(const struct ori_answers_list *list);
/* Those that are there stay until the list is freed. */
void ori_answers_list_end(const struct ori_answers_list *list);
void ori_answers_list_free(struct ori_answers_list *list);

#endif
