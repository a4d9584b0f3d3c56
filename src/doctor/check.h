/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: pure functions of a record. What a record does not say is unknown, never fine. */
#ifndef ORI_DOCTOR_CHECK_H
#define ORI_DOCTOR_CHECK_H

#include <oriel/doctor.h>

#include "doctor/facts.h"

#define ORI_WAY(name) (1u << ORIEL_WAY_##name)
#define ORI_WAYS_POSTED (ORI_WAY(T2) | ORI_WAY(T1) | ORI_WAY(T0))
#define ORI_WAYS_NIC (ORI_WAY(T3) | ORI_WAYS_POSTED)

struct ori_answer {
	enum oriel_verdict verdict;
	char found[240];
	char mend[320];
};

struct ori_check {
	const char *name;
	unsigned needs, helps; /* masks of ways */
	const char *means;
	void (*ask)(const struct ori_facts *facts, struct ori_answer *answer);
};

struct ori_check_list {
	const struct ori_check *checks;
	unsigned count;
};

extern const struct ori_check_list ori_checks_of_host, ori_checks_of_gpus, ori_checks_of_nics;

void ori_answer(struct ori_answer *answer, enum oriel_verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ori_answer_mend(struct ori_answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What a flag says, with @found for yes, no and not known. */
void ori_answer_flag(struct ori_answer *answer, int64_t flag, const char *yes, const char *no,
		     const char *unknown);

/*
 * Things of a kind, each of which should hold: asked one by one with what is
 * known of it, the first that does not, or is unknown, speaks for all.
 */
struct ori_tally {
	unsigned count, fine, bad, unknown;
	unsigned first_bad, first_unknown;
};

void ori_tally_add(struct ori_tally *tally, unsigned index, int64_t is_fine);

/* FAIL if one is bad, UNKNOWN if one is not known or there is none, else PASS. */
enum oriel_verdict ori_tally_verdict(const struct ori_tally *tally);

/* What becomes of the ways, given the verdict on each check. */
struct ori_prospect {
	enum oriel_verdict verdict;
	bool is_built, is_used;
	char why[480];
};

struct ori_ruling {
	const struct ori_check *check;
	const struct ori_answer *answer;
};

void ori_ways_judge(const struct ori_facts *facts, const struct ori_ruling *rulings, unsigned count,
		    struct ori_prospect prospects[ORIEL_WAYS]);
const char *ori_way_name(enum oriel_way way);
const char *ori_way_tag(enum oriel_way way);
bool ori_ways_are_well(const struct ori_prospect prospects[ORIEL_WAYS]);

#endif
