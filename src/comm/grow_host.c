/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invites new ranks, and serves them: see grow_host.h. oriel_comm_invite() is a public function of
 * oriel/comm.h.
 */
#include "comm/grow_host.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/wait_page.h"
#include "comm/health.h"
#include "net/listen.h"
#include "sys/process.h"

#define HOST_CAPACITY 256u /* new ranks that are expected at once */
#define HOST_TICK_NS 20000000u
#define HOST_WAIT_NS 1000000000u /* between two signs of life, for those that have come */
#define HOST_TEXT 400u

/* A process, or a group, that joins. */
struct host_newcomer {
	struct host_newcomer *next; /* in the order of arrival */
	struct ori_net_conn conn;
	struct ori_grow_hello hello;
	unsigned first; /* its first rank */
	bool has_result;
	struct ori_grow_done result;
};

struct ori_invite {
	struct ori_net_listener listener;
	struct ori_tls_context *tls; /* NULL: by a unix socket */
	uint8_t token[ORI_INVITATION_TOKEN];
	struct host_newcomer *newcomers;
	unsigned came;    /* ranks of them */
	uint64_t wait_at; /* the next sign of life */
	uint64_t begun;   /* the wait */
};

static void host_free(struct host_newcomer *n)
{
	ori_net_close(&n->conn);
	free(n);
}

static void host_forget(struct ori_invite *invite)
{
	struct host_newcomer *n;

	while ((n = invite->newcomers)) {
		invite->newcomers = n->next;
		host_free(n);
	}
	invite->came = 0;
}

void ori_invite_close(struct oriel_comm *comm)
{
	struct ori_invite *invite = comm->invite;

	if (!invite)
		return;
	host_forget(invite);
	ori_net_listener_close(&invite->listener);
	ori_tls_context_destroy(invite->tls);
	free(invite);
	comm->invite = NULL;
}

static enum oriel_status host_open(struct ori_invite *invite, struct ori_invitation *in)
{
	bool is_local = strcmp(ori_setting_text(ORI_SETTING_MEET), "unix") == 0;
	struct ori_key key = {.length = sizeof(in->key)};
	enum oriel_status status = ori_random(in->token, sizeof(in->token));
	int fd;

	ori_net_listener_init(&invite->listener, NULL, HOST_CAPACITY, NULL);
	if (status == ORIEL_OK)
		status = ori_random(in->key, sizeof(in->key));
	memcpy(key.bytes, in->key, sizeof(in->key));
	memcpy(invite->token, in->token, sizeof(in->token));
	if (status == ORIEL_OK && !is_local)
		status = ori_tls_context_create(&key, &invite->tls);
	explicit_bzero(&key, sizeof(key));
	if (status == ORIEL_OK)
		status = ori_job_id_listen(is_local, in->addresses, &in->count, &fd);
	if (status != ORIEL_OK)
		return status;
	invite->listener.context = invite->tls;
	return ori_net_listener_open(&invite->listener, fd);
}

enum oriel_status oriel_comm_invite(struct oriel_comm *comm, struct oriel_invitation *invitation)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_invitation in = {0};

	if (status != ORIEL_OK)
		return status;
	if (!invitation)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_invite: invitation is NULL");
	if (comm->rank)
		return ori_fail(ORIEL_ERR_STATE,
				"oriel_comm_invite: rank 0 invites, and this is rank %u",
				comm->rank);
	status = ori_comm_check(comm);
	if (status != ORIEL_OK)
		return status;
	ori_invite_close(comm);
	comm->invite = calloc(1, sizeof(*comm->invite));
	if (!comm->invite)
		return ori_fail_nomem(sizeof(*comm->invite), "an invitation");
	in.epoch = comm->epoch;
	status = host_open(comm->invite, &in);
	if (status == ORIEL_OK)
		ori_invitation_encode(&in, invitation);
	else
		ori_invite_close(comm);
	explicit_bzero(&in, sizeof(in));
	return status;
}

/* "process 17 on host a", or "3 ranks of process 17 on host a". */
static void host_name(const struct ori_grow_hello *hello, char *text, size_t size)
{
	if (hello->count == 1)
		snprintf(text, size, "process %u on %s", hello->pid, hello->hostname);
	else
		snprintf(text, size, "%u ranks of process %u on %s", hello->count, hello->pid,
			 hello->hostname);
}

/* @status: how its connection has ended. */
static enum oriel_status host_lost(const struct host_newcomer *n, enum oriel_status status)
{
	char name[HOST_TEXT];

	host_name(&n->hello, name, sizeof(name));
	if (status == ORIEL_ERR_AUTH)
		return ori_fail(status, "new rank %u (%s): its connection with rank 0 %s", n->first,
				name, ori_net_doubt(&n->conn));
	return ori_fail(ORIEL_ERR_PEER, "new rank %u (%s) was lost while it joined", n->first,
			name);
}

/* The comparison takes as long whatever differs. */
static bool host_has_token(const struct ori_invite *invite, const struct ori_grow_hello *hello)
{
	unsigned i;
	uint8_t differ = 0;

	for (i = 0; i < sizeof(hello->token); i++)
		differ |= invite->token[i] ^ hello->token[i];
	return !differ;
}

static void host_reject(struct ori_invite *invite, struct ori_net_pending *arrived,
			const struct ori_grow_hello *hello, enum oriel_status status)
{
	struct ori_grow_done done;
	char name[HOST_TEXT], who[HOST_TEXT + ORI_ENDPOINT_LENGTH + 8];

	ori_grow_done_fill(&done, status);
	host_name(hello, name, sizeof(name));
	snprintf(who, sizeof(who), "%s at %s", name, arrived->from);
	ori_net_listener_refuse(&invite->listener, who, status, done.text);
	(void)ori_net_send_last(&arrived->conn, ORI_GROW_DONE, &done, sizeof(done));
}

static enum oriel_status host_judge(const struct oriel_comm *comm,
				    const struct ori_grow_hello *hello, unsigned awaited)
{
	if (!host_has_token(comm->invite, hello))
		return ori_fail(ORIEL_ERR_AUTH, "it has another invitation");
	if (hello->epoch != comm->epoch)
		return ori_fail(ORIEL_ERR_STATE,
				"its invitation is of epoch %" PRIu64
				", and the communicator of %" PRIu64,
				hello->epoch, comm->epoch);
	if (hello->count > awaited)
		return ori_fail(ORIEL_ERR_STATE, "it comes with %u ranks, and %u are still awaited",
				hello->count, awaited);
	return ORIEL_OK;
}

static enum oriel_status host_admit(struct oriel_comm *comm, struct ori_net_pending *arrived,
				    const struct ori_grow_hello *hello)
{
	struct ori_invite *invite = comm->invite;
	struct host_newcomer **end = &invite->newcomers, *n = calloc(1, sizeof(*n));
	char name[HOST_TEXT];

	if (!n)
		return ori_fail_nomem(sizeof(*n), "a new rank");
	n->hello = *hello;
	ori_net_open(&n->conn, -1, NULL);
	ori_net_move(&n->conn, &arrived->conn);
	while (*end)
		end = &(*end)->next;
	*end = n;
	invite->came += hello->count;
	(void)ori_net_send(&n->conn, ORI_GROW_WAIT, NULL, 0);
	host_name(hello, name, sizeof(name));
	ori_log_rank(ORIEL_LOG_INFO, comm->rank, "%s comes to join the communicator", name);
	return ORIEL_OK;
}

/* A process that is rejected is no failure, unless this rank lacks memory for it. */
static enum oriel_status host_decide(struct oriel_comm *comm, struct ori_net_pending *arrived,
				     const struct ori_grow_hello *hello, unsigned awaited)
{
	enum oriel_status status = host_judge(comm, hello, awaited);
	bool may_join = status == ORIEL_OK;

	if (may_join)
		status = host_admit(comm, arrived, hello);
	if (status != ORIEL_OK)
		host_reject(comm->invite, arrived, hello, status);
	return may_join ? status : ORIEL_OK;
}

static enum oriel_status host_serve(struct oriel_comm *comm, unsigned count)
{
	struct ori_invite *invite = comm->invite;
	struct ori_net_pending *arrived;
	struct ori_grow_hello hello;
	enum oriel_status status = ORIEL_OK;
	struct ori_frame frame;
	const char *doubt;

	ori_net_listener_serve(&invite->listener);
	while (status == ORIEL_OK && (arrived = ori_net_listener_next(&invite->listener))) {
		memset(&hello, 0, sizeof(hello));
		doubt = "its hello is malformed";
		if (ori_net_take(&arrived->conn, &frame, &hello, sizeof(hello)) == ORIEL_OK)
			doubt = ori_grow_hello_doubt(&frame, &hello);
		if (doubt)
			ori_net_listener_warn(&invite->listener, arrived->from, doubt);
		else
			status = host_decide(comm, arrived, &hello, count - invite->came);
		ori_net_pending_free(arrived);
	}
	return status;
}

static void host_reassure(struct ori_invite *invite)
{
	struct host_newcomer *n;

	if (!ori_deadline_passed(invite->wait_at))
		return;
	invite->wait_at = ori_deadline(HOST_WAIT_NS);
	for (n = invite->newcomers; n; n = n->next)
		(void)ori_net_send(&n->conn, ORI_GROW_WAIT, NULL, 0);
}

/* A newcomer says nothing before it is welcome: one that does, or closes its end, is lost. */
static void host_drop_lost(struct oriel_comm *comm)
{
	struct ori_invite *invite = comm->invite;
	struct host_newcomer **at = &invite->newcomers, *n;
	enum oriel_status status;
	struct ori_frame frame;
	char name[HOST_TEXT];

	while ((n = *at)) {
		status = ori_net_take(&n->conn, &frame, NULL, 0);
		if (status == ORIEL_AGAIN) {
			at = &n->next;
			continue;
		}
		host_name(&n->hello, name, sizeof(name));
		ori_log_rank(ORIEL_LOG_WARN, comm->rank,
			     "%s was lost before all new ranks had come%s%s", name,
			     status == ORIEL_ERR_AUTH ? ": its connection with rank 0 " : "",
			     status == ORIEL_ERR_AUTH ? ori_net_doubt(&n->conn) : "");
		*at = n->next;
		invite->came -= n->hello.count;
		host_free(n);
	}
}

/* Polls the listener, if @listener_fd is not -1, and all that are here. */
static enum oriel_status host_poll(const struct oriel_comm *comm, int listener_fd,
				   uint64_t deadline)
{
	const struct ori_invite *invite = comm->invite;
	struct ori_wait_note note = {.comm = ori_comm_wait_key(comm),
				     .rank = comm->rank,
				     .what = ORI_WAIT_GROW,
				     .peer = ORIEL_DEV_NO_RANK,
				     .begun = invite->begun,
				     .limit_ns = deadline - invite->begun};
	uint64_t tick = ori_deadline(HOST_TICK_NS);
	const struct host_newcomer *n;
	struct pollfd *fds;
	unsigned count = 1, i = 1;
	int polled;

	for (n = invite->newcomers; n; n = n->next)
		count++;
	fds = calloc(count, sizeof(*fds));
	if (!fds)
		return ori_fail_nomem(count * sizeof(*fds), "%u new ranks", count - 1);
	fds[0] = (struct pollfd){.fd = listener_fd, .events = POLLIN};
	for (n = invite->newcomers; n; n = n->next)
		fds[i++] = (struct pollfd){.fd = n->has_result ? -1 : n->conn.fd, .events = POLLIN};
	ori_wait_begin(&note);
	polled = poll(fds, count, ori_deadline_poll_ms(tick < deadline ? tick : deadline));
	ori_wait_end();
	free(fds);
	if (polled < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	return ORIEL_OK;
}

/* "1 of 3 new ranks came within 15 s, half of the timeout (ORIEL_TIMEOUT): process 7 on a" */
static enum oriel_status host_late(const struct oriel_comm *comm, unsigned count)
{
	const struct ori_invite *invite = comm->invite;
	const struct host_newcomer *n;
	char text[HOST_TEXT] = "", name[HOST_TEXT];
	size_t length = 0;

	for (n = invite->newcomers; n && length < sizeof(text) / 2; n = n->next) {
		host_name(&n->hello, name, sizeof(name));
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s",
					   length ? ", " : ": ", name);
	}
	if (invite->listener.refused && length < sizeof(text))
		snprintf(text + length, sizeof(text) - length, "; one was rejected: %s",
			 invite->listener.refused_text);
	return ori_fail(ORIEL_ERR_TIMEOUT,
			"%u of %u new ranks came within %g s, half of the timeout "
			"(ORIEL_TIMEOUT)%s",
			invite->came, count, ori_comm_half_timeout(comm) / 1e9, text);
}

enum oriel_status ori_invite_await(struct oriel_comm *comm, unsigned count, uint64_t deadline)
{
	struct ori_invite *invite = comm->invite;
	enum oriel_status status = ORIEL_OK;

	invite->listener.refused = 0;
	invite->begun = ori_clock_ns();
	while (status == ORIEL_OK) {
		status = host_serve(comm, count);
		host_drop_lost(comm);
		host_reassure(invite);
		if (status == ORIEL_OK && invite->came == count)
			return ORIEL_OK;
		if (status == ORIEL_OK)
			status = ori_comm_check(comm);
		if (status == ORIEL_OK && ori_deadline_passed(deadline))
			status = host_late(comm, count);
		if (status == ORIEL_OK)
			status = host_poll(comm, invite->listener.epoll, deadline);
	}
	return status;
}

enum ori_part_extent ori_invite_extent(const struct oriel_comm *comm, enum ori_part_extent extent)
{
	const struct ori_host *own = &comm->hosts[comm->rank];
	const struct host_newcomer *n;

	for (n = comm->invite->newcomers; n; n = n->next)
		if (n->hello.extent == ORI_PART_NETWORK ||
		    memcmp(n->hello.boot_id, own->boot_id, sizeof(own->boot_id)) != 0 ||
		    n->hello.net_ns != own->net_ns || n->hello.uid != own->uid)
			return ORI_PART_NETWORK;
	/* New ranks are no threads of this process, as far as it can know. */
	return extent == ORI_PART_PROCESS ? ORI_PART_MACHINE : extent;
}

void ori_invite_welcome(struct oriel_comm *comm, const struct ori_grow_welcome *welcome)
{
	struct ori_grow_welcome own = *welcome;
	unsigned next = comm->size;
	struct host_newcomer *n;

	for (n = comm->invite->newcomers; n; n = n->next) {
		n->first = own.first = next;
		next += n->hello.count;
		/* A newcomer that does not get it shows no result. */
		(void)ori_net_send(&n->conn, ORI_GROW_WELCOME, &own, sizeof(own));
	}
	explicit_bzero(&own, sizeof(own));
}

enum oriel_status ori_invite_watch(const struct oriel_comm *comm, int epoll)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
	const struct host_newcomer *n;

	for (n = comm->invite->newcomers; n; n = n->next)
		if (n->conn.fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, n->conn.fd, &event) != 0)
			return ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_ctl");
	return ORIEL_OK;
}

/* ORIEL_AGAIN: it has not said how it fares. */
static enum oriel_status host_result(struct host_newcomer *n)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_frame frame;
	char name[HOST_TEXT];

	if (!n->has_result)
		status = ori_net_take(&n->conn, &frame, &n->result, sizeof(n->result));
	if (status == ORIEL_AGAIN)
		return status;
	if (status == ORIEL_OK && !n->has_result)
		n->has_result = ori_grow_done_parse(&frame, ORI_GROW_RESULT, &n->result);
	if (!n->has_result)
		return host_lost(n, status);
	if (n->result.status == ORIEL_OK)
		return ORIEL_OK;
	host_name(&n->hello, name, sizeof(name));
	return ori_fail((enum oriel_status)n->result.status, "new rank %u (%s): %s", n->first, name,
			n->result.text);
}

enum oriel_status ori_invite_results(struct oriel_comm *comm, uint64_t deadline)
{
	enum oriel_status status = ORIEL_OK;
	struct host_newcomer *n, *silent;

	comm->invite->begun = ori_clock_ns();
	for (;;) {
		silent = NULL;
		for (n = comm->invite->newcomers; n; n = n->next) {
			status = host_result(n);
			if (status == ORIEL_AGAIN)
				silent = n;
			else if (status != ORIEL_OK)
				return status;
		}
		if (!silent)
			return ORIEL_OK;
		status = ori_comm_check(comm);
		if (status == ORIEL_OK && ori_deadline_passed(deadline))
			status = ori_fail(ORIEL_ERR_TIMEOUT,
					  "new rank %u (process %u on %s) has met the others, and "
					  "does not say whether it has joined",
					  silent->first, silent->hello.pid, silent->hello.hostname);
		if (status == ORIEL_OK)
			status = host_poll(comm, -1, deadline);
		if (status != ORIEL_OK)
			return status;
	}
}

void ori_invite_end(struct oriel_comm *comm, enum oriel_status status)
{
	struct host_newcomer *n;
	struct ori_grow_done done;

	ori_grow_done_fill(&done, status);
	for (n = comm->invite->newcomers; n; n = n->next)
		(void)ori_net_send_last(&n->conn, ORI_GROW_DONE, &done, sizeof(done));
	host_forget(comm->invite);
}
