/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/rdma_kernel.h"
#include "transport/rdma_memory.h"
#include "transport/rdma_proxied.h"
#include "transport/rdma_pulse.h"
#include "transport/rdma_reach.h"

#define RDMA_DEPTH 1024u
#define RDMA_DOORBELL_AT 0x800u /* of the first slot in a doorbell page */
#define RDMA_PAGE 4096u
#define RDMA_SLOTS ((RDMA_PAGE - RDMA_DOORBELL_AT) / sizeof(uint64_t))

/* A word of a doorbell page, and the word there that says the adapter sleeps. */
struct rdma_doorbell {
	uint64_t *word;
	uint32_t *asleep;
};

/* The adapter of one rail. */
struct rdma_rail {
	const struct ori_hca_ops *ops;
	const struct ori_gpu *gpu; /* of the attributes */
	struct ori_hca *hca;
	struct ori_hca_caps caps;
	void *sink; /* results of atomics that nobody reads */
	struct ori_hca_mr *sink_mr;
	uint32_t sink_lkey;
	struct ori_hca_mr *whole_mr;
	uint32_t whole_lkey;
	struct ori_tally *tally;    /* if a proxy posts */
	struct rdma_doorbell *free; /* doorbells that no queue has */
	size_t free_count, free_room;
	void **pages; /* [page_count] that those lie in, and this has pinned */
	size_t page_count;
};

struct ori_rdma {
	struct ori_rdma_cells cells; /* memory of the GPU for links */
	struct ori_rdma_attr attr;   /* without defaults */
	struct oriel_dev_keys whole_lkeys;
	struct ori_memory *memory;
	struct ori_reach *reach;                 /* NULL unless ori_rdma_finds_own() */
	struct ori_proxy_thread *proxy;          /* NULL: who asks posts to rings */
	struct rdma_rail rails[ORIEL_DEV_RAILS]; /* the first attr.rails */
};

/* One queue pair with its completion queue and rings. */
struct rdma_queue {
	/* Of a queue for kernels: what it began with, the words that change are the GPU's. */
	struct oriel_mlx5_queue *dev;
	struct ori_mem *pinned; /* NULL, or what @rings is */
	void *rings;            /* WQEs, then CQEs, then the doorbell record */
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
};

/*
 * The companion loops back to the responder, a queue pair that never posts:
 * what the companion adds to is memory of this process.
 */
struct ori_rdma_link {
	struct ori_rdma *rdma;
	struct rdma_rail *rail;
	struct rdma_queue main;
	struct rdma_queue companion;
	struct rdma_queue responder;
	struct ori_rdma_pulse pulse;
	struct rdma_queue kernel;
	struct rdma_queue kernel_companion;
	struct rdma_queue kernel_responder;
	struct ori_proxied proxied[2]; /* of the CPU and of kernels; in place of the queues */
	bool has_kernel;               /* both ends have */
	struct oriel_dev_link dev;
	struct ori_rdma_cell *cell; /* of the GPU; NULL without one */
};

static enum oriel_status rdma_open_sink(struct rdma_rail *r)
{
	struct ori_hca_keys keys;
	enum oriel_status status;

	/* A page of its own, at address 0 of its key: WQEs carry no address for it. */
	r->sink = aligned_alloc(RDMA_PAGE, RDMA_PAGE);
	if (!r->sink)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for the sink of an adapter");
	memset(r->sink, 0, RDMA_PAGE);
	status = r->ops->register_memory(r->hca, r->sink, RDMA_PAGE, 0, ORI_HCA_LOCAL_WRITE,
					 &r->sink_mr, &keys);
	if (status != ORIEL_OK) {
		free(r->sink);
		return status;
	}
	r->sink_lkey = keys.lkey;
	return ORIEL_OK;
}

/*
 * What an adapter in software reaches anyhow, and others by on-demand paging:
 * so that any memory may be the source of a put, as on the mapped path.
 */
static enum oriel_status rdma_open_whole(struct rdma_rail *r)
{
	struct ori_hca_keys keys;
	enum oriel_status status;

	status = r->ops->register_memory(r->hca, (void *)(uintptr_t)RDMA_PAGE,
					 ((size_t)1 << 47) - 2 * RDMA_PAGE, RDMA_PAGE,
					 ORI_HCA_LOCAL_WRITE | ORI_HCA_ANY_MEMORY, &r->whole_mr,
					 &keys);
	if (status == ORIEL_OK)
		r->whole_lkey = keys.lkey;
	return status;
}

static void rdma_close_whole(struct rdma_rail *r)
{
	if (r->whole_mr)
		r->ops->unregister_memory(r->whole_mr);
}

/* Who posts, to adapters that can do what @caps says. */
static enum oriel_status rdma_choose_post(struct ori_rdma_attr *attr,
					  const struct ori_hca_caps *caps)
{
	if (attr->post == ORI_RDMA_POST_AUTO)
		attr->post = caps->reads_rings ? ORI_RDMA_POST_RINGS : ORI_RDMA_POST_PROXY;
	if (attr->post == ORI_RDMA_POST_RINGS && !caps->reads_rings)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s reads no rings: a proxy has to post",
				caps->name);
	if (attr->post == ORI_RDMA_POST_PROXY && !caps->takes_posts)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s takes no posts: no proxy can post",
				caps->name);
	return ORIEL_OK;
}

static enum oriel_status rdma_open_tally(struct ori_rdma *rdma, struct rdma_rail *r)
{
	enum oriel_status status = ORIEL_OK;

	if (!rdma->proxy)
		status = ori_proxy_thread_start(r->caps.numa_node, r->caps.name, &rdma->proxy);
	if (status == ORIEL_OK)
		status = ori_tally_open(r->ops, r->hca, r->sink_lkey, &r->tally);
	if (status == ORIEL_OK)
		ori_proxy_thread_add_tally(rdma->proxy, r->tally);
	return status;
}

static enum oriel_status rdma_open_rail(struct ori_rdma *rdma, unsigned rail)
{
	struct rdma_rail *r = &rdma->rails[rail];
	enum oriel_status status;

	r->ops = rdma->attr.hca;
	r->gpu = rdma->attr.gpu;
	status = r->ops->open(rdma->attr.config, rail, &r->hca);
	if (status != ORIEL_OK)
		return status;
	status = r->gpu ? r->ops->use_gpu(r->hca, r->gpu) : ORIEL_OK;
	if (status != ORIEL_OK)
		goto err_close_hca;
	r->ops->caps(r->hca, &r->caps);
	status = rdma_choose_post(&rdma->attr, &r->caps);
	if (status != ORIEL_OK)
		goto err_close_hca;
	if (rdma->attr.depth > r->caps.depth_max) {
		status = ori_fail(ORIEL_ERR_RANGE, "%s: queues of %u WQEs, at most %u",
				  r->caps.name, rdma->attr.depth, r->caps.depth_max);
		goto err_close_hca;
	}
	status = rdma_open_sink(r);
	if (status != ORIEL_OK)
		goto err_close_hca;
	status = r->caps.reaches_all ? rdma_open_whole(r) : ORIEL_OK;
	if (status != ORIEL_OK)
		goto err_close_sink;
	rdma->whole_lkeys.rail[rail] = r->whole_lkey;
	if (rdma->attr.post == ORI_RDMA_POST_RINGS)
		return ORIEL_OK;
	rdma->whole_lkeys.rail[rail] = ORIEL_PROXY_FIND;
	status = rdma_open_tally(rdma, r);
	if (status != ORIEL_OK)
		goto err_close_whole;
	return ORIEL_OK;

err_close_whole:
	rdma_close_whole(r);
err_close_sink:
	r->ops->unregister_memory(r->sink_mr);
	free(r->sink);
err_close_hca:
	r->ops->close(r->hca);
	return status;
}

static void rdma_close_rail(struct ori_rdma *rdma, struct rdma_rail *r)
{
	if (r->tally)
		ori_proxy_thread_remove_tally(rdma->proxy, r->tally);
	ori_tally_close(r->tally);
	while (r->page_count)
		r->gpu->ops->unpin(r->gpu, r->pages[--r->page_count]);
	rdma_close_whole(r);
	r->ops->unregister_memory(r->sink_mr);
	r->ops->close(r->hca);
	free(r->pages);
	free(r->free);
	free(r->sink);
}

/* Is there one key for all memory that can be named? */
static bool rdma_is_whole(const struct ori_rdma *r)
{
	const struct ori_hca_caps *caps = &r->rails[0].caps;

	return caps->reaches_all && (!r->attr.gpu || caps->reaches_gpu);
}

static enum oriel_status rdma_open_memory(struct ori_rdma *r)
{
	struct ori_memory_attr attr = {
		.ops = r->attr.hca,
		.rails = r->attr.rails,
		.is_whole = rdma_is_whole(r),
		.gpu = r->attr.gpu,
	};
	unsigned rail;

	for (rail = 0; rail < r->attr.rails; rail++)
		attr.hcas[rail] = r->rails[rail].hca;
	return ori_memory_open(&attr, &r->memory);
}

enum oriel_status ori_rdma_open(const struct ori_rdma_attr *attr, struct ori_rdma **rdma)
{
	struct ori_rdma *r = calloc(1, sizeof(*r));
	enum oriel_status status;
	unsigned rail;

	if (!r)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for an adapter");
	r->attr = *attr;
	if (!r->attr.depth)
		r->attr.depth = RDMA_DEPTH;
	if (!r->attr.rails)
		r->attr.rails = 1;
	assert(r->attr.rails <= ORIEL_DEV_RAILS);
	for (rail = 0; rail < r->attr.rails; rail++) {
		status = rdma_open_rail(r, rail);
		if (status != ORIEL_OK)
			goto err_close_rails;
	}
	status = rdma_open_memory(r);
	if (status != ORIEL_OK)
		goto err_close_rails;
	if (ori_rdma_finds_own(r) && r->attr.gpu) {
		r->cells.memory = r->memory;
		status = ori_reach_open(r->memory, r->attr.gpu, &r->reach);
		if (status != ORIEL_OK)
			goto err_close_memory;
	}
	*rdma = r;
	return ORIEL_OK;

err_close_memory:
	ori_memory_close(r->memory);
err_close_rails:
	while (rail)
		rdma_close_rail(r, &r->rails[--rail]);
	ori_proxy_thread_stop(r->proxy);
	free(r);
	return status;
}

void ori_rdma_close(struct ori_rdma *r)
{
	unsigned rail;

	if (!r)
		return;
	ori_rdma_cells_close(&r->cells);
	ori_reach_close(r->reach);
	ori_memory_close(r->memory);
	for (rail = 0; rail < r->attr.rails; rail++)
		rdma_close_rail(r, &r->rails[rail]);
	ori_proxy_thread_stop(r->proxy);
	free(r);
}

unsigned ori_rdma_rails(const struct ori_rdma *r)
{
	return r->attr.rails;
}

void ori_rdma_caps(const struct ori_rdma *r, unsigned rail, struct ori_hca_caps *caps)
{
	*caps = r->rails[rail].caps;
}

enum oriel_status ori_rdma_register(struct ori_rdma *r, void *address, size_t length,
				    enum ori_rdma_use use, struct ori_rdma_mr **mr,
				    struct oriel_dev_keys *rkeys)
{
	/* What is named here alone: by kernels too. */
	enum oriel_status status = use == ORI_RDMA_OWN ? ori_rdma_reach(r, address) : ORIEL_OK;

	if (status != ORIEL_OK)
		return status;
	return ori_memory_register(r->memory, address, length, use, mr, rkeys);
}

enum oriel_status ori_rdma_reach(struct ori_rdma *r, const void *address)
{
	return r->reach ? ori_reach_add(r->reach, address) : ORIEL_OK;
}

const struct oriel_dev_keys *ori_rdma_whole_lkeys(const struct ori_rdma *r)
{
	return &r->whole_lkeys;
}

bool ori_rdma_finds_own(const struct ori_rdma *r)
{
	return !ori_rdma_is_proxied(r) && !rdma_is_whole(r);
}

bool ori_rdma_is_proxied(const struct ori_rdma *r)
{
	return r->attr.post == ORI_RDMA_POST_PROXY;
}

void ori_rdma_unregister(struct ori_rdma *r, struct ori_rdma_mr *mr)
{
	ori_memory_unregister(r->memory, mr);
}

enum oriel_status ori_rdma_poll_event(struct ori_rdma *r, struct ori_rdma_event *event)
{
	enum oriel_status status = ORIEL_AGAIN;
	unsigned rail;

	for (rail = 0; rail < r->attr.rails && status == ORIEL_AGAIN; rail++) {
		status = r->rails[rail].ops->poll_event(r->rails[rail].hca, &event->of);
		if (status == ORIEL_OK)
			event->rail = rail;
	}
	return status;
}

/* Kernels ring there, too. */
static enum oriel_status rdma_pin_page(struct rdma_rail *r, void *page)
{
	void **more = realloc(r->pages, (r->page_count + 1) * sizeof(*more));
	enum oriel_status status;

	if (!more)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for doorbells");
	r->pages = more;
	status = r->gpu->ops->pin(r->gpu, page, RDMA_PAGE);
	if (status == ORIEL_OK)
		more[r->page_count++] = page;
	return status;
}

static enum oriel_status rdma_add_page(struct rdma_rail *r)
{
	size_t room = r->free_room + RDMA_SLOTS, i;
	struct rdma_doorbell *more = realloc(r->free, room * sizeof(*more));
	enum oriel_status status;
	char *page;

	if (!more)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for doorbells");
	r->free = more;
	status = r->ops->doorbell_page(r->hca, (void **)&page);
	if (status == ORIEL_OK && r->gpu)
		status = rdma_pin_page(r, page);
	if (status != ORIEL_OK)
		return status;
	r->free_room = room;
	for (i = 0; i < RDMA_SLOTS; i++) {
		more[r->free_count].word = (uint64_t *)(void *)(page + RDMA_DOORBELL_AT) + i;
		more[r->free_count++].asleep = (uint32_t *)(void *)page;
	}
	return ORIEL_OK;
}

/* A doorbell of its own for each queue; the pages go with the adapter. */
static enum oriel_status rdma_take_doorbell(struct rdma_rail *r, struct oriel_mlx5_queue *q)
{
	struct rdma_doorbell *taken;
	enum oriel_status status;

	if (!r->free_count) {
		status = rdma_add_page(r);
		if (status != ORIEL_OK)
			return status;
	}
	taken = &r->free[--r->free_count];
	*taken->word = 0; /* whoever had it before is gone */
	q->doorbell = taken->word;
	q->asleep = taken->asleep;
	return ORIEL_OK;
}

static void rdma_give_doorbell(struct rdma_rail *r, const struct oriel_mlx5_queue *q)
{
	struct rdma_doorbell *given = &r->free[r->free_count++];

	given->word = q->doorbell;
	given->asleep = q->asleep;
}

static unsigned rdma_log2(uint32_t depth)
{
	return 31 - (unsigned)__builtin_clz(depth);
}

static void rdma_close_queue(struct rdma_rail *r, struct rdma_queue *q)
{
	if (q->qp)
		r->ops->destroy_qp(q->qp);
	if (q->cq)
		r->ops->destroy_cq(q->cq);
	if (q->dev && q->dev->doorbell && !r->caps.owns_rings)
		rdma_give_doorbell(r, q->dev);
	if (q->pinned) {
		ori_mem_unpin(r->gpu, q->pinned);
		ori_mem_unref(q->pinned);
	} else {
		free(q->rings);
	}
	free(q->dev);
	memset(q, 0, sizeof(*q));
}

/* Whoever posts, the adapter in software reads and writes rings as the CPU does. */
static enum oriel_status rdma_alloc_rings(const struct ori_gpu *gpu, struct rdma_queue *q,
					  size_t length)
{
	struct ori_mem *mem;
	enum oriel_status status;

	if (!gpu) {
		q->rings = aligned_alloc(RDMA_PAGE, length);
		return q->rings ? ORIEL_OK : ORIEL_ERR_NOMEM;
	}
	status = ori_mem_alloc(length, 0, &mem);
	if (status != ORIEL_OK)
		return status;
	status = ori_mem_pin(gpu, mem);
	if (status != ORIEL_OK) {
		ori_mem_unref(mem);
		return status;
	}
	q->pinned = mem;
	q->rings = mem->address;
	return ORIEL_OK;
}

static enum oriel_status rdma_open_words(struct rdma_queue *q, uint32_t depth)
{
	q->dev = aligned_alloc(ORIEL_DEV_LINE, sizeof(*q->dev));
	if (!q->dev)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for rings of %u WQEs", depth);
	memset(q->dev, 0, sizeof(*q->dev));
	q->dev->log_depth = rdma_log2(depth);
	return ORIEL_OK;
}

/* @gpu NULL: the CPU posts. */
static enum oriel_status rdma_open_rings(const struct ori_gpu *gpu, struct rdma_queue *q,
					 uint32_t depth)
{
	size_t ring = (size_t)depth * ORIEL_MLX5_BLOCK;
	enum oriel_status status;

	status = rdma_alloc_rings(gpu, q, (2 * ring + 2 * RDMA_PAGE - 1) / RDMA_PAGE * RDMA_PAGE);
	if (status == ORIEL_ERR_NOMEM)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for rings of %u WQEs", depth);
	if (status != ORIEL_OK)
		return status;
	memset(q->rings, 0, 2 * ring + RDMA_PAGE);
	q->dev->sq = q->rings;
	q->dev->cq = (char *)q->rings + ring;
	q->dev->record = (uint32_t *)(void *)((char *)q->rings + 2 * ring);
	return ORIEL_OK;
}

/* What the adapter makes is found where place() says, else it is given our rings. */
static enum oriel_status rdma_make_queue(struct rdma_rail *r, struct rdma_queue *q,
					 const struct ori_hca_cq_attr *cq,
					 struct ori_hca_qp_attr *qp)
{
	enum oriel_status status = r->ops->create_cq(r->hca, cq, &q->cq, &q->dev->cqn);
	struct ori_hca_place place;

	if (status != ORIEL_OK)
		return status;
	qp->send_cq = q->cq;
	status = r->ops->create_qp(r->hca, qp, &q->qp, &q->address);
	if (status != ORIEL_OK || !r->caps.owns_rings)
		return status;
	r->ops->place(q->qp, &place);
	q->dev->sq = place.sq;
	q->dev->cq = place.cq;
	q->dev->record = place.record;
	q->dev->doorbell = place.doorbell;
	q->dev->asleep = place.asleep;
	return ORIEL_OK;
}

static enum oriel_status rdma_open_queue(struct rdma_rail *r, const struct ori_gpu *gpu,
					 struct rdma_queue *q, uint32_t depth, bool is_companion)
{
	struct ori_hca_cq_attr cq = {.depth = depth, .first = r->caps.first};
	struct ori_hca_qp_attr qp = {.depth = depth,
				     .first = r->caps.first,
				     .is_companion = is_companion};
	enum oriel_status status;

	cq.has_own_ring = qp.has_own_ring = r->caps.owns_rings;
	cq.is_for_gpu = qp.is_for_gpu = gpu && r->caps.owns_rings;
	status = rdma_open_words(q, depth);
	if (status == ORIEL_OK && !r->caps.owns_rings)
		status = rdma_open_rings(gpu, q, depth);
	if (status == ORIEL_OK && !r->caps.owns_rings)
		status = rdma_take_doorbell(r, q->dev);
	if (status != ORIEL_OK)
		return status;
	if (!r->caps.owns_rings) {
		cq.ring = (char *)q->rings + (size_t)depth * ORIEL_MLX5_BLOCK;
		qp.ring = q->rings;
		qp.record = q->dev->record;
		qp.doorbell = q->dev->doorbell;
		q->dev->record[1] = oriel_mlx5_record_value(qp.first);
	}
	status = rdma_make_queue(r, q, &cq, &qp);
	if (status != ORIEL_OK)
		return status;
	q->dev->qpn = q->address.qpn;
	q->dev->sink_lkey = r->sink_lkey;
	if (!r->caps.is_atomic_host_endian)
		q->dev->flags |= ORIEL_MLX5_ATOMICS_SWAPPED;
	oriel_mlx5_queue_begin(q->dev, qp.first);
	return ORIEL_OK;
}

/* A main queue, and if the adapter has it a companion with the end of its loop. */
static enum oriel_status rdma_open_queues(struct rdma_rail *r, const struct ori_gpu *gpu,
					  uint32_t depth, struct rdma_queue *q,
					  struct rdma_queue *companion,
					  struct rdma_queue *responder)
{
	enum oriel_status status;

	status = rdma_open_queue(r, gpu, q, depth, false);
	if (status != ORIEL_OK || !r->caps.has_wait)
		return status;
	/* Two WQEs, a WAIT and an atomic, for each one of the main queue. */
	if (2 * depth <= r->caps.depth_max)
		depth *= 2;
	status = rdma_open_queue(r, gpu, companion, depth, true);
	if (status == ORIEL_OK)
		status = rdma_open_queue(r, NULL, responder, 4, false);
	if (status == ORIEL_OK)
		status = r->ops->connect_qp(companion->qp, &responder->address);
	if (status == ORIEL_OK)
		status = r->ops->connect_qp(responder->qp, &companion->address);
	return status;
}

void ori_rdma_describe(const struct ori_rdma *r, unsigned rail, struct ori_hca_qp_address *adapter)
{
	r->rails[rail].ops->describe(r->rails[rail].hca, adapter);
}

/* The link for kernels, without queues. */
static enum oriel_status rdma_reset_cell(const struct ori_rdma_link *link)
{
	const struct ori_gpu *gpu = link->rdma->attr.gpu;
	struct oriel_dev_link dev = link->dev;

	dev.main = dev.companion = NULL;
	dev.blame = link->rdma->attr.blame;
	dev.answers = &link->cell->answers;
	return gpu->ops->copy(gpu, &link->cell->link, &dev, sizeof(dev));
}

/* All but the pointer that lets kernels in. */
static enum oriel_status rdma_fill_cell(const struct ori_rdma_link *link)
{
	struct oriel_mlx5_queue *companion = &link->cell->companion;
	const struct ori_gpu *gpu = link->rdma->attr.gpu;
	struct oriel_link_answers answers = {0};
	enum oriel_status status;

	ori_rdma_cell_answers(&link->rdma->cells, link->cell, link->dev.rail, &answers);
	if (link->rdma->reach)
		answers.reach = ori_reach_table(link->rdma->reach);
	status = gpu->ops->copy(gpu, &link->cell->answers, &answers, sizeof(answers));
	if (status == ORIEL_OK && link->rdma->proxy)
		return gpu->ops->copy(gpu, &link->cell->proxy, link->proxied[1].ring,
				      sizeof(link->cell->proxy));
	if (status == ORIEL_OK)
		status = gpu->ops->copy(gpu, &link->cell->main, link->kernel.dev,
					sizeof(link->cell->main));
	if (status != ORIEL_OK || !link->kernel_companion.dev)
		return status;
	status = gpu->ops->copy(gpu, companion, link->kernel_companion.dev, sizeof(*companion));
	if (status != ORIEL_OK)
		return status;
	return gpu->ops->copy(gpu, &link->cell->link.companion, &companion, sizeof(companion));
}

enum oriel_status ori_rdma_link_create(struct ori_rdma *r, unsigned peer, unsigned rail,
				       struct ori_rdma_link **out)
{
	struct ori_rdma_link *link = calloc(1, sizeof(*link));
	enum oriel_status status;

	if (!link)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a link to rank %u", peer);
	assert(rail < r->attr.rails);
	link->rdma = r;
	link->rail = &r->rails[rail];
	link->dev.health = r->attr.health;
	link->dev.blame = r->attr.health;
	link->dev.timeout_ns = r->attr.timeout_ns;
	link->dev.spin = r->attr.spin;
	link->dev.peer = peer;
	link->dev.rail = rail;
	link->dev.way = r->proxy ? ORIEL_LINK_PROXY : ORIEL_LINK_RINGS;
	if (r->attr.gpu) {
		status = ori_rdma_cell_take(&r->cells, r->attr.gpu, &link->cell);
		if (status == ORIEL_OK)
			status = rdma_reset_cell(link);
		if (status != ORIEL_OK) {
			ori_rdma_link_destroy(link);
			return status;
		}
	}
	*out = link;
	return ORIEL_OK;
}

/* Any memory of this process, of an adapter that reaches all of it by one key. */
static enum oriel_status rdma_find_whole(void *context, uint64_t address, uint64_t length,
					 bool is_target, struct ori_proxy_place *place)
{
	const struct rdma_rail *r = context;

	(void)length, (void)is_target;
	*place = (struct ori_proxy_place){.address = address, .key = r->whole_lkey};
	return ORIEL_OK;
}

static enum oriel_status rdma_open_proxied(struct ori_rdma_link *link, const struct ori_gpu *gpu,
					   struct ori_proxied *p)
{
	struct rdma_rail *r = link->rail;
	struct ori_proxied_attr attr = {
		.ops = r->ops,
		.hca = r->hca,
		.gpu = gpu,
		.depth = link->rdma->attr.depth,
		.sink_lkey = r->sink_lkey,
		.memory = {r, rdma_find_whole, NULL},
		.tally = r->tally,
		.thread = link->rdma->proxy,
	};

	if (!rdma_is_whole(link->rdma))
		attr.memory = ori_memory_of_rail(link->rdma->memory, link->dev.rail);
	return ori_proxied_open(p, &attr);
}

/* What is posted to; kernels if @gpu. */
static enum oriel_status rdma_open_way(struct ori_rdma_link *link, const struct ori_gpu *gpu)
{
	uint32_t depth = link->rdma->attr.depth;

	if (link->rdma->proxy)
		return rdma_open_proxied(link, gpu, &link->proxied[!!gpu]);
	if (gpu)
		return rdma_open_queues(link->rail, gpu, depth, &link->kernel,
					&link->kernel_companion, &link->kernel_responder);
	return rdma_open_queues(link->rail, NULL, depth, &link->main, &link->companion,
				&link->responder);
}

/* Where the peer finds the queue that the CPU (0) or kernels (1) post to; 0 if there is none. */
static const struct ori_hca_qp_address *rdma_end_of(const struct ori_rdma_link *link,
						    unsigned which)
{
	if (link->rdma->proxy)
		return &link->proxied[which].address;
	return which ? &link->kernel.address : &link->main.address;
}

enum oriel_status ori_rdma_link_open(struct ori_rdma_link *link, struct ori_rdma_end *end)
{
	struct rdma_rail *r = link->rail;
	enum oriel_status status;

	assert(!rdma_end_of(link, 0)->qpn);
	status = rdma_open_way(link, NULL);
	if (status == ORIEL_OK)
		status = ori_rdma_pulse_open(r->ops, r->hca, &link->pulse);
	if (status == ORIEL_OK && link->cell)
		status = rdma_open_way(link, r->gpu);
	if (status != ORIEL_OK) {
		ori_rdma_link_close(link);
		return status;
	}
	*end = (struct ori_rdma_end){rdma_end_of(link, 0)->qpn, rdma_end_of(link, 0)->psn,
				     link->pulse.address.qpn,   link->pulse.address.psn,
				     rdma_end_of(link, 1)->qpn, rdma_end_of(link, 1)->psn};
	return ORIEL_OK;
}

/* The queue with @qpn and @psn of @adapter. */
static struct ori_hca_qp_address rdma_address(const struct ori_hca_qp_address *adapter,
					      uint32_t qpn, uint32_t psn)
{
	struct ori_hca_qp_address address = *adapter;

	address.qpn = qpn;
	address.psn = psn;
	return address;
}

static struct ori_hca_qp *rdma_qp_of(const struct ori_rdma_link *link, unsigned which)
{
	if (link->rdma->proxy)
		return link->proxied[which].qp;
	return which ? link->kernel.qp : link->main.qp;
}

enum oriel_status ori_rdma_link_connect(struct ori_rdma_link *link,
					const struct ori_hca_qp_address *adapter,
					const struct ori_rdma_end *end)
{
	struct ori_hca_qp_address main = rdma_address(adapter, end->main_qpn, end->main_psn);
	struct ori_hca_qp_address pulse = rdma_address(adapter, end->pulse_qpn, end->pulse_psn);
	struct ori_hca_qp_address kernel = rdma_address(adapter, end->kernel_qpn, end->kernel_psn);
	const struct ori_hca_ops *ops = link->rail->ops;
	enum oriel_status status;

	status = ops->connect_qp(rdma_qp_of(link, 0), &main);
	if (status == ORIEL_OK)
		status = ori_rdma_pulse_connect(&link->pulse, &pulse);
	if (status != ORIEL_OK || !link->cell || !end->kernel_qpn)
		return status;
	status = ops->connect_qp(rdma_qp_of(link, 1), &kernel);
	if (status == ORIEL_OK)
		status = rdma_fill_cell(link);
	link->has_kernel = status == ORIEL_OK;
	return status;
}

void ori_rdma_link_begin(struct ori_rdma_link *link)
{
	const struct ori_gpu *gpu = link->rdma->attr.gpu;
	void *kernel;

	if (link->has_kernel) {
		kernel = link->rdma->proxy ? (void *)&link->cell->proxy : &link->cell->main;
		/* Nobody can be told if it fails; kernels then find a link that is not connected.
		 */
		(void)gpu->ops->copy(gpu, &link->cell->link.main, &kernel, sizeof(kernel));
	}
	oriel_link_connected(&link->dev,
			     link->rdma->proxy ? (void *)link->proxied[0].ring : link->main.dev,
			     link->companion.dev);
}

bool ori_rdma_link_is_ready(const struct ori_rdma_link *link)
{
	return oriel_link_is_connected(&link->dev);
}

const struct oriel_dev_link *ori_rdma_link_device(const struct ori_rdma_link *link)
{
	return &link->dev;
}

const struct oriel_dev_link *ori_rdma_link_kernel(const struct ori_rdma_link *link)
{
	return link->cell ? &link->cell->link : NULL;
}

enum oriel_status ori_rdma_link_read_kernel(const struct ori_rdma_link *link, unsigned which,
					    struct oriel_mlx5_queue *copy)
{
	const struct rdma_queue *q = which ? &link->kernel_companion : &link->kernel;
	const struct ori_gpu *gpu = link->rdma->attr.gpu;

	if (!link->has_kernel || !q->dev)
		return ORIEL_ERR_NO_PATH;
	memcpy(copy, q->dev, sizeof(*copy));
	return gpu->ops->copy(gpu, copy, which ? &link->cell->companion : &link->cell->main,
			      sizeof(*copy));
}

const struct ori_proxied *ori_rdma_link_proxied(const struct ori_rdma_link *link, unsigned which)
{
	return &link->proxied[which];
}

enum oriel_status ori_rdma_link_read_proxied(const struct ori_rdma_link *link,
					     struct oriel_proxy_ring *copy)
{
	const struct ori_gpu *gpu = link->rdma->attr.gpu;

	if (!link->has_kernel || !link->proxied[1].ring)
		return ORIEL_ERR_NO_PATH;
	memcpy(copy, link->proxied[1].ring, sizeof(*copy));
	return gpu->ops->copy(gpu, copy, &link->cell->proxy, sizeof(*copy));
}

struct ori_rdma_pulse *ori_rdma_link_pulse(const struct ori_rdma_link *link)
{
	/* Its state is the watcher's, who has no more than a borrowed link. */
	return (struct ori_rdma_pulse *)&link->pulse;
}

void ori_rdma_link_close(struct ori_rdma_link *link)
{
	/* The companion first: it waits for completions of the main queue. */
	rdma_close_queue(link->rail, &link->companion);
	rdma_close_queue(link->rail, &link->responder);
	rdma_close_queue(link->rail, &link->main);
	ori_proxied_close(&link->proxied[0]);
	ori_rdma_pulse_close(&link->pulse);
	if (!link->cell)
		return;
	if (link->has_kernel)
		(void)rdma_reset_cell(link);
	link->has_kernel = false;
	rdma_close_queue(link->rail, &link->kernel_companion);
	rdma_close_queue(link->rail, &link->kernel_responder);
	rdma_close_queue(link->rail, &link->kernel);
	ori_proxied_close(&link->proxied[1]);
}

static void rdma_fail_queue(const struct rdma_rail *r, const struct rdma_queue *q)
{
	if (q->qp)
		r->ops->fail_qp(q->qp);
}

void ori_rdma_link_fail(const struct ori_rdma_link *link)
{
	if (!ori_rdma_link_is_ready(link))
		return;
	rdma_fail_queue(link->rail, &link->main);
	rdma_fail_queue(link->rail, &link->companion);
	rdma_fail_queue(link->rail, &link->kernel);
	rdma_fail_queue(link->rail, &link->kernel_companion);
	ori_proxied_fail(&link->proxied[0]);
	ori_proxied_fail(&link->proxied[1]);
}

void ori_rdma_link_destroy(struct ori_rdma_link *link)
{
	if (!link)
		return;
	ori_rdma_link_close(link);
	if (link->cell)
		ori_rdma_cell_give(&link->rdma->cells, link->cell);
	free(link);
}
