/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libibverbs and looks up its functions. The verbs HCA (hca/) and sys/probe.c call it. */
#include "sys/ibverbs.h"

#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "sys/library.h"

#define IBVERBS_LIBRARY "libibverbs.so.1"

struct ori_ibverbs ori_ibverbs;

/* Empty if the library is usable. Written once, in ibverbs_load(). */
static char ibverbs_why_not[256];

/* The library stays open: providers start threads that never end. */
static void ibverbs_load(void)
{
	void *library = dlopen(IBVERBS_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(ibverbs_why_not, sizeof(ibverbs_why_not), "no libibverbs (rdma-core): %s",
			 dlerror());
		return;
	}
#define IBVERBS_FIND(member, symbol, version) \
	ori_library_find_version(library, #symbol, version, (void *)&ori_ibverbs.member)
#define IBVERBS_NEED(member, symbol, version)                                                \
	if (!IBVERBS_FIND(member, symbol, version)) {                                        \
		snprintf(ibverbs_why_not, sizeof(ibverbs_why_not),                           \
			 IBVERBS_LIBRARY " has no %s of version %s: it is too old", #symbol, \
			 version);                                                           \
		return;                                                                      \
	}
#define IBVERBS_TRY(member, symbol, version) (void)IBVERBS_FIND(member, symbol, version);
	ORI_IBVERBS_CALLS(IBVERBS_NEED)
	ORI_IBVERBS_OPTIONAL(IBVERBS_TRY)
#undef IBVERBS_TRY
#undef IBVERBS_NEED
#undef IBVERBS_FIND
}

bool ori_ibverbs_is_built(void)
{
	return true;
}

enum oriel_status ori_ibverbs_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, ibverbs_load);
	if (!ibverbs_why_not[0])
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s", ibverbs_why_not);
}
