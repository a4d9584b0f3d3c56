/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job key, of ORIEL_JOB_KEY or of a job id, and the pre-shared key of TLS that is derived from
 * it. Modules that open connections read it, tls.c derives.
 */
#ifndef ORI_NET_KEY_H
#define ORI_NET_KEY_H

#include <stddef.h>

#include <oriel/status.h>

#define ORI_KEY_MAX 128
#define ORI_PSK_LENGTH 32

struct ori_key {
	size_t length; /* 0: the job has no key */
	unsigned char bytes[ORI_KEY_MAX];
};

/*
 * Read ORIEL_JOB_KEY, whose text oriel_settings_check() has checked; where it is not set, the key
 * of ori_key_adopt(). Any thread.
 */
void ori_key_read(struct ori_key *key);

/*
 * @key is that of a job which this process joins by a job id. The first one stays, for what all
 * jobs of the process share and for p2p contexts without a communicator. Any thread.
 */
void ori_key_adopt(const struct ori_key *key);

/* HKDF with SHA-256 and a fixed label. */
enum oriel_status ori_key_derive(const struct ori_key *key, unsigned char psk[ORI_PSK_LENGTH]);

#endif
