/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of ranks, of peers and of the members of the domain, each from the other, and how a
 * peer is reached: the queries of oriel/comm.h for kernels and threads of the CPU. Any number of
 * threads may call them at once.
 *
 * The domain is that of the communicator for the kind of memory that the window lies in: of a
 * window on GPUs the ranks that map each other's GPU memory, else those that map each other's host
 * memory. With ORIEL_WINDOW_RDMA it is the same, although oriel_dev_path() to its ranks is rdma.
 */
#ifndef ORIEL_DEV_DOMAIN_H
#define ORIEL_DEV_DOMAIN_H

#include <oriel/dev/detail/check.h>

/*
 * Any thread: how many ranks the domain has, this one among them. 0: the handle is of another
 * version.
 */
ORIEL_DEV uint32_t oriel_dev_domain_size(const struct oriel_dev_window *w)
{
	return oriel_dev_is_compatible(w) ? w->domain_size : 0;
}

/*
 * Any thread: the index of this rank in the domain; ORIEL_DEV_NO_INDEX: the handle is of another
 * version.
 */
ORIEL_DEV uint32_t oriel_dev_domain_index(const struct oriel_dev_window *w)
{
	return oriel_dev_is_compatible(w) ? w->domain_index : ORIEL_DEV_NO_INDEX;
}

/*
 * Any thread: *@rank has index @index in the domain, which is in rank order. ORIEL_ERR_RANGE beyond
 * it.
 */
ORIEL_DEV enum oriel_status oriel_dev_domain_rank(const struct oriel_dev_window *w, uint32_t index,
						  uint32_t *rank)
{
	enum oriel_status status =
		ori_dev_check_any(w, ORIEL_DEV_DOMAIN_RANK, index, w->domain_size);

	if (status == ORIEL_OK)
		*rank = w->domain[index];
	return status;
}

/*
 * Any thread: *@index is that of @rank in the domain. ORIEL_ERR_RANGE: there is no such rank.
 * ORIEL_ERR_NO_PATH: it is no member, which is an answer and leaves no record.
 */
ORIEL_DEV enum oriel_status oriel_dev_domain_find(const struct oriel_dev_window *w, uint32_t rank,
						  uint32_t *index)
{
	enum oriel_status status = ori_dev_check_id(w, ORIEL_DEV_DOMAIN_FIND, rank, 0, 1);
	uint32_t found;

	if (status != ORIEL_OK)
		return status;
	found = w->topology[rank].domain_index;
	if (found == ORIEL_DEV_NO_INDEX)
		return ORIEL_ERR_NO_PATH;
	*index = found;
	return ORIEL_OK;
}

/*
 * Any thread: peers are numbered 0 .. ranks - 2 in rank order without this rank: *@rank is peer
 * @index. ORIEL_ERR_RANGE beyond.
 */
ORIEL_DEV enum oriel_status oriel_dev_peer_rank(const struct oriel_dev_window *w, uint32_t index,
						uint32_t *rank)
{
	enum oriel_status status = ori_dev_check_any(w, ORIEL_DEV_PEER_RANK, index, w->ranks - 1);

	if (status == ORIEL_OK)
		*rank = index < w->rank ? index : index + 1;
	return status;
}

/* Any thread: *@index is the number of peer @rank. ORIEL_ERR_INVALID: that is this rank itself. */
ORIEL_DEV enum oriel_status oriel_dev_peer_index(const struct oriel_dev_window *w, uint32_t rank,
						 uint32_t *index)
{
	enum oriel_status status = ori_dev_check_other(w, ORIEL_DEV_PEER_INDEX, rank, 0, 1);

	if (status == ORIEL_OK)
		*index = rank < w->rank ? rank : rank - 1;
	return status;
}

/*
 * Any thread: the path to @peer, a rank, as far as this translation unit has the code:
 * ORIEL_DEV_PATHS.
 */
ORIEL_DEV uint32_t oriel_dev_path(const struct oriel_dev_window *w, uint32_t peer)
{
	return ori_dev_usable(ori_dev_peer_of(w, peer).path);
}

/*
 * Any thread: is @peer mapped over a bus without atomics (PCIe)? Then signals cost a round trip
 * there, and oriel_dev_fetch_add() several for each rank of the domain.
 */
ORIEL_DEV bool oriel_dev_is_serial(const struct oriel_dev_window *w, uint32_t peer)
{
	return w->inline_wide & ORIEL_DEV_HAS_SERIAL && peer < w->ranks &&
	       ori_dev_peer_of(w, peer).flags & ORIEL_DEV_PEER_SERIAL;
}

#endif
