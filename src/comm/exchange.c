/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers bytes of all ranks, through the control segments where all ranks are mapped,
 * through the bootstrap otherwise; and judges the verdicts that ranks gathered. All
 * collectives of this library call it.
 */
#include "comm/exchange.h"

#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/order.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/late.h"
#include "base/wait_page.h"
#include "bootstrap/ranks.h"
#include "bootstrap/tcp.h"
#include "comm/health.h"
#include "comm/health_text.h"
#include "comm/links.h"
#include "comm/paths.h"
#include "comm/silence.h"

#define EXCHANGE_BLAME_NS 5000000000u /* a watcher may stand still for seconds */

uint64_t ori_comm_half_timeout(const struct oriel_comm *comm)
{
	return comm->timeout_ns == ORIEL_TIMEOUT_INFINITE ? ORIEL_TIMEOUT_INFINITE
							  : comm->timeout_ns / 2;
}

uint64_t ori_comm_boot_limit(const struct oriel_comm *comm)
{
	return ori_setting_boot_limit(comm->timeout_ns);
}

uint64_t ori_comm_answer_limit(const struct oriel_comm *comm)
{
	uint64_t half = ori_comm_half_timeout(comm), boot = ori_comm_boot_limit(comm);

	return boot < half ? boot : half;
}

/* A gather under way. */
struct exchange {
	struct oriel_comm *comm;
	enum ori_call call;
	uint64_t limit_ns;
};

static struct ori_control *exchange_control(struct oriel_comm *comm, unsigned peer)
{
	return comm->peers[peer].address;
}

/* For `oriel hang`: the rank waits for @peer, in gather number @round of its communicator. */
static struct ori_wait_note exchange_note(const struct exchange *x, unsigned peer, uint64_t round)
{
	return (struct ori_wait_note){
		.comm = ori_comm_wait_key(x->comm),
		.rank = x->comm->rank,
		.what = ORIEL_DEV_EXCHANGE,
		.peer = peer,
		.id = x->call,
		.compare = ORIEL_GE,
		.expected = round,
		.limit_ns = x->limit_ns,
	};
}

/* The ranks that have not published @round: @peer, for which this one waits, is one of them. */
static const char *exchange_missing(const struct exchange *x, unsigned peer, uint64_t round,
				    char text[ORI_RANKS_LENGTH])
{
	struct ori_ranks missing = {0};
	unsigned rank;

	for (rank = 0; rank < x->comm->size; rank++)
		if (rank == peer ||
		    oriel_dev_load_relaxed(&exchange_control(x->comm, rank)->round) < round)
			ori_ranks_add(&missing, rank);
	return ori_ranks_text(&missing, x->comm->size, text);
}

/* Ends the text of a limit of @age_ns: a rank stands still, and others may only wait for it. */
static const char *exchange_silent(const struct oriel_comm *comm, uint64_t age_ns,
				   char text[ORI_SILENT_TEXT])
{
	uint64_t silent_ns;
	unsigned rank = ori_silence_blame(comm, age_ns, &silent_ns);

	text[0] = '\0';
	if (rank != ORIEL_DEV_NO_RANK)
		ori_silent_text(rank, silent_ns, text, ORI_SILENT_TEXT);
	return text;
}

static enum oriel_status exchange_late(const struct exchange *x, unsigned peer, uint64_t round)
{
	char missing[ORI_RANKS_LENGTH], silent[ORI_SILENT_TEXT];

	exchange_missing(x, peer, round, missing);
	/* The late rank must not go on alone when it arrives. */
	ori_comm_break_all(x->comm, ORIEL_ERR_TIMEOUT, ORIEL_DEV_EXCHANGE, peer, x->call);
	return ori_fail(ORIEL_ERR_TIMEOUT, "%s did not enter %s within %g s " ORI_LATE_LIMIT "%s",
			missing, ori_call_name(x->call), (double)x->limit_ns / 1e9,
			exchange_silent(x->comm, x->limit_ns, silent));
}

/* Waits until @peer has published @round. */
static enum oriel_status exchange_wait(const struct exchange *x, unsigned peer, uint64_t round,
				       uint64_t deadline)
{
	struct oriel_comm *comm = x->comm;
	const uint64_t *word = &exchange_control(comm, peer)->round;
	uint32_t polls = 0, spin = ori_comm_spin(comm);
	enum oriel_status status;
	struct ori_late late = {0};
	struct ori_wait_note note = exchange_note(x, peer, round);
	char missing[ORI_RANKS_LENGTH];
	uint64_t now;

	while (oriel_dev_load_relaxed(word) < round) {
		if (++polls < spin) {
			oriel_dev_relax();
			continue;
		}
		status = ori_comm_check(comm);
		if (status != ORIEL_OK)
			return status;
		if (!late.begun)
			ori_late_begin(&late);
		now = ori_clock_ns();
		if (now >= deadline)
			return exchange_late(x, peer, round);
		if (ori_late_is_due(&late))
			ori_late_warn(&late, x->limit_ns,
				      "%s did not enter %s, where rank %u waits",
				      exchange_missing(x, peer, round, missing),
				      ori_call_name(x->call), comm->rank);
		if (now - late.begun >= ORI_WAIT_RECORD_NS) {
			note.seen = oriel_dev_load_relaxed(word);
			note.begun = late.begun;
			ori_wait_note(&note);
		}
		oriel_cpu_back_off(now - late.begun);
	}
	/* Acquires the slot that the owner released in exchange_round(). */
	(void)oriel_dev_load_acquire(word);
	return ORIEL_OK;
}

static void exchange_fill(struct ori_gather_head *head, enum ori_call call, size_t total)
{
	*head = (struct ori_gather_head){ORI_COMM_WIRE, call, total};
}

/* Is @peer, which published @theirs, in the gather of this rank? */
static enum oriel_status exchange_check(struct oriel_comm *comm, const struct ori_gather_head *mine,
					const struct ori_gather_head *theirs, unsigned peer)
{
	if (theirs->version != mine->version)
		return ori_fail(ORIEL_ERR_VERSION, "rank %u speaks version %u, rank %u version %u",
				peer, theirs->version, comm->rank, mine->version);
	if (theirs->call != mine->call) {
		/* One of them may be a destroy, which frees its memory after this failure. */
		comm->is_destroyed_out_of_order = true;
		return ori_fail(ORIEL_ERR_MISMATCH, "rank %u calls %s, rank %u calls %s",
				comm->rank, ori_call_name(mine->call), peer,
				ori_call_name(theirs->call));
	}
	if (theirs->total != mine->total)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: rank %u passes %llu bytes, rank %u passes %llu",
				ori_call_name(mine->call), comm->rank,
				(unsigned long long)mine->total, peer,
				(unsigned long long)theirs->total);
	return ORIEL_OK;
}

/* One round: @length <= ORI_GATHER_BYTES of each, row @peer at @all + peer * @stride. */
static enum oriel_status exchange_round(const struct exchange *x, const char *mine, char *all,
					size_t length, size_t stride, uint64_t deadline)
{
	struct oriel_comm *comm = x->comm;
	struct ori_control *control = comm->control;
	uint64_t round = control->round + 1;
	struct ori_gather_slot *slot = &control->slot[round & 1];
	enum oriel_status status, found = ORIEL_OK;
	unsigned peer;

	exchange_fill(&slot->head, x->call, stride);
	if (length)
		memcpy(slot->bytes, mine, length);
	/* Acquired in exchange_wait(). */
	oriel_dev_store_release(&control->round, round);

	for (peer = 0; peer < comm->size; peer++) {
		const struct ori_gather_slot *theirs =
			&exchange_control(comm, peer)->slot[round & 1];

		status = exchange_wait(x, peer, round, deadline);
		if (status != ORIEL_OK)
			return status;
		/* All ranks see the same slots: no rank goes on alone. */
		if (found == ORIEL_OK)
			found = exchange_check(comm, &slot->head, &theirs->head, peer);
		if (found == ORIEL_OK && length)
			memcpy(all + peer * stride, theirs->bytes, length);
	}
	return found;
}

static enum oriel_status exchange_mapped(const struct exchange *x, const char *mine, char *all,
					 size_t length)
{
	uint64_t deadline = ori_deadline(x->limit_ns);
	enum oriel_status status;
	size_t at, part;

	/* A gather of no bytes is a barrier, and needs its round too. */
	if (!length)
		return exchange_round(x, mine, all, 0, 0, deadline);
	for (at = 0; at < length; at += part) {
		part = length - at < ORI_GATHER_BYTES ? length - at : ORI_GATHER_BYTES;
		status = exchange_round(x, mine + at, all + at, part, length, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

/* The rank that broke the bootstrap, if that is another one. */
static unsigned exchange_at_fault(const struct oriel_comm *comm)
{
	const struct oriel_bootstrap *b = &comm->bootstrap;
	unsigned rank = comm->has_at_fault ? b->ops->at_fault(b->context) : ORIEL_NO_RANK;

	return rank < comm->size && rank != comm->rank ? rank : ORIEL_DEV_NO_RANK;
}

/* Is there a peer that could report the failure to this rank, or whose exit the watcher sees? */
static bool exchange_has_witness(const struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (peer != comm->rank && (ori_links_is_connected(comm, peer) ||
					   comm->host_paths.of[peer].path == ORIEL_PATH_MAPPED))
			return true;
	return false;
}

/*
 * The bootstrap failed with @status. The watcher, which reports to the peers, gets the
 * time to find the exited rank, too. On a busy machine it may not find it in time: then the
 * rank that the bootstrap names is taken, so that ranks that learn of the failure later get
 * that name all the same.
 */
static enum oriel_status exchange_failed(const struct exchange *x, enum oriel_status status)
{
	struct oriel_comm *comm = x->comm;
	enum ori_call call = x->call;
	uint64_t start = ori_clock_ns(), deadline = ori_deadline(EXCHANGE_BLAME_NS);
	unsigned rank = exchange_at_fault(comm);
	bool is_lost = status == ORIEL_ERR_PEER && rank != ORIEL_DEV_NO_RANK;
	/* The bootstrap may miss beats of a rank a moment before the watcher does. */
	bool is_silent = status == ORIEL_ERR_TIMEOUT && ori_setting_heartbeat();
	char silent[ORI_SILENT_TEXT] = "";

	if ((status == ORIEL_ERR_PEER || status == ORIEL_ERR_ABORTED || is_silent) &&
	    call != ORI_CALL_COMM_DESTROY)
		while (ori_comm_is_well(comm) && !ori_deadline_passed(deadline) &&
		       ori_comm_wake(comm) && exchange_has_witness(comm))
			oriel_cpu_back_off(ori_clock_ns() - start);
	if (!ori_comm_is_well(comm))
		return ori_comm_check(comm);
	if (is_lost)
		ori_comm_break(comm, status, ORIEL_DEV_LOST, rank, 0);
	else
		ori_comm_break(comm, status, ORIEL_DEV_EXCHANGE, rank, call);
	/* A heartbeat that has ended the call is in the text already. */
	if (status == ORIEL_ERR_TIMEOUT && (!is_silent || ori_setting_heartbeat() > x->limit_ns))
		exchange_silent(comm, x->limit_ns, silent);
	/*
	 * The bootstrap does not know the purpose of its bytes, so that the text names
	 * the call.
	 */
	return ori_fail(status, "%s: %s%s", ori_call_name(call),
			oriel_last_status() == status ? oriel_last_error()
						      : oriel_status_text(status),
			silent);
}

void ori_comm_interrupt(struct oriel_comm *comm)
{
	const struct oriel_bootstrap *b = &comm->bootstrap;

	if (comm->has_interrupt && atomic_load(&comm->is_in_bootstrap) &&
	    atomic_load(&comm->in_call) != ORI_CALL_COMM_CREATE)
		b->ops->interrupt(b->context);
}

void *ori_comm_scratch(struct oriel_comm *comm, size_t bytes)
{
	assert(bytes <= ORI_RECORD_BYTES);
	return memset(comm->scratch, 0, comm->size * bytes);
}

static enum oriel_status exchange_all_gather(const struct exchange *x, const void *mine, void *all,
					     size_t length)
{
	struct oriel_comm *comm = x->comm;
	const struct oriel_bootstrap *b = &comm->bootstrap;
	struct ori_wait_note note = exchange_note(x, ORIEL_DEV_NO_RANK, ++comm->bootstrap_gathers);
	/*
	 * In the first gather of a creation ranks may be late; in the next ones none is. The
	 * library's own bootstrap has beats, which decide better.
	 */
	bool is_boot = x->call == ORI_CALL_COMM_CREATE && comm->bootstrap_gathers > 1 &&
		       !ori_tcp_is_own(b);
	enum oriel_status status;

	note.begun = ori_clock_ns();
	atomic_store(&comm->is_in_bootstrap, true);
	ori_wait_begin(&note);
	status = b->ops->all_gather(b->context, mine, all, length,
				    is_boot ? ori_comm_boot_limit(comm) : x->limit_ns);
	ori_wait_end();
	atomic_store(&comm->is_in_bootstrap, false);
	return status == ORIEL_OK ? status : exchange_failed(x, status);
}

/* Most gathers fit into the first message; the second one has none of it. */
static enum oriel_status exchange_bootstrap(const struct exchange *x, const void *mine, void *all,
					    size_t length)
{
	struct oriel_comm *comm = x->comm;
	struct ori_gather_first first = {0};
	bool is_short = length <= sizeof(first.bytes);
	enum oriel_status status;
	unsigned peer;

	exchange_fill(&first.head, x->call, length);
	if (is_short && length)
		memcpy(first.bytes, mine, length);
	status = exchange_all_gather(x, &first, comm->firsts, sizeof(first));
	/* All ranks see the same heads: no rank goes on alone. */
	for (peer = 0; status == ORIEL_OK && peer < comm->size; peer++)
		status = exchange_check(comm, &first.head, &comm->firsts[peer].head, peer);
	if (status != ORIEL_OK)
		return status;
	if (!is_short)
		return exchange_all_gather(x, mine, all, length);
	for (peer = 0; length && peer < comm->size; peer++)
		memcpy((char *)all + peer * length, comm->firsts[peer].bytes, length);
	return ORIEL_OK;
}

/*
 * A rank that has not run for a whole limit, which some wait has had, is not waited for until
 * another one has passed: in the destroy, or in a split, whose part waited for it.
 */
static enum oriel_status exchange_give_up(struct oriel_comm *comm, enum ori_call call)
{
	unsigned rank = ori_silence_past(comm);

	if (rank == ORIEL_DEV_NO_RANK)
		return ORIEL_OK;
	ori_comm_break(comm, ORIEL_ERR_TIMEOUT, ORIEL_DEV_EXCHANGE, rank, call);
	return ori_comm_check(comm);
}

static enum oriel_status exchange_run(const struct exchange *x, const void *mine, void *all,
				      size_t length)
{
	struct oriel_comm *comm = x->comm;
	enum ori_call call = x->call;
	enum oriel_status status = ori_comm_check(comm);
	unsigned other = 0;

	/*
	 * A rank whose links fail while it creates the communicator does not leave alone: the
	 * others, which may have no link to it, get its verdict, or the bootstrap finds the rank
	 * that it misses.
	 */
	if (status == ORIEL_OK)
		status = exchange_give_up(comm, call);
	if (status != ORIEL_OK && call != ORI_CALL_COMM_CREATE)
		return status;
	if (!atomic_compare_exchange_strong(&comm->in_call, &other, call))
		return ori_fail(ORIEL_ERR_STATE,
				"%s: another thread of rank %u is in %s: one thread at a time "
				"calls the collectives of a communicator",
				ori_call_name(call), comm->rank, ori_call_name(other));
	if (comm->is_mapped_whole)
		status = exchange_mapped(x, mine, all, length);
	else
		status = exchange_bootstrap(x, mine, all, length);
	atomic_store(&comm->in_call, 0);
	comm->gathered_at = ori_clock_ns();
	return status;
}

enum oriel_status ori_comm_gather(struct oriel_comm *comm, enum ori_call call, const void *mine,
				  void *all, size_t length)
{
	struct exchange x = {comm, call, comm->timeout_ns};

	return exchange_run(&x, mine, all, length);
}

void ori_comm_meet(struct oriel_comm *comm, enum ori_call call, uint32_t object)
{
	uint32_t *objects;
	enum oriel_status status;
	unsigned peer;

	if (!ori_comm_is_well(comm))
		return;
	objects = ori_comm_scratch(comm, sizeof(*objects));
	status = ori_comm_gather(comm, call, &object, objects, sizeof(object));
	/* A program error, for which the caller gets no status. */
	if (status == ORIEL_ERR_MISMATCH || (status == ORIEL_ERR_STATE && ori_comm_is_well(comm)))
		ori_misuse("%s", oriel_last_error());
	for (peer = 0; status == ORIEL_OK && peer < comm->size; peer++)
		if (objects[peer] != object)
			break;
	if (status != ORIEL_OK || peer == comm->size)
		return;
	comm->is_destroyed_out_of_order = true;
	ori_misuse("%s: rank %u destroys window %u, rank %u destroys window %u: all ranks "
		   "destroy their windows in one order",
		   ori_call_name(call), comm->rank, ORIEL_DEV_WINDOW_NUMBER(object), peer,
		   ORIEL_DEV_WINDOW_NUMBER(objects[peer]));
}

void ori_comm_wipe_gather(struct oriel_comm *comm)
{
	struct ori_control *control = comm->control;

	/* Ranks of a broken one may read it still; it ends soon. */
	if (ori_comm_is_well(comm))
		explicit_bzero(control->slot[(control->round - 1) & 1].bytes, ORI_GATHER_BYTES);
}

void ori_verdict_fill(struct ori_verdict *verdict, enum ori_call call, enum oriel_status status)
{
	const char *text = "";

	/* A status that no failing call of this thread set is the caller's own. */
	if (status != ORIEL_OK)
		text = oriel_last_status() == status ? oriel_last_error()
						     : oriel_status_text(status);
	memset(verdict, 0, sizeof(*verdict));
	verdict->version = ORI_COMM_WIRE;
	verdict->status = status;
	verdict->call = call;
	strncpy(verdict->text, text, sizeof(verdict->text) - 1);
}

/* Does @status follow from an act or a failure of another rank? */
static bool verdict_is_consequence(int32_t status)
{
	return status == ORIEL_ERR_TIMEOUT || status == ORIEL_ERR_PEER ||
	       status == ORIEL_ERR_PROTOCOL;
}

/*
 * Fails with the status and text of @owner, which come from a peer: any number, and
 * characters of any kind.
 */
static enum oriel_status verdict_fail(const struct ori_verdict *v, unsigned owner, unsigned rank)
{
	char text[ORI_VERDICT_TEXT];

	if (!ori_status_is_failure(v->status))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"rank %u reports status %d, which is no failure", owner,
				(int)v->status);
	memcpy(text, v->text, sizeof(text));
	ori_error_clean(text, sizeof(text));
	if (owner == rank)
		return ori_fail((enum oriel_status)v->status, "%s", text);
	return ori_fail((enum oriel_status)v->status, "rank %u: %s", owner, text);
}

enum oriel_status ori_verdict_judge(const void *verdicts, size_t stride, unsigned count,
				    unsigned rank)
{
	const struct ori_verdict *first = verdicts, *worst = NULL;
	unsigned peer, owner = 0;

	for (peer = 0; peer < count; peer++) {
		const struct ori_verdict *v =
			(const void *)((const char *)verdicts + peer * stride);

		if (v->version != ORI_COMM_WIRE)
			return ori_fail(ORIEL_ERR_VERSION,
					"rank %u speaks version %u, rank %u version %u", peer,
					v->version, rank, ORI_COMM_WIRE);
		if (v->call != first->call)
			return ori_fail(ORIEL_ERR_MISMATCH, "rank 0 calls %s, rank %u calls %s",
					ori_call_name(first->call), peer, ori_call_name(v->call));
		if (v->status == ORIEL_OK)
			continue;
		if (!worst ||
		    (verdict_is_consequence(worst->status) && !verdict_is_consequence(v->status))) {
			worst = v;
			owner = peer;
		}
	}
	return worst ? verdict_fail(worst, owner, rank) : ORIEL_OK;
}

static enum oriel_status verdict_run(const struct exchange *x, const void *mine, void *all,
				     size_t length)
{
	enum oriel_status status = exchange_run(x, mine, all, length);

	return status == ORIEL_OK ? ori_verdict_judge(all, length, x->comm->size, x->comm->rank)
				  : status;
}

enum oriel_status ori_verdict_gather(struct oriel_comm *comm, enum ori_call call, const void *mine,
				     void *all, size_t length)
{
	struct exchange x = {comm, call, comm->timeout_ns};

	return verdict_run(&x, mine, all, length);
}

static enum oriel_status verdict_agree(const struct exchange *x, enum oriel_status status)
{
	struct ori_verdict mine;

	ori_verdict_fill(&mine, x->call, status);
	return verdict_run(x, &mine, ori_comm_scratch(x->comm, sizeof(mine)), sizeof(mine));
}

enum oriel_status ori_comm_agree(struct oriel_comm *comm, enum ori_call call,
				 enum oriel_status status)
{
	struct exchange x = {comm, call, comm->timeout_ns};

	return verdict_agree(&x, status);
}

enum oriel_status ori_comm_agree_after(struct oriel_comm *comm, enum ori_call call,
				       enum oriel_status status)
{
	struct exchange x = {comm, call, comm->timeout_ns};
	uint64_t took = ori_clock_ns() - comm->gathered_at, quarter = comm->timeout_ns / 4;

	/* Whole quarters: the limit in a text is a round number. */
	if (x.limit_ns != ORIEL_TIMEOUT_INFINITE)
		x.limit_ns = took < 3 * quarter ? x.limit_ns - took / quarter * quarter : quarter;
	return verdict_agree(&x, status);
}

enum oriel_status oriel_comm_agree(struct oriel_comm *comm, enum oriel_status status)
{
	enum oriel_status live = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (live != ORIEL_OK)
		return live;
	if (status > 0)
		status = ori_fail(ORIEL_ERR_INVALID, "oriel_comm_agree: %s is no failure",
				  oriel_status_name(status));
	return ori_comm_agree(comm, ORI_CALL_COMM_AGREE, status);
}

enum oriel_status oriel_comm_barrier(struct oriel_comm *comm)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (status != ORIEL_OK)
		return status;
	return ori_comm_gather(comm, ORI_CALL_COMM_BARRIER, NULL, NULL, 0);
}

enum oriel_status oriel_comm_all_gather(struct oriel_comm *comm, const void *mine, void *all,
					size_t length)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (status != ORIEL_OK)
		return status;
	if (length && (!mine || !all))
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_all_gather: %zu bytes at NULL",
				length);
	return ori_comm_gather(comm, ORI_CALL_COMM_ALL_GATHER, mine, all, length);
}
