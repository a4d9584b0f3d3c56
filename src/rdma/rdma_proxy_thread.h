/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that steps all lanes of a communicator's NICs. It sleeps while threads of
 * the program that post and wait do its work (oriel_cpu_ask_proxy()): on few cores the
 * two would take turns by scheduler ticks. Any thread may call these functions; a lane or
 * a loopback link that has been added is only touched through them.
 */
#ifndef ORI_RDMA_RDMA_PROXY_THREAD_H
#define ORI_RDMA_RDMA_PROXY_THREAD_H

#include "rdma/rdma_proxy.h"

struct ori_proxy_thread;

/*
 * The thread stays on @numa_node - 1, the node of the NIC @name, unless @numa_node is 0 or
 * ORIEL_PROXY_NEAR=off.
 */
enum oriel_status ori_proxy_thread_start(unsigned numa_node, const char *name,
					 struct ori_proxy_thread **thread);
/* All lanes and loopback links have been removed. NULL is allowed. */
void ori_proxy_thread_stop(struct ori_proxy_thread *thread);

/* A word for the rings of CPU threads: not 0 while it sleeps. */
uint32_t *ori_proxy_thread_asleep(struct ori_proxy_thread *thread);

/*
 * The ring of @lane names it by *@seat until it is removed. @is_helped: posters of the
 * ring may do the thread's work; a kernel cannot.
 */
enum oriel_status ori_proxy_thread_add(struct ori_proxy_thread *thread, struct ori_proxy_lane *lane,
				       bool is_helped, void **seat);
/* Steps it until there is nothing to do at the moment. */
void ori_proxy_thread_poll(struct ori_proxy_thread *thread, struct ori_proxy_lane *lane);
/* As ori_proxy_fail(). */
void ori_proxy_thread_fail(struct ori_proxy_thread *thread, struct ori_proxy_lane *lane);
/* Fails the lane as well; the caller closes it. */
void ori_proxy_thread_remove(struct ori_proxy_thread *thread, struct ori_proxy_lane *lane);

enum oriel_status ori_proxy_thread_add_loopback(struct ori_proxy_thread *thread,
						struct ori_host_link *loopback);
/* The caller has removed its lanes. */
void ori_proxy_thread_remove_loopback(struct ori_proxy_thread *thread,
				      struct ori_host_link *loopback);

#endif
