/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 with an external pre-shared key by OpenSSL. A BIO of its own gathers the records of one
 * write for a single send(); OpenSSL's socket BIO sends each record by itself, and raises SIGPIPE.
 * conn.c calls it.
 */
#include "net/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/error.h"
#include "base/secret.h"

/* Both sides know one key only, so its name distinguishes nothing. */
#define TLS_IDENTITY "oriel"
#define TLS_SUITE "TLS_AES_128_GCM_SHA256"
#define TLS_ALERT(code) (SSL_AD_REASON_OFFSET + (code))

/*
 * AES-GCM is safe for 2^24.5 records of one key (RFC 8446, section 5.5), of any length; each side
 * changes the key of its direction long before.
 */
#define TLS_KEY_RECORDS (UINT64_C(1) << 22)
#define TLS_RECORD_EXTRA 22 /* bytes of a record around its plaintext: header, type and tag */
#define TLS_OTHER_EXTRA 64  /* a KeyUpdate of 27 bytes in front, an alert of 24 behind */

struct ori_tls_context {
	SSL_CTX *ssl;
	unsigned char *psk;   /* secret memory, [ORI_PSK_LENGTH] */
	uint64_t key_records; /* that one key seals at most */
	char *sealed;         /* the key as munge seals it, or NULL */
};

/* Sealed records on their way to the socket. */
struct tls_out {
	size_t plain; /* bytes that the records carry */
	size_t start, end, size;
	unsigned char bytes[];
};

/*
 * Plaintext that needs no memory when it is sent: a frame that says what failed, or lets a rank in,
 * and the last frame of a rank that has none.
 */
#define TLS_SMALL 1024u
#define TLS_SMALL_OUT (TLS_SMALL + 2 * TLS_RECORD_EXTRA + TLS_OTHER_EXTRA)

struct ori_tls {
	SSL *ssl;
	int fd;
	_Atomic(uint64_t) *sent;
	uint64_t key_records, records; /* that one key may seal, that this key has sealed */
	struct tls_out *out;           /* NULL: all that was sealed has been sent */
	struct tls_out *small;         /* of TLS_SMALL_OUT, behind this struct */
	bool is_altered;               /* a read failed: OpenSSL says so once, later an end */
	bool is_broken;                /* a write failed, and no other follows (SSL_get_error(3)) */
};

static bool tls_is_temporary(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static ssize_t tls_send(const struct ori_tls *tls, const void *data, size_t length)
{
	ssize_t n = send(tls->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0 && tls->sent)
		*tls->sent += (uint64_t)n;
	return n;
}

static int tls_socket_write(BIO *bio, const char *data, int length)
{
	struct ori_tls *tls = BIO_get_data(bio);
	struct tls_out *out = tls->out;
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (out && (size_t)length > out->size - out->end)
		return -1;
	if (out) {
		memcpy(out->bytes + out->end, data, (size_t)length);
		out->end += (size_t)length;
		return length;
	}
	/* Without a write that gathers: a part of the handshake, or an alert. */
	n = tls_send(tls, data, (size_t)length);
	if (n < 0 && tls_is_temporary())
		BIO_set_retry_write(bio);
	return (int)n;
}

static int tls_socket_read(BIO *bio, char *data, int length)
{
	struct ori_tls *tls = BIO_get_data(bio);
	ssize_t n = recv(tls->fd, data, (size_t)length, MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (n < 0 && tls_is_temporary())
		BIO_set_retry_read(bio);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long tls_socket_control(BIO *bio, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH;
}

static int tls_socket_create(BIO *bio)
{
	BIO_set_init(bio, 1);
	return 1;
}

/* OpenSSL numbers at most 127 methods in a process, so that all contexts share this one. */
static BIO_METHOD *tls_socket;
static pthread_once_t tls_once = PTHREAD_ONCE_INIT;

static void tls_make_socket(void)
{
	BIO_METHOD *method =
		BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "oriel socket");

	if (method && BIO_meth_set_write(method, tls_socket_write) &&
	    BIO_meth_set_read(method, tls_socket_read) &&
	    BIO_meth_set_ctrl(method, tls_socket_control) &&
	    BIO_meth_set_create(method, tls_socket_create))
		tls_socket = method;
	else
		BIO_meth_free(method);
}

/* The job key as a session of TLS, which is how OpenSSL takes an external pre-shared key. */
static SSL_SESSION *tls_session(SSL *ssl)
{
	static const unsigned char suite[] = {0x13, 0x01}; /* TLS_SUITE */
	const struct ori_tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && cipher &&
	    SSL_SESSION_set1_master_key(session, context->psk, ORI_PSK_LENGTH) &&
	    SSL_SESSION_set_cipher(session, cipher) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int tls_offer_key(SSL *ssl, const EVP_MD *md, const unsigned char **identity,
			 size_t *identity_length, SSL_SESSION **session)
{
	(void)md; /* that of the only cipher suite */
	*session = tls_session(ssl);
	*identity = (const unsigned char *)TLS_IDENTITY;
	*identity_length = strlen(TLS_IDENTITY);
	return *session != NULL;
}

static int tls_find_key(SSL *ssl, const unsigned char *identity, size_t identity_length,
			SSL_SESSION **session)
{
	*session = NULL;
	if (identity_length == strlen(TLS_IDENTITY) &&
	    memcmp(identity, TLS_IDENTITY, identity_length) == 0)
		*session = tls_session(ssl);
	return 1;
}

static bool tls_set_rules(SSL_CTX *ssl)
{
	SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
					 SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_clear_options(ssl, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(ssl, 1);
	SSL_CTX_set_default_read_buffer_len(ssl, ORI_TLS_BATCH);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_psk_use_session_callback(ssl, tls_offer_key);
	SSL_CTX_set_psk_find_session_callback(ssl, tls_find_key);
	return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) &&
	       SSL_CTX_set_ciphersuites(ssl, TLS_SUITE) &&
	       SSL_CTX_set1_groups_list(ssl, "X25519:P-256") && SSL_CTX_set_num_tickets(ssl, 0) &&
	       SSL_CTX_set_max_early_data(ssl, 0);
}

enum oriel_status ori_tls_context_create(const struct ori_key *key,
					 struct ori_tls_context **context)
{
	struct ori_tls_context *made = calloc(1, sizeof(*made));
	enum oriel_status status;

	if (!made)
		return ori_fail_nomem(sizeof(*made), "TLS");
	made->psk = ori_secret_alloc(ORI_PSK_LENGTH);
	status = made->psk ? ori_key_derive(key, made->psk)
			   : ori_fail_nomem(ORI_PSK_LENGTH, "the key of TLS");
	if (status != ORIEL_OK)
		goto err_destroy;
	pthread_once(&tls_once, tls_make_socket);
	ERR_clear_error();
	made->ssl = SSL_CTX_new(TLS_method());
	if (!made->ssl || !tls_socket || !tls_set_rules(made->ssl)) {
		status = ori_fail(ORIEL_ERR_SYSTEM,
				  "libssl offers no TLS 1.3 with " TLS_SUITE ": %s",
				  ERR_reason_error_string(ERR_peek_error()));
		goto err_destroy;
	}
	SSL_CTX_set_app_data(made->ssl, made);
	made->key_records = TLS_KEY_RECORDS;
	*context = made;
	return ORIEL_OK;

err_destroy:
	ori_tls_context_destroy(made);
	return status;
}

void ori_tls_context_limit(struct ori_tls_context *context, uint64_t records)
{
	context->key_records = records;
}

enum oriel_status ori_tls_context_seal(struct ori_tls_context *context, const char *credential)
{
	context->sealed = strdup(credential);
	return context->sealed ? ORIEL_OK : ori_fail_nomem(strlen(credential), "a credential");
}

const char *ori_tls_context_sealed(const struct ori_tls_context *context)
{
	return context->sealed;
}

void ori_tls_context_destroy(struct ori_tls_context *context)
{
	if (!context)
		return;
	SSL_CTX_free(context->ssl);
	ori_secret_free(context->psk, ORI_PSK_LENGTH);
	free(context->sealed);
	free(context);
}

struct ori_tls *ori_tls_create(struct ori_tls_context *context, int fd, bool is_connector,
			       _Atomic(uint64_t) *sent)
{
	struct ori_tls *tls = calloc(1, sizeof(*tls) + sizeof(struct tls_out) + TLS_SMALL_OUT);
	BIO *bio = tls ? BIO_new(tls_socket) : NULL;

	if (!bio)
		goto err_free;
	*tls = (struct ori_tls){
		.ssl = SSL_new(context->ssl),
		.fd = fd,
		.sent = sent,
		.key_records = context->key_records,
		.small = (struct tls_out *)(tls + 1),
	};
	if (!tls->ssl)
		goto err_free_bio;
	BIO_set_data(bio, tls);
	SSL_set_bio(tls->ssl, bio, bio);
	if (!is_connector) {
		SSL_set_accept_state(tls->ssl);
		return tls;
	}
	/* Otherwise an acceptor could ignore the key and show any certificate instead. */
	SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL);
	SSL_set_connect_state(tls->ssl);
	return tls;

err_free_bio:
	BIO_free(bio);
err_free:
	free(tls);
	return NULL;
}

void ori_tls_destroy(struct ori_tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	if (tls->out != tls->small)
		free(tls->out);
	free(tls);
}

/* ORIEL_AGAIN, ORIEL_ERR_PEER, or ORIEL_ERR_AUTH for an error of TLS itself. */
static enum oriel_status tls_outcome(const struct ori_tls *tls, int returned)
{
	switch (SSL_get_error(tls->ssl, returned)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return ORIEL_AGAIN;
	case SSL_ERROR_SSL:
		return ORIEL_ERR_AUTH;
	default:
		return ORIEL_ERR_PEER;
	}
}

/*
 * The meaning of a failed handshake. The acceptor finds a wrong key by the connector's proof
 * (binder), and the connector by the alert that follows; conn.c sends unknown_psk_identity
 * without a key.
 */
static enum oriel_status tls_refused(const char **why)
{
	switch (ERR_GET_REASON(ERR_peek_error())) {
	case SSL_R_BINDER_DOES_NOT_VERIFY:
	case TLS_ALERT(SSL_AD_ILLEGAL_PARAMETER):
	case TLS_ALERT(SSL_AD_DECRYPT_ERROR):
		*why = "has another ORIEL_JOB_KEY than this process";
		return ORIEL_ERR_AUTH;
	case TLS_ALERT(SSL_AD_UNKNOWN_PSK_IDENTITY):
		*why = "has no ORIEL_JOB_KEY, but this process has one";
		return ORIEL_ERR_AUTH;
	default:
		return ORIEL_ERR_PROTOCOL;
	}
}

enum oriel_status ori_tls_handshake(struct ori_tls *tls, const char **why)
{
	enum oriel_status status;
	int returned;

	ERR_clear_error();
	returned = SSL_do_handshake(tls->ssl);
	status = returned == 1 ? ORIEL_OK : tls_outcome(tls, returned);
	if (status == ORIEL_ERR_AUTH)
		status = tls_refused(why);
	/* No handshake succeeds without the key; this check is a second one of the same fact. */
	if (status == ORIEL_OK && !SSL_session_reused(tls->ssl))
		status = ORIEL_ERR_PROTOCOL;
	ERR_clear_error();
	return status;
}

bool ori_tls_wants_room(const struct ori_tls *tls)
{
	return SSL_want_write(tls->ssl);
}

/* Send what is left of the sealed records; ORIEL_OK once the socket has all of them. */
static enum oriel_status tls_flush(struct ori_tls *tls)
{
	struct tls_out *out = tls->out;

	while (out->start < out->end) {
		ssize_t n = tls_send(tls, out->bytes + out->start, out->end - out->start);

		if (n < 0)
			return tls_is_temporary() ? ORIEL_AGAIN : ORIEL_ERR_PEER;
		out->start += (size_t)n;
	}
	tls->out = NULL;
	if (out != tls->small)
		free(out);
	return ORIEL_OK;
}

/*
 * Does the socket have bytes, or an end? Owners poll connections that carry nothing most of the
 * time, and SSL_read_ex() takes 0.6 us to find that out, where recv() takes 0.24.
 */
static bool tls_has_input(const struct ori_tls *tls)
{
	char first;

	return SSL_has_pending(tls->ssl) || SSL_want_write(tls->ssl) ||
	       recv(tls->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || !tls_is_temporary();
}

enum oriel_status ori_tls_read(struct ori_tls *tls, void *data, size_t length, size_t *got)
{
	enum oriel_status status = ORIEL_OK;

	if (tls->is_altered)
		return ORIEL_ERR_AUTH;
	if (!tls_has_input(tls))
		return ORIEL_AGAIN;
	ERR_clear_error();
	if (!SSL_read_ex(tls->ssl, data, length, got))
		status = tls_outcome(tls, 0);
	tls->is_altered = status == ORIEL_ERR_AUTH;
	/* The alert stands behind a write that has not ended. */
	if (status == ORIEL_ERR_AUTH && tls->out)
		(void)tls_flush(tls);
	ERR_clear_error();
	return status;
}

bool ori_tls_holds(const struct ori_tls *tls)
{
	return SSL_has_pending(tls->ssl);
}

/* Records that @plain bytes in two parts take at most: each part ends in one that is not full. */
static size_t tls_records(size_t plain)
{
	return plain / SSL3_RT_MAX_PLAIN_LENGTH + 2;
}

static bool tls_open_out(struct ori_tls *tls, size_t plain)
{
	size_t size = plain + tls_records(plain) * TLS_RECORD_EXTRA + TLS_OTHER_EXTRA;

	tls->out = size <= TLS_SMALL_OUT ? tls->small : malloc(sizeof(*tls->out) + size);
	if (tls->out)
		*tls->out = (struct tls_out){.size = size};
	return tls->out;
}

/*
 * Seal @left bytes, ORI_TLS_BATCH at most. The peer is not asked to change its key, too: its answer
 * would have to wait for room in its socket while it reads, and two such sides would wait for ever.
 */
static enum oriel_status tls_seal(struct ori_tls *tls, const struct iovec parts[2], size_t left)
{
	size_t sealed;
	unsigned i;

	if (tls->records + tls_records(left) > tls->key_records) {
		if (!SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED))
			return ORIEL_ERR_PEER;
		tls->records = 0;
	}
	for (i = 0; i < 2; i++) {
		size_t length = parts[i].iov_len < left ? parts[i].iov_len : left;

		if (!length)
			continue;
		if (!SSL_write_ex(tls->ssl, parts[i].iov_base, length, &sealed))
			return tls_outcome(tls, 0);
		tls->records += (length + SSL3_RT_MAX_PLAIN_LENGTH - 1) / SSL3_RT_MAX_PLAIN_LENGTH;
		tls->out->plain += length;
		left -= length;
	}
	return ORIEL_OK;
}

enum oriel_status ori_tls_write(struct ori_tls *tls, const struct iovec parts[2], size_t *done)
{
	enum oriel_status status = ORIEL_OK;
	size_t plain = parts[0].iov_len + parts[1].iov_len;

	/* Records that are sealed already hold other bytes than those of this call. */
	if (tls->is_broken)
		return ORIEL_ERR_PEER;
	ERR_clear_error();
	if (!tls->out) {
		plain = plain < ORI_TLS_BATCH ? plain : ORI_TLS_BATCH;
		/* Nothing is sealed: smaller writes may follow. */
		if (!tls_open_out(tls, plain))
			return ORIEL_ERR_NOMEM;
		status = tls_seal(tls, parts, plain);
	}
	ERR_clear_error();
	tls->is_broken = status != ORIEL_OK;
	if (tls->is_broken)
		return status;
	plain = tls->out->plain;
	status = tls_flush(tls);
	if (status == ORIEL_OK)
		*done = plain;
	return status;
}
