/* SPDX-License-Identifier: Apache-2.0 */
/* The first frames between two engines. Links call it, on both sides. */
#include "hca/soft/soft_greet.h"

#include <stdio.h>

struct soft_header ori_soft_hello(uint64_t from, uint64_t to)
{
	return (struct soft_header){.magic = SOFT_WIRE_MAGIC,
				    .type = SOFT_HELLO,
				    .packets = SOFT_WIRE_VERSION,
				    .operand = from,
				    .compare = to};
}

/* NULL, or what is wrong with @hello. */
static const char *greet_flaw(const struct soft_engine *e, const struct soft_header *hello)
{
	if (hello->magic != SOFT_WIRE_MAGIC || hello->type != SOFT_HELLO)
		return "it is no software HCA";
	if (hello->packets != SOFT_WIRE_VERSION)
		return "its software HCA is of another version";
	if (hello->compare != e->address.cookie || !hello->operand || hello->length)
		return "its hello names another process";
	return NULL;
}

/* The acceptor's answer, ORIEL_AGAIN until it is here. */
static enum oriel_status greet_answer(struct ori_net_conn *net)
{
	struct ori_frame frame;
	enum oriel_status status = ori_net_take(net, &frame, NULL, 0);

	if (status != ORIEL_OK || frame.type == SOFT_GREETING_WELCOME)
		return status;
	return frame.type == SOFT_GREETING_REFUSED ? ORIEL_ERR_MISMATCH : ORIEL_ERR_PROTOCOL;
}

/* Once TLS is open, a doubt is about the bytes, not about the peer. */
static bool greet_is_open(const struct ori_net_conn *net)
{
	return net->tls && net->state == ORI_NET_OPEN;
}

static void greet_explain(const struct ori_net_conn *net, enum oriel_status status,
			  char why[SOFT_WHY])
{
	switch (status) {
	case ORIEL_ERR_AUTH:
		snprintf(why, SOFT_WHY, "the %s %s", greet_is_open(net) ? "connection" : "peer",
			 ori_net_doubt(net));
		break;
	case ORIEL_ERR_MISMATCH:
		snprintf(why, SOFT_WHY,
			 "the peer is not the process of this address, or its "
			 "software HCA is of another version");
		break;
	case ORIEL_ERR_VERSION:
		snprintf(why, SOFT_WHY, "the peer's software HCA is of another version");
		break;
	case ORIEL_ERR_NOMEM:
		snprintf(why, SOFT_WHY, "there is no memory for TLS");
		break;
	default:
		snprintf(why, SOFT_WHY, "the peer is no software HCA");
	}
}

enum oriel_status ori_soft_greet_connect(struct ori_net_conn *net, const struct soft_engine *e,
					 uint64_t to, bool *has_sent, char why[SOFT_WHY])
{
	const struct soft_header hello = ori_soft_hello(e->address.cookie, to);
	enum oriel_status status = ori_net_step(net);

	if (status == ORIEL_OK && !*has_sent) {
		status = ori_net_send(net, SOFT_GREETING_HELLO, &hello, sizeof(hello));
		*has_sent = true;
	}
	if (status == ORIEL_OK)
		status = greet_answer(net);
	if (status != ORIEL_OK && status != ORIEL_AGAIN && status != ORIEL_ERR_PEER)
		greet_explain(net, status, why);
	return status;
}

const char *ori_soft_greet_accept(struct ori_net_conn *net, const struct soft_engine *e,
				  uint64_t *from)
{
	struct soft_header hello;
	struct ori_frame frame;
	const char *flaw;

	if (ori_net_take(net, &frame, &hello, sizeof(hello)) != ORIEL_OK ||
	    frame.type != SOFT_GREETING_HELLO || frame.length != sizeof(hello))
		flaw = "it is no software HCA";
	else
		flaw = greet_flaw(e, &hello);
	/* The inbox reads from the socket: no byte may have come along. */
	if (!flaw && ori_net_stream_holds(net))
		flaw = "it did not wait for the welcome";
	if (!flaw)
		*from = hello.operand;
	else
		(void)ori_net_send(net, SOFT_GREETING_REFUSED, NULL, 0);
	return flaw;
}

bool ori_soft_greet_welcome(struct ori_net_conn *net)
{
	return ori_net_send(net, SOFT_GREETING_WELCOME, NULL, 0) == ORIEL_OK;
}
