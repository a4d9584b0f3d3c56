/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connecting side of the handshake whose accepting side is the listener: challenge, proof,
 * hello, answer. join.c calls it to reach rank 0 and parents, messages call it to reach a peer.
 */
#include "bootstrap/dial.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define DIAL_RETRY_MIN_NS 5000000u /* doubles with each attempt */
#define DIAL_RETRY_MAX_NS 200000000u

/* A frame from the accepting side. */
struct dial_reply {
	/* Its address, read before the first frame: a closed socket does not know it any more. */
	char peer[ORI_ENDPOINT_LENGTH];
	struct ori_frame frame;
	unsigned char body[ORI_FAILURE_LENGTH];
};

static void dial_name_peer(const struct ori_link *link, struct dial_reply *reply)
{
	struct ori_address address;

	if (ori_endpoint_remote(link->fd, &address) == ORIEL_OK)
		ori_endpoint_text(&address, reply->peer);
	else
		strcpy(reply->peer, "a rank that has exited");
}

static enum oriel_status dial_receive(struct ori_link *link, struct ori_listener *listener,
				      uint64_t deadline, struct dial_reply *reply)
{
	struct pollfd polled = {.fd = link->fd, .events = POLLIN};
	enum oriel_status status;

	for (;;) {
		status = ori_link_take(link, &reply->frame, reply->body, sizeof(reply->body));
		if (status == ORIEL_ERR_VERSION)
			return ori_fail(status, "%s uses another version of Oriel", reply->peer);
		if (status == ORIEL_ERR_PROTOCOL)
			return ori_fail(status, "%s does not speak Oriel's protocol", reply->peer);
		if (status != ORIEL_AGAIN)
			return status;
		if (ori_deadline_passed(deadline))
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"%s accepts connections but does not answer", reply->peer);
		status = ori_listener_poll(listener, &polled, 1, deadline);
		if (status != ORIEL_OK)
			return status;
	}
}

/* Check that the accepting side has proved that it knows the key. */
static enum oriel_status dial_check_proof(const struct ori_key *key, struct ori_link *link,
					  const struct dial_reply *proof, struct ori_auth *auth)
{
	unsigned char mac[ORI_MAC_LENGTH], body[ORI_FAILURE_LENGTH];
	struct ori_failure rejection = {.status = ORIEL_ERR_AUTH,
					.rank = ORIEL_NO_RANK,
					.text = "another ORIEL_JOB_KEY"};

	if (proof->frame.type != ORI_FRAME_PROOF || proof->frame.length != ORI_PROOF_LENGTH)
		return ori_fail(ORIEL_ERR_PROTOCOL, "%s answers a challenge with frame %d",
				proof->peer, proof->frame.type);
	memcpy(auth->acceptor, proof->body, ORI_NONCE_LENGTH);
	if (ori_auth_mac(key, auth, ORI_ROLE_ACCEPTOR, NULL, 0, mac) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	if (ori_auth_equal(mac, proof->body + ORI_NONCE_LENGTH))
		return ORIEL_OK;
	ori_link_send(link, ORI_FRAME_FAILURE, body, ori_failure_encode(&rejection, body));
	return ori_fail(ORIEL_ERR_AUTH, "%s has another ORIEL_JOB_KEY than this rank, which has %s",
			proof->peer, key->length ? "one set" : "none set");
}

/* The answer to the hello. ORIEL_OK: admitted; ORIEL_AGAIN: connect again later. */
static enum oriel_status dial_check_answer(const struct dial_reply *reply,
					   const struct ori_hello *hello)
{
	struct ori_failure rejection;

	if (reply->frame.type == ORI_FRAME_FAILURE &&
	    ori_failure_parse(reply->body, reply->frame.length, &rejection))
		return ori_fail(rejection.status, "rank %u (process %u) is rejected at %s by %s",
				hello->rank, hello->pid, reply->peer, rejection.text);
	if (reply->frame.type == ORI_FRAME_ANSWER && reply->frame.length == 1 &&
	    reply->body[0] <= ORI_ANSWER_LATER)
		return reply->body[0] == ORI_ANSWER_IN ? ORIEL_OK : ORIEL_AGAIN;
	return ori_fail(ORIEL_ERR_PROTOCOL, "%s answers a hello with frame %d", reply->peer,
			reply->frame.type);
}

static enum oriel_status dial_hello(struct ori_link *link, const struct ori_listener *listener,
				    const struct ori_auth *auth, struct ori_hello *hello)
{
	unsigned char body[ORI_HELLO_LENGTH];
	enum oriel_status status;

	hello->process = listener->own->process;
	hello->pid = (uint32_t)getpid();
	hello->tag = listener->own->tag;
	ori_hello_encode(hello, body);
	status = ori_auth_mac(&listener->own->key, auth, ORI_ROLE_CONNECTOR, body + ORI_MAC_LENGTH,
			      sizeof(body) - ORI_MAC_LENGTH, hello->mac);
	if (status != ORIEL_OK)
		return status;
	memcpy(body, hello->mac, ORI_MAC_LENGTH);
	return ori_link_send(link, ORI_FRAME_HELLO, body, sizeof(body));
}

enum oriel_status ori_dial_handshake(struct ori_link *link, struct ori_listener *listener,
				     struct ori_hello *hello, uint64_t deadline)
{
	enum oriel_status status;
	struct dial_reply reply;
	struct ori_auth auth;

	if (ori_auth_nonce(auth.connector) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	dial_name_peer(link, &reply);
	status = ori_link_send(link, ORI_FRAME_CHALLENGE, auth.connector, ORI_NONCE_LENGTH);
	if (status == ORIEL_OK)
		status = dial_receive(link, listener, deadline, &reply);
	if (status == ORIEL_OK)
		status = dial_check_proof(&listener->own->key, link, &reply, &auth);
	if (status == ORIEL_OK)
		status = dial_hello(link, listener, &auth, hello);
	if (status == ORIEL_OK)
		status = dial_receive(link, listener, deadline, &reply);
	return status == ORIEL_OK ? dial_check_answer(&reply, hello) : status;
}

/* Sleep @pause_ns, and serve the listener meanwhile: a peer may need it to make progress. */
static enum oriel_status dial_pause(struct ori_listener *listener, uint64_t pause_ns,
				    uint64_t deadline)
{
	uint64_t until = ori_deadline(pause_ns);
	enum oriel_status status = ORIEL_OK;

	if (until > deadline)
		until = deadline;
	while (status == ORIEL_OK && !ori_deadline_passed(until))
		status = ori_listener_poll(listener, NULL, 0, until);
	return status;
}

enum oriel_status ori_dial(const struct ori_address *address, struct ori_listener *listener,
			   struct ori_hello *hello, uint64_t deadline, struct ori_link *link)
{
	uint64_t pause_ns = DIAL_RETRY_MIN_NS;
	char text[ORI_ENDPOINT_LENGTH];
	enum oriel_status status;
	int fd;

	for (;;) {
		fd = ori_endpoint_connect(address, deadline);
		if (fd < 0)
			return ori_fail_errno(ORIEL_ERR_PEER, "connecting to %s",
					      ori_endpoint_text(address, text));
		ori_link_open(link, fd, listener->traffic);
		status = ori_dial_handshake(link, listener, hello, deadline);
		if (status == ORIEL_OK)
			return ORIEL_OK;
		ori_link_close(link);
		if (status != ORIEL_ERR_PEER && status != ORIEL_AGAIN)
			return status;
		if (ori_deadline_passed(deadline))
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"%s closed every connection until the deadline",
					ori_endpoint_text(address, text));
		status = dial_pause(listener, pause_ns, deadline);
		if (status != ORIEL_OK)
			return status;
		if (pause_ns < DIAL_RETRY_MAX_NS)
			pause_ns *= 2;
	}
}
