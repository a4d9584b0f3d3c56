/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nonces and MACs of the mutual proof of the job key. The handshakes of src/p2p and
 * of the software HCA call it.
 */
#include "net/auth.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/error.h"

enum oriel_status ori_auth_nonce(unsigned char nonce[ORI_NONCE_LENGTH])
{
	if (getrandom(nonce, ORI_NONCE_LENGTH, 0) != ORI_NONCE_LENGTH)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "getrandom");
	return ORIEL_OK;
}

enum oriel_status ori_auth_mac(const struct ori_key *key, const struct ori_auth *auth,
			       enum ori_role role, const void *body, size_t length,
			       unsigned char mac[ORI_MAC_LENGTH])
{
	unsigned char text[1 + 2 * ORI_NONCE_LENGTH + ORI_AUTH_BODY_MAX];
	unsigned mac_length = 0;

	assert(length <= ORI_AUTH_BODY_MAX);
	text[0] = (unsigned char)role;
	memcpy(text + 1, auth->connector, ORI_NONCE_LENGTH);
	memcpy(text + 1 + ORI_NONCE_LENGTH, auth->acceptor, ORI_NONCE_LENGTH);
	if (length)
		memcpy(text + 1 + 2 * ORI_NONCE_LENGTH, body, length);
	if (!HMAC(EVP_sha256(), key->bytes, (int)key->length, text,
		  1 + 2 * ORI_NONCE_LENGTH + length, mac, &mac_length) ||
	    mac_length != ORI_MAC_LENGTH)
		return ori_fail(ORIEL_ERR_SYSTEM, "libcrypto computes no HMAC-SHA256");
	return ORIEL_OK;
}

bool ori_auth_equal(const unsigned char a[ORI_MAC_LENGTH], const unsigned char b[ORI_MAC_LENGTH])
{
	return CRYPTO_memcmp(a, b, ORI_MAC_LENGTH) == 0;
}
