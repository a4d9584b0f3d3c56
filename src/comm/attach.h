/* SPDX-License-Identifier: Apache-2.0 */
/* Closes what oriel_comm_attach() has attached. comm.c calls it. */
#ifndef ORI_COMM_ATTACH_H
#define ORI_COMM_ATTACH_H

#include "comm/comm.h"

/* The last attached first. */
void ori_comm_close_attachments(struct oriel_comm *comm);

#endif
