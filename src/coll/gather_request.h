/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller wants a collective to be made over, and whether all ranks want the same. */
#ifndef ORI_COLL_GATHER_REQUEST_H
#define ORI_COLL_GATHER_REQUEST_H

#include "coll/gather.h"

enum ori_gather_view_kind {
	ORI_GATHER_VIEW_WINDOW, /* part of a window */
	ORI_GATHER_VIEW_BUFFER, /* to be shared */
	ORI_GATHER_VIEW_TABLE,  /* the caller knows where all are */
};

/* What ranks tell each other of a new one. Goes over the wire as it is. */
struct ori_gather_join {
	uint64_t at;
	uint64_t length;
	uint64_t chunk;
	uint64_t table; /* digest of what it chooses by */
	uint32_t kind;  /* enum ori_gather_view_kind */
	uint32_t flags;
	uint32_t algorithm;
	uint32_t setting;    /* that of ORIEL_ALLGATHER */
	uint32_t collective; /* enum ori_collective */
	uint32_t sharers;    /* ranks on this rank's GPU, itself among them; of a view on a GPU */
	uint32_t parts;      /* that this GPU lets each of them have; the same */
	uint32_t reserved;
};

/* A view and attributes that have been read. */
struct ori_gather_request {
	struct oriel_view view;
	struct oriel_allgather_attr attr;
	struct ori_gather_join join;
};

/* @view and @attr of the caller's, of a collective of @kind. */
enum oriel_status ori_gather_request_read(struct ori_gather_request *request,
					  const struct ori_gather_kind *kind,
					  const struct oriel_view *view,
					  const struct oriel_allgather_attr *attr);

/* Do all ranks request the same? All come to the same answer. */
enum oriel_status ori_gather_join_compare(const struct ori_gather_join *joins, unsigned size);

#endif
