/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of the library that threads of the program do while they wait for something
 * else: see oriel_cpu_help().
 */
#ifndef ORI_BASE_HELP_H
#define ORI_BASE_HELP_H

/* Stays where it is until it is removed. */
struct ori_helper {
	/*
	 * Do what can be done now, without waiting for anybody. One thread at a time,
	 * with a lock that add() and remove() take.
	 */
	void (*help)(struct ori_helper *helper);
	/* In the child of a fork, where there is nothing to do; NULL: nothing. See base/fork.h. */
	void (*forked)(struct ori_helper *helper);
	struct ori_helper *next;
};

void ori_help_add(struct ori_helper *helper);
/* On return nobody is in its help() any more. */
void ori_help_remove(struct ori_helper *helper);

/* Call all that have been added, unless somebody does so already. */
void ori_help(void);

#endif
