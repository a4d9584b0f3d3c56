/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region from inside. region.c shares it; window/comm_device.c lets kernels reach it.
 */
#ifndef ORI_COMM_REGION_H
#define ORI_COMM_REGION_H

#include <oriel/region.h>

#include "comm/share.h"

struct oriel_region {
	struct oriel_comm *comm; /* borrowed */
	struct ori_piece piece;
	bool is_shared;
	struct ori_rdma_mr *own_mr; /* as a source and for results, where there is an rdma peer */
	struct ori_rdma_mr *mr;     /* once shared, where there is an rdma peer */
	struct ori_remote *remotes; /* [size] */
	struct ori_mapping *maps;   /* [size], open once shared */
	/* Once published. */
	void (*unpublish)(struct oriel_region *region); /* collective; NULL: never published */
	uint32_t number;                                /* by which device functions know it */
	uint32_t window; /* the number of the window that has it so; another has not */
};

#endif
