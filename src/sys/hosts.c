/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the addresses of this machine's network interfaces, for the bootstrap's listener and the
 * software HCA.
 */
#include "sys/hosts.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

static bool hosts_is_usable(const struct ifaddrs *i, sa_family_t family)
{
	struct sockaddr_in6 in;

	if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
	    (i->ifa_flags & IFF_LOOPBACK))
		return false;
	if (family == AF_INET)
		return true;
	memcpy(&in, i->ifa_addr, sizeof(in));
	return !IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr);
}

static size_t hosts_ipv4(const struct ifaddrs *i, uint32_t hosts[ORI_HOSTS])
{
	size_t count = 0;

	for (; i && count < ORI_HOSTS; i = i->ifa_next) {
		struct sockaddr_in in;

		if (!hosts_is_usable(i, AF_INET))
			continue;
		memcpy(&in, i->ifa_addr, sizeof(in));
		hosts[count++] = in.sin_addr.s_addr;
	}
	return count;
}

static bool hosts_ipv6(const struct ifaddrs *i, uint32_t hosts[ORI_HOSTS])
{
	struct sockaddr_in6 in;

	static_assert(sizeof(in.sin6_addr) == ORI_HOSTS * sizeof(uint32_t), "one fits");
	for (; i; i = i->ifa_next) {
		if (!hosts_is_usable(i, AF_INET6))
			continue;
		memcpy(&in, i->ifa_addr, sizeof(in));
		memcpy(hosts, &in.sin6_addr, sizeof(in.sin6_addr));
		return true;
	}
	return false;
}

enum oriel_status ori_hosts_list(struct ori_hosts *out)
{
	struct ori_hosts hosts = {0};
	struct ifaddrs *list;

	if (getifaddrs(&list) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot list the network interfaces");
	if (hosts_ipv4(list, hosts.of) == 0)
		hosts.is_ipv6 = hosts_ipv6(list, hosts.of);
	freeifaddrs(list);
	*out = hosts;
	return ORIEL_OK;
}
