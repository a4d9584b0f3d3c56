/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of what an engine accepts from a process that connects over TCP and
 * knows all that the bootstrap transports: address, queue numbers, rkey. The
 * test plays that process.
 */
#include "hca/soft/soft_bench_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "hca/soft/soft_engine.h"
#include "hca/soft/soft_greet.h"

#define QPN 5u
#define PSN 77u
#define KEY "00112233445566778899aabbccddeeff"
#define OTHER_KEY "00112233445566778899aabbccddeefe"
#define MANY 200u

struct stage {
	struct ori_hca *hca;
	struct side side;
	struct soft_address hca_address; /* the side's HCA */
	struct soft_address mine;        /* the HCA of the peer that the test plays */
	struct bench_log log;
	int listener; /* of that peer; it never answers */
};

static struct soft_engine *engine_of(const struct stage *s)
{
	return ((struct soft_node *)s->hca)->engine;
}

static void set_pending(const struct stage *s, uint64_t ns)
{
	struct soft_engine *e = engine_of(s);

	ori_soft_engine_lock(e);
	e->pending_ns = ns;
	ori_soft_engine_unlock(e);
}

static struct ori_key key_of(const char *text)
{
	struct ori_key key;

	if (text)
		setenv("ORIEL_JOB_KEY", text, 1);
	else
		unsetenv("ORIEL_JOB_KEY");
	ori_key_read(&key);
	return key;
}

static int listen_silently(uint16_t *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

/* The test's initial state is the job key, or NULL. */
static int open_stage(void **state)
{
	struct stage *s = calloc(1, sizeof(*s));
	struct ori_hca_qp_address peer;

	(void)key_of(*state);
	bench_log_begin(&s->log);
	assert_int_equal(HCA.open("tcp=1", 0, &s->hca), ORIEL_OK);
	side_open(&s->side, &(struct side_attr){.hca = s->hca, .depth = 16, .length = 4096});
	memcpy(&s->hca_address, s->side.address.hca_address, sizeof(s->hca_address));
	peer = s->side.address;
	s->mine = s->hca_address;
	s->mine.cookie++;
	s->listener = listen_silently(&s->mine.port);
	memcpy(peer.hca_address, &s->mine, sizeof(s->mine));
	peer.qpn = QPN;
	peer.psn = PSN;
	assert_int_equal(HCA.connect_qp(s->side.qp, &peer), ORIEL_OK);
	*state = s;
	return 0;
}

static int close_stage(void **state)
{
	struct stage *s = *state;

	side_close(&s->side);
	HCA.close(s->hca);
	close(s->listener);
	bench_log_end(&s->log);
	free(s);
	unsetenv("ORIEL_JOB_KEY");
	return 0;
}

static int dial(const struct stage *s)
{
	const struct sockaddr_in a = {.sin_family = AF_INET,
				      .sin_port = htons(s->hca_address.port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval patience = {.tv_sec = PATIENCE_NS / 1000000000};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

/* The engine may have closed it already. */
static void say(int fd, const void *bytes, size_t length)
{
	(void)send(fd, bytes, length, MSG_NOSIGNAL);
}

static bool hear(int fd, void *bytes, size_t length)
{
	return recv(fd, bytes, length, MSG_WAITALL) == (ssize_t)length;
}

/* The rejection, or nothing, and then the end of the stream: no other byte. */
static void expect_end(int fd)
{
	struct soft_header h;
	ssize_t n = recv(fd, &h, sizeof(h), MSG_WAITALL);

	if (n == sizeof(h)) {
		assert_int_equal(h.type, SOFT_REFUSED);
		h.magic = h.type = 0;
		h.packets = 0;
		for (size_t i = 0; i < sizeof(h); i++)
			assert_int_equal(((const char *)&h)[i], 0);
		n = recv(fd, &h, 1, 0);
	}
	assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
	close(fd);
}

struct hello {
	struct soft_header h;
	struct soft_proof proof;
};

/* The hello of a peer with @key in answer to @challenge. */
static struct hello hello_with(const struct stage *s, const struct soft_challenge *challenge,
			       const struct ori_key *key)
{
	struct hello hello = {.h = ori_soft_hello(s->mine.cookie, s->hca_address.cookie)};
	struct ori_auth auth;

	hello.h.length = sizeof(hello.proof);
	memcpy(auth.acceptor, challenge->nonce, sizeof(auth.acceptor));
	assert_int_equal(ori_auth_nonce(auth.connector), ORIEL_OK);
	memcpy(hello.proof.nonce, auth.connector, sizeof(auth.connector));
	assert_int_equal(ori_auth_mac(key, &auth, ORI_ROLE_CONNECTOR, &hello.h, sizeof(hello.h),
				      hello.proof.mac),
			 ORIEL_OK);
	return hello;
}

struct write_frame {
	struct soft_header h;
	uint64_t value;
};

/* A valid WRITE. */
static struct write_frame a_write(const struct stage *s, uint64_t value)
{
	return (struct write_frame){.h = {.magic = SOFT_WIRE_MAGIC,
					  .type = SOFT_WRITE,
					  .packets = 1,
					  .node = s->hca_address.node,
					  .qpn = s->side.address.qpn,
					  .source_node = s->mine.node,
					  .source_qpn = QPN,
					  .psn = PSN,
					  .length = sizeof(value),
					  .rkey = s->side.keys.rkey,
					  .total = sizeof(value)},
				    .value = value};
}

static void say_write(const struct stage *s, int fd, uint64_t value)
{
	struct write_frame frame = a_write(s, value);

	say(fd, &frame, sizeof(frame));
}

static uint64_t value_of(const struct stage *s)
{
	return oriel_dev_load_acquire((const uint64_t *)(const void *)s->side.memory);
}

static void await_value(const struct stage *s, uint64_t value)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);

	while (value_of(s) != value) {
		assert_false(ori_deadline_passed(deadline));
		usleep(100);
	}
}

/* Connect as a peer whose proof is right, as far as the engine can see. */
static int enter(const struct stage *s, const struct ori_key *key, struct hello *hello)
{
	struct soft_challenge challenge;
	struct soft_welcome welcome;
	struct ori_auth auth;
	uint8_t mac[ORI_MAC_LENGTH];
	int fd = dial(s);

	assert_true(hear(fd, &challenge, sizeof(challenge)));
	*hello = hello_with(s, &challenge, key);
	say(fd, hello, sizeof(*hello));
	assert_true(hear(fd, &welcome, sizeof(welcome)));
	assert_int_equal(welcome.h.type, SOFT_WELCOME);
	memcpy(auth.acceptor, challenge.nonce, sizeof(auth.acceptor));
	memcpy(auth.connector, hello->proof.nonce, sizeof(auth.connector));
	assert_int_equal(ori_auth_mac(key, &auth, ORI_ROLE_ACCEPTOR, &hello->h, sizeof(hello->h),
				      mac),
			 ORIEL_OK);
	assert_memory_equal(mac, welcome.mac, sizeof(mac));
	return fd;
}

/* Try everything that was valid until now, with one thing changed. */
static void try_all(const struct stage *s, const struct ori_key *wrong, const struct hello *old)
{
	struct soft_challenge challenge;
	struct hello hello;
	int fd;

	/* as it was before there was a proof */
	fd = dial(s);
	hello.h = ori_soft_hello(s->mine.cookie, s->hca_address.cookie);
	say(fd, &hello.h, sizeof(hello.h));
	say_write(s, fd, 1);
	assert_true(hear(fd, &challenge, sizeof(challenge)));
	expect_end(fd);

	fd = dial(s);
	say_write(s, fd, 2);
	assert_true(hear(fd, &challenge, sizeof(challenge)));
	expect_end(fd);

	fd = dial(s);
	assert_true(hear(fd, &challenge, sizeof(challenge)));
	hello = hello_with(s, &challenge, wrong);
	say(fd, &hello, sizeof(hello));
	say_write(s, fd, 3);
	expect_end(fd);

	/* the challenge of another connection has been answered so */
	fd = dial(s);
	assert_true(hear(fd, &challenge, sizeof(challenge)));
	say(fd, old, sizeof(*old));
	say_write(s, fd, 4);
	expect_end(fd);
	assert_true(value_of(s) == 0);
}

static void test_a_connector_without_the_key_writes_nothing(void **state)
{
	struct ori_key key = key_of(KEY), wrong = key_of(OTHER_KEY), none = key_of(NULL);
	struct stage *s = *state;
	uint64_t begin = ori_clock_ns();
	struct hello hello;
	int fd = enter(s, &key, &hello);

	try_all(s, &wrong, &hello);
	try_all(s, &none, &hello);
	assert_true(bench_log_count(&s->log, "turned away the connection from"));
	assert_true(bench_log_count(&s->log, "127.0.0.1]:"));
	/* One line a second, however many connections there are. */
	assert_true(bench_log_count(&s->log, "turned away") <=
		    1 + (ori_clock_ns() - begin) / 1000000000);
	say_write(s, fd, 5);
	await_value(s, 5);
	close(fd);
}

static void test_a_job_without_a_key_rejects_a_connector_with_one(void **state)
{
	struct ori_key key = key_of(KEY), none = key_of(NULL);
	struct stage *s = *state;
	struct hello hello;
	int fd = enter(s, &none, &hello);

	try_all(s, &key, &hello);
	assert_true(bench_log_count(&s->log, "turned away the connection from"));
	say_write(s, fd, 5);
	await_value(s, 5);
	close(fd);
}

/* The hello has the key, but names another process: its port was given to this one, say. */
static void test_a_hello_to_another_process_is_rejected(void **state)
{
	struct ori_key key = key_of(KEY);
	struct stage *s = *state;
	struct soft_challenge challenge;
	struct hello hello;
	int fd = dial(s);

	s->hca_address.cookie++;
	assert_true(hear(fd, &challenge, sizeof(challenge)));
	hello = hello_with(s, &challenge, &key);
	say(fd, &hello, sizeof(hello));
	say_write(s, fd, 1);
	expect_end(fd);
	assert_true(value_of(s) == 0);
	assert_true(bench_log_count(&s->log, "its hello names another process"));
}

/* Half a hello does not help, and a proved connection stays. */
static void test_a_silent_connection_is_closed_in_time(void **state)
{
	const uint64_t limit = 50000000;
	struct ori_key key = key_of(KEY);
	struct stage *s = *state;
	struct soft_challenge challenge;
	struct hello hello;
	uint64_t begin;
	int fds[3];

	set_pending(s, limit);
	fds[0] = enter(s, &key, &hello);
	begin = ori_clock_ns();
	fds[1] = dial(s);
	fds[2] = dial(s);
	say(fds[2], &hello, sizeof(hello) - 1);
	for (unsigned i = 1; i < 3; i++) {
		assert_true(hear(fds[i], &challenge, sizeof(challenge)));
		expect_end(fds[i]);
		assert_true(ori_clock_ns() - begin >= limit);
	}
	assert_true(bench_log_count(&s->log, "it proved nothing in time"));
	say_write(s, fds[0], 5);
	await_value(s, 5);
	close(fds[0]);
}

static int take_call(const struct stage *s)
{
	const struct timeval patience = {.tv_sec = PATIENCE_NS / 1000000000};
	int fd = accept(s->listener, NULL, NULL);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

/* Answer the engine, which connects to the test's port, as an acceptor with @key does. */
static void accept_with(const struct stage *s, int fd, const struct ori_key *key)
{
	struct soft_challenge challenge = {.h = {.magic = SOFT_WIRE_MAGIC,
						 .type = SOFT_CHALLENGE,
						 .packets = SOFT_WIRE_VERSION,
						 .length = ORI_NONCE_LENGTH}};
	struct soft_welcome welcome = {.h = challenge.h};
	struct ori_auth auth = {.acceptor = {0}};
	struct hello hello;

	say(fd, &challenge, sizeof(challenge));
	assert_true(hear(fd, &hello, sizeof(hello)));
	assert_true(hello.h.operand == s->hca_address.cookie && hello.h.compare == s->mine.cookie);
	memcpy(auth.connector, hello.proof.nonce, sizeof(auth.connector));
	welcome.h.type = SOFT_WELCOME;
	assert_int_equal(ori_auth_mac(key, &auth, ORI_ROLE_ACCEPTOR, &hello.h, sizeof(hello.h),
				      welcome.mac),
			 ORIEL_OK);
	say(fd, &welcome, sizeof(welcome));
}

static void test_an_acceptor_without_the_key_gets_nothing(void **state)
{
	struct ori_key wrong = key_of(OTHER_KEY);
	struct stage *s = *state;
	char byte;
	int fd;

	side_signal(&s->side, &s->side, 0);
	fd = take_call(s);
	accept_with(s, fd, &wrong);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
	assert_true(bench_log_count(&s->log, "no connection to 127.0.0.1:"));
	assert_true(bench_log_count(&s->log,
				    "does not prove that it has this process's ORIEL_JOB_KEY"));
}

static void test_a_connector_whose_connection_is_closed_dials_again(void **state)
{
	struct ori_key key = key_of(KEY);
	struct stage *s = *state;
	struct soft_header h = {.magic = SOFT_WIRE_MAGIC};
	int fd;

	side_signal(&s->side, &s->side, 0);
	for (unsigned i = 0; i < 3; i++)
		close(take_call(s));
	fd = take_call(s);
	say(fd, &h, 1);
	close(fd);
	fd = take_call(s);
	accept_with(s, fd, &key);
	assert_true(hear(fd, &h, sizeof(h)));
	assert_int_equal(h.type, SOFT_ADD);
	close(fd);
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
	struct hello hello;
	int fds[MANY], fd;

	set_pending(s, PATIENCE_NS);
	fd = enter(s, &key, &hello);
	for (unsigned i = 0; i < MANY; i++)
		fds[i] = dial(s);
	/* The oldest connections are closed by the time the last has its challenge. */
	close(enter(s, &key, &hello));
	assert_true(connections_over_tcp() <= MANY + 64 + 8);
	assert_true(bench_log_count(&s->log, "too many connections are pending"));
	say_write(s, fd, 5);
	await_value(s, 5);
	for (unsigned i = 0; i < MANY; i++)
		close(fds[i]);
	close(fd);
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

#define WITH(key, name) \
	cmocka_unit_test_prestate_setup_teardown(name, open_stage, close_stage, (void *)(key))

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(KEY, test_a_connector_without_the_key_writes_nothing),
		WITH(NULL, test_a_job_without_a_key_rejects_a_connector_with_one),
		WITH(KEY, test_a_hello_to_another_process_is_rejected),
		WITH(KEY, test_a_silent_connection_is_closed_in_time),
		WITH(KEY, test_an_acceptor_without_the_key_gets_nothing),
		WITH(KEY, test_a_connector_whose_connection_is_closed_dials_again),
		WITH(KEY, test_pending_connections_are_limited),
		cmocka_unit_test(test_there_is_no_tcp_listener_before_a_peer_needs_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
