/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap of ranks that are threads of one process, from inside. src/comm asks. */
#ifndef ORI_BOOTSTRAP_LOCAL_H
#define ORI_BOOTSTRAP_LOCAL_H

#include <oriel/bootstrap.h>

/* Has oriel_bootstrap_open_local() opened it? */
bool ori_local_is_own(const struct oriel_bootstrap *bootstrap);

/*
 * The number of @job, which is live: no other one of this process has it, while the address of a
 * destroyed job may be that of a later one.
 */
uint32_t ori_local_number(const struct oriel_local_job *job);

/*
 * oriel_bootstrap_open_local() of the job at @job, unless that is another one than @number, or was
 * destroyed: ORIEL_ERR_STATE. Any thread, also while another one destroys the job.
 */
enum oriel_status ori_local_open(struct oriel_local_job *job, uint32_t number, unsigned rank,
				 struct oriel_bootstrap *bootstrap);

#endif
