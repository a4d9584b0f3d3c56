/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the communicator of ORIEL_INVITATION. comm.c calls it. */
#ifndef ORI_COMM_NEWCOMER_H
#define ORI_COMM_NEWCOMER_H

#include <oriel/comm.h>

/* oriel_comm_join() of this process with ORIEL_INVITATION, which is set. */
enum oriel_status ori_newcomer_create(const struct oriel_comm_attr *attr, struct oriel_comm **comm);

#endif
