/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 over a non-blocking socket, by OpenSSL, with the job key as external pre-shared key and
 * ephemeral Diffie-Hellman (psk_dhe_ke): no certificates, tickets or early data. The connector
 * proves the key first, in its first message. conn.c calls it.
 *
 * No function blocks or raises SIGPIPE: ORIEL_AGAIN means poll() first. ORIEL_ERR_PEER means that
 * the connection is closed. No function but ori_tls_context_create() sets the last error.
 */
#ifndef ORI_NET_TLS_H
#define ORI_NET_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/key.h"

#define ORI_TLS_BATCH 65536u /* bytes that one write seals and sends together */

/* The key and the rules of all connections of one owner; any thread uses them. */
struct ori_tls_context;
enum oriel_status ori_tls_context_create(const struct ori_key *key,
					 struct ori_tls_context **context);
/*
 * One key of a connection seals at most @records records of data, 2^22 by default; the unit tests
 * of this module lower it before they open connections.
 */
void ori_tls_context_limit(struct ori_tls_context *context, uint64_t records);
/*
 * Peers that ask for the key get @credential, copied, by which those of this user learn it
 * (sys/munge.h). ORIEL_ERR_NOMEM. Before connections are accepted.
 */
enum oriel_status ori_tls_context_seal(struct ori_tls_context *context, const char *credential);
/* That text, or NULL. */
const char *ori_tls_context_sealed(const struct ori_tls_context *context);
/* NULL is allowed. The connections are closed before. */
void ori_tls_context_destroy(struct ori_tls_context *context);

/*
 * The TLS of one connection, whose @fd is borrowed. *@sent counts all bytes
 * sent, if it is not NULL. NULL: no memory.
 */
struct ori_tls;
struct ori_tls *ori_tls_create(struct ori_tls_context *context, int fd, bool is_connector,
			       _Atomic(uint64_t) *sent);
void ori_tls_destroy(struct ori_tls *tls);

/*
 * ORIEL_ERR_AUTH: the peer has no or another key, as *@why says; it reads "has another
 * ORIEL_JOB_KEY ...". ORIEL_ERR_PROTOCOL: the peer is no Oriel process.
 */
enum oriel_status ori_tls_handshake(struct ori_tls *tls, const char **why);
/* Does the handshake wait for room in the socket, rather than for bytes? */
bool ori_tls_wants_room(const struct ori_tls *tls);

/* ORIEL_ERR_AUTH: bytes were altered, added or repeated on the way, here or at the peer. */
enum oriel_status ori_tls_read(struct ori_tls *tls, void *data, size_t length, size_t *got);
/* Are there received bytes that no call has read yet? They may be a part of a record. */
bool ori_tls_holds(const struct ori_tls *tls);
/*
 * Send the bytes of both parts, or the first ORI_TLS_BATCH of them; *@done counts them. After
 * ORIEL_AGAIN the next call has the same bytes: they are sealed, and a part may be on its way.
 */
enum oriel_status ori_tls_write(struct ori_tls *tls, const struct iovec parts[2], size_t *done);

#endif
