/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of peers to a context, until an endpoint takes them. Endpoints that wait for
 * their peer accept and read them, for all endpoints of the context.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "net/endpoint.h"
#include "p2p/p2p.h"

#define ACCEPT_PATIENCE_NS \
	UINT64_C(10000000000) /* with a process that connects over TCP and stays silent */

static void accept_drop(struct oriel_p2p_context *ctx, unsigned which)
{
	close(ctx->pending[which].fd);
	ctx->pending[which] = ctx->pending[--ctx->pending_count];
}

static void accept_admit(struct oriel_p2p_context *ctx, int fd, bool is_remote)
{
	ctx->pending[ctx->pending_count++] = (struct p2p_pending_connection){
		.fd = fd,
		.is_remote = is_remote,
		.deadline = ori_deadline(is_remote ? ACCEPT_PATIENCE_NS : ctx->timeout_ns),
	};
}

/*
 * The connection that has been silent for longest makes room: so no process can keep
 * others out.
 */
static void accept_make_room(struct oriel_p2p_context *ctx)
{
	unsigned oldest = P2P_PENDING_MAX;

	for (unsigned i = 0; i < ctx->pending_count; i++) {
		const struct p2p_pending_connection *s = &ctx->pending[i];

		if (s->is_remote && s->length < sizeof(s->frame) &&
		    (oldest == P2P_PENDING_MAX || s->deadline < ctx->pending[oldest].deadline))
			oldest = i;
	}
	if (oldest < P2P_PENDING_MAX)
		accept_drop(ctx, oldest);
}

/* False: no process connects, or no descriptor is left to accept with. */
static bool accept_tcp(struct oriel_p2p_context *ctx)
{
	struct pollfd ready = {.fd = ctx->listeners.tcp, .events = POLLIN};
	int fd;

	/* accept() takes a descriptor before it looks for a connection. */
	if (poll(&ready, 1, 0) <= 0)
		return false;
	fd = ori_endpoint_accept(ctx->listeners.tcp);
	if (fd >= 0)
		accept_admit(ctx, fd, true);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		accept_make_room(ctx);
	return fd >= 0;
}

static void accept_all(struct oriel_p2p_context *ctx)
{
	struct pollfd ready = {.fd = ctx->listeners.local, .events = POLLIN};
	enum oriel_status status;
	struct ucred who;
	int fd;

	if (ctx->pending_count == P2P_PENDING_MAX)
		accept_make_room(ctx);
	while (ctx->pending_count < P2P_PENDING_MAX && poll(&ready, 1, 0) == 1) {
		/*
		 * A connection is there, so a deadline that has passed suffices; a process
		 * that gives up just now is no failure.
		 */
		status = ori_fdsock_accept(ctx->listeners.local, 1, &fd, &who);
		if (status == ORIEL_ERR_NOMEM)
			accept_make_room(ctx);
		if (status != ORIEL_OK)
			break;
		accept_admit(ctx, fd, false);
	}
	while (ctx->listeners.tcp >= 0 && ctx->pending_count < P2P_PENDING_MAX && accept_tcp(ctx))
		;
}

static void accept_reject(const struct p2p_pending_connection *s, const char *why)
{
	char from[ORI_ENDPOINT_LENGTH] = "a process that has disconnected";
	struct ori_address address;

	if (ori_endpoint_remote(s->fd, &address) == ORIEL_OK)
		(void)ori_endpoint_text(&address, from);
	ori_log(ORIEL_LOG_WARN, "the connection of %s is rejected: %s", from, why);
}

/* Handle a frame of a process that connects over TCP; false: drop the connection. */
static bool accept_take_tcp(struct oriel_p2p_context *ctx, struct p2p_pending_connection *s,
			    const struct p2p_frame *said)
{
	struct p2p_frame frame = {.magic = P2P_FRAME_MAGIC,
				  .version = P2P_VERSION,
				  .kind = P2P_PROOF};

	if (s->was_challenged && said->kind == P2P_HELLO) {
		s->deadline = ori_deadline(ctx->timeout_ns);
		if (ori_p2p_check_hello(&ctx->key, &s->auth, &said->hello) == ORIEL_OK)
			return true;
		accept_reject(s, "it has another ORIEL_JOB_KEY");
		return false;
	}
	if (s->was_challenged || said->kind != P2P_CHALLENGE ||
	    ori_p2p_prove(&ctx->key, &ctx->address.token, &s->auth, &said->challenge,
			  &frame.proof) != ORIEL_OK)
		return false;
	s->was_challenged = true;
	s->length = 0;
	/* Few bytes are sent whole on a new socket, or not at all. */
	return send(s->fd, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(frame);
}

/* Read more of a frame; false: the connection can bring nothing useful any more. */
static bool accept_read(struct oriel_p2p_context *ctx, struct p2p_pending_connection *s)
{
	struct p2p_frame frame;
	ssize_t n;

	if (ori_deadline_passed(s->deadline))
		return false;
	if (s->length == sizeof(s->frame))
		return true;
	n = recv(s->fd, (char *)&s->frame + s->length, sizeof(s->frame) - s->length, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0 && s->was_challenged)
		accept_reject(s, "it means another context, or has another ORIEL_JOB_KEY");
	if (n == 0)
		return false;
	s->length += (size_t)n;
	if (s->length < sizeof(s->frame))
		return true;
	if (ori_p2p_frame_parse(&s->frame, sizeof(s->frame), &frame) != ORIEL_OK)
		return false;
	return s->is_remote ? accept_take_tcp(ctx, s, &frame) : frame.kind == P2P_HELLO;
}

static bool accept_is_from(const struct p2p_pending_connection *s, const struct p2p_token *from,
			   const struct p2p_token *to)
{
	return s->length == sizeof(s->frame) &&
	       ori_p2p_token_compare(&s->frame.hello.from, from) == 0 &&
	       ori_p2p_token_compare(&s->frame.hello.to, to) == 0;
}

enum oriel_status ori_p2p_context_answer(struct oriel_p2p_context *ctx,
					 const struct p2p_token *from, const struct p2p_token *to,
					 int *fd)
{
	enum oriel_status status = ORIEL_AGAIN;
	unsigned i = 0;

	pthread_mutex_lock(&ctx->lock);
	accept_all(ctx);
	while (i < ctx->pending_count && status == ORIEL_AGAIN) {
		struct p2p_pending_connection *s = &ctx->pending[i];

		if (!accept_read(ctx, s)) {
			accept_drop(ctx, i);
			continue;
		}
		if (accept_is_from(s, from, to)) {
			*fd = s->fd;
			*s = ctx->pending[--ctx->pending_count];
			status = ORIEL_OK;
		}
		i++;
	}
	pthread_mutex_unlock(&ctx->lock);
	return status;
}

static bool accept_has_endpoint_locked(const struct oriel_p2p_context *ctx, uint64_t number)
{
	const struct oriel_p2p *p2p = ctx->endpoints;

	while (p2p && p2p->address.token.number != number)
		p2p = p2p->next;
	return p2p;
}

/*
 * Has the peer of @p2p connected to an endpoint of another mode that this process has not
 * created?
 */
static bool accept_is_clash_locked(const struct oriel_p2p_context *ctx,
				   const struct p2p_pending_connection *s,
				   const struct oriel_p2p *p2p)
{
	const struct p2p_hello *hello = &s->frame.hello;

	return s->length == sizeof(s->frame) &&
	       memcmp(hello->from.context, p2p->peer.token.context, sizeof(hello->from.context)) ==
		       0 &&
	       hello->to.number / P2P_MODES == p2p->address.token.number / P2P_MODES &&
	       hello->from.number / P2P_MODES == p2p->peer.token.number / P2P_MODES &&
	       !accept_has_endpoint_locked(ctx, hello->to.number);
}

enum oriel_status ori_p2p_context_find_clash(struct oriel_p2p_context *ctx,
					     const struct oriel_p2p *p2p)
{
	struct p2p_frame bye = {.magic = P2P_FRAME_MAGIC,
				.version = P2P_VERSION,
				.kind = P2P_BYE,
				.status = ORIEL_ERR_MISMATCH};
	enum oriel_status status = ORIEL_AGAIN;

	pthread_mutex_lock(&ctx->lock);
	for (unsigned i = 0; i < ctx->pending_count && status == ORIEL_AGAIN; i++) {
		const struct p2p_pending_connection *s = &ctx->pending[i];

		if (!accept_is_clash_locked(ctx, s, p2p))
			continue;
		snprintf(bye.text, sizeof(bye.text),
			 "this rank has an endpoint of mode %s for the peer, which has one of mode "
			 "%s",
			 oriel_p2p_mode_name(p2p->mode),
			 oriel_p2p_mode_name(
				 (enum oriel_p2p_mode)(s->frame.hello.to.number % P2P_MODES)));
		/* Best effort: without it the peer times out. */
		(void)send(s->fd, &bye, sizeof(bye), MSG_NOSIGNAL | MSG_DONTWAIT);
		accept_drop(ctx, i);
		status = ori_fail(ORIEL_ERR_MISMATCH, "%s", bye.text);
	}
	pthread_mutex_unlock(&ctx->lock);
	return status;
}
