/* SPDX-License-Identifier: Apache-2.0 */
/* Pages for secrets. The store of the job key, TLS, the bootstrap and the software HCA call it. */
#include "base/secret.h"

#include <string.h>
#include <sys/mman.h>

void *ori_secret_alloc(size_t length)
{
	void *secret =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (secret == MAP_FAILED)
		return NULL;
	/*
	 * madvise(2): DONTDUMP since Linux 3.4. A kernel that refuses it must not end the job: the
	 * key is then as safe as any other memory of the process. A child of fork() keeps the key,
	 * for jobs of its own.
	 */
	(void)madvise(secret, length, MADV_DONTDUMP);
	return secret;
}

void ori_secret_free(void *secret, size_t length)
{
	if (!secret)
		return;
	explicit_bzero(secret, length);
	munmap(secret, length);
}
