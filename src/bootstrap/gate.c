/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/gate.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define GATE_POLLED 17
#define GATE_EVENTS 64
#define GATE_SPARE 128                /* guests beyond the ranks that may come */
#define GATE_ROUND 8                  /* connections that are accepted before others are heard */
#define GATE_RESERVE 64               /* descriptors left to the process, at most a quarter */
#define GATE_REST_NS 10000000u        /* without descriptors */
#define GATE_PATIENCE_NS 10000000000u /* with a guest that says nothing */
#define GATE_QUIET_NS 1000000000u     /* between warnings about guests that are shown out */

void ori_gate_init(struct ori_gate *gate, const struct ori_credentials *own, unsigned size,
		   struct ori_traffic *traffic)
{
	*gate = (struct ori_gate){
		.listener = -1,
		.epoll = -1,
		.bell = -1,
		.own = own,
		.size = size,
		.most = size + GATE_SPARE,
		.traffic = traffic,
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
	free(gate->holders);
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
	if (!gate->waiting)
		gate->most = gate->size + GATE_SPARE;
}

/* One warning a second, with the number of those that were not told of. */
static void gate_warn(struct ori_gate *gate, const struct ori_guest *guest, const char *why)
{
	if (!ori_deadline_passed(gate->warn_at)) {
		gate->unsaid++;
		return;
	}
	if (gate->unsaid)
		ori_log(ORIEL_LOG_WARN, "a connection from %s is dropped: %s; so were %u before it",
			guest->from, why, gate->unsaid);
	else
		ori_log(ORIEL_LOG_WARN, "a connection from %s is dropped: %s", guest->from, why);
	gate->unsaid = 0;
	gate->warn_at = ori_deadline(GATE_QUIET_NS);
}

static void gate_drop(struct ori_gate *gate, struct ori_guest *guest)
{
	gate_unlist(gate, guest);
	ori_guest_free(guest);
}

static void gate_show_out(struct ori_gate *gate, struct ori_guest *guest, const char *why)
{
	gate_warn(gate, guest, why);
	gate_drop(gate, guest);
}

void ori_gate_note_refusal(struct ori_gate *gate, const struct ori_guest *guest,
			   enum oriel_status status, const char *why)
{
	char text[ORI_GATE_TEXT];

	/* Without a hello it has not said which process it is. */
	if (guest->hello.pid)
		snprintf(text, sizeof(text), "process %u at %s is refused: %s", guest->hello.pid,
			 guest->from, why);
	else
		snprintf(text, sizeof(text), "%s is refused: %s", guest->from, why);
	ori_log(ORIEL_LOG_WARN, "%s", text);
	if (gate->refused++)
		return;
	gate->refused_status = status;
	memcpy(gate->refused_text, text, sizeof(text));
}

static void gate_refuse(struct ori_gate *gate, struct ori_guest *guest, enum oriel_status status,
			const char *why)
{
	struct ori_failure refusal = {.status = status, .rank = ORIEL_NO_RANK};
	unsigned char body[ORI_FAILURE_LENGTH];

	snprintf(refusal.text, sizeof(refusal.text), "process %d: %s", (int)getpid(), why);
	ori_link_send(&guest->link, ORI_FRAME_FAILURE, body, ori_failure_encode(&refusal, body));
	ori_gate_note_refusal(gate, guest, status, why);
	gate_drop(gate, guest);
}

/*
 * Who makes room for another: the one that has been silent for longest; if all have said
 * something, the one that has been here for longest. The list is newest first.
 */
static struct ori_guest *gate_oldest(const struct ori_gate *gate)
{
	struct ori_guest *guest, *silent = NULL, *last = NULL;

	for (guest = gate->waiting; guest; guest = guest->next) {
		if (!guest->was_challenged)
			silent = guest;
		last = guest;
	}
	return silent ? silent : last;
}

static void gate_make_room(struct ori_gate *gate)
{
	gate_show_out(gate, gate_oldest(gate), "there are too many silent ones");
}

static enum oriel_status gate_prove(struct ori_gate *gate, struct ori_guest *guest)
{
	unsigned char proof[ORI_PROOF_LENGTH];

	if (ori_auth_nonce(guest->auth.acceptor) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	memcpy(proof, guest->auth.acceptor, ORI_NONCE_LENGTH);
	if (ori_auth_mac(&gate->own->key, &guest->auth, ORI_ROLE_ACCEPTOR, NULL, 0,
			 proof + ORI_NONCE_LENGTH) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	guest->was_challenged = true;
	return ori_link_send(&guest->link, ORI_FRAME_PROOF, proof, sizeof(proof));
}

/* Whether it has the key. */
static enum oriel_status gate_check_key(struct ori_gate *gate, struct ori_guest *guest,
					const unsigned char *body, size_t length)
{
	unsigned char mac[ORI_MAC_LENGTH];

	if (!ori_hello_parse(body, length, &guest->hello))
		return ORIEL_ERR_PROTOCOL;
	if (ori_auth_mac(&gate->own->key, &guest->auth, ORI_ROLE_CONNECTOR, body + ORI_MAC_LENGTH,
			 length - ORI_MAC_LENGTH, mac) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	return ori_auth_equal(mac, guest->hello.mac) ? ORIEL_OK : ORIEL_ERR_AUTH;
}

static bool gate_is_in(const struct ori_gate *gate, const struct ori_hello *hello)
{
	const struct ori_guest *guest;

	for (guest = gate->in; guest; guest = guest->next)
		if (guest->hello.purpose == hello->purpose && guest->hello.rank == hello->rank)
			return true;
	return false;
}

/* To join where no ranks are expected: the next job of a process waits for the end of this one. */
static enum oriel_status gate_check_late(const struct ori_gate *gate, const struct ori_hello *hello,
					 char why[ORI_GATE_TEXT])
{
	const struct ori_holder *holder;

	if (!gate->holders || hello->rank >= gate->size) {
		snprintf(why, ORI_GATE_TEXT, "the job of %u ranks here has all of them",
			 gate->size);
		return ORIEL_ERR_CONFIG;
	}
	holder = &gate->holders[hello->rank];
	if (holder->process == hello->process)
		return ORIEL_AGAIN;
	snprintf(why, ORI_GATE_TEXT, "rank %u of the job here is process %u at %s already",
		 hello->rank, holder->pid, holder->from);
	return ORIEL_ERR_CONFIG;
}

/* Of a guest that has the key. ORIEL_OK: it is in; ORIEL_AGAIN: it is to come again later. */
static enum oriel_status gate_check(const struct ori_gate *gate, const struct ori_hello *hello,
				    char why[ORI_GATE_TEXT])
{
	char differ[ORI_JOB_TAG_TEXT];

	if (!ori_job_tag_equal(&hello->tag, &gate->own->tag)) {
		snprintf(why, ORI_GATE_TEXT,
			 "it belongs to another job: %s (ranks of one job that are started so need "
			 "an ORIEL_JOB_KEY)",
			 ori_job_tag_differ(&hello->tag, &gate->own->tag, differ));
		return ORIEL_ERR_AUTH;
	}
	if (hello->purpose == ORI_PURPOSE_JOIN)
		return gate->takes_joins ? ORIEL_OK : gate_check_late(gate, hello, why);
	if (hello->rank < gate->size && !gate_is_in(gate, hello))
		return ORIEL_OK;
	snprintf(why, ORI_GATE_TEXT, "rank %u connects %s", hello->rank,
		 hello->rank < gate->size ? "again" : "to a job that has no such rank");
	return ORIEL_ERR_PROTOCOL;
}

static void gate_answer(struct ori_gate *gate, struct ori_guest *guest)
{
	char why[ORI_GATE_TEXT];
	enum oriel_status status = gate_check(gate, &guest->hello, why);
	unsigned char answer = status == ORIEL_OK ? ORI_ANSWER_IN : ORI_ANSWER_LATER;

	if (status != ORIEL_OK && status != ORIEL_AGAIN) {
		gate_refuse(gate, guest, status, why);
		return;
	}
	if (ori_link_send(&guest->link, ORI_FRAME_ANSWER, &answer, 1) != ORIEL_OK) {
		gate_show_out(gate, guest, "it was closed before it joined");
		return;
	}
	if (status == ORIEL_AGAIN) {
		gate_drop(gate, guest);
		return;
	}
	epoll_ctl(gate->epoll, EPOLL_CTL_DEL, guest->link.fd, NULL);
	gate_unlist(gate, guest);
	guest->link.rank = guest->hello.rank;
	guest->next = gate->in;
	gate->in = guest;
}

/* ORIEL_OK: it has said who it is, and has the key. ORIEL_ERR_AUTH: it has another key. */
static enum oriel_status gate_listen(struct ori_gate *gate, struct ori_guest *guest)
{
	unsigned char body[ORI_FAILURE_LENGTH];
	enum oriel_status status;
	struct ori_frame frame;

	status = ori_link_take(&guest->link, &frame, body, sizeof(body));
	if (status != ORIEL_OK)
		return status;
	if (frame.type == ORI_FRAME_HELLO && guest->was_challenged)
		return gate_check_key(gate, guest, body, frame.length);
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
		gate_answer(gate, guest);
		break;
	case ORIEL_ERR_AUTH:
		gate_refuse(gate, guest, ORIEL_ERR_AUTH, "it has another ORIEL_JOB_KEY");
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

/* Numbers are given from the lowest on: is @fd one of the last that the process may have? */
static bool gate_is_scarce(int fd)
{
	struct rlimit files;
	rlim_t reserve;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
		return false;
	reserve = files.rlim_cur / 4 < GATE_RESERVE ? files.rlim_cur / 4 : GATE_RESERVE;
	return (rlim_t)fd >= files.rlim_cur - reserve;
}

static void gate_admit(struct ori_gate *gate, int fd, struct ori_guest *guest)
{
	struct ori_address from;

	ori_link_open(&guest->link, fd, gate->traffic);
	if (ori_endpoint_remote(fd, &from) != ORIEL_OK || gate_watch(gate, fd, guest) != ORIEL_OK) {
		ori_guest_free(guest); /* it was gone before it was here */
		return;
	}
	ori_endpoint_text(&from, guest->from);
	guest->deadline = ori_deadline(GATE_PATIENCE_NS);
	guest->next = gate->waiting;
	gate->waiting = guest;
	gate->guests++;
	/* What it says first came with it, as a rule: so it is no silent one any more. */
	gate_hear(gate, guest);
	/* The number that one leaves is the next one's, which then looks like plenty. */
	if (gate->guests > 1 && gate_is_scarce(fd))
		gate->most = gate->guests - 1;
	if (gate->guests > gate->most)
		gate_make_room(gate);
}

static void gate_look(struct ori_gate *gate, uint32_t events)
{
	struct epoll_event event = {.events = events};

	epoll_ctl(gate->epoll, EPOLL_CTL_MOD, gate->listener, &event);
}

/*
 * There is nothing left to accept the next connection with. A guest makes room; where there
 * is none, the listener rests: it stays readable, and looking again at once would not help.
 */
static void gate_run_short(struct ori_gate *gate, int error)
{
	struct pollfd polled = {.fd = gate->listener, .events = POLLIN};

	/* accept() wants a descriptor before it looks whether anybody is there. */
	if (poll(&polled, 1, 0) <= 0)
		return;
	if (gate->waiting) {
		gate_make_room(gate);
		return;
	}
	if (ori_deadline_passed(gate->warn_at)) {
		ori_log(ORIEL_LOG_WARN, "no connection can be accepted: %s", strerror(error));
		gate->warn_at = ori_deadline(GATE_QUIET_NS);
	}
	gate->rest_until = ori_deadline(GATE_REST_NS);
	gate_look(gate, 0);
}

static void gate_accept(struct ori_gate *gate)
{
	struct ori_guest *guest;
	unsigned left;
	int fd, error;

	for (left = GATE_ROUND; left && !gate->rest_until; left--) {
		guest = calloc(1, sizeof(*guest));
		fd = guest ? ori_endpoint_accept(gate->listener) : -1;
		error = errno;
		if (fd >= 0) {
			gate_admit(gate, fd, guest);
			continue;
		}
		free(guest);
		if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS)
			gate_run_short(gate, error);
		else if (error != ECONNABORTED && error != EINTR)
			return;
	}
}

void ori_gate_serve(struct ori_gate *gate)
{
	struct epoll_event events[GATE_EVENTS];
	bool is_called = false;
	int i, n;

	if (gate->epoll < 0)
		return;
	if (gate->rest_until && ori_deadline_passed(gate->rest_until)) {
		gate->rest_until = 0;
		gate_look(gate, EPOLLIN);
	}
	n = epoll_wait(gate->epoll, events, GATE_EVENTS, 0);
	for (i = 0; i < n; i++) {
		if (events[i].data.ptr)
			gate_hear(gate, events[i].data.ptr);
		else
			is_called = true;
	}
	gate_expire(gate);
	if (is_called)
		gate_accept(gate);
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
	if (gate->rest_until && gate->rest_until < deadline)
		deadline = gate->rest_until;
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
	ori_gate_serve(gate);
	return ORIEL_OK;
}
