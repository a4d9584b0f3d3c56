/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/rdma_host.h"

#include <oriel/dev/order.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hca/syndrome.h"

#define HOST_DEPTH 128u
#define HOST_OPERATIONS 256u
#define HOST_IMMEDIATES 64u
#define HOST_PIECE (512u << 10)
#define HOST_PAGE 4096u
#define HOST_ENDS 16u /* that are taken at once */

/*
 * The requests of an operation are its @pieces, then what tells, if it has that.
 * @next is the first not posted, @left those that have not told their end.
 */
struct host_operation {
	uint8_t opcode; /* of the pieces */
	uint8_t teller; /* what tells, if has_teller */
	bool has_teller;
	bool is_spread; /* pieces on several queues, or what tells came later than they */
	uint64_t pieces, next, left;
	struct ori_host_move move;
	struct ori_host_place there; /* of what tells */
	uint64_t add;
	uint32_t immediate;
	uint64_t *old;
};

struct ori_host_link {
	struct ori_host_attr attr; /* without defaults */
	struct ori_hca_caps caps;
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qps[ORI_HOST_QUEUES];
	unsigned made;   /* of qps */
	uint64_t *words; /* [operations]: what atomics and flushes bring */
	struct ori_hca_mr *words_mr;
	uint32_t words_lkey;
	enum oriel_status failure;

	uint64_t done, posting, begun;
	uint64_t spread;                   /* behind the last operation that is on several queues */
	uint64_t fetched;                  /* ... and the last get */
	struct host_operation *operations; /* [operations] */

	uint64_t arrived, taken;
	uint32_t *immediates; /* [immediates] */
};

static struct host_operation *host_operation(const struct ori_host_link *link, uint64_t op)
{
	return &link->operations[op % link->attr.operations];
}

static void host_set_defaults(struct ori_host_link *link, const struct ori_host_attr *attr)
{
	link->attr = *attr;
	attr->ops->caps(attr->hca, &link->caps);
	if (!link->attr.queues)
		link->attr.queues = 1;
	if (!link->attr.depth)
		link->attr.depth = HOST_DEPTH;
	if (!link->attr.operations)
		link->attr.operations = HOST_OPERATIONS;
	if (!link->attr.immediates)
		link->attr.immediates = HOST_IMMEDIATES;
	if (!link->attr.piece)
		link->attr.piece = HOST_PIECE;
	if (link->attr.piece > link->caps.length_max)
		link->attr.piece = link->caps.length_max;
}

static size_t host_words_length(const struct ori_host_link *link)
{
	size_t length = link->attr.operations * sizeof(uint64_t);

	return (length + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
}

static enum oriel_status host_open_memory(struct ori_host_link *link)
{
	size_t length = host_words_length(link);
	struct ori_hca_keys keys;
	enum oriel_status st;

	link->operations = calloc(link->attr.operations, sizeof(*link->operations));
	link->immediates = calloc(link->attr.immediates, sizeof(*link->immediates));
	link->words = aligned_alloc(HOST_PAGE, length);
	if (!link->operations || !link->immediates || !link->words)
		return ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for a link of %u operations",
				link->caps.name, link->attr.operations);
	memset(link->words, 0, length);
	st = link->attr.ops->register_memory(link->attr.hca, link->words, length, 0,
					     ORI_HCA_LOCAL_WRITE, &link->words_mr, &keys);
	if (st == ORIEL_OK)
		link->words_lkey = keys.lkey;
	return st;
}

/* Receives are there before the peer can know of the queue. */
static enum oriel_status host_open_queue(struct ori_host_link *link, struct ori_host_end *end)
{
	const struct ori_hca_ops *ops = link->attr.ops;
	bool is_first = link->made == 0;
	struct ori_hca_qp_attr attr = {
		.depth = link->attr.depth,
		.send_cq = link->cq,
		.receive_cq = link->cq,
		.receives = is_first ? link->attr.immediates : 0,
	};
	struct ori_hca_qp_address address;
	enum oriel_status st;

	st = ops->create_qp(link->attr.hca, &attr, &link->qps[link->made], &address);
	if (st != ORIEL_OK)
		return st;
	end->of[link->made].qpn = address.qpn;
	end->of[link->made].psn = address.psn;
	link->made++;
	return is_first ? ops->post_receives(link->qps[0], link->attr.immediates) : ORIEL_OK;
}

static enum oriel_status host_open(struct ori_host_link *link, struct ori_host_end *end)
{
	struct ori_hca_cq_attr cq = {.depth = link->attr.queues * link->attr.depth +
					      link->attr.immediates};
	enum oriel_status st;
	uint32_t cqn;

	if (!link->caps.takes_posts)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s is not posted to by calls",
				link->caps.name);
	if (link->attr.queues > ORI_HOST_QUEUES)
		return ori_fail(ORIEL_ERR_RANGE, "a link has %u queues at most, not %u",
				ORI_HOST_QUEUES, link->attr.queues);
	/* A put and its signal need two places. */
	if (link->attr.depth < 2 || link->attr.depth > link->caps.depth_max)
		return ori_fail(ORIEL_ERR_RANGE, "%s: queues of %u requests, not 2 to %u",
				link->caps.name, link->attr.depth, link->caps.depth_max);
	st = host_open_memory(link);
	if (st == ORIEL_OK)
		st = link->attr.ops->create_cq(link->attr.hca, &cq, &link->cq, &cqn);
	while (st == ORIEL_OK && link->made < link->attr.queues)
		st = host_open_queue(link, end);
	return st;
}

enum oriel_status ori_host_create(const struct ori_host_attr *attr, struct ori_host_link **out,
				  struct ori_host_end *end)
{
	struct ori_host_link *link = calloc(1, sizeof(*link));
	struct ori_host_end made = {.version = ORI_HOST_VERSION};
	enum oriel_status st;

	if (!link)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a link");
	host_set_defaults(link, attr);
	made.queues = link->attr.queues;
	st = host_open(link, &made);
	if (st != ORIEL_OK) {
		ori_host_destroy(link);
		return st;
	}
	*end = made;
	*out = link;
	return ORIEL_OK;
}

enum oriel_status ori_host_connect(struct ori_host_link *link,
				   const struct ori_hca_qp_address *adapter,
				   const struct ori_host_end *end)
{
	enum oriel_status st = ORIEL_OK;

	if (end->version != ORI_HOST_VERSION)
		return ori_fail(ORIEL_ERR_VERSION,
				"%s: the link of the peer has version %u, not %u", link->caps.name,
				end->version, ORI_HOST_VERSION);
	if (end->queues != link->attr.queues)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: the link of the peer has %u queues, this end %u",
				link->caps.name, end->queues, link->attr.queues);
	for (unsigned i = 0; i < link->made && st == ORIEL_OK; i++) {
		struct ori_hca_qp_address address = *adapter;

		address.qpn = end->of[i].qpn;
		address.psn = end->of[i].psn;
		st = link->attr.ops->connect_qp(link->qps[i], &address);
	}
	return st;
}

void ori_host_destroy(struct ori_host_link *link)
{
	if (!link)
		return;
	while (link->made)
		link->attr.ops->destroy_qp(link->qps[--link->made]);
	if (link->cq)
		link->attr.ops->destroy_cq(link->cq);
	if (link->words_mr)
		link->attr.ops->unregister_memory(link->words_mr);
	free(link->words);
	free(link->immediates);
	free(link->operations);
	free(link);
}

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
	struct ori_hca_wr wr = {
		.opcode = o->opcode,
		.flags = ORI_HCA_SIGNALED,
		.local = o->move.here.address + at,
		.lkey = o->move.here.key,
		.remote = o->move.there.address + at,
		.rkey = o->move.there.key,
		.length = (uint32_t)(rest < link->attr.piece ? rest : link->attr.piece),
		.immediate = o->immediate,
	};

	return wr;
}

static struct ori_hca_wr host_teller(const struct ori_host_link *link,
				     const struct host_operation *o, uint64_t op)
{
	struct ori_hca_wr wr = {
		.opcode = o->teller,
		.flags = ORI_HCA_SIGNALED,
		.local = (op % link->attr.operations) * sizeof(uint64_t),
		.lkey = link->words_lkey,
		.remote = o->there.address,
		.rkey = o->there.key,
		.length = o->teller == ORI_HCA_WRITE_IMM ? 0 : sizeof(uint64_t),
		.operand = o->add,
		.immediate = o->immediate,
	};

	return wr;
}

/* What tells may follow at once only what is all on its own queue. */
static bool host_may_tell(const struct ori_host_link *link, const struct host_operation *o,
			  uint64_t op)
{
	if (link->done == op)
		return !o->is_spread || o->left == 1;
	return link->spread <= link->done && !o->is_spread;
}

/* One piece or what tells it, as many as go to one queue at once. ORIEL_AGAIN: no more now. */
static enum oriel_status host_post_some(struct ori_host_link *link, struct host_operation *o,
					uint64_t op)
{
	unsigned queue = (unsigned)(o->next % link->attr.queues), count = 0, posted = 0;
	bool is_telling = o->next == o->pieces;
	struct ori_hca_wr wrs[2];
	enum oriel_status st;

	if (is_telling || !o->is_spread)
		queue = 0;
	if (!is_telling)
		wrs[count++] = host_piece(link, o, o->next);
	if (o->next + count == o->pieces && o->has_teller && host_may_tell(link, o, op))
		wrs[count++] = host_teller(link, o, op);
	if (count == 0)
		return ORIEL_AGAIN;
	/* A READ may still take its bytes when what is behind it is done there. */
	if ((is_telling || count == 2) && link->fetched > link->done)
		wrs[count - 1].flags |= ORI_HCA_FENCE;
	/* A chain tells of its end only: where it is cut, the rest tells of all. */
	if (count == 2)
		wrs[0].flags = 0;
	for (unsigned i = 0; i < count; i++)
		wrs[i].id = op;
	st = link->attr.ops->post(link->qps[queue], wrs, count, &posted);
	for (unsigned i = 0; i < posted; i++)
		o->left -= !(wrs[i].flags & ORI_HCA_SIGNALED);
	o->next += posted;
	return st;
}

/* In their order: an operation that waits for room, or to tell, holds up those behind it. */
static enum oriel_status host_post(struct ori_host_link *link)
{
	while (link->posting < link->begun) {
		struct host_operation *o = host_operation(link, link->posting);
		enum oriel_status st = ORIEL_OK;

		while (o->next < host_requests(o) && st == ORIEL_OK)
			st = host_post_some(link, o, link->posting);
		if (st == ORIEL_AGAIN)
			return ORIEL_OK;
		if (st != ORIEL_OK)
			return host_fail(link, st);
		link->posting++;
	}
	return ORIEL_OK;
}

static void host_finish(struct ori_host_link *link, struct host_operation *o, uint64_t op)
{
	uint64_t word;

	if (!o->old)
		return;
	word = oriel_dev_load_acquire(&link->words[op % link->attr.operations]);
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

static enum oriel_status host_take_end(struct ori_host_link *link, const struct ori_hca_wc *wc)
{
	if (link->failure != ORIEL_OK)
		return link->failure;
	if (wc->status != ORIEL_OK)
		return host_fail(link,
				 ori_fail(wc->status, "%s: QP 0x%06x: %s (0x%02x, vendor 0x%x)",
					  link->caps.name, wc->qpn,
					  ori_mlx5_syndrome_text(wc->syndrome), wc->syndrome,
					  wc->vendor));
	if (wc->is_receive)
		link->immediates[link->arrived++ % link->attr.immediates] = wc->immediate;
	else
		host_operation(link, wc->id)->left--;
	return ORIEL_OK;
}

enum oriel_status ori_host_progress(struct ori_host_link *link)
{
	struct ori_hca_wc wcs[HOST_ENDS];
	unsigned count = HOST_ENDS;
	enum oriel_status st = link->failure;

	while (count == HOST_ENDS && st == ORIEL_OK) {
		st = link->attr.ops->poll(link->cq, wcs, HOST_ENDS, &count);
		if (st != ORIEL_OK)
			return host_fail(link, st);
		for (unsigned i = 0; i < count; i++)
			st = host_take_end(link, &wcs[i]);
		host_retire(link);
	}
	if (st != ORIEL_OK)
		return st;
	st = host_post(link);
	host_retire(link);
	return st;
}

/* Room for one more, zeroed, but for the length of its move. */
static enum oriel_status host_begin(struct ori_host_link *link, const struct ori_host_move *move,
				    enum ori_hca_opcode opcode, struct host_operation **o)
{
	uint64_t pieces = move ? (move->length + link->attr.piece - 1) / link->attr.piece : 0;

	if (link->failure != ORIEL_OK)
		return link->failure;
	if (link->begun - link->done == link->attr.operations)
		return ORIEL_AGAIN;
	*o = host_operation(link, link->begun);
	**o = (struct host_operation){.opcode = (uint8_t)opcode, .pieces = pieces};
	if (move)
		(*o)->move = *move;
	(*o)->is_spread = pieces > 1 && link->attr.queues > 1;
	return ORIEL_OK;
}

/* What cannot be posted now is when there is progress. */
static enum oriel_status host_commit(struct ori_host_link *link, struct host_operation *o,
				     uint64_t *op)
{
	uint64_t number = link->begun++;
	enum oriel_status st;

	o->left = host_requests(o);
	if (o->is_spread)
		link->spread = number + 1;
	if (o->opcode == ORI_HCA_READ)
		link->fetched = number + 1;
	st = host_post(link);
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
	if (there)
		o->there = *there;
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
