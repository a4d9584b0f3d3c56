/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of TLS over long streams and by several threads: keys change on the way, and
 * connections of one context run at once. The sockets hold less than one write.
 */
#include "net/conn.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#define STREAM 2000000u
#define RECORD_EXTRA 22u /* around the plaintext of a record (RFC 8446, section 5.2) */
#define UPDATE 27u       /* a record with a KeyUpdate: 5 bytes of plaintext */
#define PLAIN 16384u     /* bytes in a full record */

static const struct ori_key key = {16, "a key for a test"};

/* Two sides, each with the traffic that it has sent. */
struct duo {
	struct ori_net_conn conn[2];
	struct ori_traffic traffic[2];
};

static bool duo_open(struct duo *d, struct ori_tls_context *contexts[2])
{
	enum oriel_status status[2] = {ORIEL_AGAIN, ORIEL_AGAIN};
	struct ori_frame frame;
	int fds[2], few = 4096;
	unsigned i;

	memset(d, 0, sizeof(*d));
	for (i = 0; i < 2; i++)
		ori_net_open(&d->conn[i], -1, NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0)
		return false;
	for (i = 0; i < 2; i++)
		setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
	ori_net_open(&d->conn[0], fds[0], &d->traffic[0]);
	d->conn[0].state = ORI_NET_CONNECTING;
	d->conn[0].is_connector = true;
	d->conn[0].context = contexts[0];
	ori_net_accept(&d->conn[1], fds[1], contexts[1], &d->traffic[1]);
	d->conn[0].is_local = d->conn[1].is_local = false; /* they stand for TCP */
	while (status[0] == ORIEL_AGAIN || status[1] == ORIEL_AGAIN) {
		if (status[0] == ORIEL_AGAIN)
			status[0] = ori_net_step(&d->conn[0]);
		if (status[0] == ORIEL_OK && !d->traffic[0].frames)
			status[0] = ori_net_send(&d->conn[0], 1, NULL, 0);
		if (status[1] == ORIEL_AGAIN)
			status[1] = ori_net_step(&d->conn[1]);
	}
	d->traffic[0].bytes = d->traffic[1].bytes = 0;
	return status[0] == ORIEL_OK && status[1] == ORIEL_OK &&
	       ori_net_take(&d->conn[1], &frame, NULL, 0) == ORIEL_OK;
}

static void duo_close(struct duo *d)
{
	ori_net_close(&d->conn[0]);
	ori_net_close(&d->conn[1]);
}

/* Returns the byte at @at of the stream from side @i. */
static unsigned char stream_byte(unsigned i, size_t at)
{
	return (unsigned char)(at * 31 >> 7 ^ at ^ i);
}

/* Write a part of what side @i sends. False: it fails. */
static bool stream_write(struct duo *d, unsigned i, size_t piece, size_t *sent)
{
	unsigned char bytes[3 * PLAIN];
	enum oriel_status status;
	size_t length = STREAM - *sent < piece ? STREAM - *sent : piece, n, at;

	for (at = 0; at < length; at++)
		bytes[at] = stream_byte(i, *sent + at);
	status = length ? ori_net_stream_write(&d->conn[i], bytes, length, &n) : ORIEL_AGAIN;
	if (status == ORIEL_OK)
		*sent += n;
	return status == ORIEL_OK || status == ORIEL_AGAIN;
}

/* Read what has arrived at side @i, and compare it. False: it differs, or there is an error. */
static bool stream_read(struct duo *d, unsigned i, size_t *got)
{
	enum oriel_status status;
	unsigned char bytes[5000];
	size_t n, at;

	while ((status = ori_net_stream_read(&d->conn[i], bytes, sizeof(bytes), &n)) == ORIEL_OK) {
		for (at = 0; at < n; at++)
			if (bytes[at] != stream_byte(1 - i, *got + at))
				return false;
		*got += n;
	}
	return status == ORIEL_AGAIN;
}

/* STREAM bytes each way at once: both sides write what their socket takes, and then read. */
static bool duo_stream(struct duo *d, size_t piece)
{
	size_t sent[2] = {0}, got[2] = {0};
	unsigned i;

	while (got[0] < STREAM || got[1] < STREAM) {
		for (i = 0; i < 2; i++)
			if (!stream_write(d, i, piece, &sent[i]))
				return false;
		for (i = 0; i < 2; i++)
			if (!stream_read(d, i, &got[i]))
				return false;
	}
	return true;
}

static uint64_t records_of(size_t bytes)
{
	return (bytes + PLAIN - 1) / PLAIN;
}

/* The bytes on the wire say how often each side has changed its key. */
static void test_keys_change_within_a_stream(void **state)
{
	static const struct {
		size_t piece;
		uint64_t limit, most; /* updates */
	} cases[] = {{PLAIN, 1u << 22, 0}, {1000, 3, 1000}, {3 * PLAIN, 10, 40}};
	struct ori_tls_context *contexts[2];
	static struct duo d;
	unsigned i, c;

	(void)state;
	for (c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		size_t piece = cases[c].piece;
		uint64_t records = STREAM / piece * records_of(piece) + records_of(STREAM % piece);
		uint64_t others;

		for (i = 0; i < 2; i++) {
			assert_int_equal(ori_tls_context_create(&key, &contexts[i]), ORIEL_OK);
			ori_tls_context_limit(contexts[i], cases[c].limit);
		}
		assert_true(duo_open(&d, contexts));
		assert_true(duo_stream(&d, piece));
		for (i = 0; i < 2; i++) {
			others = d.traffic[i].bytes - STREAM - records * RECORD_EXTRA;
			assert_int_equal(others % UPDATE, 0);
			assert_in_range(others / UPDATE, (records - 1) / cases[c].limit,
					cases[c].most);
		}
		duo_close(&d);
		for (i = 0; i < 2; i++)
			ori_tls_context_destroy(contexts[i]);
	}
}

static void *run_duos(void *arg)
{
	struct ori_tls_context *both[2] = {arg, arg};
	struct duo *d = malloc(sizeof(*d));
	bool is_right = d != NULL;
	unsigned i;

	for (i = 0; i < 4 && is_right; i++) {
		is_right = duo_open(d, both) && duo_stream(d, PLAIN);
		duo_close(d);
	}
	free(d);
	return is_right ? arg : NULL;
}

/* The reasoning of tls.h, for ThreadSanitizer: a context may be shared, a connection may not. */
static void test_threads_share_a_context(void **state)
{
	struct ori_tls_context *context;
	pthread_t threads[2];
	void *result;
	unsigned i;

	(void)state;
	assert_int_equal(ori_tls_context_create(&key, &context), ORIEL_OK);
	ori_tls_context_limit(context, 20);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_duos, context), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_ptr_equal(result, context);
	}
	ori_tls_context_destroy(context);
}

/* A call fails as SSL_write_ex(3) may: SSL_get_error(3) allows no operation afterwards. */
static unsigned write_that_fails; /* 0: none */

static atomic_uint reads;

int __real_SSL_read_ex(SSL *ssl, void *data, size_t length, size_t *got);
int __wrap_SSL_read_ex(SSL *ssl, void *data, size_t length, size_t *got);
int __real_SSL_write_ex(SSL *ssl, const void *data, size_t length, size_t *written);
int __wrap_SSL_write_ex(SSL *ssl, const void *data, size_t length, size_t *written);

int __wrap_SSL_write_ex(SSL *ssl, const void *data, size_t length, size_t *written)
{
	if (write_that_fails && --write_that_fails == 0)
		return 0;
	return __real_SSL_write_ex(ssl, data, length, written);
}

int __wrap_SSL_read_ex(SSL *ssl, void *data, size_t length, size_t *got)
{
	atomic_fetch_add(&reads, 1);
	return __real_SSL_read_ex(ssl, data, length, got);
}

/* The socket answers polls of an idle connection; bytes and the end still go through OpenSSL. */
static void test_an_idle_connection_is_not_read(void **state)
{
	struct ori_tls_context *context, *both[2];
	struct ori_frame frame;
	static struct duo d;
	char body[8];
	unsigned i;

	(void)state;
	assert_int_equal(ori_tls_context_create(&key, &context), ORIEL_OK);
	both[0] = both[1] = context;
	assert_true(duo_open(&d, both));
	for (i = 0, reads = 0; i < 3; i++)
		assert_int_equal(ori_net_take(&d.conn[1], &frame, body, sizeof(body)), ORIEL_AGAIN);
	assert_int_equal(reads, 0);
	assert_int_equal(ori_net_send(&d.conn[0], 7, "some", 5), ORIEL_OK);
	assert_int_equal(ori_net_take(&d.conn[1], &frame, body, sizeof(body)), ORIEL_OK);
	assert_int_equal(frame.type, 7);
	ori_net_close(&d.conn[0]);
	assert_int_equal(ori_net_take(&d.conn[1], &frame, body, sizeof(body)), ORIEL_ERR_PEER);
	duo_close(&d);
	ori_tls_context_destroy(context);
}

/* A frame whose header is sealed and whose body is not: the next one would get its header. */
static void test_nothing_follows_a_write_that_failed(void **state)
{
	struct ori_tls_context *context, *both[2];
	struct ori_frame frame;
	static struct duo d;
	char body[8];

	(void)state;
	assert_int_equal(ori_tls_context_create(&key, &context), ORIEL_OK);
	both[0] = both[1] = context;
	assert_true(duo_open(&d, both));
	write_that_fails = 2;
	assert_int_equal(ori_net_send(&d.conn[0], 7, "before", 7), ORIEL_ERR_PEER);
	assert_int_equal(write_that_fails, 0);
	assert_int_equal(ori_net_send(&d.conn[0], 8, "behind", 7), ORIEL_ERR_PEER);
	assert_int_equal(ori_net_take(&d.conn[1], &frame, body, sizeof(body)), ORIEL_AGAIN);
	duo_close(&d);
	ori_tls_context_destroy(context);
}

/* A reader that had no use for the first answer, as it had another message, gets it again. */
static void test_altered_bytes_are_reported_at_each_read(void **state)
{
	static const char record[] = "\x17\x03\x03\x00\x20 bytes that no key has sealed ...";
	struct ori_tls_context *context, *both[2];
	struct ori_frame frame;
	static struct duo d;
	char body[8];

	(void)state;
	assert_int_equal(ori_tls_context_create(&key, &context), ORIEL_OK);
	both[0] = both[1] = context;
	assert_true(duo_open(&d, both));
	assert_int_equal(send(d.conn[0].fd, record, sizeof(record), MSG_NOSIGNAL), sizeof(record));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ori_net_take(&d.conn[1], &frame, body, sizeof(body)),
				 ORIEL_ERR_AUTH);
	duo_close(&d);
	ori_tls_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys_change_within_a_stream),
		cmocka_unit_test(test_threads_share_a_context),
		cmocka_unit_test(test_nothing_follows_a_write_that_failed),
		cmocka_unit_test(test_an_idle_connection_is_not_read),
		cmocka_unit_test(test_altered_bytes_are_reported_at_each_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
