/* SPDX-License-Identifier: Apache-2.0 */
/* Where other machines may reach this one. */
#ifndef ORI_SYS_HOSTS_H
#define ORI_SYS_HOSTS_H

#include <stdint.h>

#include <oriel/status.h>

#define ORI_HOSTS 4u

/*
 * Up to four addresses of IPv4 (0: none) or, where there are none, one of IPv6; in
 * network order. Those of interfaces that are up, and lead to other machines.
 */
struct ori_hosts {
	uint32_t is_ipv6;
	uint32_t of[ORI_HOSTS];
};

enum oriel_status ori_hosts_list(struct ori_hosts *hosts);

#endif
