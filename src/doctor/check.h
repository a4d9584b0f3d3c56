/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: pure functions of a record. What a record does not say is unknown, never fine. */
#ifndef ORI_DOCTOR_CHECK_H
#define ORI_DOCTOR_CHECK_H

#include <oriel/doctor.h>

#include "doctor/facts.h"

#define ORI_DATA_PATH(name) (1u << ORIEL_DATA_PATH_##name)
#define ORI_DATA_PATHS_GPU_POSTED (ORI_DATA_PATH(T2) | ORI_DATA_PATH(T1) | ORI_DATA_PATH(T0))
#define ORI_DATA_PATHS_NIC (ORI_DATA_PATH(T3) | ORI_DATA_PATHS_GPU_POSTED)

struct ori_answer {
	enum oriel_verdict verdict;
	char found[240];
	char fix[320];
};

struct ori_check {
	const char *name;
	unsigned needs, helps; /* masks of data_paths */
	const char *means;
	void (*evaluate)(const struct ori_facts *facts, struct ori_answer *answer);
};

struct ori_check_list {
	const struct ori_check *checks;
	unsigned count;
};

extern const struct ori_check_list ori_checks_of_host, ori_checks_of_gpus, ori_checks_of_nics;

void ori_answer(struct ori_answer *answer, enum oriel_verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ori_answer_fix(struct ori_answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What a flag says, with @found for yes, no and not known. */
void ori_answer_flag(struct ori_answer *answer, int64_t flag, const char *yes, const char *no,
		     const char *unknown);

/*
 * Things of a kind, each of which should hold: asked one by one with what is
 * known of it, the first that does not, or is unknown, speaks for all.
 */
struct ori_summary {
	unsigned count, fine, bad, unknown;
	unsigned first_bad, first_unknown;
};

void ori_summary_add(struct ori_summary *tally, unsigned index, int64_t is_fine);

/* FAIL if one is bad, UNKNOWN if one is not known or there is none, else PASS. */
enum oriel_verdict ori_summary_verdict(const struct ori_summary *tally);

/* What becomes of the data_paths, given the verdict on each check. */
struct ori_data_path_state {
	enum oriel_verdict verdict;
	bool is_built, is_used;
	char why[480];
};

struct ori_checked {
	const struct ori_check *check;
	const struct ori_answer *answer;
};

void ori_data_paths_judge(const struct ori_facts *facts, const struct ori_checked *checked,
			  unsigned count, struct ori_data_path_state states[ORIEL_DATA_PATHS]);
const char *ori_data_path_name(enum oriel_data_path path);
const char *ori_data_path_tag(enum oriel_data_path path);
bool ori_data_paths_are_well(const struct ori_data_path_state states[ORIEL_DATA_PATHS]);

#endif
