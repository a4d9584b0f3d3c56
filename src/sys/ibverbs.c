/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libibverbs and looks up its functions. The verbs HCA (hca/) and sys/probe.c call it. */
#include "sys/ibverbs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define IBVERBS_LIBRARY "libibverbs.so.1"

struct ori_ibverbs ori_ibverbs;

/* Empty if the library is usable. Written once, in ibverbs_load(). */
static char ibverbs_why_not[256];

/*
 * Look up by version, since the oldest function of the same name takes other structs. @function is
 * the address of a function pointer, which ISO C does not convert to void *.
 */
static bool ibverbs_find(void *library, const char *name, const char *version, void *function)
{
	void *symbol = dlvsym(library, name, version);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

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
	ibverbs_find(library, #symbol, version, (void *)&ori_ibverbs.member)
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
