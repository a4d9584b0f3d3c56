/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first record that ranks of a communicator exchange: what must be equal on all of them, and
 * what decides the paths between them. comm.c calls it.
 */
#ifndef ORI_COMM_JOIN_RECORD_H
#define ORI_COMM_JOIN_RECORD_H

#include "comm/comm.h"
#include "comm/exchange.h"
#include "comm/report.h"

/* The first record that ranks exchange. Goes over the wire as it is. */
struct ori_join_record {
	struct ori_verdict verdict;
	struct ori_host host;
	struct ori_mem_blob control;
	uint8_t mesh[ORI_FDSOCK_NAME];
	struct ori_listen_address listen;
	struct ori_listen_address survive; /* zeroed without ORIEL_COMM_SHRINK */
	uint32_t device_version;           /* ORIEL_DEV_VERSION */
	uint32_t control_length;
	uint64_t timeout_ns;
	uint16_t connect; /* enum oriel_connect, not DEFAULT */
	uint16_t flags;   /* enum oriel_comm_flags, but ORIEL_COMM_GPU */
	uint32_t rails;   /* NICs it drives, where it needs any */
	struct ori_report report;
};

static_assert(sizeof(struct ori_join_record) == 1512, "struct ori_join_record goes over the wire");

/*
 * Are the values equal that must be? All ranks come to the same answer: ORIEL_ERR_VERSION where
 * their libraries differ, else ORIEL_ERR_MISMATCH.
 */
enum oriel_status ori_join_record_compare(const struct ori_join_record *joins, unsigned size);

/*
 * @comm, of which rank and size are set, gets the hosts and addresses of all ranks, and the paths
 * to them. ORIEL_ERR_VERSION, ORIEL_ERR_PROTOCOL: no description of a host; ORIEL_ERR_NO_PATH.
 */
enum oriel_status ori_join_record_read(struct oriel_comm *comm,
				       const struct ori_join_record *joins);

#endif
