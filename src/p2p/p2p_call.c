/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by which users begin operations: control messages, transfers, puts, exported
 * memory.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory_probe.h"
#include "p2p/p2p.h"

#define P2P_LENGTH_MAX (UINT64_C(1) << 43) /* chunks of a transfer are counted in 32 bits */

static enum oriel_status p2p_begin(struct oriel_p2p *p2p, struct oriel_p2p_request *r,
				   const char *call)
{
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, call);

	if (status != ORIEL_OK)
		return status;
	if (!r)
		return ori_fail(ORIEL_ERR_INVALID, "%s: request is NULL", call);
	return p2p->state == P2P_BROKEN ? ori_p2p_failed(p2p) : ORIEL_OK;
}

/* The result of a call that was to begin @r: if it failed, a wait for @r has the failure, too. */
static enum oriel_status p2p_begun(struct oriel_p2p_request *r, enum oriel_status status)
{
	if (r && status < 0)
		r->status = status;
	return status;
}

static enum oriel_status p2p_control(struct oriel_p2p *p2p, uint64_t tag, void *data, size_t length,
				     struct oriel_p2p_request *r, enum p2p_kind kind,
				     const char *call)
{
	enum oriel_status status;

	if (length && !data)
		return ori_fail(ORIEL_ERR_INVALID, "%s: data is NULL", call);
	r->kind = (uint8_t)kind;
	r->tag = tag;
	r->buffer = data;
	r->at = 0;
	/* This is the room of a receive: length becomes that of the message that arrives. */
	r->address = length;
	r->length = length;
	r->memory = NULL;
	/*
	 * The caller sets no field, and the end of the request drops the reference that this
	 * names.
	 */
	r->has_own_memory = P2P_MR_REF_NONE;
	ori_p2p_enter(p2p);
	status = ori_p2p_start(p2p, r);
	ori_p2p_leave(p2p);
	return status;
}

enum oriel_status oriel_p2p_send_control(struct oriel_p2p *p2p, uint64_t tag, const void *data,
					 size_t length, struct oriel_p2p_request *r)
{
	enum oriel_status status = p2p_begin(p2p, r, __func__);

	if (status == ORIEL_OK && length > ORIEL_P2P_CONTROL)
		status = ori_fail(ORIEL_ERR_RANGE, "a control message of %zu bytes, not %u at most",
				  length, ORIEL_P2P_CONTROL);
	if (status == ORIEL_OK)
		status = p2p_control(p2p, tag, (void *)(uintptr_t)data, length, r, P2P_SEND_CONTROL,
				     __func__);
	return p2p_begun(r, status);
}

enum oriel_status oriel_p2p_recv_control(struct oriel_p2p *p2p, uint64_t tag, void *data,
					 size_t room, struct oriel_p2p_request *r)
{
	enum oriel_status status = p2p_begin(p2p, r, __func__);

	if (status == ORIEL_OK)
		status = p2p_control(p2p, tag, data, room, r, P2P_RECV_CONTROL, __func__);
	return p2p_begun(r, status);
}

static enum oriel_status p2p_check_buffer(const struct oriel_p2p *p2p,
					  const struct oriel_p2p_buffer *b, const char *call)
{
	const struct oriel_p2p_memory *m;
	enum oriel_status status;

	if (!b || (b->length && !b->address))
		return ori_fail(ORIEL_ERR_INVALID, "%s: the buffer is NULL", call);
	if (b->length > P2P_LENGTH_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "%s: %zu bytes are too many", call, b->length);
	m = b->memory;
	if (!m)
		return ORIEL_OK;
	status = ori_handle_check(m, ORI_HANDLE_P2P_MEMORY, call);
	if (status != ORIEL_OK)
		return status;
	/* Its keys are those of the NICs of its own context. */
	if (m->ctx != p2p->ctx)
		return ori_fail(ORIEL_ERR_INVALID, "%s: memory of another context", call);
	/* No sum of an address and a length of the caller is computed, for it could wrap. */
	if ((uintptr_t)b->address < (uintptr_t)m->address || b->length > m->length ||
	    (uintptr_t)b->address - (uintptr_t)m->address > m->length - b->length)
		return ori_fail(ORIEL_ERR_RANGE,
				"%s: %zu bytes at %p are not within the registered %zu at %p", call,
				b->length, b->address, m->length, (void *)m->address);
	return ORIEL_OK;
}

/*
 * Memory that is not registered: an access that the HCA may not make ends the link, so it
 * is found before anything is begun. On the other paths the calling thread copies, as by
 * memcpy(). Before the connect the path may still become that of an HCA. Hooks give the buffer a
 * meaning of their own.
 */
static enum oriel_status p2p_check_memory(const struct oriel_p2p *p2p,
					  const struct oriel_p2p_buffer *b, bool is_out)
{
	bool is_hooked = is_out ? p2p->hooks.pack != NULL : p2p->hooks.unpack != NULL;

	if (b->memory || is_hooked || (p2p->backend && !p2p->backend->needs_keys) ||
	    (is_out ? ori_probe_looks_readable(b->address, b->length)
		    : ori_probe_looks_writable(b->address, b->length)))
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_ACCESS,
			"a %s of %zu bytes: the memory at %p may not be %s; nothing was begun",
			is_out ? "send or put" : "receive", b->length, b->address,
			is_out ? "read" : "written");
}

/* The next transfer of its channel. The public calls have checked all but the memory. */
static enum oriel_status p2p_transfer(struct oriel_p2p *p2p, unsigned channel,
				      const struct oriel_p2p_buffer *b, struct oriel_p2p_request *r,
				      enum p2p_kind kind)
{
	bool is_out = kind == P2P_SEND || kind == P2P_PUT;
	enum oriel_status status = ORIEL_OK;
	bool is_gpu = b->memory && b->memory->is_gpu;

	/*
	 * These checks come first: a call that they reject takes no number of the channel, so that
	 * the next transfer still meets that of the peer.
	 */
	if (!b->memory && b->length && p2p->ctx->gpu.ops)
		status = ori_p2p_context_query(p2p->ctx, b->address, &is_gpu);
	if (status == ORIEL_OK && !is_gpu)
		status = p2p_check_memory(p2p, b, is_out);
	if (status != ORIEL_OK)
		return status;
	r->kind = (uint8_t)kind;
	r->is_gpu = is_gpu;
	r->channel = (uint8_t)channel;
	r->slot = 0;
	r->of_channel = (uint8_t)channel;
	if (channel >= p2p->whole) {
		r->slot = (uint8_t)((channel - p2p->whole) % p2p->chunk_slots + 1);
		r->of_channel = (uint8_t)((channel - p2p->whole) / p2p->chunk_slots);
	}
	r->buffer = b->address;
	r->length = b->length;
	r->memory = b->memory;
	r->has_own_memory = P2P_MR_REF_NONE;
	if (!b->length && kind != P2P_EXPECT) {
		/* Both sides count it, so that their numbers stay equal. */
		is_out ? p2p->out[channel].number++ : p2p->in[channel].number++;
		r->status = ORIEL_OK;
		return ORIEL_OK;
	}
	ori_p2p_enter(p2p);
	status = ori_p2p_start(p2p, r);
	if (r->status == ORIEL_AGAIN)
		ori_mr_ref_count(r);
	ori_p2p_leave(p2p);
	return status;
}

static enum oriel_status p2p_check_channel(const struct oriel_p2p *p2p, unsigned channel,
					   const char *call)
{
	if (channel < p2p->whole)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_RANGE, "%s: channel %u of %u", call, channel, p2p->whole);
}

enum oriel_status oriel_p2p_send(struct oriel_p2p *p2p, unsigned channel,
				 const struct oriel_p2p_buffer *from, struct oriel_p2p_request *r)
{
	enum oriel_status status = p2p_begin(p2p, r, "oriel_p2p_send");

	if (status == ORIEL_OK)
		status = p2p_check_channel(p2p, channel, "oriel_p2p_send");
	if (status == ORIEL_OK)
		status = p2p_check_buffer(p2p, from, "oriel_p2p_send");
	if (status == ORIEL_OK)
		status = p2p_transfer(p2p, channel, from, r, P2P_SEND);
	return p2p_begun(r, status);
}

enum oriel_status oriel_p2p_recv(struct oriel_p2p *p2p, unsigned channel,
				 const struct oriel_p2p_buffer *to, struct oriel_p2p_request *r)
{
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	/* A broken endpoint still delivers data that arrived before the peer left. */
	if (status == ORIEL_OK && (!r || !to || !ori_recv_is_left(p2p, channel, to->length)))
		status = p2p_begin(p2p, r, "oriel_p2p_recv");
	if (status == ORIEL_OK)
		status = p2p_check_channel(p2p, channel, "oriel_p2p_recv");
	if (status == ORIEL_OK)
		status = p2p_check_buffer(p2p, to, "oriel_p2p_recv");
	if (status == ORIEL_OK)
		status = p2p_transfer(p2p, channel, to, r, P2P_RECV);
	return p2p_begun(r, status);
}

enum oriel_status oriel_p2p_expect(struct oriel_p2p *p2p, unsigned channel,
				   struct oriel_p2p_request *r)
{
	const struct oriel_p2p_buffer none = {0};
	enum oriel_status status = p2p_begin(p2p, r, "oriel_p2p_expect");

	if (status == ORIEL_OK)
		status = p2p_check_channel(p2p, channel, "oriel_p2p_expect");
	if (status == ORIEL_OK)
		status = p2p_transfer(p2p, channel, &none, r, P2P_EXPECT);
	return p2p_begun(r, status);
}

/* Check all of a put but its source. @r keeps the target, since the expect names no memory. */
static enum oriel_status p2p_aim(struct oriel_p2p_request *r, const struct oriel_p2p_buffer *from,
				 const struct oriel_p2p_remote *to, uint64_t offset)
{
	if (!to || !from->length)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_put: %s",
				to ? "no bytes" : "to is NULL");
	if (offset > to->length || from->length > to->length - offset)
		return ori_fail(ORIEL_ERR_RANGE,
				"oriel_p2p_put: %zu bytes at %llu of exported memory of %llu bytes",
				from->length, (unsigned long long)offset,
				(unsigned long long)to->length);
	r->address = to->address + offset;
	memcpy(r->keys, to->keys, sizeof(r->keys));
	r->piece = to->piece;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_put(struct oriel_p2p *p2p, unsigned channel,
				const struct oriel_p2p_buffer *from,
				const struct oriel_p2p_remote *to, uint64_t offset,
				struct oriel_p2p_request *r)
{
	enum oriel_status status = p2p_begin(p2p, r, "oriel_p2p_put");

	if (status == ORIEL_OK)
		status = p2p_check_channel(p2p, channel, "oriel_p2p_put");
	if (status == ORIEL_OK)
		status = p2p_check_buffer(p2p, from, "oriel_p2p_put");
	if (status == ORIEL_OK)
		status = p2p_aim(r, from, to, offset);
	if (status == ORIEL_OK)
		status = p2p_transfer(p2p, channel, from, r, P2P_PUT);
	return p2p_begun(r, status);
}

static enum oriel_status p2p_check_chunk(const struct oriel_p2p *p2p, unsigned channel,
					 unsigned slot, const struct oriel_p2p_buffer *b,
					 const char *call)
{
	enum oriel_status status = p2p_check_channel(p2p, channel, call);

	if (status == ORIEL_OK)
		status = p2p_check_buffer(p2p, b, call);
	if (status != ORIEL_OK)
		return status;
	if (slot >= p2p->chunk_slots)
		return ori_fail(
			ORIEL_ERR_RANGE,
			"%s: slot %u of %u: oriel_p2p_attr.chunk_slots says how many there are",
			call, slot, p2p->chunk_slots);
	/* The smaller staging slots of the two contexts decide how long a chunk may be. */
	if (p2p->state != P2P_JOINED && p2p->state != P2P_BROKEN)
		return ori_fail(ORIEL_ERR_STATE, "%s: the endpoints are not joined yet", call);
	if (b->length > p2p->chunk)
		return ori_fail(ORIEL_ERR_RANGE, "%s: a chunk of %zu bytes, not %zu at most", call,
				b->length, p2p->chunk);
	return ORIEL_OK;
}

/* A slot is a channel of the protocol, which has one transfer at a time, and rounds number them. */
static enum oriel_status p2p_chunk(struct oriel_p2p *p2p, unsigned slot, uint64_t round,
				   const struct oriel_p2p_buffer *b, struct oriel_p2p_request *r,
				   enum p2p_kind kind, unsigned channel)
{
	unsigned of_slot = p2p->whole + channel * p2p->chunk_slots + slot;
	uint64_t next = kind == P2P_SEND ? p2p->out[of_slot].number : p2p->in[of_slot].number;

	if (round != next)
		return ori_fail(
			ORIEL_ERR_STATE,
			"a chunk of round %llu in slot %u of channel %u: round %llu is next",
			(unsigned long long)round, slot, channel, (unsigned long long)next);
	if (kind == P2P_SEND ? p2p->out[of_slot].requests.first : p2p->in[of_slot].requests.first)
		return ORIEL_AGAIN;
	return p2p_transfer(p2p, of_slot, b, r, kind);
}

enum oriel_status oriel_p2p_send_chunk(struct oriel_p2p *p2p, unsigned channel, unsigned slot,
				       uint64_t round, const struct oriel_p2p_buffer *from,
				       struct oriel_p2p_request *r)
{
	enum oriel_status status = p2p_begin(p2p, r, __func__);

	if (status == ORIEL_OK)
		status = p2p_check_chunk(p2p, channel, slot, from, __func__);
	if (status == ORIEL_OK)
		status = p2p_chunk(p2p, slot, round, from, r, P2P_SEND, channel);
	return p2p_begun(r, status);
}

enum oriel_status oriel_p2p_recv_chunk(struct oriel_p2p *p2p, unsigned channel, unsigned slot,
				       uint64_t round, const struct oriel_p2p_buffer *to,
				       struct oriel_p2p_request *r)
{
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	bool is_left = false;

	if (status == ORIEL_OK && to && channel < p2p->whole && slot < p2p->chunk_slots)
		is_left = ori_recv_is_left(p2p, p2p->whole + channel * p2p->chunk_slots + slot,
					   to->length);
	/* A broken endpoint still delivers data that arrived before the peer left. */
	if (status == ORIEL_OK && (!r || !is_left))
		status = p2p_begin(p2p, r, __func__);
	if (status == ORIEL_OK)
		status = p2p_check_chunk(p2p, channel, slot, to, __func__);
	if (status == ORIEL_OK)
		status = p2p_chunk(p2p, slot, round, to, r, P2P_RECV, channel);
	return p2p_begun(r, status);
}

static bool p2p_take_back(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	/* The request may be of another endpoint, which has more channels. */
	switch ((enum p2p_kind)r->kind) {
	case P2P_SEND:
	case P2P_PUT:
		return r->channel < p2p->channels && ori_send_take_back(p2p, r);
	case P2P_RECV:
	case P2P_EXPECT:
		return r->channel < p2p->channels && ori_recv_take_back(p2p, r);
	case P2P_SEND_CONTROL:
	case P2P_RECV_CONTROL:
		return ori_control_take_back(p2p, r);
	}
	return false;
}

enum oriel_status oriel_p2p_cancel(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	enum oriel_status status = p2p_begin(p2p, r, "oriel_p2p_cancel");
	bool is_back;

	if (status != ORIEL_OK)
		return status;
	if (r->status != ORIEL_AGAIN)
		return ori_fail(ORIEL_ERR_STATE, "oriel_p2p_cancel: the request is done");
	ori_p2p_enter(p2p);
	is_back = p2p_take_back(p2p, r);
	if (is_back)
		ori_p2p_finish(p2p, r, ORIEL_ERR_ABORTED);
	ori_p2p_leave(p2p);
	return is_back ? ORIEL_OK
		       : ori_fail(ORIEL_ERR_STATE,
				  "oriel_p2p_cancel: too late: the peer may know of the request");
}

static enum oriel_status p2p_may_export(const struct oriel_p2p *p2p, const char *call)
{
	if (p2p->state == P2P_BROKEN)
		return ori_p2p_failed(p2p);
	if (p2p->mode == ORIEL_P2P_COPY_BASED)
		return ori_fail(ORIEL_ERR_STATE, "%s: the endpoints are of mode copy_based", call);
	/*
	 * The form of an export depends on the path, and a piece of memory goes over the socket.
	 */
	if (p2p->state != P2P_JOINED)
		return ori_fail(ORIEL_ERR_STATE, "%s: the endpoints are not connected yet", call);
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_export(struct oriel_p2p *p2p, const struct oriel_p2p_buffer *b,
				   void *bytes)
{
	struct p2p_export e = {.magic = P2P_EXPORT_MAGIC, .version = P2P_VERSION};
	struct p2p_offer offer = {0};
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!b || !bytes)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_export: %s is NULL",
				b ? "bytes" : "buffer");
	if (!b->length || !b->memory)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_export: the buffer %s",
				b->length ? "has no memory of oriel_p2p_register()" : "is empty");
	status = p2p_may_export(p2p, "oriel_p2p_export");
	if (status == ORIEL_OK)
		status = p2p_check_buffer(p2p, b, "oriel_p2p_export");
	if (status == ORIEL_OK)
		status = oriel_p2p_memory_check(b->memory);
	if (status == ORIEL_OK)
		status = p2p->backend->export(p2p, b->memory, b->address, b->length, &offer);
	if (status != ORIEL_OK)
		return status;
	e.path = p2p->backend->path;
	e.address = offer.address;
	e.length = b->length;
	e.keys = offer.keys;
	e.piece = offer.piece;
	/* No other endpoint than the peer can import it. */
	e.to = ori_p2p_token_brief(&p2p->peer.token);
	memcpy(bytes, &e, sizeof(e));
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_import(struct oriel_p2p *p2p, const void *bytes, size_t length,
				   struct oriel_p2p_remote *remote)
{
	struct p2p_export e;
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!bytes || !remote)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_import: NULL");
	status = p2p_may_export(p2p, "oriel_p2p_import");
	if (status == ORIEL_OK)
		status = ori_p2p_export_parse(bytes, length, &e);
	if (status != ORIEL_OK)
		return status;
	if (e.path != p2p->backend->path || e.to != ori_p2p_token_brief(&p2p->address.token))
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_p2p_import: the memory was exported to another endpoint");
	/*
	 * A put checks the memory when it is posted, since its piece may still be on its way here:
	 * the NIC checks the key, the mapped backend the range within the piece.
	 */
	*remote = (struct oriel_p2p_remote){.address = e.address,
					    .length = e.length,
					    .piece = e.piece};
	memcpy(remote->keys, &e.keys, sizeof(remote->keys));
	return ORIEL_OK;
}
