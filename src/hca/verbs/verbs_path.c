/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for the addresses of a port, and forms the path from it to a peer's: whether there is one,
 * and its address vector. verbs_device.c, verbs_events.c, verbs_qp.c and mlx5/mlx5_connect.c
 * call it.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "hca/verbs/verbs.h"

#define PATH_HOP_LIMIT 255u
#define PATH_MULTICAST 0xc000u /* the first LID of no port */
#define PATH_FULL 0x8000u      /* of a P_Key: a full member of the partition */
#define PATH_NUMBERS 0x00ffffffu

int ori_verbs_query_port(const struct verbs_device *d, struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	return ori_ibverbs.query_port(d->context, d->port,
				      (struct _compat_ibv_port_attr *)(void *)attr);
}

/* Queues have key 0 of the table, which a subnet manager fills first. */
int ori_verbs_query_pkey(const struct verbs_device *d, uint16_t *pkey)
{
	__be16 key;

	if (ori_ibverbs.query_pkey(d->context, d->port, 0, &key) != 0)
		return errno ? errno : EIO;
	*pkey = be16toh(key);
	return 0;
}

/*
 * Routers of InfiniBand forward by the GID, and a packet reaches them by a LID. Where a subnet
 * manager makes such GIDs, bits 32 to 47 of a site-local one hold that LID (FLID), and the 16
 * bits behind it the subnet: NCCL, ncclIbExtractFlid(); UCX, uct_ib_iface_gid_extract_flid().
 */
uint16_t ori_verbs_flid(const uint8_t gid[16])
{
	bool is_site_local = gid[0] == 0xfe && (gid[1] & 0xc0) == 0xc0;

	return is_site_local ? (uint16_t)(gid[4] << 8 | gid[5]) : 0;
}

/* Is the peer in another subnet? Ports of one subnet may have different FLIDs, or none. */
static bool path_crosses(const struct verbs_address *a, const struct verbs_address *b)
{
	if (ori_verbs_flid(a->gid) || ori_verbs_flid(b->gid))
		return memcmp(a->gid + 6, b->gid + 6, 2) != 0;
	return memcmp(a->gid, b->gid, 8) != 0;
}

/* Packets pass between members of a partition, unless both are limited members. */
static bool path_shares_partition(uint16_t a, uint16_t b)
{
	return (a & ~PATH_FULL) && (a & ~PATH_FULL) == (b & ~PATH_FULL) && ((a | b) & PATH_FULL);
}

static enum oriel_status path_check_link(const struct verbs_device *d,
					 const struct verbs_address *at)
{
	if (at->is_ethernet != d->address.is_ethernet)
		return ori_fail(
			ORIEL_ERR_MISMATCH,
			"%s is on %s, the NIC of the peer is not: choose others (ORIEL_HCA)",
			d->name, d->address.is_ethernet ? "Ethernet" : "InfiniBand");
	if (!at->is_ethernet && !path_shares_partition(d->address.pkey, at->pkey))
		return ori_fail(ORIEL_ERR_NO_PATH,
				"%s: its partition key is 0x%04x, that of the peer's port 0x%04x: "
				"the subnet manager must put both into one partition, one of them "
				"as a full member",
				d->name, d->address.pkey, at->pkey);
	return ORIEL_OK;
}

enum oriel_status ori_verbs_check_peer(const struct verbs_device *d,
				       const struct ori_hca_qp_address *peer,
				       struct verbs_address *at)
{
	memcpy(at, peer->hca_address, sizeof(*at));
	if (peer->version != ORI_HCA_ADDRESS_VERSION)
		return ori_fail(ORIEL_ERR_VERSION, "the address of a QP has version %u, not %u",
				peer->version, ORI_HCA_ADDRESS_VERSION);
	if (at->magic != VERBS_MAGIC)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: the NIC of the peer is not one of libibverbs", d->name);
	if (at->version != VERBS_VERSION)
		return ori_fail(ORIEL_ERR_VERSION,
				"%s: the NIC of the peer has version %u of addresses, not %u",
				d->name, at->version, VERBS_VERSION);
	if (peer->mtu < 256 || peer->mtu > 4096 || (peer->mtu & (peer->mtu - 1)) ||
	    peer->qpn > PATH_NUMBERS || peer->psn > PATH_NUMBERS || peer->max_rd_atomic == 0)
		return ori_fail(ORIEL_ERR_PROTOCOL, "%s: the address of QP 0x%x is invalid",
				d->name, peer->qpn);
	return path_check_link(d, at);
}

/* Finds the LID of the peer, or of a router on the way to it. */
static enum oriel_status path_find_lid(const struct verbs_device *d, const struct verbs_address *at,
				       bool crosses, uint16_t *lid)
{
	*lid = crosses ? ori_verbs_flid(at->gid) : at->lid;
	if (crosses && !*lid)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"%s is in subnet %02x%02x:%02x%02x:%02x%02x:%02x%02x, the peer's "
				"port in another one, and its GID names no router (FLID): choose "
				"NICs of one subnet (ORIEL_HCA)",
				d->name, d->address.gid[0], d->address.gid[1], d->address.gid[2],
				d->address.gid[3], d->address.gid[4], d->address.gid[5],
				d->address.gid[6], d->address.gid[7]);
	if (!*lid || *lid >= PATH_MULTICAST)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"%s: the port of the peer has no LID (%u): does a subnet manager "
				"run?",
				d->name, *lid);
	return ORIEL_OK;
}

/*
 * Path bits stay 0, so that packets come from the base LID of a port, the one in its address: a
 * queue drops those of other LIDs. The rate stays that of the port, as NCCL's and perftest's does.
 * Both ends of a path have a GRH or none: a queue drops packets of the other kind (Linux,
 * qib_ruc.c, qib_ruc_check_hdr(), for both).
 */
enum oriel_status ori_verbs_ah_attr(const struct verbs_device *d, const struct verbs_address *at,
				    struct ibv_ah_attr *ah)
{
	bool is_global = true;

	*ah = (struct ibv_ah_attr){
		.sl = d->settings.service_level,
		.port_num = d->port,
	};
	if (!d->address.is_ethernet) {
		bool crosses = path_crosses(&d->address, at);
		enum oriel_status status = path_find_lid(d, at, crosses, &ah->dlid);

		if (status != ORIEL_OK)
			return status;
		is_global = crosses || d->address.needs_grh || at->needs_grh;
	}
	if (!is_global)
		return ORIEL_OK;
	ah->is_global = 1;
	memcpy(ah->grh.dgid.raw, at->gid, sizeof(at->gid));
	ah->grh.sgid_index = d->gid_index;
	ah->grh.hop_limit = PATH_HOP_LIMIT;
	ah->grh.traffic_class = d->settings.traffic_class;
	return ORIEL_OK;
}
