/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectX adapters for machines without, for tests: a libibverbs and a libmlx5 in
 * one library. Commands go through the decoders of hca/mlx5_prm.h, rings are those of
 * the caller, in the memory that he registers, and the software adapter executes
 * them. It refuses what firmware refuses, and what firmware would silently do wrong.
 *
 *   other0  no ConnectX, RoCE     mlx5_2  InfiniBand, MTU 2048
 *   mlx5_0  RoCE, MTU 4096        mlx5_3  InfiniBand, whose port demands a GRH
 *   mlx5_1  RoCE, MTU 1024        mlx5_4  InfiniBand, of another subnet
 *
 * FAKEMLX5_WITHOUT: what it lacks, of the words of fake5_without(). FAKEMLX5_SOFT:
 * scenario of the software adapter. FAKEMLX5_DIR: where processes find each other.
 */
#ifndef FAKEMLX5_H
#define FAKEMLX5_H

#include <stdint.h>

#include "hca/mlx5_prm.h"

/*
 * From now on adapters lack the words of @list: "devx" (leave to command), "wait"
 * (cross-channel), "master" (refuses cd_master, though it WAITs), "stamps" (choice of
 * time stamps), "oi", "odp", "dmabuf" (of queues), "dedicated" and
 * "uncached" (doorbell pages), "sizes" (rings of verbs come twice as big).
 */
void fake5_without(const char *list);

/* Call number @after (0: the next) of those named @call fails with @error. */
void fake5_fail(const char *call, unsigned after, int error);

/* Contexts, objects, pages and registrations that are still there. */
int fake5_left(void);

/* The last command of @opcode that was carried out, @length bytes; 0 if there was none. */
unsigned fake5_command(enum ori_prm_opcode opcode, void *in, unsigned length);

/* An error of that queue pair of @device ("mlx5_0") is told, as firmware does. */
void fake5_break(const char *device, uint32_t qpn);

struct fake5_counters {
	uint64_t commands;
	uint64_t refused;
	uint64_t rung;      /* doorbells that were seen */
	uint64_t recovered; /* found by the record alone, since registers are shared */
	uint64_t stray;     /* for queues that are not there, or of another page */
};

struct fake5_counters fake5_counters(void);

#endif
