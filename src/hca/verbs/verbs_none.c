/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the verbs table in a build without infiniband/verbs.h. */
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
