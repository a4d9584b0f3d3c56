/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes of the proxy: entries of a ring become requests of a queue pair. The proxy's
 * thread steps them, and posters that do its work (rdma_proxy_thread.c).
 */
#include "rdma/rdma_proxy.h"

#include <stdlib.h>

#include "base/error.h"

#define PROXY_CHAIN 16u       /* requests that are posted at once */
#define PROXY_BUDGET 64u      /* entries, and requests, of one step */
#define PROXY_COMPLETIONS 16u /* that are taken at once */

/* An entry that has been taken. */
struct proxy_copy {
	struct ori_dev_proxy_entry of;
	struct ori_proxy_sge sge; /* once it is found */
	bool has_sge;
	uint64_t loop_op; /* on the loopback link, once it is begun there */
};

/*
 * Entries are taken, posted, ended and completed in their order. A COUNT is not posted to
 * the queue pair: the loopback link increments its counter when all entries before it
 * have ended. The read flush of a result goes the same way.
 *   completed <= looped <= ended <= posted <= tail <= completed + depth
 * An entry that is longer than a request becomes several; @offset bytes of the first entry
 * that is not wholly posted have been posted. The id of a request is twice the index of its
 * entry, plus 1 if it is the entry's last.
 */
struct ori_proxy_lane {
	struct ori_proxy_lane_attr attr;
	const struct ori_hca_calls *calls; /* of attr.ops */
	uint64_t mask;                     /* depth of the ring - 1 */
	unsigned unsignaled_max;
	uint64_t published; /* where the last post that was seen ends */
	uint64_t tail, posted, ended, looped, completed;
	uint64_t offset;
	unsigned unsignaled; /* requests since the last signaled one */
	uint64_t flaw;       /* the error it dies of once all that is posted is done; 0 if none */
	bool is_dead;
	struct proxy_copy copies[]; /* [depth] */
};

static struct proxy_copy *proxy_copy(struct ori_proxy_lane *lane, uint64_t index)
{
	return &lane->copies[index & lane->mask];
}

static bool proxy_is_count(const struct proxy_copy *c)
{
	return ori_dev_proxy_opcode(&c->of) == ORIEL_PROXY_COUNT;
}

/* Does the loopback link do a part of it? */
static bool proxy_needs_loopback(const struct ori_proxy_lane *lane, const struct proxy_copy *c)
{
	uint32_t opcode = ori_dev_proxy_opcode(&c->of);

	return opcode == ORIEL_PROXY_COUNT ||
	       (lane->attr.flush_word.key &&
		(opcode == ORIEL_PROXY_READ || opcode == ORIEL_PROXY_FETCH_ADD ||
		 opcode == ORIEL_PROXY_COMPARE_SWAP));
}

enum oriel_status ori_proxy_lane_open(const struct ori_proxy_lane_attr *attr,
				      struct ori_proxy_lane **out)
{
	size_t depth = (size_t)1 << attr->log_depth;
	struct ori_proxy_lane *lane = calloc(1, sizeof(*lane) + depth * sizeof(lane->copies[0]));

	if (!lane)
		return ori_fail_nomem(sizeof(*lane) + depth * sizeof(lane->copies[0]),
				      "a proxy of %zu entries", depth);
	lane->attr = *attr;
	lane->calls = attr->ops->calls;
	lane->mask = depth - 1;
	/* A queue that is full always has a signaled request. */
	lane->unsignaled_max = attr->depth / 4;
	if (lane->unsignaled_max > PROXY_CHAIN)
		lane->unsignaled_max = PROXY_CHAIN;
	*out = lane;
	return ORIEL_OK;
}

void ori_proxy_lane_close(struct ori_proxy_lane *lane)
{
	assert(!lane || lane->is_dead || lane->completed == lane->tail);
	free(lane);
}

static uint64_t proxy_err(uint32_t syndrome, uint32_t vendor, uint64_t index)
{
	return ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, syndrome, vendor & 0xff, index);
}

/* The entries behind an acquired stamp are as they were when it was released. */
static uint32_t proxy_peek(const struct ori_proxy_lane *lane)
{
	const struct ori_dev_proxy_entry *slot = &lane->attr.entries[lane->tail & lane->mask];

	return ori_dev_proxy_stamp_count(oriel_dev_load_acquire(&slot->stamp), lane->tail);
}

static bool proxy_take(struct ori_proxy_lane *lane)
{
	uint64_t begin = lane->tail, end = lane->completed + lane->mask + 1;

	if (end > begin + PROXY_BUDGET)
		end = begin + PROXY_BUDGET;
	for (; lane->tail < end; lane->tail++) {
		struct proxy_copy *c = proxy_copy(lane, lane->tail);

		if (lane->tail == lane->published)
			lane->published += proxy_peek(lane);
		if (lane->tail == lane->published)
			break;
		/*
		 * The other members are valid once has_sge is, or once it was begun on
		 * the loopback link.
		 */
		c->of = lane->attr.entries[lane->tail & lane->mask];
		c->has_sge = false;
	}
	/* Acquired in ori_dev_proxy_make_room(): the slots have been read. */
	if (lane->tail != begin)
		oriel_dev_store_release(&lane->attr.words->tail, lane->tail);
	return lane->tail != begin;
}

/* Finds the memory of @c; changes nothing for an entry that needs none. */
static enum oriel_status proxy_find(struct ori_proxy_lane *lane, struct proxy_copy *c)
{
	const struct ori_proxy_memory *memory = &lane->attr.memory;
	uint32_t opcode = ori_dev_proxy_opcode(&c->of), key = (uint32_t)c->of.keys;
	enum oriel_status status;

	if (c->has_sge)
		return ORIEL_OK;
	if (key != ORIEL_PROXY_LOOKUP) {
		c->sge = (struct ori_proxy_sge){.address = c->of.local, .key = key};
		/* The key of memory that NICs do not reach. */
		status = key ? ORIEL_OK : ORIEL_ERR_ACCESS;
	} else {
		status = memory->find(memory->context, c->of.local, ori_dev_proxy_length(&c->of),
				      opcode != ORIEL_PROXY_WRITE, &c->sge);
	}
	c->has_sge = status == ORIEL_OK;
	return status;
}

/* Makes the request without its local memory, if it has any. */
static enum oriel_status proxy_translate(struct ori_proxy_lane *lane, struct proxy_copy *c,
					 struct ori_hca_wr *wr)
{
	static const uint8_t opcodes[] = {
		[ORIEL_PROXY_WRITE] = ORI_HCA_WRITE,
		[ORIEL_PROXY_WRITE_VALUE] = ORI_HCA_WRITE,
		[ORIEL_PROXY_READ] = ORI_HCA_READ,
		[ORIEL_PROXY_ADD] = ORI_HCA_FETCH_ADD,
		[ORIEL_PROXY_FETCH_ADD] = ORI_HCA_FETCH_ADD,
		[ORIEL_PROXY_READ_FLUSH] = ORI_HCA_READ,
		[ORIEL_PROXY_COMPARE_SWAP] = ORI_HCA_CAS,
	};
	uint32_t opcode = ori_dev_proxy_opcode(&c->of), length = ori_dev_proxy_length(&c->of);

	if (opcode == ORIEL_PROXY_NOTHING || opcode == ORIEL_PROXY_COUNT ||
	    opcode >= sizeof(opcodes))
		return ORIEL_ERR_INVALID;
	*wr = (struct ori_hca_wr){
		.remote = c->of.remote,
		.rkey = (uint32_t)(c->of.keys >> 32),
		.length = length,
		.operand = c->of.operand,
		.compare = c->of.compare,
		.opcode = opcodes[opcode],
	};
	if (opcode == ORIEL_PROXY_ADD || opcode == ORIEL_PROXY_READ_FLUSH) {
		wr->lkey = lane->attr.sink_lkey;
		return ORIEL_OK;
	}
	if (opcode == ORIEL_PROXY_WRITE_VALUE) {
		wr->data = &c->of.operand;
		return ORIEL_OK;
	}
	return length ? proxy_find(lane, c) : ORIEL_OK;
}

/* The part of entry @index from @offset on that goes into one request. */
static enum oriel_status proxy_make(struct ori_proxy_lane *lane, uint64_t index, uint64_t offset,
				    struct ori_hca_wr *wr)
{
	struct proxy_copy *c = proxy_copy(lane, index);
	enum oriel_status status = proxy_translate(lane, c, wr);
	uint64_t rest;

	if (status != ORIEL_OK)
		return status;
	if (c->has_sge) {
		wr->local = c->sge.address + offset;
		wr->lkey = c->sge.key;
		wr->remote += offset;
	}
	if (c->has_sge && c->sge.data && wr->opcode == ORI_HCA_WRITE)
		wr->data = (const char *)c->sge.data + offset;
	rest = wr->length - offset;
	wr->id = index << 1 | (rest <= lane->attr.length_max);
	wr->length = (uint32_t)(rest < lane->attr.length_max ? rest : lane->attr.length_max);
	return ORIEL_OK;
}

/* Must entry @index wait for those before it, @made of which are still to be posted? */
static bool proxy_is_held(struct ori_proxy_lane *lane, uint64_t index, unsigned made)
{
	return ori_dev_proxy_fence(&proxy_copy(lane, index)->of) == ORIEL_PROXY_FENCE_ALL &&
	       (made || lane->ended < index);
}

/*
 * Makes the chain of requests that may be posted now, from lane->posted on; returns their
 * count.
 */
static unsigned proxy_chain(struct ori_proxy_lane *lane, struct ori_hca_wr *wrs)
{
	uint64_t index = lane->posted, offset = lane->offset;
	enum oriel_status status = ORIEL_OK;
	unsigned made = 0, unsignaled = lane->unsignaled;

	while (made < PROXY_CHAIN && index < lane->tail) {
		if (proxy_is_count(proxy_copy(lane, index))) {
			index++;
			continue;
		}
		if (!offset && proxy_is_held(lane, index, made))
			break;
		status = proxy_make(lane, index, offset, &wrs[made]);
		if (status != ORIEL_OK)
			break;
		if (++unsignaled > lane->unsignaled_max) {
			wrs[made].flags |= ORI_HCA_SIGNALED;
			unsignaled = 0;
		}
		offset = wrs[made].id & 1 ? 0 : offset + wrs[made].length;
		index += wrs[made++].id & 1;
	}
	if (made)
		wrs[made - 1].flags |= ORI_HCA_SIGNALED;
	else if (status != ORIEL_OK && status != ORIEL_AGAIN)
		lane->flaw =
			proxy_err(status == ORIEL_ERR_INVALID ? ORIEL_SYNDROME_LOCAL_OPERATION
							      : ORIEL_SYNDROME_LOCAL_PROTECTION,
				  0, index);
	return made;
}

static void proxy_advance(struct ori_proxy_lane *lane, const struct ori_hca_wr *wrs,
			  unsigned posted)
{
	unsigned i;

	for (i = 0; i < posted; i++) {
		lane->unsignaled = wrs[i].flags & ORI_HCA_SIGNALED ? 0 : lane->unsignaled + 1;
		lane->offset = wrs[i].id & 1 ? 0 : lane->offset + wrs[i].length;
		lane->posted = (wrs[i].id >> 1) + (wrs[i].id & 1);
	}
}

/* COUNTs take no request: those at the front count as posted, and as ended. */
static void proxy_skip_counts(struct ori_proxy_lane *lane)
{
	while (lane->posted < lane->tail && proxy_is_count(proxy_copy(lane, lane->posted)))
		lane->posted++;
	while (lane->ended < lane->posted && proxy_is_count(proxy_copy(lane, lane->ended)))
		lane->ended++;
}

static bool proxy_post(struct ori_proxy_lane *lane)
{
	struct ori_hca_wr wrs[PROXY_CHAIN];
	enum oriel_status status = ORIEL_OK;
	unsigned made, posted, budget;

	for (budget = PROXY_BUDGET; budget >= PROXY_CHAIN && !lane->flaw; budget -= made) {
		proxy_skip_counts(lane);
		if (lane->posted == lane->tail)
			break;
		made = proxy_chain(lane, wrs);
		if (!made)
			break;
		status = lane->calls->post(lane->attr.qp, wrs, made, &posted);
		proxy_advance(lane, wrs, posted);
		if (status == ORIEL_OK)
			continue;
		if (status != ORIEL_AGAIN)
			lane->flaw = proxy_err(ORIEL_SYNDROME_LOCAL_OPERATION, 0, lane->posted);
		return posted > 0;
	}
	return budget < PROXY_BUDGET;
}

/* The caller may use the memory of @c again. */
static void proxy_release(struct ori_proxy_lane *lane, struct proxy_copy *c, bool is_done)
{
	const struct ori_proxy_memory *memory = &lane->attr.memory;

	if (c->has_sge && c->sge.ref)
		memory->release(memory->context, &c->sge, is_done);
	c->has_sge = false;
}

static enum oriel_status proxy_loopback(struct ori_proxy_lane *lane, struct proxy_copy *c)
{
	struct ori_host_address counter = {c->of.remote, {{(uint32_t)(c->of.keys >> 32)}}},
				flush = {lane->attr.flush_word.address,
					 {{lane->attr.flush_word.key}}};

	if (proxy_is_count(c))
		return ori_host_fetch_add(lane->attr.loopback, &counter, c->of.operand, NULL,
					  &c->loop_op);
	return ori_host_flush(lane->attr.loopback, &flush, &c->loop_op);
}

static void proxy_post_loopback(struct ori_proxy_lane *lane)
{
	for (; lane->looped < lane->ended; lane->looped++) {
		struct proxy_copy *c = proxy_copy(lane, lane->looped);

		if (proxy_needs_loopback(lane, c) && proxy_loopback(lane, c) != ORIEL_OK)
			return;
	}
}

/* Completes up to the first entry whose loopback operation is not done. */
static bool proxy_complete(struct ori_proxy_lane *lane)
{
	uint64_t begin = lane->completed, looped = ori_host_done(lane->attr.loopback);

	for (; lane->completed < lane->looped; lane->completed++) {
		struct proxy_copy *c = proxy_copy(lane, lane->completed);

		if (proxy_needs_loopback(lane, c) && c->loop_op >= looped)
			break;
		proxy_release(lane, c, true);
	}
	/* Acquired in ori_dev_proxy_progress(). */
	if (lane->completed != begin)
		oriel_dev_store_release(&lane->attr.words->completed, lane->completed);
	return lane->completed != begin;
}

/*
 * Takes the requests that ended before the queue was flushed; returns the error of the
 * first one that failed, or @err.
 */
static uint64_t proxy_collect(struct ori_proxy_lane *lane, uint64_t err)
{
	struct ori_hca_wc wcs[PROXY_COMPLETIONS];
	unsigned count, i;

	while (lane->calls->poll(lane->attr.cq, wcs, PROXY_COMPLETIONS, &count) == ORIEL_OK &&
	       count)
		for (i = 0; i < count; i++) {
			lane->ended = wcs[i].id >> 1;
			if (wcs[i].status == ORIEL_OK)
				lane->ended += wcs[i].id & 1;
			else if (wcs[i].syndrome == ORIEL_SYNDROME_FLUSHED)
				return err;
			else
				return proxy_err(wcs[i].syndrome, wcs[i].vendor, lane->ended);
		}
	return err;
}

/* The store to err releases them. */
static void proxy_report_failed(struct ori_dev_proxy_words *words,
				const struct ori_dev_proxy_entry *e)
{
	oriel_dev_store_relaxed(&words->failed, ori_dev_proxy_opcode(e));
	oriel_dev_store_relaxed(&words->failed_at, e->local);
	oriel_dev_store_relaxed(&words->failed_length, ori_dev_proxy_length(e));
}

/*
 * Ends the lane with @err, which names an entry; @is_drained: all completions before it
 * have been taken.
 */
static void proxy_die(struct ori_proxy_lane *lane, uint64_t err, bool is_drained)
{
	struct ori_dev_proxy_words *words = lane->attr.words;
	uint64_t index;

	if (lane->is_dead)
		return;
	lane->is_dead = true;
	lane->attr.ops->fail_qp(lane->attr.qp);
	if (!is_drained)
		err = proxy_collect(lane, err);
	proxy_skip_counts(lane);
	proxy_post_loopback(lane);
	ori_loopback_drain(lane->attr.loopback);
	(void)proxy_complete(lane);
	index = ori_dev_queue_err_index(err);
	if (index < lane->tail)
		proxy_report_failed(words, &proxy_copy(lane, index)->of);
	/* Acquired in ori_dev_proxy_progress(), with completed and failed. */
	oriel_dev_store_release(&words->err, err);
	for (index = lane->completed; index < lane->tail; index++)
		proxy_release(lane, proxy_copy(lane, index), false);
	/* Acquired in ori_dev_proxy_is_over(): the NIC's writes came before. */
	oriel_dev_store_release(&words->is_over, 1);
}

static void proxy_handle(struct ori_proxy_lane *lane, const struct ori_hca_wc *wc)
{
	uint64_t index = wc->id >> 1;

	if (lane->is_dead)
		return;
	lane->ended = index;
	if (wc->status == ORIEL_OK)
		lane->ended += wc->id & 1;
	else
		proxy_die(lane, proxy_err(wc->syndrome, wc->vendor, index), true);
}

/* Is there a completion to be expected? */
static bool proxy_has_posted(const struct ori_proxy_lane *lane)
{
	return lane->ended != lane->posted || lane->offset;
}

static bool proxy_poll(struct ori_proxy_lane *lane)
{
	struct ori_hca_wc wcs[PROXY_COMPLETIONS];
	unsigned budget, count = 0, i;

	for (budget = PROXY_BUDGET; budget && !lane->is_dead; budget -= count) {
		if (!proxy_has_posted(lane))
			break;
		if (lane->calls->poll(lane->attr.cq, wcs, PROXY_COMPLETIONS, &count) != ORIEL_OK)
			proxy_die(lane, proxy_err(ORIEL_SYNDROME_LOCAL_OPERATION, 0, lane->ended),
				  true);
		if (lane->is_dead || !count)
			break;
		for (i = 0; i < count; i++)
			proxy_handle(lane, &wcs[i]);
	}
	return budget < PROXY_BUDGET;
}

/* The error of entry @index, which the loopback link did not complete. */
static uint64_t proxy_loopback_err(const struct ori_proxy_lane *lane, uint64_t index)
{
	uint64_t err = ori_host_failure(lane->attr.loopback)->err;

	if (ori_dev_queue_err_state(err) != ORIEL_QUEUE_ERROR_CQE)
		return proxy_err(ORIEL_SYNDROME_LOCAL_OPERATION, 0, index);
	return proxy_err(ori_dev_queue_err_syndrome(err), ori_dev_queue_err_vendor(err), index);
}

/*
 * Ends the lane for an entry whose loopback operation failed, or that could not be posted,
 * once all entries before it are done.
 */
static void proxy_judge(struct ori_proxy_lane *lane)
{
	if (lane->completed < lane->ended &&
	    proxy_needs_loopback(lane, proxy_copy(lane, lane->completed)) &&
	    ori_host_failure(lane->attr.loopback)->status != ORIEL_OK)
		proxy_die(lane, proxy_loopback_err(lane, lane->completed), false);
	else if (lane->flaw && lane->completed == lane->posted)
		proxy_die(lane, lane->flaw, true);
}

/* A request that is posted now is not polled for before the next step: it has hardly begun. */
bool ori_proxy_step(struct ori_proxy_lane *lane)
{
	bool has_posted = proxy_has_posted(lane), is_busy;

	if (lane->is_dead)
		return false;
	is_busy = proxy_take(lane);
	if (lane->completed == lane->tail)
		return false;
	if (lane->posted != lane->tail)
		is_busy |= proxy_post(lane);
	if (has_posted)
		is_busy |= proxy_poll(lane);
	if (lane->is_dead)
		return true;
	proxy_skip_counts(lane);
	proxy_post_loopback(lane);
	is_busy |= proxy_complete(lane);
	proxy_judge(lane);
	return is_busy || lane->is_dead;
}

uint64_t ori_proxy_in_flight(const struct ori_proxy_lane *lane)
{
	return lane->is_dead ? 0 : lane->tail - lane->completed;
}

bool ori_proxy_has_requests(const struct ori_proxy_lane *lane)
{
	if (lane->is_dead || lane->tail > lane->completed + lane->mask)
		return false;
	return lane->tail < lane->published || proxy_peek(lane);
}

void ori_proxy_fail(struct ori_proxy_lane *lane)
{
	proxy_die(lane, proxy_err(ORIEL_SYNDROME_FLUSHED, 0, lane->ended), false);
}
