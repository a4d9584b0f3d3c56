/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By what the ranks of one job know each other, beside the job key: a tag that is equal
 * on all of them and, as far as the launcher gives jobs names, another for each job.
 */
#ifndef ORI_BOOTSTRAP_JOB_TAG_H
#define ORI_BOOTSTRAP_JOB_TAG_H

#include "bootstrap/frame.h"

/* Where a tag is from; it travels. */
enum ori_job_tag_kind {
	ORI_JOB_TAG_NONE, /* no launcher has named the job: all bytes are 0 */
	ORI_JOB_TAG_KEY,
	ORI_JOB_TAG_TORCH,
	ORI_JOB_TAG_PMIX,
	ORI_JOB_TAG_SLURM,
	ORI_JOB_TAG_KINDS
};

/* What a rank shows of itself to the others. */
struct ori_credentials {
	struct ori_key key;
	struct ori_job_tag tag;
	uint64_t process; /* ori_process_token() */
};

/*
 * The tag of the job that the environment describes, whose key is @key: an HMAC made with
 * the key, which says nothing about it, or a hash of the launcher's name of the job.
 */
enum oriel_status ori_job_tag_make(const struct ori_key *key, struct ori_job_tag *tag);

bool ori_job_tag_equal(const struct ori_job_tag *a, const struct ori_job_tag *b);

/* Why @theirs is not @ours, as "its TORCHELASTIC_RUN_ID differs". */
#define ORI_JOB_TAG_TEXT 160
const char *ori_job_tag_differ(const struct ori_job_tag *theirs, const struct ori_job_tag *ours,
			       char text[ORI_JOB_TAG_TEXT]);

#endif
