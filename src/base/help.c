/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of helpers. Threads of the program call them while they wait in a device function on
 * the CPU or in oriel_cpu_help(); the proxy of src/rdma is such a helper.
 */
#include "base/help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/fork.h"

static pthread_mutex_t help_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ori_helper *help_first; /* guarded by help_lock */
static atomic_uint help_count;

static void help_fork_child(void)
{
	struct ori_helper *helper;

	for (helper = help_first; helper; helper = helper->next)
		if (helper->forked)
			helper->forked(helper);
	help_first = NULL;
	atomic_store_explicit(&help_count, 0, memory_order_relaxed);
}

void ori_help_add(struct ori_helper *helper)
{
	static const struct ori_fork_hook hook = {.lock = &help_lock, .child = help_fork_child};

	ori_fork_add(ORI_FORK_HELP, &hook);
	pthread_mutex_lock(&help_lock);
	helper->next = help_first;
	help_first = helper;
	atomic_fetch_add_explicit(&help_count, 1, memory_order_relaxed);
	pthread_mutex_unlock(&help_lock);
}

void ori_help_remove(struct ori_helper *helper)
{
	struct ori_helper **link = &help_first;

	pthread_mutex_lock(&help_lock);
	while (*link != helper)
		link = &(*link)->next;
	*link = helper->next;
	atomic_fetch_sub_explicit(&help_count, 1, memory_order_relaxed);
	pthread_mutex_unlock(&help_lock);
}

/*
 * A thread that waits inside a helper, or while another thread helps, goes on waiting: trylock,
 * so that no wait gets longer by the work of others.
 */
void ori_help(void)
{
	struct ori_helper *helper;

	if (!atomic_load_explicit(&help_count, memory_order_relaxed) ||
	    pthread_mutex_trylock(&help_lock) != 0)
		return;
	for (helper = help_first; helper; helper = helper->next)
		helper->help(helper);
	pthread_mutex_unlock(&help_lock);
}
