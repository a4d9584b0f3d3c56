/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job tag, by which the ranks of one job recognize each other beside the job key. It is equal
 * on all of them and, if the launcher names jobs, differs between jobs. env.c makes it, the
 * listener compares it.
 */
#ifndef ORI_BOOTSTRAP_JOB_TAG_H
#define ORI_BOOTSTRAP_JOB_TAG_H

#include "bootstrap/body.h"

/* The source of a tag; the hello contains it. */
enum ori_job_tag_kind {
	ORI_JOB_TAG_NONE, /* no launcher has named the job: all bytes are 0 */
	ORI_JOB_TAG_KEY,
	ORI_JOB_TAG_TORCH,
	ORI_JOB_TAG_PMIX,
	ORI_JOB_TAG_SLURM,
	ORI_JOB_TAG_PART, /* drawn by rank 0 of a part */
	ORI_JOB_TAG_LIST, /* of a list of ids, and of the rank's own one */
	ORI_JOB_TAG_KINDS
};

/* The credentials that a rank proves or sends when it connects. */
struct ori_credentials {
	struct ori_key key;
	struct ori_tls_context *tls; /* with the key; NULL without one */
	bool is_munged; /* rank 0 has made the key, and the others ask it: join_key.c */
	struct ori_job_tag tag;
	uint64_t process; /* ori_process_token() */
};

/*
 * Make the tag of the job that the environment describes: an HMAC with @key, which does not
 * reveal the key, or a hash of the launcher's name of the job if @key is empty.
 */
enum oriel_status ori_job_tag_make(const struct ori_key *key, struct ori_job_tag *tag);

/* A part of the hash of an id names it in the tag of a list. */
struct ori_job_name {
	unsigned char bytes[ORI_TAG_LENGTH / 2];
};

enum oriel_status ori_job_tag_name(const struct oriel_job_id *id, struct ori_job_name *name);

/*
 * Make the tag of rank @rank of the job of the list @ids, [@size], and @number. Its first half is
 * an HMAC of these with @key, the second one the name of the rank's id.
 */
enum oriel_status ori_job_tag_list(const struct ori_key *key, const struct oriel_job_id *ids,
				   unsigned rank, unsigned size, uint64_t number,
				   struct ori_job_tag *tag);
/* The name of the id of the rank with @tag, of a list. */
struct ori_job_name ori_job_tag_own_name(const struct ori_job_tag *tag);

/*
 * The name of the unix socket where rank 0 of the job with @tag listens, if its ranks are on one
 * machine. As with TCP, jobs without a key or a name meet by their @port alone.
 */
enum oriel_status ori_job_tag_socket(const struct ori_job_tag *tag, uint16_t port,
				     uint8_t name[ORI_FDSOCK_NAME]);

/* They are equal if the job is one; tags of a list differ in the names of the ranks. */
bool ori_job_tag_equal(const struct ori_job_tag *a, const struct ori_job_tag *b);

/* The difference between @theirs and @ours, such as "its TORCHELASTIC_RUN_ID differs". */
#define ORI_JOB_TAG_TEXT 160
const char *ori_job_tag_differ(const struct ori_job_tag *theirs, const struct ori_job_tag *ours,
			       char text[ORI_JOB_TAG_TEXT]);

#endif
