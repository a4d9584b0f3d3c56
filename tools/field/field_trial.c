/* SPDX-License-Identifier: Apache-2.0 */
/* Tries what the library needs of a NIC, for `oriel field-report`. */
#include <string.h>

#include <oriel/dev/detail/mlx5_ring.h>

#include "base/clock.h"
#include "base/error.h"

#include "field/field_trial.h"

#define TRIAL_DEPTH 64u
#define TRIAL_NS UINT64_C(1000000000)
#define TRIAL_WRITE 64u /* bytes */
#define TRIAL_ALL \
	(ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC)

/* Requests of a trial read and write it; keys name it by offsets. */
static struct trial_memory {
	_Alignas(4096) char source[TRIAL_WRITE];
	char target[TRIAL_WRITE];
	uint64_t counter, old;
	char rest[65536];
} memory;

/* A queue pair that is connected to itself. */
struct trial_queue {
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_dev_mlx5_queue ring; /* unless calls post */
};

struct trial {
	struct field_nic *nic;
	struct ori_hca_mr *mr, *whole;
	struct ori_hca_keys keys;
	struct trial_queue of[2];
};

static const struct ori_dev_link_wait_limits trial_limits = {NULL, TRIAL_NS, 100, 0};

static enum oriel_status trial_fail(const struct trial *t, enum oriel_status status,
				    const char *what)
{
	return ori_fail(status, "%s: %s: %s", t->nic->caps.name, what, oriel_status_text(status));
}

static enum oriel_status trial_open_queue(struct trial *t, unsigned which, bool has_ring,
					  bool is_companion)
{
	const struct field_nic *nic = t->nic;
	struct trial_queue *k = &t->of[which];
	struct ori_hca_cq_attr cq = {.depth = TRIAL_DEPTH, .has_own_ring = has_ring};
	struct ori_hca_qp_attr qp = {.depth = TRIAL_DEPTH,
				     .has_own_ring = has_ring,
				     .is_companion = is_companion};
	struct ori_hca_queue_memory place;
	struct ori_hca_qp_address self;
	enum oriel_status status;
	uint32_t cqn;

	status = nic->ops->create_cq(nic->hca, &cq, &k->cq, &cqn);
	if (status != ORIEL_OK)
		return status;
	qp.send_cq = k->cq;
	status = nic->ops->create_qp(nic->hca, &qp, &k->qp, &self);
	if (status == ORIEL_OK)
		status = nic->ops->connect_qp(k->qp, &self);
	if (status != ORIEL_OK || !has_ring)
		return status;
	nic->caps.rings->place(k->qp, &place);
	k->ring = (struct ori_dev_mlx5_queue){.sq = place.sq,
					      .cq = place.cq,
					      .record = place.record,
					      .doorbell = place.doorbell,
					      .asleep = place.asleep,
					      .qpn = self.qpn,
					      .cqn = cqn,
					      .log_depth = (uint32_t)__builtin_ctz(TRIAL_DEPTH)};
	ori_dev_mlx5_queue_begin(&k->ring, 0);
	return ORIEL_OK;
}

static enum oriel_status trial_register(struct trial *t)
{
	memset(&memory, 0, sizeof(memory));
	memset(memory.source, 0x5a, sizeof(memory.source));
	return t->nic->ops->register_memory(t->nic->hca, &memory, sizeof(memory), 0, TRIAL_ALL,
					    &t->mr, &t->keys);
}

/* Queues that stalled are failed first: nothing of them may write later. */
static void trial_close(struct trial *t)
{
	const struct ori_hca_ops *ops = t->nic->ops;

	for (unsigned i = 2; i-- > 0;) {
		if (t->of[i].qp) {
			ops->fail_qp(t->of[i].qp);
			ops->destroy_qp(t->of[i].qp);
		}
		if (t->of[i].cq)
			ops->destroy_cq(t->of[i].cq);
	}
	if (t->whole)
		ops->unregister_memory(t->whole);
	if (t->mr)
		ops->unregister_memory(t->mr);
}

static struct ori_dev_rdma_address trial_at(const struct trial *t, const void *of)
{
	return (struct ori_dev_rdma_address){(uint64_t)((const char *)of - (const char *)&memory),
					     t->keys.lkey};
}

static struct ori_dev_rdma_address trial_to(const struct trial *t, const void *of)
{
	return (struct ori_dev_rdma_address){trial_at(t, of).address, t->keys.rkey};
}

static enum oriel_status trial_check(const struct trial *t, enum oriel_status status)
{
	if (status != ORIEL_OK)
		return trial_fail(t, status, "a WRITE to itself does not complete");
	if (memcmp(memory.source, memory.target, TRIAL_WRITE) != 0)
		return trial_fail(t, ORIEL_ERR_PROTOCOL, "a WRITE brought other bytes");
	return ORIEL_OK;
}

static enum oriel_status trial_write(struct trial *t, unsigned which,
				     struct ori_dev_rdma_address from)
{
	struct ori_dev_mlx5_queue *q = &t->of[which].ring;
	enum oriel_status status;
	uint64_t index = 0;

	memset(memory.target, 0, sizeof(memory.target));
	status = ori_dev_mlx5_reserve(q, 1, &trial_limits, &index);
	if (status != ORIEL_OK)
		return trial_check(t, status);
	ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(q, index), ori_dev_mlx5_head_of(q, index, 0),
			       trial_to(t, memory.target), from, TRIAL_WRITE);
	status = ori_dev_mlx5_post(q, index, 1, &trial_limits);
	return trial_check(t, status == ORIEL_OK ? ori_dev_mlx5_wait(q, index, &trial_limits)
						 : status);
}

static enum oriel_status try_buffer(struct trial *t)
{
	return trial_register(t);
}

static enum oriel_status try_all_memory(struct trial *t)
{
	struct ori_hca_keys keys;

	return t->nic->ops->register_memory(t->nic->hca, NULL, 0, 0,
					    ORI_HCA_LOCAL_WRITE | ORI_HCA_ANY_MEMORY, &t->whole,
					    &keys);
}

static enum oriel_status try_called(struct trial *t)
{
	const struct ori_hca_calls *calls = t->nic->ops->calls;
	uint64_t end = ori_clock_ns() + TRIAL_NS;
	enum oriel_status status = trial_register(t);
	struct ori_hca_wr wr = {.id = 1,
				.local = trial_at(t, memory.source).address,
				.remote = trial_at(t, memory.target).address,
				.lkey = t->keys.lkey,
				.rkey = t->keys.rkey,
				.length = TRIAL_WRITE,
				.opcode = ORI_HCA_WRITE,
				.flags = ORI_HCA_SIGNALED};
	struct ori_hca_wc wc;
	unsigned count = 0;

	if (status == ORIEL_OK)
		status = trial_open_queue(t, 0, false, false);
	if (status != ORIEL_OK)
		return status;
	status = calls->post(t->of[0].qp, &wr, 1, &count);
	for (count = 0; status == ORIEL_OK && !count;) {
		status = calls->poll(t->of[0].cq, &wc, 1, &count);
		if (status == ORIEL_OK && !count && ori_clock_ns() > end)
			status = ORIEL_ERR_TIMEOUT;
	}
	return trial_check(t, status == ORIEL_OK ? wc.status : status);
}

static enum oriel_status try_ring(struct trial *t)
{
	enum oriel_status status = trial_register(t);

	if (status == ORIEL_OK)
		status = trial_open_queue(t, 0, true, false);
	return status == ORIEL_OK ? trial_write(t, 0, trial_at(t, memory.source)) : status;
}

/* Registers follow each other in a page: the second may be one that rings nothing. */
static enum oriel_status try_second_ring(struct trial *t)
{
	enum oriel_status status = try_ring(t);

	if (status == ORIEL_OK)
		status = trial_open_queue(t, 1, true, false);
	if (status == ORIEL_OK)
		status = trial_write(t, 1, trial_at(t, memory.source));
	return status == ORIEL_OK ? trial_write(t, 0, trial_at(t, memory.source)) : status;
}

/* The source is memory that no registration but that of all memory covers. */
static enum oriel_status try_demand(struct trial *t)
{
	static char source[TRIAL_WRITE];
	struct ori_hca_keys keys;
	enum oriel_status status = trial_register(t);

	if (status == ORIEL_OK)
		status = t->nic->ops->register_memory(t->nic->hca, NULL, 0, 0,
						      ORI_HCA_LOCAL_WRITE | ORI_HCA_ANY_MEMORY,
						      &t->whole, &keys);
	if (status == ORIEL_OK)
		status = trial_open_queue(t, 0, true, false);
	if (status != ORIEL_OK)
		return status;
	memcpy(source, memory.source, sizeof(source));
	return trial_write(t, 0, (struct ori_dev_rdma_address){(uintptr_t)source, keys.lkey});
}

/* A WAIT for a request that is posted after it, and the addition behind it. */
static enum oriel_status trial_wait(struct trial *t)
{
	struct ori_dev_mlx5_queue *q = &t->of[0].ring, *c = &t->of[1].ring;
	uint64_t base = 0, next = ori_dev_mlx5_ready(q);
	enum oriel_status status = ori_dev_mlx5_reserve(c, 2, &trial_limits, &base);

	if (status != ORIEL_OK)
		return status;
	ori_dev_mlx5_wqe_wait(ori_dev_mlx5_slot(c, base), ori_dev_mlx5_head_of(c, base, 0), q->cqn,
			      next);
	ori_dev_mlx5_wqe_fetch_add(ori_dev_mlx5_slot(c, base + 1),
				   ori_dev_mlx5_head_of(c, base + 1, 0),
				   trial_to(t, &memory.counter), trial_at(t, &memory.old), 1);
	status = ori_dev_mlx5_post(c, base, 2, &trial_limits);
	if (status == ORIEL_OK)
		status = trial_write(t, 0, trial_at(t, memory.source));
	return status == ORIEL_OK ? ori_dev_mlx5_wait(c, base + 1, &trial_limits) : status;
}

static enum oriel_status try_companion(struct trial *t)
{
	enum oriel_status status = try_ring(t);

	if (status == ORIEL_OK)
		status = trial_open_queue(t, 1, true, true);
	if (status != ORIEL_OK)
		return status;
	status = trial_wait(t);
	if (status == ORIEL_OK && memory.counter != 1)
		status = ORIEL_ERR_PROTOCOL;
	return status == ORIEL_OK ? status
				  : trial_fail(t, status, "a WAIT and a FETCH_ADD do not complete");
}

enum trial_need { NEEDS_NOTHING, NEEDS_RINGS, NEEDS_FAULTS };

static const struct trial_row {
	const char *name;
	enum oriel_status (*run)(struct trial *t);
	enum trial_need need;
} trials[] = {
	{"register a buffer", try_buffer, NEEDS_NOTHING},
	{"register all memory, on demand", try_all_memory, NEEDS_RINGS},
	{"a queue that calls post to", try_called, NEEDS_NOTHING},
	{"a queue with a ring", try_ring, NEEDS_RINGS},
	{"a second queue beside it", try_second_ring, NEEDS_RINGS},
	{"a source that is paged in on demand", try_demand, NEEDS_FAULTS},
	{"a queue that WAITs", try_companion, NEEDS_RINGS},
};

const char *field_trial_name(unsigned trial)
{
	return trial < sizeof(trials) / sizeof(trials[0]) ? trials[trial].name : NULL;
}

const char *field_trial_lack(const struct field_nic *nic, unsigned trial)
{
	bool has_rings = nic->caps.rings && strcmp(nic->caps.kind, "mlx5") == 0;

	if (trials[trial].need != NEEDS_NOTHING && !has_rings)
		return *nic->why ? nic->why : "this is no ConnectX NIC";
	if (trials[trial].need == NEEDS_FAULTS && !nic->caps.reaches_all)
		return "the device resolves no page faults of its queues (no mem_page_fault)";
	return NULL;
}

enum oriel_status field_trial_run(struct field_nic *nic, unsigned trial)
{
	static struct trial t;
	enum oriel_status status;

	memset(&t, 0, sizeof(t));
	t.nic = nic;
	status = trials[trial].run(&t);
	trial_close(&t);
	return status;
}
