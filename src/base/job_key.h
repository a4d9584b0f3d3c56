/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of the job key. It comes from ORIEL_JOB_KEY or ORIEL_JOB_KEY_FILE; once it is read, the
 * environment has it no more, and one copy stays for later jobs of the process. net/key.c reads
 * it, config.c checks it.
 */
#ifndef ORI_BASE_JOB_KEY_H
#define ORI_BASE_JOB_KEY_H

#include <stdbool.h>

#include <oriel/status.h>

#define ORI_JOB_KEY_TEXT 256 /* hex digits and a NUL */
#define ORI_JOB_KEY_HOW                                                                        \
	"set ORIEL_JOB_KEY to 32 or more random hex digits, equal on all ranks (openssl rand " \
	"-hex 32), or ORIEL_JOB_KEY_FILE to a file that has them"

/*
 * Copy the key to @text, "" if there is none, and take it from the environment: the value in
 * environ and in /proc/self/environ is overwritten, and stays empty. A value that is set later is
 * another key; where the program unsets the variable, the key is forgotten. ORIEL_ERR_CONFIG: the
 * key, the file or the descriptor is not as the settings say. A child of fork() has the key of its
 * parent. The caller wipes @text. Any thread.
 */
enum oriel_status ori_job_key_text(char text[ORI_JOB_KEY_TEXT]);

/* Check both settings, without a look into the file. Any thread. */
enum oriel_status ori_job_key_check(void);

/* Would ori_job_key_text() return a key, or an error about one? Any thread. */
bool ori_job_key_is_set(void);

/* Was it in ORIEL_JOB_KEY, and does this process keep it? Any thread. */
bool ori_job_key_is_taken(void);

/* Is ORIEL_JOB_KEY "required"? A job of several ranks then fails without a key. Any thread. */
bool ori_job_key_is_required(void);

/* Is it "none"? Rank 0 then makes no key by munge, and ranks ask for none. Any thread. */
bool ori_job_key_is_none(void);

#endif
