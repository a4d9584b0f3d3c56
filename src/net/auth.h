/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof that the peer knows the job key, without sending the key: HMAC-SHA256 over a nonce of
 * each side. The MAC covers the role, so that a proof cannot be reflected to its sender. The
 * handshakes of src/p2p and of the software HCA call it.
 */
#ifndef ORI_NET_AUTH_H
#define ORI_NET_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "net/key.h"

#define ORI_NONCE_LENGTH 32
#define ORI_MAC_LENGTH 32
#define ORI_AUTH_BODY_MAX 128 /* bytes that a MAC covers besides the nonces */

/* The nonces of both sides. */
struct ori_auth {
	unsigned char connector[ORI_NONCE_LENGTH];
	unsigned char acceptor[ORI_NONCE_LENGTH];
};

enum ori_role { ORI_ROLE_CONNECTOR = 'C', ORI_ROLE_ACCEPTOR = 'A' };

enum oriel_status ori_auth_nonce(unsigned char nonce[ORI_NONCE_LENGTH]);

/* Compute the MAC of the nonces, @role and @length bytes (at most ORI_AUTH_BODY_MAX) of @body. */
enum oriel_status ori_auth_mac(const struct ori_key *key, const struct ori_auth *auth,
			       enum ori_role role, const void *body, size_t length,
			       unsigned char mac[ORI_MAC_LENGTH]);

/* Compare in constant time, so that the duration does not reveal how many bytes match. */
bool ori_auth_equal(const unsigned char a[ORI_MAC_LENGTH], const unsigned char b[ORI_MAC_LENGTH]);

#endif
