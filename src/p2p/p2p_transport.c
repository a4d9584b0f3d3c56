/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backend "transport": a table of the caller (oriel/p2p_transport.h) carries the puts of an
 * endpoint, and the frames that otherwise go over its control socket. The context keeps the
 * table; the meeting and the run of an endpoint call it from here.
 */
#include <string.h>

#include "base/attr.h"
#include "base/error.h"
#include "p2p/p2p.h"

static_assert(sizeof(struct p2p_frame) <= ORIEL_P2P_MESSAGE, "a frame is one message");
static_assert(sizeof(struct oriel_dev_keys) == sizeof(((struct oriel_p2p_target *)0)->keys),
	      "keys are carried as those of NICs are");

static const struct oriel_p2p_transport *transport_of(const struct oriel_p2p *p2p)
{
	return &p2p->ctx->transport;
}

enum oriel_status ori_transport_read(const struct oriel_p2p_context_attr *attr,
				     struct oriel_p2p_transport *t)
{
	enum oriel_status status =
		ori_attr_read("oriel_p2p_transport", attr->transport, t, sizeof(*t));

	if (status != ORIEL_OK || !attr->transport)
		return status;
	if (!t->name || !t->name[0] || strlen(t->name) >= ORIEL_P2P_TRANSPORT_NAME)
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_p2p_transport.name is not of 1 to %u bytes",
				ORIEL_P2P_TRANSPORT_NAME - 1);
	if (!t->register_memory || !t->unregister_memory || !t->open || !t->close || !t->send ||
	    !t->recv || !t->put || !t->progress || !t->take)
		return ori_fail(ORIEL_ERR_INVALID,
				"transport %s lacks a function: set all members "
				"of oriel_p2p_transport",
				t->name);
	if (attr->paths || attr->flags)
		return ori_fail(ORIEL_ERR_INVALID,
				"a context with transport %s takes neither paths (0x%x) nor flags "
				"(0x%x): both are of the library's own paths",
				t->name, attr->paths, attr->flags);
	return ORIEL_OK;
}

/* A function of the caller may return what is no status, or no failure. */
static enum oriel_status transport_result(const struct oriel_p2p_transport *t, const char *call,
					  enum oriel_status status)
{
	if (status == ORIEL_OK || status == ORIEL_AGAIN)
		return status;
	if (!ori_status_is_failure(status))
		return ori_fail(ORIEL_ERR_PROTOCOL, "%s() of transport %s returned %d, no status",
				call, t->name, (int)status);
	return ori_fail(status, "%s() of transport %s failed: %s", call, t->name,
			oriel_status_text(status));
}

enum oriel_status ori_transport_register(const struct oriel_p2p_context *ctx, void *address,
					 size_t length, struct oriel_p2p_target *target)
{
	const struct oriel_p2p_transport *t = &ctx->transport;
	enum oriel_status status = transport_result(t, "register_memory",
						    t->register_memory(ctx->transport_context,
								       address, length, target));

	return status == ORIEL_AGAIN
		       ? ori_fail(ORIEL_ERR_PROTOCOL,
				  "register_memory() of transport %s does not wait", t->name)
		       : status;
}

void ori_transport_unregister(const struct oriel_p2p_context *ctx,
			      const struct oriel_p2p_target *target)
{
	ctx->transport.unregister_memory(ctx->transport_context, target);
}

enum oriel_status ori_transport_send(struct oriel_p2p *p2p, const struct p2p_frame *frame)
{
	size_t length = offsetof(struct p2p_frame, bytes) +
			ori_p2p_frame_length((enum p2p_frame_kind)frame->kind);

	return transport_result(transport_of(p2p), "send",
				transport_of(p2p)->send(p2p->link.transport, frame, length));
}

enum oriel_status ori_transport_recv(struct oriel_p2p *p2p, struct p2p_frame *frame)
{
	const size_t head = offsetof(struct p2p_frame, bytes);
	union {
		struct p2p_frame frame;
		char bytes[ORIEL_P2P_MESSAGE];
	} in;
	size_t length = 0;
	enum oriel_status status =
		transport_of(p2p)->recv(p2p->link.transport, in.bytes, sizeof(in.bytes), &length);

	if (status == ORIEL_ERR_PEER)
		return ori_fail(status,
				"the peer, %s, exited or closed transport %s without a "
				"reason",
				p2p->peer_name, transport_of(p2p)->name);
	if (status != ORIEL_OK)
		return transport_result(transport_of(p2p), "recv", status);
	if (length < head || length > sizeof(in.bytes))
		return ori_fail(ORIEL_ERR_PROTOCOL, "a message of %zu bytes over transport %s",
				length, transport_of(p2p)->name);
	return ori_p2p_frame_parse(in.frame.kind, in.frame.bytes, length - head, frame);
}

enum oriel_status ori_transport_join(struct oriel_p2p *p2p)
{
	const struct oriel_p2p_transport *t = transport_of(p2p);
	enum oriel_status status;

	if (!(p2p->peer.paths & P2P_PATHS_TRANSPORT) ||
	    ori_p2p_token_compare(&p2p->address.token, &p2p->peer.token) == 0)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"transport %s joins an endpoint to another one of a context that "
				"has it, and process %u has none there",
				t->name, p2p->peer.pid);
	status = transport_result(t, "open",
				  t->open(p2p->ctx->transport_context, p2p->transport_data,
					  &p2p->link.transport));
	if (status == ORIEL_OK && !p2p->link.transport)
		status = ori_fail(ORIEL_ERR_PROTOCOL, "open() of transport %s left no link",
				  t->name);
	if (status != ORIEL_OK)
		p2p->link.transport = NULL;
	return status;
}

static enum oriel_status transport_open(struct oriel_p2p *p2p, struct p2p_endpoint_info *mine,
					int *fds, unsigned *nfds)
{
	enum oriel_status status = ORIEL_OK;

	(void)fds;
	*nfds = 0;
	/* Called once more if the transport took no message. */
	if (!p2p->link.has_segment)
		status = ori_transport_register(p2p->ctx, p2p->area.base, p2p->area.length,
						&p2p->link.segment_target);
	if (status != ORIEL_OK)
		return status;
	p2p->link.has_segment = true;
	mine->transport.segment = p2p->link.segment_target;
	mine->transport.pool = p2p->ctx->pool_target;
	memcpy(mine->transport.name, transport_of(p2p)->name, strlen(transport_of(p2p)->name));
	return ORIEL_OK;
}

static struct p2p_remote transport_remote(const struct oriel_p2p_target *target)
{
	struct p2p_remote remote = {.address = target->address};

	memcpy(&remote.keys, target->keys, sizeof(remote.keys));
	return remote;
}

static enum oriel_status transport_connect(struct oriel_p2p *p2p,
					   const struct p2p_endpoint_info *theirs, const int *fds,
					   unsigned nfds)
{
	(void)fds, (void)nfds;
	if (strcmp(theirs->transport.name, transport_of(p2p)->name) != 0)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"this endpoint has transport %s, the peer's transport %s",
				transport_of(p2p)->name, theirs->transport.name);
	p2p->remote_control = transport_remote(&theirs->transport.segment);
	p2p->pool = transport_remote(&theirs->transport.pool);
	return ORIEL_OK;
}

static enum oriel_status transport_nothing(struct oriel_p2p *p2p)
{
	(void)p2p;
	return ORIEL_OK;
}

static void transport_leave(struct oriel_p2p *p2p)
{
	(void)p2p;
}

static void transport_sever(struct oriel_p2p *p2p)
{
	if (p2p->link.transport)
		transport_of(p2p)->close(p2p->link.transport);
	p2p->link.transport = NULL;
	if (p2p->link.has_segment)
		ori_transport_unregister(p2p->ctx, &p2p->link.segment_target);
	p2p->link.has_segment = false;
}

static enum oriel_status transport_begin(struct oriel_p2p *p2p, const struct p2p_remote *to,
					 struct oriel_p2p_transport_put *put, uint64_t *op)
{
	enum oriel_status status;

	put->to.address = to->address;
	memcpy(put->to.keys, &to->keys, sizeof(put->to.keys));
	status = transport_of(p2p)->put(p2p->link.transport, put);
	/* recv() says that the peer has left, and why. */
	if (status == ORIEL_ERR_PEER)
		return ORIEL_AGAIN;
	if (status == ORIEL_OK)
		*op = p2p->begun++;
	return transport_result(transport_of(p2p), "put", status);
}

static enum oriel_status transport_put(struct oriel_p2p *p2p, const struct p2p_local *from,
				       const struct p2p_remote *to, size_t length, uint64_t *op)
{
	struct oriel_p2p_transport_put put = {.from = from->at, .length = length};

	return transport_begin(p2p, to, &put, op);
}

static enum oriel_status transport_write_imm(struct oriel_p2p *p2p, const struct p2p_local *from,
					     const struct p2p_remote *to, size_t length,
					     uint32_t immediate, uint64_t *op)
{
	struct oriel_p2p_transport_put put = {.from = from->at,
					      .length = length,
					      .has_immediate = true,
					      .immediate = immediate};

	return transport_begin(p2p, to, &put, op);
}

static enum oriel_status transport_no_eager(struct oriel_p2p *p2p, const void *bytes, size_t length,
					    uint32_t immediate, uint64_t *op)
{
	(void)bytes, (void)length, (void)immediate, (void)op;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "transport %s has no eager sends",
			transport_of(p2p)->name);
}

static enum oriel_status transport_progress(struct oriel_p2p *p2p)
{
	uint64_t done = p2p->done;
	enum oriel_status status = transport_of(p2p)->progress(p2p->link.transport, &done);

	if (status == ORIEL_AGAIN || status == ORIEL_ERR_PEER)
		status = ORIEL_OK;
	if (status != ORIEL_OK)
		return transport_result(transport_of(p2p), "progress", status);
	if (done < p2p->done || done > p2p->begun)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"transport %s reports %llu puts done, after %llu, of %llu",
				transport_of(p2p)->name, (unsigned long long)done,
				(unsigned long long)p2p->done, (unsigned long long)p2p->begun);
	p2p->done = done;
	return ORIEL_OK;
}

static enum oriel_status transport_take(struct oriel_p2p *p2p, struct p2p_arrival *arrival)
{
	enum oriel_status status;

	arrival->length = 0;
	status = transport_of(p2p)->take(p2p->link.transport, &arrival->immediate);
	return status == ORIEL_ERR_PEER ? ORIEL_AGAIN
					: transport_result(transport_of(p2p), "take", status);
}

static enum oriel_status transport_export(struct oriel_p2p *p2p,
					  const struct oriel_p2p_memory *memory, const void *at,
					  size_t length, struct p2p_offer *offer)
{
	(void)p2p, (void)length;
	offer->address = memory->iova + (uint64_t)((const char *)at - memory->address);
	offer->keys = memory->rkeys;
	offer->piece = P2P_NO_PIECE;
	return ORIEL_OK;
}

static enum oriel_status transport_import(struct oriel_p2p *p2p, const struct p2p_offer *offer,
					  struct p2p_remote *remote)
{
	(void)p2p;
	*remote = (struct p2p_remote){.address = offer->address, .keys = offer->keys};
	return ORIEL_OK;
}

const struct p2p_backend ori_p2p_transport = {
	.name = "transport",
	.path = ORIEL_PATH_NONE,
	.open = transport_open,
	.connect = transport_connect,
	.close = transport_nothing,
	.sever = transport_sever,
	.enter = transport_nothing,
	.leave = transport_leave,
	.put = transport_put,
	.write_imm = transport_write_imm,
	.send_eager = transport_no_eager,
	.progress = transport_progress,
	.take = transport_take,
	.export = transport_export,
	.import = transport_import,
};
