/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/rdma_host.h"

#include <oriel/dev/mlx5.h>
#include <oriel/dev/order.h>
#include <stdio.h>

#include "base/error.h"
#include "hca/syndrome.h"
#include "rdma/rdma_host_link.h"

#define HOST_ENDS 16u /* that are taken at once */

/* Whatever else is under way ends as well. */
static enum oriel_status host_fail(struct ori_host_link *link, enum oriel_status status)
{
	if (link->failure == ORIEL_OK)
		link->failure = status;
	for (unsigned i = 0; i < link->made; i++)
		link->attr.ops->fail_qp(link->qps[i]);
	return link->failure;
}

static uint64_t host_requests(const struct host_operation *o)
{
	return o->pieces + o->has_teller;
}

static struct ori_hca_wr host_piece(const struct ori_host_link *link,
				    const struct host_operation *o, uint64_t k)
{
	uint64_t at = k * link->attr.piece, rest = o->move.length - at;

	return (struct ori_hca_wr){
		.opcode = o->opcode,
		.flags = ORI_HCA_SIGNALED,
		.data = o->opcode == ORI_HCA_WRITE && o->move.data ? (const char *)o->move.data + at
								   : NULL,
		.local = o->move.here.address + at,
		.lkey = o->move.here.key,
		.remote = o->move.there.address + at,
		.rkey = o->move.there.key,
		.length = (uint32_t)(rest < link->attr.piece ? rest : link->attr.piece),
		.immediate = o->immediate,
	};
}

static struct ori_hca_wr host_teller(const struct ori_host_link *link,
				     const struct host_operation *o, uint64_t op)
{
	struct ori_hca_wr wr = {
		.opcode = o->teller,
		.flags = ORI_HCA_SIGNALED,
		.local = host_slot(link, op) * sizeof(uint64_t),
		.lkey = link->words_lkey,
		.remote = o->there.address,
		.rkey = o->there.key,
		.length = o->teller == ORI_HCA_WRITE_IMM ? 0 : sizeof(uint64_t),
		.operand = o->add,
		.immediate = o->immediate,
	};

	/* A READ may still take its bytes when what is behind it is done there. */
	if (link->fetched > link->done)
		wr.flags |= ORI_HCA_FENCE;
	return wr;
}

/* Whether the first queue alone still has something of @op and what was begun before it. */
static bool host_may_tell(struct ori_host_link *link, const struct host_operation *o, uint64_t op)
{
	if (link->attr.queues == 1)
		return true;
	if (link->clear < link->done)
		link->clear = link->done;
	while (link->clear < op && host_operation(link, link->clear)->aside == 0)
		link->clear++;
	return link->clear == op && o->aside == 0;
}

/*
 * The last piece goes by the first queue, so that what tells may follow at once when
 * the others are done. While that waits, nothing gets in front of it there.
 */
static unsigned host_queue(const struct ori_host_link *link, const struct host_operation *o)
{
	unsigned best = link->is_held;

	if (o->next + 1 == o->pieces && !link->is_held)
		return 0;
	for (unsigned i = best + 1; i < link->attr.queues; i++)
		if (link->load[i] < link->load[best])
			best = i;
	return best;
}

/* One request, or a chain of two of which the first one is quiet. */
static enum oriel_status host_hand_over(struct ori_host_link *link, struct host_operation *o,
					uint64_t op, unsigned queue, struct ori_hca_wr *wrs,
					unsigned count)
{
	unsigned posted, quiet;
	enum oriel_status st;

	wrs[0].id = wrs[count - 1].id = op * ORI_HOST_QUEUES + queue;
	st = link->attr.ops->post(link->qps[queue], wrs, count, &posted);
	quiet = count > 1 && posted > 0;
	o->left -= quiet;
	link->load[queue] += posted - quiet;
	o->next += posted;
	if (queue > 0)
		o->aside += posted;
	return st;
}

/* The next piece, and behind the last one what tells, if it may. */
static enum oriel_status host_post_piece(struct ori_host_link *link, struct host_operation *o,
					 uint64_t op)
{
	unsigned queue = host_queue(link, o), count = 1;
	struct ori_hca_wr wrs[2];

	wrs[0] = host_piece(link, o, o->next);
	if (o->has_teller && o->next + 1 == o->pieces && host_may_tell(link, o, op)) {
		wrs[count++] = host_teller(link, o, op);
		/* A chain tells of its end only: where it is cut, the rest tells of all. */
		wrs[0].flags &= ~ORI_HCA_SIGNALED;
	}
	return host_hand_over(link, o, op, queue, wrs, count);
}

static enum oriel_status host_post_teller(struct ori_host_link *link, struct host_operation *o,
					  uint64_t op)
{
	struct ori_hca_wr wr = host_teller(link, o, op);
	enum oriel_status st;

	link->is_held = !host_may_tell(link, o, op);
	link->held = op;
	if (link->is_held)
		return ORIEL_OK;
	st = host_hand_over(link, o, op, 0, &wr, 1);
	link->is_held = st == ORIEL_AGAIN;
	return st;
}

/* One piece that tells nothing, and nothing waits: by the first queue, as host_queue() says. */
static bool host_is_plain(const struct ori_host_link *link, const struct host_operation *o)
{
	return o->pieces == 1 && !o->has_teller && !link->is_held &&
	       link->posting + 1 == link->begun;
}

static enum oriel_status host_post_plain(struct ori_host_link *link, struct host_operation *o,
					 uint64_t op)
{
	struct ori_hca_wr wr = host_piece(link, o, 0);
	enum oriel_status st = host_hand_over(link, o, op, 0, &wr, 1);

	link->posting += st == ORIEL_OK;
	return st == ORIEL_OK || st == ORIEL_AGAIN ? ORIEL_OK : host_fail(link, st);
}

static enum oriel_status host_post_operation(struct ori_host_link *link, struct host_operation *o,
					     uint64_t op)
{
	enum oriel_status st = ORIEL_OK;

	while (o->next < o->pieces && st == ORIEL_OK)
		st = host_post_piece(link, o, op);
	if (st == ORIEL_OK && o->next < host_requests(o))
		st = host_post_teller(link, o, op);
	return st;
}

/* In their order: an operation that waits for room holds up those behind it. */
static enum oriel_status host_post(struct ori_host_link *link)
{
	enum oriel_status st = ORIEL_OK;

	if (link->is_held)
		st = host_post_teller(link, host_operation(link, link->held), link->held);
	while (link->posting < link->begun && st == ORIEL_OK) {
		struct host_operation *o = host_operation(link, link->posting);

		if (link->is_held && o->has_teller)
			break;
		st = host_post_operation(link, o, link->posting);
		link->posting += st == ORIEL_OK;
	}
	return st == ORIEL_OK || st == ORIEL_AGAIN ? ORIEL_OK : host_fail(link, st);
}

static void host_finish(struct ori_host_link *link, struct host_operation *o, uint64_t op)
{
	uint64_t word;

	if (!o->old)
		return;
	word = oriel_dev_load_acquire(&link->words[host_slot(link, op)]);
	*o->old = link->caps.is_atomic_host_endian ? word : oriel_dev_swap_bytes(word);
}

static void host_retire(struct ori_host_link *link)
{
	while (link->done < link->posting) {
		struct host_operation *o = host_operation(link, link->done);

		if (o->left)
			return;
		host_finish(link, o, link->done);
		link->done++;
	}
}

static void host_count_end(struct ori_host_link *link, uint64_t id)
{
	struct host_operation *o = host_operation(link, id / ORI_HOST_QUEUES);
	unsigned queue = id % ORI_HOST_QUEUES;

	o->left--;
	o->aside -= queue > 0;
	link->load[queue]--;
}

/* Of what this end had named itself it is told which memory that was. */
static enum oriel_status host_explain(struct ori_host_link *link, const struct ori_hca_wc *wc)
{
	const struct host_operation *o = host_operation(link, wc->id / ORI_HOST_QUEUES);
	char memory[80] = "";

	if (wc->syndrome == ORIEL_MLX5_LOCAL_PROTECTION && !wc->is_receive && o->pieces)
		snprintf(memory, sizeof(memory), ": %llu bytes at 0x%llx of this end",
			 (unsigned long long)o->move.length,
			 (unsigned long long)o->move.here.address);
	return ori_fail(wc->status, "%s: QP 0x%06x: %s (0x%02x, vendor 0x%x)%s", link->caps.name,
			wc->qpn, ori_mlx5_syndrome_text(wc->syndrome), wc->syndrome, wc->vendor,
			memory);
}

static enum oriel_status host_take_end(struct ori_host_link *link, const struct ori_hca_wc *wc)
{
	if (link->failure != ORIEL_OK)
		return link->failure;
	if (wc->status != ORIEL_OK)
		return host_fail(link, host_explain(link, wc));
	if (wc->is_receive)
		link->immediates[link->arrived++ % link->attr.immediates] = wc->immediate;
	else
		host_count_end(link, wc->id);
	return ORIEL_OK;
}

static enum oriel_status host_take_ends(struct ori_host_link *link)
{
	enum oriel_status st = ORIEL_OK;
	struct ori_hca_wc wcs[HOST_ENDS];
	unsigned count = HOST_ENDS;

	while (count == HOST_ENDS && st == ORIEL_OK) {
		st = link->attr.ops->poll(link->cq, wcs, HOST_ENDS, &count);
		if (st != ORIEL_OK)
			return host_fail(link, st);
		for (unsigned i = 0; i < count; i++)
			st = host_take_end(link, &wcs[i]);
	}
	return st;
}

enum oriel_status ori_host_progress(struct ori_host_link *link)
{
	enum oriel_status st = link->failure;

	if (st == ORIEL_OK)
		st = host_take_ends(link);
	host_retire(link);
	if (st != ORIEL_OK || (!link->is_held && link->posting == link->begun))
		return st;
	st = host_post(link);
	host_retire(link);
	return st;
}

static uint64_t host_pieces(const struct ori_host_link *link, uint64_t length)
{
	if (length <= link->attr.piece)
		return length > 0;
	return (length + link->attr.piece - 1) / link->attr.piece;
}

/* Room for one more, which does not tell. */
static enum oriel_status host_begin(struct ori_host_link *link, const struct ori_host_move *move,
				    enum ori_hca_opcode opcode, struct host_operation **o)
{
	if (link->failure != ORIEL_OK)
		return link->failure;
	if (link->begun - link->done == link->attr.operations)
		return ORIEL_AGAIN;
	*o = host_operation(link, link->begun);
	(*o)->opcode = (uint8_t)opcode;
	(*o)->has_teller = false;
	(*o)->immediate = 0;
	(*o)->pieces = (*o)->next = (*o)->aside = 0;
	(*o)->old = NULL;
	if (!move)
		return ORIEL_OK;
	(*o)->move = *move;
	(*o)->pieces = host_pieces(link, move->length);
	return ORIEL_OK;
}

/* What cannot be posted now is when there is progress. */
static enum oriel_status host_commit(struct ori_host_link *link, struct host_operation *o,
				     uint64_t *op)
{
	uint64_t number = link->begun++;
	enum oriel_status st;

	o->left = host_requests(o);
	if (o->opcode == ORI_HCA_READ)
		link->fetched = number + 1;
	st = host_is_plain(link, o) ? host_post_plain(link, o, number) : host_post(link);
	if (st != ORIEL_OK)
		return st;
	host_retire(link);
	*op = number;
	return ORIEL_OK;
}

static void host_tell(struct host_operation *o, enum ori_hca_opcode opcode,
		      const struct ori_host_place *there, uint64_t add)
{
	o->has_teller = true;
	o->teller = (uint8_t)opcode;
	o->add = add;
	o->there = there ? *there : (struct ori_host_place){0};
}

enum oriel_status ori_host_put(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status st = host_begin(link, move, ORI_HCA_WRITE, &o);

	return st == ORIEL_OK ? host_commit(link, o, op) : st;
}

enum oriel_status ori_host_get(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status st = host_begin(link, move, ORI_HCA_READ, &o);

	return st == ORIEL_OK ? host_commit(link, o, op) : st;
}

enum oriel_status ori_host_put_signal(struct ori_host_link *link, const struct ori_host_move *move,
				      const struct ori_host_place *signal, uint64_t add,
				      uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status st = host_begin(link, move, ORI_HCA_WRITE, &o);

	if (st != ORIEL_OK)
		return st;
	host_tell(o, ORI_HCA_FETCH_ADD, signal, add);
	return host_commit(link, o, op);
}

enum oriel_status ori_host_put_immediate(struct ori_host_link *link,
					 const struct ori_host_move *move, uint32_t immediate,
					 uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status st = host_begin(link, move, ORI_HCA_WRITE, &o);

	if (st != ORIEL_OK)
		return st;
	host_tell(o, ORI_HCA_WRITE_IMM, NULL, 0);
	o->immediate = immediate;
	return host_commit(link, o, op);
}

enum oriel_status ori_host_fetch_add(struct ori_host_link *link, const struct ori_host_place *there,
				     uint64_t add, uint64_t *old, uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status st = host_begin(link, NULL, ORI_HCA_WRITE, &o);

	if (st != ORIEL_OK)
		return st;
	host_tell(o, ORI_HCA_FETCH_ADD, there, add);
	o->old = old;
	return host_commit(link, o, op);
}

enum oriel_status ori_host_flush(struct ori_host_link *link, const struct ori_host_place *there,
				 uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status st = host_begin(link, NULL, ORI_HCA_WRITE, &o);

	if (st != ORIEL_OK)
		return st;
	host_tell(o, ORI_HCA_READ, there, 0);
	return host_commit(link, o, op);
}

enum oriel_status ori_host_test(struct ori_host_link *link, uint64_t op)
{
	enum oriel_status st;

	assert(op < link->begun);
	if (op < link->done)
		return ORIEL_OK;
	st = ori_host_progress(link);
	if (op < link->done)
		return ORIEL_OK;
	return st == ORIEL_OK ? ORIEL_AGAIN : st;
}

enum oriel_status ori_host_take(struct ori_host_link *link, uint32_t *immediate)
{
	enum oriel_status st = ORIEL_OK;

	if (link->taken == link->arrived)
		st = ori_host_progress(link);
	if (link->taken == link->arrived)
		return st == ORIEL_OK ? ORIEL_AGAIN : st;
	*immediate = link->immediates[link->taken++ % link->attr.immediates];
	if (link->failure == ORIEL_OK)
		st = link->attr.ops->post_receives(link->qps[0], 1);
	if (st != ORIEL_OK)
		host_fail(link, st);
	return ORIEL_OK;
}
