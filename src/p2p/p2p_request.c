/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of an endpoint: their lists, their end, and the length of their chunks. Control
 * messages, receives and sends use them.
 */
#include <stdio.h>

#include "base/error.h"
#include "p2p/p2p.h"

#define REQUEST_STEP_MIN (16u << 10)
#define REQUEST_PAGE 4096u

enum oriel_status ori_p2p_failed(const struct oriel_p2p *p2p)
{
	return ori_fail(p2p->failure, "%s", p2p->failure_text);
}

void ori_p2p_append(struct p2p_list *list, struct oriel_p2p_request *request)
{
	request->next = NULL;
	*list->last = request;
	list->last = &request->next;
}

bool ori_p2p_take_out(struct p2p_list *list, const struct oriel_p2p_request *request)
{
	struct oriel_p2p_request **at = &list->first;

	while (*at && *at != request)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = request->next;
	if (!*at)
		list->last = at;
	return true;
}

void ori_p2p_finish(struct oriel_p2p *p2p, struct oriel_p2p_request *r, enum oriel_status status)
{
	ori_mr_ref_drop(p2p->ctx, r);
	r->memory = NULL;
	r->status = status;
}

void ori_p2p_finish_first(struct oriel_p2p *p2p, struct p2p_list *list, enum oriel_status status)
{
	struct oriel_p2p_request *r = list->first;

	list->first = r->next;
	if (!list->first)
		list->last = &list->first;
	ori_p2p_finish(p2p, r, status);
}

const char *ori_p2p_place(const struct oriel_p2p_request *r, char text[P2P_PLACE])
{
	if (r->slot)
		snprintf(text, P2P_PLACE, "slot %u of channel %u", r->slot - 1u, r->of_channel);
	else
		snprintf(text, P2P_PLACE, "channel %u", r->channel);
	return text;
}

size_t ori_p2p_step(const struct oriel_p2p *p2p, const struct oriel_p2p_request *r)
{
	/* Four chunks if the transfer is short: the copies at both endpoints overlap. */
	uint64_t step = (r->length / 4 + REQUEST_PAGE - 1) / REQUEST_PAGE * REQUEST_PAGE;

	/* The user has cut what moves by a slot. */
	if (r->slot)
		return p2p->chunk;
	if (step < REQUEST_STEP_MIN)
		step = REQUEST_STEP_MIN;
	return step < p2p->chunk ? (size_t)step : p2p->chunk;
}
