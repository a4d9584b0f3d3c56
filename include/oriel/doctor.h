/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a machine has of what the paths need, what is missing, and how to fix
 * it: `oriel doctor` as calls. A machine is a record of facts; the judgement
 * is made of the record alone, so it can be made elsewhere as well.
 */
#ifndef ORIEL_DOCTOR_H
#define ORIEL_DOCTOR_H

#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_machine;

/* Ways to move bytes: what the paths "mapped" and "rdma" can be on a machine. */
enum oriel_data_path {
	ORIEL_DATA_PATH_MEMORY, /* mapped: memory of the host */
	ORIEL_DATA_PATH_GPU,    /* mapped: memory of the GPUs of one machine */
	ORIEL_DATA_PATH_FABRIC, /* mapped: memory of GPUs of other machines, over NVLink */
	ORIEL_DATA_PATH_SOFT,   /* rdma: by an adapter in software */
	ORIEL_DATA_PATH_T3,     /* rdma: a NIC that a CPU thread posts to */
	ORIEL_DATA_PATH_T2,     /* rdma: kernels fill the queues of a NIC, a CPU rings */
	ORIEL_DATA_PATH_T1,     /* rdma: kernels ring too, the queues lie in host memory */
	ORIEL_DATA_PATH_T0,     /* rdma: the queues lie in GPU memory */
	ORIEL_DATA_PATHS
};

enum oriel_verdict {
	ORIEL_VERDICT_PASS,
	ORIEL_VERDICT_FAIL,
	ORIEL_VERDICT_UNKNOWN, /* the record does not say */
	ORIEL_VERDICT_SKIP,    /* does not apply: what it is about is not there */
};

const char *oriel_verdict_name(enum oriel_verdict verdict); /* "pass", "fail", ... */

/* What one check found. The strings live as long as the machine. */
struct oriel_finding {
	const char *name;
	enum oriel_verdict verdict;
	const char *found;
	const char *means; /* what follows where it fails */
	const char *fix;   /* the command that mends it, "" where it does not fail or none can */
	unsigned needs;    /* mask of 1 << enum oriel_data_path: what does not work without it */
	unsigned helps;    /* the same: what works, but less well */
};

/* What becomes of one path. The strings live as long as the machine. */
struct oriel_data_path_state {
	enum oriel_data_path path;
	const char *name; /* "rdma, a CPU thread posts (T3)" */
	const char *tag;  /* "T3" */
	/* FAIL and UNKNOWN for the sake of a check that it needs; SKIP without the hardware. */
	enum oriel_verdict verdict;
	bool is_built; /* the library that looked knows this path */
	bool is_used;  /* what a job gets here: for peers on this machine, or on others */
	const char *why;
};

/* Look at this machine, which also tries what drivers allow. Any thread. */
enum oriel_status oriel_machine_create(struct oriel_machine **machine);

/* NULL is allowed. */
void oriel_machine_destroy(struct oriel_machine *machine);

/* ORIEL_ERR_PROTOCOL or ORIEL_ERR_VERSION, with the line, if @text is no record. */
enum oriel_status oriel_machine_import(const char *text, size_t length,
				       struct oriel_machine **machine);

/*
 * The record as text. Returns the length that was needed, as snprintf() does.
 * It names no host, user or address, but what hardware and drivers there are.
 */
size_t oriel_machine_export(const struct oriel_machine *machine, char *buffer, size_t length);

/* ORIEL_ERR_RANGE past the last. */
enum oriel_status oriel_machine_finding(const struct oriel_machine *machine, unsigned index,
					struct oriel_finding *finding);
enum oriel_status oriel_machine_data_path(const struct oriel_machine *machine, unsigned index,
					  struct oriel_data_path_state *state);

/*
 * Does each path work that the library knows, settings allow and the hardware
 * is there for? T2 to T0 are better forms of T3 and do not count.
 */
bool oriel_machine_is_well(const struct oriel_machine *machine);

#ifdef __cplusplus
}
#endif

#endif
