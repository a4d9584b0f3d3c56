/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses at which engines of software HCAs are reachable. soft.c and the
 * links use them.
 */
#ifndef ORI_HCA_SOFT_ADDRESS_H
#define ORI_HCA_SOFT_ADDRESS_H

#include "hca/soft/soft_objects.h"

/* The transports that a link may use. */
enum soft_road {
	SOFT_ROAD_BEST, /* a unix socket to engines of this host */
	SOFT_ROAD_TCP,
	SOFT_ROAD_IPV6,
};

/* All of @address that does not depend on listeners. */
enum oriel_status ori_soft_address_describe(struct soft_address *address);

/* ORIEL_ERR_PROTOCOL if @bytes are no address of a software HCA. */
enum oriel_status ori_soft_address_parse(const uint8_t bytes[ORI_HCA_ADDRESS],
					 struct soft_address *address);

/* Address number @attempt of @to over TCP, as seen from @from; of family 0 if there are no more. */
struct ori_address ori_soft_address_on(enum soft_road road, const struct soft_address *to,
				       const struct soft_address *from, unsigned attempt);

/* Can @a and @b connect over a unix socket? */
bool ori_soft_address_is_intranode(const struct soft_address *a, const struct soft_address *b);

#endif
