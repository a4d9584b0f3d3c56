/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the job key, and derives the pre-shared key of TLS from it. tls.c and openers call it. */
#include "net/key.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "base/error.h"
#include "base/job_key.h"
#include "base/secret.h"

/* The key of no other use is derived with this label. */
#define KEY_LABEL "oriel tls psk"

static unsigned key_digit(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
}

enum key_state { KEY_NONE, KEY_WRITTEN, KEY_READABLE };

/* The key is written once, by the thread that takes the state from NONE to WRITTEN. */
static struct {
	_Atomic int state;   /* enum key_state */
	struct ori_key *key; /* secret memory */
} key_adopted;

enum oriel_status ori_key_adopt(const struct ori_key *key)
{
	int none = KEY_NONE;
	struct ori_key *copy;

	if (!atomic_compare_exchange_strong_explicit(&key_adopted.state, &none, KEY_WRITTEN,
						     memory_order_relaxed, memory_order_relaxed))
		return ORIEL_OK;
	copy = ori_secret_alloc(sizeof(*copy));
	if (!copy) {
		atomic_store_explicit(&key_adopted.state, KEY_NONE, memory_order_relaxed);
		return ori_fail_nomem(sizeof(*copy), "the job key");
	}
	*copy = *key;
	key_adopted.key = copy;
	/* Pairs with the acquire of ori_key_read(). */
	atomic_store_explicit(&key_adopted.state, KEY_READABLE, memory_order_release);
	return ORIEL_OK;
}

static enum oriel_status key_read_adopted(struct ori_key *key)
{
	if (atomic_load_explicit(&key_adopted.state, memory_order_acquire) == KEY_READABLE)
		*key = *key_adopted.key;
	if (!key->length && ori_job_key_is_required())
		return ori_fail(
			ORIEL_ERR_CONFIG,
			"ORIEL_JOB_KEY is 'required', but this job has no key: " ORI_JOB_KEY_HOW);
	return ORIEL_OK;
}

enum oriel_status ori_key_read(struct ori_key *key)
{
	char text[ORI_JOB_KEY_TEXT];
	const char *at = text;
	enum oriel_status status = ori_job_key_text(text);

	for (key->length = 0; *at && key->length < sizeof(key->bytes); at += 2)
		key->bytes[key->length++] =
			(unsigned char)(key_digit(at[0]) << 4 | key_digit(at[1]));
	explicit_bzero(text, sizeof(text));
	return status == ORIEL_OK && !key->length ? key_read_adopted(key) : status;
}

enum oriel_status ori_key_derive(const struct ori_key *key, unsigned char psk[ORI_PSK_LENGTH])
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	unsigned char *bytes = (unsigned char *)(uintptr_t)key->bytes; /* only read */
	char digest[] = "SHA256", label[] = KEY_LABEL;
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, bytes, key->length),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, label, sizeof(label) - 1),
		OSSL_PARAM_construct_end(),
	};
	bool is_derived = context && EVP_KDF_derive(context, psk, ORI_PSK_LENGTH, params) == 1;

	EVP_KDF_CTX_free(context);
	EVP_KDF_free(kdf);
	return is_derived ? ORIEL_OK : ori_fail(ORIEL_ERR_SYSTEM, "libcrypto computes no HKDF");
}
