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
 * Read the key of the settings (base/job_key.h); where they have none, the key of ori_key_adopt();
 * of length 0 if there is none either. ORIEL_ERR_CONFIG: the settings are wrong, or ORIEL_JOB_KEY
 * is "required" and there is no key; *@key has length 0. The caller wipes it. Any thread.
 */
enum oriel_status ori_key_read(struct ori_key *key);

/*
 * @key is that of a job which this process joins by a job id. The first one stays, for what all
 * jobs of the process share and for p2p contexts without a communicator. ORIEL_ERR_NOMEM. Any
 * thread.
 */
enum oriel_status ori_key_adopt(const struct ori_key *key);

/* HKDF with SHA-256 and a fixed label. */
enum oriel_status ori_key_derive(const struct ori_key *key, unsigned char psk[ORI_PSK_LENGTH]);

#endif
