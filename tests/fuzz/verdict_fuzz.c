/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of verdicts: bytes with the number of ranks, this rank and the stride; then the
 * verdict of each rank.
 */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "comm/exchange.h"
#include "fuzz.h"

#define RANKS 8u

struct verdict_row {
	struct ori_verdict verdict;
	uint64_t more[8]; /* verdicts stand at the head of larger records */
};

struct verdict_job {
	struct verdict_row rows[RANKS];
	unsigned count, rank;
	size_t stride;
};

static const struct ori_verdict *verdict_of(const struct verdict_job *job, unsigned rank)
{
	return (const void *)((const char *)job->rows + rank * job->stride);
}

static bool verdict_is_success(const struct verdict_job *job)
{
	unsigned i;

	for (i = 0; i < job->count; i++)
		if (verdict_of(job, i)->version != ORI_COMM_WIRE ||
		    verdict_of(job, i)->status != ORIEL_OK ||
		    verdict_of(job, i)->call != verdict_of(job, 0)->call)
			return false;
	return true;
}

static bool verdict_is_failure(enum oriel_status status)
{
	return status < 0 && strcmp(oriel_status_name(status), "unknown status") != 0;
}

static void verdict_judge(const struct verdict_job *job)
{
	enum oriel_status status, other;
	unsigned rank;

	status = ori_verdict_judge(job->rows, job->stride, job->count, job->rank);
	if (verdict_is_success(job))
		FUZZ_CHECK(status == ORIEL_OK);
	else
		FUZZ_CHECK(verdict_is_failure(status));
	FUZZ_CHECK(strlen(oriel_last_error()) < 2 * ORI_VERDICT_TEXT);
	for (rank = 0; rank < job->count; rank++) {
		other = ori_verdict_judge(job->rows, job->stride, job->count, rank);
		FUZZ_CHECK(other == status);
	}
}

/* All ranks get the failure of one rank, without characters that would upset a terminal. */
static void verdict_report(const struct verdict_job *job)
{
	struct ori_verdict verdicts[2];
	char text[ORI_VERDICT_TEXT], heard[ORI_VERDICT_TEXT + 16];
	enum oriel_status status = -(enum oriel_status)(1 + job->rank);
	char *c;

	memcpy(text, job->rows[0].verdict.text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	ori_verdict_fill(&verdicts[0], ORI_CALL_COMM_AGREE, ORIEL_OK);
	ori_verdict_fill(&verdicts[1], ORI_CALL_COMM_AGREE, ori_fail(status, "%s", text));
	FUZZ_CHECK(strcmp(verdicts[1].text, text) == 0);
	FUZZ_CHECK(ori_verdict_judge(verdicts, sizeof(verdicts[0]), 2, 0) == status);
	for (c = text; *c; c++)
		*c = isprint((unsigned char)*c) ? *c : '?';
	strcpy(heard, "rank 1: ");
	strcat(heard, text);
	FUZZ_CHECK(strcmp(oriel_last_error(), heard) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct verdict_job job = {0};

	job.count = 1 + fuzz_byte(&input) % RANKS;
	job.rank = fuzz_byte(&input) % job.count;
	job.stride = fuzz_byte(&input) & 1 ? sizeof(job.rows[0]) : sizeof(job.rows[0].verdict);
	if (input.left > sizeof(job.rows))
		input.left = sizeof(job.rows);
	if (input.left)
		memcpy(job.rows, input.at, input.left);
	verdict_judge(&job);
	verdict_report(&job);
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	struct ori_verdict verdicts[4];
	unsigned i;

	if (n > -ORIEL_ERR_FORKED)
		return 0;
	for (i = 0; i < 4; i++)
		ori_verdict_fill(&verdicts[i], ORI_CALL_WINDOW_CREATE, ORIEL_OK);
	if (n > 0)
		ori_verdict_fill(&verdicts[n % 4], ORI_CALL_WINDOW_CREATE,
				 ori_fail(-(enum oriel_status)n, "no room for %u signals", n));
	bytes[0] = 3;
	bytes[1] = (uint8_t)(n & 3);
	bytes[2] = 0;
	memcpy(bytes + 3, verdicts, sizeof(verdicts));
	return 3 + sizeof(verdicts);
}
