/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces pmix.c in builds without pmix.h. */
#include "base/error.h"
#include "sys/pmix.h"

bool ori_pmix_is_built(void)
{
	return false;
}

static enum oriel_status pmix_unsupported(void)
{
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"Oriel was built without pmix.h (Debian: libpmix-dev)");
}

enum oriel_status ori_pmix_load(void)
{
	return pmix_unsupported();
}

enum oriel_status ori_pmix_open(struct ori_pmix *pmix)
{
	(void)pmix;
	return pmix_unsupported();
}

enum oriel_status ori_pmix_publish(const char *key, const void *bytes, size_t length)
{
	(void)key;
	(void)bytes;
	(void)length;
	return pmix_unsupported();
}

enum oriel_status ori_pmix_fetch(const struct ori_pmix *pmix, unsigned rank, const char *key,
				 void *bytes, size_t length, uint64_t timeout_ns)
{
	(void)pmix;
	(void)rank;
	(void)key;
	(void)bytes;
	(void)length;
	(void)timeout_ns;
	return pmix_unsupported();
}

void ori_pmix_close(void)
{
}
