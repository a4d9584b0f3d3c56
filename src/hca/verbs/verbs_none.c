/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the verbs table in a build without infiniband/verbs.h. */
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
