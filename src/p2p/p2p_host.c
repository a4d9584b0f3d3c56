/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduces the description of a host to the numbers that endpoints compare. Contexts and the
 * cache call it.
 */
#include "p2p/p2p_host.h"

#include <string.h>

#include "base/config.h"
#include "topo/host.h"

/* FNV-1a: processes compare numbers and not texts, so all of them hash alike. */
static uint64_t host_hash(const void *bytes, size_t length)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const uint8_t *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/*
 * An abstract unix socket reaches processes of the same kernel and network namespace: containers
 * of one machine may have the same boot id, and yet not reach each other.
 */
static uint64_t host_kernel(const struct ori_host *host)
{
	uint8_t bytes[sizeof(host->boot_id) + sizeof(host->net_ns)];

	memcpy(bytes, host->boot_id, sizeof(host->boot_id));
	memcpy(bytes + sizeof(host->boot_id), &host->net_ns, sizeof(host->net_ns));
	return host_hash(bytes, sizeof(bytes));
}

struct p2p_host ori_p2p_host_of(const struct ori_host *host)
{
	struct p2p_host host_numbers = {
		.kernel = host_kernel(host),
		.node = host->node[0] ? host_hash(host->node, strlen(host->node)) : 0,
		.process = host->token,
		.uid = host->uid,
		.pid = host->pid,
	};

	return host_numbers;
}

enum oriel_status ori_p2p_host(struct p2p_host *out)
{
	struct ori_host host;
	enum oriel_status status =
		ori_host_describe(ori_setting_text(ORI_SETTING_NODE), ORI_HOST_PATHS, &host);

	if (status == ORIEL_OK)
		*out = ori_p2p_host_of(&host);
	return status;
}
