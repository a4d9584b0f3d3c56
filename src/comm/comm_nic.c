/* SPDX-License-Identifier: Apache-2.0 */
/* oriel_comm_nic(): describes the NICs that the links of a rank go through, for users. */
#include "base/error.h"
#include "comm/comm.h"
#include "rdma/rdma.h"

enum oriel_status oriel_comm_nic(const struct oriel_comm *comm, struct oriel_nic *adapter)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_hca_caps caps;

	if (status != ORIEL_OK)
		return status;
	if (!comm->rdma)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"rank %u has no NIC open: no peer is reached by RDMA", comm->rank);
	ori_rdma_caps(comm->rdma, 0, &caps);
	*adapter = (struct oriel_nic){
		.kind = caps.kind,
		.name = caps.name,
		.mtu = caps.mtu,
		.depth_max = caps.depth_max,
		.outstanding_max = caps.max_rd_atomic,
		.has_wait = caps.has_wait,
		.is_software = caps.is_software,
		.is_sink = caps.is_sink,
		.rails = ori_rdma_rails(comm->rdma),
		.is_proxied = ori_rdma_is_proxied(comm->rdma),
		.tier = caps.tier,
	};
	return ORIEL_OK;
}
