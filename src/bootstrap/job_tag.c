/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and compares job tags, from the job key or from the variables of launchers. env.c makes
 * the tag of this process, the listener compares it with that of each connector.
 */
#include "bootstrap/job_tag.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/error.h"

/* The message of the HMAC; see also the label of net/key.c. */
#define JOB_TAG_LABEL "oriel job tag"
/* Bytes of the tag of a list that are equal on all ranks. */
#define JOB_TAG_LIST (ORI_TAG_LENGTH - sizeof(struct ori_job_name))

static const char *job_tag_name(uint32_t kind)
{
	static const char *const names[ORI_JOB_TAG_KINDS] = {
		[ORI_JOB_TAG_NONE] = "nothing",
		[ORI_JOB_TAG_KEY] = "ORIEL_JOB_KEY",
		[ORI_JOB_TAG_TORCH] = "TORCHELASTIC_RUN_ID",
		[ORI_JOB_TAG_PMIX] = "PMIX_NAMESPACE",
		[ORI_JOB_TAG_SLURM] = "SLURM_JOB_ID or SLURM_STEP_ID",
		[ORI_JOB_TAG_PART] = "oriel_comm_split",
		[ORI_JOB_TAG_LIST] = "a list of job ids",
	};

	return kind < ORI_JOB_TAG_KINDS ? names[kind] : "something unknown";
}

/* NULL: not set, or empty. */
static const char *job_tag_variable(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

/*
 * torchrun goes before PMIx, and PMIx before Slurm. A launcher that Slurm has started passes on
 * its own Slurm variables to its ranks, and these may name one step for each node.
 */
static enum ori_job_tag_kind job_tag_find(const char **name, const char **part)
{
	*part = "";
	*name = job_tag_variable("TORCHELASTIC_RUN_ID");
	if (*name && strcmp(*name, "none") != 0) /* torchrun's default, equal for all jobs */
		return ORI_JOB_TAG_TORCH;
	*name = job_tag_variable("PMIX_NAMESPACE");
	if (*name)
		return ORI_JOB_TAG_PMIX;
	*name = job_tag_variable("SLURM_JOB_ID");
	if (!*name)
		return ORI_JOB_TAG_NONE;
	*part = job_tag_variable("SLURM_STEP_ID");
	if (!*part)
		*part = job_tag_variable("SLURM_STEPID");
	if (!*part)
		*part = "";
	return ORI_JOB_TAG_SLURM;
}

static enum oriel_status job_tag_failed(void)
{
	return ori_fail(ORIEL_ERR_SYSTEM, "libcrypto computes no SHA-256");
}

static enum oriel_status job_tag_hash(const char *name, const char *part, struct ori_job_tag *tag)
{
	enum oriel_status status = ORIEL_OK;
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	unsigned char kind = (unsigned char)tag->kind;
	unsigned length = 0;

	/* The NUL between the two makes 1 and 23 differ from 12 and 3. */
	if (!hash || !EVP_DigestInit_ex(hash, EVP_sha256(), NULL) ||
	    !EVP_DigestUpdate(hash, &kind, 1) || !EVP_DigestUpdate(hash, name, strlen(name) + 1) ||
	    !EVP_DigestUpdate(hash, part, strlen(part)) ||
	    !EVP_DigestFinal_ex(hash, tag->bytes, &length) || length != sizeof(tag->bytes))
		status = job_tag_failed();
	EVP_MD_CTX_free(hash);
	return status;
}

enum oriel_status ori_job_tag_make(const struct ori_key *key, struct ori_job_tag *tag)
{
	const char *name, *part;
	unsigned length = 0;

	*tag = (struct ori_job_tag){.kind = ORI_JOB_TAG_KEY};
	if (key->length &&
	    (!HMAC(EVP_sha256(), key->bytes, (int)key->length, (const unsigned char *)JOB_TAG_LABEL,
		   strlen(JOB_TAG_LABEL), tag->bytes, &length) ||
	     length != sizeof(tag->bytes)))
		return job_tag_failed();
	if (key->length)
		return ORIEL_OK;
	tag->kind = job_tag_find(&name, &part);
	return tag->kind == ORI_JOB_TAG_NONE ? ORIEL_OK : job_tag_hash(name, part, tag);
}

enum oriel_status ori_job_tag_socket(const struct ori_job_tag *tag, uint16_t port,
				     uint8_t name[ORI_FDSOCK_NAME])
{
	static const char label[] = "oriel socket";
	unsigned char bytes[sizeof(label) + 12 + ORI_TAG_LENGTH], hash[ORI_TAG_LENGTH];
	unsigned length = 0;

	static_assert(sizeof(hash) >= ORI_FDSOCK_NAME, "the name is a part of the hash");
	/* Another user's job at this port has another name: it is not in the way of this one. */
	memcpy(bytes, label, sizeof(label));
	ori_store32(bytes + sizeof(label), (uint32_t)geteuid());
	ori_store32(bytes + sizeof(label) + 4, port);
	ori_store32(bytes + sizeof(label) + 8, tag->kind);
	memcpy(bytes + sizeof(label) + 12, tag->bytes, ORI_TAG_LENGTH);
	if (!EVP_Digest(bytes, sizeof(bytes), hash, &length, EVP_sha256(), NULL) ||
	    length != sizeof(hash))
		return job_tag_failed();
	memcpy(name, hash, ORI_FDSOCK_NAME);
	return ORIEL_OK;
}

enum oriel_status ori_job_tag_name(const struct oriel_job_id *id, struct ori_job_name *name)
{
	unsigned char hash[ORI_TAG_LENGTH];
	unsigned length = 0;

	/* The id has a key, which its name does not reveal. */
	if (!EVP_Digest(id->bytes, sizeof(id->bytes), hash, &length, EVP_sha256(), NULL) ||
	    length != sizeof(hash))
		return job_tag_failed();
	memcpy(name->bytes, hash, sizeof(name->bytes));
	return ORIEL_OK;
}

enum oriel_status ori_job_tag_list(const struct ori_key *key, const struct oriel_job_id *ids,
				   unsigned rank, unsigned size, uint64_t number,
				   struct ori_job_tag *tag)
{
	unsigned char list[8 + ORI_TAG_LENGTH], mac[ORI_TAG_LENGTH];
	struct ori_job_name name;
	unsigned length = 0;
	enum oriel_status status = ori_job_tag_name(&ids[rank], &name);

	if (status != ORIEL_OK)
		return status;
	ori_store64(list, number);
	if (!EVP_Digest(ids, size * sizeof(*ids), list + 8, &length, EVP_sha256(), NULL) ||
	    length != ORI_TAG_LENGTH ||
	    !HMAC(EVP_sha256(), key->bytes, (int)key->length, list, sizeof(list), mac, &length) ||
	    length != sizeof(mac))
		return job_tag_failed();
	tag->kind = ORI_JOB_TAG_LIST;
	memcpy(tag->bytes, mac, JOB_TAG_LIST);
	memcpy(tag->bytes + JOB_TAG_LIST, name.bytes, sizeof(name.bytes));
	return ORIEL_OK;
}

struct ori_job_name ori_job_tag_own_name(const struct ori_job_tag *tag)
{
	struct ori_job_name name;

	memcpy(name.bytes, tag->bytes + JOB_TAG_LIST, sizeof(name.bytes));
	return name;
}

bool ori_job_tag_equal(const struct ori_job_tag *a, const struct ori_job_tag *b)
{
	size_t length = a->kind == ORI_JOB_TAG_LIST ? JOB_TAG_LIST : sizeof(a->bytes);

	return a->kind == b->kind && CRYPTO_memcmp(a->bytes, b->bytes, length) == 0;
}

const char *ori_job_tag_differ(const struct ori_job_tag *theirs, const struct ori_job_tag *ours,
			       char text[ORI_JOB_TAG_TEXT])
{
	if (theirs->kind == ours->kind)
		snprintf(text, ORI_JOB_TAG_TEXT, "its %s differs", job_tag_name(ours->kind));
	else
		snprintf(text, ORI_JOB_TAG_TEXT, "its job is named by %s, this one by %s",
			 job_tag_name(theirs->kind), job_tag_name(ours->kind));
	return text;
}
