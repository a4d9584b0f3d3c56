/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/gate.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define GATE_POLLED 17
#define GATE_EVENTS 64
#define GATE_SPARE 128                /* guests beyond the ranks that may come */
#define GATE_PATIENCE_NS 10000000000u /* with a guest that says nothing */

void ori_gate_init(struct ori_gate *gate, const struct ori_key *key, unsigned size,
		   struct ori_traffic *traffic)
{
	*gate = (struct ori_gate){
		.listener = -1,
		.epoll = -1,
		.bell = -1,
		.key = key,
		.traffic = traffic,
		.most = size + GATE_SPARE,
	};
}

static enum oriel_status gate_watch(struct ori_gate *gate, int fd, struct ori_guest *guest)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = guest};

	if (epoll_ctl(gate->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll of a connection");
	return ORIEL_OK;
}

enum oriel_status ori_gate_open(struct ori_gate *gate, int listener)
{
	gate->listener = listener;
	gate->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (gate->epoll < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_create1");
	return gate_watch(gate, listener, NULL);
}

enum oriel_status ori_gate_hang(struct ori_gate *gate)
{
	gate->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (gate->bell < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "eventfd");
	return ORIEL_OK;
}

void ori_gate_ring(struct ori_gate *gate)
{
	/* It can fail only when it has been rung 2^64 times. */
	(void)eventfd_write(gate->bell, 1);
}

void ori_guest_free(struct ori_guest *guest)
{
	if (guest)
		ori_link_close(&guest->link);
	free(guest);
}

static void gate_free_all(struct ori_guest *guest)
{
	struct ori_guest *next;

	for (; guest; guest = next) {
		next = guest->next;
		ori_guest_free(guest);
	}
}

void ori_gate_close(struct ori_gate *gate)
{
	gate_free_all(gate->waiting);
	gate_free_all(gate->in);
	if (gate->epoll >= 0)
		close(gate->epoll);
	if (gate->bell >= 0)
		close(gate->bell);
	if (gate->listener >= 0)
		close(gate->listener);
	ori_gate_init(gate, NULL, 0, NULL);
}

static void gate_unlist(struct ori_gate *gate, struct ori_guest *guest)
{
	struct ori_guest **link;

	for (link = &gate->waiting; *link != guest; link = &(*link)->next)
		;
	*link = guest->next;
	guest->next = NULL;
	gate->guests--;
}

static void gate_show_out(struct ori_gate *gate, struct ori_guest *guest, const char *why)
{
	ori_log(ORIEL_LOG_WARN, "a connection from %s is dropped: %s", guest->from, why);
	gate_unlist(gate, guest);
	ori_guest_free(guest);
}

static void gate_refuse(struct ori_gate *gate, struct ori_guest *guest)
{
	static const struct ori_failure refusal = {
		.status = ORIEL_ERR_AUTH,
		.rank = ORIEL_NO_RANK,
		.text = "the other end has another ORIEL_JOB_KEY",
	};
	unsigned char body[ORI_FAILURE_LENGTH];

	if (gate->refused++ == 0)
		memcpy(gate->refused_from, guest->from, sizeof(guest->from));
	ori_link_send(&guest->link, ORI_FRAME_FAILURE, body, ori_failure_encode(&refusal, body));
	gate_show_out(gate, guest, "it has another ORIEL_JOB_KEY");
}

static enum oriel_status gate_admit(struct ori_gate *gate, int fd)
{
	struct ori_guest *guest = calloc(1, sizeof(*guest));
	struct ori_address from;

	if (!guest) {
		close(fd);
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a connection");
	}
	ori_link_open(&guest->link, fd, gate->traffic);
	if (ori_endpoint_remote(fd, &from) != ORIEL_OK || gate_watch(gate, fd, guest) != ORIEL_OK) {
		ori_guest_free(guest); /* it was gone before it was here */
		return ORIEL_OK;
	}
	ori_endpoint_text(&from, guest->from);
	guest->deadline = ori_deadline(GATE_PATIENCE_NS);
	guest->next = gate->waiting;
	gate->waiting = guest;
	gate->guests++;
	return ORIEL_OK;
}

/* The list is newest first, so the last one has had the longest time to speak. */
static void gate_make_room(struct ori_gate *gate)
{
	struct ori_guest *last = gate->waiting;

	while (last->next)
		last = last->next;
	gate_show_out(gate, last, "there are too many silent ones");
}

static enum oriel_status gate_accept(struct ori_gate *gate)
{
	enum oriel_status status;
	int fd;

	while ((fd = ori_endpoint_accept(gate->listener)) >= 0) {
		status = gate_admit(gate, fd);
		if (status != ORIEL_OK)
			return status;
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		return ori_fail_errno(ORIEL_ERR_NOMEM, "accepting a rank");
	return ORIEL_OK;
}

static enum oriel_status gate_prove(struct ori_gate *gate, struct ori_guest *guest)
{
	unsigned char proof[ORI_PROOF_LENGTH];

	if (ori_auth_nonce(guest->auth.acceptor) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	memcpy(proof, guest->auth.acceptor, ORI_NONCE_LENGTH);
	if (ori_auth_mac(gate->key, &guest->auth, ORI_ROLE_ACCEPTOR, NULL, 0,
			 proof + ORI_NONCE_LENGTH) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	guest->was_challenged = true;
	return ori_link_send(&guest->link, ORI_FRAME_PROOF, proof, sizeof(proof));
}

/* ORIEL_OK: it is in. ORIEL_ERR_AUTH: it has another key. */
static enum oriel_status gate_hello(struct ori_gate *gate, struct ori_guest *guest,
				    const unsigned char *body, size_t length)
{
	unsigned char mac[ORI_MAC_LENGTH];

	if (!ori_hello_parse(body, length, &guest->hello))
		return ORIEL_ERR_PROTOCOL;
	if (ori_auth_mac(gate->key, &guest->auth, ORI_ROLE_CONNECTOR, body + ORI_MAC_LENGTH,
			 length - ORI_MAC_LENGTH, mac) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	return ori_auth_equal(mac, guest->hello.mac) ? ORIEL_OK : ORIEL_ERR_AUTH;
}

static enum oriel_status gate_listen(struct ori_gate *gate, struct ori_guest *guest)
{
	unsigned char body[ORI_FAILURE_LENGTH];
	enum oriel_status status;
	struct ori_frame frame;

	status = ori_link_take(&guest->link, &frame, body, sizeof(body));
	if (status != ORIEL_OK)
		return status;
	if (frame.type == ORI_FRAME_HELLO && guest->was_challenged)
		return gate_hello(gate, guest, body, frame.length);
	if (frame.type == ORI_FRAME_FAILURE && guest->was_challenged)
		return ORIEL_ERR_AUTH;
	if (frame.type != ORI_FRAME_CHALLENGE || guest->was_challenged ||
	    frame.length != ORI_NONCE_LENGTH)
		return ORIEL_ERR_PROTOCOL;
	memcpy(guest->auth.connector, body, ORI_NONCE_LENGTH);
	status = gate_prove(gate, guest);
	return status == ORIEL_OK ? ORIEL_AGAIN : status;
}

static void gate_hear(struct ori_gate *gate, struct ori_guest *guest)
{
	enum oriel_status status = gate_listen(gate, guest);

	switch (status) {
	case ORIEL_AGAIN:
		break;
	case ORIEL_OK:
		epoll_ctl(gate->epoll, EPOLL_CTL_DEL, guest->link.fd, NULL);
		gate_unlist(gate, guest);
		guest->link.rank = guest->hello.rank;
		guest->next = gate->in;
		gate->in = guest;
		break;
	case ORIEL_ERR_AUTH:
		gate_refuse(gate, guest);
		break;
	case ORIEL_ERR_PEER:
		gate_show_out(gate, guest, "it was closed before it joined");
		break;
	case ORIEL_ERR_VERSION:
		gate_show_out(gate, guest, "it is of another version of Oriel");
		break;
	default:
		gate_show_out(gate, guest, "it makes no sense");
		break;
	}
}

static void gate_expire(struct ori_gate *gate)
{
	struct ori_guest *guest, *next;

	for (guest = gate->waiting; guest; guest = next) {
		next = guest->next;
		if (ori_deadline_passed(guest->deadline))
			gate_show_out(gate, guest, "it says nothing");
	}
}

enum oriel_status ori_gate_serve(struct ori_gate *gate)
{
	struct epoll_event events[GATE_EVENTS];
	bool is_called = false;
	int i, n;

	if (gate->epoll < 0)
		return ORIEL_OK;
	n = epoll_wait(gate->epoll, events, GATE_EVENTS, 0);
	for (i = 0; i < n; i++) {
		if (events[i].data.ptr)
			gate_hear(gate, events[i].data.ptr);
		else
			is_called = true;
	}
	gate_expire(gate);
	while (gate->guests > gate->most)
		gate_make_room(gate);
	return is_called ? gate_accept(gate) : ORIEL_OK;
}

struct ori_guest *ori_gate_next(struct ori_gate *gate, enum ori_purpose purpose)
{
	struct ori_guest **link, *guest;

	for (link = &gate->in; *link; link = &(*link)->next) {
		guest = *link;
		if (guest->hello.purpose == purpose) {
			*link = guest->next;
			guest->next = NULL;
			return guest;
		}
	}
	return NULL;
}

enum oriel_status ori_gate_poll(struct ori_gate *gate, struct pollfd *polled, unsigned count,
				uint64_t deadline)
{
	struct pollfd all[GATE_POLLED];
	int n;

	assert(count < GATE_POLLED - 1);
	if (count)
		memcpy(all, polled, count * sizeof(*polled));
	all[count] = (struct pollfd){.fd = gate->epoll, .events = POLLIN};
	all[count + 1] = (struct pollfd){.fd = gate->bell, .events = POLLIN};
	n = poll(all, count + 2, ori_deadline_poll_ms(deadline));
	if (n < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	if (n > 0 && all[count + 1].revents)
		return ori_fail(ORIEL_ERR_ABORTED, "interrupted");
	for (; count > 0; count--)
		polled[count - 1].revents = n > 0 ? all[count - 1].revents : 0;
	return ori_gate_serve(gate);
}
