/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path to every peer, for host memory and for GPU memory. comm.c selects them; all
 * others read them.
 */
#ifndef ORI_COMM_PATHS_H
#define ORI_COMM_PATHS_H

#include "comm/comm.h"
#include "topo/classify.h"

/* Paths, reasons and domains from the hosts. Local. */
enum oriel_status ori_comm_select(struct oriel_comm *comm);

/*
 * The NICs of all ranks are open; their kinds, enum ori_hca_kind, are @stride bytes apart. The
 * reasons of rdma paths name them from now on.
 */
void ori_comm_name_kinds(struct oriel_comm *comm, const void *kinds, size_t stride);

/* For zeroed @paths to @size ranks. The caller closes them in any case. */
enum oriel_status ori_paths_open(struct ori_paths *paths, unsigned size);
void ori_paths_close(struct ori_paths *paths, unsigned size);

/* For @path[peer] == ORIEL_PATH_MAPPED: does @peer live in another process? */
bool ori_comm_is_foreign(const struct oriel_comm *comm, unsigned peer);

/* The largest domain whose ranks map each other's windows as these are created. */
#define ORI_LENDING_RANKS 32u
/* Do ranks of this domain lend their memory (comm/lend.h)? The same on all of them. */
bool ori_comm_is_lending(const struct oriel_comm *comm);

/* Is @peer mapped, and reached by rdma as well? */
bool ori_comm_has_both(const struct oriel_comm *comm, unsigned peer);

/*
 * Is host memory of @peer, or memory of its GPU, reached by rdma, maybe beside another path? Both
 * ends come to the same answer.
 */
bool ori_comm_needs_link(const struct oriel_comm *comm, unsigned peer);

/* Is @peer's memory mapped by an NVLink fabric alone, so that no descriptor can reach it? */
bool ori_comm_is_fabric_peer(const struct oriel_comm *comm, unsigned peer);

/* The bus between the GPUs of this rank and of @peer; ORI_BUS_WHOLE unless they are mapped. */
enum ori_bus ori_comm_bus(const struct oriel_comm *comm, unsigned peer);
/* Is @peer in this rank's domain of GPUs, and ORI_BUS_STORES between it and some rank there? */
bool ori_comm_has_slow_bus(const struct oriel_comm *comm, unsigned peer);

/* Does each of @threads polling threads of every rank have a CPU of its own? */
void ori_comm_count(struct oriel_comm *comm, unsigned threads);
/* Polls that a waiting CPU thread makes before it yields the core. */
uint32_t ori_comm_spin(const struct oriel_comm *comm);

#endif
