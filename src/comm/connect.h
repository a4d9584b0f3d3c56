/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the links of a communicator. comm_nics.c and windows call it. */
#ifndef ORI_COMM_CONNECT_H
#define ORI_COMM_CONNECT_H

#include "comm/exchange.h"

/*
 * Connects the links that paths need and that are not yet, within @call. Collective. On failure
 * they stay so.
 */
enum oriel_status ori_links_connect_all(struct oriel_comm *comm, enum ori_call call);
/*
 * The same for those by which NICs execute atomics alone; with several rails also where other links
 * are made on demand.
 */
enum oriel_status ori_links_connect_atomics(struct oriel_comm *comm, enum ori_call call);

#endif
