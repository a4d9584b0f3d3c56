/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather and broadcast over a tree of links, and the failure of a job, which spreads along
 * the same links. tcp.c calls it for collectives; join and messages report failures through it.
 */
#include "bootstrap/tree.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/late.h"
#include "base/thread.h"
#include "bootstrap/ranks.h"

/*
 * The time that a rank waits beyond its deadline, for each level of the tree. The neighbour of a
 * missing rank times out first, and the other ranks receive its name, even if that neighbour
 * entered the collective later or was not scheduled. A quarter of the timeout, at most this.
 */
#define TREE_GRACE_NS 1000000000u

/* Between two beats a quarter of ORIEL_HEARTBEAT, but in these bounds. */
#define TREE_BEAT_LEAST_NS 50000000u
#define TREE_BEAT_MOST_NS 1000000000u

static unsigned tree_height(unsigned ranks)
{
	unsigned height = 0;

	for (; ranks > 1; ranks = (ranks - 1 + ORI_TREE_ARITY - 1) / ORI_TREE_ARITY)
		height++;
	return height;
}

/* Split the subtree [@lo, @hi) without its top into parts whose sizes differ by 1 at most. */
static unsigned tree_split(unsigned lo, unsigned hi, unsigned begin[ORI_TREE_ARITY + 1])
{
	unsigned ranks = hi - lo - 1, i;
	unsigned parts = ranks < ORI_TREE_ARITY ? ranks : ORI_TREE_ARITY;

	for (i = 0; i <= parts && parts; i++)
		begin[i] = lo + 1 + (unsigned)((uint64_t)ranks * i / parts);
	return parts;
}

void ori_tree_place(unsigned size, unsigned rank, struct ori_tree_place *place)
{
	unsigned begin[ORI_TREE_ARITY + 1] = {0}, lo = 0, hi = size, i, parts;

	*place = (struct ori_tree_place){.total_height = tree_height(size)};
	while ((parts = tree_split(lo, hi, begin)) && lo != rank) {
		for (i = 0; rank >= begin[i + 1]; i++)
			;
		place->parent = lo;
		place->depth++;
		lo = begin[i];
		hi = begin[i + 1];
	}
	place->end = hi;
	place->height = tree_height(hi - lo);
	place->children = parts;
	for (i = 0; i < parts; i++) {
		place->child[i] = begin[i];
		place->child_end[i] = begin[i + 1];
	}
}

void ori_tree_init(struct ori_tree *tree, unsigned rank, unsigned size,
		   struct ori_listener *listener)
{
	pthread_mutexattr_t again;
	unsigned i;

	tree->rank = rank;
	tree->size = size;
	tree->listener = listener;
	tree->failure.status = ORIEL_OK;
	ori_tree_place(size, rank, &tree->place);
	for (i = 0; i < ORI_TREE_LINKS; i++)
		ori_net_open(&tree->links[i], -1, NULL);
	pthread_mutexattr_init(&again);
	pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&tree->lock, &again);
	pthread_mutexattr_destroy(&again);
	memset(tree->heard_at, 0, sizeof(tree->heard_at));
	tree->limit_ns = 0;
}

/*
 * A beat is sent where the neighbour's kernel has all bytes before it (tcp(7) and unix(7),
 * SIOCOUTQ), and so never fills a socket that its rank does not read for long.
 */
static void beat_send(struct ori_net_conn *link)
{
	int unsent;

	if (link->fd >= 0 && !link->is_mid_frame && ioctl(link->fd, SIOCOUTQ, &unsent) == 0 &&
	    unsent == 0)
		(void)ori_net_send(link, ORI_FRAME_WAIT, NULL, 0);
}

static void *beat_main(void *argument)
{
	struct ori_tree *tree = argument;
	struct pollfd polled = {.fd = tree->stop_fd, .events = POLLIN};
	uint64_t pause = tree->limit_ns / 4;
	unsigned i;
	int count;

	if (pause < TREE_BEAT_LEAST_NS)
		pause = TREE_BEAT_LEAST_NS;
	if (pause > TREE_BEAT_MOST_NS)
		pause = TREE_BEAT_MOST_NS;
	do {
		pthread_mutex_lock(&tree->lock);
		/* No frame follows a failure. */
		for (i = 0; i < ORI_TREE_LINKS && tree->failure.status == ORIEL_OK; i++)
			beat_send(&tree->links[i]);
		pthread_mutex_unlock(&tree->lock);
		count = poll(&polled, 1, (int)(pause / 1000000));
	} while (count == 0 || (count < 0 && errno == EINTR));
	return NULL;
}

enum oriel_status ori_tree_beat(struct ori_tree *tree)
{
	uint64_t limit = ori_setting_heartbeat();
	unsigned i;
	int error;

	if (!limit)
		return ORIEL_OK;
	tree->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (tree->stop_fd < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "eventfd");
	tree->limit_ns = limit;
	/* Neighbours that do not beat are not judged: this one comes before all other frames. */
	for (i = 0; i < ORI_TREE_LINKS; i++)
		if (tree->links[i].fd >= 0)
			(void)ori_net_send(&tree->links[i], ORI_FRAME_WAIT, NULL, 0);
	error = ori_thread_start(&tree->beater, beat_main, tree);
	if (error == 0)
		return ORIEL_OK;
	close(tree->stop_fd);
	tree->limit_ns = 0;
	errno = error;
	return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot start a thread");
}

void ori_tree_beat_end(struct ori_tree *tree, bool is_forked)
{
	if (!tree->limit_ns)
		return;
	tree->limit_ns = 0;
	if (!is_forked) {
		(void)eventfd_write(tree->stop_fd, 1);
		pthread_join(tree->beater, NULL);
	}
	close(tree->stop_fd);
}

void ori_tree_close(struct ori_tree *tree)
{
	unsigned i;

	for (i = 0; i < ORI_TREE_LINKS; i++)
		ori_net_close(&tree->links[i]);
	pthread_mutex_destroy(&tree->lock);
}

struct ori_net_conn *ori_tree_parent(struct ori_tree *tree)
{
	return &tree->links[ORI_TREE_ARITY];
}

enum oriel_status ori_tree_check(struct ori_tree *tree)
{
	if (tree->failure.status == ORIEL_OK)
		return ORIEL_OK;
	return ori_fail(tree->failure.status, "%s", tree->failure.text);
}

/* Send the failure to all neighbours; one whose socket is full sees the link closed later. */
static enum oriel_status tree_report(struct ori_tree *tree)
{
	unsigned i;

	for (i = 0; i < ORI_TREE_LINKS; i++)
		if (tree->links[i].fd >= 0)
			ori_failure_send(&tree->failure, &tree->links[i]);
	return ori_tree_check(tree);
}

enum oriel_status ori_tree_break(struct ori_tree *tree, enum oriel_status status, unsigned rank,
				 const char *format, ...)
{
	va_list args;

	if (tree->failure.status != ORIEL_OK)
		return ori_tree_check(tree);
	va_start(args, format);
	pthread_mutex_lock(&tree->lock);
	vsnprintf(tree->failure.text, sizeof(tree->failure.text), format, args);
	tree->failure.status = status;
	tree->failure.rank = rank;
	status = tree_report(tree);
	pthread_mutex_unlock(&tree->lock);
	va_end(args);
	return status;
}

enum oriel_status ori_tree_stop(struct ori_tree *tree, enum oriel_status status)
{
	/* After an interrupt no rank is at fault here: its caller knows of a failure elsewhere. */
	return ori_tree_break(tree, status,
			      status == ORIEL_ERR_ABORTED ? ORIEL_NO_RANK : tree->rank,
			      "rank %u of %u: %s", tree->rank, tree->size, oriel_last_error());
}

unsigned ori_tree_at_fault(const struct ori_tree *tree)
{
	return tree->failure.status == ORIEL_OK ? ORIEL_NO_RANK : tree->failure.rank;
}

enum oriel_status ori_tree_lost(struct ori_tree *tree, unsigned rank)
{
	return ori_tree_break(tree, ORIEL_ERR_PEER, rank, "rank %u of %u left: connection closed",
			      rank, tree->size);
}

static enum oriel_status tree_malformed(struct ori_tree *tree, unsigned rank)
{
	return ori_tree_break(tree, ORIEL_ERR_PROTOCOL, rank,
			      "rank %u of %u sent a malformed frame", rank, tree->size);
}

enum oriel_status ori_tree_link_failed(struct ori_tree *tree, const struct ori_net_conn *link,
				       enum oriel_status status)
{
	if (status == ORIEL_ERR_PEER)
		return ori_tree_lost(tree, link->peer);
	if (status == ORIEL_ERR_AUTH)
		return ori_tree_break(tree, status, link->peer,
				      "the connection of rank %u with rank %u of %u %s", tree->rank,
				      link->peer, tree->size, ori_net_doubt(link));
	return tree_malformed(tree, link->peer);
}

/* The header of the next frame of @link behind beats, which stays in the buffer. */
static enum oriel_status tree_peek(struct ori_tree *tree, struct ori_net_conn *link,
				   struct ori_frame *frame)
{
	enum oriel_status status;

	while ((status = ori_net_peek(link, frame)) == ORIEL_OK && frame->type == ORI_FRAME_WAIT &&
	       !frame->length) {
		ori_net_skip(link);
		tree->heard_at[link - tree->links] = ori_clock_ns();
	}
	return status;
}

/* Read the FAILURE frame at the head of @link and make it the failure of the job. */
static enum oriel_status tree_receive_failure(struct ori_tree *tree, struct ori_net_conn *link)
{
	unsigned char body[ORI_FAILURE_LENGTH];
	enum oriel_status status;
	struct ori_failure heard;
	struct ori_frame frame;

	status = ori_net_take(link, &frame, body, sizeof(body));
	if (status == ORIEL_AGAIN)
		return ORIEL_AGAIN;
	if (status != ORIEL_OK)
		return ori_tree_link_failed(tree, link, status);
	if (!ori_failure_parse(body, frame.length, &heard))
		return tree_malformed(tree, link->peer);
	return ori_tree_break(tree, heard.status, heard.rank, "%s", heard.text);
}

static enum oriel_status tree_expect_failure(struct ori_tree *tree, struct ori_net_conn *link)
{
	struct ori_frame frame;
	enum oriel_status status = tree_peek(tree, link, &frame);

	if (status == ORIEL_AGAIN)
		return ORIEL_AGAIN;
	if (status != ORIEL_OK)
		return ori_tree_link_failed(tree, link, status);
	if (frame.type != ORI_FRAME_FAILURE)
		return tree_malformed(tree, link->peer);
	return tree_receive_failure(tree, link);
}

enum oriel_status ori_tree_expect_failure(struct ori_tree *tree, struct ori_net_conn *link)
{
	enum oriel_status status;

	pthread_mutex_lock(&tree->lock);
	status = tree_expect_failure(tree, link);
	pthread_mutex_unlock(&tree->lock);
	return status;
}

/* ORIEL_AGAIN unless @link has the failure of the job. Other frames stay unread. */
static enum oriel_status tree_poll_failure(struct ori_tree *tree, struct ori_net_conn *link)
{
	enum oriel_status status;
	struct ori_frame frame;

	if (link->fd < 0 || tree_peek(tree, link, &frame) != ORIEL_OK)
		return ORIEL_AGAIN;
	if (frame.type == ORI_FRAME_FAILURE)
		return tree_receive_failure(tree, link);
	/* The frame belongs to the next collective, which fails if its sender closed the link. */
	if (!ori_net_is_ending(link))
		return ORIEL_AGAIN;
	status = ori_net_seek(link, ORI_FRAME_FAILURE);
	return status == ORIEL_OK ? tree_receive_failure(tree, link)
				  : ori_tree_link_failed(tree, link, status);
}

enum oriel_status ori_tree_poll_failure(struct ori_tree *tree)
{
	enum oriel_status status = ORIEL_AGAIN;
	unsigned i;

	pthread_mutex_lock(&tree->lock);
	for (i = 0; i < ORI_TREE_LINKS && status == ORIEL_AGAIN; i++)
		status = tree_poll_failure(tree, &tree->links[i]);
	pthread_mutex_unlock(&tree->lock);
	return status == ORIEL_AGAIN ? ORIEL_OK : status;
}

unsigned ori_tree_poll_fds(struct ori_tree *tree, struct pollfd polled[ORI_TREE_LINKS])
{
	enum oriel_status status;
	struct ori_frame frame;
	unsigned i, n = 0;

	pthread_mutex_lock(&tree->lock);
	for (i = 0; i < ORI_TREE_LINKS; i++) {
		status = tree_peek(tree, &tree->links[i], &frame);
		/*
		 * A frame of the next collective stays unread, so POLLIN would return at once;
		 * only the end of the stream matters behind it.
		 */
		if (status == ORIEL_AGAIN || status == ORIEL_OK)
			polled[n++] = (struct pollfd){tree->links[i].fd,
						      status == ORIEL_OK ? POLLRDHUP : POLLIN, 0};
	}
	pthread_mutex_unlock(&tree->lock);
	return n;
}

/* The transfer over one link in one phase of a collective. */
struct tree_move {
	struct ori_net_conn *link;
	enum { TREE_WATCH, TREE_SEND, TREE_RECEIVE } action;
	struct ori_frame frame; /* the frame to send, or the expected one */
	char *data;
	unsigned ranks; /* how many ranks' data it has, for texts */
	size_t done;
	bool is_begun, is_over;
};

struct tree_phase {
	struct ori_tree *tree;
	struct tree_move moves[ORI_TREE_LINKS];
	unsigned count;
	uint64_t begun, deadline, timeout_ns;
	struct ori_late late;
};

static void phase_add(struct tree_phase *phase, struct ori_net_conn *link, int action,
		      enum ori_frame_type type, void *data, size_t length, unsigned ranks)
{
	struct tree_move *move = &phase->moves[phase->count++];

	*move = (struct tree_move){
		.link = link,
		.action = action,
		.frame = {.type = type, .length = length},
		.data = data,
		.ranks = ranks,
		.is_over = action == TREE_WATCH,
	};
}

static enum oriel_status move_mismatch(struct ori_tree *tree, const struct tree_move *move,
				       const struct ori_frame *got)
{
	return ori_tree_break(tree, ORIEL_ERR_MISMATCH, ORIEL_NO_RANK,
			      "all_gather: rank %u of %u gives %llu bytes, rank %u gives %llu",
			      move->link->peer, tree->size,
			      (unsigned long long)(got->length / move->ranks), tree->rank,
			      (unsigned long long)(move->frame.length / move->ranks));
}

/* Read the header of the frame that @move expects. */
static enum oriel_status move_begin(struct ori_tree *tree, struct tree_move *move)
{
	enum oriel_status status;
	struct ori_frame got;

	status = tree_peek(tree, move->link, &got);
	if (status == ORIEL_AGAIN)
		return status;
	if (status != ORIEL_OK)
		return ori_tree_link_failed(tree, move->link, status);
	if (got.type != move->frame.type)
		return ori_tree_expect_failure(tree, move->link);
	if (got.length != move->frame.length)
		return move_mismatch(tree, move, &got);
	ori_net_skip(move->link);
	move->is_begun = true;
	return ORIEL_OK;
}

static enum oriel_status move_receive(struct ori_tree *tree, struct tree_move *move)
{
	enum oriel_status status = ORIEL_OK;

	if (!move->is_begun)
		status = move_begin(tree, move);
	if (status != ORIEL_OK)
		return status;
	status = ori_net_read(move->link, move->data, move->frame.length, &move->done);
	if (status < 0)
		return ori_tree_link_failed(tree, move->link, status);
	move->is_over = status == ORIEL_OK;
	return status;
}

/* A neighbour that closed the link may have sent its failure first: read that before giving up. */
static enum oriel_status move_send(struct ori_tree *tree, struct tree_move *move)
{
	enum oriel_status status;

	status = ori_net_write(move->link, &move->frame, move->data, &move->done);
	move->is_over = status == ORIEL_OK;
	if (status == ORIEL_OK)
		return ORIEL_OK;
	if (status == ORIEL_AGAIN)
		return ori_tree_expect_failure(tree, move->link);
	if (status == ORIEL_ERR_NOMEM)
		return ori_tree_break(tree, status, tree->rank,
				      "rank %u of %u has no memory for a message of %llu bytes",
				      tree->rank, tree->size,
				      (unsigned long long)move->frame.length);
	status = ori_tree_expect_failure(tree, move->link);
	return status == ORIEL_AGAIN ? ori_tree_lost(tree, move->link->peer) : status;
}

static enum oriel_status move_step(struct ori_tree *tree, struct tree_move *move)
{
	if (move->action == TREE_WATCH)
		return tree_expect_failure(tree, move->link);
	if (move->is_over)
		return ORIEL_OK;
	return move->action == TREE_SEND ? move_send(tree, move) : move_receive(tree, move);
}

static struct ori_ranks phase_missing(const struct tree_phase *phase)
{
	struct ori_ranks missing = {0};
	unsigned i;

	for (i = 0; i < phase->count; i++)
		if (!phase->moves[i].is_over)
			ori_ranks_add(&missing, phase->moves[i].link->peer);
	return missing;
}

static enum oriel_status phase_late(struct tree_phase *phase)
{
	struct ori_ranks missing = phase_missing(phase);
	char text[ORI_RANKS_LENGTH];

	return ori_tree_break(phase->tree, ORIEL_ERR_TIMEOUT, missing.first[0],
			      "%s did not take part within %g s " ORI_LATE_LIMIT,
			      ori_ranks_text(&missing, phase->tree->size, text),
			      ori_seconds(phase->timeout_ns));
}

/* Does a neighbour that this phase waits for not run? */
static enum oriel_status phase_judge(struct tree_phase *phase)
{
	struct ori_tree *tree = phase->tree;
	uint64_t heard, now = ori_clock_ns();
	unsigned i;

	for (i = 0; i < phase->count && tree->limit_ns; i++) {
		heard = tree->heard_at[phase->moves[i].link - tree->links];
		if (phase->moves[i].is_over || !heard)
			continue;
		/* Beats of before this wait may be older: they are read in it. */
		if (heard < phase->begun)
			heard = phase->begun;
		if (now - heard >= tree->limit_ns)
			return ori_tree_break(tree, ORIEL_ERR_TIMEOUT, phase->moves[i].link->peer,
					      "rank %u of %u has not run for %g s "
					      "(ORIEL_HEARTBEAT): it is stopped, or its machine is",
					      phase->moves[i].link->peer, tree->size,
					      ori_seconds(tree->limit_ns));
	}
	return ORIEL_OK;
}

/* A neighbour in the tree may itself wait for another rank, which only that one knows. */
static void phase_warn(const struct tree_phase *phase)
{
	struct ori_ranks missing = phase_missing(phase);
	char text[ORI_RANKS_LENGTH];

	if (missing.count)
		ori_late_warn(&phase->late, phase->timeout_ns,
			      "%s, or a rank behind it, did not take part in a collective with "
			      "rank %u",
			      ori_ranks_text(&missing, phase->tree->size, text), phase->tree->rank);
}

static enum oriel_status phase_wait(struct tree_phase *phase)
{
	struct pollfd polled[ORI_TREE_LINKS];
	enum oriel_status status;
	unsigned i, n = 0;

	if (ori_deadline_passed(phase->deadline))
		return phase_late(phase);
	status = phase_judge(phase);
	if (status != ORIEL_OK)
		return status;
	if (ori_late_is_due(&phase->late))
		phase_warn(phase);
	for (i = 0; i < phase->count; i++) {
		struct tree_move *move = &phase->moves[i];

		if (move->is_over && move->action != TREE_WATCH)
			continue;
		polled[n].fd = move->link->fd;
		polled[n++].events = move->action == TREE_SEND ? POLLIN | POLLOUT : POLLIN;
	}
	pthread_mutex_unlock(&phase->tree->lock);
	status = ori_listener_poll(phase->tree->listener, polled, n, phase->deadline);
	pthread_mutex_lock(&phase->tree->lock);
	return status == ORIEL_OK ? status : ori_tree_stop(phase->tree, status);
}

static enum oriel_status phase_run(struct tree_phase *phase)
{
	enum oriel_status status;
	bool is_over;
	unsigned i;

	for (;;) {
		is_over = true;
		for (i = 0; i < phase->count; i++) {
			if (phase->moves[i].is_over && phase->moves[i].action != TREE_WATCH)
				continue;
			status = move_step(phase->tree, &phase->moves[i]);
			if (status < 0)
				return status;
			is_over = is_over && phase->moves[i].is_over;
		}
		if (is_over)
			return ORIEL_OK;
		status = phase_wait(phase);
		if (status != ORIEL_OK)
			return status;
	}
}

static void phase_begin(struct tree_phase *phase, struct ori_tree *tree, uint64_t start,
			uint64_t timeout_ns, unsigned levels)
{
	uint64_t grace = timeout_ns / 4 < TREE_GRACE_NS ? timeout_ns / 4 : TREE_GRACE_NS;

	grace *= levels;
	phase->tree = tree;
	phase->begun = ori_clock_ns();
	phase->count = 0;
	phase->timeout_ns = timeout_ns;
	ori_late_begin(&phase->late);
	phase->deadline = ORIEL_TIMEOUT_INFINITE;
	if (timeout_ns < ORIEL_TIMEOUT_INFINITE - start - grace)
		phase->deadline = start + timeout_ns + grace;
}

static void phase_children(struct tree_phase *phase, int action, enum ori_frame_type type,
			   char *data, size_t up, size_t down)
{
	struct ori_tree *tree = phase->tree;
	const struct ori_tree_place *place = &tree->place;
	unsigned i, ranks;

	for (i = 0; i < place->children; i++) {
		ranks = place->child_end[i] - place->child[i];
		if (action == TREE_RECEIVE)
			phase_add(phase, &tree->links[i], action, type, data + place->child[i] * up,
				  ranks * up, ranks);
		else
			phase_add(phase, &tree->links[i], action, type, data, down, tree->size);
	}
}

static void phase_parent(struct tree_phase *phase, int action, enum ori_frame_type type, char *data,
			 size_t length, unsigned ranks)
{
	if (phase->tree->rank != 0)
		phase_add(phase, ori_tree_parent(phase->tree), action, type, data, length, ranks);
}

static enum oriel_status tree_exchange(struct ori_tree *tree, void *all, size_t up, size_t down,
				       uint64_t timeout_ns)
{
	const struct ori_tree_place *place = &tree->place;
	unsigned ranks = place->end - tree->rank, height = place->height;
	uint64_t start = ori_clock_ns();
	struct tree_phase phase;
	enum oriel_status status;

	status = ori_tree_check(tree);
	if (status != ORIEL_OK)
		return status;

	phase_begin(&phase, tree, start, timeout_ns, height ? height - 1 : 0);
	phase_children(&phase, TREE_RECEIVE, ORI_FRAME_GATHER, all, up, down);
	phase_parent(&phase, TREE_WATCH, ORI_FRAME_GATHER, NULL, 0, 1);
	status = phase_run(&phase);
	if (status != ORIEL_OK)
		return status;

	phase_begin(&phase, tree, start, timeout_ns, height);
	phase_children(&phase, TREE_WATCH, ORI_FRAME_GATHER, all, up, down);
	phase_parent(&phase, TREE_SEND, ORI_FRAME_GATHER, (char *)all + tree->rank * up, ranks * up,
		     ranks);
	status = phase_run(&phase);
	if (status != ORIEL_OK)
		return status;

	phase_begin(&phase, tree, start, timeout_ns, place->total_height + place->depth);
	phase_children(&phase, TREE_WATCH, ORI_FRAME_SPREAD, all, up, down);
	phase_parent(&phase, TREE_RECEIVE, ORI_FRAME_SPREAD, all, down, tree->size);
	status = phase_run(&phase);
	if (status != ORIEL_OK)
		return status;

	phase_begin(&phase, tree, start, timeout_ns, place->total_height + place->depth);
	phase_children(&phase, TREE_SEND, ORI_FRAME_SPREAD, all, up, down);
	return phase_run(&phase);
}

enum oriel_status ori_tree_exchange(struct ori_tree *tree, void *all, size_t up, size_t down,
				    uint64_t timeout_ns)
{
	enum oriel_status status;

	pthread_mutex_lock(&tree->lock);
	status = tree_exchange(tree, all, up, down, timeout_ns);
	pthread_mutex_unlock(&tree->lock);
	return status;
}
