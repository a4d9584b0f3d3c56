/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake of a TCP connection between two engines. Links (connector) and
 * inboxes (acceptor) call it.
 */
#include "hca/soft/soft_greet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static_assert(sizeof(struct soft_header) <= ORI_AUTH_BODY_MAX, "a MAC covers a hello");

/* A new socket takes so few bytes at once, or none. */
static bool greet_send(int fd, const void *bytes, size_t length)
{
	return send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length;
}

static struct soft_header greet_header(uint8_t type, uint32_t length)
{
	return (struct soft_header){.magic = SOFT_WIRE_MAGIC,
				    .type = type,
				    .packets = SOFT_WIRE_VERSION,
				    .length = length};
}

struct soft_header ori_soft_hello(uint64_t from, uint64_t to)
{
	struct soft_header h = greet_header(SOFT_HELLO, 0);

	h.operand = from;
	h.compare = to;
	return h;
}

/* The MAC of both nonces and @hello. */
static bool greet_mac(const struct soft_engine *e, const struct ori_auth *auth, enum ori_role role,
		      const struct soft_header *hello, uint8_t mac[ORI_MAC_LENGTH])
{
	return ori_auth_mac(&e->key, auth, role, hello, sizeof(*hello), mac) == ORIEL_OK;
}

static bool greet_hello(struct soft_greet *g, const struct soft_engine *e, uint64_t to, int fd)
{
	struct {
		struct soft_header h;
		struct soft_proof proof;
	} out = {.h = ori_soft_hello(e->address.cookie, to)};

	out.h.length = sizeof(out.proof);
	g->hello = out.h;
	memcpy(g->auth.acceptor, g->in.challenge.nonce, ORI_NONCE_LENGTH);
	if (ori_auth_nonce(g->auth.connector) != ORIEL_OK ||
	    !greet_mac(e, &g->auth, ORI_ROLE_CONNECTOR, &out.h, out.proof.mac))
		return false;
	memcpy(out.proof.nonce, g->auth.connector, ORI_NONCE_LENGTH);
	return greet_send(fd, &out, sizeof(out));
}

static enum soft_greeting greet_rejected(const char **why, const char *text)
{
	*why = text;
	return SOFT_GREETING_REJECTED;
}

/* A whole frame has arrived. */
static enum soft_greeting greet_take(struct soft_greet *g, const struct soft_engine *e, uint64_t to,
				     int fd, const char **why)
{
	uint8_t mac[ORI_MAC_LENGTH];

	g->length = 0;
	if (!g->has_sent) {
		g->has_sent = true;
		return greet_hello(g, e, to, fd) ? SOFT_GREETING_AGAIN : SOFT_GREETING_CUT;
	}
	if (!greet_mac(e, &g->auth, ORI_ROLE_ACCEPTOR, &g->hello, mac))
		return SOFT_GREETING_CUT;
	return ori_auth_equal(mac, g->in.welcome.mac)
		       ? SOFT_GREETING_DONE
		       : greet_rejected(why, "the peer does not prove that it has this process's "
					     "ORIEL_JOB_KEY");
}

/* NULL, or what is wrong with the header that has arrived. */
static const char *greet_flaw(const struct soft_greet *g)
{
	const struct soft_header *h = &g->in.h;

	if (h->magic != SOFT_WIRE_MAGIC)
		return "the peer is no software HCA";
	if (h->packets != SOFT_WIRE_VERSION)
		return "the peer's software HCA is of another version";
	if (h->type == SOFT_REFUSED)
		return "the peer rejects this process: it has another ORIEL_JOB_KEY, or is another "
		       "process";
	if (h->type != (g->has_sent ? SOFT_WELCOME : SOFT_CHALLENGE) ||
	    h->length != sizeof(g->in) - sizeof(*h))
		return "the peer's answer is invalid";
	return NULL;
}

enum soft_greeting ori_soft_greet_connect(struct soft_greet *g, const struct soft_engine *e,
					  uint64_t to, int fd, const char **why)
{
	enum soft_greeting greeting = SOFT_GREETING_AGAIN;

	while (greeting == SOFT_GREETING_AGAIN) {
		bool has_header = g->length >= sizeof(g->in.h);
		size_t end = has_header ? sizeof(g->in) : sizeof(g->in.h);
		ssize_t n = recv(fd, g->in.bytes + g->length, end - g->length, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0)
			return SOFT_GREETING_CUT;
		g->length += (size_t)n;
		if (g->length == sizeof(g->in.h) && greet_flaw(g))
			return greet_rejected(why, greet_flaw(g));
		if (g->length == sizeof(g->in))
			greeting = greet_take(g, e, to, fd, why);
	}
	return greeting;
}

bool ori_soft_greet_challenge(struct ori_auth *auth, int fd)
{
	struct soft_challenge out = {.h = greet_header(SOFT_CHALLENGE, sizeof(out.nonce))};

	if (ori_auth_nonce(auth->acceptor) != ORIEL_OK)
		return false;
	memcpy(out.nonce, auth->acceptor, sizeof(out.nonce));
	return greet_send(fd, &out, sizeof(out));
}

const char *ori_soft_hello_flaw(const struct soft_engine *e, const struct soft_header *hello)
{
	if (hello->magic != SOFT_WIRE_MAGIC || hello->type != SOFT_HELLO)
		return "it is no software HCA";
	if (hello->packets != SOFT_WIRE_VERSION)
		return "its software HCA is of another version";
	if (hello->compare != e->address.cookie || !hello->operand)
		return "its hello names another process";
	return NULL;
}

const char *ori_soft_greet_accept(struct ori_auth *auth, const struct soft_engine *e,
				  const struct soft_header *hello, const struct soft_proof *proof,
				  int fd)
{
	struct soft_welcome out = {.h = greet_header(SOFT_WELCOME, sizeof(out.mac))};
	uint8_t mac[ORI_MAC_LENGTH];

	memcpy(auth->connector, proof->nonce, ORI_NONCE_LENGTH);
	if (!greet_mac(e, auth, ORI_ROLE_CONNECTOR, hello, mac) ||
	    !greet_mac(e, auth, ORI_ROLE_ACCEPTOR, hello, out.mac))
		return "this process cannot compute a MAC";
	if (!ori_auth_equal(mac, proof->mac))
		return e->key.length ? "it does not prove that it has this process's ORIEL_JOB_KEY"
				     : "it has an ORIEL_JOB_KEY, and this process has none";
	return greet_send(fd, &out, sizeof(out)) ? NULL : "the peer closed the connection";
}

void ori_soft_greet_reject(int fd)
{
	const struct soft_header out = greet_header(SOFT_REFUSED, 0);

	(void)greet_send(fd, &out, sizeof(out));
}
