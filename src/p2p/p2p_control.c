/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages: each is cut into cells of a ring at the receiver, which counts the
 * cells it has taken in a word of the sender. A cell is taken when its bytes have room: in
 * the buffer of a receive, or in blocks for unexpected messages. The passes of p2p_run.c
 * run it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "p2p/p2p.h"

/* Cells taken since the last report to the sender, at which the next one is due. */
#define CONTROL_REPORT (P2P_CELLS / 4)

enum oriel_status ori_control_open(struct oriel_p2p *p2p)
{
	struct p2p_control *c = &p2p->control;

	c->sends.last = &c->sends.first;
	c->receives.last = &c->receives.first;
	c->first_message = c->last_message = c->message = P2P_NO_BLOCK;
	c->blocks = calloc(P2P_BLOCKS, sizeof(*c->blocks));
	if (!c->blocks)
		return ori_fail_nomem(P2P_BLOCKS * sizeof(*c->blocks), "unexpected messages");
	for (unsigned i = 0; i < P2P_BLOCKS; i++)
		c->blocks[i].next = i + 1 < P2P_BLOCKS ? (uint8_t)(i + 1) : P2P_NO_BLOCK;
	c->free_blocks = P2P_BLOCKS;
	return ORIEL_OK;
}

void ori_control_close(struct oriel_p2p *p2p)
{
	free(p2p->control.blocks);
}

/*
 * Put one more cell of the first message; one without bytes has a cell, too. The cell is a copy,
 * so that the caller gets its data back before the put is done.
 */
static enum oriel_status control_put(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_control *c = &p2p->control;
	unsigned which = c->sent % P2P_CELLS;
	char *at = p2p->segment->local_control.cells[which];
	uint64_t rest = r->length - r->at, here = rest < P2P_CELL_DATA ? rest : P2P_CELL_DATA;
	struct p2p_cell cell = {r->tag, (uint32_t)r->length, (uint32_t)r->at, (uint32_t)here, 0};
	uint64_t offset = offsetof(struct p2p_remote_control, cells) + (uint64_t)which * P2P_CELL;
	struct p2p_local from = p2p_local_control(p2p, at);
	struct p2p_remote to = p2p_remote_control(p2p, offset);
	enum oriel_status status;
	uint64_t op;

	memcpy(at, &cell, sizeof(cell));
	if (here)
		memcpy(at + sizeof(cell), (const char *)r->buffer + r->at, here);
	status = p2p->backend->write_imm(p2p, &from, &to, sizeof(cell) + here,
					 p2p_immediate(P2P_IMM_CELL, 0, which,
						       c->sent / P2P_CELLS + 1),
					 &op);
	if (status != ORIEL_OK)
		return status;
	c->ops[which] = op + 1;
	c->sent++;
	r->at += here;
	return ORIEL_OK;
}

/* The receiver has taken the cell of the last lap, and the last put from it is done. */
static bool control_may_put(const struct oriel_p2p *p2p)
{
	const struct p2p_control *c = &p2p->control;

	return c->sent - ori_p2p_word(p2p, P2P_WORD_CELLS) < P2P_CELLS &&
	       c->ops[c->sent % P2P_CELLS] <= p2p->done;
}

static enum oriel_status control_run_sends(struct oriel_p2p *p2p, bool *has_moved)
{
	struct p2p_control *c = &p2p->control;
	struct oriel_p2p_request *r;

	/* The peer writes this word: a count above @sent would wrap in control_may_put(). */
	if (c->sends.first && ori_p2p_word(p2p, P2P_WORD_CELLS) > c->sent)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer has taken more cells than were sent");
	while ((r = c->sends.first) && control_may_put(p2p)) {
		enum oriel_status status = control_put(p2p, r);

		if (status == ORIEL_AGAIN)
			return ORIEL_OK;
		if (status != ORIEL_OK)
			return status;
		*has_moved = true;
		if (r->at == r->length)
			ori_p2p_finish_first(p2p, &c->sends, ORIEL_OK);
	}
	return ORIEL_OK;
}

enum oriel_status ori_control_arrived(struct oriel_p2p *p2p, uint32_t immediate)
{
	struct p2p_control *c = &p2p->control;
	unsigned which = immediate >> 16 & 0xff;
	uint64_t number;

	if (which >= P2P_CELLS || immediate >> 24 & 0x3f)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer wrote cell %u, which does not exist",
				which);
	/* The one cell of this slot that may be under way. */
	number = c->next + (which + P2P_CELLS - c->next % P2P_CELLS) % P2P_CELLS;
	if ((uint16_t)(number / P2P_CELLS + 1) != (uint16_t)immediate ||
	    c->arrived[which] == (uint16_t)immediate)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the peer wrote cell %u in lap %u, which is not due", which,
				immediate & 0xffff);
	/* The cell is only marked: those before it may still wait for room. */
	c->arrived[which] = (uint16_t)immediate;
	p2p->is_due = true;
	return ORIEL_OK;
}

static void control_free_blocks(struct p2p_control *c, uint8_t first)
{
	while (first != P2P_NO_BLOCK) {
		uint8_t next = c->blocks[first].next;

		c->blocks[first].next = c->free_block;
		c->free_block = first;
		c->free_blocks++;
		first = next;
	}
}

static uint8_t control_take_block(struct p2p_control *c)
{
	uint8_t block = c->free_block;

	c->free_block = c->blocks[block].next;
	c->free_blocks--;
	c->blocks[block].next = P2P_NO_BLOCK;
	return block;
}

static void control_remove_message(struct p2p_control *c, uint8_t message)
{
	uint8_t before = P2P_NO_BLOCK;

	for (uint8_t m = c->first_message; m != message; m = c->blocks[m].next_message)
		before = m;
	if (before == P2P_NO_BLOCK)
		c->first_message = c->blocks[message].next_message;
	else
		c->blocks[before].next_message = c->blocks[message].next_message;
	if (c->last_message == message)
		c->last_message = before;
	control_free_blocks(c, message);
}

/* Complete a receive whose message had @total bytes. */
static void control_finish(struct oriel_p2p *p2p, struct oriel_p2p_request *r, uint32_t total)
{
	uint64_t room = r->address;

	r->length = total;
	ori_p2p_finish(p2p, r, total > room ? ORIEL_ERR_MISMATCH : ORIEL_OK);
}

/* Copy a whole message out of its blocks. */
static void control_hand_over(struct oriel_p2p *p2p, uint8_t message)
{
	struct p2p_control *c = &p2p->control;
	struct oriel_p2p_request *r = c->blocks[message].request;
	uint32_t total = c->blocks[message].total, at = 0;

	for (uint8_t b = message; b != P2P_NO_BLOCK && total <= r->address; b = c->blocks[b].next) {
		uint32_t here = total - at < P2P_CELL_DATA ? total - at : P2P_CELL_DATA;

		if (here)
			memcpy((char *)r->buffer + at, c->blocks[b].data, here);
		at += here;
	}
	control_finish(p2p, r, total);
	control_remove_message(c, message);
}

static void control_begin_recv(struct oriel_p2p *p2p, struct oriel_p2p_request *request)
{
	struct p2p_control *c = &p2p->control;

	for (uint8_t m = c->first_message; m != P2P_NO_BLOCK; m = c->blocks[m].next_message) {
		struct p2p_block *b = &c->blocks[m];

		/* The oldest message of a tag comes first, whole or still arriving. */
		if (b->request || b->tag != request->tag)
			continue;
		b->request = request;
		if (b->got == b->total)
			control_hand_over(p2p, m);
		return;
	}
	ori_p2p_append(&c->receives, request);
}

void ori_control_begin(struct oriel_p2p *p2p, struct oriel_p2p_request *request)
{
	if (request->kind == P2P_SEND_CONTROL)
		ori_p2p_append(&p2p->control.sends, request);
	else
		control_begin_recv(p2p, request);
}

static struct oriel_p2p_request *control_match(struct p2p_control *c, uint64_t tag)
{
	struct oriel_p2p_request **at = &c->receives.first, *r;

	while (*at && (*at)->tag != tag)
		at = &(*at)->next;
	r = *at;
	if (!r)
		return NULL;
	*at = r->next;
	if (!*at)
		c->receives.last = at;
	return r;
}

/* A message begins: choose the receive or the blocks for it. False: there is no room now. */
static bool control_begin(struct p2p_control *c, const struct p2p_cell *cell)
{
	uint32_t blocks = cell->total ? (cell->total + P2P_CELL_DATA - 1) / P2P_CELL_DATA : 1;
	struct p2p_block *b;

	c->request = control_match(c, cell->tag);
	c->message = P2P_NO_BLOCK;
	if (!c->request) {
		/*
		 * All blocks of a message are taken at once. While its first cell waits for them,
		 * a receive of its tag takes it without any; in the middle of it only receives of
		 * other messages would help.
		 */
		if (blocks > c->free_blocks)
			return false;
		c->message = control_take_block(c);
		b = &c->blocks[c->message];
		*b = (struct p2p_block){.tag = cell->tag,
					.total = cell->total,
					.next = P2P_NO_BLOCK,
					.next_message = P2P_NO_BLOCK,
					.last = c->message};
		while (--blocks) {
			uint8_t more = control_take_block(c);

			c->blocks[b->last].next = more;
			b->last = more;
		}
		/* From here on @last is the part that is filled next. */
		b->last = c->message;
		if (c->last_message == P2P_NO_BLOCK)
			c->first_message = c->message;
		else
			c->blocks[c->last_message].next_message = c->message;
		c->last_message = c->message;
	}
	c->is_arriving = true;
	c->total = cell->total;
	c->got = 0;
	return true;
}

static void control_store(struct oriel_p2p *p2p, const char *data, uint32_t length)
{
	struct p2p_control *c = &p2p->control;
	struct p2p_block *b = &c->blocks[c->message];

	if (length)
		memcpy(c->blocks[b->last].data, data, length);
	b->last = c->blocks[b->last].next;
	b->got += length;
	if (b->got == b->total && b->request)
		control_hand_over(p2p, c->message);
}

/* Take the next cell, a copy of whose head is @cell. ORIEL_AGAIN: there is no room for it. */
static enum oriel_status control_take(struct oriel_p2p *p2p, const struct p2p_cell *cell,
				      const char *data)
{
	struct p2p_control *c = &p2p->control;

	if (!c->is_arriving && cell->at == 0 && !control_begin(c, cell))
		return ORIEL_AGAIN;
	/* There is only one way to cut a message into cells. */
	if (!c->is_arriving || cell->total != c->total || cell->at != c->got ||
	    cell->length != (c->total - c->got < P2P_CELL_DATA ? c->total - c->got : P2P_CELL_DATA))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"%u bytes at %u of a control message of %u, after %u of %u",
				cell->length, cell->at, cell->total, c->got, c->total);
	c->got += cell->length;
	if (c->request) {
		/* A message that is too long is consumed, and not stored. */
		if (c->total <= c->request->address && cell->length)
			memcpy((char *)c->request->buffer + cell->at, data, cell->length);
		if (c->got == c->total)
			control_finish(p2p, c->request, c->total);
	} else {
		control_store(p2p, data, cell->length);
	}
	if (c->got == c->total) {
		c->is_arriving = false;
		c->request = NULL;
	}
	return ORIEL_OK;
}

static enum oriel_status control_run_receives(struct oriel_p2p *p2p, bool *has_moved)
{
	struct p2p_control *c = &p2p->control;

	for (;;) {
		unsigned which = c->next % P2P_CELLS;
		const char *at = p2p->segment->remote_control.cells[which];
		struct p2p_cell cell;
		enum oriel_status status;

		/* The mark of an earlier lap stays until this one arrives. */
		if (c->arrived[which] != (uint16_t)(c->next / P2P_CELLS + 1))
			break;
		status = ori_p2p_cell_parse(at, &cell);
		if (status == ORIEL_OK)
			status = control_take(p2p, &cell, at + sizeof(cell));
		if (status == ORIEL_AGAIN)
			break;
		if (status != ORIEL_OK)
			return status;
		c->next++;
		*has_moved = true;
	}
	if (c->next - c->reported < CONTROL_REPORT)
		return ORIEL_OK;
	/*
	 * A sender that finds the ring full is never stuck: what is not reported is less than the
	 * ring.
	 */
	c->reported = c->next;
	return ori_p2p_set_word(p2p, P2P_WORD_CELLS, c->next);
}

enum oriel_status ori_control_run(struct oriel_p2p *p2p, bool *has_moved)
{
	/* Messages that arrived before the peer left are still received. */
	enum oriel_status status = control_run_receives(p2p, has_moved);

	return status == ORIEL_OK && !p2p->is_leaving ? control_run_sends(p2p, has_moved) : status;
}

bool ori_control_is_idle(const struct oriel_p2p *p2p)
{
	return !p2p->control.sends.first;
}

bool ori_control_take_back(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_control *c = &p2p->control;

	if (r->kind == P2P_SEND_CONTROL)
		return r->at == 0 && ori_p2p_take_out(&c->sends, r);
	/* A receive that has got a part of its message is in no list: it goes on. */
	if (ori_p2p_take_out(&c->receives, r))
		return true;
	/* A message that is still arriving has its blocks, and keeps them. */
	for (uint8_t m = c->first_message; m != P2P_NO_BLOCK; m = c->blocks[m].next_message) {
		if (c->blocks[m].request != r)
			continue;
		c->blocks[m].request = NULL;
		return true;
	}
	return false;
}

static void control_cancel_list(struct oriel_p2p *p2p, struct p2p_list *list,
				enum oriel_status status)
{
	while (list->first)
		ori_p2p_finish_first(p2p, list, status);
}

void ori_control_cancel(struct oriel_p2p *p2p, enum oriel_status status)
{
	struct p2p_control *c = &p2p->control;

	/* The request of the message that is arriving is in no list. */
	if (c->request)
		ori_p2p_finish(p2p, c->request, status);
	c->request = NULL;
	c->is_arriving = false;
	for (uint8_t m = c->first_message; m != P2P_NO_BLOCK; m = c->blocks[m].next_message) {
		if (c->blocks[m].request)
			ori_p2p_finish(p2p, c->blocks[m].request, status);
		c->blocks[m].request = NULL;
	}
	control_cancel_list(p2p, &c->sends, status);
	control_cancel_list(p2p, &c->receives, status);
}
