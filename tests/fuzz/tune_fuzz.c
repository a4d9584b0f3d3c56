/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the tables of oriel tune: a text is read as a table for a machine with GPUs and
 * for one without.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "coll/gather_tune.h"
#include "fuzz.h"

/* Write the table that was read. */
static size_t tune_write(const struct ori_tune *tune, const struct ori_tune_key *key, char *text,
			 size_t room)
{
	size_t length = (size_t)snprintf(text, room, ORIEL_TUNE_HEAD "\n");
	const struct ori_tune_row *row;
	char bytes[24];
	unsigned i;

	for (i = 0; i < tune->count; i++) {
		row = &tune->rows[i];
		snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)row->bytes);
		length += (size_t)snprintf(text + length, room - length, "%s %s %u %u %s %s %s\n",
					   ori_collective_name(row->collective),
					   key->is_gpu ? "gpu" : "host", key->ranks, key->nodes,
					   row->bytes == ORI_TUNE_ANY ? "any" : bytes,
					   oriel_algorithm_name(row->algorithm), key->machine);
	}
	return length;
}

static void tune_check(const struct ori_tune *tune, const struct ori_tune_key *key)
{
	static const uint64_t sizes[] = {0, 1, 256, 16384, 1u << 20, ORI_TUNE_ANY};
	char text[ORI_TUNE_ROWS * 256];
	const struct ori_tune_row *row;
	struct ori_tune again;
	unsigned i, k;

	FUZZ_CHECK(tune->count <= ORI_TUNE_ROWS && !tune->digest == !tune->count);
	for (i = 0; i < ORI_COLLECTIVES; i++)
		for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			row = ori_tune_row(tune, (enum ori_collective)i, sizes[k]);
			/* The table has all sizes of a collective, or none. */
			FUZZ_CHECK(!row == !ori_tune_row(tune, (enum ori_collective)i, 0));
			FUZZ_CHECK(!row || (row->bytes >= sizes[k] &&
					    row->algorithm > ORIEL_ALGORITHM_DEFAULT &&
					    row->algorithm < ORI_ALGORITHMS));
		}
	FUZZ_CHECK(ori_tune_parse(text, tune_write(tune, key, text, sizeof(text)), "again", key,
				  &again) == ORIEL_OK);
	FUZZ_CHECK(again.count == tune->count && again.digest == tune->digest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ori_tune_key keys[] = {
		{.machine = "AMD EPYC 9B14", .ranks = 4, .nodes = 2},
		{.machine = "NVIDIA H200", .is_gpu = true, .ranks = 2, .nodes = 1}};
	struct ori_tune tune;
	enum oriel_status status;
	unsigned i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		status = ori_tune_parse((const char *)data, size, "file", &keys[i], &tune);
		FUZZ_CHECK(status == ORIEL_OK || status == ORIEL_ERR_CONFIG);
		if (status == ORIEL_OK)
			tune_check(&tune, &keys[i]);
		else
			FUZZ_CHECK(strncmp(oriel_last_error(), "file:", 5) == 0);
	}
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const char *const seeds[] = {
		ORIEL_TUNE_HEAD "\n",
		ORIEL_TUNE_HEAD "\n# a word\nall-gather host 4 2 16384 bruck AMD EPYC 9B14\n"
				"all-gather host 4 2 any ring AMD EPYC 9B14\n",
		ORIEL_TUNE_HEAD "\nall-gather gpu 2 1 1048576 ll NVIDIA H200\n"
				"all-to-all gpu 2 1 any store NVIDIA H200\n"
				"broadcast host 4 2 any direct AMD EPYC 9B14\n"
				"all-gather gpu 2 1 any ce NVIDIA H200",
	};

	if (n >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	memcpy(bytes, seeds[n], strlen(seeds[n]));
	return strlen(seeds[n]);
}
