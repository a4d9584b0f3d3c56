/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IP addresses by which other machines can reach this one, for addresses of listeners: net
 * and the software HCA ask.
 */
#ifndef ORI_SYS_HOSTS_H
#define ORI_SYS_HOSTS_H

#include <stdint.h>

#include <oriel/status.h>

#define ORI_HOSTS 4u

/*
 * In network order: up to four IPv4 addresses (0: none), or one IPv6 address if there is no IPv4.
 * From interfaces that are up and are not loopback.
 */
struct ori_hosts {
	uint32_t is_ipv6;
	uint32_t of[ORI_HOSTS];
};

enum oriel_status ori_hosts_list(struct ori_hosts *hosts);

#endif
