/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsers of the bytes between two endpoints, and the rules that both compute alike. Contexts
 * and the meeting of endpoints call them.
 */
#include "p2p/p2p_wire.h"

#include <string.h>

#include "base/error.h"
#include "rdma/rdma.h"

const char *oriel_p2p_mode_name(enum oriel_p2p_mode mode)
{
	switch (mode) {
	case ORIEL_P2P_AUTO:
		return "auto";
	case ORIEL_P2P_ZERO_COPY:
		return "zero_copy";
	case ORIEL_P2P_COPY_BASED:
		return "copy_based";
	}
	return "unknown mode";
}

static bool wire_is_zero(const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < length; i++)
		if (at[i])
			return false;
	return true;
}

enum oriel_status ori_p2p_address_parse(const void *bytes, size_t length, struct p2p_address *out)
{
	const uint32_t known = 1u << ORIEL_PATH_SELF | 1u << ORIEL_PATH_MAPPED |
			       1u << ORIEL_PATH_RDMA | P2P_PATHS_TRANSPORT;
	struct p2p_address a;

	/* The caller carried the bytes, and may have truncated them. */
	if (length != sizeof(a))
		return ori_fail(ORIEL_ERR_PROTOCOL, "address of %zu bytes instead of %zu", length,
				sizeof(a));
	memcpy(&a, bytes, sizeof(a));
	if (a.magic != P2P_ADDRESS_MAGIC)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"these bytes are not the address of an endpoint");
	/* Before the other fields: another version may lay them out in another way. */
	if (a.version != P2P_VERSION)
		return ori_fail(ORIEL_ERR_VERSION, "address of version %u, not %u", a.version,
				P2P_VERSION);
	/* Fields that are reserved are zero, so that a later version may use them. */
	if (!a.paths || a.paths & ~known || !a.process || !a.pid ||
	    wire_is_zero(&a.token.context, sizeof(a.token.context)) || a.hosts.is_ipv6 > 1 ||
	    a.reserved1 || !a.rails || a.rails > ORIEL_DEV_RAILS ||
	    !wire_is_zero(a.reserved2, sizeof(a.reserved2)))
		return ori_fail(ORIEL_ERR_PROTOCOL, "an address that no endpoint has");
	*out = a;
	return ORIEL_OK;
}

int ori_p2p_token_compare(const struct p2p_token *a, const struct p2p_token *b)
{
	/* Any total order serves, if both endpoints compute the same. */
	int order = memcmp(a->context, b->context, sizeof(a->context));

	if (order)
		return order;
	return a->number < b->number ? -1 : a->number > b->number;
}

bool ori_p2p_address_is_local(const struct p2p_address *a, const struct p2p_address *b)
{
	/* A unix socket of the library refuses processes of other users. */
	return a->kernel == b->kernel && a->node == b->node && a->uid == b->uid;
}

bool ori_p2p_address_calls(const struct p2p_address *a, const struct p2p_address *b)
{
	/* The side that is connected to has to listen. */
	if (!ori_p2p_address_is_local(a, b) && !a->port != !b->port)
		return !a->port;
	return ori_p2p_token_compare(&a->token, &b->token) < 0;
}

unsigned ori_p2p_address_rail(const struct p2p_address *a, const struct p2p_address *b)
{
	const struct p2p_token *caller = ori_p2p_address_calls(a, b) ? &a->token : &b->token;
	uint32_t rails = a->rails < b->rails ? a->rails : b->rails;
	uint64_t of_a = a->token.number, of_b = b->token.number;

	/* Each has the rank of the other, so that the links of windows take the same rail. */
	if (of_a < P2P_UNCACHED && of_b < P2P_UNCACHED)
		return (of_a / P2P_MODES + of_b / P2P_MODES + caller->number % P2P_MODES) % rails;
	/* A context counts its endpoints, so that they take the rails in turn. */
	return caller->number % rails;
}

enum oriel_path ori_p2p_address_path(const struct p2p_address *a, const struct p2p_address *b)
{
	uint32_t both = a->paths & b->paths;
	bool is_local = ori_p2p_address_is_local(a, b);

	/* Only the endpoint itself: another one of this process is reached as mapped. */
	if (ori_p2p_token_compare(&a->token, &b->token) == 0)
		return both & 1u << ORIEL_PATH_SELF ? ORIEL_PATH_SELF : ORIEL_PATH_NONE;
	/* Endpoints of the rdma path, too, exchange their frames over sockets. */
	if (!is_local && !a->port && !b->port)
		return ORIEL_PATH_NONE;
	/* Where both are possible, a copy needs no NIC. */
	if (is_local && both & 1u << ORIEL_PATH_MAPPED)
		return ORIEL_PATH_MAPPED;
	return both & 1u << ORIEL_PATH_RDMA ? ORIEL_PATH_RDMA : ORIEL_PATH_NONE;
}

static const char *wire_info_flaw(const struct p2p_endpoint_info *e)
{
	if (e->mode > ORIEL_P2P_COPY_BASED || e->hca_kind > ORI_HCA_KIND_VERBS ||
	    e->flags & ~(P2P_ENDPOINT_GPU_SLOTS | P2P_ENDPOINT_EAGER))
		return "an endpoint of unknown form";
	if (!e->channels || e->channels > ORIEL_P2P_CHANNELS || !e->depth || e->depth > P2P_DEPTH ||
	    e->channels * e->depth > P2P_SLOTS || e->chunk_slots >= ORIEL_P2P_CHANNELS ||
	    e->channels % (1u + e->chunk_slots))
		return "impossible channels";
	/*
	 * The sender computes addresses from these numbers, so they are bounded here: no product of
	 * them wraps.
	 */
	if (e->chunk < P2P_CHUNK_MIN || e->chunk > P2P_CHUNK_MAX ||
	    e->stride < e->chunk + sizeof(struct p2p_label) || e->stride > 2ull * P2P_CHUNK_MAX ||
	    e->stride % 64)
		return "impossible staging slots";
	/* The numbers of all slots fit into a credit. */
	if (!e->slots || e->slots > UINT16_MAX)
		return "impossible number of staging slots";
	if (e->path == ORIEL_PATH_NONE)
		return memchr(e->transport.name, '\0', sizeof(e->transport.name))
			       ? NULL
			       : "a transport without a name";
	return e->path == ORIEL_PATH_MAPPED || e->path == ORIEL_PATH_RDMA
		       ? NULL
		       : "an endpoint of unknown path";
}

static const char *wire_flaw(const struct p2p_frame *f)
{
	switch ((enum p2p_frame_kind)f->kind) {
	case P2P_HELLO:
	case P2P_WELCOME:
		return NULL;
	case P2P_READY:
		return f->ready.reaches_gpu > 1 || f->ready.reserved
			       ? "an endpoint of unknown reach"
			       : NULL;
	case P2P_ENDPOINT:
		return wire_info_flaw(&f->info);
	case P2P_PIECE:
		return f->piece.number > INT32_MAX || f->piece.reserved ? "impossible memory"
									: NULL;
	case P2P_BYE:
		/* The receiver breaks with this status, and prints the text. */
		if (f->bye.status > 0 ||
		    (f->bye.status < 0 && !ori_status_is_failure(f->bye.status)))
			return "an unknown status";
		return memchr(f->bye.text, '\0', sizeof(f->bye.text)) ? NULL
								      : "a text without a NUL";
	}
	return "a frame of unknown kind";
}

size_t ori_p2p_frame_length(enum p2p_frame_kind kind)
{
	switch (kind) {
	case P2P_HELLO:
		return sizeof(struct p2p_hello);
	case P2P_ENDPOINT:
		return sizeof(struct p2p_endpoint_info);
	case P2P_READY:
		return sizeof(struct p2p_ready);
	case P2P_PIECE:
		return sizeof(struct p2p_piece);
	case P2P_BYE:
		return sizeof(struct p2p_bye);
	case P2P_WELCOME:
		break;
	}
	return 0;
}

enum oriel_status ori_p2p_frame_parse(unsigned kind, const void *body, size_t length,
				      struct p2p_frame *frame)
{
	struct p2p_frame f = {.kind = kind};
	const char *flaw;

	/* A kind that is not known has no bytes here, and wire_flaw() rejects it. */
	if (length != ori_p2p_frame_length((enum p2p_frame_kind)kind))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the peer has sent %zu bytes as a frame of kind %u", length, kind);
	memcpy(f.bytes, body, length);
	/* Fields are checked in the copy, which is all that the caller sees. */
	flaw = wire_flaw(&f);
	if (flaw)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer has sent %s", flaw);
	*frame = f;
	return ORIEL_OK;
}

uint64_t ori_p2p_token_brief(const struct p2p_token *token)
{
	uint64_t context;

	memcpy(&context, token->context, sizeof(context));
	/* Not secret: the number finds memory imported at the wrong endpoint by mistake. */
	return context ^ token->number * UINT64_C(0x9e3779b97f4a7c15);
}

enum oriel_status ori_p2p_export_parse(const void *bytes, size_t length, struct p2p_export *out)
{
	struct p2p_export e;
	uint64_t end;

	if (length != sizeof(e))
		return ori_fail(ORIEL_ERR_PROTOCOL, "exported memory in %zu bytes instead of %zu",
				length, sizeof(e));
	memcpy(&e, bytes, sizeof(e));
	if (e.magic != P2P_EXPORT_MAGIC)
		return ori_fail(ORIEL_ERR_PROTOCOL, "these bytes are not exported memory");
	if (e.version != P2P_VERSION)
		return ori_fail(ORIEL_ERR_VERSION, "exported memory of version %u, not %u",
				e.version, P2P_VERSION);
	/* Puts add offsets to the address, and check them against the length alone. */
	if (!e.length || __builtin_add_overflow(e.address, e.length, &end) ||
	    e.path > ORIEL_PATH_RDMA || (e.piece > INT32_MAX && e.piece != P2P_NO_PIECE) ||
	    !wire_is_zero(e.reserved, sizeof(e.reserved)))
		return ori_fail(ORIEL_ERR_PROTOCOL, "exported memory that no endpoint exports");
	*out = e;
	return ORIEL_OK;
}

enum oriel_status ori_p2p_cell_parse(const void *bytes, struct p2p_cell *cell)
{
	struct p2p_cell c;

	/* A copy: the peer can still write to the cell after the checks. */
	memcpy(&c, bytes, sizeof(c));
	/* A cell without bytes would not advance a message that has some. */
	if (c.reserved || c.total > ORIEL_P2P_CONTROL || c.length > P2P_CELL_DATA ||
	    c.at > c.total || c.length > c.total - c.at || (c.length == 0 && c.total))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"a control message of %u bytes with %u of them at %u", c.total,
				c.length, c.at);
	*cell = c;
	return ORIEL_OK;
}
