/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of software HCAs: 64 bytes that name host, engine and node. soft.c
 * and the links use them.
 */
#include "hca/soft/soft_address.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "net/endpoint.h"
#include "sys/hosts.h"
#include "sys/process.h"

#define ADDRESS_MAGIC 0x4148534fu /* "OSHA", little-endian */
#define ADDRESS_VERSION 3u
#define ADDRESS_BOOT_FILE "/proc/sys/kernel/random/boot_id"

/* FNV-1a. */
static uint64_t address_hash(uint64_t hash, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* Abstract unix sockets are reachable within one kernel and network namespace. */
static enum oriel_status address_scope(uint64_t *scope)
{
	struct stat net = {.st_ino = 0};
	char boot[64];
	ssize_t n;
	int fd;

	fd = open(ADDRESS_BOOT_FILE, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot open %s", ADDRESS_BOOT_FILE);
	n = read(fd, boot, sizeof(boot));
	close(fd);
	if (n <= 0)
		return ori_fail(ORIEL_ERR_SYSTEM, "%s is empty", ADDRESS_BOOT_FILE);
	(void)stat("/proc/self/ns/net", &net); /* a kernel without namespaces has no such file */
	*scope = address_hash(UINT64_C(0xcbf29ce484222325), boot, (size_t)n);
	*scope = address_hash(*scope, &net.st_ino, sizeof(net.st_ino));
	return ORIEL_OK;
}

enum oriel_status ori_soft_address_describe(struct soft_address *address)
{
	struct soft_address a = {.magic = ADDRESS_MAGIC, .version = ADDRESS_VERSION};
	struct ori_hosts hosts;
	enum oriel_status status;

	status = ori_random(&a.cookie, sizeof(a.cookie));
	if (status == ORIEL_OK)
		status = address_scope(&a.scope);
	if (status == ORIEL_OK)
		status = ori_hosts_list(&hosts);
	if (status != ORIEL_OK)
		return status;
	static_assert(sizeof(a.hosts) == sizeof(hosts.of), "as many as there are");
	memcpy(a.hosts, hosts.of, sizeof(a.hosts));
	a.is_ipv6 = hosts.is_ipv6;
	*address = a;
	return ORIEL_OK;
}

enum oriel_status ori_soft_address_parse(const uint8_t bytes[ORI_HCA_ADDRESS],
					 struct soft_address *address)
{
	struct soft_address a;

	memcpy(&a, bytes, sizeof(a));
	if (a.magic != ADDRESS_MAGIC)
		return ori_fail(ORIEL_ERR_MISMATCH, "the peer's NIC is no software HCA");
	if (a.version != ADDRESS_VERSION)
		return ori_fail(ORIEL_ERR_VERSION, "the peer's software HCA has version %u, not %u",
				a.version, ADDRESS_VERSION);
	if (a.node >= SOFT_NODES || a.is_ipv6 > 1)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the address of a software HCA names node %u of %u and family %u",
				a.node, SOFT_NODES, a.is_ipv6);
	*address = a;
	return ORIEL_OK;
}

struct ori_address ori_soft_address_on(enum soft_road road, const struct soft_address *to,
				       const struct soft_address *from, unsigned attempt)
{
	bool is_intranode = ori_soft_address_is_intranode(to, from);
	struct ori_hosts hosts = {.is_ipv6 = to->is_ipv6};

	memcpy(hosts.of, to->hosts, sizeof(hosts.of));
	if (road == SOFT_ROAD_IPV6 && is_intranode)
		attempt++; /* continue as if IPv4 had been tried */
	else if (road == SOFT_ROAD_IPV6 && !to->is_ipv6)
		return (struct ori_address){0};
	return ori_endpoint_attempt(&hosts, to->port, is_intranode, attempt);
}

bool ori_soft_address_is_intranode(const struct soft_address *a, const struct soft_address *b)
{
	return a->scope == b->scope;
}
