/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that all checks share: they set a result, and summarise several devices. The files
 * check_*.c call them.
 */
#include "doctor/check.h"

#include <stdarg.h>
#include <stdio.h>

void ori_answer(struct ori_answer *answer, enum ori_doctor_verdict verdict, const char *format, ...)
{
	va_list args;

	answer->verdict = verdict;
	va_start(args, format);
	vsnprintf(answer->found, sizeof(answer->found), format, args);
	va_end(args);
}

void ori_answer_fix(struct ori_answer *answer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(answer->fix, sizeof(answer->fix), format, args);
	va_end(args);
}

void ori_answer_flag(struct ori_answer *answer, int64_t flag, const char *yes, const char *no,
		     const char *unknown)
{
	if (flag == ORI_FACT_UNKNOWN)
		ori_answer(answer, ORI_DOCTOR_UNKNOWN, "%s", unknown);
	else if (flag)
		ori_answer(answer, ORI_DOCTOR_PASS, "%s", yes);
	else
		ori_answer(answer, ORI_DOCTOR_FAIL, "%s", no);
}

void ori_summary_add(struct ori_summary *summary, unsigned index, int64_t is_fine)
{
	summary->count++;
	if (is_fine == ORI_FACT_UNKNOWN) {
		if (summary->unknown++ == 0)
			summary->first_unknown = index;
	} else if (is_fine) {
		summary->fine++;
	} else if (summary->bad++ == 0) {
		summary->first_bad = index;
	}
}

enum ori_doctor_verdict ori_summary_verdict(const struct ori_summary *summary)
{
	if (summary->bad > 0)
		return ORI_DOCTOR_FAIL;
	if (summary->unknown > 0 || summary->count == 0)
		return ORI_DOCTOR_UNKNOWN;
	return ORI_DOCTOR_PASS;
}
