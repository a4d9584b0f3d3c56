/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of connections: the proof of the key, each kind of mistake on the way, and frames in
 * pieces. A relay of the test carries the bytes between the two sides, so that it can change them.
 */
#include "net/listen.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/count_fds.h"
#include "net/socket_test.h"

#define RELAY_MAX 65536u
#define STILL 4 /* turns without a byte, after which no side sends more */

static const struct ori_key right = {16, "a key for a test"}, wrong = {16, "another key, too"};

/* One direction: bytes that the relay has, and has not delivered yet. */
struct relay {
	int from, to;
	size_t piece;  /* bytes that it moves at most in one call */
	long flip;     /* the number of the byte to change, -1: none */
	bool is_twice; /* deliver every read twice */
	size_t moved;
};

/* The two sides, each with a socket whose other end is the relay's. */
struct pair {
	struct ori_tls_context *context[2];
	struct ori_traffic traffic;
	struct ori_net_conn connector, acceptor;
	struct relay there, back;
	int ends[2]; /* of the relay */
};

static void relay_move(struct relay *relay)
{
	unsigned char bytes[RELAY_MAX];
	ssize_t n = recv(relay->from, bytes, relay->piece, MSG_DONTWAIT);

	if (n == 0)
		shutdown(relay->to, SHUT_WR);
	if (n <= 0)
		return;
	if (relay->flip >= (long)relay->moved && relay->flip < (long)relay->moved + n)
		bytes[relay->flip - (long)relay->moved] ^= 1;
	relay->moved += (size_t)n;
	(void)!send(relay->to, bytes, (size_t)n, MSG_NOSIGNAL);
	if (relay->is_twice)
		(void)!send(relay->to, bytes, (size_t)n, MSG_NOSIGNAL);
}

static void relay_turn(struct pair *p)
{
	relay_move(&p->there);
	relay_move(&p->back);
}

static void pair_open(struct pair *p, const struct ori_key *connector,
		      const struct ori_key *acceptor)
{
	const struct ori_key *keys[2] = {connector, acceptor};
	int a[2], b[2], i;

	memset(p, 0, sizeof(*p));
	for (i = 0; i < 2; i++)
		if (keys[i])
			assert_int_equal(ori_tls_context_create(keys[i], &p->context[i]), ORIEL_OK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b), 0);
	ori_net_open(&p->connector, a[0], &p->traffic);
	p->connector.state = ORI_NET_CONNECTING;
	p->connector.is_connector = true;
	p->connector.context = p->context[0];
	ori_net_accept(&p->acceptor, b[0], p->context[1], &p->traffic);
	p->connector.is_local = p->acceptor.is_local = false; /* they stand for TCP */
	p->ends[0] = a[1];
	p->ends[1] = b[1];
	p->there = (struct relay){a[1], b[1], RELAY_MAX, -1, false, 0};
	p->back = (struct relay){b[1], a[1], RELAY_MAX, -1, false, 0};
}

static void pair_close(struct pair *p)
{
	ori_net_close(&p->connector);
	ori_net_close(&p->acceptor);
	close(p->ends[0]);
	close(p->ends[1]);
	ori_tls_context_destroy(p->context[0]);
	ori_tls_context_destroy(p->context[1]);
}

/*
 * Step both sides, and let a connector that is open send a hello, until neither waits, or until
 * they wait for each other: ORIEL_AGAIN.
 */
static void pair_meet(struct pair *p, enum oriel_status *connector, enum oriel_status *acceptor)
{
	size_t moved = 0;
	bool is_greeted = false;
	unsigned still;

	*connector = *acceptor = ORIEL_AGAIN;
	for (still = 0; still < STILL; still++) {
		if (*connector == ORIEL_AGAIN)
			*connector = ori_net_step(&p->connector);
		if (*connector == ORIEL_OK && !is_greeted) {
			assert_int_equal(ori_net_send(&p->connector, 1, "hello", 5), ORIEL_OK);
			is_greeted = true;
		}
		if (*acceptor == ORIEL_AGAIN)
			*acceptor = ori_net_step(&p->acceptor);
		/* As its owner does; the relay passes the end on. */
		if (*acceptor < 0)
			ori_net_close(&p->acceptor);
		if (*connector < 0)
			ori_net_close(&p->connector);
		if (*connector != ORIEL_AGAIN && *acceptor != ORIEL_AGAIN)
			return;
		relay_turn(p);
		if (p->there.moved + p->back.moved != moved)
			still = 0;
		moved = p->there.moved + p->back.moved;
	}
}

static void pair_meet_well(struct pair *p)
{
	enum oriel_status connector, acceptor;
	struct ori_frame frame;
	char body[5];

	pair_meet(p, &connector, &acceptor);
	assert_int_equal(connector, ORIEL_OK);
	assert_int_equal(acceptor, ORIEL_OK);
	assert_int_equal(ori_net_take(&p->acceptor, &frame, body, sizeof(body)), ORIEL_OK);
	assert_int_equal(frame.type, 1);
	assert_memory_equal(body, "hello", 5);
}

static void test_both_sides_prove_the_key(void **state)
{
	static const struct ori_key *const keys[] = {&right, NULL};
	static struct pair p;
	unsigned i;

	(void)state;
	for (i = 0; i < 2; i++) {
		pair_open(&p, keys[i], keys[i]);
		pair_meet_well(&p);
		assert_int_equal(p.connector.tls != NULL, keys[i] != NULL);
		pair_close(&p);
	}
}

static void test_keys_that_differ_are_named(void **state)
{
	static const struct {
		const struct ori_key *connector, *acceptor;
		const char *of_acceptor, *of_connector;
	} cases[] = {
		{&wrong, &right, "has another ORIEL_JOB_KEY than this process",
		 "has another ORIEL_JOB_KEY than this process"},
		{&right, NULL, "has no ORIEL_JOB_KEY, but this process has one",
		 "has an ORIEL_JOB_KEY, but this process has none"},
	};
	enum oriel_status connector, acceptor;
	static struct pair p;
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pair_open(&p, cases[i].connector, cases[i].acceptor);
		pair_meet(&p, &connector, &acceptor);
		assert_int_equal(connector, ORIEL_ERR_AUTH);
		assert_int_equal(acceptor, ORIEL_ERR_AUTH);
		assert_string_equal(ori_net_doubt(&p.connector), cases[i].of_acceptor);
		assert_string_equal(ori_net_doubt(&p.acceptor), cases[i].of_connector);
		pair_close(&p);
	}
}

/* A connector without a key finds out when it reads the answer to its hello. */
static void test_a_connector_without_key_is_refused(void **state)
{
	enum oriel_status connector, acceptor;
	static struct pair p;
	struct ori_frame frame;

	(void)state;
	pair_open(&p, NULL, &right);
	pair_meet(&p, &connector, &acceptor);
	assert_int_equal(connector, ORIEL_OK);
	assert_int_equal(acceptor, ORIEL_ERR_AUTH);
	assert_string_equal(ori_net_doubt(&p.acceptor),
			    "has no ORIEL_JOB_KEY, but this process has one");
	relay_turn(&p);
	assert_int_equal(ori_net_peek(&p.connector, &frame), ORIEL_ERR_AUTH);
	assert_string_equal(ori_net_doubt(&p.connector),
			    "has an ORIEL_JOB_KEY, but this process has none");
	pair_close(&p);
}

/* An acceptor sends nothing but an alert to a connector that has not proved the key. */
static void test_an_unproven_peer_learns_only_that_it_is_refused(void **state)
{
	static const struct ori_key *const keys[] = {&wrong, NULL};
	enum oriel_status connector, acceptor;
	static struct pair p;
	unsigned i;

	(void)state;
	for (i = 0; i < 2; i++) {
		pair_open(&p, keys[i], &right);
		pair_meet(&p, &connector, &acceptor);
		relay_turn(&p);
		assert_int_equal(acceptor, ORIEL_ERR_AUTH);
		assert_int_equal(p.back.moved, 7);
		pair_close(&p);
	}
}

/*
 * Any byte of the handshake may change: then a side fails, or both wait. A few bytes have
 * no meaning, as the version that a record claims.
 */
static void test_a_byte_altered_in_the_handshake_changes_nothing(void **state)
{
	enum oriel_status connector, acceptor;
	long i, there, back, survivors = 0;
	static struct pair p;
	struct ori_frame frame;
	char body[8];

	(void)state;
	pair_open(&p, &right, &right);
	pair_meet_well(&p);
	there = (long)p.there.moved;
	back = (long)p.back.moved;
	pair_close(&p);
	for (i = 0; i < there + back; i++) {
		pair_open(&p, &right, &right);
		p.there.flip = i < there ? i : -1;
		p.back.flip = i < there ? -1 : i - there;
		pair_meet(&p, &connector, &acceptor);
		if (acceptor == ORIEL_OK) {
			survivors++;
			assert_int_equal(ori_net_take(&p.acceptor, &frame, body, sizeof(body)),
					 ORIEL_OK);
			assert_int_equal(frame.length, 5);
			assert_memory_equal(body, "hello", 5);
		}
		pair_close(&p);
	}
	assert_in_range(survivors, 0, 8);
}

/* The reader gets an error whichever byte of a frame changes after the handshake. */
static void test_a_byte_altered_later_is_noticed(void **state)
{
	static struct pair p;
	struct ori_frame frame;
	unsigned char body[32];
	long i, length = 0;

	(void)state;
	for (i = -1; i < length; i++) {
		pair_open(&p, &right, &right);
		pair_meet_well(&p);
		p.back.moved = 0;
		p.back.flip = i;
		assert_int_equal(ori_net_send(&p.acceptor, 2, "0123456789abcdef", 16), ORIEL_OK);
		relay_turn(&p);
		length = (long)p.back.moved;
		ori_net_close(&p.acceptor);
		relay_turn(&p);
		if (i < 0) {
			assert_int_equal(ori_net_take(&p.connector, &frame, body, sizeof(body)),
					 ORIEL_OK);
			assert_memory_equal(body, "0123456789abcdef", 16);
		} else if (ori_net_take(&p.connector, &frame, body, sizeof(body)) ==
			   ORIEL_ERR_AUTH) {
			assert_string_equal(ori_net_doubt(&p.connector),
					    "has bytes that were altered on the way");
		} else {
			/* The length of the header's or the body's record grew: it never ends. */
			assert_in_range(i % (22 + ORI_FRAME_HEADER), 3, 4);
			assert_int_equal(ori_net_take(&p.connector, &frame, body, sizeof(body)),
					 ORIEL_ERR_PEER);
		}
		pair_close(&p);
	}
	assert_true(length > 16 + ORI_FRAME_HEADER);
}

static void test_repeated_bytes_are_noticed(void **state)
{
	static struct pair p;
	struct ori_frame frame;
	unsigned char body[32];

	(void)state;
	pair_open(&p, &right, &right);
	pair_meet_well(&p);
	p.there.is_twice = true;
	assert_int_equal(ori_net_send(&p.connector, 2, "once", 4), ORIEL_OK);
	relay_turn(&p);
	assert_int_equal(ori_net_take(&p.acceptor, &frame, body, sizeof(body)), ORIEL_OK);
	assert_int_equal(ori_net_take(&p.acceptor, &frame, body, sizeof(body)), ORIEL_ERR_AUTH);
	/* The other side hears of it. */
	relay_turn(&p);
	assert_int_equal(ori_net_peek(&p.connector, &frame), ORIEL_ERR_AUTH);
	pair_close(&p);
}

/* A recording of one connection opens no other one. */
static void test_a_recorded_connection_opens_nothing(void **state)
{
	static unsigned char bytes[RELAY_MAX];
	enum oriel_status connector, acceptor;
	static struct pair p;
	ssize_t length;

	(void)state;
	pair_open(&p, &right, &right);
	assert_int_equal(ori_net_step(&p.connector), ORIEL_AGAIN);
	length = recv(p.ends[0], bytes, sizeof(bytes), MSG_PEEK);
	assert_true(length > 0);
	pair_meet(&p, &connector, &acceptor);
	assert_int_equal(acceptor, ORIEL_OK);
	pair_close(&p);
	pair_open(&p, &right, &right);
	assert_int_equal(send(p.ends[1], bytes, (size_t)length, 0), length);
	assert_int_equal(ori_net_step(&p.acceptor), ORIEL_AGAIN);
	assert_int_equal(p.acceptor.state, ORI_NET_TLS);
	pair_close(&p);
}

#define LONG_BODY 300000u

/* Move @length bytes each way at once, over sockets that hold less. */
static void exchange(struct pair *p, size_t length)
{
	const struct ori_frame frame = {.type = 3, .length = length};
	unsigned char *sent = malloc(length), *got[2] = {malloc(length), malloc(length)};
	struct ori_net_conn *sides[2] = {&p->connector, &p->acceptor};
	size_t written[2] = {0}, read[2] = {0};
	bool is_begun[2] = {false};
	struct ori_frame heard;
	unsigned i, over;
	size_t at;

	for (at = 0; at < length; at++)
		sent[at] = (unsigned char)(at * 31 >> 3);
	do {
		for (over = i = 0; i < 2; i++) {
			if (written[i] < ORI_FRAME_HEADER + length)
				assert_in_range(ori_net_write(sides[i], &frame, sent, &written[i]),
						ORIEL_OK, ORIEL_AGAIN);
			if (!is_begun[i] && ori_net_peek(sides[i], &heard) == ORIEL_OK) {
				assert_int_equal(heard.length, length);
				ori_net_skip(sides[i]);
				is_begun[i] = true;
			}
			if (is_begun[i])
				assert_in_range(ori_net_read(sides[i], got[i], length, &read[i]),
						ORIEL_OK, ORIEL_AGAIN);
			over += is_begun[i] && read[i] == length &&
				written[i] == ORI_FRAME_HEADER + length;
		}
		relay_turn(p);
	} while (over < 2);
	for (i = 0; i < 2; i++) {
		assert_memory_equal(got[i], sent, length);
		assert_false(sides[i]->is_mid_frame);
		free(got[i]);
	}
	free(sent);
}

static void test_frames_arrive_in_pieces(void **state)
{
	static const struct ori_key *const keys[] = {&right, NULL};
	static const struct {
		size_t piece, length;
	} cases[] = {{RELAY_MAX, LONG_BODY}, {1, 3000}, {1009, LONG_BODY}, {RELAY_MAX, 0}};
	static struct pair p;
	unsigned i, k;
	int few = 4096;

	(void)state;
	for (k = 0; k < 2; k++) {
		for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			pair_open(&p, keys[k], keys[k]);
			setsockopt(p.connector.fd, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
			setsockopt(p.acceptor.fd, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
			p.there.piece = p.back.piece = cases[i].piece;
			pair_meet_well(&p);
			exchange(&p, cases[i].length);
			pair_close(&p);
		}
	}
}

/* Bytes behind the last frame, whether or not they have arrived together with it. */
static void test_a_stream_follows_the_frames(void **state)
{
	static const struct ori_key *const keys[] = {&right, NULL};
	enum oriel_status connector, acceptor;
	static struct pair p;
	struct ori_frame frame;
	char got[9];
	size_t n;
	unsigned i;

	(void)state;
	for (i = 0; i < 2; i++) {
		pair_open(&p, keys[i], keys[i]);
		pair_meet(&p, &connector, &acceptor);
		assert_int_equal(ori_net_stream_write(&p.connector, "stream", 6, &n), ORIEL_OK);
		assert_int_equal(n, 6);
		relay_turn(&p);
		assert_int_equal(ori_net_take(&p.acceptor, &frame, got, 5), ORIEL_OK);
		assert_int_equal(ori_net_stream_read(&p.acceptor, got, 4, &n), ORIEL_OK);
		assert_int_equal(n, 4);
		assert_memory_equal(got, "stre", 4);
		/* The kernel has the rest of a plain stream that did not come with the frame. */
		assert_int_equal(ori_net_stream_holds(&p.acceptor), keys[i] != NULL);
		assert_int_equal(ori_net_stream_read(&p.acceptor, got, 4, &n), ORIEL_OK);
		assert_int_equal(n, 2);
		assert_memory_equal(got, "am", 2);
		assert_false(ori_net_stream_holds(&p.acceptor));
		assert_int_equal(ori_net_stream_read(&p.acceptor, got, 4, &n), ORIEL_AGAIN);
		ori_net_close(&p.connector);
		relay_turn(&p);
		assert_int_equal(ori_net_stream_read(&p.acceptor, got, 4, &n), ORIEL_ERR_PEER);
		assert_int_equal(ori_net_stream_write(&p.connector, "x", 1, &n), ORIEL_ERR_PEER);
		pair_close(&p);
	}
}

static void test_bytes_that_came_with_a_frame_are_held(void **state)
{
	enum oriel_status connector, acceptor;
	static struct pair p;
	struct ori_frame frame;
	char got[9];
	size_t n;

	(void)state;
	pair_open(&p, NULL, NULL);
	p.acceptor.is_local = false; /* over TCP it reads ahead */
	/* The state of a connector whose hello waits in the relay. */
	assert_int_equal(ori_net_step(&p.connector), ORIEL_OK);
	assert_int_equal(ori_net_send(&p.connector, 1, "hello", 5), ORIEL_OK);
	assert_int_equal(ori_net_stream_write(&p.connector, "stream", 6, &n), ORIEL_OK);
	pair_meet(&p, &connector, &acceptor);
	assert_int_equal(acceptor, ORIEL_OK);
	assert_int_equal(ori_net_take(&p.acceptor, &frame, got, 5), ORIEL_OK);
	assert_true(ori_net_stream_holds(&p.acceptor));
	assert_int_equal(ori_net_stream_read(&p.acceptor, got, 6, &n), ORIEL_OK);
	assert_int_equal(n, 6);
	assert_memory_equal(got, "stream", 6);
	pair_close(&p);
}

/* Without MSG_NOSIGNAL this test would end by SIGPIPE. */
static void test_a_closed_connection_raises_no_signal(void **state)
{
	static const struct ori_key *const keys[] = {&right, NULL};
	static struct pair p;
	struct ori_frame frame;
	unsigned k;

	(void)state;
	for (k = 0; k < 2; k++) {
		pair_open(&p, keys[k], keys[k]);
		pair_meet_well(&p);
		close(p.ends[0]);
		assert_int_equal(ori_net_send(&p.connector, 2, "text", 4), ORIEL_ERR_PEER);
		assert_int_equal(ori_net_peek(&p.connector, &frame), ORIEL_ERR_PEER);
		p.ends[0] = dup(p.ends[1]);
		pair_close(&p);
	}
}

/* Behind the last frame the reader sees the end of the stream, and seeks the frame itself. */
static void test_the_last_frame_is_found_behind_others(void **state)
{
	static const struct ori_key *const keys[] = {&right, NULL};
	static struct pair p;
	struct ori_frame frame;
	unsigned k, i;
	char body[8];

	(void)state;
	for (k = 0; k < 2; k++) {
		pair_open(&p, keys[k], keys[k]);
		pair_meet_well(&p);
		for (i = 0; i < 100; i++)
			assert_int_equal(ori_net_send(&p.acceptor, 2, "other", 5), ORIEL_OK);
		assert_int_equal(ori_net_send_last(&p.acceptor, 9, "last", 4), ORIEL_OK);
		for (i = 0; i < 3; i++)
			relay_turn(&p);
		assert_true(ori_net_is_ending(&p.connector));
		assert_int_equal(ori_net_seek(&p.connector, 9), ORIEL_OK);
		assert_int_equal(ori_net_take(&p.connector, &frame, body, sizeof(body)), ORIEL_OK);
		assert_memory_equal(body, "last", 4);
		pair_close(&p);
	}
}

/* Frames with 0, 2, 1 and 3 descriptors, the last one cut short. */
static void test_descriptors_arrive_with_their_frame(void **state)
{
	static struct ori_net_conn from, to;
	const int given[3] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};
	unsigned before = count_fds(), counts[] = {0, 2, 1, 3}, i;
	struct ori_frame frame = {.length = 4};
	int ends[2];
	char body[4];
	size_t done;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	ori_net_open(&from, ends[0], NULL);
	ori_net_open(&to, ends[1], NULL);
	for (i = 0; i < 4; i++) {
		frame.type = i + 1;
		done = 0;
		assert_int_equal(ori_net_write_fds(&from, &frame, "body", given, counts[i], &done),
				 ORIEL_OK);
	}
	for (i = 0; i < 3; i++) {
		assert_int_equal(ori_net_take(&to, &frame, body, sizeof(body)), ORIEL_OK);
		assert_int_equal(frame.type, i + 1);
		assert_int_equal(to.fds.count, counts[i]);
		assert_int_equal(count_fds(), before + 2 + counts[i]);
		if (counts[i])
			assert_int_equal(fcntl(to.fds.of[0], F_GETFD), FD_CLOEXEC);
	}
	assert_int_equal(ori_net_peek(&to, &frame), ORIEL_OK);
	assert_int_equal(to.fds.count, 3 + counts[2]);
	ori_net_close(&to);
	ori_net_close(&from);
	assert_int_equal(count_fds(), before);
}

/* An acceptor takes no descriptors before the first frame has arrived. */
static void test_a_hello_brings_no_descriptors(void **state)
{
	static struct ori_net_conn from, to;
	const struct ori_frame hello = {.type = 1, .length = 5};
	int given = STDERR_FILENO, ends[2];
	unsigned before = count_fds();
	struct ori_frame frame;
	char body[5];
	size_t done = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	ori_net_open(&from, ends[0], NULL);
	ori_net_accept(&to, ends[1], NULL, NULL);
	assert_int_equal(ori_net_write_fds(&from, &hello, "hello", &given, 1, &done), ORIEL_OK);
	assert_int_equal(ori_net_step(&to), ORIEL_OK);
	assert_int_equal(ori_net_take(&to, &frame, body, sizeof(body)), ORIEL_OK);
	assert_int_equal(to.fds.count, 0);
	assert_int_equal(count_fds(), before + 2);
	ori_net_close(&from);
	ori_net_close(&to);
}

/* A TLS acceptor with a certificate of its own making, and no pre-shared key. */
static SSL_CTX *impostor_context(void)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	assert_true(X509_set_pubkey(certificate, key));
	assert_true(X509_sign(certificate, key, EVP_sha256()));
	assert_true(SSL_CTX_use_certificate(context, certificate));
	assert_true(SSL_CTX_use_PrivateKey(context, key));
	X509_free(certificate);
	EVP_PKEY_free(key);
	return context;
}

static void test_a_certificate_replaces_no_key(void **state)
{
	enum oriel_status status = ORIEL_AGAIN;
	SSL_CTX *context = impostor_context();
	SSL *impostor = SSL_new(context);
	static struct pair p;
	int turn;

	(void)state;
	pair_open(&p, &right, &right);
	SSL_set_fd(impostor, p.ends[0]);
	for (turn = 0; turn < 8 && status == ORIEL_AGAIN; turn++) {
		status = ori_net_step(&p.connector);
		SSL_accept(impostor);
	}
	assert_int_equal(status, ORIEL_ERR_PROTOCOL);
	SSL_free(impostor);
	SSL_CTX_free(context);
	pair_close(&p);
}

#define HELLO_NS 10000000000u /* what a connection has for its first frame */

static void keep_text(void *text, enum oriel_log_level level, const char *message)
{
	if (level == ORIEL_LOG_WARN)
		snprintf(text, 300, "%s", message);
}

/* The test moves the deadline of the accepted connection into the past, and does not wait. */
static void test_a_connection_without_a_hello_is_dropped(void **state)
{
	struct ori_address address = {.family = 4, .ip = {127, 0, 0, 1}};
	struct ori_net_listener listener;
	struct ori_traffic traffic = {0};
	char text[300] = "", byte;
	int fd, silent;

	(void)state;
	oriel_log_set_sink(keep_text, text);
	ori_net_listener_init(&listener, NULL, 1, &traffic);
	assert_int_equal(ori_endpoint_listen(&address, &fd), ORIEL_OK);
	assert_int_equal(ori_net_listener_open(&listener, fd), ORIEL_OK);
	silent = socket_connect(&address);
	assert_true(silent >= 0);
	while (!listener.waiting)
		ori_net_listener_serve(&listener);
	assert_true(listener.waiting->deadline > ori_deadline(HELLO_NS / 2));
	assert_true(listener.waiting->deadline <= ori_deadline(HELLO_NS));
	ori_net_listener_serve(&listener);
	assert_non_null(listener.waiting);
	listener.waiting->deadline = 1;
	ori_net_listener_serve(&listener);
	assert_null(listener.waiting);
	assert_int_equal(listener.pending_count, 0);
	assert_non_null(strstr(text, "it sent no hello within 10 s"));
	assert_int_equal(recv(silent, &byte, 1, 0), 0);
	close(silent);
	ori_net_listener_close(&listener);
	oriel_log_set_sink(NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_sides_prove_the_key),
		cmocka_unit_test(test_keys_that_differ_are_named),
		cmocka_unit_test(test_a_connector_without_key_is_refused),
		cmocka_unit_test(test_an_unproven_peer_learns_only_that_it_is_refused),
		cmocka_unit_test(test_a_byte_altered_in_the_handshake_changes_nothing),
		cmocka_unit_test(test_a_byte_altered_later_is_noticed),
		cmocka_unit_test(test_repeated_bytes_are_noticed),
		cmocka_unit_test(test_a_recorded_connection_opens_nothing),
		cmocka_unit_test(test_frames_arrive_in_pieces),
		cmocka_unit_test(test_a_stream_follows_the_frames),
		cmocka_unit_test(test_bytes_that_came_with_a_frame_are_held),
		cmocka_unit_test(test_a_closed_connection_raises_no_signal),
		cmocka_unit_test(test_the_last_frame_is_found_behind_others),
		cmocka_unit_test(test_a_certificate_replaces_no_key),
		cmocka_unit_test(test_a_connection_without_a_hello_is_dropped),
		cmocka_unit_test(test_descriptors_arrive_with_their_frame),
		cmocka_unit_test(test_a_hello_brings_no_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
