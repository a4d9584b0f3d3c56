/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what kernels wait for, when asked: see kernel_waits.h, which names the callers. */
#include "comm/kernel_waits.h"

#include "base/thread.h"
#include "base/wait_page.h"

static void *reader_main(void *argument)
{
	struct oriel_comm *comm = argument;
	struct ori_kernel_reader *reader = &comm->kernel_reader;
	struct ori_kernel_waits *waits;

	ori_wait_begin_answer(ori_comm_wait_key(comm));
	pthread_mutex_lock(&reader->lock);
	for (waits = reader->windows; waits; waits = waits->next)
		waits->write(waits);
	pthread_mutex_unlock(&reader->lock);
	ori_wait_end_answer(ori_comm_wait_key(comm), reader->asked);
	atomic_store(&reader->is_done, true);
	return NULL;
}

void ori_kernel_waits_add(struct oriel_comm *comm, struct ori_kernel_waits *waits)
{
	pthread_mutex_lock(&comm->kernel_reader.lock);
	waits->next = comm->kernel_reader.windows;
	comm->kernel_reader.windows = waits;
	pthread_mutex_unlock(&comm->kernel_reader.lock);
}

void ori_kernel_waits_remove(struct oriel_comm *comm, struct ori_kernel_waits *waits)
{
	struct ori_kernel_waits **link = &comm->kernel_reader.windows;

	pthread_mutex_lock(&comm->kernel_reader.lock);
	while (*link && *link != waits)
		link = &(*link)->next;
	if (*link)
		*link = waits->next;
	pthread_mutex_unlock(&comm->kernel_reader.lock);
}

void ori_kernel_waits_serve(struct oriel_comm *comm)
{
	struct ori_kernel_reader *reader = &comm->kernel_reader;
	uint32_t asked = ori_wait_asked();

	if (!comm->gpu || asked == reader->asked)
		return;
	if (reader->is_started && !atomic_load(&reader->is_done))
		return;
	ori_kernel_waits_close(comm);
	reader->asked = asked;
	atomic_store(&reader->is_done, false);
	/* Without a thread there is no answer, for which readers have a limit. */
	reader->is_started = ori_thread_start(&reader->thread, reader_main, comm) == 0;
}

void ori_kernel_waits_close(struct oriel_comm *comm)
{
	if (comm->kernel_reader.is_started)
		pthread_join(comm->kernel_reader.thread, NULL);
	comm->kernel_reader.is_started = false;
}
