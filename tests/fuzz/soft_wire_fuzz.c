/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the software HCA's wire: frames of an engine that has said hello change no byte
 * outside of registered memory, violate no access right, and do not end the engine. An acceptor
 * takes no other hello than the right one, and a connector sends nothing without a welcome; the
 * proof of the key is in the target conn. An input is a byte with the kind of connection, and
 * frames, each behind a byte that selects its valid fields.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "hca/soft/soft_engine.h"
#include "hca/soft/soft_greet.h"
#include "hca/soft/soft_inbox.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_node.h"
#include "hca/soft/soft_wire.h"
#include "hca/test_support/soft_cluster.h"

#define MEMORY 8192u
#define READ 6000u /* bytes, up to the end of the memory */
#define EDGE 64u   /* bytes around the memory that no frame may change */
#define EDGE_BYTE 0x5a
#define DEPTH 16u
#define STEPS 300u
#define REQUESTS 9u /* frames of fuzz_seed() that are requests */
#define RECEIVES 4u
#define GREETING_MAX (ORI_FRAME_HEADER + sizeof(struct soft_header))

/* Bits of the byte before a frame. */
enum wire_truth {
	WIRE_NAMES = 1, /* the frame is from the peer to the QP */
	WIRE_PSN = 2,   /* its PSN is relative to the expected one */
	WIRE_KEY = 4,
	WIRE_MAGIC = 8,
	WIRE_ANSWER = 16, /* it goes to the requester */
};

/* The kind of connection. */
enum wire_begin {
	WIRE_STREAM,    /* behind the greeting */
	WIRE_ACCEPTOR,  /* the input is the hello of the connector */
	WIRE_CONNECTOR, /* the input is the answer of the acceptor */
	WIRE_BEGINS,
};

/* Bits of the byte before a greeting. */
enum wire_honesty {
	WIRE_HEADER = 1, /* the header of its frame is valid */
	WIRE_BODY = 2,
};

struct wire_end {
	struct ori_hca_mr *mr;
	struct ori_hca_cq *cq, *receive_cq;
	struct ori_hca_qp *qp;
	struct ori_hca_keys keys;
	struct ori_hca_qp_address address;
	char *whole; /* EDGE, MEMORY, EDGE */
	char *sq, *cqes;
	uint32_t *record;
	uint64_t *doorbell;
};

static struct ori_soft_cluster *wire_cluster;
static struct ori_hca *wire_hca;
static struct wire_end wire_ends[2];

static char *wire_alloc(size_t length)
{
	char *p = aligned_alloc(4096, (length + 4095) / 4096 * 4096);

	FUZZ_CHECK(p);
	memset(p, 0, length);
	return p;
}

static void wire_begin(void)
{
	struct ori_hca_caps caps;
	void *page;

	FUZZ_CHECK(ori_soft_cluster_create(1, &wire_cluster) == ORIEL_OK);
	FUZZ_CHECK(ori_soft_cluster_open(wire_cluster, "ack=1ms,retry=1", &wire_hca) == ORIEL_OK);
	ori_hca_soft_ops.caps(wire_hca, &caps);
	FUZZ_CHECK(caps.rings->doorbell_page(wire_hca, &page) == ORIEL_OK);
	for (unsigned i = 0; i < 2; i++) {
		struct wire_end *w = &wire_ends[i];

		w->whole = wire_alloc(MEMORY + 2 * EDGE);
		w->sq = wire_alloc(DEPTH * 64);
		w->cqes = wire_alloc(DEPTH * 64);
		w->record = (uint32_t *)(void *)wire_alloc(8);
		w->doorbell = (uint64_t *)page + 0x100 + i;
	}
}

static void wire_open(struct wire_end *w)
{
	struct ori_hca_cq_attr cq = {.ring = w->cqes, .depth = DEPTH};
	struct ori_hca_cq_attr receive_cq = {.depth = RECEIVES};
	struct ori_hca_qp_attr qp = {.ring = w->sq,
				     .depth = DEPTH,
				     .record = w->record,
				     .doorbell = w->doorbell};
	uint32_t cqn;

	memset(w->whole, EDGE_BYTE, MEMORY + 2 * EDGE);
	memset(w->whole + EDGE, 0, MEMORY);
	FUZZ_CHECK(ori_hca_soft_ops.create_cq(wire_hca, &cq, &w->cq, &cqn) == ORIEL_OK);
	FUZZ_CHECK(ori_hca_soft_ops.create_cq(wire_hca, &receive_cq, &w->receive_cq, &cqn) ==
		   ORIEL_OK);
	qp.send_cq = w->cq;
	qp.receive_cq = w->receive_cq;
	qp.receives = RECEIVES;
	w->record[1] = 0;
	FUZZ_CHECK(ori_hca_soft_ops.create_qp(wire_hca, &qp, &w->qp, &w->address) == ORIEL_OK);
	FUZZ_CHECK(ori_hca_soft_ops.calls->post_receives(w->qp, RECEIVES) == ORIEL_OK);
	FUZZ_CHECK(ori_hca_soft_ops.register_memory(wire_hca, w->whole + EDGE, MEMORY, 0,
						    ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE |
							    ORI_HCA_REMOTE_READ |
							    ORI_HCA_REMOTE_ATOMIC,
						    &w->mr, &w->keys) == ORIEL_OK);
}

static void wire_close(struct wire_end *w)
{
	ori_hca_soft_ops.destroy_qp(w->qp);
	ori_hca_soft_ops.destroy_cq(w->cq);
	ori_hca_soft_ops.destroy_cq(w->receive_cq);
	ori_hca_soft_ops.unregister_memory(w->mr);
	for (unsigned i = 0; i < EDGE; i++) {
		FUZZ_CHECK(w->whole[i] == EDGE_BYTE);
		FUZZ_CHECK(w->whole[EDGE + MEMORY + i] == EDGE_BYTE);
	}
}

/* Post a WRITE, READ and FETCH_ADD on the receiving side, so that answers match a request. */
static void wire_post(struct wire_end *w, const struct wire_end *peer)
{
	const struct ori_dev_rdma_address remote = {0, peer->keys.rkey},
					  local = {MEMORY - READ, w->keys.lkey};
	struct ori_dev_mlx5_head head = {0, w->address.qpn, 0};

	ori_dev_mlx5_wqe_write(w->sq, head, remote, local, 4000);
	head.index = 1;
	ori_dev_mlx5_wqe_read(w->sq + 64, head, remote, local, READ);
	head.index = 2;
	ori_dev_mlx5_wqe_fetch_add(w->sq + 128, head, remote, local, 1);
	ori_dev_store_release32(&w->record[1], ori_dev_mlx5_record_value(3));
	oriel_dev_store_release(w->doorbell, ori_dev_mlx5_doorbell_value(w->address.qpn, 3));
}

static void wire_amend(struct soft_header *h, uint8_t truth)
{
	const struct wire_end *to = &wire_ends[0], *from = &wire_ends[1];
	const struct soft_qp *qp = (const struct soft_qp *)to->qp;

	if (truth & WIRE_MAGIC)
		h->magic = SOFT_WIRE_MAGIC;
	if (truth & WIRE_NAMES) {
		h->node = h->source_node = 0;
		h->qpn = to->address.qpn;
		h->source_qpn = from->address.qpn;
	}
	if (truth & WIRE_PSN)
		h->psn = soft_psn_add(qp->expected, h->psn & 3);
	if (truth & WIRE_ANSWER)
		h->psn = soft_psn_add(to->address.psn, h->psn & 7);
	if (truth & WIRE_KEY)
		h->rkey = to->keys.rkey;
}

/* A header without a flaw is within its limits, whatever its QP does with it. */
static void wire_check(const struct soft_header *h)
{
	const char *flaw = ori_soft_header_flaw(h);

	if (flaw) {
		FUZZ_CHECK(strlen(flaw) > 8);
		return;
	}
	FUZZ_CHECK(h->magic == SOFT_WIRE_MAGIC && h->psn <= SOFT_PSN_MASK);
	FUZZ_CHECK(h->length <= SOFT_RUN * SOFT_PAGE);
	FUZZ_CHECK(h->type == SOFT_READ || h->packets <= SOFT_RUN);
	FUZZ_CHECK((h->type != SOFT_WRITE && h->type != SOFT_WRITE_IMM) ||
		   (uint64_t)h->operand + h->length <= h->total);
	FUZZ_CHECK(h->type < SOFT_ADD || h->type > SOFT_MASKED_SWAP || h->total == 4 ||
		   h->total == 8);
}

/* Take the next frame of @in; the payload may be shorter than the header says. */
static bool wire_next(struct fuzz_input *in, struct soft_header *h, const uint8_t **payload,
		      size_t *length)
{
	uint8_t truth = fuzz_byte(in);

	if (in->left < sizeof(*h))
		return false;
	memcpy(h, in->at, sizeof(*h));
	in->at += sizeof(*h);
	in->left -= sizeof(*h);
	wire_amend(h, truth);
	wire_check(h);
	*payload = in->at;
	*length = h->length < in->left ? h->length : in->left;
	in->at += *length;
	in->left -= *length;
	return true;
}

/* Send @good, @length bytes, with the invalid parts replaced by input. Is it all as it was? */
static bool wire_say_greeting(struct fuzz_input *in, int fd, const uint8_t *good, size_t length)
{
	uint8_t bytes[GREETING_MAX], honesty = fuzz_byte(in);

	memcpy(bytes, good, length);
	for (size_t i = 0; i < length; i++)
		if (!(honesty & (i < ORI_FRAME_HEADER ? WIRE_HEADER : WIRE_BODY)))
			bytes[i] = fuzz_byte(in);
	fuzz_say(fd, bytes, length);
	shutdown(fd, SHUT_WR);
	return memcmp(bytes, good, length) == 0;
}

/* The acceptor takes the engine of @in if and only if its hello is right. */
static void wire_accept(const struct soft_engine *e, struct fuzz_input *in)
{
	const struct soft_header hello = ori_soft_hello(e->address.cookie, e->address.cookie);
	const struct ori_frame frame = {SOFT_GREETING_HELLO, 0, sizeof(hello)};
	struct ori_traffic traffic = {0, 0};
	uint8_t good[GREETING_MAX];
	enum oriel_status status;
	struct ori_net_conn net;
	const char *flaw = "";
	bool is_right;
	uint64_t from;
	int ends[2];

	fuzz_connect(ends);
	ori_net_accept(&net, ends[1], NULL, &traffic);
	ori_frame_encode(&frame, good);
	memcpy(good + ORI_FRAME_HEADER, &hello, sizeof(hello));
	is_right = wire_say_greeting(in, ends[0], good, sizeof(good));
	status = ori_net_step(&net);
	if (status == ORIEL_OK) {
		flaw = ori_soft_greet_accept(&net, e, &from);
		FUZZ_CHECK(flaw ? strlen(flaw) > 8 : from != 0);
	}
	/* Fields that the acceptor ignores may differ. */
	FUZZ_CHECK(!is_right || (!flaw && from == e->address.cookie));
	ori_net_close(&net);
	close(ends[0]);
}

/* A connector sends nothing but its hello before the welcome. */
static void wire_connect(const struct soft_engine *e, struct fuzz_input *in)
{
	const struct ori_frame frame = {SOFT_GREETING_WELCOME, 0, 0};
	struct ori_traffic traffic = {0, 0};
	uint8_t good[ORI_FRAME_HEADER];
	char why[SOFT_WHY] = "";
	enum oriel_status status;
	struct ori_net_conn net;
	bool has_sent = false;
	bool is_right;
	int ends[2];

	fuzz_connect(ends);
	ori_net_accept(&net, ends[1], NULL, &traffic);
	net.state = ORI_NET_CONNECTING;
	net.is_connector = true;
	ori_frame_encode(&frame, good);
	is_right = wire_say_greeting(in, ends[0], good, sizeof(good));
	status = ori_soft_greet_connect(&net, e, e->address.cookie, &has_sent, why);
	FUZZ_CHECK(has_sent && traffic.frames == 1);
	FUZZ_CHECK(!is_right || status == ORIEL_OK);
	FUZZ_CHECK(status != ORIEL_AGAIN);
	FUZZ_CHECK((*why != '\0') == (status != ORIEL_OK && status != ORIEL_ERR_PEER));
	ori_net_close(&net);
	close(ends[0]);
}

static void wire_frames(struct fuzz_input *in, struct soft_inbox *box, int fd)
{
	const uint8_t *payload;
	struct soft_header h;
	const char *why;
	size_t length;

	do {
		why = ori_soft_inbox_take(box);
		for (unsigned i = 0; i < 8; i++)
			ori_soft_cluster_step(wire_cluster);
		if (why || !wire_next(in, &h, &payload, &length))
			break;
		fuzz_say(fd, (const uint8_t *)&h, sizeof(h));
		fuzz_say(fd, payload, length);
	} while (true);
	FUZZ_CHECK(!why || strlen(why) > 8);
}

static void wire_stream(struct soft_engine *e, struct fuzz_input *in)
{
	struct ori_net_conn net;
	struct soft_inbox box;
	int ends[2];

	fuzz_connect(ends);
	ori_net_open(&net, ends[1], NULL);
	FUZZ_CHECK(ori_soft_inbox_open(&box, e, &net));
	box.claimed = e->address.cookie;
	wire_frames(in, &box, ends[0]);
	ori_soft_inbox_close(&box);
	ori_net_close(&net);
	close(ends[0]);
}

static void wire_run(struct soft_engine *e, struct fuzz_input *in)
{
	enum wire_begin begin = fuzz_byte(in) % WIRE_BEGINS;

	if (begin == WIRE_ACCEPTOR)
		wire_accept(e, in);
	else if (begin == WIRE_CONNECTOR)
		wire_connect(e, in);
	else
		wire_stream(e, in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	struct soft_engine *e;

	if (!wire_cluster)
		wire_begin();
	e = (struct soft_engine *)wire_cluster;
	for (unsigned i = 0; i < 2; i++)
		wire_open(&wire_ends[i]);
	for (unsigned i = 0; i < 2; i++)
		FUZZ_CHECK(ori_hca_soft_ops.connect_qp(wire_ends[i].qp, &wire_ends[!i].address) ==
			   ORIEL_OK);
	wire_post(&wire_ends[0], &wire_ends[1]);
	wire_run(e, &in);
	for (unsigned i = 0; i < STEPS && ori_soft_cluster_step(wire_cluster); i++)
		;
	for (unsigned i = 0; i < 2; i++)
		wire_close(&wire_ends[i]);
	return 0;
}

static size_t wire_seed_frame(uint8_t *at, uint8_t truth, struct soft_header h)
{
	h.magic = SOFT_WIRE_MAGIC;
	if (!h.packets)
		h.packets = 1;
	at[0] = truth;
	memcpy(at + 1, &h, sizeof(h));
	memset(at + 1 + sizeof(h), 7, h.length);
	return 1 + sizeof(h) + h.length;
}

/* Valid and invalid greetings, of either side. */
static size_t wire_seed_greeting(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	if (n >= 8)
		return 0;
	bytes[0] = n % 2 ? WIRE_ACCEPTOR : WIRE_CONNECTOR;
	bytes[1] = (uint8_t)(n / 2);
	memset(bytes + 2, 7, GREETING_MAX);
	return 2 + GREETING_MAX;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	const uint8_t request = WIRE_NAMES | WIRE_PSN | WIRE_KEY | WIRE_MAGIC;
	const uint8_t answer = WIRE_NAMES | WIRE_ANSWER | WIRE_MAGIC;
	const struct soft_header frames[] = {
		{.type = SOFT_WRITE, .length = 100, .total = 100, .address = 64},
		{.type = SOFT_WRITE, .length = 1, .total = 5000, .operand = 4999},
		{.type = SOFT_WRITE_IMM, .length = 100, .total = 100, .compare = 7},
		{.type = SOFT_WRITE_IMM, .compare = 8},
		{.type = SOFT_READ, .total = 5000, .packets = 2},
		{.type = SOFT_ADD, .total = 8, .address = 8, .operand = 1},
		{.type = SOFT_SWAP, .total = 8, .address = 8, .operand = 1},
		{.type = SOFT_MASKED_ADD, .total = 4, .length = 16},
		{.type = SOFT_MASKED_SWAP, .total = 8, .length = 16},
		{.type = SOFT_ACK},
		{.type = SOFT_NAK},
		{.type = SOFT_NAK, .code = 0x13},
		{.type = SOFT_DATA, .length = 4096, .psn = 1},
		{.type = SOFT_DATA, .length = 1904, .psn = 2},
		{.type = SOFT_DATA, .length = READ, .psn = 1, .packets = 2},
		{.type = SOFT_DATA, .length = READ + 1, .psn = 1, .packets = 2},
		{.type = SOFT_OLD, .psn = 3},
		{.type = SOFT_ASK, .operand = 1},
		{.type = SOFT_ANSWER, .operand = 1},
		{.type = SOFT_HELLO},
	};
	size_t count = sizeof(frames) / sizeof(frames[0]), length = 1;

	if (n >= 2 * count)
		return wire_seed_greeting(n - 2 * (unsigned)count, bytes);
	bytes[0] = WIRE_STREAM;
	length += wire_seed_frame(bytes + 1, n % count < REQUESTS ? request : answer,
				  frames[n % count]);
	/* The second half of the seeds has a request behind the frame. */
	if (n >= count)
		length += wire_seed_frame(bytes + length, request, frames[n % REQUESTS]);
	return length;
}
