/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of a NIC, one for each thing that the library needs: commands, and requests that must
 * complete with the right bytes. field_probe.c prints the results.
 */
#ifndef ORIEL_FIELD_TRIAL_H
#define ORIEL_FIELD_TRIAL_H

#include "hca/hca.h"

/* An open NIC; the caller owns all of it. */
struct field_nic {
	const struct ori_hca_ops *ops;
	struct ori_hca *hca;
	struct ori_hca_caps caps;
	const char *why; /* it has no better tier */
};

/* NULL: there is no trial of that number; they begin with 0. */
const char *field_trial_name(unsigned trial);
/* Why the trial makes no sense with this NIC; NULL: it does. */
const char *field_trial_lack(const struct field_nic *nic, unsigned trial);
/* Every wait has a limit of a second. */
enum oriel_status field_trial_run(struct field_nic *nic, unsigned trial);

#endif
