/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request of a caller: the view and the attributes of a new collective, and the comparison of
 * the requests of all ranks. Called by gather_make.c.
 */
#ifndef ORI_COLL_GATHER_REQUEST_H
#define ORI_COLL_GATHER_REQUEST_H

#include <oriel/reduce.h>

#include "coll/gather.h"

/* The part of a request that ranks exchange. This struct goes over the wire as it is. */
struct ori_gather_join {
	uint64_t at;
	uint64_t length;
	uint64_t chunk;
	uint64_t table; /* digest of the tuning table */
	uint32_t kind;  /* enum oriel_view_kind */
	uint32_t flags;
	uint32_t algorithm;
	uint32_t setting;    /* ORIEL_ALLGATHER or ORIEL_ALLREDUCE */
	uint32_t collective; /* enum ori_collective */
	uint32_t sharers;    /* view on a GPU: ranks on this rank's GPU, itself included */
	uint32_t parts;      /* view on a GPU: parts that each of them may have */
	uint32_t is_narrow;  /* view on a GPU: LL128 lines do not reach the GPU of some rank */
	uint32_t type;  /* reduction: enum oriel_type; 0 for the other kinds, as the next ones */
	uint32_t op;    /* enum oriel_op */
	uint32_t block; /* as the caller gave it */
	uint32_t reduce_flags; /* enum oriel_reduce_flags; with those of ORIEL_REDUCE_FAST */
	uint64_t factor;       /* of this rank, in the first bytes */
};

/* The caller's view and attributes, copied and checked. */
struct ori_gather_request {
	struct oriel_view view;
	struct oriel_coll_attr attr;
	struct oriel_reduction reduction;
	struct ori_gather_join join;
};

/* Reads the arguments of the caller for a collective of @kind. */
enum oriel_status ori_gather_request_read(struct ori_gather_request *request,
					  const struct ori_gather_kind *kind,
					  const struct oriel_view *view,
					  const struct oriel_reduction *reduction,
					  const struct oriel_coll_attr *attr);

/* ORIEL_ERR_MISMATCH: the requests differ. All ranks get the same answer. */
enum oriel_status ori_gather_join_compare(const struct ori_gather_join *joins, unsigned size);

#endif
