/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of the TCP bootstrap with ranks as threads: joining, rejected processes, collectives,
 * messages, and the failure that every rank gets.
 */
#include "bootstrap/tcp.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/at_once_test.h"
#include "base/clock.h"
#include "bootstrap/party_test.h"
#include "bootstrap/tree.h"
#include "net/endpoint.h"
#include "net/socket_test.h"

#define SHORT 4000000000ull /* ns; a timeout that must pass after all other ranks are done */
#define MOMENT 175000000ull /* ns; a timeout in a test that waits for nothing else */

struct tcp_party {
	struct ori_tcp_job job;
	unsigned absent, odd; /* the rank that does not join; the one that joins as @oddity says */
	enum { WITHOUT_KEY, AS_RANK_1, WITH_ONE_MORE } oddity;
	uint16_t relay_port; /* where rank 1 looks for rank 0 */
	atomic_uint *others; /* ranks of other jobs that have returned */
	struct ori_traffic root;
};

static const struct ori_address loopback = {.family = 4, .ip = {127, 0, 0, 1}};

static struct tcp_party tcp_party(unsigned size, uint64_t timeout_ns)
{
	struct tcp_party party = {.absent = PARTY_MAX, .odd = PARTY_MAX};
	struct ori_address at = loopback;

	party.job = (struct ori_tcp_job){
		.size = size,
		.host = "127.0.0.1",
		.timeout_ns = timeout_ns,
		.own.key = {.length = 16, .bytes = "a key for a test"},
	};
	assert_int_equal(ori_endpoint_listen(&at, &party.job.listen_fd), ORIEL_OK);
	party.job.port = at.port;
	return party;
}

static enum oriel_status seat_open(struct party_seat *seat, struct oriel_bootstrap *b)
{
	struct tcp_party *party = seat->party;
	struct ori_tcp_job job = party->job;
	uint64_t start = ori_clock_ns();

	memset(b, 0, sizeof(*b));
	job.rank = seat->rank;
	job.own.process = 1 + (uint64_t)(seat - party_seats);
	if (job.rank != 0)
		job.listen_fd = -1;
	party_note(seat, ori_tcp_open(&job, b));
	seat->took_ns = ori_clock_ns() - start;
	return seat->status;
}

static void *run_rounds(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party *party = seat->party;
	struct oriel_bootstrap b;

	if (seat->rank == party->absent)
		return NULL;
	if (seat_open(seat, &b) == ORIEL_OK)
		party_note(seat, party_rounds(&b, seat->size > 9 ? 2 : 10,
					      seat->size == 3 ? 300000 : 40));
	if (seat->status == ORIEL_OK && seat->rank == 0)
		party->root = *ori_tcp_traffic(&b);
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_ranks_join_and_gather(void **state)
{
	static const unsigned sizes[] = {1, 2, 3, 9, 64};
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct tcp_party party = tcp_party(sizes[i], PARTY_PATIENCE);

		party_run(sizes[i], run_rounds, &party);
		party_expect_all(sizes[i], ORIEL_OK, "");
		if (sizes[i] == 1)
			close(party.job.listen_fd);
	}
}

/* Ranks beyond the tree's arity connect to parents at random names. The job has a key. */
static void test_300_ranks_meet_by_unix_sockets(void **state)
{
	struct tcp_party party = tcp_party(300, PARTY_PATIENCE);

	(void)state;
	close(party.job.listen_fd);
	party.job.listen_fd = -1;
	party.job.address_count = 1;
	party.job.addresses[0] =
		(struct ori_address){.family = ORI_ADDRESS_UNIX, .ip = "15 and a NUL..."};
	party_run(300, run_rounds, &party);
	party_expect_all(300, ORIEL_OK, "");
}

/* The root sends two frames to admit each rank, then eight in each collective. */
static void test_the_root_of_512_ranks_sends_frames_in_proportion(void **state)
{
	struct tcp_party party = tcp_party(512, PARTY_PATIENCE);

	(void)state;
	party_run(512, run_rounds, &party);
	party_expect_all(512, ORIEL_OK, "");
	assert_int_equal(party.root.frames, 2 * 511 + 5 * ORI_TREE_ARITY);
	assert_true(party.root.bytes < 512 * 1300);
}

static void test_a_rank_that_does_not_join_is_named_to_all(void **state)
{
	struct tcp_party party = tcp_party(4, SHORT);

	(void)state;
	party.absent = 2;
	party_run(4, run_rounds, &party);
	party_expect(0, ORIEL_ERR_TIMEOUT, "rank 2 of 4 did not join within 4 s");
	party_expect(1, ORIEL_ERR_TIMEOUT, "rank 2 of 4 did not join within 4 s");
	party_expect(3, ORIEL_ERR_TIMEOUT, "rank 2 of 4 did not join within 4 s");
}

static void test_a_missing_root_is_named_with_its_address(void **state)
{
	struct tcp_party party = tcp_party(2, MOMENT);
	struct ori_address at;
	char where[64];
	int fd;

	(void)state;
	close(party.job.listen_fd);
	fd = party_reserve(&at);
	party.job.port = at.port;
	party.absent = 0;
	party_run(2, run_rounds, &party);
	snprintf(where, sizeof(where), "cannot connect to rank 0 at 127.0.0.1:%u", at.port);
	party_expect(1, ORIEL_ERR_TIMEOUT, where);
	party_expect(
		1, ORIEL_ERR_TIMEOUT,
		"within 0.175 s (the limit is the caller's or ORIEL_TIMEOUT): Connection refused");
	close(fd);
}

static void *join_oddly(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party own = *(struct tcp_party *)seat->party;
	struct oriel_bootstrap b;

	if (seat->rank == own.odd) {
		if (own.oddity == WITHOUT_KEY)
			own.job.own.key.length = 0;
		else if (own.oddity == AS_RANK_1)
			seat->rank = 1;
		else
			own.job.size++;
	}
	seat->party = &own;
	seat_open(seat, &b);
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_another_key_is_rejected_on_both_sides(void **state)
{
	struct tcp_party party = tcp_party(3, SHORT);

	(void)state;
	party.odd = 2;
	party.oddity = WITHOUT_KEY;
	party_run(3, join_oddly, &party);
	party_expect(0, ORIEL_ERR_AUTH, "rank 2 of 3 did not join");
	party_expect(1, ORIEL_ERR_AUTH, "is rejected: it has no ORIEL_JOB_KEY, but this process");
	party_expect(2, ORIEL_ERR_AUTH, "has an ORIEL_JOB_KEY, but this process has none");
}

/* A process that joins as a rank that has joined is rejected at once, and the job goes on. */
static void test_a_second_process_of_a_rank_is_rejected(void **state)
{
	struct tcp_party party = tcp_party(4, SHORT);
	unsigned second;

	(void)state;
	party.odd = 2;
	party.oddity = AS_RANK_1;
	party_run(4, join_oddly, &party);
	party_expect(0, ORIEL_ERR_CONFIG, "rank 2 of 4 did not join within 4 s; process ");
	party_expect(0, ORIEL_ERR_CONFIG, " is rejected: rank 1 is process ");
	party_expect(3, ORIEL_ERR_CONFIG, "rank 2 of 4 did not join within 4 s; process ");
	second = strstr(party_seats[1].text, "joined twice") ? 1 : 2;
	party_expect(second, ORIEL_ERR_CONFIG, "rank 1 joined twice: process ");
	party_expect(3 - second, ORIEL_ERR_CONFIG, "rank 2 of 4 did not join");
	/* It is rejected at once; the other one waits for the timeout of the job. */
	assert_true(party_seats[second].took_ns < party_seats[3 - second].took_ns);
}

/*
 * Four ranks of one job and three of other jobs join at one port; the job of four succeeds. Rank 3
 * joins last: once all have joined, no rank listens, and a rank of another job that came later
 * would find no rank 0 instead of being rejected by it.
 */
static void *join_among_other_jobs(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party own = *(struct tcp_party *)seat->party;
	unsigned number = seat->rank;
	struct oriel_bootstrap b;

	own.job.size = 4;
	own.job.own.key.length = 0;
	own.job.own.tag.kind = ORI_JOB_TAG_TORCH;
	if (number >= 4) {
		seat->rank = number - 3;
		own.job.own.tag.kind = number == 6 ? ORI_JOB_TAG_NONE : ORI_JOB_TAG_TORCH;
		own.job.own.tag.bytes[7] = number != 6;
	}
	while (number == 3 && atomic_load(own.others) < 3)
		sched_yield();
	seat->party = &own;
	if (seat_open(seat, &b) == ORIEL_OK)
		party_note(seat, party_rounds(&b, 10, 40));
	oriel_bootstrap_close(&b);
	if (number >= 4)
		atomic_fetch_add(own.others, 1);
	return NULL;
}

static void test_another_job_at_the_port_does_no_harm(void **state)
{
	struct tcp_party party = tcp_party(7, PARTY_PATIENCE);
	atomic_uint others = 0;
	unsigned i;

	(void)state;
	party.others = &others;
	party_run(7, join_among_other_jobs, &party);
	for (i = 0; i < 4; i++)
		party_expect(i, ORIEL_OK, "");
	for (i = 4; i < 7; i++)
		party_expect(i, ORIEL_ERR_AUTH, "it belongs to another job: ");
	party_expect(4, ORIEL_ERR_AUTH, "rank 1 (process ");
	party_expect(5, ORIEL_ERR_AUTH, "its TORCHELASTIC_RUN_ID differs");
	party_expect(6, ORIEL_ERR_AUTH, "its job is named by nothing, this one by TORCH");
}

static void test_sizes_that_differ_are_an_error_that_names_the_rank(void **state)
{
	struct tcp_party party = tcp_party(2, PARTY_PATIENCE);

	(void)state;
	party.odd = 1;
	party.oddity = WITH_ONE_MORE;
	party_run(2, join_oddly, &party);
	party_expect(0, ORIEL_ERR_MISMATCH, "says the job has 3 ranks, rank 0 says 2");
	party_expect(1, ORIEL_ERR_MISMATCH, "says the job has 3 ranks, rank 0 says 2");
}

/* A relay between rank 1 and rank 0, which changes one byte of one direction. */
struct relay {
	struct ori_address root;
	int listener;
	unsigned direction; /* 0: to rank 0 */
	size_t flip;        /* the number of the byte */
};

static bool relay_move(int from, int to, size_t *moved, size_t flip)
{
	unsigned char bytes[4096];
	ssize_t n = recv(from, bytes, sizeof(bytes), 0);

	if (n <= 0)
		return false;
	if (flip >= *moved && flip < *moved + (size_t)n)
		bytes[flip - *moved] ^= 1;
	*moved += (size_t)n;
	return send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void *relay_run(void *arg)
{
	const struct relay *relay = arg;
	struct pollfd ends[2] = {{.events = POLLIN}, {.events = POLLIN}};
	size_t moved[2] = {0};
	bool is_open = true;
	unsigned i;

	ends[0].fd = accept(relay->listener, NULL, NULL);
	ends[1].fd = socket_connect(&relay->root);
	while (is_open && poll(ends, 2, -1) > 0)
		for (i = 0; i < 2; i++)
			if (ends[i].revents)
				is_open =
					is_open &&
					relay_move(ends[i].fd, ends[1 - i].fd, &moved[i],
						   i == relay->direction ? relay->flip : SIZE_MAX);
	close(ends[0].fd);
	close(ends[1].fd);
	return NULL;
}

static void *join_through_relay(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party own = *(struct tcp_party *)seat->party;
	struct oriel_bootstrap b;

	if (seat->rank == 1)
		own.job.port = own.relay_port;
	seat->party = &own;
	if (seat_open(seat, &b) == ORIEL_OK)
		party_note(seat, party_rounds(&b, 10, 40));
	oriel_bootstrap_close(&b);
	return NULL;
}

/*
 * With a key no byte of a collective changes on its way: the rank that reads it ends the job, and
 * both ranks say why.
 */
static void test_an_altered_byte_ends_the_job(void **state)
{
	static const size_t flips[] = {700, 800, 901, 1002};
	unsigned i;

	(void)state;
	for (i = 0; i < 2 * sizeof(flips) / sizeof(flips[0]); i++) {
		struct tcp_party party = tcp_party(2, PARTY_PATIENCE);
		struct relay relay = {.root = loopback, .direction = i % 2, .flip = flips[i / 2]};
		struct ori_address at = loopback;
		pthread_t thread;

		relay.root.port = party.job.port;
		assert_int_equal(ori_endpoint_listen(&at, &relay.listener), ORIEL_OK);
		assert_int_equal(fcntl(relay.listener, F_SETFL, 0), 0);
		party.relay_port = at.port;
		assert_int_equal(pthread_create(&thread, NULL, relay_run, &relay), 0);
		party_run(2, join_through_relay, &party);
		assert_int_equal(pthread_join(thread, NULL), 0);
		party_expect_all(2, ORIEL_ERR_AUTH, "has bytes that were altered on the way");
		close(relay.listener);
	}
}

static void test_silent_and_malformed_connections_do_no_harm(void **state)
{
	struct tcp_party party = tcp_party(3, PARTY_PATIENCE);
	struct ori_address at = loopback;
	int silent, senseless, closed;

	(void)state;
	at.port = party.job.port;
	silent = socket_connect(&at);
	senseless = socket_connect(&at);
	closed = socket_connect(&at);
	assert_true(silent >= 0 && senseless >= 0 && closed >= 0);
	assert_int_equal(send(senseless, "GET / HTTP/1.1\r\nHost: a.test\r\n", 30, 0), 30);
	close(closed);
	party_run(3, run_rounds, &party);
	party_expect_all(3, ORIEL_OK, "");
	close(silent);
	close(senseless);
}

static void *leave_as_odd(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party *party = seat->party;
	struct oriel_bootstrap b;
	enum oriel_status first;

	if (seat_open(seat, &b) == ORIEL_OK && seat->rank != party->odd) {
		first = b.ops->barrier(b.context, PARTY_PATIENCE);
		party_note_fault(seat, &b, b.ops->barrier(b.context, PARTY_PATIENCE));
		if (first != seat->status)
			seat->status = ORIEL_OK;
	}
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_a_rank_that_leaves_is_named_to_all(void **state)
{
	static const unsigned leavers[] = {0, 5, 12, 29};
	unsigned i, rank;
	char text[40];

	(void)state;
	for (i = 0; i < sizeof(leavers) / sizeof(leavers[0]); i++) {
		struct tcp_party party = tcp_party(30, PARTY_PATIENCE);

		party.odd = leavers[i];
		party_run(30, leave_as_odd, &party);
		snprintf(text, sizeof(text), "rank %u of 30 left: connection closed", leavers[i]);
		for (rank = 0; rank < 30; rank++)
			if (rank != leavers[i])
				party_expect(rank, ORIEL_ERR_PEER, text);
		party_expect_fault(30, leavers[i]);
	}
}

static void *sit_out_as_odd(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party *party = seat->party;
	struct oriel_bootstrap b;
	char got;

	if (seat_open(seat, &b) == ORIEL_OK) {
		if (seat->rank == party->odd)
			party_note(seat, b.ops->recv(b.context, 0, 9, &got, 1, PARTY_PATIENCE));
		else
			party_note_fault(seat, &b, b.ops->barrier(b.context, SHORT));
	}
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_a_rank_that_takes_no_part_is_named_to_all(void **state)
{
	struct tcp_party party = tcp_party(20, PARTY_PATIENCE);

	(void)state;
	party.odd = 6;
	party_run(20, sit_out_as_odd, &party);
	party_expect_all(20, ORIEL_ERR_TIMEOUT, "rank 6 of 20 did not take part within 4 s");
	party_expect_fault(20, 6);
}

static void *interrupt(void *arg)
{
	const struct oriel_bootstrap *b = arg;

	b->ops->interrupt(b->context);
	return NULL;
}

/* No rank would ever return: rank 0 waits for a message, the other ranks wait for rank 0. */
static void *wait_for_an_interrupt(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party *party = seat->party;
	struct oriel_bootstrap b;
	pthread_t thread;
	bool is_started = false;
	char got;

	if (seat_open(seat, &b) == ORIEL_OK) {
		if (seat->rank == party->odd)
			is_started = pthread_create(&thread, NULL, interrupt, &b) == 0;
		if (seat->rank == 0)
			party_note(seat, b.ops->recv(b.context, 1, 9, &got, 1, PARTY_PATIENCE));
		else
			party_note(seat, b.ops->barrier(b.context, PARTY_PATIENCE));
		seat->at_fault = b.ops->at_fault(b.context);
		if (is_started)
			pthread_join(thread, NULL);
	}
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_an_interrupt_ends_the_calls_of_all(void **state)
{
	static const unsigned interrupted[] = {0, 4, 11};
	unsigned i;
	char text[40];

	(void)state;
	for (i = 0; i < sizeof(interrupted) / sizeof(interrupted[0]); i++) {
		struct tcp_party party = tcp_party(12, PARTY_PATIENCE);

		party.odd = interrupted[i];
		party_run(12, wait_for_an_interrupt, &party);
		snprintf(text, sizeof(text), "rank %u of 12: interrupted", interrupted[i]);
		party_expect_all(12, ORIEL_ERR_ABORTED, text);
		party_expect_fault(12, ORIEL_NO_RANK);
	}
}

static void *gather_own_length(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party *party = seat->party;
	unsigned char mine[16] = {0}, all[20 * 16];
	struct oriel_bootstrap b;

	if (seat_open(seat, &b) == ORIEL_OK)
		party_note(seat,
			   b.ops->all_gather(b.context, mine, all,
					     seat->rank == party->odd ? 8 : 16, PARTY_PATIENCE));
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_lengths_that_differ_are_an_error_on_all(void **state)
{
	struct tcp_party party = tcp_party(20, PARTY_PATIENCE);

	(void)state;
	party.odd = 19;
	party_run(20, gather_own_length, &party);
	party_expect_all(20, ORIEL_ERR_MISMATCH, "rank 19 of 20 gives 8 bytes");
}

/*
 * Every rank sends three messages, one of them large, to its right neighbour and to itself, and
 * receives their tags in reverse.
 */
static enum oriel_status ring_of_messages(struct oriel_bootstrap *b)
{
	unsigned right = (b->rank + 1) % b->size, left = (b->rank + b->size - 1) % b->size;
	enum oriel_status status = ORIEL_OK;
	size_t length = 700000;
	unsigned char *data = malloc(length);
	uint32_t tag;

	for (tag = 0; tag < 3 && status == ORIEL_OK; tag++) {
		memset(data, (int)(b->rank * 3 + tag), length);
		status = b->ops->send(b->context, right, tag, data, tag ? tag : length,
				      PARTY_PATIENCE);
	}
	for (tag = 3; tag-- > 0 && status == ORIEL_OK;) {
		status = b->ops->recv(b->context, left, tag, data, tag ? tag : length,
				      PARTY_PATIENCE);
		if (status == ORIEL_OK && data[0] != (unsigned char)(left * 3 + tag))
			status = ORIEL_ERR_INVALID;
	}
	free(data);
	return status;
}

static void *send_round(void *arg)
{
	struct party_seat *seat = arg;
	struct oriel_bootstrap b;

	if (seat_open(seat, &b) == ORIEL_OK)
		party_note(seat, ring_of_messages(&b));
	if (seat->status == ORIEL_OK)
		party_note(seat, b.ops->barrier(b.context, PARTY_PATIENCE));
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_messages_are_matched_by_rank_and_tag(void **state)
{
	static const unsigned sizes[] = {1, 2, 12};
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct tcp_party party = tcp_party(sizes[i], PARTY_PATIENCE);

		party_run(sizes[i], send_round, &party);
		party_expect_all(sizes[i], ORIEL_OK, "");
		if (sizes[i] == 1)
			close(party.job.listen_fd);
	}
}

static void *receive_too_much(void *arg)
{
	struct party_seat *seat = arg;
	struct oriel_bootstrap b;
	char got[9] = "";

	if (seat_open(seat, &b) == ORIEL_OK) {
		if (seat->rank == 1)
			b.ops->send(b.context, 0, 4, got, 8, PARTY_PATIENCE);
		if (seat->rank == 0)
			party_note(seat, b.ops->recv(b.context, 1, 4, got, 9, PARTY_PATIENCE));
		else
			party_note(seat, b.ops->barrier(b.context, PARTY_PATIENCE));
	}
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_a_message_of_another_length_breaks_the_job(void **state)
{
	struct tcp_party party = tcp_party(3, PARTY_PATIENCE);

	(void)state;
	party_run(3, receive_too_much, &party);
	party_expect_all(3, ORIEL_ERR_MISMATCH,
			 "rank 1 of 3 sent 8 bytes with tag 4, rank 0 takes 9");
}

static void *receive_from_odd(void *arg)
{
	struct party_seat *seat = arg;
	struct tcp_party *party = seat->party;
	struct oriel_bootstrap b;
	char byte = 0;

	if (seat_open(seat, &b) == ORIEL_OK) {
		if (seat->rank == party->odd)
			b.ops->send(b.context, 0, 1, &byte, 1, PARTY_PATIENCE);
		if (seat->rank == 0)
			b.ops->recv(b.context, party->odd, 1, &byte, 1, PARTY_PATIENCE);
		if (seat->rank == 0)
			party_note(seat,
				   b.ops->recv(b.context, party->odd, 1, &byte, 1, PARTY_PATIENCE));
	}
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_a_sender_that_leaves_ends_the_wait_for_it(void **state)
{
	struct tcp_party party = tcp_party(3, PARTY_PATIENCE);

	(void)state;
	party.odd = 2;
	party_run(3, receive_from_odd, &party);
	party_expect(0, ORIEL_ERR_PEER, "rank 2 of 3 left: connection closed");
}

static void test_a_used_port_is_named(void **state)
{
	struct tcp_party party = tcp_party(2, SHORT);
	int used = party.job.listen_fd;
	struct oriel_bootstrap b;
	char where[64];

	(void)state;
	party.job.listen_fd = -1;
	assert_int_equal(ori_tcp_open(&party.job, &b), ORIEL_ERR_SYSTEM);
	snprintf(where, sizeof(where), "127.0.0.1:%u: Address already in use", party.job.port);
	assert_non_null(strstr(oriel_last_error(), where));
	close(used);
}

#define WAITING 4

int main(void)
{
	/* Each waits until SHORT has passed. */
	const struct CMUnitTest waiting[WAITING] = {
		cmocka_unit_test(test_a_rank_that_does_not_join_is_named_to_all),
		cmocka_unit_test(test_another_key_is_rejected_on_both_sides),
		cmocka_unit_test(test_a_second_process_of_a_rank_is_rejected),
		cmocka_unit_test(test_a_rank_that_takes_no_part_is_named_to_all),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks_join_and_gather),
		cmocka_unit_test(test_300_ranks_meet_by_unix_sockets),
		cmocka_unit_test(test_the_root_of_512_ranks_sends_frames_in_proportion),
		cmocka_unit_test(test_a_missing_root_is_named_with_its_address),
		cmocka_unit_test(test_another_job_at_the_port_does_no_harm),
		cmocka_unit_test(test_sizes_that_differ_are_an_error_that_names_the_rank),
		cmocka_unit_test(test_an_altered_byte_ends_the_job),
		cmocka_unit_test(test_silent_and_malformed_connections_do_no_harm),
		cmocka_unit_test(test_a_rank_that_leaves_is_named_to_all),
		cmocka_unit_test(test_an_interrupt_ends_the_calls_of_all),
		cmocka_unit_test(test_lengths_that_differ_are_an_error_on_all),
		cmocka_unit_test(test_messages_are_matched_by_rank_and_tag),
		cmocka_unit_test(test_a_message_of_another_length_breaks_the_job),
		cmocka_unit_test(test_a_sender_that_leaves_ends_the_wait_for_it),
		cmocka_unit_test(test_a_used_port_is_named),
	};

	int failed;

	at_once_begin(waiting, WAITING);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return failed + at_once_end(WAITING);
}
