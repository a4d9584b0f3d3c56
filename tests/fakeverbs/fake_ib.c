/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of InfiniBand: what the subnet manager gave them, and which packets arrive. The rules are
 * those that open drivers check in software, and that users of libibverbs keep:
 *
 * [check_ah]  Linux, drivers/infiniband/core/verbs.c, rdma_check_ah_attr()
 * [rvt]       Linux, drivers/infiniband/sw/rdmavt/qp.c and ah.c, rvt_modify_qp(), rvt_check_ah()
 * [qib_ruc]   Linux, drivers/infiniband/hw/qib/qib_ruc.c, qib_make_ruc_header(),
 *             qib_ruc_check_hdr(); hw/hfi1/ruc.c, hfi1_ruc_check_hdr(), alike
 * [qib_rcv]   Linux, drivers/infiniband/hw/qib/qib_verbs.c, qib_ib_rcv(): the low LMC bits of the
 *             DLID of a packet are free
 * [qib_pkey]  Linux, drivers/infiniband/hw/qib/qib_verbs.h, qib_pkey_ok()
 * [query]     rdma-core, ibv_query_port(3) of libibverbs: the attributes, lid is the base LID;
 *             libibverbs/verbs.c, ibv_query_gid(): an empty entry of the table reads as zero
 * [nccl]      NCCL, src/transport/net_ib/connect.cc: ncclIbExtractFlid(), ncclIbGetGidIndex(),
 *             ncclIbQpRtr(), which earlier releases call ncclIbRtrQp()
 * [ucx]       UCX, src/uct/ib/base/ib_iface.c: uct_ib_iface_gid_extract_flid(),
 *             uct_ib_iface_resolve_remote_flid(), uct_ib_iface_init_lmc()
 * [path]      rdma-core, librdmacm/rsocket.c, udp_svc_create_ah(): a path with a hop limit above 1
 *             has a GRH. ib_init_ah_attr_from_path() of Linux,
 *             drivers/infiniband/core/sa_query.c, adds one from a hop limit of 1 on
 * [router]    NVIDIA MLNX-OS user manual, "IB Router": a router removes the local route header,
 *             looks the GID of the GRH up, and builds another local route header
 *
 * What real NICs check beyond that, and service levels and rates, which a wrong value makes
 * slow or unroutable in one fabric and not in another, are not played. Nor are refusals that
 * come earlier in Linux than here: qib_check_ah() of qib_verbs.c refuses DLID 0, and
 * rdma_fill_sgid_attr() of core/verbs.c an empty entry of the GID table.
 */
#include <errno.h>
#include <string.h>

#include "fake_objects.h"

#define IB_MULTICAST 0xc000u /* the first multicast LID */
#define IB_FULL 0x8000u      /* the bit of a P_Key: a full member of its partition */

/* [qib_ruc] GID 0: the prefix that the subnet manager set, and the GUID of the port. */
static void ib_gid_of_port(const struct fake_ib *ib, union ibv_gid *gid)
{
	for (unsigned i = 0; i < 8; i++)
		gid->raw[i] = (uint8_t)(ib->prefix >> (56 - 8 * i));
	gid->raw[8] = 0x02;
	gid->raw[15] = ib->guid;
}

/*
 * [nccl, ucx] GID 1 of a subnet with routers: site-local, then the LID by which other subnets
 * route to this one (FLID), then the subnet.
 */
static void ib_gid_of_router(const struct fake_ib *ib, union ibv_gid *gid)
{
	ib_gid_of_port(ib, gid);
	gid->raw[0] = 0xfe, gid->raw[1] = 0xc0, gid->raw[2] = gid->raw[3] = 0;
	gid->raw[4] = (uint8_t)(ib->flid >> 8), gid->raw[5] = (uint8_t)ib->flid;
}

/* [query] Entries that were never set are zero. */
void fake_ib_gid(const struct fake_ib *ib, unsigned index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (index == 0)
		ib_gid_of_port(ib, gid);
	else if (index == 1 && ib->flid)
		ib_gid_of_router(ib, gid);
}

/* [query] */
void fake_ib_query(const struct fake_ib *ib, struct ibv_port_attr *attr)
{
	attr->state = ib->state;
	attr->lid = ib->lid;
	attr->lmc = ib->lmc;
	attr->sm_lid = ib->sm_lid;
	attr->pkey_tbl_len = FAKE_PKEYS;
	attr->flags = ib->demands_grh ? IBV_QPF_GRH_REQUIRED : 0;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
}

/* [rvt] */
int fake_ib_check_init(const struct ibv_qp_attr *attr)
{
	return attr->pkey_index < FAKE_PKEYS ? 0 : EINVAL;
}

int fake_ib_check_rtr(const struct fake_ib *ib, const struct ibv_qp_attr *attr)
{
	const struct ibv_ah_attr *ah = &attr->ah_attr;

	if (ib->demands_grh && !ah->is_global) /* [check_ah] */
		return EINVAL;
	if (ah->dlid >= IB_MULTICAST) /* [rvt] */
		return EINVAL;
	if (ah->is_global && ah->grh.sgid_index >= FAKE_GIDS) /* [rvt] */
		return EINVAL;
	return 0;
}

/* [qib_rcv] */
static bool ib_has_lid(const struct fake_ib *ib, unsigned lid)
{
	return lid >= ib->lid && lid - ib->lid < 1u << ib->lmc;
}

/*
 * Does the local route header of @ah lead from @from to @to? Path bits are less than 2^LMC [ucx].
 * In one subnet the LID is one of the port's [qib_rcv]. To another subnet it is that of a router
 * [nccl, ucx], which forwards by the global route header alone [router]; packets for it have a
 * hop limit above 1 [path].
 */
static bool ib_is_routed(const struct fake_ib *from, const struct ibv_ah_attr *ah,
			 const struct fake_ib *to)
{
	if (!ah->dlid || ah->src_path_bits >= 1u << from->lmc)
		return false;
	if (from->prefix == to->prefix)
		return ib_has_lid(to, ah->dlid);
	return to->flid && ah->dlid == to->flid && ah->is_global && ah->grh.hop_limit > 1;
}

/*
 * [qib_ruc] A packet has a GRH if and only if the queue that receives it has one in its own
 * address vector, and its GIDs are those of that vector. The drivers also accept the default
 * prefix, fe80::/64, in either GID; here it must be the same.
 */
static bool ib_is_expected(const struct fake_ib *from, const struct ibv_ah_attr *ah,
			   const struct fake_ib *to, const struct ibv_ah_attr *expected)
{
	union ibv_gid sender, receiver;

	if (ah->is_global != expected->is_global)
		return false;
	if (!ah->is_global)
		return true;
	fake_ib_gid(from, ah->grh.sgid_index, &sender);
	fake_ib_gid(to, expected->grh.sgid_index, &receiver);
	return memcmp(&receiver, &ah->grh.dgid, sizeof(receiver)) == 0 &&
	       memcmp(&sender, &expected->grh.dgid, sizeof(sender)) == 0;
}

/* [qib_pkey] The same partition, and not two limited members. */
static bool ib_shares_partition(uint16_t a, uint16_t b)
{
	return (a & ~IB_FULL) && (a & ~IB_FULL) == (b & ~IB_FULL) && ((a | b) & IB_FULL);
}

/*
 * [qib_ruc] A packet comes from the LID that the receiver's vector leads to. For packets of another
 * subnet the local route header is a router's, whose LID is not played, so they pass.
 */
static bool ib_comes_from(const struct fake_ib *from, const struct ibv_ah_attr *ah,
			  const struct fake_ib *to, const struct ibv_ah_attr *expected)
{
	return from->prefix != to->prefix ||
	       expected->dlid == (unsigned)(from->lid | ah->src_path_bits);
}

bool fake_ib_arrives(const struct fake_ib *from, const struct ibv_qp_attr *a,
		     const struct fake_ib *to, const struct ibv_qp_attr *b)
{
	return ib_is_routed(from, &a->ah_attr, to) &&
	       ib_is_expected(from, &a->ah_attr, to, &b->ah_attr) &&
	       ib_shares_partition(from->pkeys[a->pkey_index], to->pkeys[b->pkey_index]) &&
	       ib_comes_from(from, &a->ah_attr, to, &b->ah_attr);
}
