/* SPDX-License-Identifier: Apache-2.0 */
/* A unit test outside the tree: what the program calls is answered by a script. */
#include <stdio.h>

#include <oriel/oriel.h>
#include <oriel/p2p_calls.h>

/* The program that is tested. */
static enum oriel_status greet(struct oriel_p2p *p2p)
{
	struct oriel_p2p_request request;
	enum oriel_status status = oriel_p2p_send_control(p2p, 7, "hello", 6, &request);

	return status == ORIEL_OK ? oriel_p2p_wait(p2p, &request, 0) : status;
}

int main(void)
{
	const struct oriel_p2p_call steps[] = {
		{.call = ORIEL_P2P_CALL_SEND_CONTROL, .tag = 7, .data = "hello", .length = 6},
		{.call = ORIEL_P2P_CALL_WAIT, .status = ORIEL_ERR_PEER},
	};
	const struct oriel_p2p_calls_attr attr = {.size = sizeof(attr), .steps = steps, .count = 2};

	if (oriel_p2p_calls_begin(&attr) != ORIEL_OK ||
	    greet(oriel_p2p_calls_endpoint(1)) != ORIEL_ERR_PEER ||
	    oriel_p2p_calls_end() != ORIEL_OK)
		return 1;
	return puts(oriel_version()) < 0;
}
