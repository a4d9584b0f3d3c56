/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of a communicator between ranks that are reached by rdma. Each rank has a
 * table with a row for each peer, which that peer writes through a queue of its own: its
 * failure, once, and while it is well a beat. A beat that fails shows the sender that the
 * receiver exited. A rank that learns of a failure passes it on, so that it floods the
 * job by every path that is left. The watcher calls it.
 */
#include "comm/heartbeat.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/links.h"
#include "comm/silence.h"
#include "rdma/rdma.h"

#define HEARTBEAT_INTERVAL_NS 500000000u
#define HEARTBEAT_REPORT_NS 1000000000u
#define HEARTBEAT_SILENT_NS 15000000000u /* a peer that sends none for so long is dead */
#define HEARTBEAT_DOUBT_NS 5000000000u   /* for the exit of a rank whose NIC rejected a request */
#define HEARTBEAT_PROBE_NS 100000000u    /* between beats in doubt */
#define HEARTBEAT_PAGE 4096u

/* The report of one rank to another. Goes over the wire as it is; written by its NIC. */
struct heartbeat_row {
	int32_t status; /* this and the next as in struct oriel_dev_fault */
	uint32_t what;
	uint32_t peer;
	uint32_t window;
	uint32_t id;
	uint32_t finder;
	uint64_t expected;
	uint64_t seen;
	uint64_t age_ns;
	uint64_t complete; /* 0 until all above is there */
	uint64_t beat;     /* ori_silence_beat(); changes while the writer runs and is well */
};

static_assert(sizeof(struct heartbeat_row) == 64, "struct heartbeat_row goes over the wire");
static_assert(offsetof(struct heartbeat_row, complete) == 2 * ORI_RDMA_PIECE,
	      "the body is two pieces");

/*
 * A NIC has rejected a request, and the rank behind it may be about to exit: the kernel destroys
 * what a process has of an HCA in the reverse order of its making, memory of windows before the
 * QPs that serve it (Linux 6.12, drivers/infiniband/core/rdma_core.c: the newest object is the
 * first in the list of __uverbs_cleanup_ufile()).
 */
struct heartbeat_doubt {
	struct oriel_dev_fault record;
	uint64_t until;  /* 0: there is none */
	uint64_t beat;   /* of that rank, last seen */
	unsigned counts; /* how often that has changed; the first one may have been on its way */
};

/* The watcher alone uses it, but for the members that ori_heartbeat_join() sets. */
struct heartbeat_peer {
	atomic_bool is_joined;       /* rkeys are there */
	struct oriel_dev_keys rkeys; /* of its table */
	uint64_t lost_at;  /* requests in flight must be answered before; 0: there are none */
	bool has_reported; /* its row holds its failure */
	bool is_notified;  /* or need not be */
	bool is_dead;      /* the queue to it is */
	struct heartbeat_doubt doubt;
};

struct ori_heartbeat {
	struct heartbeat_row *table; /* [size] */
	struct ori_rdma_mr *mr;
	struct oriel_dev_keys rkeys;
	uint64_t next_beat;  /* the first one at once */
	uint64_t timeout_ns; /* for the answer of a peer that is alive */
	bool is_passed_on;
	bool is_sealed;          /* no link begins any more */
	bool is_over;            /* the links are given up */
	uint64_t over_at;        /* at the latest; 0 while all is well */
	atomic_bool is_stopping; /* no more beats */
	atomic_bool is_stopped;  /* and none is in flight */
	atomic_bool is_reported; /* all peers have the failure of this rank */
	struct heartbeat_peer peers[];
};

/*
 * A NIC answers for a process that sleeps, and a NIC that retries for ever never reports
 * a dead peer, so that the limit is needed. A software HCA sleeps with its process, and
 * has a limit of its own.
 */
static uint64_t heartbeat_timeout(const struct oriel_comm *comm)
{
	struct ori_hca_caps caps;

	ori_rdma_caps(comm->rdma, 0, &caps);
	if (caps.is_software || comm->timeout_ns == ORIEL_TIMEOUT_INFINITE)
		return ORIEL_TIMEOUT_INFINITE;
	/*
	 * A thread that waits for the peer must get the cause before its own limit ends, and no
	 * user should wait for minutes for a machine that has lost its power.
	 */
	return comm->timeout_ns / 2 < HEARTBEAT_SILENT_NS ? comm->timeout_ns / 2
							  : HEARTBEAT_SILENT_NS;
}

enum oriel_status ori_heartbeat_open(struct oriel_comm *comm)
{
	size_t length = comm->size * sizeof(struct heartbeat_row);
	enum oriel_status status;
	struct ori_heartbeat *heartbeat;

	heartbeat = calloc(1, sizeof(*heartbeat) + comm->size * sizeof(heartbeat->peers[0]));
	if (!heartbeat)
		return ori_fail_nomem(sizeof(*heartbeat) + comm->size * sizeof(heartbeat->peers[0]),
				      "the heartbeats of %u ranks", comm->size);
	/* Pages of its own: peers may write anything to them. */
	length = (length + HEARTBEAT_PAGE - 1) / HEARTBEAT_PAGE * HEARTBEAT_PAGE;
	heartbeat->table = aligned_alloc(HEARTBEAT_PAGE, length);
	if (!heartbeat->table) {
		status = ori_fail_nomem(length, "the reports of %u ranks", comm->size);
		goto err_free_heartbeat;
	}
	memset(heartbeat->table, 0, length);
	status = ori_rdma_register(comm->rdma, heartbeat->table, length, ORI_RDMA_TARGET,
				   &heartbeat->mr, &heartbeat->rkeys);
	if (status != ORIEL_OK)
		goto err_free_table;
	heartbeat->timeout_ns = heartbeat_timeout(comm);
	comm->heartbeat = heartbeat;
	return ORIEL_OK;

err_free_table:
	free(heartbeat->table);
err_free_heartbeat:
	free(heartbeat);
	return status;
}

void ori_heartbeat_close(struct oriel_comm *comm)
{
	struct ori_heartbeat *heartbeat = comm->heartbeat;

	if (!heartbeat)
		return;
	ori_rdma_unregister(comm->rdma, heartbeat->mr);
	free(heartbeat->table);
	free(heartbeat);
	comm->heartbeat = NULL;
}

const struct oriel_dev_keys *ori_heartbeat_rkeys(const struct oriel_comm *comm)
{
	return &comm->heartbeat->rkeys;
}

void ori_heartbeat_join(struct oriel_comm *comm, unsigned peer, const struct oriel_dev_keys *rkeys)
{
	struct heartbeat_peer *p = &comm->heartbeat->peers[peer];

	p->rkeys = *rkeys;
	/* Acquired in heartbeat_is_joined(). */
	atomic_store_explicit(&p->is_joined, true, memory_order_release);
}

static bool heartbeat_is_joined(const struct heartbeat_peer *p)
{
	return atomic_load_explicit(&p->is_joined, memory_order_acquire) && !p->is_dead;
}

/* The remote address of the word at @offset of this rank's row. */
static uint64_t heartbeat_remote(const struct oriel_comm *comm, size_t offset)
{
	return comm->rank * sizeof(struct heartbeat_row) + offset;
}

/* @writer may write the row at any time: each word is read once, and checked. */
static struct oriel_dev_fault heartbeat_read(const struct oriel_comm *comm, unsigned writer)
{
	const struct heartbeat_row *row = &comm->heartbeat->table[writer];
	struct oriel_dev_fault record = {0};

	record.status = (int32_t)ori_dev_load_relaxed32((const uint32_t *)&row->status);
	record.what = ori_dev_load_relaxed32(&row->what);
	record.peer = ori_dev_load_relaxed32(&row->peer);
	record.window = ori_dev_load_relaxed32(&row->window);
	record.id = ori_dev_load_relaxed32(&row->id);
	record.finder = ori_dev_load_relaxed32(&row->finder);
	record.expected = oriel_dev_load_relaxed(&row->expected);
	record.seen = oriel_dev_load_relaxed(&row->seen);
	record.age_ns = oriel_dev_load_relaxed(&row->age_ns);
	if (!ori_status_is_failure(record.status))
		record.status = ORIEL_ERR_PROTOCOL;
	if (record.peer >= comm->size)
		record.peer = ORIEL_DEV_NO_RANK;
	if (record.finder == 0 || record.finder > comm->size)
		record.finder = writer + 1;
	return record;
}

static void heartbeat_receive(struct oriel_comm *comm, unsigned peer)
{
	const struct heartbeat_row *row = &comm->heartbeat->table[peer];
	struct heartbeat_peer *p = &comm->heartbeat->peers[peer];
	struct oriel_dev_fault record;

	/* Acquires the body, which the peer's NIC wrote before. */
	if (p->has_reported || !oriel_dev_load_acquire(&row->complete))
		return;
	p->has_reported = true;
	record = heartbeat_read(comm, peer);
	ori_log_rank(ORIEL_LOG_INFO, comm->rank, "rank %u reports what broke it: %s", peer,
		     oriel_status_name((enum oriel_status)record.status));
	ori_comm_break_for(comm, &record);
}

/* A peer that reported a failure itself needs no report. */
static void heartbeat_report(struct oriel_comm *comm, unsigned peer)
{
	struct ori_rdma_heartbeat *queue = ori_rdma_link_heartbeat(comm->links[peer]);
	struct heartbeat_peer *p = &comm->heartbeat->peers[peer];
	struct oriel_dev_fault record = ori_comm_record(comm);
	struct heartbeat_row row = {.status = record.status,
				    .what = record.what,
				    .peer = record.peer,
				    .window = record.window,
				    .id = record.id,
				    .finder = record.finder,
				    .expected = record.expected,
				    .seen = record.seen,
				    .age_ns = record.age_ns,
				    .complete = 1};
	const char *bytes = (const char *)&row;
	/* The word comes last, whatever order the network keeps. */
	struct ori_rdma_piece pieces[3] = {
		{heartbeat_remote(comm, 0), bytes, ORI_RDMA_PIECE},
		{heartbeat_remote(comm, ORI_RDMA_PIECE), bytes + ORI_RDMA_PIECE, ORI_RDMA_PIECE},
		{heartbeat_remote(comm, offsetof(struct heartbeat_row, complete)), &row.complete,
		 sizeof(row.complete)},
	};

	if (p->is_notified || p->has_reported)
		return;
	p->is_notified = ori_rdma_heartbeat_post(queue, &p->rkeys, pieces, 3) != ORIEL_AGAIN;
}

static void heartbeat_send_beat(struct oriel_comm *comm, unsigned peer)
{
	struct ori_rdma_heartbeat *queue = ori_rdma_link_heartbeat(comm->links[peer]);
	struct heartbeat_peer *p = &comm->heartbeat->peers[peer];
	uint64_t beat = ori_silence_beat(comm);
	struct ori_rdma_piece piece = {heartbeat_remote(comm, offsetof(struct heartbeat_row, beat)),
				       &beat, sizeof(beat)};

	if (ori_rdma_heartbeat_poll(queue) == ORIEL_OK)
		(void)ori_rdma_heartbeat_post(queue, &p->rkeys, &piece, 1);
}

/* A request to @p is in flight: is its answer overdue? */
static bool heartbeat_is_overdue(const struct ori_heartbeat *heartbeat, struct heartbeat_peer *p)
{
	if (!p->lost_at)
		p->lost_at = ori_deadline(heartbeat->timeout_ns);
	return ori_deadline_passed(p->lost_at);
}

/* Is a request to @peer in flight? A peer that exited is found here. */
static bool heartbeat_is_waiting(struct oriel_comm *comm, unsigned peer)
{
	struct ori_rdma_heartbeat *queue = ori_rdma_link_heartbeat(comm->links[peer]);
	enum oriel_status status = ori_rdma_heartbeat_poll(queue);
	struct heartbeat_peer *p = &comm->heartbeat->peers[peer];
	struct oriel_dev_fault record = {
		.status = ORIEL_ERR_PEER,
		.what = ORIEL_DEV_LOST,
		.peer = peer,
	};

	if (status == ORIEL_OK)
		p->lost_at = 0;
	if (status == ORIEL_OK ||
	    (status == ORIEL_AGAIN && !heartbeat_is_overdue(comm->heartbeat, p)))
		return status == ORIEL_AGAIN;
	p->is_dead = true;
	/* It may have reported before it ended the queue. */
	heartbeat_receive(comm, peer);
	if (status != ORIEL_AGAIN)
		ori_rdma_heartbeat_fault(queue, &record);
	/* The table is registered for as long as the rank has the communicator. */
	if (record.status == ORIEL_ERR_ACCESS && !ori_dev_link_is_own_access(record.seen)) {
		record.status = ORIEL_ERR_PEER;
		record.what = ORIEL_DEV_LOST;
	}
	ori_comm_break_for(comm, &record);
	return false;
}

/* Sends all peers what is due now; true if a request to one of them is still in flight. */
static bool heartbeat_send_all(struct oriel_comm *comm, bool is_well, bool is_beat)
{
	struct ori_heartbeat *heartbeat = comm->heartbeat;
	bool is_waiting = false;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		struct heartbeat_peer *p = &heartbeat->peers[peer];

		if (!heartbeat_is_joined(p))
			continue;
		is_waiting |= heartbeat_is_waiting(comm, peer);
		if (p->is_dead)
			continue;
		if (!is_well) {
			heartbeat_report(comm, peer);
			is_waiting |= (!p->is_notified && !p->has_reported) ||
				      heartbeat_is_waiting(comm, peer);
		} else if (is_beat) {
			heartbeat_send_beat(comm, peer);
		}
	}
	return is_waiting;
}

/*
 * Once all peers have the failure of this rank, or do not answer: ends its own waits for
 * links and for the bootstrap.
 */
static void heartbeat_finish(struct oriel_comm *comm, bool is_waiting)
{
	struct ori_heartbeat *heartbeat = comm->heartbeat;

	if (!heartbeat->over_at)
		heartbeat->over_at = ori_deadline(HEARTBEAT_REPORT_NS);
	if (is_waiting && !ori_deadline_passed(heartbeat->over_at))
		return;
	/* The peer of a link that began in this turn has its report in the next one. */
	if (!heartbeat->is_sealed) {
		ori_links_seal(comm);
		heartbeat->is_sealed = true;
		return;
	}
	/* Not before: a peer would see a failed queue before its cause. */
	if (!heartbeat->is_over)
		ori_links_fail(comm);
	heartbeat->is_over = true;
	atomic_store(&heartbeat->is_reported, true);
	ori_comm_interrupt(comm);
}

static bool heartbeat_is_in_doubt(const struct oriel_comm *comm, unsigned peer)
{
	return comm->heartbeat->peers[peer].doubt.until;
}

/* A link has failed as *@record says: its peer, which is not in doubt, now is, or @comm breaks. */
static void heartbeat_found(struct oriel_comm *comm, const struct oriel_dev_fault *record)
{
	uint64_t limit =
		comm->timeout_ns < HEARTBEAT_DOUBT_NS ? comm->timeout_ns : HEARTBEAT_DOUBT_NS;

	if (record->status != ORIEL_ERR_ACCESS || ori_dev_link_is_own_access(record->seen) ||
	    record->peer >= comm->size ||
	    !heartbeat_is_joined(&comm->heartbeat->peers[record->peer])) {
		ori_comm_break_for(comm, record);
		return;
	}
	comm->heartbeat->peers[record->peer].doubt = (struct heartbeat_doubt){
		.record = *record,
		.until = ori_deadline(limit),
		.beat = oriel_dev_load_relaxed(&comm->heartbeat->table[record->peer].beat),
	};
	comm->heartbeat->next_beat = 0;
}

/*
 * Ends the doubt about @peer once that rank has lived on. One that has sent no beat for the whole
 * time has exited: a NIC that retries for ever does not say so.
 */
static void heartbeat_judge(struct oriel_comm *comm, unsigned peer)
{
	struct heartbeat_doubt *doubt = &comm->heartbeat->peers[peer].doubt;
	uint64_t beat = oriel_dev_load_relaxed(&comm->heartbeat->table[peer].beat);

	doubt->counts += beat != doubt->beat;
	doubt->beat = beat;
	if (doubt->counts < 2 && !ori_deadline_passed(doubt->until))
		return;
	if (doubt->counts < 2)
		doubt->record.status = ORIEL_ERR_PEER;
	ori_comm_break_for(comm, &doubt->record);
}

/* True: some rank is in doubt. */
static bool heartbeat_settle(struct oriel_comm *comm)
{
	bool is_any = false;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		if (!heartbeat_is_in_doubt(comm, peer))
			continue;
		is_any = true;
		heartbeat_judge(comm, peer);
	}
	return is_any;
}

bool ori_heartbeat_watch(struct oriel_comm *comm, bool is_serving)
{
	struct ori_heartbeat *heartbeat = comm->heartbeat;
	bool is_stopping, is_well, is_beat, is_waiting, has_failed, has_doubts;
	struct oriel_dev_fault record;
	unsigned peer;

	if (!heartbeat)
		return false;
	/*
	 * A peer ends its links once its report is in the table: a link is polled first, so that
	 * the report of a peer that ended it is read before, and says why.
	 */
	has_failed = ori_links_poll(comm, heartbeat_is_in_doubt, &record);
	for (peer = 0; peer < comm->size; peer++) {
		heartbeat_receive(comm, peer);
		if (heartbeat_is_joined(&heartbeat->peers[peer]))
			ori_silence_see(comm, peer,
					oriel_dev_load_relaxed(&heartbeat->table[peer].beat));
	}
	if (has_failed)
		heartbeat_found(comm, &record);
	has_doubts = heartbeat_settle(comm);

	is_stopping = atomic_load(&heartbeat->is_stopping);
	is_well = ori_comm_is_well(comm);
	is_beat = !is_stopping && ori_deadline_passed(heartbeat->next_beat);
	if (is_beat)
		heartbeat->next_beat =
			ori_clock_ns() + (has_doubts ? HEARTBEAT_PROBE_NS : HEARTBEAT_INTERVAL_NS);
	if (!is_well && !heartbeat->is_passed_on) {
		ori_comm_pass_on(comm);
		heartbeat->is_passed_on = true;
	}
	is_waiting = heartbeat_send_all(comm, is_well, is_beat);
	if (is_stopping && !is_waiting)
		atomic_store(&heartbeat->is_stopped, true);
	if (!is_well)
		heartbeat_finish(comm, is_waiting || is_serving);
	return !heartbeat->is_over && (!is_well || (is_waiting && is_stopping));
}

static void heartbeat_await(struct oriel_comm *comm, const atomic_bool *done)
{
	uint64_t start = ori_clock_ns(), deadline = ori_deadline(HEARTBEAT_REPORT_NS);

	while (!atomic_load(done) && !ori_deadline_passed(deadline) && ori_comm_wake(comm))
		oriel_cpu_back_off(ori_clock_ns() - start);
}

void ori_heartbeat_stop(struct oriel_comm *comm)
{
	if (!comm->heartbeat)
		return;
	atomic_store(&comm->heartbeat->is_stopping, true);
	heartbeat_await(comm, &comm->heartbeat->is_stopped);
}

void ori_heartbeat_await_reports(struct oriel_comm *comm)
{
	if (!comm->heartbeat || ori_comm_is_well(comm))
		return;
	heartbeat_await(comm, &comm->heartbeat->is_reported);
	/* A peer that did not answer within a second is not waited for again. */
	atomic_store(&comm->heartbeat->is_reported, true);
}
