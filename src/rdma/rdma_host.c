/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that begin operations of a link that the host drives, take their completions
 * and the immediates of the peer. src/p2p calls it.
 */
#include "rdma/rdma_host.h"

#include <oriel/dev/detail/order.h>
#include <oriel/dev/detail/queue.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "hca/syndrome.h"
#include "rdma/rdma_host_link.h"

#define HOST_COMPLETIONS 16u /* that are taken at once */
#define HOST_ALIGN 64u       /* of pieces from the first byte on: no two share a line */

static void host_finish(struct ori_host_link *link, struct host_operation *o, uint64_t op)
{
	uint64_t word;

	if (!o->old)
		return;
	word = oriel_dev_load_acquire(&link->words[host_slot(link, op)]);
	*o->old = link->caps.is_atomic_host_endian ? word : ori_dev_swap_bytes(word);
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
	struct host_operation *o = host_operation(link, host_id_operation(id));
	unsigned queue = host_id_queue(id);

	o->left--;
	o->on_others -= queue > 0;
	link->queues[queue].load -= id & 1;
}

/* For a local protection error the text names the local memory of the operation. */
static enum oriel_status host_explain(struct ori_host_link *link, unsigned rail,
				      const struct ori_hca_wc *wc)
{
	const struct host_operation *o = host_operation(link, host_id_operation(wc->id));
	char memory[80] = "", on[16] = "";
	struct ori_hca_caps caps;

	link->attr.ops->caps(link->attr.hcas[rail], &caps);
	if (wc->syndrome == ORIEL_SYNDROME_LOCAL_PROTECTION && !wc->is_receive && o->pieces)
		snprintf(memory, sizeof(memory), ": %llu bytes at local address 0x%llx",
			 (unsigned long long)o->move.length,
			 (unsigned long long)o->move.local.address);
	if (link->attr.rails > 1)
		snprintf(on, sizeof(on), " (rail %u)", rail);
	return ori_fail(wc->status, "%s%s: QP 0x%06x: %s (0x%02x, vendor 0x%x)%s", caps.name, on,
			wc->qpn, ori_syndrome_text(wc->syndrome), wc->syndrome, wc->vendor, memory);
}

static enum oriel_status host_handle_failed(struct ori_host_link *link, unsigned rail,
					    const struct ori_hca_wc *wc)
{
	uint64_t op = wc->is_receive ? link->done : host_id_operation(wc->id);

	return ori_host_fail(link,
			     &(struct ori_host_failure){
				     .status = host_explain(link, rail, wc),
				     .rail = rail,
				     .qpn = wc->qpn,
				     .err = ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, wc->syndrome,
							      wc->vendor & 0xff, op),
			     });
}

/* @wc, of @rail, is an immediate or a part of one. */
static void host_receive(struct ori_host_link *link, unsigned rail, const struct ori_hca_wc *wc)
{
	unsigned queue = 0;

	while (queue + 1 < link->attr.queues &&
	       (link->queues[queue].qpn != wc->qpn || link->queues[queue].rail != rail))
		queue++;
	if (queue > 0)
		link->queues[queue].parts++;
	else
		link->immediates[link->arrived++ % link->attr.immediates] =
			(struct host_immediate){wc->immediate, wc->length > 0};
}

static enum oriel_status host_handle_completion(struct ori_host_link *link, unsigned rail,
						const struct ori_hca_wc *wc)
{
	if (link->failure.status != ORIEL_OK)
		return link->failure.status;
	if (wc->status != ORIEL_OK)
		return host_handle_failed(link, rail, wc);
	if (wc->is_receive)
		host_receive(link, rail, wc);
	else
		host_complete_request(link, wc->id);
	return ORIEL_OK;
}

static enum oriel_status host_poll_rail(struct ori_host_link *link, unsigned rail)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_hca_wc wcs[HOST_COMPLETIONS];
	unsigned count = HOST_COMPLETIONS;

	while (count == HOST_COMPLETIONS && status == ORIEL_OK) {
		status = link->calls->poll(link->cqs[rail], wcs, HOST_COMPLETIONS, &count);
		if (status != ORIEL_OK)
			return ori_host_fail(link,
					     &(struct ori_host_failure){
						     .status = status,
						     .rail = rail,
						     .qpn = link->queues[0].qpn,
						     .err = ori_dev_queue_err(ORIEL_QUEUE_STRAY_CQE,
									      0, 0, link->done),
					     });
		for (unsigned i = 0; i < count; i++)
			status = host_handle_completion(link, rail, &wcs[i]);
	}
	return status;
}

static enum oriel_status host_poll(struct ori_host_link *link)
{
	enum oriel_status status = ORIEL_OK;

	for (unsigned rail = 0; rail < link->attr.rails && status == ORIEL_OK; rail++)
		status = host_poll_rail(link, rail);
	return status;
}

enum oriel_status ori_host_progress(struct ori_host_link *link)
{
	enum oriel_status status = link->failure.status;

	if (status == ORIEL_OK)
		status = host_poll(link);
	host_retire(link);
	if (status != ORIEL_OK || (!link->is_held && link->posting == link->begun))
		return status;
	status = ori_host_post(link);
	host_retire(link);
	return status;
}

/*
 * All rails get a piece of an operation that is long enough to be faster by that, and no
 * piece is longer than a request may be.
 */
static void host_cut(const struct ori_host_link *link, struct host_operation *o)
{
	uint64_t length = o->move.length, share;

	o->piece = link->attr.piece;
	if (link->attr.rails > 1 && length >= link->attr.stripe) {
		share = (length + link->attr.rails - 1) / link->attr.rails;
		share = (share + HOST_ALIGN - 1) / HOST_ALIGN * HOST_ALIGN;
		if (share < o->piece)
			o->piece = (uint32_t)share;
	}
	o->pieces = length <= o->piece ? length > 0 : (length + o->piece - 1) / o->piece;
}

/* Makes room for one more operation, without a notification. */
static enum oriel_status host_begin(struct ori_host_link *link, const struct ori_host_move *move,
				    enum ori_hca_opcode opcode, struct host_operation **o)
{
	if (link->failure.status != ORIEL_OK)
		return link->failure.status;
	if (link->begun - link->done == link->attr.operations)
		return ORIEL_AGAIN;
	*o = host_operation(link, link->begun);
	(*o)->opcode = (uint8_t)opcode;
	(*o)->has_notify = (*o)->is_counted = false;
	(*o)->immediate = 0;
	(*o)->pieces = (*o)->next = (*o)->on_others = 0;
	(*o)->old = NULL;
	if (!move)
		return ORIEL_OK;
	(*o)->move = *move;
	host_cut(link, *o);
	return ORIEL_OK;
}

/* A request that cannot be posted now is posted by ori_host_progress(). */
static enum oriel_status host_commit(struct ori_host_link *link, struct host_operation *o,
				     uint64_t *op)
{
	uint64_t number = link->begun++;
	enum oriel_status status;

	if (o->opcode == ORI_HCA_READ)
		link->fetched = number + 1;
	status = ori_host_post_last(link, o, number);
	if (status != ORIEL_OK)
		return status;
	host_retire(link);
	*op = number;
	return ORIEL_OK;
}

static void host_set_notify(const struct ori_host_link *link, struct host_operation *o,
			    enum ori_hca_opcode opcode, const struct ori_host_address *remote,
			    uint64_t add)
{
	o->has_notify = true;
	o->notify_opcode = (uint8_t)opcode;
	o->add = add;
	o->remote = remote ? remote->address : 0;
	o->rkey = remote ? remote->keys.rail[link->attr.first_rail] : 0;
}

enum oriel_status ori_host_put(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status status = host_begin(link, move, ORI_HCA_WRITE, &o);

	if (status != ORIEL_OK)
		return status;
	if (move->is_flag) {
		assert(move->length == sizeof(o->add) && link->attr.queues == 1);
		memcpy(&o->add, move->data, sizeof(o->add));
		o->move.data = &o->add;
	}
	return host_commit(link, o, op);
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
	host_set_notify(link, o, ORI_HCA_FETCH_ADD, signal, add);
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
	host_set_notify(link, o, ORI_HCA_WRITE_IMM, NULL, 0);
	o->immediate = immediate;
	return host_commit(link, o, op);
}

enum oriel_status ori_host_fetch_add(struct ori_host_link *link,
				     const struct ori_host_address *remote, uint64_t add,
				     uint64_t *old, uint64_t *op)
{
	struct host_operation *o;
	enum oriel_status status = host_begin(link, NULL, ORI_HCA_WRITE, &o);

	assert(!old || !link->attr.sink_lkey);
	if (status != ORIEL_OK)
		return status;
	host_set_notify(link, o, ORI_HCA_FETCH_ADD, remote, add);
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
	host_set_notify(link, o, ORI_HCA_READ, remote, 0);
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

const struct ori_host_failure *ori_host_failure(const struct ori_host_link *link)
{
	return &link->failure;
}

uint64_t ori_host_done(const struct ori_host_link *link)
{
	return link->done;
}

uint32_t ori_host_in_flight(const struct ori_host_link *link)
{
	return link->failure.status == ORIEL_OK ? (uint32_t)(link->begun - link->done) : 0;
}

/* One more receive on @queue, for the immediate that was taken. */
static void host_post_receive(struct ori_host_link *link, const struct host_queue *queue)
{
	enum oriel_status status = link->calls->post_receives(queue->qp, 1);

	if (status != ORIEL_OK)
		ori_host_fail(link, &(struct ori_host_failure){
					    .status = status,
					    .rail = queue->rail,
					    .qpn = queue->qpn,
					    .err = ori_dev_queue_err(ORIEL_QUEUE_ABANDONED, 0, 0,
								     link->done),
				    });
}

bool ori_host_has_immediate(const struct ori_host_link *link)
{
	bool has = link->taken < link->arrived;

	if (!has || !link->immediates[link->taken % link->attr.immediates].is_counted)
		return has;
	for (unsigned i = 1; i < link->attr.queues; i++)
		has &= link->queues[i].parts > link->counted;
	return has;
}

enum oriel_status ori_host_take(struct ori_host_link *link, uint32_t *immediate)
{
	enum oriel_status status = ORIEL_OK;
	struct host_immediate next;
	unsigned queues;

	if (!ori_host_has_immediate(link))
		status = ori_host_progress(link);
	if (!ori_host_has_immediate(link))
		return status == ORIEL_OK ? ORIEL_AGAIN : status;
	next = link->immediates[link->taken++ % link->attr.immediates];
	link->counted += next.is_counted;
	queues = next.is_counted ? link->attr.queues : 1;
	for (unsigned i = 0; i < queues && link->failure.status == ORIEL_OK; i++)
		host_post_receive(link, &link->queues[i]);
	*immediate = next.value;
	return ORIEL_OK;
}
