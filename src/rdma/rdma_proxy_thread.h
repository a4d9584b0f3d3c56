/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that steps all lanes of a communicator's adapters, and sleeps while
 * threads of the program that post and wait do it (oriel_cpu_ask_proxy()): where cores
 * are few the two would take turns by ticks. Any thread may call what is here; a lane
 * or a tally that has been added is only touched through it.
 */
#ifndef ORI_RDMA_RDMA_PROXY_THREAD_H
#define ORI_RDMA_RDMA_PROXY_THREAD_H

#include "rdma/rdma_proxy.h"

struct ori_proxy_thread;

/*
 * It stays near @numa_node, if that is not 0: of the adapter @name, plus 1. Not so with
 * ORIEL_PROXY_NEAR=off.
 */
enum oriel_status ori_proxy_thread_start(unsigned numa_node, const char *name,
					 struct ori_proxy_thread **thread);
/* All has been removed. NULL is allowed. */
void ori_proxy_thread_stop(struct ori_proxy_thread *thread);

/* For the rings of CPU threads: not 0 while it sleeps. */
uint32_t *ori_proxy_thread_asleep(struct ori_proxy_thread *thread);

/*
 * *@seat is what the ring of @lane names it by until it is removed. @is_helped: who
 * asks there may do the thread's work; a kernel cannot.
 */
enum oriel_status ori_proxy_thread_add(struct ori_proxy_thread *thread, struct ori_proxy_lane *lane,
				       bool is_helped, void **seat);
/* Step it until there is nothing to do at the moment. */
void ori_proxy_thread_poll(struct ori_proxy_thread *thread, struct ori_proxy_lane *lane);
/* As ori_proxy_fail(). */
void ori_proxy_thread_fail(struct ori_proxy_thread *thread, struct ori_proxy_lane *lane);
/* Failed as well; the caller closes it. */
void ori_proxy_thread_remove(struct ori_proxy_thread *thread, struct ori_proxy_lane *lane);

enum oriel_status ori_proxy_thread_add_loopback(struct ori_proxy_thread *thread,
						struct ori_loopback *loopback);
/* Its lanes have been removed. */
void ori_proxy_thread_remove_loopback(struct ori_proxy_thread *thread,
				      struct ori_loopback *loopback);

#endif
