/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One software HCA: its scenario, tables of queues and doorbell pages. soft.c
 * and the cluster open it.
 */
#include "hca/soft/soft_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "hca/soft/soft_engine.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_stray.h"

#define NODE_LAPS (SOFT_TABLE - 1)
#define NODE_HELD 64u /* writes held back if the scenario does not say */

static void node_free(struct soft_node *node)
{
	ori_soft_keys_close(&node->keys);
	ori_soft_remote_close(node->remote);
	free(node->held);
	ori_soft_stray_close(node);
	while (node->page_count)
		free(node->pages[--node->page_count]);
	free(node->pages);
	free(node);
}

static enum oriel_status node_attach(struct soft_engine *e, struct soft_node *node)
{
	enum oriel_status status = ORIEL_ERR_NOMEM;

	ori_soft_engine_lock(e);
	for (uint32_t i = 0; i < SOFT_NODES && status != ORIEL_OK; i++) {
		if (e->nodes[i])
			continue;
		node->id = i;
		node->rand.state = node->scenario.seed * 257 + i;
		if (e->is_virtual)
			node->rand.state += soft_rand_next(&e->rand);
		ori_soft_keys_open(&node->keys, (uint32_t)soft_rand_next(&node->rand));
		snprintf(node->name, sizeof(node->name), "soft%u", i);
		e->nodes[i] = node;
		status = ORIEL_OK;
	}
	ori_soft_engine_unlock(e);
	if (status != ORIEL_OK)
		return ori_fail(status, "more than %u software HCAs in one process", SOFT_NODES);
	return ORIEL_OK;
}

enum oriel_status ori_soft_node_open(struct soft_engine *e, const char *config,
				     struct soft_node **out)
{
	struct soft_scenario scenario;
	struct soft_node *node;
	enum oriel_status status;

	status = ori_soft_scenario_parse(config, &scenario);
	if (status != ORIEL_OK)
		return status;
	node = calloc(1, sizeof(*node));
	if (!node)
		return ori_fail_nomem(sizeof(*node), "a software HCA");
	node->engine = e;
	node->scenario = scenario;
	node->held_room = scenario.relaxed ? (uint32_t)scenario.relaxed : NODE_HELD;
	node->held = calloc(node->held_room, sizeof(*node->held));
	if (!node->held) {
		status = ori_fail_nomem(node->held_room * sizeof(*node->held),
					"held requests of a software HCA");
		node_free(node);
		return status;
	}
	status = ori_soft_stray_open(node);
	if (status != ORIEL_OK) {
		node_free(node);
		return status;
	}
	status = node_attach(e, node);
	if (status != ORIEL_OK) {
		node_free(node);
		return status;
	}
	*out = node;
	return ORIEL_OK;
}

void ori_soft_node_close(struct soft_node *node)
{
	struct soft_engine *e = node->engine;

	ori_soft_engine_lock(e);
	e->nodes[node->id] = NULL;
	ori_soft_engine_unlock(e);
	node_free(node);
}

uint32_t *ori_soft_node_add_page(struct soft_node *node)
{
	uint32_t **more = realloc(node->pages, (node->page_count + 1) * sizeof(*more));
	uint32_t *page;

	if (!more)
		return NULL;
	node->pages = more;
	page = aligned_alloc(SOFT_PAGE, SOFT_PAGE);
	if (!page)
		return NULL;
	memset(page, 0, SOFT_PAGE);
	/*
	 * The first poster that rings a doorbell of this page wakes an engine
	 * that may be asleep.
	 */
	page[0] = 1;
	more[node->page_count++] = page;
	return page;
}

bool ori_soft_node_has_slot(const struct soft_node *node, const void *slot)
{
	uintptr_t at = (uintptr_t)slot % SOFT_PAGE;
	const void *page = (const char *)slot - at;
	unsigned i;

	if (at < SOFT_DOORBELLS_AT || at % 8)
		return false;
	for (i = 0; i < node->page_count; i++)
		if (node->pages[i] == page)
			return true;
	return false;
}

uint32_t ori_soft_node_number(void *const *table, uint32_t *lap)
{
	uint32_t next = *lap % NODE_LAPS + 1;

	for (uint32_t i = 0; i < SOFT_TABLE; i++) {
		uint32_t slot = (next + i) & (SOFT_TABLE - 1);

		if (table[slot])
			continue;
		*lap = next;
		return next << SOFT_TABLE_BITS | slot;
	}
	return 0;
}
