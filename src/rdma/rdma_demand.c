/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the owner of links to connect one of them. Posts of CPU threads call it. */
#include <oriel/dev/detail/cpu.h>

#include "rdma/rdma_rail.h"

void oriel_cpu_connect(const struct oriel_dev_link *l)
{
	/* Links with ORIEL_LINK_DEMAND are those of ori_rdma_link_create(). */
	const struct rdma_handle *handle = (const void *)l;

	handle->links->connect(handle->links->context, l->peer);
}
