/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite as a library: the programs conformance and conformance_gpu, and field
 * reports of the tool, which carry the cases, call it.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The threads or GPUs that run the cases; harness.h has what it holds. */
struct backend;

extern const struct backend conformance_cpus;

/*
 * Run the cases that the arguments behind argv[0] select:
 *
 *   [--threads N [--nodes M]] [--seconds S] [--rdma] [PART OF A NAME...]
 *
 * Without --threads the process is one rank of a job. With --seconds the suites share that time
 * evenly, from when the ranks have met; what one leaves is for those behind it. A suite whose time
 * is over begins no case any more, but each runs its first. Rank 0 then prints the NIC, a line for
 * each suite that will run, each case as it begins, and a line for each suite as it ends as well.
 * Prints results, to standard output, and claims
 * that do not hold, to standard error. Returns the exit code: 0 if cases passed and none failed, 2
 * for arguments that are wrong. A rank that cannot go on with the others ends the process with
 * code 1.
 */
int conformance_main(int argc, char **argv, const struct backend *backend);

#ifdef __cplusplus
}
#endif

#endif
