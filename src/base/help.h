/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of the library that threads of the program do while they wait for something else: see
 * oriel_cpu_help(). Modules with such work add a helper; cpu.c calls ori_help().
 */
#ifndef ORI_BASE_HELP_H
#define ORI_BASE_HELP_H

/* The owner does not move or free it until ori_help_remove() returns. */
struct ori_helper {
	/*
	 * Do the work that is possible now, without waiting for any other thread. One thread at
	 * a time calls it, under the lock that add() and remove() take.
	 */
	void (*help)(struct ori_helper *helper);
	/* Called in the child of a fork, where the helper is not in the list; may be NULL. */
	void (*forked)(struct ori_helper *helper);
	struct ori_helper *next;
};

void ori_help_add(struct ori_helper *helper);
/* On return no thread runs its help() any more. */
void ori_help_remove(struct ori_helper *helper);

/* Call all helpers in the list, unless another thread does so at this moment. */
void ori_help(void);

#endif
