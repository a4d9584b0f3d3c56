/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of a communicator between ranks that are reached by rdma. Each rank
 * has a box with a row for each peer, which that peer writes through a queue of
 * its own: what broke it, once, and while it is well a beat, whose failure tells
 * the sender that the receiver is gone. Who hears of a failure passes it on, so
 * that it floods the job whatever way is left.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/mesh.h"
#include "rdma/rdma.h"

#define PULSE_BEAT_NS 500000000u
#define PULSE_PATIENCE_NS 1000000000u
#define PULSE_PAGE 4096u

/* What a rank says to another. Goes over the wire as it is; written by its adapter. */
struct pulse_row {
	int32_t status; /* this and the next as in struct oriel_dev_fault */
	uint32_t what;
	uint32_t peer;
	uint32_t window;
	uint32_t id;
	uint32_t finder;
	uint64_t expected;
	uint64_t seen;
	uint64_t age_ns;
	uint64_t told; /* 0 until all above is there */
	uint64_t beat; /* counts up while the writer is well */
};

static_assert(sizeof(struct pulse_row) == 64, "struct pulse_row goes over the wire");
static_assert(offsetof(struct pulse_row, told) == 2 * ORI_RDMA_PIECE, "the body is two pieces");

/* Only the watcher touches it, but for what joins a peer. */
struct pulse_peer {
	atomic_bool is_joined;       /* rkeys are there */
	struct oriel_dev_keys rkeys; /* of its box */
	uint64_t beat;
	uint64_t lost_at; /* what is under way has an answer before; 0: nothing is */
	bool has_told;    /* its row holds what broke it */
	bool is_told;     /* or need not be */
	bool is_dead;     /* the queue to it is */
};

struct ori_heartbeat {
	struct pulse_row *box; /* [size] */
	struct ori_rdma_mr *mr;
	struct oriel_dev_keys rkeys;
	uint64_t next_beat;  /* the first one at once */
	uint64_t silence_ns; /* of a peer that is alive, at most */
	bool is_passed_on;
	bool is_over;           /* the links are given up */
	uint64_t over_at;       /* at the latest; 0 while all is well */
	atomic_bool is_quiet;   /* no more beats */
	atomic_bool is_still;   /* and none is under way */
	atomic_bool is_settled; /* all have been told what broke this rank */
	struct pulse_peer peers[];
};

/*
 * An adapter answers for a process that sleeps, and one that sends again for ever
 * never tells that nobody does. In software it sleeps with its process, and has a
 * patience of its own.
 */
static uint64_t pulse_silence(const struct oriel_comm *comm)
{
	struct ori_hca_caps caps;

	ori_rdma_caps(comm->rdma, 0, &caps);
	if (caps.is_software || comm->timeout_ns == ORIEL_FOREVER)
		return ORIEL_FOREVER;
	/* Who waits for the peer is to hear why before he gives up. */
	return comm->timeout_ns / 2;
}

enum oriel_status ori_heartbeat_open(struct oriel_comm *comm)
{
	size_t length = comm->size * sizeof(struct pulse_row);
	enum oriel_status status;
	struct ori_heartbeat *pulse;

	pulse = calloc(1, sizeof(*pulse) + comm->size * sizeof(pulse->peers[0]));
	if (!pulse)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for the pulse of %u ranks", comm->size);
	/* Pages of its own: peers write whatever they like to them. */
	length = (length + PULSE_PAGE - 1) / PULSE_PAGE * PULSE_PAGE;
	pulse->box = aligned_alloc(PULSE_PAGE, length);
	if (!pulse->box) {
		status = ori_fail(ORIEL_ERR_NOMEM, "no memory for the box of %u ranks", comm->size);
		goto err_free_pulse;
	}
	memset(pulse->box, 0, length);
	status = ori_rdma_register(comm->rdma, pulse->box, length, ORI_RDMA_SHARED, &pulse->mr,
				   &pulse->rkeys);
	if (status != ORIEL_OK)
		goto err_free_box;
	pulse->silence_ns = pulse_silence(comm);
	comm->pulse = pulse;
	return ORIEL_OK;

err_free_box:
	free(pulse->box);
err_free_pulse:
	free(pulse);
	return status;
}

void ori_heartbeat_close(struct oriel_comm *comm)
{
	struct ori_heartbeat *pulse = comm->pulse;

	if (!pulse)
		return;
	ori_rdma_unregister(comm->rdma, pulse->mr);
	free(pulse->box);
	free(pulse);
	comm->pulse = NULL;
}

const struct oriel_dev_keys *ori_heartbeat_rkeys(const struct oriel_comm *comm)
{
	return &comm->pulse->rkeys;
}

void ori_heartbeat_join(struct oriel_comm *comm, unsigned peer, const struct oriel_dev_keys *rkeys)
{
	struct pulse_peer *p = &comm->pulse->peers[peer];

	p->rkeys = *rkeys;
	/* Acquired in pulse_is_reached(). */
	atomic_store_explicit(&p->is_joined, true, memory_order_release);
}

static bool pulse_is_reached(const struct pulse_peer *p)
{
	return atomic_load_explicit(&p->is_joined, memory_order_acquire) && !p->is_dead;
}

/* Where in the box of a peer the word at @offset of this rank's row is. */
static uint64_t pulse_at(const struct oriel_comm *comm, size_t offset)
{
	return comm->rank * sizeof(struct pulse_row) + offset;
}

/* The row is @writer's to write at any time: each word is read once, and checked. */
static struct oriel_dev_fault pulse_read(const struct oriel_comm *comm, unsigned writer)
{
	const struct pulse_row *row = &comm->pulse->box[writer];
	struct oriel_dev_fault record = {0};

	record.status = (int32_t)oriel_dev_load_relaxed32((const uint32_t *)&row->status);
	record.what = oriel_dev_load_relaxed32(&row->what);
	record.peer = oriel_dev_load_relaxed32(&row->peer);
	record.window = oriel_dev_load_relaxed32(&row->window);
	record.id = oriel_dev_load_relaxed32(&row->id);
	record.finder = oriel_dev_load_relaxed32(&row->finder);
	record.expected = oriel_dev_load_relaxed(&row->expected);
	record.seen = oriel_dev_load_relaxed(&row->seen);
	record.age_ns = oriel_dev_load_relaxed(&row->age_ns);
	if (record.status >= 0 || record.status < ORIEL_ERR_ACCESS)
		record.status = ORIEL_ERR_PROTOCOL;
	if (record.peer >= comm->size)
		record.peer = ORIEL_DEV_NO_RANK;
	if (record.finder == 0 || record.finder > comm->size)
		record.finder = writer + 1;
	return record;
}

static void pulse_hear(struct oriel_comm *comm, unsigned peer)
{
	const struct pulse_row *row = &comm->pulse->box[peer];
	struct pulse_peer *p = &comm->pulse->peers[peer];
	struct oriel_dev_fault record;

	/* Acquires the body, which the peer's adapter wrote before. */
	if (p->has_told || !oriel_dev_load_acquire(&row->told))
		return;
	p->has_told = true;
	record = pulse_read(comm, peer);
	ori_log(ORIEL_LOG_INFO, "rank %u: rank %u tells what broke it: %s", comm->rank, peer,
		oriel_status_name((enum oriel_status)record.status));
	ori_comm_break_for(comm, &record);
}

/* Who has told something himself needs not be told. */
static void pulse_tell(struct oriel_comm *comm, unsigned peer)
{
	struct pulse_peer *p = &comm->pulse->peers[peer];
	struct oriel_dev_fault record = ori_comm_record(comm);
	struct pulse_row row = {.status = record.status,
				.what = record.what,
				.peer = record.peer,
				.window = record.window,
				.id = record.id,
				.finder = record.finder,
				.expected = record.expected,
				.seen = record.seen,
				.age_ns = record.age_ns,
				.told = 1};
	const char *bytes = (const char *)&row;
	/* The word comes last: the queue keeps the order. */
	struct ori_rdma_piece pieces[3] = {
		{pulse_at(comm, 0), bytes, ORI_RDMA_PIECE},
		{pulse_at(comm, ORI_RDMA_PIECE), bytes + ORI_RDMA_PIECE, ORI_RDMA_PIECE},
		{pulse_at(comm, offsetof(struct pulse_row, told)), &row.told, sizeof(row.told)},
	};

	if (p->is_told || p->has_told)
		return;
	p->is_told =
		ori_rdma_heartbeat_post(comm->links[peer], &p->rkeys, pieces, 3) != ORIEL_AGAIN;
}

static void pulse_beat(struct oriel_comm *comm, unsigned peer)
{
	struct pulse_peer *p = &comm->pulse->peers[peer];
	uint64_t beat = p->beat + 1;
	struct ori_rdma_piece piece = {pulse_at(comm, offsetof(struct pulse_row, beat)), &beat,
				       sizeof(beat)};

	if (ori_rdma_heartbeat_poll(comm->links[peer]) == ORIEL_OK &&
	    ori_rdma_heartbeat_post(comm->links[peer], &p->rkeys, &piece, 1) == ORIEL_OK)
		p->beat = beat;
}

/* Something is under way to @p: is it about time that it were done? */
static bool pulse_is_silent(const struct ori_heartbeat *pulse, struct pulse_peer *p)
{
	if (!p->lost_at)
		p->lost_at = ori_deadline(pulse->silence_ns);
	return ori_deadline_passed(p->lost_at);
}

/* Is something under way to @peer? A peer that is gone is found here. */
static bool pulse_is_waiting(struct oriel_comm *comm, unsigned peer)
{
	enum oriel_status status = ori_rdma_heartbeat_poll(comm->links[peer]);
	struct pulse_peer *p = &comm->pulse->peers[peer];
	struct oriel_dev_fault record = {
		.status = ORIEL_ERR_PEER,
		.what = ORIEL_DEV_LOST,
		.peer = peer,
	};

	if (status == ORIEL_OK)
		p->lost_at = 0;
	if (status == ORIEL_OK || (status == ORIEL_AGAIN && !pulse_is_silent(comm->pulse, p)))
		return status == ORIEL_AGAIN;
	p->is_dead = true;
	if (status != ORIEL_AGAIN)
		ori_rdma_heartbeat_fault(comm->links[peer], &record);
	ori_comm_break_for(comm, &record);
	return false;
}

/* What all peers are to hear now; true if something is still under way to one. */
static bool pulse_speak(struct oriel_comm *comm, bool is_well, bool is_beat)
{
	struct ori_heartbeat *pulse = comm->pulse;
	bool is_waiting = false;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		struct pulse_peer *p = &pulse->peers[peer];

		if (!pulse_is_reached(p))
			continue;
		is_waiting |= pulse_is_waiting(comm, peer);
		if (p->is_dead)
			continue;
		if (!is_well) {
			pulse_tell(comm, peer);
			is_waiting |= (!p->is_told && !p->has_told) || pulse_is_waiting(comm, peer);
		} else if (is_beat) {
			pulse_beat(comm, peer);
		}
	}
	return is_waiting;
}

/*
 * Once all have been told what broke this rank, or will not listen: its own
 * waits for links and for the bootstrap end.
 */
static void pulse_end(struct oriel_comm *comm, bool is_waiting)
{
	struct ori_heartbeat *pulse = comm->pulse;

	if (!pulse->over_at)
		pulse->over_at = ori_deadline(PULSE_PATIENCE_NS);
	if (is_waiting && !ori_deadline_passed(pulse->over_at))
		return;
	/* Not before: a peer would hear of a failed queue before its cause. */
	if (!pulse->is_over)
		ori_links_fail(comm);
	pulse->is_over = true;
	atomic_store(&pulse->is_settled, true);
	ori_comm_interrupt(comm);
}

bool ori_heartbeat_watch(struct oriel_comm *comm)
{
	struct ori_heartbeat *pulse = comm->pulse;
	bool is_quiet, is_well, is_beat, is_waiting;
	unsigned peer;

	if (!pulse)
		return false;
	/* What a peer told before it left is worth more than that it left. */
	for (peer = 0; peer < comm->size; peer++)
		pulse_hear(comm, peer);
	ori_links_watch(comm);

	is_quiet = atomic_load(&pulse->is_quiet);
	is_well = ori_comm_is_well(comm);
	is_beat = !is_quiet && ori_deadline_passed(pulse->next_beat);
	if (is_beat)
		pulse->next_beat = ori_clock_ns() + PULSE_BEAT_NS;
	if (!is_well && !pulse->is_passed_on) {
		ori_comm_pass_on(comm);
		pulse->is_passed_on = true;
	}
	is_waiting = pulse_speak(comm, is_well, is_beat);
	if (is_quiet && !is_waiting)
		atomic_store(&pulse->is_still, true);
	if (!is_well)
		pulse_end(comm, is_waiting);
	return is_waiting && !pulse->is_over && (is_quiet || !is_well);
}

static void pulse_await(struct oriel_comm *comm, const atomic_bool *done)
{
	uint64_t start = ori_clock_ns(), deadline = ori_deadline(PULSE_PATIENCE_NS);

	while (!atomic_load(done) && !ori_deadline_passed(deadline) && ori_mesh_wake(comm))
		oriel_cpu_back_off(ori_clock_ns() - start);
}

void ori_heartbeat_quiet(struct oriel_comm *comm)
{
	if (!comm->pulse)
		return;
	atomic_store(&comm->pulse->is_quiet, true);
	pulse_await(comm, &comm->pulse->is_still);
}

void ori_heartbeat_settle(struct oriel_comm *comm)
{
	if (!comm->pulse || ori_comm_is_well(comm))
		return;
	pulse_await(comm, &comm->pulse->is_settled);
	/* Whom a second was not enough for is not waited for again. */
	atomic_store(&comm->pulse->is_settled, true);
}
