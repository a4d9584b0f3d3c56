/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of this process among all others, and random bytes: all modules that talk to
 * other processes call it. Any thread.
 */
#ifndef ORI_SYS_PROCESS_H
#define ORI_SYS_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

/*
 * Random, never 0, equal in all threads of a process; a forked child gets a new one.
 * ORIEL_ERR_SYSTEM if the kernel returns no random bytes.
 */
enum oriel_status ori_process_token(uint64_t *token);

enum oriel_status ori_random(void *bytes, size_t length);

#endif
