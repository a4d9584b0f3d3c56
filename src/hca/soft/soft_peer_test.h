/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that tests play: it connects to an HCA over TCP or is called by it, and knows all that
 * the bootstrap transports: address, queue numbers, rkey. A relay may be on the way.
 */
#ifndef ORI_HCA_SOFT_PEER_TEST_H
#define ORI_HCA_SOFT_PEER_TEST_H

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
#define SEEN 65536u /* bytes that a relay records */

struct stage {
	struct ori_hca *hca;
	struct side side;
	struct soft_address hca_address; /* the side's HCA */
	struct soft_address mine;        /* the HCA of the peer that the test plays */
	struct bench_log log;
	int listener; /* of that peer; it never answers */
};

static inline struct soft_engine *engine_of(const struct stage *s)
{
	return ((struct soft_node *)s->hca)->engine;
}

static inline struct ori_key key_of(const char *text)
{
	struct ori_key key;

	if (text)
		setenv("ORIEL_JOB_KEY", text, 1);
	else
		unsetenv("ORIEL_JOB_KEY");
	ori_key_read(&key);
	return key;
}

static inline int listen_silently(uint16_t *port)
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
static inline int open_stage(void **state)
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

static inline int close_stage(void **state)
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

/* A socket of the listener's, or of the engine's, with which the test does not wait for ever. */
static inline int patient(int fd)
{
	const struct timeval patience = {.tv_sec = PATIENCE_NS / 1000000000};

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

static inline int dial(const struct stage *s)
{
	const struct sockaddr_in a = {.sin_family = AF_INET,
				      .sin_port = htons(s->hca_address.port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = patient(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

	assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* The engine may have closed it already. */
static inline void say(int fd, const void *bytes, size_t length)
{
	(void)send(fd, bytes, length, MSG_NOSIGNAL);
}

/* An alert of TLS, or nothing, and then the end of the stream: no other byte. */
static inline void expect_end(int fd)
{
	static const unsigned char alert[6] = {21, 3, 3, 0, 2, 2};
	unsigned char bytes[8];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_WAITALL);

	if (n > 0) {
		assert_int_equal(n, sizeof(alert) + 1);
		assert_memory_equal(bytes, alert, sizeof(alert));
	}
	assert_true(n >= 0 || errno == ECONNRESET);
	close(fd);
}

/* One end of a connection of src/net, which the test plays, and what may be between the ends. */
struct end {
	struct ori_tls_context *tls; /* NULL: no key */
	struct ori_traffic traffic;
	struct ori_net_conn conn;
	struct relay *relay; /* NULL: none */
};

/*
 * Carries bytes between @fds[0] and @fds[1], which is the end of the test, keeps a copy of them,
 * and alters one.
 */
struct relay {
	int fds[2];
	long flip[2]; /* the number of the byte from fds[i] that changes, -1: none */
	size_t moved[2];
	char *seen; /* the bytes from fds[0] */
};

static inline void relay_move(struct relay *r, unsigned from)
{
	char bytes[4096];
	ssize_t n = recv(r->fds[from], bytes, sizeof(bytes), MSG_DONTWAIT);
	size_t at = r->moved[from];

	if (n == 0)
		shutdown(r->fds[!from], SHUT_WR);
	if (n <= 0)
		return;
	if (from == 0 && at + (size_t)n <= SEEN)
		memcpy(r->seen + at, bytes, (size_t)n);
	if (r->flip[from] >= (long)at && r->flip[from] < (long)at + n)
		bytes[r->flip[from] - (long)at] ^= 1;
	r->moved[from] += (size_t)n;
	say(r->fds[!from], bytes, (size_t)n);
}

/* @fd is the engine's end; returns the test's. */
static inline int relay_open(struct relay *r, int fd)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	*r = (struct relay){{fd, ends[0]}, {-1, -1}, {0, 0}, calloc(1, SEEN)};
	assert_non_null(r->seen);
	return ends[1];
}

static inline void relay_close(struct relay *r)
{
	close(r->fds[0]);
	close(r->fds[1]);
	free(r->seen);
}

static inline void end_open(struct end *end, int fd, const struct ori_key *key, bool is_connector)
{
	*end = (struct end){.tls = NULL};
	if (key->length)
		assert_int_equal(ori_tls_context_create(key, &end->tls), ORIEL_OK);
	ori_net_accept(&end->conn, fd, end->tls, &end->traffic);
	if (is_connector) {
		end->conn.state = ORI_NET_CONNECTING;
		end->conn.is_connector = true;
	}
}

static inline void end_close(struct end *end)
{
	ori_net_close(&end->conn);
	ori_tls_context_destroy(end->tls);
}

/* Between two calls that return ORIEL_AGAIN. */
static inline void end_wait(const struct end *end, uint64_t deadline)
{
	assert_false(ori_deadline_passed(deadline));
	for (unsigned i = 0; end->relay && i < 2; i++)
		relay_move(end->relay, i);
	usleep(100);
}

static inline enum oriel_status end_step(struct end *end)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);
	enum oriel_status status;

	while ((status = ori_net_step(&end->conn)) == ORIEL_AGAIN)
		end_wait(end, deadline);
	return status;
}

/* ORIEL_OK: the next frame, without a body, is of @type. */
static inline enum oriel_status end_hear(struct end *end, unsigned type)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);
	enum oriel_status status;
	struct ori_frame frame;

	while ((status = ori_net_take(&end->conn, &frame, NULL, 0)) == ORIEL_AGAIN)
		end_wait(end, deadline);
	if (status == ORIEL_OK)
		assert_int_equal(frame.type, type);
	return status;
}

/* Read @length bytes of the stream. */
static inline enum oriel_status end_read(struct end *end, void *to, size_t length)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);
	enum oriel_status status;
	size_t done = 0, got;

	while (done < length) {
		status = ori_net_stream_read(&end->conn, (char *)to + done, length - done, &got);
		if (status == ORIEL_OK)
			done += got;
		else if (status == ORIEL_AGAIN)
			end_wait(end, deadline);
		else
			return status;
	}
	return ORIEL_OK;
}

static inline void end_write(struct end *end, const void *bytes, size_t length)
{
	size_t done;

	assert_int_equal(ori_net_stream_write(&end->conn, bytes, length, &done), ORIEL_OK);
	assert_int_equal(done, length);
}

static inline void end_say_hello(struct end *end, uint64_t from, uint64_t to)
{
	const struct soft_header hello = ori_soft_hello(from, to);

	(void)ori_net_send(&end->conn, SOFT_GREETING_HELLO, &hello, sizeof(hello));
}

struct write_frame {
	struct soft_header h;
	uint64_t value;
};

/* A valid WRITE. */
static inline struct write_frame a_write(const struct stage *s, uint64_t value)
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

static inline void say_write(const struct stage *s, struct end *end, uint64_t value)
{
	struct write_frame frame = a_write(s, value);

	end_write(end, &frame, sizeof(frame));
}

static inline uint64_t value_of(const struct stage *s)
{
	return oriel_dev_load_acquire((const uint64_t *)(const void *)s->side.memory);
}

static inline void await_log(struct stage *s, const char *text)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);

	while (!bench_log_count(&s->log, text)) {
		assert_false(ori_deadline_passed(deadline));
		usleep(100);
	}
}

static inline void await_value(const struct stage *s, uint64_t value)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);

	while (value_of(s) != value) {
		assert_false(ori_deadline_passed(deadline));
		usleep(100);
	}
}

/* Connect as a peer, as far as the engine can see. */
static inline void enter_at(const struct stage *s, int fd, const struct ori_key *key,
			    struct end *end, struct relay *relay)
{
	end_open(end, fd, key, true);
	end->relay = relay;
	assert_int_equal(end_step(end), ORIEL_OK);
	end_say_hello(end, s->mine.cookie, s->hca_address.cookie);
	assert_int_equal(end_hear(end, SOFT_GREETING_WELCOME), ORIEL_OK);
}

static inline void enter(const struct stage *s, const struct ori_key *key, struct end *end)
{
	enter_at(s, dial(s), key, end, NULL);
}

static inline int take_call(const struct stage *s)
{
	return patient(accept(s->listener, NULL, NULL));
}

/* Answer the engine, which connects to the test's port, as an acceptor with @key does. */
static inline enum oriel_status accept_with(const struct stage *s, int fd,
					    const struct ori_key *key, struct end *end,
					    struct relay *relay)
{
	struct soft_header hello;
	struct ori_frame frame;
	enum oriel_status status;

	end_open(end, fd, key, false);
	end->relay = relay;
	status = end_step(end);
	if (status != ORIEL_OK)
		return status;
	assert_int_equal(ori_net_take(&end->conn, &frame, &hello, sizeof(hello)), ORIEL_OK);
	assert_int_equal(frame.type, SOFT_GREETING_HELLO);
	assert_true(hello.operand == s->hca_address.cookie && hello.compare == s->mine.cookie);
	assert_true(ori_soft_greet_welcome(&end->conn));
	return ORIEL_OK;
}

#define WITH(key, name) \
	cmocka_unit_test_prestate_setup_teardown(name, open_stage, close_stage, (void *)(key))

#endif
