/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of device functions: looked at before anything is done. What is
 * refused leaves a record in the window's fault.
 */
#ifndef ORIEL_DEV_CHECK_H
#define ORIEL_DEV_CHECK_H

#include <oriel/dev/wait.h>

/* Does the handle come from a library that this text understands? */
ORIEL_DEV bool oriel_dev_is_compatible(const struct oriel_dev_window *w)
{
	return w->magic == ORIEL_DEV_MAGIC && w->version == ORIEL_DEV_VERSION &&
	       w->size == sizeof(*w);
}

/*
 * Entries of a window's tables, which no running kernel sees change: on a GPU
 * both halves are asked for at once, and past the caches that an acquire empties.
 */
ORIEL_DEV struct oriel_dev_peer oriel_dev_peer_of(const struct oriel_dev_window *w, uint32_t peer)
{
#ifdef __CUDA_ARCH__
	const struct oriel_dev_peer *entry = &w->peers[peer];
	struct oriel_dev_peer copy;
	uint64_t control, link;
	uint32_t path, rkey;

	asm volatile("ld.global.nc.u64 %0, [%4];\n\t"
		     "ld.global.nc.v2.u32 {%1, %2}, [%4 + 8];\n\t"
		     "ld.global.nc.u64 %3, [%4 + 16];"
		     : "=l"(control), "=r"(path), "=r"(rkey), "=l"(link)
		     : "l"(entry));
	copy.control = (char *)control;
	copy.path = path;
	copy.control_rkey = rkey;
	copy.link = (const struct oriel_dev_link *)link;
	copy.reserved = 0;
	return copy;
#else
	return w->peers[peer];
#endif
}

ORIEL_DEV struct oriel_dev_buffer oriel_dev_buffer_of(const struct oriel_dev_window *w,
						      uint32_t peer, uint64_t buffer)
{
	const struct oriel_dev_buffer *entry = &w->table[buffer * w->ranks + peer];
#ifdef __CUDA_ARCH__
	struct oriel_dev_buffer copy;
	uint64_t base, length;

	asm volatile("ld.global.nc.u64 %0, [%2];\n\t"
		     "ld.global.nc.u64 %1, [%2 + 8];"
		     : "=l"(base), "=l"(length)
		     : "l"(entry));
	copy.base = (char *)base;
	copy.length = length;
	copy.address = copy.rkey = copy.reserved = 0;
	return copy;
#else
	return *entry;
#endif
}

/* @path, as far as this translation unit can use it. */
ORIEL_DEV uint32_t oriel_dev_usable(uint32_t path)
{
	return ORIEL_DEV_PATHS >> path & 1 ? path : (uint32_t)ORIEL_PATH_NONE;
}

/*
 * Has this translation unit the code for @path? A constant: it leaves out what
 * compilers do not see that oriel_dev_usable() leaves out.
 */
#define ORIEL_DEV_HAS(path) (ORIEL_DEV_PATHS >> (path)&1)

/* The path to @peer. */
ORIEL_DEV uint32_t oriel_dev_path(const struct oriel_dev_window *w, uint32_t peer)
{
	return oriel_dev_usable(w->peers[peer].path);
}

/* Is @peer behind a NIC, and is there code for that? */
ORIEL_DEV bool oriel_dev_is_rdma(const struct oriel_dev_window *w, uint32_t peer)
{
	return ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && w->peers[peer].path == ORIEL_PATH_RDMA;
}

/*
 * What the functions that refuse need of a window, by value: a kernel whose
 * window had to be in memory for their sake would read it from there always.
 */
struct oriel_dev_judge {
	struct oriel_dev_fault *fault;
	uint32_t number;
	uint32_t ranks;
};

ORIEL_DEV struct oriel_dev_judge oriel_dev_judge_of(const struct oriel_dev_window *w)
{
	struct oriel_dev_judge judge = {w->fault, w->number, w->ranks};

	return judge;
}

/* An argument is wrong: @seen is beyond aim.operand. One thread. The communicator stays well. */
ORIEL_DEV enum oriel_status oriel_dev_refuse(struct oriel_dev_judge judge, enum oriel_status status,
					     struct oriel_dev_aim aim, uint64_t seen)
{
	oriel_dev_report(judge.fault, judge.number, status, aim, seen, 0);
	return status;
}

ORIEL_DEV_COLD enum oriel_status oriel_dev_refuse_id(struct oriel_dev_judge judge, uint32_t what,
						     uint32_t peer, uint32_t id, uint32_t limit)
{
	struct oriel_dev_aim aim = {NULL, limit, ORIEL_LT, what, peer, id};

	if (id < limit) {
		aim.operand = judge.ranks;
		return oriel_dev_refuse(judge, ORIEL_ERR_RANGE, aim, peer);
	}
	return oriel_dev_refuse(judge, ORIEL_ERR_RANGE, aim, id);
}

/* Is there a @peer, and an @id below @limit? */
ORIEL_DEV enum oriel_status oriel_dev_check_id(const struct oriel_dev_window *w, uint32_t what,
					       uint32_t peer, uint32_t id, uint32_t limit)
{
	if (!oriel_dev_is_compatible(w))
		return ORIEL_ERR_VERSION;
	if (peer < w->ranks && id < limit)
		return ORIEL_OK;
	return oriel_dev_refuse_id(oriel_dev_judge_of(w), what, peer, id, limit);
}

/* The same where no single peer is meant. */
ORIEL_DEV enum oriel_status oriel_dev_check_any(const struct oriel_dev_window *w, uint32_t what,
						uint32_t id, uint32_t limit)
{
	if (!oriel_dev_is_compatible(w))
		return ORIEL_ERR_VERSION;
	if (id < limit)
		return ORIEL_OK;
	return oriel_dev_refuse_id(oriel_dev_judge_of(w), what, ORIEL_DEV_NO_RANK, id, limit);
}

/* The same where the rank itself would wait for itself. */
ORIEL_DEV enum oriel_status oriel_dev_check_other(const struct oriel_dev_window *w, uint32_t what,
						  uint32_t peer, uint32_t id, uint32_t limit)
{
	enum oriel_status status = oriel_dev_check_id(w, what, peer, id, limit);
	struct oriel_dev_aim aim = {NULL, w->rank, ORIEL_NE, what, peer, id};

	if (status == ORIEL_OK && peer == w->rank)
		return oriel_dev_refuse(oriel_dev_judge_of(w), ORIEL_ERR_INVALID, aim, peer);
	return status;
}

/* Is @choice, a comparison or an operation, one of those up to @last? */
ORIEL_DEV enum oriel_status oriel_dev_check_choice(const struct oriel_dev_window *w, uint32_t what,
						   uint32_t choice, uint32_t last)
{
	struct oriel_dev_aim aim = {NULL, last, ORIEL_LE, what, ORIEL_DEV_NO_RANK, 0};

	if (choice <= last)
		return ORIEL_OK;
	return oriel_dev_refuse(oriel_dev_judge_of(w), ORIEL_ERR_INVALID, aim, choice);
}

/* @table: of the window, with @buffers places for each rank. */
ORIEL_DEV_COLD enum oriel_status oriel_dev_refuse_place(struct oriel_dev_judge judge,
							const struct oriel_dev_buffer *table,
							uint32_t buffers, uint32_t what,
							uint32_t peer, uint64_t at, uint64_t length)
{
	uint64_t buffer = at >> ORIEL_AT_BITS;
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	struct oriel_dev_aim aim = {NULL, judge.ranks, ORIEL_LT, what, peer, (uint32_t)buffer};

	if (peer >= judge.ranks)
		return oriel_dev_refuse(judge, ORIEL_ERR_RANGE, aim, peer);
	if (buffer >= buffers) {
		aim.operand = buffers;
		return oriel_dev_refuse(judge, ORIEL_ERR_RANGE, aim, buffer);
	}
	table += buffer * judge.ranks + peer;
	aim.operand = table->length;
	if (buffer && !table->base)
		return oriel_dev_refuse(judge, ORIEL_ERR_STATE, aim, offset);
	/* What the end would have been; all ones where the sum wraps. */
	return oriel_dev_refuse(judge, ORIEL_ERR_RANGE, aim,
				offset + length < length ? UINT64_MAX : offset + length);
}

/* Where an operation on a peer goes. */
struct oriel_dev_target {
	struct oriel_dev_peer peer;
	char *base; /* the place, where it is mapped */
};

/* Do @length bytes at @at exist at @peer? Then *@target is where they are. */
ORIEL_DEV bool oriel_dev_find(const struct oriel_dev_window *w, uint32_t peer, uint64_t at,
			      uint64_t length, struct oriel_dev_target *target)
{
	uint64_t buffer = at >> ORIEL_AT_BITS;
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	struct oriel_dev_buffer place;

	if (peer >= w->ranks || buffer >= w->buffers) {
		/* For compilers that follow callers who do not look. */
		target->peer.control = target->base = NULL;
		target->peer.path = ORIEL_PATH_NONE;
		target->peer.link = NULL;
		return false;
	}
	target->peer = oriel_dev_peer_of(w, peer);
	place = oriel_dev_buffer_of(w, peer, buffer);
	target->base = place.base + offset;
	return length <= place.length && offset <= place.length - length && (!buffer || place.base);
}

/* The same; what is not there is refused. */
ORIEL_DEV enum oriel_status oriel_dev_check_place(const struct oriel_dev_window *w, uint32_t what,
						  uint32_t peer, uint64_t at, uint64_t length,
						  struct oriel_dev_target *target)
{
	if (!oriel_dev_is_compatible(w))
		return ORIEL_ERR_VERSION;
	if (oriel_dev_find(w, peer, at, length, target))
		return ORIEL_OK;
	return oriel_dev_refuse_place(oriel_dev_judge_of(w), w->table, w->buffers, what, peer, at,
				      length);
}

/* The same for one 8-byte word, which must be aligned. */
ORIEL_DEV enum oriel_status oriel_dev_check_word(const struct oriel_dev_window *w, uint32_t what,
						 uint32_t peer, uint64_t at,
						 struct oriel_dev_target *target)
{
	struct oriel_dev_aim aim = {NULL, 8, ORIEL_EQ, what, peer, (uint32_t)(at >> ORIEL_AT_BITS)};
	enum oriel_status status = oriel_dev_check_place(w, what, peer, at, 8, target);

	if (status != ORIEL_OK)
		return status;
	if (((uintptr_t)target->base | at) & 7)
		return oriel_dev_refuse(oriel_dev_judge_of(w), ORIEL_ERR_INVALID, aim, at);
	return ORIEL_OK;
}

#endif
