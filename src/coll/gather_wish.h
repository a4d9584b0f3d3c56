/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller wants a collective to be made over, and whether all ranks want the same. */
#ifndef ORI_COLL_GATHER_WISH_H
#define ORI_COLL_GATHER_WISH_H

#include "coll/gather.h"

enum ori_wish_telling {
	ORI_WISH_WINDOW, /* part of a window */
	ORI_WISH_BUFFER, /* to be shared */
	ORI_WISH_TABLE,  /* the caller knows where all are */
};

/* What ranks tell each other of a new one. Goes over the wire as it is. */
struct ori_wish_join {
	uint64_t at;
	uint64_t length;
	uint64_t chunk;
	uint64_t table; /* digest of what it chooses by */
	uint32_t kind;  /* enum ori_wish_telling */
	uint32_t flags;
	uint32_t algorithm;
	uint32_t setting;    /* that of ORIEL_ALLGATHER */
	uint32_t collective; /* enum ori_collective */
	uint32_t sharers;    /* ranks on this rank's GPU, itself among them; of a view on a GPU */
	uint32_t parts;      /* that this GPU lets each of them have; the same */
	uint32_t reserved;
};

/* A view and attributes that have been read. */
struct ori_wish {
	struct oriel_view view;
	struct oriel_allgather_attr attr;
	struct ori_wish_join join;
};

/* @view and @attr of the caller's, of a collective of @kind. */
enum oriel_status ori_wish_read(struct ori_wish *wish, const struct ori_gather_kind *kind,
				const struct oriel_view *view,
				const struct oriel_allgather_attr *attr);

/* Do all ranks wish the same? All come to the same answer. */
enum oriel_status ori_wish_compare(const struct ori_wish_join *joins, unsigned size);

#endif
