/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a PMIx launcher, by libpmix, which is opened at run time: place of this process in
 * its job, and bytes that one rank publishes and others fetch. The bootstrap calls it, one thread
 * at a time.
 */
#ifndef ORI_SYS_PMIX_H
#define ORI_SYS_PMIX_H

#include <stdbool.h>
#include <stddef.h>

#include <oriel/status.h>

#define ORI_PMIX_SPACE 256

struct ori_pmix {
	char space[ORI_PMIX_SPACE]; /* namespace of the job */
	unsigned rank, size;
	unsigned local; /* ranks of the job on this machine; 0: the server does not know */
};

/* Was pmix.h there when the library was built? */
bool ori_pmix_is_built(void);

/*
 * Open the library, at the first call. The text of ORIEL_ERR_UNSUPPORTED names what is missing, or
 * too old.
 */
enum oriel_status ori_pmix_load(void);

/* Connect to the launcher's server. ORIEL_ERR_SYSTEM: it does not answer. */
enum oriel_status ori_pmix_open(struct ori_pmix *pmix);
enum oriel_status ori_pmix_publish(const char *key, const void *bytes, size_t length);
/*
 * Wait until @rank has published @key, with @length bytes. ORIEL_ERR_TIMEOUT, without a text: not
 * within @timeout_ns, rounded up to seconds.
 */
enum oriel_status ori_pmix_fetch(const struct ori_pmix *pmix, unsigned rank, const char *key,
				 void *bytes, size_t length, uint64_t timeout_ns);
/* Disconnect. The server keeps what this process has published while the job lives. */
void ori_pmix_close(void);

#endif
