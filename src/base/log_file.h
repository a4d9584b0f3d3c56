/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that ORIEL_LOG_FILE names, one for all threads of a process. log.c writes to it, and
 * the table of settings checks its name.
 */
#ifndef ORI_BASE_LOG_FILE_H
#define ORI_BASE_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define ORI_LOG_FILE_NAME 1024 /* bytes of a name, its NUL included */
#define ORI_LOG_FILE_WHY 128

/*
 * Replace %h in @pattern by the name of the host, %p by the process, and %% by a percent sign.
 * False: another letter follows a percent sign, or the name is too long. There is no letter for a
 * rank: ranks may be threads, and the first lines are written before a process knows its rank.
 */
bool ori_log_file_name(const char *pattern, char name[ORI_LOG_FILE_NAME]);

/*
 * Append @length bytes of whole lines to the file of @pattern, in one write() for each call; 0
 * only opens it. It is created for its owner alone, and opened again where its name changes: in
 * a forked child, or with another pattern. False, with the reason in @why, if it cannot be
 * opened or written. Any thread; errno may change.
 */
bool ori_log_file_write(const char *pattern, const char *lines, size_t length,
			char why[ORI_LOG_FILE_WHY]);

#endif
