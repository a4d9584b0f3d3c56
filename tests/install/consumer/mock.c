/* SPDX-License-Identifier: Apache-2.0 */
/* A unit test outside the tree: its control message arrives when it says so. */
#include <stdio.h>
#include <string.h>

#include <oriel/oriel.h>
#include <oriel/p2p_mock.h>

int main(void)
{
	const struct oriel_p2p_mock_attr attr = {.size = sizeof(attr),
						 .order = ORIEL_P2P_MOCK_MANUAL};
	struct oriel_p2p_request sent, received;
	struct oriel_p2p_mock *mock;
	struct oriel_p2p *a, *b;
	char text[8] = "";

	if (oriel_p2p_mock_create(&attr, &mock) != ORIEL_OK)
		return 1;
	a = oriel_p2p_mock_endpoint(mock, 0);
	b = oriel_p2p_mock_endpoint(mock, 1);
	if (oriel_p2p_recv_control(b, 0, text, sizeof(text), &received) != ORIEL_OK ||
	    oriel_p2p_send_control(a, 0, "hello", 6, &sent) != ORIEL_OK ||
	    oriel_p2p_test(b, &received) != ORIEL_AGAIN ||
	    oriel_p2p_mock_deliver(mock, 0) != ORIEL_OK ||
	    oriel_p2p_test(b, &received) != ORIEL_OK || strcmp(text, "hello") != 0)
		return 1;
	oriel_p2p_mock_destroy(mock);
	return puts(oriel_version()) < 0;
}
