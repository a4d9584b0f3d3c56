/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectX HCAs for machines without any, for tests: a libibverbs and a libmlx5
 * in one library. hca/test_support/mlx5_firmware.h decodes its commands, rings are
 * those of the caller, in memory that the caller registers, and the software
 * HCA executes them. It rejects commands that firmware rejects, and those that
 * firmware would silently execute wrongly.
 *   other0  no ConnectX, RoCE     mlx5_2  InfiniBand, MTU 2048
 *   mlx5_0  RoCE, MTU 4096        mlx5_3  InfiniBand, whose port demands a GRH
 *   mlx5_1  RoCE, MTU 1024        mlx5_4  InfiniBand, of another subnet
 *
 * FAKEMLX5_WITHOUT: missing features, in the words of fake5_without().
 * FAKEMLX5_SOFT: scenario of the software HCA. FAKEMLX5_DIR: directory by which
 * processes find each other.
 */
#ifndef FAKEMLX5_H
#define FAKEMLX5_H

#include <stdint.h>

#include "hca/test_support/mlx5_firmware.h"

/*
 * From now on HCAs lack the features of @list: "devx" (permission for
 * commands), "wait" (cross-channel), "master" (rejects cd_master, though it
 * WAITs), "plain_wait" (in addition to "master": such a queue fails at a WAIT), "events"
 * (asynchronous errors of DEVX), "event_05" (that type of them, of "event_05", "event_07",
 * "event_10", "event_11"), "stamps" (choice of time stamps), "oi", "odp", "doorbells" (of DEVX
 * queues: they ring nothing), "faults" (page faults of DEVX queues), "dmabuf" (of queues),
 * "dedicated" and "uncached" (doorbell pages), "sizes" (rings of verbs are twice as big), "order"
 * (contexts of queues say that WRITEs and READs are placed in any order), "default_order" (they
 * force that of IBTA), "contexts" (they cannot be read), "one_path" (ports are joined).
 */
void fake5_without(const char *list);

/* Call number @after (0: the next) of those named @call fails with @error. */
void fake5_fail(const char *call, unsigned after, int error);

/* Contexts, objects, pages and registrations that exist. */
int fake5_left(void);

/* The last command of @opcode that was executed, @length bytes; 0 if there was none. */
unsigned fake5_command(enum ori_prm_opcode opcode, void *in, unsigned length);

/* Report an error of that queue pair of @device ("mlx5_0"), as firmware does. */
void fake5_break(const char *device, uint32_t qpn);

struct fake5_counters {
	uint64_t commands;
	uint64_t refused;
	uint64_t rung;      /* doorbells that the thread saw */
	uint64_t recovered; /* recovered from the record, since registers are shared */
	uint64_t stray;     /* for queues that do not exist, or use another page */
	uint64_t stalled;   /* queues that are not resumed after a page fault */
};

struct fake5_counters fake5_counters(void);

#endif
