/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of `oriel doctor`: pure functions of a record (facts.h). A fact that the record lacks
 * makes a check UNKNOWN, never PASS. machine.c runs them all.
 */
#ifndef ORI_DOCTOR_CHECK_H
#define ORI_DOCTOR_CHECK_H

#include "doctor/doctor.h"

#include "doctor/facts.h"

#define ORI_DATA_PATH(name) (1u << ORI_DATA_PATH_##name)
#define ORI_DATA_PATHS_GPU_POSTED (ORI_DATA_PATH(T2) | ORI_DATA_PATH(T1) | ORI_DATA_PATH(T0))
#define ORI_DATA_PATHS_NIC (ORI_DATA_PATH(T3) | ORI_DATA_PATHS_GPU_POSTED)

/* The result of a check: verdict, what was found, and the command that fixes a failure. */
struct ori_answer {
	enum ori_doctor_verdict verdict;
	char found[240];
	char fix[320];
};

struct ori_check {
	const char *name;
	unsigned needs, helps; /* masks of data paths */
	const char *means;
	void (*evaluate)(const struct ori_facts *facts, struct ori_answer *answer);
};

struct ori_check_list {
	const struct ori_check *checks;
	unsigned count;
};

extern const struct ori_check_list ori_checks_of_host, ori_checks_of_gpus, ori_checks_of_nics;

void ori_answer(struct ori_answer *answer, enum ori_doctor_verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ori_answer_fix(struct ori_answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Set the verdict by a flag, with the text for yes, no or unknown. */
void ori_answer_flag(struct ori_answer *answer, int64_t flag, const char *yes, const char *no,
		     const char *unknown);

/*
 * Summary of one property over several devices. The first device that lacks it, or whose value is
 * unknown, decides the text.
 */
struct ori_summary {
	unsigned count, fine, bad, unknown;
	unsigned first_bad, first_unknown;
};

void ori_summary_add(struct ori_summary *summary, unsigned index, int64_t is_fine);

/* FAIL if a device is bad; UNKNOWN if a value is unknown or there is no device; otherwise PASS. */
enum ori_doctor_verdict ori_summary_verdict(const struct ori_summary *summary);

/* The state of a data path, given the verdicts of all checks. */
struct ori_data_path_state {
	enum ori_doctor_verdict verdict;
	bool is_built, is_used;
	char why[480];
};

/* A check and its result. */
struct ori_checked {
	const struct ori_check *check;
	const struct ori_answer *answer;
};

void ori_data_paths_judge(const struct ori_facts *facts, const struct ori_checked *checked,
			  unsigned count, struct ori_data_path_state states[ORI_DATA_PATH_COUNT]);
const char *ori_data_path_name(enum ori_data_path path);
const char *ori_data_path_tag(enum ori_data_path path);
bool ori_data_paths_are_well(const struct ori_data_path_state states[ORI_DATA_PATH_COUNT]);

#endif
