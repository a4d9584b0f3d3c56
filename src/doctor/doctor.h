/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `oriel doctor` as functions, for the tool and its tests, in a library of their own: which needs
 * of the paths a machine meets, what is missing, and how to fix it. A machine is a record of facts.
 * The verdicts depend on the record alone, so a record can also be judged on another machine.
 */
#ifndef ORI_DOCTOR_DOCTOR_H
#define ORI_DOCTOR_DOCTOR_H

#include <oriel/status.h>

struct ori_machine;

/* Data paths: the forms that the paths "mapped" and "rdma" can take on a machine. */
enum ori_data_path {
	ORI_DATA_PATH_MEMORY, /* mapped: host memory */
	ORI_DATA_PATH_GPU,    /* mapped: GPU memory within one machine */
	ORI_DATA_PATH_FABRIC, /* mapped: GPU memory of other machines, over NVLink */
	ORI_DATA_PATH_SOFT,   /* rdma: by the software HCA */
	ORI_DATA_PATH_T3,     /* rdma: a NIC to which a CPU thread posts */
	ORI_DATA_PATH_T2,     /* rdma: kernels write WQEs, a CPU thread rings the doorbell */
	ORI_DATA_PATH_T1,     /* rdma: kernels ring the doorbell too, queues in host memory */
	ORI_DATA_PATH_T0,     /* rdma: as T1, with queues in GPU memory */
	ORI_DATA_PATH_COUNT
};

enum ori_doctor_verdict {
	ORI_DOCTOR_PASS,
	ORI_DOCTOR_FAIL,
	ORI_DOCTOR_UNKNOWN, /* the record lacks a fact that decides it */
	ORI_DOCTOR_SKIP,    /* not applicable: the hardware that it is about is absent */
};

const char *ori_doctor_verdict_name(enum ori_doctor_verdict verdict); /* "pass", "fail", ... */

/* The result of one check. The strings live as long as the machine. */
struct ori_finding {
	const char *name;
	enum ori_doctor_verdict verdict;
	const char *found;
	const char *means; /* the consequence of a failure */
	const char *
		fix; /* the command that fixes it; "" if the check did not fail or no command can */
	unsigned needs; /* mask of 1 << enum ori_data_path: paths that do not work without it */
	unsigned helps; /* mask of the same: paths that work without it, but worse */
};

/* The state of one data path. The strings live as long as the machine. */
struct ori_data_path_view {
	enum ori_data_path path;
	const char *name; /* "rdma, a CPU thread posts (T3)" */
	const char *tag;  /* "T3" */
	/* FAIL or UNKNOWN because of a check that it needs; SKIP without its hardware. */
	enum ori_doctor_verdict verdict;
	bool is_built; /* the library that wrote the record implements it */
	bool is_used;  /* jobs use it here, for peers on this machine or on others */
	const char *why;
};

/* Inspect this machine, and try what its drivers allow. Any thread. */
enum oriel_status ori_machine_create(struct ori_machine **machine);

/* NULL is allowed. */
void ori_machine_destroy(struct ori_machine *machine);

/*
 * ORIEL_ERR_PROTOCOL or ORIEL_ERR_VERSION if @text is not a record; the error text names the line.
 */
enum oriel_status ori_machine_import(const char *text, size_t length, struct ori_machine **machine);

/*
 * Write the record as text. Returns the length that was needed, as snprintf() does. The text lists
 * hardware and drivers, and contains no host name, user or address.
 */
size_t ori_machine_export(const struct ori_machine *machine, char *buffer, size_t length);

/* ORIEL_ERR_RANGE if @index is past the last. */
enum oriel_status ori_machine_finding(const struct ori_machine *machine, unsigned index,
				      struct ori_finding *finding);
enum oriel_status ori_machine_data_path(const struct ori_machine *machine, unsigned index,
					struct ori_data_path_view *state);

/*
 * Does every data path work that the library implements, the settings allow and the hardware
 * supports? T2, T1 and T0 are better forms of T3 and do not count.
 */
bool ori_machine_is_well(const struct ori_machine *machine);

#endif
