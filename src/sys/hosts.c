/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the addresses of this machine's network interfaces, for the bootstrap's listener and the
 * software HCA, and finds the full name of the host.
 */
#include "sys/hosts.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"

#define HOSTS_TEXT 256

bool ori_hosts_is_chosen(void)
{
	return *ori_setting_text(ORI_SETTING_IFACE);
}

bool ori_hosts_match(const char *wanted, const char *name)
{
	bool excludes = *wanted == '^', is_whole, is_found = false;
	size_t length;

	wanted += excludes;
	is_whole = *wanted == '=';
	wanted += is_whole;
	for (; !is_found; wanted += length + 1) {
		length = strcspn(wanted, ",");
		is_found = length && strncmp(wanted, name, length) == 0 &&
			   (!is_whole || !name[length]);
		if (!wanted[length])
			break;
	}
	return is_found != excludes;
}

static bool hosts_is_chosen(const struct ifaddrs *i)
{
	const char *wanted = ori_setting_text(ORI_SETTING_IFACE);

	/* "^eth1" asks for no loopback; "lo" does. */
	if (!*wanted || *wanted == '^')
		return !(i->ifa_flags & IFF_LOOPBACK) &&
		       (!*wanted || ori_hosts_match(wanted, i->ifa_name));
	return ori_hosts_match(wanted, i->ifa_name);
}

static bool hosts_is_usable(const struct ifaddrs *i, sa_family_t family)
{
	struct sockaddr_in6 in;

	if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
	    !hosts_is_chosen(i))
		return false;
	if (family == AF_INET)
		return true;
	memcpy(&in, i->ifa_addr, sizeof(in));
	return !IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr);
}

static size_t hosts_ipv4(const struct ifaddrs *i, uint32_t hosts[ORI_HOSTS])
{
	size_t count = 0, most = ori_hosts_is_chosen() ? 1 : ORI_HOSTS;

	for (; i && count < most; i = i->ifa_next) {
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

/* The interfaces that are up, each once, with the families of their addresses. */
static void hosts_text(const struct ifaddrs *list, char text[HOSTS_TEXT])
{
	const struct ifaddrs *i;
	size_t used = 0;

	*text = 0;
	for (i = list; i && used < HOSTS_TEXT; i = i->ifa_next) {
		bool is_ipv4 = i->ifa_addr && i->ifa_addr->sa_family == AF_INET;

		if (!(i->ifa_flags & IFF_UP) || !i->ifa_addr ||
		    (!is_ipv4 && i->ifa_addr->sa_family != AF_INET6))
			continue;
		used += (size_t)snprintf(text + used, HOSTS_TEXT - used, "%s%s (%s)",
					 used ? ", " : "", i->ifa_name, is_ipv4 ? "IPv4" : "IPv6");
	}
}

static enum oriel_status hosts_none(const struct ifaddrs *list)
{
	const char *family = ori_setting_text(ORI_SETTING_FAMILY);
	char text[HOSTS_TEXT];

	hosts_text(list, text);
	return ori_fail(ORIEL_ERR_CONFIG,
			"ORIEL_IFACE is '%s', and no interface that it chooses is up with an "
			"address%s%s; there are %s",
			ori_setting_text(ORI_SETTING_IFACE),
			strcmp(family, "auto") == 0 ? "" : " of ORIEL_FAMILY ",
			strcmp(family, "auto") == 0 ? "" : family, *text ? text : "none");
}

enum oriel_status ori_hosts_list(struct ori_hosts *out)
{
	const char *family = ori_setting_text(ORI_SETTING_FAMILY);
	enum oriel_status status = ORIEL_OK;
	struct ori_hosts hosts = {0};
	struct ifaddrs *list;
	bool has_any = false;

	if (getifaddrs(&list) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot list the network interfaces");
	if (strcmp(family, "ipv6") != 0)
		has_any = hosts_ipv4(list, hosts.of) > 0;
	if (!has_any && strcmp(family, "ipv4") != 0) {
		has_any = hosts_ipv6(list, hosts.of);
		hosts.is_ipv6 = has_any;
	}
	if (!has_any && ori_hosts_is_chosen())
		status = hosts_none(list);
	freeifaddrs(list);
	*out = hosts;
	return status;
}

enum oriel_status ori_hosts_own_name(char *name, size_t size)
{
	const struct addrinfo hints = {.ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	bool fits;

	if (gethostname(name, size) != 0 || memchr(name, '\0', size) == NULL)
		return ori_fail(ORIEL_ERR_SYSTEM, "the name of this host is too long");
	if (getaddrinfo(name, NULL, &hints, &found) != 0 || !found->ai_canonname) {
		if (found)
			freeaddrinfo(found);
		return ORIEL_OK;
	}
	fits = (size_t)snprintf(name, size, "%s", found->ai_canonname) < size;
	freeaddrinfo(found);
	return fits ? ORIEL_OK
		    : ori_fail(ORIEL_ERR_SYSTEM, "the name of this host is too long: '%s...'",
			       name);
}
