/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports once that a wait for other ranks takes long, well before its limit: a user then knows who
 * is missing while the job can still be saved. The bootstraps and src/comm call it in their waits,
 * and device functions that wait on the CPU by oriel_cpu_late().
 */
#ifndef ORI_BASE_LATE_H
#define ORI_BASE_LATE_H

#include <stdbool.h>
#include <stdint.h>

/* Ends a text that says what did not happen within a limit. */
#define ORI_LATE_LIMIT "(the limit is the caller's or ORIEL_TIMEOUT)"

struct ori_late {
	uint64_t begun;
	uint64_t at; /* ORIEL_TIMEOUT_INFINITE: reported already, or never to be */
};

/* Reads ORIEL_LATE for all waits from now on. Called where a bootstrap or communicator opens. */
void ori_late_read(void);

void ori_late_begin(struct ori_late *late);
/* Has the wait taken as long as ORIEL_LATE says? True once. */
bool ori_late_is_due(struct ori_late *late);
/*
 * A warning: "@format within 30 s yet; ...". @timeout_ns is the limit of the wait. The caller has
 * found that it is due.
 */
void ori_late_warn(const struct ori_late *late, uint64_t timeout_ns, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
