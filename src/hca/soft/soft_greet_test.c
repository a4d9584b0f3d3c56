/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of what an engine accepts from a process that connects over TCP, and of whom it calls. */
#include "hca/soft/soft_peer_test.h"

#define MANY 400u
#define PENDING 192u /* that a listener admits: 128, and those of 64 peers */

/* Everything that a process without the right key may try. */
static void try_all(const struct stage *s, const struct ori_key *wrong)
{
	struct soft_header hello = ori_soft_hello(s->mine.cookie, s->hca_address.cookie);
	struct write_frame frame = a_write(s, 1);
	struct end end;
	int fd;

	/* as over a unix socket */
	fd = dial(s);
	say(fd, &hello, sizeof(hello));
	say(fd, &frame, sizeof(frame));
	expect_end(fd);

	fd = dial(s);
	say(fd, &frame, sizeof(frame));
	expect_end(fd);

	end_open(&end, dial(s), wrong, true);
	if (end_step(&end) == ORIEL_OK) {
		end_say_hello(&end, s->mine.cookie, s->hca_address.cookie);
		(void)ori_net_stream_write(&end.conn, &frame, sizeof(frame), &(size_t){0});
		assert_int_equal(end_hear(&end, 0), ORIEL_ERR_AUTH);
	}
	assert_non_null(strstr(ori_net_doubt(&end.conn), "ORIEL_JOB_KEY"));
	end_close(&end);
	assert_true(value_of(s) == 0);
}

static void test_a_connector_without_the_key_writes_nothing(void **state)
{
	struct ori_key key = key_of(KEY), wrong = key_of(OTHER_KEY), none = key_of(NULL);
	struct stage *s = *state;
	struct end end;

	enter(s, &key, &end);
	try_all(s, &wrong);
	try_all(s, &none);
	await_log(s, "127.0.0.1]:");
	await_log(s, "has another ORIEL_JOB_KEY than this process");
	say_write(s, &end, 5);
	await_value(s, 5);
	end_close(&end);
}

static void test_a_job_without_a_key_rejects_a_connector_with_one(void **state)
{
	struct ori_key key = key_of(KEY), none = key_of(NULL);
	struct stage *s = *state;
	struct end end;

	enter(s, &none, &end);
	try_all(s, &key);
	await_log(s, "has an ORIEL_JOB_KEY, but this process has none");
	say_write(s, &end, 5);
	await_value(s, 5);
	end_close(&end);
}

/* The connector has the key, but names another process: its port was given to this one, say. */
static void test_a_hello_to_another_process_is_rejected(void **state)
{
	struct ori_key key = key_of(KEY);
	struct stage *s = *state;
	struct end end;

	end_open(&end, dial(s), &key, true);
	assert_int_equal(end_step(&end), ORIEL_OK);
	end_say_hello(&end, s->mine.cookie, s->hca_address.cookie + 1);
	assert_int_equal(end_hear(&end, SOFT_GREETING_REFUSED), ORIEL_OK);
	assert_int_equal(end_hear(&end, 0), ORIEL_ERR_PEER);
	await_log(s, "its hello names another process");
	end_close(&end);
}

static void test_frames_before_the_welcome_are_rejected(void **state)
{
	struct soft_header hello;
	unsigned char greeting[ORI_FRAME_HEADER + sizeof(hello) + sizeof(struct write_frame)];
	const struct ori_frame header = {SOFT_GREETING_HELLO, 0, sizeof(hello)};
	struct stage *s = *state;
	struct write_frame frame = a_write(s, 1);
	struct ori_frame answer;
	int fd = dial(s);

	hello = ori_soft_hello(s->mine.cookie, s->hca_address.cookie);
	ori_frame_encode(&header, greeting);
	memcpy(greeting + ORI_FRAME_HEADER, &hello, sizeof(hello));
	memcpy(greeting + ORI_FRAME_HEADER + sizeof(hello), &frame, sizeof(frame));
	say(fd, greeting, sizeof(greeting));
	assert_int_equal(recv(fd, greeting, ORI_FRAME_HEADER, MSG_WAITALL), ORI_FRAME_HEADER);
	assert_int_equal(ori_frame_parse(greeting, &answer), ORIEL_OK);
	assert_int_equal(answer.type, SOFT_GREETING_REFUSED);
	expect_end(fd);
	assert_true(value_of(s) == 0);
}

/* Each pending connection has @ns from now on; the listener sets 10 s. Returns their number. */
static unsigned shorten_deadlines(const struct stage *s, uint64_t ns)
{
	struct soft_engine *e = engine_of(s);
	unsigned count = 0;

	ori_soft_engine_lock(e);
	for (struct ori_net_pending *p = e->listeners[1].waiting; p; p = p->next, count++)
		p->deadline = ori_deadline(ns);
	ori_soft_engine_unlock(e);
	return count;
}

/* Half a hello does not help, and a proved connection stays. */
static void test_a_silent_connection_is_closed_in_time(void **state)
{
	struct ori_key key = key_of(KEY);
	struct stage *s = *state;
	struct end end, half;
	int fd;

	enter(s, &key, &end);
	fd = dial(s);
	end_open(&half, dial(s), &key, true);
	assert_int_equal(end_step(&half), ORIEL_OK);
	while (shorten_deadlines(s, UINT64_C(50000000)) != 2)
		usleep(1000);
	expect_end(fd);
	assert_int_equal(end_hear(&half, 0), ORIEL_ERR_PEER);
	/* One line a second, and the number of the others behind it. */
	while (bench_log_count(&s->log, "it sent no hello within 10 s") +
		       bench_log_count(&s->log, "1 more connections ended as those") <
	       2)
		usleep(1000);
	say_write(s, &end, 5);
	await_value(s, 5);
	end_close(&half);
	end_close(&end);
}

static void test_an_acceptor_without_the_key_gets_nothing(void **state)
{
	struct ori_key wrong = key_of(OTHER_KEY);
	struct stage *s = *state;
	struct end end;

	side_signal(&s->side, &s->side, 0);
	assert_int_equal(accept_with(s, take_call(s), &wrong, &end, NULL), ORIEL_ERR_AUTH);
	end_close(&end);
	await_log(s, "no connection to 127.0.0.1:");
	await_log(s, "the peer has another ORIEL_JOB_KEY than this process");
}

static void test_a_connector_whose_connection_is_closed_dials_again(void **state)
{
	struct ori_key key = key_of(KEY);
	struct stage *s = *state;
	struct soft_header h;
	struct end end;
	char first;
	int fd;

	side_signal(&s->side, &s->side, 0);
	for (unsigned i = 0; i < 3; i++)
		close(take_call(s));
	/* It has begun TLS. */
	fd = take_call(s);
	assert_int_equal(recv(fd, &first, 1, 0), 1);
	close(fd);
	/* It has said hello. */
	end_open(&end, take_call(s), &key, false);
	assert_int_equal(end_step(&end), ORIEL_OK);
	end_close(&end);
	assert_int_equal(accept_with(s, take_call(s), &key, &end, NULL), ORIEL_OK);
	assert_int_equal(end_read(&end, &h, sizeof(h)), ORIEL_OK);
	assert_int_equal(h.type, SOFT_ADD);
	end_close(&end);
	assert_int_equal(bench_log_count(&s->log, "software HCA"), 0);
}

static unsigned connections_over_tcp(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_storage a;
		socklen_t length = sizeof(a);

		count += getpeername(fd, (struct sockaddr *)&a, &length) == 0 &&
			 a.ss_family != AF_UNIX;
	}
	return count;
}

/* Both sides of each connection are in this process. */
static void test_pending_connections_are_limited(void **state)
{
	struct ori_key key = key_of(KEY);
	struct stage *s = *state;
	struct end end, last;
	int fds[MANY];

	enter(s, &key, &end);
	for (unsigned i = 0; i < MANY; i++)
		fds[i] = dial(s);
	/* The oldest connections are closed by the time the last is welcome. */
	enter(s, &key, &last);
	assert_true(connections_over_tcp() <= MANY + PENDING + 8);
	await_log(s, "there are too many silent connections");
	say_write(s, &end, 5);
	await_value(s, 5);
	for (unsigned i = 0; i < MANY; i++)
		close(fds[i]);
	end_close(&last);
	end_close(&end);
}

static unsigned listeners_on_tcp(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		int domain = 0, listens = 0;
		socklen_t length = sizeof(int);

		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
		    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0)
			count += listens && domain != AF_UNIX;
	}
	return count;
}

static void test_there_is_no_tcp_listener_before_a_peer_needs_it(void **state)
{
	struct ori_hca_qp_address peer;
	struct soft_address address;
	struct ori_hca *hca;
	struct side side;

	(void)state;
	assert_int_equal(HCA.open("", 0, &hca), ORIEL_OK);
	side_open(&side, &(struct side_attr){.hca = hca, .depth = 16, .length = 64});
	assert_int_equal(listeners_on_tcp(), 0);
	peer = side.address;
	memcpy(&address, peer.hca_address, sizeof(address));
	assert_int_equal(address.port, 0);
	/* Such a peer is unreachable from another host, and the error says so. */
	address.cookie++;
	address.scope++;
	memcpy(peer.hca_address, &address, sizeof(address));
	assert_int_equal(HCA.connect_qp(side.qp, &peer), ORIEL_ERR_NO_PATH);
	assert_non_null(strstr(oriel_last_error(), "TCP port"));
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(HCA.listen(hca), ORIEL_OK);
		assert_int_equal(listeners_on_tcp(), 1);
	}
	HCA.describe(hca, &peer);
	memcpy(&address, peer.hca_address, sizeof(address));
	assert_int_not_equal(address.port, 0);
	side_close(&side);
	HCA.close(hca);
	assert_int_equal(listeners_on_tcp(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(KEY, test_a_connector_without_the_key_writes_nothing),
		WITH(NULL, test_a_job_without_a_key_rejects_a_connector_with_one),
		WITH(KEY, test_a_hello_to_another_process_is_rejected),
		WITH(NULL, test_frames_before_the_welcome_are_rejected),
		WITH(KEY, test_a_silent_connection_is_closed_in_time),
		WITH(KEY, test_an_acceptor_without_the_key_gets_nothing),
		WITH(KEY, test_a_connector_whose_connection_is_closed_dials_again),
		WITH(KEY, test_pending_connections_are_limited),
		cmocka_unit_test(test_there_is_no_tcp_listener_before_a_peer_needs_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
