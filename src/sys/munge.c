/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmunge, opened at run time. Its functions and numbers are those of munge.h, which the library
 * keeps for all releases with this soname:
 * https://github.com/dun/munge/blob/munge-0.5.15/src/libmunge/munge.h, also munge(3) and
 * munge_ctx(3).
 */
#include "sys/munge.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/library.h"

#define MUNGE_LIBRARY "libmunge.so.2"

/* enum munge_opt, munge_cipher and munge_err */
#define MUNGE_OPT_CIPHER_TYPE 0
#define MUNGE_OPT_UID_RESTRICTION 9
#define MUNGE_CIPHER_AES128 4
#define EMUNGE_SUCCESS 0
#define EMUNGE_SOCKET 6
#define EMUNGE_CRED_EXPIRED 15
#define EMUNGE_CRED_REWOUND 16
#define EMUNGE_CRED_REPLAYED 17

static struct {
	int (*encode)(char **credential, void *context, const void *bytes, int length);
	int (*decode)(const char *credential, void *context, void **bytes, int *length, uid_t *uid,
		      gid_t *gid);
	const char *(*strerror)(int error);
	void *(*context_create)(void);
	void (*context_destroy)(void *context);
	const char *(*context_strerror)(void *context);
	int (*context_set)(void *context, int option, ...);
} munge_calls;

/* Written once, in munge_load(). */
static bool munge_is_loaded;

static void munge_load(void)
{
	const struct ori_library_call calls[] = {
		{"munge_encode", &munge_calls.encode, true},
		{"munge_decode", &munge_calls.decode, true},
		{"munge_strerror", &munge_calls.strerror, true},
		{"munge_ctx_create", &munge_calls.context_create, true},
		{"munge_ctx_destroy", &munge_calls.context_destroy, true},
		{"munge_ctx_strerror", &munge_calls.context_strerror, true},
		{"munge_ctx_set", &munge_calls.context_set, true},
	};

	munge_is_loaded = ori_library_load(MUNGE_LIBRARY, calls, sizeof(calls) / sizeof(calls[0]));
}

/* A context is of one thread (munge.h): each call has its own. */
static enum oriel_status munge_begin(void **context)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, munge_load);
	if (!munge_is_loaded)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"cannot open " MUNGE_LIBRARY " (Debian: libmunge2)");
	*context = munge_calls.context_create();
	return *context ? ORIEL_OK : ori_fail_nomem(0, "a context of libmunge");
}

/* The text of the context says more, such as the path of the socket. */
static enum oriel_status munge_failed(void *context, int error)
{
	const char *text = munge_calls.context_strerror(context);

	return ori_fail(error == EMUNGE_SOCKET ? ORIEL_ERR_UNSUPPORTED : ORIEL_ERR_AUTH,
			"munge says: %s", text ? text : munge_calls.strerror(error));
}

/*
 * The cipher is named, since a munged could be configured for another default. Restricted to
 * @uid: munged refuses a client with another effective user id (munge_ctx(3),
 * MUNGE_OPT_UID_RESTRICTION).
 */
static int munge_encode_for(void *context, uid_t uid, const void *bytes, size_t length, char **made)
{
	int error = munge_calls.context_set(context, MUNGE_OPT_CIPHER_TYPE, MUNGE_CIPHER_AES128);

	if (error == EMUNGE_SUCCESS)
		error = munge_calls.context_set(context, MUNGE_OPT_UID_RESTRICTION, uid);
	return error == EMUNGE_SUCCESS ? munge_calls.encode(made, context, bytes, (int)length)
				       : error;
}

enum oriel_status ori_munge_seal(const void *bytes, size_t length, char credential[ORI_MUNGE_TEXT])
{
	void *context = NULL; /* for compilers that do not see munge_begin() */
	char *made = NULL;
	enum oriel_status status = munge_begin(&context);
	int error;

	if (status != ORIEL_OK)
		return status;
	error = munge_encode_for(context, geteuid(), bytes, length, &made);
	if (error != EMUNGE_SUCCESS)
		status = munge_failed(context, error);
	else if (strlen(made) >= ORI_MUNGE_TEXT)
		status =
			ori_fail(ORIEL_ERR_RANGE, "a credential of munge has %zu bytes, %d at most",
				 strlen(made), ORI_MUNGE_TEXT - 1);
	else
		memcpy(credential, made, strlen(made) + 1);
	munge_calls.context_destroy(context);
	free(made);
	return status;
}

enum oriel_status ori_munge_check(void)
{
	char credential[ORI_MUNGE_TEXT];

	return ori_munge_seal("", 0, credential);
}

/*
 * munged looks at the time of a credential, and at whether it was opened on this host before, after
 * its authenticity and its restrictions (munged(8)), and then returns what is in it (munge.h,
 * munge_decode()). Each rank of a host opens the same one.
 */
static bool munge_is_opened(int error)
{
	return error == EMUNGE_SUCCESS || error == EMUNGE_CRED_EXPIRED ||
	       error == EMUNGE_CRED_REWOUND || error == EMUNGE_CRED_REPLAYED;
}

enum oriel_status ori_munge_open(const char *credential, void *bytes, size_t *length, uid_t *owner)
{
	void *context = NULL, *opened = NULL;
	enum oriel_status status = munge_begin(&context);
	int error, count = 0;
	uid_t uid;
	gid_t gid;

	if (status != ORIEL_OK)
		return status;
	error = munge_calls.decode(credential, context, &opened, &count, &uid, &gid);
	if (!munge_is_opened(error))
		status = munge_failed(context, error);
	else if (count <= 0 || (size_t)count > *length)
		status = ori_fail(ORIEL_ERR_PROTOCOL,
				  "a credential of munge has %d bytes, not 1 to %zu", count,
				  *length);
	if (status == ORIEL_OK) {
		memcpy(bytes, opened, (size_t)count);
		*length = (size_t)count;
		*owner = uid;
	}
	if (opened && count > 0)
		explicit_bzero(opened, (size_t)count);
	free(opened);
	munge_calls.context_destroy(context);
	return status;
}
