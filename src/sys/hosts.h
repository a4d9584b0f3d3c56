/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IP addresses by which other machines can reach this one, for addresses of listeners, and the
 * name of this host: net, the bootstrap and the software HCA ask. ORIEL_IFACE and ORIEL_FAMILY
 * choose among the addresses.
 */
#ifndef ORI_SYS_HOSTS_H
#define ORI_SYS_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#define ORI_HOSTS 4u

/*
 * In network order: up to four IPv4 addresses (0: none), or one IPv6 address if there is no IPv4.
 * From interfaces that are up and are not loopback. With ORIEL_IFACE one address of the first
 * interface that it chooses.
 */
struct ori_hosts {
	uint32_t is_ipv6;
	uint32_t of[ORI_HOSTS];
};

/* ORIEL_ERR_CONFIG: ORIEL_IFACE chooses no interface that has an address of ORIEL_FAMILY. */
enum oriel_status ori_hosts_list(struct ori_hosts *hosts);

/* Is an interface chosen, so that listeners are to be at its address alone? */
bool ori_hosts_is_chosen(void);

/*
 * Does @wanted choose interface @name? Names or beginnings of names, separated by commas; "^"
 * before the list chooses all others, "=" only whole names, as NCCL_SOCKET_IFNAME has it
 * (NCCL's documentation of its environment variables).
 */
bool ori_hosts_match(const char *wanted, const char *name);

/*
 * The full name of this host, as its resolver knows it; where that knows none, the name alone.
 * ORIEL_ERR_SYSTEM: it does not fit into @size bytes.
 */
enum oriel_status ori_hosts_own_name(char *name, size_t size);

#endif
