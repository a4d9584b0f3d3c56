/* SPDX-License-Identifier: Apache-2.0 */
/* The cases over p2p endpoints, and the state that they keep in the job. */
#ifndef ORIEL_PERF_P2P_H
#define ORIEL_PERF_P2P_H

#include "perf.h"

/* Called when no case measures any more. */
void perf_p2p_close(struct perf_job *job);

perf_pass perf_p2p_lat_zero, perf_p2p_lat_copy, perf_p2p_put_lat;
perf_pass perf_p2p_bw_zero, perf_p2p_bw_copy, perf_p2p_both_zero, perf_p2p_both_copy;

#endif
