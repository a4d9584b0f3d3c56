/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives a link by calls: cuts operations into requests, posts them in order, and takes
 * their completions. src/p2p calls it; rdma_host.h has the order that it keeps.
 */
#include "rdma/rdma_host.h"

#include <oriel/dev/mlx5.h>
#include <oriel/dev/order.h>
#include <stdio.h>

#include "base/error.h"
#include "hca/syndrome.h"
#include "rdma/rdma_host_link.h"

#define HOST_COMPLETIONS 16u /* that are taken at once */

/* All other operations in flight end as well. */
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
	return o->pieces + o->has_notify;
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
		.local = o->move.local.address + at,
		.lkey = o->move.local.key,
		.remote = o->move.remote.address + at,
		.rkey = o->move.remote.key,
		.length = (uint32_t)(rest < link->attr.piece ? rest : link->attr.piece),
		.immediate = o->immediate,
	};
}

static struct ori_hca_wr host_notify_wr(const struct ori_host_link *link,
					const struct host_operation *o, uint64_t op)
{
	struct ori_hca_wr wr = {
		.opcode = o->notify_opcode,
		.flags = ORI_HCA_SIGNALED,
		.local = host_slot(link, op) * sizeof(uint64_t),
		.lkey = link->words_lkey,
		.remote = o->remote.address,
		.rkey = o->remote.key,
		.length = o->notify_opcode == ORI_HCA_WRITE_IMM ? 0 : sizeof(uint64_t),
		.operand = o->add,
		.immediate = o->immediate,
	};

	/* A READ may still take its bytes when the request behind it is done at the target. */
	if (link->fetched > link->done)
		wr.flags |= ORI_HCA_FENCE;
	return wr;
}

/* Are all requests of @op and of earlier operations that are in flight on the first queue? */
static bool host_may_notify(struct ori_host_link *link, const struct host_operation *o, uint64_t op)
{
	if (link->attr.queues == 1)
		return true;
	if (link->clear < link->done)
		link->clear = link->done;
	while (link->clear < op && host_operation(link, link->clear)->on_others == 0)
		link->clear++;
	return link->clear == op && o->on_others == 0;
}

/*
 * The last piece goes by the first queue, so that its notification may follow at once
 * when the other pieces are done. While a notification waits, nothing overtakes it there.
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

/* Posts one request, or a chain of two of which the first one is unsignaled. */
static enum oriel_status host_hand_over(struct ori_host_link *link, struct host_operation *o,
					uint64_t op, unsigned queue, struct ori_hca_wr *wrs,
					unsigned count)
{
	unsigned posted, unsignaled;
	enum oriel_status status;

	wrs[0].id = wrs[count - 1].id = op * ORI_HOST_QUEUES + queue;
	status = link->calls->post(link->qps[queue], wrs, count, &posted);
	unsignaled = count > 1 && posted > 0;
	o->left -= unsignaled;
	link->load[queue] += posted - unsignaled;
	o->next += posted;
	if (queue > 0)
		o->on_others += posted;
	return status;
}

/* Posts the next piece, and behind the last one the notification, if it may. */
static enum oriel_status host_post_piece(struct ori_host_link *link, struct host_operation *o,
					 uint64_t op)
{
	unsigned queue = host_queue(link, o), count = 1;
	struct ori_hca_wr wrs[2];

	wrs[0] = host_piece(link, o, o->next);
	if (o->has_notify && o->next + 1 == o->pieces && host_may_notify(link, o, op)) {
		wrs[count++] = host_notify_wr(link, o, op);
		/*
		 * Only the last request of a chain is signaled: where the queue cuts the
		 * chain, the rest covers all.
		 */
		wrs[0].flags &= ~ORI_HCA_SIGNALED;
	}
	return host_hand_over(link, o, op, queue, wrs, count);
}

static enum oriel_status host_post_notify(struct ori_host_link *link, struct host_operation *o,
					  uint64_t op)
{
	struct ori_hca_wr wr = host_notify_wr(link, o, op);
	enum oriel_status status;

	link->is_held = !host_may_notify(link, o, op);
	link->held = op;
	if (link->is_held)
		return ORIEL_OK;
	status = host_hand_over(link, o, op, 0, &wr, 1);
	link->is_held = status == ORIEL_AGAIN;
	return status;
}

/*
 * One piece without a notification, and nothing waits: it goes by the first queue, as
 * host_queue() says.
 */
static bool host_is_plain(const struct ori_host_link *link, const struct host_operation *o)
{
	return o->pieces == 1 && !o->has_notify && !link->is_held &&
	       link->posting + 1 == link->begun;
}

static enum oriel_status host_post_plain(struct ori_host_link *link, struct host_operation *o,
					 uint64_t op)
{
	struct ori_hca_wr wr = host_piece(link, o, 0);
	enum oriel_status status = host_hand_over(link, o, op, 0, &wr, 1);

	link->posting += status == ORIEL_OK;
	return status == ORIEL_OK || status == ORIEL_AGAIN ? ORIEL_OK : host_fail(link, status);
}

static enum oriel_status host_post_operation(struct ori_host_link *link, struct host_operation *o,
					     uint64_t op)
{
	enum oriel_status status = ORIEL_OK;

	while (o->next < o->pieces && status == ORIEL_OK)
		status = host_post_piece(link, o, op);
	if (status == ORIEL_OK && o->next < host_requests(o))
		status = host_post_notify(link, o, op);
	return status;
}

/* In their order: an operation that waits for room holds up those behind it. */
static enum oriel_status host_post(struct ori_host_link *link)
{
	enum oriel_status status = ORIEL_OK;

	if (link->is_held)
		status = host_post_notify(link, host_operation(link, link->held), link->held);
	while (link->posting < link->begun && status == ORIEL_OK) {
		struct host_operation *o = host_operation(link, link->posting);

		if (link->is_held && o->has_notify)
			break;
		status = host_post_operation(link, o, link->posting);
		link->posting += status == ORIEL_OK;
	}
	return status == ORIEL_OK || status == ORIEL_AGAIN ? ORIEL_OK : host_fail(link, status);
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

static void host_complete_request(struct ori_host_link *link, uint64_t id)
{
	struct host_operation *o = host_operation(link, id / ORI_HOST_QUEUES);
	unsigned queue = id % ORI_HOST_QUEUES;

	o->left--;
	o->on_others -= queue > 0;
	link->load[queue]--;
}

/* For a local protection error the text names the local memory of the operation. */
static enum oriel_status host_explain(struct ori_host_link *link, const struct ori_hca_wc *wc)
{
	const struct host_operation *o = host_operation(link, wc->id / ORI_HOST_QUEUES);
	char memory[80] = "";

	if (wc->syndrome == ORIEL_MLX5_LOCAL_PROTECTION && !wc->is_receive && o->pieces)
		snprintf(memory, sizeof(memory), ": %llu bytes at local address 0x%llx",
			 (unsigned long long)o->move.length,
			 (unsigned long long)o->move.local.address);
	return ori_fail(wc->status, "%s: QP 0x%06x: %s (0x%02x, vendor 0x%x)%s", link->caps.name,
			wc->qpn, ori_mlx5_syndrome_text(wc->syndrome), wc->syndrome, wc->vendor,
			memory);
}

static enum oriel_status host_handle_completion(struct ori_host_link *link,
						const struct ori_hca_wc *wc)
{
	if (link->failure != ORIEL_OK)
		return link->failure;
	if (wc->status != ORIEL_OK)
		return host_fail(link, host_explain(link, wc));
	if (wc->is_receive)
		link->immediates[link->arrived++ % link->attr.immediates] = wc->immediate;
	else
		host_complete_request(link, wc->id);
	return ORIEL_OK;
}

static enum oriel_status host_poll(struct ori_host_link *link)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_hca_wc wcs[HOST_COMPLETIONS];
	unsigned count = HOST_COMPLETIONS;

	while (count == HOST_COMPLETIONS && status == ORIEL_OK) {
		status = link->calls->poll(link->cq, wcs, HOST_COMPLETIONS, &count);
		if (status != ORIEL_OK)
			return host_fail(link, status);
		for (unsigned i = 0; i < count; i++)
			status = host_handle_completion(link, &wcs[i]);
	}
	return status;
}

enum oriel_status ori_host_progress(struct ori_host_link *link)
{
	enum oriel_status status = link->failure;

	if (status == ORIEL_OK)
		status = host_poll(link);
	host_retire(link);
	if (status != ORIEL_OK || (!link->is_held && link->posting == link->begun))
		return status;
	status = host_post(link);
	host_retire(link);
	return status;
}

static uint64_t host_pieces(const struct ori_host_link *link, uint64_t length)
{
	if (length <= link->attr.piece)
		return length > 0;
	return (length + link->attr.piece - 1) / link->attr.piece;
}

/* Makes room for one more operation, without a notification. */
static enum oriel_status host_begin(struct ori_host_link *link, const struct ori_host_move *move,
				    enum ori_hca_opcode opcode, struct host_operation **o)
{
	if (link->failure != ORIEL_OK)
		return link->failure;
	if (link->begun - link->done == link->attr.operations)
		return ORIEL_AGAIN;
	*o = host_operation(link, link->begun);
	(*o)->opcode = (uint8_t)opcode;
	(*o)->has_notify = false;
	(*o)->immediate = 0;
	(*o)->pieces = (*o)->next = (*o)->on_others = 0;
	(*o)->old = NULL;
	if (!move)
		return ORIEL_OK;
	(*o)->move = *move;
	(*o)->pieces = host_pieces(link, move->length);
	return ORIEL_OK;
}

/* A request that cannot be posted now is posted by ori_host_progress(). */
static enum oriel_status host_commit(struct ori_host_link *link, struct host_operation *o,
				     uint64_t *op)
{
	uint64_t number = link->begun++;
	enum oriel_status status;

	o->left = host_requests(o);
	if (o->opcode == ORI_HCA_READ)
		link->fetched = number + 1;
	status = host_is_plain(link, o) ? host_post_plain(link, o, number) : host_post(link);
	if (status != ORIEL_OK)
		return status;
	host_retire(link);
	*op = number;
	return ORIEL_OK;
}

static void host_set_notify(struct host_operation *o, enum ori_hca_opcode opcode,
			    const struct ori_host_address *remote, uint64_t add)
{
	o->has_notify = true;
	o->notify_opcode = (uint8_t)opcode;
	o->add = add;
	o->remote = remote ? *remote : (struct ori_host_address){0};
}

enum oriel_status ori_host_put(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status status = host_begin(link, move, ORI_HCA_WRITE, &o);

	return status == ORIEL_OK ? host_commit(link, o, op) : status;
}

enum oriel_status ori_host_get(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status status = host_begin(link, move, ORI_HCA_READ, &o);

	return status == ORIEL_OK ? host_commit(link, o, op) : status;
}

enum oriel_status ori_host_put_signal(struct ori_host_link *link, const struct ori_host_move *move,
				      const struct ori_host_address *signal, uint64_t add,
				      uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status status = host_begin(link, move, ORI_HCA_WRITE, &o);

	if (status != ORIEL_OK)
		return status;
	host_set_notify(o, ORI_HCA_FETCH_ADD, signal, add);
	return host_commit(link, o, op);
}

enum oriel_status ori_host_put_immediate(struct ori_host_link *link,
					 const struct ori_host_move *move, uint32_t immediate,
					 uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status status = host_begin(link, move, ORI_HCA_WRITE, &o);

	if (status != ORIEL_OK)
		return status;
	host_set_notify(o, ORI_HCA_WRITE_IMM, NULL, 0);
	o->immediate = immediate;
	return host_commit(link, o, op);
}

enum oriel_status ori_host_fetch_add(struct ori_host_link *link,
				     const struct ori_host_address *remote, uint64_t add,
				     uint64_t *old, uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status status = host_begin(link, NULL, ORI_HCA_WRITE, &o);

	if (status != ORIEL_OK)
		return status;
	host_set_notify(o, ORI_HCA_FETCH_ADD, remote, add);
	o->old = old;
	return host_commit(link, o, op);
}

enum oriel_status ori_host_flush(struct ori_host_link *link, const struct ori_host_address *remote,
				 uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status status = host_begin(link, NULL, ORI_HCA_WRITE, &o);

	if (status != ORIEL_OK)
		return status;
	host_set_notify(o, ORI_HCA_READ, remote, 0);
	return host_commit(link, o, op);
}

enum oriel_status ori_host_test(struct ori_host_link *link, uint64_t op)
{
	enum oriel_status status;

	assert(op < link->begun);
	if (op < link->done)
		return ORIEL_OK;
	status = ori_host_progress(link);
	if (op < link->done)
		return ORIEL_OK;
	return status == ORIEL_OK ? ORIEL_AGAIN : status;
}

enum oriel_status ori_host_take(struct ori_host_link *link, uint32_t *immediate)
{
	enum oriel_status status = ORIEL_OK;

	if (link->taken == link->arrived)
		status = ori_host_progress(link);
	if (link->taken == link->arrived)
		return status == ORIEL_OK ? ORIEL_AGAIN : status;
	*immediate = link->immediates[link->taken++ % link->attr.immediates];
	if (link->failure == ORIEL_OK)
		status = link->calls->post_receives(link->qps[0], 1);
	if (status != ORIEL_OK)
		host_fail(link, status);
	return ORIEL_OK;
}
