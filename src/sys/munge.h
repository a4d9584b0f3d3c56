/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials of munge, by libmunge, which is opened at run time: bytes that only processes of this
 * user can read, on hosts whose munged has the same key, and that name the user who sealed them.
 * The bootstrap hands out job keys so. Any thread; a call waits for munged, 30 s at most.
 */
#ifndef ORI_SYS_MUNGE_H
#define ORI_SYS_MUNGE_H

#include <stddef.h>
#include <sys/types.h>

#include <oriel/status.h>

#define ORI_MUNGE_TEXT 1024 /* a credential of up to 128 bytes, and a NUL */

/* ORIEL_ERR_UNSUPPORTED, with the reason: there is no libmunge, or no munged answers it. */
enum oriel_status ori_munge_check(void);

/* Seal @bytes for processes of this user, by its effective id. The same errors. */
enum oriel_status ori_munge_seal(const void *bytes, size_t length, char credential[ORI_MUNGE_TEXT]);

/*
 * Open @credential, which has *@length bytes at most, and then how many it has; @owner becomes the
 * user who sealed it. It may be old, or opened before: the caller has another proof that its sender
 * is there. ORIEL_ERR_AUTH: this user, or this host, may not open it; ORIEL_ERR_UNSUPPORTED as
 * above.
 */
enum oriel_status ori_munge_open(const char *credential, void *bytes, size_t *length, uid_t *owner);

#endif
