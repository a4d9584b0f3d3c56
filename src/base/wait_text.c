/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of device waits, for errors and warnings. base/error.c, base/late.c, comm and window
 * call them.
 */
#include "base/wait_text.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const what_names[] = {
	[ORIEL_DEV_NOTHING] = "nothing",
	[ORIEL_DEV_PUT] = "put",
	[ORIEL_DEV_PUT_VALUE] = "put_value",
	[ORIEL_DEV_GET] = "get",
	[ORIEL_DEV_FETCH_ADD] = "fetch_add",
	[ORIEL_DEV_SIGNAL] = "signal",
	[ORIEL_DEV_WAIT_SIGNAL] = "wait_signal",
	[ORIEL_DEV_WAIT_SIGNAL_FROM] = "wait_signal_from",
	[ORIEL_DEV_WAIT_SIGNAL_NEXT] = "wait_signal_next",
	[ORIEL_DEV_BARRIER] = "barrier",
	[ORIEL_DEV_BARRIER_FLAT] = "barrier_flat",
	[ORIEL_DEV_BARRIER_PEER] = "barrier_peer",
	[ORIEL_DEV_COUNTER] = "counter",
	[ORIEL_DEV_WAIT_COUNTER] = "wait_counter",
	[ORIEL_DEV_SEND] = "send",
	[ORIEL_DEV_RECV] = "recv",
	[ORIEL_DEV_WAIT_LOCAL] = "wait_local",
	[ORIEL_DEV_FLUSH] = "flush",
	[ORIEL_DEV_EXCHANGE] = "exchange",
	[ORIEL_DEV_LINK] = "link",
	[ORIEL_DEV_ABORT] = "abort",
	[ORIEL_DEV_LOST] = "lost",
	[ORIEL_DEV_PUT_LL] = "put_ll",
	[ORIEL_DEV_WAIT_LL] = "wait_ll",
	[ORIEL_DEV_ALLTOALLV] = "exchange",
	[ORIEL_DEV_JOB] = "job",
	[ORIEL_DEV_DOMAIN_RANK] = "domain_rank",
	[ORIEL_DEV_DOMAIN_FIND] = "domain_find",
	[ORIEL_DEV_PEER_RANK] = "peer_rank",
	[ORIEL_DEV_PEER_INDEX] = "peer_index",
	[ORIEL_DEV_FETCH_AND] = "fetch_and",
	[ORIEL_DEV_FETCH_OR] = "fetch_or",
	[ORIEL_DEV_FETCH_XOR] = "fetch_xor",
	[ORIEL_DEV_SWAP] = "swap",
	[ORIEL_DEV_COMPARE_SWAP] = "compare_swap",
	[ORIEL_DEV_FETCH] = "fetch",
	[ORIEL_DEV_SET] = "set",
	[ORIEL_DEV_ATOMIC] = "an atomic",
	[ORIEL_DEV_HEARTBEAT] = "heartbeat",
	[ORIEL_DEV_REDUCE] = "reduce",
	[ORIEL_DEV_NIC] = "NIC",
};

const char *ori_what_name(uint32_t what)
{
	if (what < sizeof(what_names) / sizeof(what_names[0]) && what_names[what])
		return what_names[what];
	return "unknown";
}

const char *ori_what_noun(uint32_t what)
{
	switch (what) {
	case ORIEL_DEV_BARRIER:
	case ORIEL_DEV_BARRIER_FLAT:
	case ORIEL_DEV_BARRIER_PEER:
		return "barrier slot";
	case ORIEL_DEV_COUNTER:
	case ORIEL_DEV_WAIT_COUNTER:
		return "counter";
	case ORIEL_DEV_SEND:
	case ORIEL_DEV_RECV:
		return "channel";
	case ORIEL_DEV_SIGNAL:
	case ORIEL_DEV_WAIT_SIGNAL:
	case ORIEL_DEV_WAIT_SIGNAL_FROM:
	case ORIEL_DEV_WAIT_SIGNAL_NEXT:
		return "signal";
	case ORIEL_DEV_DOMAIN_RANK:
	case ORIEL_DEV_PEER_RANK:
		return "index";
	}
	return "id";
}

const char *ori_collective_noun(uint32_t window)
{
	static const char *const nouns[] = {NULL,        "all-gather", "all-to-all",
					    "broadcast", "all-reduce", "reduce-scatter",
					    "reduce",    "gather",     "scatter"};
	uint32_t which = window >> ORIEL_DEV_COLLECTIVE_BIT;

	return which < sizeof(nouns) / sizeof(nouns[0]) ? nouns[which] : "collective";
}

const char *ori_compare_sign(uint32_t compare)
{
	static const char *const signs[] = {
		[ORIEL_EQ] = "==", [ORIEL_NE] = "!=", [ORIEL_GT] = ">",
		[ORIEL_GE] = ">=", [ORIEL_LT] = "<",  [ORIEL_LE] = "<=",
	};

	/* The comparison of sequence numbers is the one behind those. */
	return compare < sizeof(signs) / sizeof(signs[0]) ? signs[compare] : ">=";
}

void ori_wait_text(const struct oriel_dev_fault *f, uint32_t compare, char *text, size_t length)
{
	char rank[24] = " of all ranks", clause[160];

	if (f->peer != ORIEL_DEV_NO_RANK)
		snprintf(rank, sizeof(rank), " of rank %u", f->peer);
	if (ori_collective_noun(f->window)) {
		snprintf(text, length, "%s: messages%s did not arrive",
			 ori_collective_noun(f->window), rank);
		return;
	}
	switch (f->what) {
	case ORIEL_DEV_NIC:
		snprintf(text, length, "the NIC did not complete requests for rank %u", f->peer);
		return;
	case ORIEL_DEV_BARRIER:
	case ORIEL_DEV_BARRIER_PEER:
		snprintf(clause, sizeof(clause), "rank %u did not arrive at barrier slot %u",
			 f->peer, f->id);
		break;
	case ORIEL_DEV_SEND:
		snprintf(clause, sizeof(clause), "rank %u made no room in channel %u", f->peer,
			 f->id);
		break;
	case ORIEL_DEV_RECV:
		snprintf(clause, sizeof(clause), "rank %u did not send to channel %u what is due",
			 f->peer, f->id);
		break;
	case ORIEL_DEV_WAIT_LL:
		snprintf(clause, sizeof(clause), "line %" PRIu64 "%s did not arrive", f->seen,
			 rank);
		break;
	default:
		snprintf(clause, sizeof(clause),
			 "%s %u%s, which is %" PRIu64 ", did not become %s %" PRIu64,
			 ori_what_noun(f->what), f->id, rank, f->seen, ori_compare_sign(compare),
			 f->expected);
	}
	snprintf(text, length, "%s: window %u: %s", ori_what_name(f->what),
		 ORIEL_DEV_WINDOW_NUMBER(f->window), clause);
}
