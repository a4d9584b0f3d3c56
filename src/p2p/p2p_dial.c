/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections to contexts of other machines; the control socket calls it. */
#include "p2p/p2p_dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/endpoint.h"

#define DIAL_PATIENCE_NS UINT64_C(3000000000) /* for an address */
#define DIAL_PAUSE_NS UINT64_C(100000000)     /* between rounds */

static_assert(2 * sizeof(struct p2p_token) <= ORI_AUTH_BODY_MAX, "a MAC covers them");

void ori_p2p_dial_close(struct p2p_dial *dial)
{
	if (dial->fd >= 0)
		close(dial->fd);
	dial->fd = -1;
	dial->is_challenged = false;
	dial->in_length = 0;
}

static struct ori_address dial_v4(uint32_t host, uint16_t port)
{
	struct ori_address a = {.family = 4, .port = port};

	memcpy(a.ip, &host, sizeof(host));
	return a;
}

static struct ori_address dial_v6(const void *host, uint16_t port)
{
	struct ori_address a = {.family = 6, .port = port};

	memcpy(a.ip, host, sizeof(a.ip));
	return a;
}

/* Address number @attempt of the context at @to; family 0: there are no more. */
static struct ori_address dial_address(const struct p2p_address *from, const struct p2p_address *to,
				       unsigned attempt)
{
	const struct ori_address none = {0};

	/* Two virtual nodes of one machine. */
	if (from->kernel == to->kernel && attempt < 2)
		return attempt ? dial_v6(&in6addr_loopback, to->port)
			       : dial_v4(htonl(INADDR_LOOPBACK), to->port);
	if (from->kernel == to->kernel)
		return none;
	if (to->hosts.is_ipv6)
		return attempt ? none : dial_v6(to->hosts.of, to->port);
	if (attempt >= ORI_HOSTS || !to->hosts.of[attempt])
		return none;
	return dial_v4(to->hosts.of[attempt], to->port);
}

void ori_p2p_name(const struct p2p_address *from, const struct p2p_address *to, char text[P2P_NAME])
{
	struct ori_address first = dial_address(from, to, 0);
	char where[ORI_ENDPOINT_LENGTH];

	if (ori_p2p_address_is_local(from, to) || !to->port || !first.family)
		snprintf(text, P2P_NAME, "process %u", to->pid);
	else
		snprintf(text, P2P_NAME, "process %u at %s", to->pid,
			 ori_endpoint_text(&first, where));
}

/* End a round in which all addresses have been tried. */
static enum oriel_status dial_end_round(struct p2p_dial *d, const struct p2p_address *from,
					const struct p2p_address *to)
{
	struct ori_address first = dial_address(from, to, 0);
	char text[ORI_ENDPOINT_LENGTH];

	if (d->strange)
		return ori_fail(
			ORIEL_ERR_AUTH,
			"the context of process %u at %s has another ORIEL_JOB_KEY, or another "
			"process answers there",
			to->pid, ori_endpoint_text(&first, text));
	if (!d->attempt)
		return ori_fail(ORIEL_ERR_PEER,
				"process %u has no address that other machines reach", to->pid);
	if (!d->silent)
		return ori_fail(ORIEL_ERR_PEER, "process %u has exited: no process listens at %s",
				to->pid, ori_endpoint_text(&first, text));
	/* An address that stayed silent may answer later: the next round begins after a pause. */
	d->attempt = d->refused = d->silent = 0;
	d->deadline = ori_deadline(DIAL_PAUSE_NS);
	return ORIEL_AGAIN;
}

/* Give up this address. */
static enum oriel_status dial_give_up(struct p2p_dial *d, unsigned *why)
{
	ori_p2p_dial_close(d);
	++*why;
	d->attempt++;
	d->deadline = 0;
	return ORIEL_AGAIN;
}

/* A refused connection proves that no process listens; other errors may be the network. */
static unsigned *dial_reason(struct p2p_dial *d, int error)
{
	return error == ECONNREFUSED ? &d->refused : &d->silent;
}

/* ORIEL_OK: connected. */
static enum oriel_status dial_connect(struct p2p_dial *d, const struct p2p_address *from,
				      const struct p2p_address *to)
{
	struct ori_address address;
	int error;

	if (d->fd < 0) {
		if (d->deadline && !ori_deadline_passed(d->deadline))
			return ORIEL_AGAIN;
		address = dial_address(from, to, d->attempt);
		if (!address.family)
			return dial_end_round(d, from, to);
		d->fd = ori_endpoint_begin(&address);
		d->deadline = ori_deadline(DIAL_PATIENCE_NS);
		if (d->fd < 0)
			return dial_give_up(d, dial_reason(d, errno));
	}
	error = ori_endpoint_outcome(d->fd);
	if (error == EINPROGRESS)
		return ori_deadline_passed(d->deadline) ? dial_give_up(d, &d->silent) : ORIEL_AGAIN;
	return error ? dial_give_up(d, dial_reason(d, error)) : ORIEL_OK;
}

static enum oriel_status dial_challenge(struct p2p_dial *d)
{
	struct p2p_frame frame = {.magic = P2P_FRAME_MAGIC,
				  .version = P2P_VERSION,
				  .kind = P2P_CHALLENGE};
	enum oriel_status status = ori_auth_nonce(d->auth.connector);

	if (status != ORIEL_OK)
		return status;
	memcpy(frame.challenge.nonce, d->auth.connector, ORI_NONCE_LENGTH);
	/* Few bytes are sent whole on a new socket, or not at all. */
	if (send(d->fd, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(frame))
		return dial_give_up(d, &d->silent);
	d->is_challenged = true;
	return ORIEL_OK;
}

/* ORIEL_OK: a whole frame of the context there is in @d->in. */
static enum oriel_status dial_recv(struct p2p_dial *d)
{
	ssize_t n = recv(d->fd, (char *)&d->in + d->in_length, sizeof(d->in) - d->in_length,
			 MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return ori_deadline_passed(d->deadline) ? dial_give_up(d, &d->silent) : ORIEL_AGAIN;
	if (n <= 0)
		return dial_give_up(d, &d->silent);
	d->in_length += (size_t)n;
	return d->in_length == sizeof(d->in) ? ORIEL_OK : ORIEL_AGAIN;
}

static enum oriel_status dial_mac_hello(const struct ori_key *key, const struct ori_auth *auth,
					const struct p2p_hello *hello, uint8_t mac[ORI_MAC_LENGTH])
{
	return ori_auth_mac(key, auth, ORI_ROLE_CONNECTOR, hello, offsetof(struct p2p_hello, mac),
			    mac);
}

/* Is it the context at @to, and does it know the key? */
static enum oriel_status dial_check_proof(struct p2p_dial *d, const struct ori_key *key,
					  const struct p2p_address *to)
{
	uint8_t mac[ORI_MAC_LENGTH];
	struct p2p_frame frame;
	enum oriel_status status;

	if (ori_p2p_frame_parse(&d->in, sizeof(d->in), &frame) != ORIEL_OK ||
	    frame.kind != P2P_PROOF)
		return dial_give_up(d, &d->strange);
	memcpy(d->auth.acceptor, frame.proof.nonce, ORI_NONCE_LENGTH);
	status = ori_auth_mac(key, &d->auth, ORI_ROLE_ACCEPTOR, to->token.context,
			      sizeof(to->token.context), mac);
	if (status != ORIEL_OK)
		return status;
	return ori_auth_equal(mac, frame.proof.mac) ? ORIEL_OK : dial_give_up(d, &d->strange);
}

enum oriel_status ori_p2p_dial(struct p2p_dial *d, const struct ori_key *key,
			       const struct p2p_address *from, const struct p2p_address *to,
			       int *fd, struct p2p_hello *hello)
{
	enum oriel_status status = d->is_challenged ? ORIEL_OK : dial_connect(d, from, to);

	if (status == ORIEL_OK && !d->is_challenged)
		status = dial_challenge(d);
	if (status == ORIEL_OK)
		status = dial_recv(d);
	if (status == ORIEL_OK)
		status = dial_check_proof(d, key, to);
	if (status != ORIEL_OK)
		return status;
	*hello = (struct p2p_hello){.to = to->token, .from = from->token};
	status = dial_mac_hello(key, &d->auth, hello, hello->mac);
	if (status != ORIEL_OK)
		return status;
	*fd = d->fd;
	d->fd = -1;
	ori_p2p_dial_close(d);
	return ORIEL_OK;
}

enum oriel_status ori_p2p_probe(struct p2p_dial *d, const struct p2p_address *from,
				const struct p2p_address *to)
{
	enum oriel_status status = dial_connect(d, from, to);

	if (status == ORIEL_OK)
		ori_p2p_dial_close(d);
	if (status == ORIEL_OK)
		d->attempt = d->refused = d->silent = 0;
	return status;
}

enum oriel_status ori_p2p_prove(const struct ori_key *key, const struct p2p_token *own,
				struct ori_auth *auth, const struct p2p_challenge *challenge,
				struct p2p_proof *proof)
{
	enum oriel_status status = ori_auth_nonce(auth->acceptor);

	if (status != ORIEL_OK)
		return status;
	memcpy(auth->connector, challenge->nonce, ORI_NONCE_LENGTH);
	memcpy(proof->nonce, auth->acceptor, ORI_NONCE_LENGTH);
	return ori_auth_mac(key, auth, ORI_ROLE_ACCEPTOR, own->context, sizeof(own->context),
			    proof->mac);
}

enum oriel_status ori_p2p_check_hello(const struct ori_key *key, const struct ori_auth *auth,
				      const struct p2p_hello *hello)
{
	uint8_t mac[ORI_MAC_LENGTH];
	enum oriel_status status = dial_mac_hello(key, auth, hello, mac);

	if (status != ORIEL_OK)
		return status;
	return ori_auth_equal(mac, hello->mac) ? ORIEL_OK : ORIEL_ERR_AUTH;
}

void ori_p2p_tune(int fd)
{
	/*
	 * Keepalive covers an idle connection, TCP_USER_TIMEOUT data without an
	 * acknowledgement.
	 */
	int on = 1, idle = 10, interval = 5, count = 4;
	unsigned silence_ms = 30000;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
}
