/* SPDX-License-Identifier: Apache-2.0 */
#include "p2p/p2p_host.h"

#include <string.h>

#include "topo/host.h"

/* FNV-1a of what unix sockets end at: the kernel and the network namespace. */
static uint64_t host_place(const struct ori_host *host)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	uint8_t bytes[sizeof(host->boot_id) + sizeof(host->net_ns)];

	memcpy(bytes, host->boot_id, sizeof(host->boot_id));
	memcpy(bytes + sizeof(host->boot_id), &host->net_ns, sizeof(host->net_ns));
	for (size_t i = 0; i < sizeof(bytes); i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

enum oriel_status ori_p2p_host(struct p2p_host *out)
{
	struct ori_host host;
	enum oriel_status st = ori_host_describe(NULL, ORI_HOST_PATHS, &host);

	if (st != ORIEL_OK)
		return st;
	*out = (struct p2p_host){host_place(&host), host.token, host.uid, host.pid};
	return ORIEL_OK;
}
