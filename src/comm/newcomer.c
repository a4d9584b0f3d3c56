/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oriel_comm_join() and oriel_comm_merge(): the side of new ranks where a communicator grows. One
 * process comes alone, or rank 0 of a group for all of it. Public functions of oriel/comm.h; comm.c
 * calls it for ORIEL_INVITATION.
 */
#include "comm/newcomer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/job_key.h"
#include "base/late.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/wait_page.h"
#include "bootstrap/tcp.h"
#include "comm/grow.h"
#include "comm/health.h"
#include "comm/split.h"
#include "comm/survive.h"

#define NEWCOMER_TICK_NS 50000000u
#define NEWCOMER_PAUSE_NS 200000000u              /* before all addresses are tried again */
#define NEWCOMER_QUIET_NS UINT64_C(2000000000)    /* rank 0 shows each second that it waits */
#define NEWCOMER_REASON_NS UINT64_C(2000000000)   /* at least, for why it has failed */
#define NEWCOMER_PATIENCE_NS UINT64_C(3000000000) /* with an address of TCP */

/* The leader of a group passes it on to all of it. It goes over the wire as it is. */
struct newcomer_place {
	struct ori_verdict verdict;
	struct ori_grow_welcome welcome;
};

static_assert(sizeof(struct newcomer_place) == 488, "struct newcomer_place goes over the wire");
static_assert(sizeof(struct newcomer_place) <= ORI_RECORD_BYTES, "a place is a record");

struct newcomer {
	struct oriel_comm *comm;            /* the group; NULL: this process comes alone */
	const struct oriel_comm_attr *attr; /* of the caller, or NULL */
	struct ori_invitation in;
	struct ori_host host; /* of this rank */
	unsigned rank, size;  /* in the group */
	uint64_t begun, timeout_ns, deadline;
	bool is_awaited;   /* rank 0 of the communicator has taken it in */
	uint64_t heard_at; /* ns: the last frame of rank 0 before the result */
	struct ori_grow_welcome welcome;
	uint64_t met_until; /* the deadline of all that follows the welcome at rank 0 */
	struct ori_tls_context *tls;
	struct ori_net_conn conn;
};

/* Waits until @fd has @events, a tick at most. A failure of the group ends the wait. */
static enum oriel_status newcomer_poll(const struct newcomer *n, int fd, short events)
{
	uint64_t tick = ori_deadline(NEWCOMER_TICK_NS);
	struct pollfd polled = {.fd = fd, .events = events};
	enum oriel_status status = n->comm ? ori_comm_check(n->comm) : ORIEL_OK;
	struct ori_wait_note note = {.what = ORI_WAIT_MERGE,
				     .peer = ORIEL_DEV_NO_RANK,
				     .begun = n->begun,
				     .limit_ns = n->timeout_ns};
	int count;

	if (status != ORIEL_OK)
		return status;
	/* A process that comes alone is in no communicator by which it could be shown. */
	if (n->comm) {
		note.comm = ori_comm_wait_key(n->comm);
		note.rank = n->rank;
		ori_wait_begin(&note);
	}
	count = poll(&polled, 1, ori_deadline_poll_ms(tick < n->deadline ? tick : n->deadline));
	if (n->comm)
		ori_wait_end();
	if (count < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	return ORIEL_OK;
}

static enum oriel_status newcomer_late(const struct newcomer *n)
{
	uint64_t quiet_ns = ori_clock_ns() - n->heard_at;

	/* Behind a welcome it awaits no other. */
	if (n->is_awaited && (n->welcome.size || quiet_ns > NEWCOMER_QUIET_NS))
		return ori_fail(ORIEL_ERR_TIMEOUT,
				"rank 0 of the communicator has said nothing for %.1f s",
				(double)quiet_ns / 1e9);
	if (n->is_awaited)
		return ori_fail(ORIEL_ERR_TIMEOUT,
				"the communicator still awaits other new ranks after %g s",
				(double)n->timeout_ns / 1e9);
	return ori_fail(ORIEL_ERR_TIMEOUT,
			"the ranks of the communicator did not call oriel_comm_grow() within %g s",
			(double)n->timeout_ns / 1e9);
}

/*
 * With ORIEL_HEARTBEAT: how long rank 0 may say nothing to a process that it has taken in. It waits
 * for other ranks for ori_setting_boot_limit() itself, and shows that it lives while it awaits
 * them.
 */
static uint64_t newcomer_quiet_ns(void)
{
	uint64_t boot = ori_setting_boot_limit(ORIEL_TIMEOUT_INFINITE);

	return boot == ORIEL_TIMEOUT_INFINITE ? boot : 2 * boot;
}

/* ORIEL_OK; ORIEL_AGAIN: another address, or later; *@is_refused: no process listens there. */
static enum oriel_status newcomer_try(struct newcomer *n, const struct ori_address *address,
				      bool *is_refused)
{
	uint64_t patience = ori_deadline(NEWCOMER_PATIENCE_NS);
	char where[ORI_ENDPOINT_LENGTH];
	enum oriel_status status, polled;
	bool is_connecting;

	*is_refused = false;
	if (!ori_net_dial(&n->conn, address, n->tls, NULL)) {
		*is_refused = errno == ECONNREFUSED;
		return ORIEL_AGAIN;
	}
	while ((status = ori_net_step(&n->conn)) == ORIEL_AGAIN) {
		is_connecting = n->conn.state == ORI_NET_CONNECTING;
		if (is_connecting && ori_deadline_passed(patience))
			return ORIEL_AGAIN;
		if (ori_deadline_passed(n->deadline))
			return newcomer_late(n);
		polled = newcomer_poll(n, n->conn.fd, ori_net_events(&n->conn));
		if (polled != ORIEL_OK)
			return polled;
	}
	*is_refused = status == ORIEL_ERR_PEER && n->conn.state == ORI_NET_CONNECTING &&
		      errno == ECONNREFUSED;
	if (status == ORIEL_OK || status == ORIEL_ERR_PEER)
		return status == ORIEL_OK ? status : ORIEL_AGAIN;
	if (status != ORIEL_ERR_PROTOCOL && status != ORIEL_ERR_AUTH)
		return ori_fail(status, "no connection with rank 0 of the communicator at %s: %s",
				ori_endpoint_text(address, where), oriel_status_text(status));
	return ori_fail(status == ORIEL_ERR_PROTOCOL ? ORIEL_ERR_AUTH : status,
			"%s is not the process that has made this invitation: the key differs, or "
			"bytes were altered on the way",
			ori_endpoint_text(address, where));
}

static enum oriel_status newcomer_connect(struct newcomer *n)
{
	enum oriel_status status = ORIEL_AGAIN;
	char where[ORI_ENDPOINT_LENGTH];
	unsigned i, refused;
	bool is_refused;

	while (status == ORIEL_AGAIN) {
		for (i = refused = 0; i < n->in.count && status == ORIEL_AGAIN; i++) {
			status = newcomer_try(n, &n->in.addresses[i], &is_refused);
			refused += is_refused;
			if (status == ORIEL_AGAIN)
				ori_net_close(&n->conn);
		}
		if (status != ORIEL_AGAIN)
			break;
		if (refused == n->in.count)
			return ori_fail(ORIEL_ERR_PEER,
					"no process listens at %s for this invitation any more: "
					"rank 0 of the communicator has exited, or the invitation "
					"is used or void",
					ori_endpoint_text(&n->in.addresses[0], where));
		if (ori_deadline_passed(n->deadline))
			return newcomer_late(n);
		usleep(NEWCOMER_PAUSE_NS / 1000);
	}
	return status;
}

static enum oriel_status newcomer_say_hello(struct newcomer *n)
{
	struct ori_grow_hello hello = {.version = ORI_COMM_WIRE,
				       .count = n->size,
				       .epoch = n->in.epoch,
				       .net_ns = n->host.net_ns,
				       .uid = n->host.uid,
				       .pid = n->host.pid,
				       .extent = ORI_PART_PROCESS};
	enum oriel_status status = ORIEL_OK;

	memcpy(hello.token, n->in.token, sizeof(hello.token));
	memcpy(hello.boot_id, n->host.boot_id, sizeof(hello.boot_id));
	memcpy(hello.hostname, n->host.hostname, sizeof(hello.hostname));
	if (n->comm)
		hello.extent = ori_split_extent(n->comm, NULL, n->size);
	if (ori_net_send(&n->conn, ORI_GROW_HELLO, &hello, sizeof(hello)) != ORIEL_OK)
		status = ori_fail(ORIEL_ERR_PEER, "rank 0 of the communicator has closed the "
						  "connection");
	explicit_bzero(&hello, sizeof(hello));
	return status;
}

/* Receives the next frame of rank 0 of the communicator; @body has room for ORI_GROW_BODY bytes. */
static enum oriel_status newcomer_hear(struct newcomer *n, struct ori_frame *frame, void *body)
{
	uint64_t quiet_ns = n->is_awaited ? newcomer_quiet_ns() : ORIEL_TIMEOUT_INFINITE;
	uint64_t quiet_until = ori_deadline(quiet_ns);
	enum oriel_status status;

	while ((status = ori_net_take(&n->conn, frame, body, ORI_GROW_BODY)) == ORIEL_AGAIN) {
		if (ori_deadline_passed(n->deadline))
			return newcomer_late(n);
		if (ori_deadline_passed(quiet_until))
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"rank 0 of the communicator has said nothing for %g s: it "
					"does not run (ORIEL_HEARTBEAT)",
					(double)quiet_ns / 1e9);
		status = newcomer_poll(n, n->conn.fd, POLLIN);
		if (status != ORIEL_OK)
			return status;
	}
	if (status == ORIEL_ERR_PEER)
		return ori_fail(status, "rank 0 of the communicator exited, or gave up");
	if (status == ORIEL_ERR_AUTH)
		return ori_fail(status, "the connection with rank 0 of the communicator %s",
				ori_net_doubt(&n->conn));
	return status == ORIEL_OK
		       ? status
		       : ori_fail(status, "rank 0 of the communicator sent malformed bytes");
}

/* Returns the status that all have agreed on. */
static enum oriel_status newcomer_read_done(const struct ori_frame *frame,
					    struct ori_grow_done *done)
{
	if (!ori_grow_done_parse(frame, ORI_GROW_DONE, done))
		return ori_fail(ORIEL_ERR_PROTOCOL, "rank 0 of the communicator sent frame %u",
				frame->type);
	if (done->status == ORIEL_OK)
		return ORIEL_OK;
	return ori_fail((enum oriel_status)done->status, "rank 0 of the communicator: %s",
			done->text);
}

/* A group without a key has no secrets from a network, so it gets none. */
static enum oriel_status newcomer_check_key(const struct newcomer *n)
{
	if (!n->welcome.key_length || !n->comm || !ori_tcp_is_own(&n->comm->bootstrap) ||
	    ori_comm_key(n->comm) || ori_split_extent(n->comm, NULL, n->size) != ORI_PART_NETWORK)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_AUTH,
			"the communicator has a job key, and this group of %u ranks on several "
			"machines has none: " ORI_JOB_KEY_HOW,
			n->size);
}

/* Until all have come. */
static enum oriel_status newcomer_await(struct newcomer *n)
{
	union {
		struct ori_grow_welcome welcome;
		struct ori_grow_done done;
	} body;
	struct ori_frame frame;
	enum oriel_status status;

	static_assert(sizeof(body) == ORI_GROW_BODY, "all bodies fit");
	for (;;) {
		status = newcomer_hear(n, &frame, &body);
		if (status != ORIEL_OK)
			return status;
		n->heard_at = ori_clock_ns();
		if (frame.type != ORI_GROW_WAIT || frame.length)
			break;
		n->is_awaited = true;
	}
	if (ori_grow_welcome_is_valid(&frame, &body.welcome, n->size)) {
		n->welcome = body.welcome;
		n->met_until = ori_deadline(n->welcome.timeout_ns);
		status = newcomer_check_key(n);
	} else {
		status = newcomer_read_done(&frame, &body.done);
		if (status == ORIEL_OK)
			status = ori_fail(ORIEL_ERR_PROTOCOL,
					  "rank 0 of the communicator ended the call");
	}
	explicit_bzero(&body, sizeof(body));
	return status;
}

/* The process that comes alone, or rank 0 of the group. */
static enum oriel_status newcomer_arrive(struct newcomer *n)
{
	struct ori_key key = {.length = sizeof(n->in.key)};
	enum oriel_status status = ORIEL_OK;

	memcpy(key.bytes, n->in.key, sizeof(n->in.key));
	if (n->in.addresses[0].family != ORI_ADDRESS_UNIX)
		status = ori_tls_context_create(&key, &n->tls);
	explicit_bzero(&key, sizeof(key));
	if (status == ORIEL_OK)
		status = newcomer_connect(n);
	if (status == ORIEL_OK)
		status = newcomer_say_hello(n);
	if (status == ORIEL_OK)
		status = newcomer_await(n);
	return status;
}

/* Attributes that the caller has not set are those of the ranks that invite. */
static enum oriel_status newcomer_read_attr(const struct newcomer *n, struct oriel_comm_attr *attr)
{
	const struct oriel_comm_attr *given = n->attr;
	enum oriel_status status;

	if (!given && n->comm)
		given = &n->comm->attr;
	status = ori_attr_read("oriel_comm_attr", given, attr, sizeof(*attr));
	if (status != ORIEL_OK)
		return status;
	attr->size = sizeof(*attr);
	if (!n->attr) {
		attr->flags = (attr->flags & ORIEL_COMM_GPU) | n->welcome.flags;
		attr->timeout_ns = 0;
	}
	if (!attr->timeout_ns)
		attr->timeout_ns = n->welcome.timeout_ns;
	return ORIEL_OK;
}

static enum oriel_status newcomer_meet(struct newcomer *n, struct oriel_comm **made)
{
	struct ori_key key = {.length = n->welcome.key_length};
	struct ori_part_join join = {.extent = (enum ori_part_extent)n->welcome.extent,
				     .offer = &n->welcome.offer,
				     .rank = n->welcome.first + n->rank,
				     .size = n->welcome.size,
				     .key = &key,
				     .abort_fd = n->rank == 0 ? &n->conn.fd : NULL};
	enum oriel_status status = ORIEL_OK;
	struct oriel_comm_attr attr;
	struct oriel_bootstrap own;

	memcpy(key.bytes, n->welcome.key, key.length);
	/* The key of the settings is stronger for what all jobs of the process share. */
	if (key.length && !ori_job_key_is_set())
		status = ori_key_adopt(&key);
	if (status == ORIEL_OK)
		status = newcomer_read_attr(n, &attr);
	if (status == ORIEL_OK) {
		join.timeout_ns = ori_setting_boot_limit(attr.timeout_ns);
		status = ori_part_open(&join, &own);
	}
	explicit_bzero(&key, sizeof(key));
	if (status == ORIEL_OK)
		ori_log_rank(ORIEL_LOG_DEBUG, join.rank, "has met those of a grow");
	if (status == ORIEL_OK)
		status = ori_comm_create_own(&own, &attr, made);
	if (n->comm)
		ori_log_set_rank(n->comm->rank);
	if (status == ORIEL_OK)
		status = ori_grow_settle(n->comm, *made, n->welcome.first, n->welcome.epoch);
	return status;
}

/*
 * The others may have joined already, and this process cannot know: the communicator that it leaves
 * ends with the reason. Where rank 0 has exited, they find that by themselves.
 */
static void newcomer_abort(enum oriel_status status, struct oriel_comm *made)
{
	struct ori_error error;

	if (status == ORIEL_ERR_PEER)
		return;
	ori_error_save(&error);
	oriel_comm_abort(made, error.text);
	ori_error_restore(&error);
}

/* The group is done with @status; now it is for the others to say whether all are. */
static enum oriel_status newcomer_end(struct newcomer *n, enum oriel_status status,
				      struct oriel_comm *made)
{
	bool is_caused = status == ORIEL_ERR_PEER || status == ORIEL_ERR_TIMEOUT;
	uint64_t reason = ori_deadline(NEWCOMER_REASON_NS);
	struct ori_grow_done done;
	struct ori_frame frame;
	enum oriel_status heard, theirs;
	struct ori_error own;

	ori_error_save(&own);
	ori_grow_done_fill(&done, status);
	ori_log(ORIEL_LOG_DEBUG, "reports to rank 0 of a grow that it has joined: %s",
		oriel_status_name(status));
	(void)ori_net_send(&n->conn, ORI_GROW_RESULT, &done, sizeof(done));
	n->deadline = ori_deadline(n->welcome.timeout_ns);
	/* Rank 0 may know the cause, but what it waits for began with the welcome, too. */
	if (status != ORIEL_OK)
		n->deadline = n->met_until > reason ? n->met_until : reason;
	heard = theirs = newcomer_hear(n, &frame, &done);
	if (heard != ORIEL_OK && status == ORIEL_OK)
		newcomer_abort(heard, made);
	if (heard == ORIEL_OK)
		theirs = newcomer_read_done(&frame, &done);
	/* A rank 0 that says nothing knows no other cause; one that is lost is the cause. */
	is_caused &= heard != ORIEL_ERR_TIMEOUT;
	if (status == ORIEL_OK || (is_caused && theirs != ORIEL_OK))
		return theirs;
	ori_error_restore(&own);
	return status;
}

static enum oriel_status newcomer_agree(struct newcomer *n, enum oriel_status status)
{
	return n->comm ? ori_comm_agree(n->comm, ORI_CALL_COMM_MERGE, status) : status;
}

/* Rank 0 of a group passes on what it has got. */
static enum oriel_status newcomer_share(struct newcomer *n, enum oriel_status status)
{
	struct newcomer_place mine = {0}, *places;

	if (!n->comm)
		return status;
	/* A group that may not have the key does not get it. */
	if (status == ORIEL_OK)
		mine.welcome = n->welcome;
	ori_verdict_fill(&mine.verdict, ORI_CALL_COMM_MERGE, status);
	places = ori_comm_scratch(n->comm, sizeof(mine));
	status = ori_verdict_gather(n->comm, ORI_CALL_COMM_MERGE, &mine, places, sizeof(mine));
	if (status == ORIEL_OK)
		n->welcome = places[0].welcome;
	explicit_bzero(&mine, sizeof(mine));
	explicit_bzero(places, n->size * sizeof(*places));
	return status;
}

static enum oriel_status newcomer_run(struct newcomer *n, enum oriel_status status,
				      struct oriel_comm **made)
{
	/* A rank that fails alone must not leave the others waiting. */
	status = newcomer_agree(n, status);
	if (status != ORIEL_OK)
		return status;
	if (n->rank == 0)
		status = newcomer_arrive(n);
	status = newcomer_share(n, status);
	if (status != ORIEL_OK)
		return status;
	status = newcomer_agree(n, newcomer_meet(n, made));
	/* All have read what was shared before that. */
	if (n->comm)
		ori_comm_wipe_gather(n->comm);
	if (n->rank == 0)
		status = newcomer_end(n, status, *made);
	status = newcomer_agree(n, status);
	if (status != ORIEL_OK && *made) {
		ori_comm_discard(*made);
		*made = NULL;
	}
	return status;
}

/* Reads the settings, the invitation, and this machine. */
static enum oriel_status newcomer_begin(struct newcomer *n,
					const struct oriel_invitation *invitation)
{
	struct oriel_comm_attr attr;
	enum oriel_status status = oriel_settings_check();
	unsigned paths;

	if (status == ORIEL_OK)
		status = ori_setting_open_log();
	ori_late_read();
	if (status == ORIEL_OK)
		status = ori_attr_read("oriel_comm_attr", n->attr, &attr, sizeof(attr));
	if (status != ORIEL_OK)
		return status;
	if (n->rank == 0 && !ori_invitation_parse(invitation, &n->in))
		return ori_fail(ORIEL_ERR_INVALID, "the bytes of the invitation are not those "
						   "of oriel_comm_invite()");
	if (n->comm) {
		n->host = n->comm->hosts[n->rank];
		n->timeout_ns = ori_comm_half_timeout(n->comm);
	} else {
		n->timeout_ns = attr.timeout_ns;
		if (!n->timeout_ns)
			status = ori_setting_timeout(&n->timeout_ns);
		if (status == ORIEL_OK)
			status = ori_setting_paths(&paths);
		if (status == ORIEL_OK)
			status = ori_host_describe("", paths, &n->host);
	}
	n->begun = ori_clock_ns();
	n->deadline = ori_deadline(n->timeout_ns);
	return status;
}

static enum oriel_status newcomer_join(struct oriel_comm *comm, const char *call,
				       const struct oriel_invitation *invitation,
				       const struct oriel_comm_attr *attr,
				       struct oriel_comm **grown)
{
	struct newcomer n = {.comm = comm, .attr = attr, .size = 1};
	enum oriel_status status = ORIEL_OK;
	struct oriel_comm *made = NULL;

	if (comm) {
		n.rank = comm->rank;
		n.size = comm->size;
	}
	ori_net_open(&n.conn, -1, NULL);
	if (!invitation || !grown)
		status = ori_fail(ORIEL_ERR_INVALID, "%s: %s is NULL", call,
				  grown ? "invitation" : "grown");
	if (status == ORIEL_OK)
		status = newcomer_begin(&n, invitation);
	status = newcomer_run(&n, status, &made);
	ori_net_close(&n.conn);
	ori_tls_context_destroy(n.tls);
	/* The welcome, with the key of the job, lies in the connection, too. */
	explicit_bzero(&n, sizeof(n));
	if (status != ORIEL_OK)
		return status;
	assert(made && grown);
	if (comm)
		ori_survive_pass(comm, made);
	ori_log_rank(ORIEL_LOG_INFO, made->rank, "has joined as one of %u of epoch %" PRIu64,
		     made->size, made->epoch);
	*grown = made;
	return status;
}

enum oriel_status oriel_comm_join(const struct oriel_invitation *invitation,
				  const struct oriel_comm_attr *attr, struct oriel_comm **grown)
{
	return newcomer_join(NULL, __func__, invitation, attr, grown);
}

enum oriel_status oriel_comm_merge(struct oriel_comm *comm,
				   const struct oriel_invitation *invitation,
				   const struct oriel_comm_attr *attr, struct oriel_comm **grown)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	return status == ORIEL_OK ? newcomer_join(comm, __func__, invitation, attr, grown) : status;
}

enum oriel_status ori_newcomer_create(const struct oriel_comm_attr *attr, struct oriel_comm **comm)
{
	const char *name = "ORIEL_INVITATION";
	struct oriel_invitation invitation;
	enum oriel_status status;

	status = oriel_settings_check();
	if (status == ORIEL_OK)
		status = oriel_invitation_read(ori_setting_text(ORI_SETTING_INVITATION),
					       &invitation);
	if (status == ORIEL_OK)
		status = oriel_comm_join(&invitation, attr, comm);
	explicit_bzero(&invitation, sizeof(invitation));
	/* It is used: a further communicator of the process is one of its own. */
	if (status == ORIEL_OK) {
		ori_secret_scrub(name);
		unsetenv(name);
	}
	return status;
}
