/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining a job: rank 0 collects a hello of every rank and answers with the parent's address,
 * or with the failure of the job; the other ranks connect to rank 0 and to their parents. tcp.c
 * calls it once for each bootstrap.
 */
#include "bootstrap/join.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/late.h"
#include "base/log.h"
#include "bootstrap/dial.h"
#include "bootstrap/ranks.h"

#define JOIN_SWEEP_NS 200000000u /* between checks for joined ranks that have left */
#define JOIN_WAIT_NS 1000000000u /* between signs of life of rank 0 */
/* For the root's answer to arrive, at most half of the timeout: no rank ends later than that. */
#define JOIN_GRACE_NS 5000000000u
/* Packets to an address of another network may get no answer: the next address is tried then. */
#define JOIN_CONNECT_NS 3000000000u
#define JOIN_RETRY_MIN_NS 5000000 /* between attempts to reach the root; doubles each time */
#define JOIN_RETRY_MAX_NS 200000000
#define JOIN_RETRY_LOCAL_NS 20000000 /* the same by unix sockets, where an attempt costs little */

/* The state of the root while ranks join. */
struct join_root {
	struct ori_join *join;
	struct ori_pending **joined;  /* by rank */
	struct ori_job_name *awaited; /* of a list: of the listener, owned */
	unsigned arrived;             /* ranks that have joined or failed to, the root included */
	struct ori_failure failure;   /* of the job; every rank gets it */
	uint64_t deadline;            /* the earliest of all ranks */
	uint64_t timeout_ns;          /* the timeout of that rank, for texts */
	uint64_t wait_at;             /* the next sign of life */
};

/* Milliseconds for a hello; 0 means for ever, and so do more than 49 days, which do not fit. */
static uint32_t join_ms(uint64_t ns)
{
	uint64_t ms = ns / 1000000u + (ns % 1000000u != 0);

	return ms > UINT32_MAX ? 0 : (uint32_t)ms;
}

static uint64_t join_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* All ranks have come: none of them has anything else to do now. */
static void join_limit(struct ori_join *join)
{
	uint64_t limit = ori_setting_boot_limit(join->job->timeout_ns);

	if (limit == join->job->timeout_ns)
		return;
	join->limit_ns = limit;
	join->deadline = join_min(join->deadline, ori_deadline(limit));
}

static uint64_t join_grace(const struct ori_join *join)
{
	uint64_t grace = join_min(join->job->timeout_ns / 2, JOIN_GRACE_NS);

	return join->deadline < ORIEL_TIMEOUT_INFINITE - grace ? join->deadline + grace
							       : ORIEL_TIMEOUT_INFINITE;
}

static void root_report(const struct join_root *root, struct ori_pending *pending)
{
	unsigned rank;

	if (!pending)
		return;
	ori_failure_send(&root->failure, &pending->link);
	if (!root->awaited)
		return;
	/* It goes on to another list, which this rank comes to later. */
	rank = ori_listener_awaited(root->join->listener, &pending->hello);
	if (rank < root->join->job->size)
		root->awaited[rank] = (struct ori_job_name){{0}};
}

/*
 * The last error of this thread becomes the failure of the job: send it to all joined ranks, behind
 * @who.
 */
static void root_fail_job(struct join_root *root, const char *who)
{
	unsigned i;

	root->failure.status = oriel_last_status();
	root->failure.rank = ORIEL_NO_RANK; /* the text names the rank: the job has not begun */
	snprintf(root->failure.text, sizeof(root->failure.text), "%s%s", who, oriel_last_error());
	for (i = 1; i < root->join->job->size; i++) {
		root_report(root, root->joined[i]);
		ori_pending_free(root->joined[i]);
		root->joined[i] = NULL;
	}
}

static enum oriel_status root_check(const struct join_root *root, const struct ori_pending *pending)
{
	unsigned size = root->join->job->size, rank = pending->hello.rank;

	if (!ori_job_tag_equal(&pending->hello.tag, &root->join->listener->own->tag))
		return ori_fail(ORIEL_ERR_MISMATCH,
				"rank %u at %s has come with another number or list of ids than "
				"rank 0",
				ori_listener_awaited(root->join->listener, &pending->hello),
				pending->from);
	if (pending->hello.size != size)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"rank %u at %s says the job has %u ranks, rank 0 says %u", rank,
				pending->from, pending->hello.size, size);
	if (rank >= size)
		return ori_fail(ORIEL_ERR_PROTOCOL, "%s joined as rank %u of %u", pending->from,
				rank, size);
	return ORIEL_OK;
}

static struct ori_rank_owner root_rank_owner(const struct join_root *root, unsigned rank)
{
	const struct ori_pending *pending = root->joined[rank];
	struct ori_rank_owner owner = {.process = root->join->listener->own->process,
				       .pid = (uint32_t)getpid()};

	ori_endpoint_text(&root->join->listener->address, owner.from);
	if (rank == 0)
		return owner;
	assert(pending);
	owner.process = pending->hello.process;
	owner.pid = pending->hello.pid;
	memcpy(owner.from, pending->from, sizeof(owner.from));
	return owner;
}

/* A second process with the same rank is rejected; the job goes on with the first one. */
static bool root_reject_second(const struct join_root *root, struct ori_pending *pending)
{
	struct ori_failure rejection = {.status = ORIEL_ERR_CONFIG, .rank = ORIEL_NO_RANK};
	unsigned rank = pending->hello.rank;
	char why[ORI_NET_TEXT];
	struct ori_rank_owner first;

	if (rank >= root->join->job->size || (rank && !root->joined[rank]))
		return false;
	first = root_rank_owner(root, rank);
	snprintf(why, sizeof(why), "rank %u is process %u at %s already", rank, first.pid,
		 first.from);
	ori_listener_note_rejection(root->join->listener, pending, rejection.status, why);
	snprintf(rejection.text, sizeof(rejection.text),
		 "rank %u joined twice: process %u at %s is it, process %u at %s is rejected", rank,
		 first.pid, first.from, pending->hello.pid, pending->from);
	ori_failure_send(&rejection, &pending->link);
	return true;
}

/* The earliest deadline of all ranks is that of the job: its rank would leave then. */
static void root_shorten_deadline(struct join_root *root, const struct ori_hello *hello)
{
	uint64_t deadline;

	if (hello->timeout_ms == 0)
		return;
	deadline = ori_deadline(hello->left_ms * 1000000ull);
	if (deadline < root->deadline) {
		root->deadline = deadline;
		root->timeout_ns = join_min(hello->timeout_ms * 1000000ull, root->timeout_ns);
	}
}

/* Has this rank of a list come before, and is it in another list by now? */
static bool root_has_left(const struct join_root *root, const struct ori_pending *pending)
{
	unsigned rank;

	if (!root->awaited ||
	    ori_job_tag_equal(&pending->hello.tag, &root->join->listener->own->tag))
		return false;
	rank = ori_listener_awaited(root->join->listener, &pending->hello);
	return rank < root->join->job->size && root->joined[rank];
}

static void root_admit(struct join_root *root, struct ori_pending *pending)
{
	bool has_left = root_has_left(root, pending);

	if (root->failure.status == ORIEL_OK && root_check(root, pending) != ORIEL_OK)
		root_fail_job(root, "");
	if (root->failure.status == ORIEL_OK && root_reject_second(root, pending)) {
		ori_pending_free(pending);
		return;
	}
	root->arrived += !has_left;
	if (root->failure.status != ORIEL_OK) {
		root_report(root, pending);
		ori_pending_free(pending);
		return;
	}
	root->joined[pending->hello.rank] = pending;
	root->join->addresses[pending->hello.rank] = pending->hello.address;
	root_shorten_deadline(root, &pending->hello);
}

static enum oriel_status root_check_closed(struct join_root *root)
{
	unsigned size = root->join->job->size, i;
	struct ori_frame frame;

	for (i = 1; i < size; i++) {
		if (!root->joined[i] || ori_net_peek(&root->joined[i]->link, &frame) == ORIEL_AGAIN)
			continue;
		ori_net_close(&root->joined[i]->link);
		return ori_fail(ORIEL_ERR_PEER, "rank %u of %u left while others were joining", i,
				size);
	}
	return ORIEL_OK;
}

static const char *root_missing(const struct join_root *root, char text[ORI_RANKS_LENGTH])
{
	unsigned size = root->join->job->size, i;
	struct ori_ranks missing = {0};

	for (i = 1; i < size; i++)
		if (!root->joined[i])
			ori_ranks_add(&missing, i);
	return ori_ranks_text(&missing, size, text);
}

static enum oriel_status root_timed_out(struct join_root *root)
{
	const struct ori_listener *listener = root->join->listener;
	char text[ORI_RANKS_LENGTH];

	root_missing(root, text);
	if (listener->net.refused)
		return ori_fail(listener->net.refused_status, "%s did not join within %g s; %s",
				text, ori_seconds(root->timeout_ns), listener->net.refused_text);
	return ori_fail(ORIEL_ERR_TIMEOUT, "%s did not join within %g s " ORI_LATE_LIMIT, text,
			ori_seconds(root->timeout_ns));
}

/* Ranks that have joined see that this one runs. A full socket is of a rank that does not. */
static void root_reassure(struct join_root *root)
{
	unsigned i;

	if (!ori_setting_heartbeat() || !ori_deadline_passed(root->wait_at))
		return;
	root->wait_at = ori_deadline(JOIN_WAIT_NS);
	for (i = 1; i < root->join->job->size; i++)
		if (root->joined[i])
			(void)ori_net_send(&root->joined[i]->link, ORI_FRAME_WAIT, NULL, 0);
}

/*
 * The root does not return at a failure: a rank that joins later would try to reach a root that
 * does not listen any more. So the root stays until all ranks have arrived, or the deadline.
 */
static enum oriel_status root_wait(struct join_root *root)
{
	uint64_t sweep = ori_deadline(JOIN_SWEEP_NS);
	char text[ORI_RANKS_LENGTH];
	enum oriel_status status;
	struct ori_pending *pending;
	struct ori_late late;

	ori_late_begin(&late);
	while (root->arrived < root->join->job->size && !ori_deadline_passed(root->deadline)) {
		status = ori_listener_poll(root->join->listener, NULL, 0,
					   join_min(root->deadline, sweep));
		if (status != ORIEL_OK) {
			root_fail_job(root, "rank 0: ");
			return status;
		}
		if (ori_deadline_passed(sweep)) {
			if (root_check_closed(root) != ORIEL_OK)
				root_fail_job(root, "");
			sweep = ori_deadline(JOIN_SWEEP_NS);
			root_reassure(root);
		}
		while ((pending = ori_listener_next(root->join->listener, ORI_PURPOSE_JOIN)))
			root_admit(root, pending);
		if (root->arrived < root->join->job->size && ori_late_is_due(&late))
			ori_late_warn(&late, root->timeout_ns, "%s did not join",
				      root_missing(root, text));
	}
	if (root->failure.status != ORIEL_OK)
		return ori_fail(root->failure.status, "%s", root->failure.text);
	if (root->arrived == root->join->job->size)
		return ORIEL_OK;
	status = root_timed_out(root);
	root_fail_job(root, "");
	return status;
}

/* A child's connection becomes its link of the tree; all other ranks connect to their parents. */
static void root_welcome(struct join_root *root)
{
	struct ori_tree *tree = root->join->tree;
	unsigned char body[ORI_ADDRESS_LENGTH];
	struct ori_tree_place place;
	unsigned i;

	for (i = 1; i < tree->size; i++) {
		ori_tree_place(tree->size, i, &place);
		ori_address_encode(&root->join->addresses[place.parent], body);
		ori_net_send(&root->joined[i]->link, ORI_FRAME_WELCOME, body, sizeof(body));
	}
	for (i = 0; i < tree->place.children; i++)
		ori_net_move(&tree->links[i], &root->joined[tree->place.child[i]]->link);
}

/* The listener names these processes in texts for processes that join the complete job. */
static enum oriel_status root_record_owners(struct join_root *root)
{
	struct ori_rank_owner *rank_owners = calloc(root->join->job->size, sizeof(*rank_owners));
	unsigned i;

	if (!rank_owners)
		return ori_fail_nomem(root->join->job->size * sizeof(*rank_owners),
				      "a job of %u ranks", root->join->job->size);
	for (i = 0; i < root->join->job->size; i++)
		rank_owners[i] = root_rank_owner(root, i);
	root->join->listener->rank_owners = rank_owners;
	return ORIEL_OK;
}

static enum oriel_status root_await(struct join_root *root)
{
	const struct ori_tcp_job *job = root->join->job;
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	root->joined = calloc(job->size, sizeof(*root->joined));
	if (job->ids)
		root->awaited = calloc(job->size, sizeof(*root->awaited));
	if (!root->joined || (job->ids && !root->awaited))
		return ori_fail_nomem(job->size * sizeof(*root->joined), "a job of %u ranks",
				      job->size);
	for (i = 1; i < job->size && job->ids && status == ORIEL_OK; i++)
		status = ori_job_tag_name(&job->ids[i], &root->awaited[i]);
	if (status != ORIEL_OK)
		return status;
	root->join->listener->awaited = root->awaited;
	root->join->listener->accepts_joins = true;
	status = root_wait(root);
	root->join->listener->accepts_joins = false;
	root->join->listener->awaited = NULL;
	return status;
}

enum oriel_status ori_join_root(struct ori_join *join)
{
	struct join_root root = {
		.join = join,
		.arrived = 1,
		.deadline = join->deadline,
		.timeout_ns = join->job->timeout_ns,
	};
	enum oriel_status status = ori_join_listen(join);
	unsigned i;

	if (status != ORIEL_OK)
		return status;
	status = root_await(&root);
	if (status == ORIEL_OK) {
		status = root_record_owners(&root);
		if (status != ORIEL_OK)
			root_fail_job(&root, "rank 0: ");
	}
	if (status == ORIEL_OK)
		root_welcome(&root);
	join_limit(join);
	for (i = 0; i < join->job->size && root.joined; i++)
		ori_pending_free(root.joined[i]);
	free(root.joined);
	free(root.awaited);
	return status;
}

/*
 * Try once to reach the root; @has_others: at one of several addresses. ORIEL_AGAIN: try again.
 * errno is the reason: EBUSY if the root has not closed the previous job, in which this process was
 * the same rank, or is in another list of ids.
 */
static enum oriel_status join_attempt(struct ori_join *join, const struct ori_address *root,
				      bool has_others, struct ori_net_conn *link)
{
	const struct ori_tcp_job *job = join->job;
	struct ori_hello hello = {
		.purpose = ORI_PURPOSE_JOIN,
		.rank = job->rank,
		.size = job->size,
		.timeout_ms = join_ms(job->timeout_ns),
	};
	uint64_t connect_by = join->deadline;
	enum oriel_status status;
	char text[256];
	int error;

	if (has_others)
		connect_by = join_min(ori_deadline(JOIN_CONNECT_NS), connect_by);
	status = ori_dial_connect(link, root, join->listener, connect_by, join->deadline);
	if (status == ORIEL_AGAIN) {
		error = errno;
		ori_net_close(link);
		errno = error;
		return ORIEL_AGAIN;
	}
	if (status == ORIEL_OK && ori_join_wants_key(join)) {
		status = ori_join_ask_key(join, root, link);
		ori_net_close(link);
		if (status == ORIEL_OK)
			return join_attempt(join, root, has_others, link);
	}
	if (status == ORIEL_OK)
		status = ori_join_listen_member(join->listener, link->fd);
	if (status == ORIEL_OK) {
		hello.address = join->listener->address;
		if (join->deadline != ORIEL_TIMEOUT_INFINITE &&
		    !ori_deadline_passed(join->deadline))
			hello.left_ms = join_ms(join->deadline - ori_clock_ns());
		status = ori_dial_hello(link, root, join->listener, &hello, join->deadline);
	}
	if (status != ORIEL_OK)
		ori_net_close(link);
	if (status == ORIEL_ERR_TIMEOUT) {
		snprintf(text, sizeof(text), "%s", oriel_last_error());
		return ori_fail(status, "rank 0: %s", text);
	}
	if (status != ORIEL_ERR_PEER && status != ORIEL_AGAIN)
		return status;
	errno = status == ORIEL_AGAIN ? EBUSY : ECONNRESET;
	return ORIEL_AGAIN;
}

/* The addresses at which rank 0 may listen. */
static enum oriel_status join_addresses(const struct ori_join *join, struct ori_address *names,
					unsigned *count)
{
	const struct ori_tcp_job *job = join->job;

	if (job->address_count == 0)
		return ori_endpoint_resolve(job->host, job->port, join->deadline, names, count);
	*count = job->address_count;
	memcpy(names, job->addresses, *count * sizeof(*names));
	return ORIEL_OK;
}

static enum oriel_status join_busy(const struct ori_tcp_job *job, const struct ori_address *root)
{
	char text[ORI_ENDPOINT_LENGTH];

	return ori_fail(
		ORIEL_ERR_TIMEOUT,
		"rank 0 at %s has not left another job for this one within %g s " ORI_LATE_LIMIT,
		ori_endpoint_text(root, text), ori_seconds(job->timeout_ns));
}

static enum oriel_status join_connect_root(struct ori_join *join, struct ori_address *root,
					   struct ori_net_conn *link)
{
	const struct ori_tcp_job *job = join->job;
	const long pause_most = ori_tcp_job_is_local(job) ? JOIN_RETRY_LOCAL_NS : JOIN_RETRY_MAX_NS;
	struct timespec pause = {0, JOIN_RETRY_MIN_NS};
	struct ori_address names[ORI_ENDPOINT_NAMES];
	char text[ORI_ENDPOINT_LENGTH];
	enum oriel_status status;
	struct ori_late late;
	unsigned count, i, attempts = 1;
	bool is_busy = false;

	ori_late_begin(&late);
	status = join_addresses(join, names, &count);
	if (status != ORIEL_OK)
		return status;
	for (i = 0;; i = (i + 1) % count, attempts++) {
		*root = names[i];
		status = join_attempt(join, root, count > 1, link);
		if (status == ORIEL_OK)
			ori_log_rank(ORIEL_LOG_DEBUG, job->rank,
				     "connected to rank 0 at %s, attempt %u",
				     ori_endpoint_text(root, text), attempts);
		if (status == ORIEL_ERR_TIMEOUT && is_busy)
			return join_busy(job, root);
		if (status != ORIEL_AGAIN)
			return status;
		if (attempts == 1)
			ori_log_rank(ORIEL_LOG_DEBUG, job->rank,
				     "connecting to rank 0 at %s: %s; this rank tries again",
				     ori_endpoint_text(root, text), strerror(errno));
		is_busy = errno == EBUSY;
		if (ori_deadline_passed(join->deadline) && is_busy)
			return join_busy(job, root);
		if (ori_deadline_passed(join->deadline))
			return ori_fail_errno(ORIEL_ERR_TIMEOUT,
					      "rank %u of %u cannot connect to rank 0 at %s (%s) "
					      "within %g s " ORI_LATE_LIMIT,
					      job->rank, job->size, ori_endpoint_text(root, text),
					      job->host, ori_seconds(job->timeout_ns));
		if (ori_late_is_due(&late))
			ori_late_warn(&late, job->timeout_ns,
				      "rank %u of %u did not connect to rank 0 at %s (%s): %s",
				      job->rank, job->size, ori_endpoint_text(root, text),
				      job->host, strerror(errno));
		if (i + 1 < count)
			continue;
		nanosleep(&pause, NULL);
		status = ori_listener_check(join->listener);
		if (status != ORIEL_OK)
			return status;
		if (pause.tv_nsec < pause_most)
			pause.tv_nsec *= 2;
	}
}

/*
 * ORIEL_OK and the parent's address; ORIEL_AGAIN, and *@heard_at if it is a sign of life; or the
 * failure that the root reports.
 */
static enum oriel_status join_receive_answer(struct ori_net_conn *link, struct ori_address *parent,
					     uint64_t *heard_at)
{
	unsigned char body[ORI_FAILURE_LENGTH];
	struct ori_failure failure;
	enum oriel_status status;
	struct ori_frame frame;

	status = ori_net_take(link, &frame, body, sizeof(body));
	if (status == ORIEL_ERR_PEER)
		return ori_fail(status, "rank 0 left: connection closed");
	if (status == ORIEL_ERR_AUTH)
		return ori_fail(status, "the connection with rank 0 %s", ori_net_doubt(link));
	if (status == ORIEL_AGAIN)
		return status;
	if (status == ORIEL_OK && frame.type == ORI_FRAME_FAILURE &&
	    ori_failure_parse(body, frame.length, &failure))
		return ori_fail(failure.status, "%s", failure.text);
	if (status == ORIEL_OK && frame.type == ORI_FRAME_WAIT && !frame.length) {
		if (!*heard_at)
			ori_log(ORIEL_LOG_DEBUG, "rank 0 beats while others are to join");
		*heard_at = ori_clock_ns();
		return ORIEL_AGAIN;
	}
	if (status == ORIEL_OK && frame.type == ORI_FRAME_WELCOME &&
	    ori_address_parse(body, frame.length, parent))
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_PROTOCOL, "rank 0 sent a malformed frame");
}

static enum oriel_status join_wait(struct ori_join *join, struct ori_net_conn *link,
				   struct ori_address *parent)
{
	struct pollfd polled = {.fd = link->fd, .events = POLLIN};
	uint64_t limit = ori_setting_boot_limit(ORIEL_TIMEOUT_INFINITE);
	uint64_t deadline = join_grace(join), heard_at = 0;
	enum oriel_status status;
	struct ori_late late;

	ori_late_begin(&late);
	while ((status = join_receive_answer(link, parent, &heard_at)) == ORIEL_AGAIN) {
		if (heard_at && ori_clock_ns() - heard_at >= limit)
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"rank 0 has not run for %g s (ORIEL_HEARTBEAT) while ranks "
					"join: it is stopped, or its machine is",
					ori_seconds(limit));
		if (ori_deadline_passed(deadline))
			return ori_fail(
				ORIEL_ERR_TIMEOUT,
				"rank 0 did not complete the job within %g s " ORI_LATE_LIMIT,
				ori_seconds(join->job->timeout_ns));
		if (ori_late_is_due(&late))
			ori_late_warn(&late, join->job->timeout_ns,
				      "rank 0 did not complete the job of rank %u of %u",
				      join->job->rank, join->job->size);
		status = ori_listener_poll(join->listener, &polled, 1, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	return status;
}

/* Connect to the parent. It answers even while it waits for its own parent. */
static enum oriel_status join_parent(struct ori_join *join, const struct ori_address *address)
{
	struct ori_tree *tree = join->tree;
	struct ori_net_conn *link = ori_tree_parent(tree);
	struct ori_hello hello = {
		.purpose = ORI_PURPOSE_TREE,
		.rank = tree->rank,
		.to = tree->place.parent,
		.size = tree->size,
	};
	enum oriel_status status;

	ori_error_clear();
	status = ori_dial(address, join->listener, &hello, join_grace(join), link);
	if (status != ORIEL_OK)
		return ori_fail(status, "rank %u of %u cannot reach rank %u: %s", tree->rank,
				tree->size, tree->place.parent,
				oriel_last_status() ? oriel_last_error() : "it has left");
	ori_log_rank(ORIEL_LOG_DEBUG, tree->rank, "connected to rank %u, its parent in the tree",
		     tree->place.parent);
	link->peer = tree->place.parent;
	return ORIEL_OK;
}

static unsigned join_take_children(struct ori_tree *tree)
{
	struct ori_pending *pending;
	unsigned i, connected = 0;

	while ((pending = ori_listener_next(tree->listener, ORI_PURPOSE_TREE))) {
		for (i = 0; i < tree->place.children; i++) {
			if (tree->place.child[i] != pending->hello.rank || tree->links[i].fd >= 0)
				continue;
			ori_net_move(&tree->links[i], &pending->link);
		}
		ori_pending_free(pending);
	}
	for (i = 0; i < tree->place.children; i++)
		connected += tree->links[i].fd >= 0;
	return connected;
}

static enum oriel_status join_children_timed_out(struct ori_join *join)
{
	struct ori_tree *tree = join->tree;
	struct ori_ranks missing = {0};
	char text[ORI_RANKS_LENGTH];
	unsigned i;

	for (i = 0; i < tree->place.children; i++)
		if (tree->links[i].fd < 0)
			ori_ranks_add(&missing, tree->place.child[i]);
	return ori_tree_break(tree, ORIEL_ERR_TIMEOUT, missing.first[0],
			      "%s did not connect to rank %u within %g s",
			      ori_ranks_text(&missing, tree->size, text), tree->rank,
			      ori_seconds(join->limit_ns));
}

static enum oriel_status join_children(struct ori_join *join)
{
	struct ori_tree *tree = join->tree;
	struct pollfd polled = {.fd = ori_tree_parent(tree)->fd, .events = POLLIN};
	enum oriel_status status;

	while (join_take_children(tree) < tree->place.children) {
		status = ori_tree_expect_failure(tree, ori_tree_parent(tree));
		if (status != ORIEL_AGAIN)
			return status;
		if (ori_deadline_passed(join->deadline))
			return join_children_timed_out(join);
		status = ori_listener_poll(join->listener, &polled, 1, join->deadline);
		if (status != ORIEL_OK)
			return ori_tree_stop(tree, status);
	}
	return ORIEL_OK;
}

enum oriel_status ori_join_member(struct ori_join *join, struct ori_address *root)
{
	struct ori_address parent;
	enum oriel_status status;
	struct ori_net_conn link;

	status = join_connect_root(join, root, &link);
	if (status != ORIEL_OK)
		return status;
	status = join_wait(join, &link, &parent);
	join_limit(join);
	if (status == ORIEL_OK && join->tree->place.parent == 0) {
		ori_net_move(ori_tree_parent(join->tree), &link);
		return join_children(join);
	}
	ori_net_close(&link);
	if (status == ORIEL_OK)
		status = join_parent(join, &parent);
	return status == ORIEL_OK ? join_children(join) : status;
}
