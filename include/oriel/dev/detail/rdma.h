/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma path: how window operations are posted to the link of a peer; the operations of
 * oriel/dev.h call it. NICs know segments and shared buffers from address 0 on, so that a
 * remote address is an offset; each NIC has keys of its own, so that every address and key
 * depends on the rail of the link.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_RDMA_H
#define ORIEL_DEV_DETAIL_RDMA_H

#include <oriel/dev/detail/check.h>
#include <oriel/dev/detail/link.h>
#include <oriel/dev/detail/mapped.h>

/* The one of @keys for the link of entry @peer of @peers. */
ORIEL_DEV uint32_t ori_dev_rdma_key(const struct oriel_dev_window *w, uint32_t peer,
				    const struct oriel_dev_keys *keys)
{
	return keys->rail[w->peers[peer].link->rail];
}

/* @at of @buffer, for the link to @peer. */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_in(const struct oriel_dev_window *w,
						      uint32_t peer,
						      const struct oriel_dev_buffer *buffer,
						      uint64_t at)
{
	struct ori_dev_rdma_address result = {buffer->address +
						      (at & (((uint64_t)1 << ORIEL_AT_BITS) - 1)),
					      ori_dev_rdma_key(w, peer, &buffer->rkeys)};

	return result;
}

ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_remote(const struct oriel_dev_window *w,
							  uint32_t peer, uint64_t at)
{
	return ori_dev_rdma_in(w, peer, &w->table[(at >> ORIEL_AT_BITS) * w->ranks + peer], at);
}

/* Byte @offset of @peer's control segment. */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_control(const struct oriel_dev_window *w,
							   uint32_t peer, uint64_t offset)
{
	struct ori_dev_rdma_address result = {offset,
					      ori_dev_rdma_key(w, peer,
							       &w->peers[peer].control_rkeys)};

	return result;
}

/*
 * Has @memory an address for other processors, too? Local and shared memory of a GPU have none.
 */
ORIEL_DEV bool ori_dev_rdma_reaches(const void *memory)
{
#ifdef __CUDA_ARCH__
	return __isGlobal(memory);
#else
	(void)memory;
	return true;
#endif
}

/*
 * If @memory lies in @own: *@result becomes its address, with the key of the NIC of @peer's
 * link.
 */
ORIEL_DEV bool ori_dev_rdma_is_of(const struct oriel_dev_window *w, uint32_t peer,
				  const struct oriel_dev_buffer *own, const void *memory,
				  struct ori_dev_rdma_address *result)
{
	uint64_t offset = (uint64_t)((uintptr_t)memory - (uintptr_t)own->base);

	if (offset >= own->length)
		return false;
	result->address = own->address + offset;
	result->key = ori_dev_rdma_key(w, peer, &own->rkeys);
	return true;
}

/*
 * Memory by a key of its own, if the key of all memory does not reach memory of a GPU or there
 * is none: of an own buffer, or of memory that the host has registered, which CPU threads do
 * now if need be. Other memory is found by the key of all memory, or rejected.
 */
ORIEL_DEV_RARE struct ori_dev_rdma_address ori_dev_rdma_own(const struct oriel_dev_window *w,
							    uint32_t peer, const void *memory,
							    uint64_t length, bool is_target)
{
	const struct ori_dev_link_answers *answers = w->peers[peer].link->answers;
	const struct ori_dev_link_registered *reach = answers ? answers->reach : NULL;
	struct ori_dev_rdma_address result = {(uint64_t)(uintptr_t)memory,
					      ori_dev_rdma_key(w, peer, &w->whole_lkeys)};
	uint64_t i;

	for (i = 0; i < w->buffers; i++)
		if (ori_dev_rdma_is_of(w, peer, &w->table[i * w->ranks + w->rank], memory, &result))
			return result;
	for (i = 0; reach && i < reach->count; i++)
		if (ori_dev_rdma_is_of(w, peer, &reach->of[i], memory, &result))
			return result;
#ifdef __CUDA_ARCH__
	(void)length, (void)is_target;
#else
	if (length && answers && answers->find)
		(void)answers->find(w->peers[peer].link, memory, length, is_target, &result);
#endif
	return result;
}

/*
 * @length bytes of this process, which the next post of this thread to @peer names, and to which
 * the NIC writes if @is_target; 0: it posts none. Memory that NICs do not reach has a key that they
 * reject.
 */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_local(const struct oriel_dev_window *w,
							 uint32_t peer, const void *memory,
							 uint64_t length, bool is_target)
{
	uint32_t key = ori_dev_rdma_key(w, peer, &w->whole_lkeys);
	struct ori_dev_rdma_address result = {(uint64_t)(uintptr_t)memory,
					      ori_dev_rdma_reaches(memory) ? key : 0};

	return w->peers[peer].flags & ORIEL_DEV_PEER_OWN_KEYS && result.key
		       ? ori_dev_rdma_own(w, peer, memory, length, is_target)
		       : result;
}

/* Whole group: the same for a source of which its leader posts @length bytes. */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_source(const struct oriel_dev_window *w,
							  struct oriel_dev_group g, uint32_t peer,
							  const void *memory, uint64_t length)
{
	return ori_dev_rdma_local(w, peer, memory, oriel_dev_is_leader(g) ? length : 0, false);
}

/* This rank's word for signal @id in the inbox of @peer. */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_signal(const struct oriel_dev_window *w,
							  uint32_t peer, uint32_t id)
{
	return ori_dev_rdma_control(w, peer,
				    (uint64_t)w->rank * w->signal_stride + (uint64_t)id * 8);
}

/* The word of the flat barrier of @slot at @peer that arrivals by this rail add to. */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_flat(const struct oriel_dev_window *w,
							uint32_t peer, uint32_t slot)
{
	uint64_t at = w->flat_at + (uint64_t)slot * ORIEL_DEV_LINE;

	at += 8 * (ORIEL_MAPPED_FLAT_NIC + (uint64_t)w->peers[peer].link->rail);
	return ori_dev_rdma_control(w, peer, at);
}

/* This rank's own counter, as its NIC sees it. */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_counter(const struct oriel_dev_window *w,
							   uint32_t peer, uint32_t counter)
{
	struct ori_dev_rdma_address result = {((uint64_t)peer * w->counters + counter) * 8,
					      ori_dev_rdma_key(w, peer, &w->counter_rkeys)};

	return result;
}

/*
 * The number of @w in tickets. Its own number is one of its communicator; the word for rejected
 * arguments is at another address in each window of the process, here modulo 4 GiB.
 */
ORIEL_DEV uint32_t ori_dev_ticket_window(const struct oriel_dev_window *w)
{
	return (uint32_t)(uintptr_t)w->fault;
}

/*
 * A post to @peer gave @posted, the index of its last request on the link or a status: the result
 * of the operation, and its ticket. Index 0 of a ticket is none.
 */
ORIEL_DEV enum oriel_status ori_dev_rdma_posted(const struct oriel_dev_window *w, uint32_t peer,
						int64_t posted, struct oriel_dev_ticket *ticket)
{
	if (posted < 0)
		return (enum oriel_status)posted;
	if (ticket) {
		ticket->index = (uint64_t)posted + 1;
		ticket->peer = peer;
		ticket->window = ori_dev_ticket_window(w);
	}
	return ORIEL_OK;
}

/*
 * The next six are the public functions of these names, to a peer behind a NIC, once their
 * arguments have been checked. @remote is the entry of @peer.
 */
ORIEL_DEV enum oriel_status ori_dev_rdma_put(const struct oriel_dev_window *w,
					     struct oriel_dev_group g, uint32_t peer,
					     const struct oriel_dev_peer *remote, uint64_t to,
					     const void *from, uint64_t length,
					     struct oriel_dev_ticket *ticket)
{
	return ori_dev_rdma_posted(w, peer,
				   ori_dev_link_put(remote->link, g,
						    ori_dev_rdma_remote(w, peer, to),
						    ori_dev_rdma_source(w, g, peer, from, length),
						    length),
				   ticket);
}

ORIEL_DEV enum oriel_status ori_dev_rdma_put_value(const struct oriel_dev_window *w, uint32_t peer,
						   const struct oriel_dev_peer *remote, uint64_t to,
						   uint64_t value, struct oriel_dev_ticket *ticket)
{
	return ori_dev_rdma_posted(w, peer,
				   ori_dev_link_put_value(remote->link, oriel_dev_thread(),
							  ori_dev_rdma_remote(w, peer, to), value),
				   ticket);
}

ORIEL_DEV enum oriel_status ori_dev_rdma_put_signal(const struct oriel_dev_window *w,
						    struct oriel_dev_group g, uint32_t peer,
						    uint64_t to, const void *from, uint64_t length,
						    uint32_t id, uint64_t value,
						    struct oriel_dev_ticket *ticket)
{
	return ori_dev_rdma_posted(
		w, peer,
		ori_dev_link_put_signal(ori_dev_peer_of(w, peer).link, g,
					ori_dev_rdma_remote(w, peer, to),
					ori_dev_rdma_source(w, g, peer, from, length), length,
					ori_dev_rdma_signal(w, peer, id), value),
		ticket);
}

ORIEL_DEV enum oriel_status ori_dev_rdma_put_counter(const struct oriel_dev_window *w,
						     struct oriel_dev_group g, uint32_t peer,
						     uint64_t to, const void *from, uint64_t length,
						     uint32_t counter,
						     struct oriel_dev_ticket *ticket)
{
	return ori_dev_rdma_posted(
		w, peer,
		ori_dev_link_put_counter(w->peers[peer].link, g, ori_dev_rdma_remote(w, peer, to),
					 ori_dev_rdma_source(w, g, peer, from, length), length,
					 ori_dev_rdma_counter(w, peer, counter), 1),
		ticket);
}

ORIEL_DEV enum oriel_status ori_dev_rdma_put_signal_counter(const struct oriel_dev_window *w,
							    struct oriel_dev_group g, uint32_t peer,
							    uint64_t to, const void *from,
							    uint64_t length, uint32_t id,
							    uint64_t value, uint32_t counter,
							    struct oriel_dev_ticket *ticket)
{
	return ori_dev_rdma_posted(w, peer,
				   ori_dev_link_put_signal_counter(
					   w->peers[peer].link, g, ori_dev_rdma_remote(w, peer, to),
					   ori_dev_rdma_source(w, g, peer, from, length), length,
					   ori_dev_rdma_signal(w, peer, id), value,
					   ori_dev_rdma_counter(w, peer, counter), 1),
				   ticket);
}

ORIEL_DEV enum oriel_status ori_dev_rdma_signal_counter(const struct oriel_dev_window *w,
							struct oriel_dev_group g, uint32_t peer,
							uint32_t id, uint64_t value,
							uint32_t counter,
							struct oriel_dev_ticket *ticket)
{
	return ori_dev_rdma_posted(w, peer,
				   ori_dev_link_signal_counter(
					   w->peers[peer].link, g, ori_dev_rdma_signal(w, peer, id),
					   value, ori_dev_rdma_counter(w, peer, counter), 1),
				   ticket);
}

/* Whole group: makes the link to @peer, which is behind a NIC, where it is made on demand. */
ORIEL_DEV enum oriel_status ori_dev_rdma_reach(const struct oriel_dev_window *w, uint32_t peer)
{
	return ori_dev_link_reach(w->peers[peer].link);
}

/* Whole group: oriel_dev_wait_local() for a @ticket that is not zero. */
ORIEL_DEV enum oriel_status ori_dev_rdma_wait_local(const struct oriel_dev_window *w,
						    struct oriel_dev_group g,
						    struct oriel_dev_ticket ticket,
						    uint64_t timeout_ns)
{
	struct ori_dev_link_queue q = {NULL, NULL};
	enum oriel_status status = ORIEL_OK;
	const struct oriel_dev_link *l;
	uint64_t posted = 0;

	if (oriel_dev_is_leader(g)) {
		if (ticket.window == ori_dev_ticket_window(w) && ticket.peer < w->ranks &&
		    ori_dev_is_rdma(w, ticket.peer)) {
			l = w->peers[ticket.peer].link;
			q = ori_dev_link_main(l);
			posted = ori_dev_link_has(q) ? ori_dev_link_posted(q) : 0;
		}
		if (ticket.index <= posted)
			status = ori_dev_link_await(l, q, ticket.index - 1, timeout_ns);
		else
			status = ori_dev_reject_ticket(ori_dev_reporter_of(w), ticket, posted);
	}
	return oriel_dev_vote(g, status);
}

/* Whole group. */
ORIEL_DEV int64_t ori_dev_rdma_get(const struct oriel_dev_window *w, struct oriel_dev_group g,
				   uint32_t peer, uint64_t from, void *to, uint64_t length)
{
	struct ori_dev_rdma_address remote = ori_dev_rdma_remote(w, peer, from);
	struct ori_dev_rdma_address local =
		ori_dev_rdma_local(w, peer, to, oriel_dev_is_leader(g) ? length : 0, true);
	uint64_t part;
	int64_t ticket = -1, before;

	do {
		before = ticket;
		part = length < ORIEL_LINK_LENGTH_MAX ? length : ORIEL_LINK_LENGTH_MAX;
		ticket = ori_dev_link_get(w->peers[peer].link, g, remote, local, (uint32_t)part);
		remote = ori_dev_link_at(remote, part);
		local = ori_dev_link_at(local, part);
		length -= part;
	} while (length && ticket >= 0);
	/* The caller has no ticket for the parts before the one that failed. */
	if (ticket < 0)
		(void)ori_dev_link_wait_local(w->peers[peer].link, g, before, 0);
	return ticket;
}

/*
 * One thread: a word for the result of an atomic on @l, until it is returned; @own if that
 * serves. NULL: *@status says why there is none.
 */
ORIEL_DEV uint64_t *ori_dev_rdma_take_word(const struct oriel_dev_link *l,
					   struct ori_dev_link_queue q, uint64_t *own,
					   enum oriel_status *status)
{
	struct ori_dev_link_wait_limits limits = ori_dev_link_limits(l, 0);
	struct ori_dev_link_waiter waiter = ori_dev_link_wait_begin(&limits);
	uint64_t taken;
	uint32_t i;

	*status = ORIEL_OK;
	if (!l->answers)
		return own;
	for (;;) {
		taken = ori_dev_load_relaxed_gpu(&l->answers->taken);
		for (i = 0; i < ORIEL_LINK_ANSWERS && taken >> i & 1; i++)
			;
		/* Acquires that the previous holder has read it. */
		if (i < ORIEL_LINK_ANSWERS &&
		    ori_dev_swap_acquire_gpu(&l->answers->taken, &taken, taken | (uint64_t)1 << i))
			return &l->answers->words[i];
		*status = ori_dev_link_wait_step(q, &waiter);
		if (*status != ORIEL_AGAIN)
			return NULL;
	}
}

/*
 * One thread: the address at which the NIC finds @word, which ori_dev_rdma_take_word() returned.
 */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_word(const struct oriel_dev_window *w,
							uint32_t peer, const uint64_t *word)
{
	const struct ori_dev_link_answers *answers = w->peers[peer].link->answers;
	struct ori_dev_rdma_address result;

	if (!answers || !answers->key)
		return ori_dev_rdma_local(w, peer, word, sizeof(*word), true);
	result.address = answers->address + (uint64_t)(word - answers->words) * sizeof(*word);
	result.key = (uint32_t)answers->key;
	return result;
}

/* One thread: the NIC does not write to @word any more. */
ORIEL_DEV void ori_dev_rdma_give_word(const struct oriel_dev_link *l, const uint64_t *word)
{
	if (l->answers)
		oriel_dev_add_release(&l->answers->taken,
				      0 - ((uint64_t)1 << (word - l->answers->words)));
}

/* Do atomics on the data of @peer take another link than its puts, and so another NIC? */
ORIEL_DEV bool ori_dev_rdma_has_other_agent(const struct oriel_dev_window *w, uint32_t peer)
{
	return w->inline_wide & ORIEL_DEV_ATOMICS_BY_NIC &&
	       w->peers[w->ranks + peer].link != w->peers[peer].link;
}

/*
 * Whole group: fence on every link of the window that is connected, also after one that fails:
 * its memory is the caller's again afterwards. @is_flush: the puts are visible as well.
 */
ORIEL_DEV enum oriel_status ori_dev_rdma_fence_all(const struct oriel_dev_window *w,
						   struct oriel_dev_group g, bool is_flush,
						   uint64_t timeout_ns)
{
	enum oriel_status status = ORIEL_OK, fenced;
	/* A unit without the code for that path has nothing to wait for. */
	uint32_t peer = ORIEL_DEV_PATHS >> ORIEL_PATH_RDMA & 1 ? 0 : w->ranks;

	for (; peer < w->ranks; peer++) {
		if (w->peers[peer].path != ORIEL_PATH_RDMA)
			continue;
		fenced = is_flush ? ori_dev_link_flush(w->peers[peer].link, g,
						       ori_dev_rdma_control(w, peer, 0),
						       ori_dev_rdma_has_other_agent(w, peer),
						       timeout_ns)
				  : ori_dev_link_fence(w->peers[peer].link, g, timeout_ns);
		if (status == ORIEL_OK)
			status = fenced;
	}
	return status;
}

#endif
