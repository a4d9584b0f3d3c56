/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of hosts as Slurm writes them, "node[01-03,7],login": the bootstrap under srun asks for
 * the first host.
 */
#ifndef ORI_BOOTSTRAP_HOSTLIST_H
#define ORI_BOOTSTRAP_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>

/* The first host of @list in @host, of @size bytes. False: the list is malformed, or too long. */
bool ori_hostlist_first(const char *list, char *host, size_t size);

#endif
