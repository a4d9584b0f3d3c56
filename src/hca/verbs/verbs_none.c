/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs tables of a build without infiniband/verbs.h: hca_choose.c finds no device by them.
 */
#include <stdio.h>

#include "hca/hca.h"

const struct ori_hca_ops *ori_hca_verbs(void)
{
	return NULL;
}

unsigned ori_hca_verbs_ports(const char *config)
{
	(void)config;
	return 0;
}

void ori_hca_verbs_lack(unsigned rails, char *why, size_t length)
{
	(void)rails;
	snprintf(why, length, "this library was built without infiniband/verbs.h");
}
