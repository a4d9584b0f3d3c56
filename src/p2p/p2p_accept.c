/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of peers to a context, until an endpoint takes them. Endpoints that wait for
 * their peer serve the listeners, for all endpoints of the context.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "p2p/p2p.h"

static void accept_drop(struct oriel_p2p_context *ctx, unsigned which)
{
	ori_p2p_hang_up(&ctx->pending[which].net->conn);
	ori_net_pending_free(ctx->pending[which].net);
	ctx->pending[which] = ctx->pending[--ctx->pending_count];
}

static enum oriel_status accept_hello(struct ori_net_conn *conn, struct p2p_hello *hello)
{
	unsigned char body[P2P_BODY];
	struct p2p_frame frame;
	struct ori_frame head;
	enum oriel_status status = ori_net_take(conn, &head, body, sizeof(body));

	if (status == ORIEL_OK)
		status = ori_p2p_frame_parse(head.type, body, head.length, &frame);
	if (status == ORIEL_OK && frame.kind != P2P_HELLO)
		status = ORIEL_ERR_PROTOCOL;
	if (status == ORIEL_OK)
		*hello = frame.hello;
	return status;
}

/*
 * The token of this context is no secret with a key, which has been proved; without one, only
 * processes that have an address of the job know it.
 */
static void accept_admit(struct oriel_p2p_context *ctx, struct ori_net_listener *listener,
			 struct ori_net_pending *net)
{
	const struct p2p_bye refusal = {.status = ORIEL_ERR_AUTH};
	struct p2p_pending_connection *pending = &ctx->pending[ctx->pending_count];

	pending->net = net;
	if (accept_hello(&net->conn, &pending->hello) != ORIEL_OK) {
		ori_net_listener_warn(listener, net->from, "it sent a malformed hello");
	} else if (memcmp(pending->hello.to.context, ctx->address.token.context,
			  sizeof(ctx->address.token.context)) != 0) {
		ori_net_listener_warn(listener, net->from, "it means another context");
		(void)ori_net_send_last(&net->conn, P2P_BYE, &refusal, sizeof(refusal));
	} else if (listener == &ctx->local ||
		   ori_net_send(&net->conn, P2P_WELCOME, NULL, 0) == ORIEL_OK) {
		net->deadline = ori_deadline(ctx->timeout_ns);
		ctx->pending_count++;
		return;
	}
	ori_net_pending_free(net);
}

static void accept_all(struct oriel_p2p_context *ctx, struct ori_net_listener *listener)
{
	struct ori_net_pending *net;

	/* Further connections stay in the backlog until there is room. */
	if (ctx->pending_count < P2P_PENDING_MAX)
		ori_net_listener_serve(listener);
	while (ctx->pending_count < P2P_PENDING_MAX && (net = ori_net_listener_next(listener)))
		accept_admit(ctx, listener, net);
}

static void accept_expire(struct oriel_p2p_context *ctx)
{
	for (unsigned i = ctx->pending_count; i-- > 0;)
		if (ori_deadline_passed(ctx->pending[i].net->deadline))
			accept_drop(ctx, i);
}

enum oriel_status ori_p2p_context_answer(struct oriel_p2p_context *ctx,
					 const struct p2p_token *from, const struct p2p_token *to,
					 struct ori_net_conn *conn)
{
	enum oriel_status status = ORIEL_AGAIN;

	pthread_mutex_lock(&ctx->lock);
	accept_expire(ctx);
	accept_all(ctx, &ctx->local);
	accept_all(ctx, &ctx->tcp);
	for (unsigned i = 0; i < ctx->pending_count && status == ORIEL_AGAIN; i++) {
		struct p2p_pending_connection *pending = &ctx->pending[i];

		if (ori_p2p_token_compare(&pending->hello.from, from) != 0 ||
		    ori_p2p_token_compare(&pending->hello.to, to) != 0)
			continue;
		ori_net_close(conn); /* of a probe */
		ori_net_move(conn, &pending->net->conn);
		accept_drop(ctx, i);
		status = ORIEL_OK;
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
				   const struct p2p_hello *hello, const struct oriel_p2p *p2p)
{
	return memcmp(hello->from.context, p2p->peer.token.context, sizeof(hello->from.context)) ==
		       0 &&
	       hello->to.number / P2P_MODES == p2p->address.token.number / P2P_MODES &&
	       hello->from.number / P2P_MODES == p2p->peer.token.number / P2P_MODES &&
	       !accept_has_endpoint_locked(ctx, hello->to.number);
}

enum oriel_status ori_p2p_context_find_clash(struct oriel_p2p_context *ctx,
					     const struct oriel_p2p *p2p)
{
	struct p2p_bye bye = {.status = ORIEL_ERR_MISMATCH};
	enum oriel_status status = ORIEL_AGAIN;

	pthread_mutex_lock(&ctx->lock);
	for (unsigned i = 0; i < ctx->pending_count && status == ORIEL_AGAIN; i++) {
		const struct p2p_pending_connection *pending = &ctx->pending[i];
		enum oriel_p2p_mode mode =
			(enum oriel_p2p_mode)(pending->hello.to.number % P2P_MODES);

		if (!accept_is_clash_locked(ctx, &pending->hello, p2p))
			continue;
		snprintf(bye.text, sizeof(bye.text),
			 "this rank has an endpoint of mode %s for the peer, which has one of mode "
			 "%s",
			 oriel_p2p_mode_name(p2p->mode), oriel_p2p_mode_name(mode));
		/* Best effort: without it the peer times out. */
		(void)ori_net_send(&pending->net->conn, P2P_BYE, &bye, sizeof(bye));
		accept_drop(ctx, i);
		status = ori_fail(ORIEL_ERR_MISMATCH, "%s", bye.text);
	}
	pthread_mutex_unlock(&ctx->lock);
	return status;
}
