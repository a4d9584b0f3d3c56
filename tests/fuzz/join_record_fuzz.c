/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the first record that ranks exchange, without the sockets and threads of the join
 * target: a byte with the number of ranks and whether their nodes differ, then changes of eight
 * bytes to honest records: the rank, the offset (2), how, and the value (4). A second comparison
 * says whether the ranks agree; ranks that do agree about the path between each two of them.
 */
#include <stdlib.h>
#include <string.h>

#include "comm/join_record.h"
#include "comm/paths.h"
#include "fuzz.h"

#define RECORD_RANKS 3u

static void record_make(struct ori_join_record *join, unsigned rank, bool has_nodes)
{
	static struct ori_host here;
	const char node[] = {'a', '\0'};

	if (!here.magic)
		FUZZ_CHECK(ori_host_describe("", 12, &here) == ORIEL_OK);
	*join = (struct ori_join_record){.device_version = ORIEL_DEV_VERSION,
					 .control_length = sizeof(struct ori_control),
					 .timeout_ns = 30000000000u,
					 .rails = 1};
	join->host = here;
	join->host.token += rank;
	if (has_nodes) {
		memcpy(join->host.node, node, sizeof(node));
		join->host.node[0] = (char)('a' + rank);
	}
}

static void record_change(struct fuzz_input *in, struct ori_join_record *joins, unsigned ranks)
{
	unsigned char *bytes = (unsigned char *)&joins[fuzz_byte(in) % ranks];
	size_t at = fuzz_byte(in), width;
	unsigned how;

	at = (at | (size_t)fuzz_byte(in) << 8) % sizeof(*joins);
	how = fuzz_byte(in);
	for (width = 0; width < 4; width++) {
		uint8_t value = fuzz_byte(in);

		if (at + width < sizeof(*joins) && width <= (how >> 2 & 3))
			bytes[at + width] =
				how & 1 ? value : (unsigned char)(bytes[at + width] ^ value);
	}
}

/* The status of their comparison: that of the first rank that differs from rank 0. */
static enum oriel_status records_compare(const struct ori_join_record *joins, unsigned ranks)
{
	const struct ori_join_record *a = joins;

	for (unsigned i = 1; i < ranks; i++) {
		const struct ori_join_record *b = &joins[i];

		if (a->device_version != b->device_version ||
		    a->control_length != b->control_length)
			return ORIEL_ERR_VERSION;
		if (a->timeout_ns != b->timeout_ns || a->connect != b->connect ||
		    a->flags != b->flags || a->rails != b->rails)
			return ORIEL_ERR_MISMATCH;
	}
	return ORIEL_OK;
}

/* Rank @rank reads the records; @path gets its path to each rank. */
static enum oriel_status record_read(const struct ori_join_record *joins, unsigned ranks,
				     unsigned rank, uint32_t path[RECORD_RANKS])
{
	static struct oriel_comm comm;
	struct ori_listen_address addresses[RECORD_RANKS];
	struct ori_host hosts[RECORD_RANKS];
	enum oriel_status status;

	memset(&comm, 0, sizeof(comm));
	comm.rank = rank;
	comm.size = ranks;
	comm.hosts = hosts;
	comm.listen_addresses = addresses;
	FUZZ_CHECK(ori_paths_open(&comm.host_paths, ranks) == ORIEL_OK);
	status = ori_join_record_read(&comm, joins);
	for (unsigned i = 0; i < ranks; i++)
		path[i] = comm.host_paths.of[i].path;
	FUZZ_CHECK(status == ORIEL_OK || (status < 0 && *oriel_last_error()));
	if (status == ORIEL_OK) {
		FUZZ_CHECK(path[rank] == ORIEL_PATH_SELF);
		FUZZ_CHECK(comm.host_paths.domain_size >= 1 &&
			   comm.host_paths.domain_size <= ranks);
	}
	ori_paths_close(&comm.host_paths, ranks);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	uint32_t path[RECORD_RANKS][RECORD_RANKS];
	struct ori_join_record joins[RECORD_RANKS];
	unsigned choice = fuzz_byte(&in), ranks = 1 + choice % RECORD_RANKS;
	bool are_read = true;
	enum oriel_status status;

	for (unsigned i = 0; i < ranks; i++)
		record_make(&joins[i], i, choice & 128);
	while (in.left)
		record_change(&in, joins, ranks);
	status = ori_join_record_compare(joins, ranks);
	FUZZ_CHECK(status == records_compare(joins, ranks));
	if (status != ORIEL_OK)
		return 0;
	for (unsigned i = 0; i < ranks; i++)
		are_read = record_read(joins, ranks, i, path[i]) == ORIEL_OK && are_read;
	for (unsigned i = 0; i < ranks && are_read; i++)
		for (unsigned k = 0; k < i; k++)
			FUZZ_CHECK(path[i][k] == path[k][i]);
	return 0;
}

/* Honest records, and one change of each field that decides something. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const uint16_t at[] = {
		offsetof(struct ori_join_record, host.magic),
		offsetof(struct ori_join_record, host.version),
		offsetof(struct ori_join_record, host.paths),
		offsetof(struct ori_join_record, host.boot_id),
		offsetof(struct ori_join_record, host.ipc_ns),
		offsetof(struct ori_join_record, host.net_ns),
		offsetof(struct ori_join_record, host.token),
		offsetof(struct ori_join_record, host.uid),
		offsetof(struct ori_join_record, host.node),
		offsetof(struct ori_join_record, host.gpu),
		offsetof(struct ori_join_record, device_version),
		offsetof(struct ori_join_record, timeout_ns),
		offsetof(struct ori_join_record, connect),
		offsetof(struct ori_join_record, flags),
		offsetof(struct ori_join_record, rails),
	};
	unsigned which = n / 6;

	if (which > sizeof(at) / sizeof(at[0]))
		return 0;
	bytes[0] = (uint8_t)(n % 3 | (n % 6 >= 3) << 7);
	if (which == 0)
		return 1;
	bytes[1] = (uint8_t)(n % 3);
	bytes[2] = (uint8_t)at[which - 1];
	bytes[3] = (uint8_t)(at[which - 1] >> 8);
	bytes[4] = 0;
	memset(bytes + 5, 1, 4);
	return 9;
}
