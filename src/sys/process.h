/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of this process among all others, and random bytes: all modules that talk to
 * other processes call it. Any thread.
 */
#ifndef ORI_SYS_PROCESS_H
#define ORI_SYS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

/*
 * Random, never 0, equal in all threads of a process; a forked child gets a new one.
 * ORIEL_ERR_SYSTEM if the kernel returns no random bytes.
 */
enum oriel_status ori_process_token(uint64_t *token);

/*
 * When process @pid of this namespace has begun, in ticks since the machine has; 0: it is not
 * known. With its number that names it for ever.
 */
uint64_t ori_process_birth(unsigned pid);
/*
 * Has the process that has begun at @birth ended, with all its threads and their memory? False if
 * that is not known.
 */
bool ori_process_has_ended(unsigned pid, uint64_t birth);

enum oriel_status ori_random(void *bytes, size_t length);

#endif
