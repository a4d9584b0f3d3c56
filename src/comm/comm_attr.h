/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of a communicator, as the caller or else the settings give them. */
#ifndef ORI_COMM_COMM_ATTR_H
#define ORI_COMM_COMM_ATTR_H

#include "comm/comm.h"

/* The time at which links are made: as the caller, or else the setting, says. */
enum oriel_status ori_comm_read_connect(unsigned connect, uint16_t *read);
/* The word of ORIEL_CONNECT for @connect, which was read. */
const char *ori_comm_connect_name(unsigned connect);
/* @given of the attributes: 0, or a power of two within the limits. */
enum oriel_status ori_comm_read_depth(unsigned given, uint32_t *depth);
/* ORIEL_RAILS. */
enum oriel_status ori_comm_read_rails(uint32_t *rails);
/* Are all @flags known, and do they go together? */
enum oriel_status ori_comm_check_flags(unsigned flags);
/* Copy @attr into @comm, with its texts, for parts. */
enum oriel_status ori_comm_keep_attr(struct oriel_comm *comm, const struct oriel_comm_attr *attr);

#endif
