/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames from an engine that is let in: nothing outside of registered memory
 * changes, what an adapter may not do to memory it does not, and the engine
 * lives on. An input is frames, each after a byte that says what of it is true.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "hca/soft_engine.h"
#include "hca/soft_inbox.h"
#include "hca/soft_memory.h"
#include "hca/soft_node.h"
#include "hca/soft_wire.h"

#define MEMORY 8192u
#define READ 6000u /* bytes, up to the end of the memory */
#define EDGE 64u   /* bytes around the memory that nobody may write */
#define EDGE_BYTE 0x5a
#define DEPTH 16u
#define STEPS 300u
#define REQUESTS 9u /* frames of fuzz_seed() that are */
#define RECEIVES 4u

/* Bits of the byte before a frame. */
enum wire_truth {
	WIRE_NAMES = 1, /* it is from the peer to the QP */
	WIRE_PSN = 2,   /* relative to the one that is awaited */
	WIRE_KEY = 4,
	WIRE_MAGIC = 8,
	WIRE_ANSWER = 16, /* to who asks */
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
	void *page;

	FUZZ_CHECK(ori_soft_cluster_create(1, &wire_cluster) == ORIEL_OK);
	FUZZ_CHECK(ori_soft_cluster_open(wire_cluster, "ack=1ms,retry=1", &wire_hca) == ORIEL_OK);
	ori_hca_soft_ops.doorbell_page(wire_hca, &page);
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
	FUZZ_CHECK(ori_hca_soft_ops.post_receives(w->qp, RECEIVES) == ORIEL_OK);
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

/* WRITE, READ and FETCH_ADD of the end that takes the frames, so that answers have a question. */
static void wire_post(struct wire_end *w, const struct wire_end *peer)
{
	const struct oriel_mlx5_place remote = {0, peer->keys.rkey},
				      local = {MEMORY - READ, w->keys.lkey};
	struct oriel_mlx5_head head = {0, w->address.qpn, 0};

	oriel_mlx5_wqe_write(w->sq, head, remote, local, 4000);
	head.index = 1;
	oriel_mlx5_wqe_read(w->sq + 64, head, remote, local, READ);
	head.index = 2;
	oriel_mlx5_wqe_fetch_add(w->sq + 128, head, remote, local, 1);
	oriel_dev_store_release32(&w->record[1], oriel_mlx5_record_value(3));
	oriel_dev_store_release(w->doorbell, oriel_mlx5_doorbell_value(w->address.qpn, 3));
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

/* What lets a header through, whatever the QP it is for thinks of it. */
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

/* The next frame of @in, its payload as far as there is any. */
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

static void wire_stream(struct soft_engine *e, struct fuzz_input *in)
{
	struct soft_header h = {.magic = SOFT_WIRE_MAGIC,
				.type = SOFT_HELLO,
				.packets = SOFT_WIRE_VERSION,
				.operand = e->address.cookie,
				.compare = e->address.cookie};
	const uint8_t *payload;
	struct soft_inbox box;
	const char *why;
	size_t length;
	int ends[2];

	fuzz_connect(ends);
	FUZZ_CHECK(ori_soft_inbox_open(&box, e));
	fuzz_say(ends[0], (const uint8_t *)&h, sizeof(h));
	do {
		why = ori_soft_inbox_take(&box, ends[1]);
		for (unsigned i = 0; i < 8; i++)
			ori_soft_cluster_step(wire_cluster);
		if (why || !wire_next(in, &h, &payload, &length))
			break;
		FUZZ_CHECK(box.cookie == e->address.cookie);
		fuzz_say(ends[0], (const uint8_t *)&h, sizeof(h));
		fuzz_say(ends[0], payload, length);
	} while (true);
	FUZZ_CHECK(!why || strlen(why) > 8);
	ori_soft_inbox_close(&box);
	close(ends[0]);
	close(ends[1]);
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
	wire_stream(e, &in);
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
	size_t count = sizeof(frames) / sizeof(frames[0]), length;

	if (n >= 2 * count)
		return 0;
	length = wire_seed_frame(bytes, n % count < REQUESTS ? request : answer, frames[n % count]);
	/* And with another behind it. */
	if (n >= count)
		length += wire_seed_frame(bytes + length, request, frames[n % REQUESTS]);
	return length;
}
