/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations of the software HCA: soft.c's table has them; the responder and the send queue
 * look up keys. Keys are index << 8 | variant. A freed slot gets another variant and waits
 * behind all other free ones, so that the error names a key used after its memory was
 * unregistered, and not only a key that never was.
 */
#include "hca/soft/soft_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MR_NONE UINT32_MAX
#define MR_SLOTS_MAX (1u << 16)
#define MR_SALT_BITS 8u /* of the 24 bits of an index, above those of the slot */

void ori_soft_keys_open(struct soft_keys *keys, uint32_t salt)
{
	*keys = (struct soft_keys){.free = MR_NONE,
				   .last = MR_NONE,
				   .salt = (salt % ((1u << MR_SALT_BITS) - 1) + 1) << 16};
}

void ori_soft_keys_close(struct soft_keys *keys)
{
	free(keys->table);
}

static enum oriel_status mr_grow(struct soft_keys *keys)
{
	uint32_t capacity = keys->capacity ? 2 * keys->capacity : 64;
	struct soft_key *table;

	if (keys->capacity == MR_SLOTS_MAX)
		return ori_fail(ORIEL_ERR_NOMEM, "more than %u registrations with a software HCA",
				MR_SLOTS_MAX);
	table = realloc(keys->table, capacity * sizeof(*table));
	if (!table)
		return ori_fail_nomem(capacity * sizeof(*table), "the keys of a software HCA");
	keys->table = table;
	keys->capacity = capacity;
	return ORIEL_OK;
}

/*
 * The slot that was freed last is not taken: its old key stays invalid for as
 * long as possible.
 */
static enum oriel_status mr_take_slot(struct soft_keys *keys, uint32_t *slot)
{
	enum oriel_status status;

	if (keys->free != MR_NONE && keys->free != keys->last) {
		*slot = keys->free;
		keys->free = keys->table[*slot].next;
		keys->table[*slot].variant++;
		return ORIEL_OK;
	}
	if (keys->count == keys->capacity) {
		status = mr_grow(keys);
		if (status != ORIEL_OK)
			return status;
	}
	*slot = keys->count++;
	keys->table[*slot].variant = 0x5a;
	return ORIEL_OK;
}

enum oriel_status ori_soft_keys_add(struct soft_keys *keys, struct soft_mr *mr)
{
	enum oriel_status status;
	uint32_t slot;

	status = mr_take_slot(keys, &slot);
	if (status != ORIEL_OK)
		return status;
	keys->table[slot].mr = mr;
	mr->key = (keys->salt | slot) << 8 | keys->table[slot].variant;
	return ORIEL_OK;
}

void ori_soft_keys_remove(struct soft_keys *keys, struct soft_mr *mr)
{
	uint32_t slot = mr->key >> 8 & (MR_SLOTS_MAX - 1);

	keys->table[slot].mr = NULL;
	keys->table[slot].next = MR_NONE;
	if (keys->free == MR_NONE)
		keys->free = slot;
	else
		keys->table[keys->last].next = slot;
	keys->last = slot;
}

static struct soft_mr *mr_lookup(const struct soft_keys *keys, uint32_t key, const char **why)
{
	uint32_t index = key >> 8, slot = index & (MR_SLOTS_MAX - 1);
	const struct soft_key *k;

	*why = "no such key";
	if ((index & ~(MR_SLOTS_MAX - 1)) != keys->salt || slot >= keys->count)
		return NULL;
	k = &keys->table[slot];
	if (k->mr && k->variant == (key & 0xff))
		return k->mr;
	*why = "a key whose memory has been unregistered";
	return NULL;
}

struct soft_mr *ori_soft_mr_find(struct soft_node *node, uint32_t key, uint64_t address,
				 uint64_t length, unsigned access, const char **why)
{
	struct soft_mr *mr = mr_lookup(&node->keys, key, why);

	if (!mr)
		return NULL;
	*why = "bytes outside of the registered memory";
	if (address < mr->iova || length > mr->length || address - mr->iova > mr->length - length)
		return NULL;
	*why = "access that the registration does not allow";
	return (mr->access & access) == access ? mr : NULL;
}

bool ori_soft_is_held(const struct soft_mr *mr, const char *at)
{
	const struct soft_scenario *s = &mr->node->scenario;

	if (!s->below_owner && !s->invisible &&
	    !(s->relaxed && (mr->access & ORI_HCA_RELAXED_ORDERING)))
		return false;
	return mr->side != SOFT_EITHER && !ori_soft_is_remote(mr, at);
}

/* The oldest write if their order stays, else any. */
static void mr_leak(struct soft_node *node)
{
	bool in_order = node->scenario.below_owner || node->scenario.invisible;
	uint64_t which = in_order ? 0 : soft_rand_below(&node->rand, node->held_count);
	struct soft_posted *p = &node->held[which];

	ori_soft_copy(p->target, p->data, p->length);
	node->held_count--;
	if (in_order)
		memmove(p, p + 1, node->held_count * sizeof(*p));
	else if (which != node->held_count)
		*p = node->held[node->held_count];
}

uint64_t ori_soft_held_due(const struct soft_node *node)
{
	return node->held_count ? node->held[0].due : SOFT_NEVER;
}

bool ori_soft_held_leak(struct soft_node *node)
{
	if (ori_soft_held_due(node) > node->engine->now)
		return false;
	mr_leak(node);
	return true;
}

void ori_soft_held_drain(struct soft_node *node)
{
	while (node->held_count)
		mr_leak(node);
}

static bool mr_overlaps(const struct soft_node *node, const char *at, size_t length)
{
	for (uint32_t i = 0; i < node->held_count; i++) {
		const struct soft_posted *p = &node->held[i];

		if (at < p->target + p->length && p->target < at + length)
			return true;
	}
	return false;
}

void ori_soft_held_settle(struct soft_node *node, const char *at, size_t length)
{
	if (!node->scenario.below_owner || mr_overlaps(node, at, length))
		ori_soft_held_drain(node);
}

static void mr_hold_back(struct soft_node *node, char *to, const char *from, size_t length)
{
	const struct soft_scenario *s = &node->scenario;
	struct soft_posted *p;

	if (node->held_count == node->held_room)
		mr_leak(node);
	p = &node->held[node->held_count++];
	p->due = node->engine->now +
		 soft_rand_below(&node->rand, s->below_owner ? s->below_owner : s->invisible);
	p->target = to;
	p->length = length;
	ori_soft_copy(p->data, from, length);
	node->counters.relaxed++;
}

bool ori_soft_write(struct soft_mr *mr, char *to, const void *from, size_t length)
{
	const char *at = from;

	if (!ori_soft_is_held(mr, to)) {
		ori_soft_held_drain(mr->node);
		return to == at || ori_soft_store(mr, to, at, length);
	}
	while (length > 0) {
		size_t part = length < SOFT_CHUNK ? length : SOFT_CHUNK;

		mr_hold_back(mr->node, to, at, part);
		to += part;
		at += part;
		length -= part;
	}
	return true;
}
