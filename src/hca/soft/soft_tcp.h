/* SPDX-License-Identifier: Apache-2.0 */
/* TCP between engines of software HCAs, over IPv4 and IPv6. Links call it. */
#ifndef ORI_HCA_SOFT_TCP_H
#define ORI_HCA_SOFT_TCP_H

#include "hca/soft/soft_objects.h"

/* The transports that a link may use. */
enum soft_road {
	SOFT_ROAD_BEST, /* a unix socket to engines of this host */
	SOFT_ROAD_TCP,
	SOFT_ROAD_IPV6,
};

/* Listen on a port of its own. */
enum oriel_status ori_soft_tcp_listen(int *fd, uint16_t *port);

/*
 * Begin to connect to address number @attempt of @to, as seen from @from. False
 * if there are no more; *@fd is -1 if this address cannot be tried.
 */
bool ori_soft_tcp_connect(const struct soft_address *to, const struct soft_address *from,
			  enum soft_road road, unsigned attempt, int *fd);

/* The peer of @fd, for texts: "10.0.0.1:4711". */
#define SOFT_TCP_TEXT 64u
const char *ori_soft_tcp_text(int fd, char text[SOFT_TCP_TEXT]);

/* For a socket that sends, over TCP or not. */
void ori_soft_tcp_tune(int fd, bool is_tcp);

#endif
