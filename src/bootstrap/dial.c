/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/dial.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"

struct dial_proof {
	struct ori_frame frame;
	unsigned char body[ORI_FAILURE_LENGTH];
};

static const char *dial_whom(const struct ori_link *link, char text[ORI_ENDPOINT_LENGTH])
{
	struct ori_address address;

	if (ori_endpoint_remote(link->fd, &address) != ORIEL_OK)
		return "a rank that is gone";
	return ori_endpoint_text(&address, text);
}

static enum oriel_status dial_hear(struct ori_link *link, struct ori_gate *gate, uint64_t deadline,
				   struct dial_proof *proof)
{
	struct pollfd polled = {.fd = link->fd, .events = POLLIN};
	char whom[ORI_ENDPOINT_LENGTH];
	enum oriel_status status;

	for (;;) {
		status = ori_link_take(link, &proof->frame, proof->body, sizeof(proof->body));
		if (status == ORIEL_ERR_VERSION)
			return ori_fail(status, "%s is of another version of Oriel",
					dial_whom(link, whom));
		if (status == ORIEL_ERR_PROTOCOL)
			return ori_fail(status, "%s does not speak Oriel's protocol",
					dial_whom(link, whom));
		if (status != ORIEL_AGAIN)
			return status;
		if (ori_deadline_passed(deadline))
			return ori_fail(ORIEL_ERR_TIMEOUT, "%s takes connections but says nothing",
					dial_whom(link, whom));
		status = ori_gate_poll(gate, &polled, 1, deadline);
		if (status != ORIEL_OK)
			return status;
	}
}

/* Whether the other end has shown that it knows the key. */
static enum oriel_status dial_check(const struct ori_key *key, struct ori_link *link,
				    const struct dial_proof *proof, struct ori_auth *auth)
{
	unsigned char mac[ORI_MAC_LENGTH], body[ORI_FAILURE_LENGTH];
	struct ori_failure refusal = {.status = ORIEL_ERR_AUTH,
				      .rank = ORIEL_NO_RANK,
				      .text = "another ORIEL_JOB_KEY"};
	char whom[ORI_ENDPOINT_LENGTH];

	if (proof->frame.type != ORI_FRAME_PROOF || proof->frame.length != ORI_PROOF_LENGTH)
		return ori_fail(ORIEL_ERR_PROTOCOL, "%s answers a challenge with frame %d",
				dial_whom(link, whom), proof->frame.type);
	memcpy(auth->acceptor, proof->body, ORI_NONCE_LENGTH);
	if (ori_auth_mac(key, auth, ORI_ROLE_ACCEPTOR, NULL, 0, mac) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	if (ori_auth_equal(mac, proof->body + ORI_NONCE_LENGTH))
		return ORIEL_OK;
	ori_link_send(link, ORI_FRAME_FAILURE, body, ori_failure_encode(&refusal, body));
	return ori_fail(ORIEL_ERR_AUTH, "%s has another ORIEL_JOB_KEY than this rank, which has %s",
			dial_whom(link, whom), key->length ? "one set" : "none set");
}

enum oriel_status ori_dial_greet(struct ori_link *link, struct ori_gate *gate,
				 struct ori_hello *hello, uint64_t deadline)
{
	unsigned char body[ORI_HELLO_LENGTH];
	struct dial_proof proof;
	enum oriel_status status;
	struct ori_auth auth;

	if (ori_auth_nonce(auth.connector) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	status = ori_link_send(link, ORI_FRAME_CHALLENGE, auth.connector, ORI_NONCE_LENGTH);
	if (status == ORIEL_OK)
		status = dial_hear(link, gate, deadline, &proof);
	if (status == ORIEL_OK)
		status = dial_check(gate->key, link, &proof, &auth);
	if (status != ORIEL_OK)
		return status;
	ori_hello_encode(hello, body);
	status = ori_auth_mac(gate->key, &auth, ORI_ROLE_CONNECTOR, body + ORI_MAC_LENGTH,
			      sizeof(body) - ORI_MAC_LENGTH, hello->mac);
	if (status != ORIEL_OK)
		return status;
	memcpy(body, hello->mac, ORI_MAC_LENGTH);
	return ori_link_send(link, ORI_FRAME_HELLO, body, sizeof(body));
}

enum oriel_status ori_dial(const struct ori_address *address, struct ori_gate *gate,
			   struct ori_hello *hello, uint64_t deadline, struct ori_link *link)
{
	char text[ORI_ENDPOINT_LENGTH];
	int fd = ori_endpoint_connect(address, deadline);
	enum oriel_status status;

	if (fd < 0)
		return ori_fail_errno(ORIEL_ERR_PEER, "connecting to %s",
				      ori_endpoint_text(address, text));
	ori_link_open(link, fd, gate->traffic);
	status = ori_dial_greet(link, gate, hello, deadline);
	if (status != ORIEL_OK)
		ori_link_close(link);
	return status;
}
