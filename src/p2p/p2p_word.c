/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of the control: counts and credits that one endpoint writes and the other reads.
 * Control messages, receives and sends call these; a pass puts the words that had to wait.
 */
#include <oriel/dev/detail/order.h>

#include "p2p/p2p.h"

uint64_t ori_p2p_word(const struct oriel_p2p *p2p, unsigned which)
{
	/* Acquire: with the word that the peer, or the HCA for it, has stored. */
	return oriel_dev_load_acquire(&p2p->segment->remote_control.words[which]);
}

/*
 * Puts have no order: of two puts of one count, the earlier one could arrive last. A
 * credit is used before the next one replaces it.
 */
static bool word_is_under_way(const struct oriel_p2p *p2p, unsigned which)
{
	return which < P2P_WORD_CREDIT && p2p->counts_op[which] > p2p->done;
}

static enum oriel_status word_put(struct oriel_p2p *p2p, unsigned which)
{
	uint64_t *source = &p2p->segment->local_control.words[which], at = which * sizeof(*source),
		 op;
	struct p2p_local from = p2p_local_control(p2p, source);
	struct p2p_remote to = p2p_remote_control(p2p, at);
	enum oriel_status status;

	if (word_is_under_way(p2p, which))
		return ORIEL_AGAIN;
	status = p2p->backend->put(p2p, &from, &to, sizeof(*source), &op);
	if (status == ORIEL_OK && which < P2P_WORD_CREDIT)
		p2p->counts_op[which] = op + 1;
	return status;
}

enum oriel_status ori_p2p_set_word(struct oriel_p2p *p2p, unsigned which, uint64_t value)
{
	enum oriel_status status;

	if (p2p->is_leaving)
		return ORIEL_OK;
	oriel_dev_store_release(&p2p->segment->local_control.words[which], value);
	status = word_put(p2p, which);
	if (status != ORIEL_AGAIN)
		return status;
	p2p->dirty[which / 64] |= UINT64_C(1) << which % 64;
	p2p->is_dirty = true;
	return ORIEL_OK;
}

enum oriel_status ori_p2p_put_dirty(struct oriel_p2p *p2p)
{
	bool is_left = false;

	if (!p2p->is_dirty || p2p->is_leaving)
		return ORIEL_OK;
	for (unsigned i = 0; i < sizeof(p2p->dirty) / sizeof(p2p->dirty[0]); i++) {
		for (uint64_t left = p2p->dirty[i]; left; left &= left - 1) {
			unsigned which = i * 64 + (unsigned)__builtin_ctzll(left);
			enum oriel_status status;

			if (word_is_under_way(p2p, which)) {
				is_left = true;
				continue;
			}
			status = word_put(p2p, which);
			/* A full queue has no room for the words behind this one either. */
			if (status != ORIEL_OK)
				return status == ORIEL_AGAIN ? ORIEL_OK : status;
			p2p->dirty[i] &= ~(UINT64_C(1) << which % 64);
		}
	}
	p2p->is_dirty = is_left;
	return ORIEL_OK;
}
