/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte selects what the rest is: an address, a frame (its kind, then its body), exported
 * memory, or the writes of a peer to the memory of an endpoint: words, offers, cells, staging slots
 * and immediates, for mapped endpoints in lines of a ring.
 */
#include <string.h>

#include <oriel/p2p_mock.h>

#include "fuzz.h"
#include "p2p/p2p.h"
#include "p2p_mock/p2p_mock_peer.h"

#define P2P_REQUESTS 32u
#define P2P_ROOM 5000u
#define P2P_CANARY 0x5a

enum p2p_fuzz_kind {
	FUZZ_ADDRESS,
	FUZZ_FRAME,
	FUZZ_EXPORT,
	FUZZ_CELL,
	FUZZ_PEER,
	FUZZ_LINES,
	FUZZ_KINDS
};

enum p2p_fuzz_action {
	ACTION_WORD,
	ACTION_OFFER,
	ACTION_CELL,
	ACTION_LABEL,
	ACTION_WRITE_IMM,
	ACTION_PROGRESS,
	ACTION_SEND,
	ACTION_RECV,
	ACTION_EXPECT,
	ACTION_SAY,
	ACTION_HEAR,
	ACTIONS,
};

static bool is_refusal(enum oriel_status status)
{
	return status == ORIEL_ERR_PROTOCOL || status == ORIEL_ERR_VERSION;
}

static void fuzz_take(struct fuzz_input *input, void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((uint8_t *)bytes)[i] = fuzz_byte(input);
}

static void parse_address(const struct fuzz_input *input)
{
	struct p2p_address a, other;
	enum oriel_status status;

	memset(&a, 0xa5, sizeof(a));
	other = a;
	status = ori_p2p_address_parse(input->at, input->left, &a);
	if (status != ORIEL_OK) {
		FUZZ_CHECK(is_refusal(status) && memcmp(&a, &other, sizeof(a)) == 0);
		return;
	}
	FUZZ_CHECK(input->left == sizeof(a) && memcmp(&a, input->at, sizeof(a)) == 0);
	other = a;
	other.token.number++;
	other.process++;
	FUZZ_CHECK(ori_p2p_address_path(&a, &other) == ori_p2p_address_path(&other, &a));
	FUZZ_CHECK(ori_p2p_address_path(&a, &other) != ORIEL_PATH_SELF);
	FUZZ_CHECK(ori_p2p_address_rail(&a, &other) < a.rails);
	FUZZ_CHECK(ori_p2p_address_rail(&a, &other) == ori_p2p_address_rail(&other, &a));
	FUZZ_CHECK(ori_p2p_token_compare(&a.token, &a.token) == 0);
	FUZZ_CHECK(ori_p2p_token_compare(&a.token, &other.token) < 0 || other.token.number == 0);
}

static void parse_frame(const struct fuzz_input *input)
{
	const unsigned kind = input->left ? input->at[0] : 0;
	const size_t length = input->left ? input->left - 1 : 0;
	struct p2p_frame f;
	enum oriel_status status = ori_p2p_frame_parse(kind, input->at + !!input->left, length, &f);

	if (status != ORIEL_OK) {
		FUZZ_CHECK(is_refusal(status));
		return;
	}
	FUZZ_CHECK(length == ori_p2p_frame_length((enum p2p_frame_kind)kind) &&
		   memcmp(f.bytes, input->at + 1, length) == 0);
	FUZZ_CHECK(f.kind == kind && kind >= P2P_HELLO && kind <= P2P_WELCOME);
	if (f.kind == P2P_BYE)
		FUZZ_CHECK(strlen(f.bye.text) < sizeof(f.bye.text) &&
			   strcmp(oriel_status_name((enum oriel_status)f.bye.status),
				  "unknown status") != 0);
	if (f.kind == P2P_ENDPOINT)
		FUZZ_CHECK(
			f.info.channels * f.info.depth <= P2P_SLOTS && f.info.depth <= P2P_DEPTH &&
			f.info.chunk + sizeof(struct p2p_label) <= f.info.stride && f.info.slots);
	if (f.kind == P2P_PIECE)
		FUZZ_CHECK(f.piece.number <= INT32_MAX);
}

static void parse_export(const struct fuzz_input *input)
{
	struct p2p_export e;
	enum oriel_status status = ori_p2p_export_parse(input->at, input->left, &e);

	if (status != ORIEL_OK) {
		FUZZ_CHECK(is_refusal(status));
		return;
	}
	FUZZ_CHECK(input->left == sizeof(e) && memcmp(&e, input->at, sizeof(e)) == 0);
	FUZZ_CHECK(e.length && e.address + e.length > e.address);
}

static void parse_cell(const struct fuzz_input *input)
{
	uint8_t bytes[P2P_CELL] = {0};
	struct p2p_cell cell;
	enum oriel_status status;

	memcpy(bytes, input->at, input->left < sizeof(bytes) ? input->left : sizeof(bytes));
	status = ori_p2p_cell_parse(bytes, &cell);
	if (status != ORIEL_OK) {
		FUZZ_CHECK(is_refusal(status));
		return;
	}
	FUZZ_CHECK(cell.total <= ORIEL_P2P_CONTROL && cell.length <= P2P_CELL_DATA);
	FUZZ_CHECK((uint64_t)cell.at + cell.length <= cell.total);
}

/* An endpoint, with its requests and their memory. */
struct victim {
	struct oriel_p2p_mock *mock;   /* NULL: an endpoint that is its own peer, and mapped */
	struct oriel_p2p_context *ctx; /* if @mock is NULL */
	struct oriel_p2p *p2p;
	struct oriel_p2p_request requests[P2P_REQUESTS];
	unsigned begun;
	char memory[P2P_REQUESTS][P2P_ROOM + 1];
};

/* An offer of addresses of this process is trusted: so only staged and eager transfers. */
static void victim_open_mapped(struct victim *v, struct oriel_p2p_context_attr context,
			       struct oriel_p2p_attr endpoints)
{
	char address[ORIEL_P2P_ADDRESS];

	v->mock = NULL;
	context.paths = 1u << ORIEL_PATH_SELF;
	endpoints.mode = ORIEL_P2P_COPY_BASED;
	FUZZ_CHECK(oriel_p2p_context_create(&context, &v->ctx) == ORIEL_OK);
	FUZZ_CHECK(oriel_p2p_create(v->ctx, &endpoints, &v->p2p) == ORIEL_OK);
	FUZZ_CHECK(oriel_p2p_address(v->p2p, address) == ORIEL_OK);
	FUZZ_CHECK(oriel_p2p_connect(v->p2p, address, sizeof(address), 0) == ORIEL_OK);
}

static void victim_open(struct victim *v, unsigned how, bool is_local)
{
	const struct oriel_p2p_context_attr context = {.size = sizeof(context),
						       .chunk = P2P_CHUNK_MIN,
						       .slots = 10};
	const struct oriel_p2p_attr endpoints = {.size = sizeof(endpoints),
						 .mode = how % 3,
						 .channels = 2,
						 .depth = 2};
	const struct oriel_p2p_mock_attr attr = {.size = sizeof(attr),
						 .order = ORIEL_P2P_MOCK_MANUAL,
						 .context = &context,
						 .endpoints = &endpoints};

	v->begun = 0;
	memset(v->memory, P2P_CANARY, sizeof(v->memory));
	if (is_local) {
		victim_open_mapped(v, context, endpoints);
		return;
	}
	FUZZ_CHECK(oriel_p2p_mock_create(&attr, &v->mock) == ORIEL_OK);
	v->p2p = oriel_p2p_mock_endpoint(v->mock, 0);
}

static void victim_begin(struct victim *v, enum p2p_fuzz_action action, struct fuzz_input *input)
{
	unsigned channel = fuzz_byte(input) & 1, which = v->begun;
	struct oriel_p2p_request *r = &v->requests[which];
	struct oriel_p2p_buffer b = {v->memory[which], 0, NULL};
	enum oriel_status status;

	if (v->begun == P2P_REQUESTS)
		return;
	b.length = (size_t)fuzz_byte(input) * 19;
	switch (action) {
	case ACTION_SEND:
		status = oriel_p2p_send(v->p2p, channel, &b, r);
		break;
	case ACTION_RECV:
		status = oriel_p2p_recv(v->p2p, channel, &b, r);
		break;
	case ACTION_EXPECT:
		status = oriel_p2p_expect(v->p2p, channel, r);
		break;
	case ACTION_SAY:
		status = oriel_p2p_send_control(v->p2p, channel, b.address, b.length, r);
		break;
	default:
		status = oriel_p2p_recv_control(v->p2p, channel, b.address, b.length, r);
	}
	/* A call that fails has taken no request. */
	v->begun += status == ORIEL_OK || v->p2p->state == P2P_JOINED;
}

/* An immediate, or a line of the ring that is due, or nearly, with bytes that come along. */
static void victim_get_immediate(struct victim *v, struct fuzz_input *input, unsigned which)
{
	const struct p2p_link *link = &v->p2p->link;
	struct p2p_imm_entry *line;
	uint32_t immediate;
	uint8_t length;

	fuzz_take(input, &immediate, sizeof(immediate));
	if (v->mock) {
		ori_p2p_mock_write_imm(v->mock, 0, immediate);
		return;
	}
	line = &v->p2p->segment->ring[(link->taken + which % 4 / 3) & link->last];
	length = fuzz_byte(input);
	fuzz_take(input, line->bytes, length < P2P_IMM_BYTES ? length : P2P_IMM_BYTES);
	line->what =
		(link->taken + 1 + which / 16 % 8 / 7) << 40 | (uint64_t)length << 32 | immediate;
}

static void victim_close(struct victim *v)
{
	if (v->mock) {
		oriel_p2p_mock_destroy(v->mock);
		return;
	}
	oriel_p2p_destroy(v->p2p);
	oriel_p2p_context_destroy(v->ctx);
}

static void victim_suffer(struct victim *v, struct fuzz_input *input)
{
	enum p2p_fuzz_action action = fuzz_byte(input) % ACTIONS;
	struct p2p_segment *s = v->p2p->segment;
	struct p2p_pool *pool = &v->p2p->ctx->pool;
	unsigned which = fuzz_byte(input);

	switch (action) {
	case ACTION_WORD:
		/* The words that matter to two channels of depth 2. */
		if (which % 8 == 3)
			which = P2P_WORD_TAKEN + which / 8 % 2;
		else
			which = which % 8 < 3 ? which % 8 : P2P_WORD_CREDIT + which % 4;
		fuzz_take(input, &s->remote_control.words[which],
			  sizeof(s->remote_control.words[which]));
		break;
	case ACTION_OFFER:
		fuzz_take(input, &s->remote_control.offers[which % 4],
			  sizeof(s->remote_control.offers[0]));
		break;
	case ACTION_CELL:
		fuzz_take(input, s->remote_control.cells[which % P2P_CELLS],
			  sizeof(struct p2p_cell) + 8);
		break;
	case ACTION_LABEL:
		fuzz_take(input, pool->area.base + which % pool->receive * pool->stride, 24);
		break;
	case ACTION_WRITE_IMM:
		victim_get_immediate(v, input, which);
		break;
	case ACTION_PROGRESS:
		(void)oriel_p2p_progress(v->p2p);
		break;
	default:
		victim_begin(v, action, input);
	}
}

static void suffer(struct fuzz_input *input, bool is_local)
{
	static struct victim v;
	enum oriel_status status;
	uint8_t how = fuzz_byte(input);

	victim_open(&v, how, is_local);
	while (input->left)
		victim_suffer(&v, input);
	(void)oriel_p2p_progress(v.p2p);
	status = oriel_p2p_check(v.p2p);
	FUZZ_CHECK(status == ORIEL_OK || status == ORIEL_ERR_PROTOCOL ||
		   status == ORIEL_ERR_MISMATCH);
	victim_close(&v);
	for (unsigned i = 0; i < v.begun; i++)
		FUZZ_CHECK(v.requests[i].status != ORIEL_AGAIN);
	for (unsigned i = 0; i < P2P_REQUESTS; i++)
		FUZZ_CHECK(v.memory[i][P2P_ROOM] == P2P_CANARY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};

	switch (fuzz_byte(&input) % FUZZ_KINDS) {
	case FUZZ_ADDRESS:
		parse_address(&input);
		break;
	case FUZZ_FRAME:
		parse_frame(&input);
		break;
	case FUZZ_EXPORT:
		parse_export(&input);
		break;
	case FUZZ_CELL:
		parse_cell(&input);
		break;
	case FUZZ_LINES:
		suffer(&input, true);
		break;
	default:
		suffer(&input, false);
	}
	return 0;
}

static size_t seed_of(uint8_t bytes[FUZZ_SEED_MAX], enum p2p_fuzz_kind kind, const void *what,
		      size_t length)
{
	bytes[0] = (uint8_t)kind;
	memcpy(bytes + 1, what, length);
	return 1 + length;
}

/* A message, a transfer and a credit, as a valid peer would write them. */
static size_t seed_of_peer(uint8_t bytes[FUZZ_SEED_MAX], unsigned mode)
{
	const struct p2p_cell cell = {.tag = 1, .total = 8, .length = 8};
	const struct p2p_label label = {.total = 19 * 200, .length = 19 * 200};
	const struct p2p_offer offer = {.address = 1u << 20, .length = 19 * 200, .piece = ~0u};
	const uint64_t credit = p2p_credit(1, P2P_STAGED, 3);
	const uint32_t immediates[] = {p2p_immediate(P2P_IMM_CELL, 0, 0, 1),
				       p2p_immediate(P2P_IMM_UNIT, 0, 0, 1),
				       p2p_immediate(P2P_IMM_OFFER, 1, 0, 1)};
	uint8_t *at = bytes;

	*at++ = FUZZ_PEER;
	*at++ = (uint8_t)mode;
	memcpy(at, (uint8_t[]){ACTION_HEAR, 0, 1, 9, ACTION_CELL, 0}, 6);
	memcpy(at += 6, &cell, sizeof(cell));
	memcpy(at += sizeof(cell), "message!", 8);
	at += 8;
	memcpy(at, (uint8_t[]){ACTION_RECV, 0, 0, 200}, 4);
	at += 4;
	for (uint8_t slot = 0; slot < 10; slot++) {
		memcpy(at, (uint8_t[]){ACTION_LABEL, slot}, 2);
		memcpy(at += 2, &label, 24);
		at += 24;
	}
	memcpy(at, (uint8_t[]){ACTION_SEND, 0, 0, 200, ACTION_SEND, 0, 1, 200, ACTION_WORD, 4}, 10);
	memcpy(at += 10, &credit, sizeof(credit));
	at += sizeof(credit);
	memcpy(at, (uint8_t[]){ACTION_OFFER, 2}, 2);
	memcpy(at += 2, &offer, sizeof(offer));
	at += sizeof(offer);
	for (unsigned i = 0; i < 3; i++) {
		memcpy(at, (uint8_t[]){ACTION_WRITE_IMM, 0}, 2);
		memcpy(at += 2, &immediates[i], sizeof(immediates[i]));
		at += sizeof(immediates[i]);
		memcpy(at, (uint8_t[]){ACTION_PROGRESS, 0}, 2);
		at += 2;
	}
	return (size_t)(at - bytes);
}

/* Eager sends arrive for a receive and before one, and leave with the count of taken units. */
static size_t seed_of_lines(uint8_t bytes[FUZZ_SEED_MAX])
{
	const uint64_t taken = 1;
	uint8_t *at = bytes;

	*at++ = FUZZ_LINES;
	*at++ = 0;
	memcpy(at, (uint8_t[]){ACTION_RECV, 0, 0, 1, ACTION_SEND, 0, 1, 2}, 8);
	at += 8;
	for (uint32_t unit = 0; unit < 3; unit++) {
		struct p2p_eager what = {.number = unit, .bytes = "what came"};
		uint32_t immediate = p2p_immediate(P2P_IMM_EAGER, 0, unit % 2, unit / 2 + 1);

		memcpy(at, (uint8_t[]){ACTION_WRITE_IMM, 0}, 2);
		memcpy(at += 2, &immediate, sizeof(immediate));
		at += sizeof(immediate);
		*at++ = P2P_EAGER_HEAD + 19;
		memcpy(at, &what, P2P_EAGER_HEAD + 19);
		at += P2P_EAGER_HEAD + 19;
		memcpy(at, (uint8_t[]){ACTION_PROGRESS, 0, ACTION_RECV, 0, 0, 1}, 6);
		at += 6;
	}
	/* In the eager buffer, and more than fits. */
	for (uint32_t unit = 3; unit < 5; unit++) {
		struct p2p_eager what = {.number = unit, .length = unit == 3 ? 200 : 8192};
		uint32_t immediate =
			p2p_immediate(P2P_IMM_EAGER, 0, unit % 2, unit / 2 + 1) | P2P_IMM_BUFFERED;

		memcpy(at, (uint8_t[]){ACTION_WRITE_IMM, 0}, 2);
		memcpy(at += 2, &immediate, sizeof(immediate));
		at += sizeof(immediate);
		*at++ = P2P_EAGER_BUFFERED;
		memcpy(at, &what, P2P_EAGER_BUFFERED);
		at += P2P_EAGER_BUFFERED;
		memcpy(at, (uint8_t[]){ACTION_PROGRESS, 0, ACTION_RECV, 0, 0, 1}, 6);
		at += 6;
	}
	memcpy(at, (uint8_t[]){ACTION_WORD, 11}, 2);
	memcpy(at += 2, &taken, sizeof(taken));
	at += sizeof(taken);
	memcpy(at, (uint8_t[]){ACTION_SEND, 0, 1, 1, ACTION_SEND, 0, 1, 2, ACTION_PROGRESS, 0}, 10);
	at += 10;
	return (size_t)(at - bytes);
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	uint8_t frame_bytes[1 + P2P_BODY] = {(uint8_t)n};
	struct p2p_frame frame = {.kind = n,
				  .info = {.path = ORIEL_PATH_RDMA,
					   .channels = 4,
					   .depth = 8,
					   .chunk = 8192,
					   .stride = 8192 + 64,
					   .slots = 64}};
	struct p2p_address address = {.magic = P2P_ADDRESS_MAGIC,
				      .version = P2P_VERSION,
				      .paths = 1u << ORIEL_PATH_MAPPED | 1u << ORIEL_PATH_RDMA,
				      .process = 3,
				      .pid = 4,
				      .rails = 2,
				      .token = {.context = {1, 2, 3}, .number = 5}};
	struct p2p_export e = {.magic = P2P_EXPORT_MAGIC,
			       .version = P2P_VERSION,
			       .path = ORIEL_PATH_RDMA,
			       .address = 4096,
			       .length = 100,
			       .piece = P2P_NO_PIECE};

	const struct p2p_cell cell = {.tag = 5, .total = 3000, .at = 2024, .length = 976};

	if (n == 0)
		return seed_of(bytes, FUZZ_ADDRESS, &address, sizeof(address));
	if (n == P2P_PIECE)
		frame.piece = (struct p2p_piece){.number = 1};
	if (n == P2P_READY)
		frame.ready = (struct p2p_ready){.reaches_gpu = 1};
	if (n == P2P_BYE)
		frame.bye = (struct p2p_bye){.status = ORIEL_ERR_MISMATCH, .text = "why"};
	if (n <= P2P_BYE) {
		memcpy(frame_bytes + 1, frame.bytes, P2P_BODY);
		return seed_of(bytes, FUZZ_FRAME, frame_bytes,
			       1 + ori_p2p_frame_length((enum p2p_frame_kind)n));
	}
	if (n == P2P_BYE + 1)
		return seed_of(bytes, FUZZ_EXPORT, &e, sizeof(e));
	if (n == P2P_BYE + 2)
		return seed_of(bytes, FUZZ_CELL, &cell, sizeof(cell));
	if (n == P2P_BYE + 6)
		return seed_of_lines(bytes);
	return n < P2P_BYE + 6 ? seed_of_peer(bytes, n - P2P_BYE - 3) : 0;
}
