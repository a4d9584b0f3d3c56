/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpmix, opened at run time: only what the bootstrap needs to learn its place and to exchange
 * bytes. The names and types are those of the PMIx standard, 4.1.
 */
#include "sys/pmix.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pmix.h>

#include "base/clock.h"
#include "base/error.h"
#include "sys/library.h"

/*
 * The soname of all releases from 2.0 to 5.0: OpenPMIx keeps the ABI of these functions and
 * structs (https://github.com/openpmix/openpmix/blob/v5.0/VERSION, libpmix_so_version).
 */
#define PMIX_LIBRARY "libpmix.so.2"
#define PMIX_MAJOR_MIN 3 /* it connects to servers of Open MPI 4 and later */

#define PMIX_RETRY_NS 10000000 /* between looks for a key of a rank that has published others */
#define PMIX_SECONDS_MAX 1000000000u

#define PMIX_CALLS(X)                    \
	X(init, PMIx_Init)               \
	X(put, PMIx_Put)                 \
	X(commit, PMIx_Commit)           \
	X(get, PMIx_Get)                 \
	X(finalize, PMIx_Finalize)       \
	X(get_version, PMIx_Get_version) \
	X(error_string, PMIx_Error_string)

#define PMIX_MEMBER(member, symbol) __typeof__(symbol) *member;
static struct {
	PMIX_CALLS(PMIX_MEMBER)
} pmix_calls;

/* Empty if the library is usable. Written once, in pmix_load(). */
static char pmix_why_not[256];

/* The text is "OpenPMIx 4.2.2 (...)", and was "PMIx 3.2.3": the first digits are the version. */
static bool pmix_is_recent(const char *version)
{
	return strtoul(version + strcspn(version, "0123456789"), NULL, 10) >= PMIX_MAJOR_MIN;
}

/* The library stays open: closing it would unload code that its atexit handlers run. */
static void pmix_load(void)
{
	void *library = dlopen(PMIX_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(pmix_why_not, sizeof(pmix_why_not),
			 "cannot open libpmix (Debian: libpmix2): %s", dlerror());
		return;
	}
#define PMIX_NEED(member, symbol)                                              \
	if (!ori_library_find(library, #symbol, (void *)&pmix_calls.member)) { \
		snprintf(pmix_why_not, sizeof(pmix_why_not),                   \
			 PMIX_LIBRARY " has no " #symbol ": it is no PMIx");   \
		return;                                                        \
	}
	PMIX_CALLS(PMIX_NEED)
#undef PMIX_NEED
	if (!pmix_is_recent(pmix_calls.get_version()))
		snprintf(pmix_why_not, sizeof(pmix_why_not),
			 PMIX_LIBRARY " is '%.100s': version %d or later is needed",
			 pmix_calls.get_version(), PMIX_MAJOR_MIN);
}

bool ori_pmix_is_built(void)
{
	return true;
}

enum oriel_status ori_pmix_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, pmix_load);
	if (!pmix_why_not[0])
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s", pmix_why_not);
}

static enum oriel_status pmix_failed(const char *call, pmix_status_t error)
{
	return ori_fail(ORIEL_ERR_SYSTEM, "%s of libpmix: %s (%d)", call,
			pmix_calls.error_string(error), error);
}

/* The macro of the header that releases a value calls the library, which is not linked. */
static void pmix_release(pmix_value_t *value)
{
	if (value->type == PMIX_BYTE_OBJECT)
		free(value->data.bo.bytes);
	free(value);
}

static pmix_status_t pmix_get_count(const struct ori_pmix *pmix, const char *key, unsigned *count)
{
	pmix_proc_t all = {.rank = PMIX_RANK_WILDCARD};
	pmix_value_t *value = NULL;
	pmix_status_t error;

	snprintf(all.nspace, sizeof(all.nspace), "%s", pmix->space);
	error = pmix_calls.get(&all, key, NULL, 0, &value);
	if (error != PMIX_SUCCESS)
		return error;
	if (value->type == PMIX_UINT32)
		*count = value->data.uint32;
	else
		error = PMIX_ERR_BAD_PARAM;
	pmix_release(value);
	return error;
}

enum oriel_status ori_pmix_open(struct ori_pmix *pmix)
{
	enum oriel_status status = ori_pmix_load();
	pmix_proc_t self;
	pmix_status_t error;

	static_assert(sizeof(self.nspace) <= sizeof(pmix->space), "a namespace fits");
	if (status != ORIEL_OK)
		return status;
	/* Where MPI uses the same library, this is one more reference. */
	error = pmix_calls.init(&self, NULL, 0);
	if (error != PMIX_SUCCESS)
		return pmix_failed("PMIx_Init", error);
	snprintf(pmix->space, sizeof(pmix->space), "%s", self.nspace);
	pmix->rank = self.rank;
	error = pmix_get_count(pmix, PMIX_JOB_SIZE, &pmix->size);
	pmix->local = 0;
	if (pmix_get_count(pmix, PMIX_LOCAL_SIZE, &pmix->local) != PMIX_SUCCESS)
		pmix->local = 0;
	if (error == PMIX_SUCCESS)
		return ORIEL_OK;
	ori_pmix_close();
	return pmix_failed("PMIx_Get of the size of the job", error);
}

enum oriel_status ori_pmix_publish(const char *key, const void *bytes, size_t length)
{
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
	pmix_status_t error;

	value.data.bo.bytes = (char *)(uintptr_t)bytes; /* PMIx_Put copies it */
	value.data.bo.size = length;
	error = pmix_calls.put(PMIX_GLOBAL, key, &value);
	if (error == PMIX_SUCCESS)
		error = pmix_calls.commit();
	return error == PMIX_SUCCESS ? ORIEL_OK : pmix_failed("PMIx_Put", error);
}

/*
 * One look. The server of @from answers at the next commit of that rank: if the program commits
 * keys of its own then, the answer is that there is no such key.
 */
static pmix_status_t pmix_look(const pmix_proc_t *from, const char *key, uint64_t left_ns,
			       pmix_value_t **value)
{
	pmix_info_t limit = {.key = PMIX_TIMEOUT, .value.type = PMIX_INT};
	uint64_t seconds = left_ns / 1000000000u + 1;

	if (left_ns == ORIEL_TIMEOUT_INFINITE || seconds > PMIX_SECONDS_MAX)
		return pmix_calls.get(from, key, NULL, 0, value);
	limit.value.data.integer = (int)seconds;
	return pmix_calls.get(from, key, &limit, 1, value);
}

enum oriel_status ori_pmix_fetch(const struct ori_pmix *pmix, unsigned rank, const char *key,
				 void *bytes, size_t length, uint64_t timeout_ns)
{
	const struct timespec pause = {0, PMIX_RETRY_NS};
	uint64_t deadline = ori_deadline(timeout_ns);
	enum oriel_status status = ORIEL_OK;
	pmix_proc_t from = {.rank = rank};
	pmix_value_t *value = NULL;
	pmix_status_t error;

	snprintf(from.nspace, sizeof(from.nspace), "%s", pmix->space);
	for (;;) {
		uint64_t now = ori_clock_ns();

		error = pmix_look(&from, key,
				  deadline == ORIEL_TIMEOUT_INFINITE ? deadline
				  : deadline > now                   ? deadline - now
								     : 0,
				  &value);
		if (error != PMIX_ERR_NOT_FOUND || ori_deadline_passed(deadline))
			break;
		nanosleep(&pause, NULL);
	}
	if (error == PMIX_ERR_TIMEOUT || error == PMIX_ERR_NOT_FOUND)
		return ORIEL_ERR_TIMEOUT;
	if (error != PMIX_SUCCESS)
		return pmix_failed("PMIx_Get", error);
	if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size == length)
		memcpy(bytes, value->data.bo.bytes, length);
	else
		status = ori_fail(ORIEL_ERR_PROTOCOL,
				  "rank %u has published something else as %s by PMIx", rank, key);
	pmix_release(value);
	return status;
}

void ori_pmix_close(void)
{
	pmix_calls.finalize(NULL, 0);
}
