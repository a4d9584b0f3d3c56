/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of what a launcher passes on: the bytes of a job id, and a list of hosts of Slurm.
 */
#include <string.h>

#include "bootstrap/hostlist.h"
#include "bootstrap/job_id.h"
#include "fuzz.h"

#define HOST_MAX 40u

static void launch_parse_id(const uint8_t *data, size_t size)
{
	struct oriel_job_id id = {{0}}, again;
	struct ori_job_id found;
	unsigned i;

	memcpy(id.bytes, data, size < sizeof(id) ? size : sizeof(id));
	if (!ori_job_id_parse(&id, &found))
		return;
	FUZZ_CHECK(found.count >= 1 && found.count <= ORI_JOB_ID_ADDRESSES);
	FUZZ_CHECK(found.key.length == 0 || found.key.length == 32);
	for (i = 0; i < found.count; i++)
		FUZZ_CHECK(found.addresses[i].port != 0 ||
			   (found.addresses[i].family == ORI_ADDRESS_UNIX && found.count == 1));
	ori_job_id_encode(&found, &again);
	FUZZ_CHECK(memcmp(&id, &again, sizeof(id)) == 0);
}

/* A host is made of characters of the list, and no bracket or comma is left in it. */
static void launch_parse_hosts(const uint8_t *data, size_t size)
{
	char list[200] = "", host[HOST_MAX + 1];

	memcpy(list, data, size < sizeof(list) ? size : sizeof(list) - 1);
	memset(host, '#', sizeof(host));
	if (!ori_hostlist_first(list, host, HOST_MAX))
		return;
	FUZZ_CHECK(host[HOST_MAX] == '#');
	FUZZ_CHECK(strlen(host) >= 1 && strlen(host) < HOST_MAX);
	FUZZ_CHECK(host[strcspn(host, "[], \t")] == '\0');
	if (list[strcspn(list, "[,")] == '\0')
		FUZZ_CHECK(strcmp(list, host) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	launch_parse_id(data, size);
	launch_parse_hosts(data, size);
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const char *const lists[] = {"node7", "node[007-123,200],login",
					    "rack[2-3]-node[05-08,11]"};
	struct ori_job_id in = {.key.length = n % 2 ? 32 : 0, .count = 1 + n % 4};
	unsigned i;

	if (n < 3) {
		memcpy(bytes, lists[n], strlen(lists[n]));
		return strlen(lists[n]);
	}
	if (n > 10)
		return 0;
	for (i = 0; i < in.count; i++)
		in.addresses[i] =
			(struct ori_address){.family = n % 3 ? 4 : 6, .port = 9, .ip = {10, 1}};
	ori_job_id_encode(&in, (struct oriel_job_id *)bytes);
	return sizeof(struct oriel_job_id);
}
