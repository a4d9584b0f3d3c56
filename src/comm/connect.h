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
/* The same for the links to mapped peers and to the rank itself. For comm->rails == 1. */
enum oriel_status ori_links_connect_inside(struct oriel_comm *comm, enum ori_call call);

#endif
