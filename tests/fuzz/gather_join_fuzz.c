/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the requests that ranks exchange when they create a collective: the number of
 * ranks, then their requests. A second comparison here says whether they agree; all ranks find the
 * same, whichever text.
 */
#include <string.h>

#include "coll/gather_request.h"
#include "fuzz.h"

#define JOINS_MAX 5u

/* Numbers of one rank that another one may have differently: docs/wire.md. */
static void join_erase_own(struct ori_gather_join *join)
{
	join->length = 0;
	join->sharers = join->parts = join->is_narrow = 0;
	join->factor = 0;
}

static bool joins_agree(const struct ori_gather_join *joins, unsigned size)
{
	struct ori_gather_join first = joins[0], other;
	bool do_agree = true;

	join_erase_own(&first);
	for (unsigned i = 1; i < size; i++) {
		other = joins[i];
		join_erase_own(&other);
		do_agree = do_agree && memcmp(&first, &other, sizeof(first)) == 0;
	}
	return do_agree;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	unsigned ranks = 1 + fuzz_byte(&in) % JOINS_MAX;
	struct ori_gather_join joins[JOINS_MAX];
	unsigned char *bytes = (unsigned char *)joins;
	enum oriel_status status;

	/* At the end of the input a rank is as the one before. */
	for (size_t i = 0; i < sizeof(joins); i++)
		bytes[i] = in.left                 ? fuzz_byte(&in)
			   : i >= sizeof(joins[0]) ? bytes[i - sizeof(joins[0])]
						   : 0;
	status = ori_gather_join_compare(joins, ranks);
	FUZZ_CHECK(status == (joins_agree(joins, ranks) ? ORIEL_OK : ORIEL_ERR_MISMATCH));
	if (status != ORIEL_OK)
		FUZZ_CHECK(strstr(oriel_last_error(), "rank"));
	return 0;
}

/* Equal requests, and requests that differ in one byte. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	struct ori_gather_join joins[JOINS_MAX];

	if (n >= 100)
		return 0;
	for (unsigned i = 0; i < JOINS_MAX; i++)
		joins[i] = (struct ori_gather_join){.length = 4096,
						    .chunk = 1 << 20,
						    .collective = n % 8};
	bytes[0] = (uint8_t)(n % JOINS_MAX);
	memcpy(bytes + 1, joins, sizeof(joins));
	if (n > sizeof(joins[0]))
		bytes[1 + n] ^= 1;
	return 1 + (n % 2 ? sizeof(joins) : sizeof(joins[0]));
}
