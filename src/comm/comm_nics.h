/* SPDX-License-Identifier: Apache-2.0 */
/* The NICs of a communicator, and the links over them. comm.c opens and closes them. */
#ifndef ORI_COMM_COMM_NICS_H
#define ORI_COMM_COMM_NICS_H

#include "comm/comm.h"
#include "rdma/rdma.h"

#define ORI_LINKS_UNORDERED 1u /* see ori_rdma_is_unordered() */
#define ORI_LINKS_REORDERED 2u /* see ori_rdma_is_reordered() */

/* The addresses that links to a rank connect to. Goes over the wire as it is. */
struct ori_links_rank {
	struct ori_hca_qp_address hcas[ORIEL_DEV_RAILS]; /* without the number of any queue */
	struct oriel_dev_keys table_rkeys; /* of the rows where peers report failures */
	uint32_t kind;                     /* enum ori_hca_kind */
	uint32_t unordered;                /* ORI_LINKS_... */
	uint32_t report;                   /* see ori_report_nics_digest(); 0 without NICs */
	struct ori_listen_address listen;  /* of ori_demand_open(); zeroed without it */
};

/*
 * Opens the NICs and a link to each rdma peer, if there is any; connected unless @comm is
 * lazy. Collective.
 */
enum oriel_status ori_nics_open(struct oriel_comm *comm);
/* No thread posts any more. Once more it does nothing. */
void ori_nics_close(struct oriel_comm *comm);

#endif
