/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the addresses of NICs of libibverbs: the port of this rank (InfiniBand or not, its
 * partition, subnet and FLID), then the address that a peer sends. An address that is accepted
 * yields a path of the same kind, whose LID is one of a port; any other one a text.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "hca/verbs/verbs.h"

#define ADDRESS_LID_MAX 0xc000u /* LIDs from here on are of multicast groups: IBTA 1.4, 4.1.1 */

static void address_check_path(const struct verbs_device *d, const struct verbs_address *at)
{
	struct ibv_ah_attr ah;
	enum oriel_status status = ori_verbs_ah_attr(d, at, &ah);

	FUZZ_CHECK(status == ORIEL_OK || (status == ORIEL_ERR_NO_PATH && *oriel_last_error()));
	if (status != ORIEL_OK)
		return;
	FUZZ_CHECK(ah.port_num == d->port && ah.sl == d->settings.service_level);
	if (d->address.is_ethernet)
		FUZZ_CHECK(ah.is_global && ah.dlid == 0);
	else
		FUZZ_CHECK(ah.dlid > 0 && ah.dlid < ADDRESS_LID_MAX);
	if (ah.is_global)
		FUZZ_CHECK(memcmp(ah.grh.dgid.raw, at->gid, sizeof(at->gid)) == 0 &&
			   ah.grh.sgid_index == d->gid_index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct verbs_device d;
	struct fuzz_input in = {data, size};
	struct ori_hca_qp_address peer;
	struct verbs_address at;
	enum oriel_status status;

	strcpy(d.name, "mlx5_0:1");
	d.port = 1;
	d.gid_index = 3;
	d.settings.service_level = 2;
	d.address = (struct verbs_address){.magic = VERBS_MAGIC, .version = VERBS_VERSION};
	d.address.is_ethernet = fuzz_byte(&in) & 1;
	d.address.needs_grh = fuzz_byte(&in) & 1;
	d.address.pkey = (uint16_t)(fuzz_byte(&in) << 8 | fuzz_byte(&in));
	for (unsigned i = 0; i < 8; i++)
		d.address.gid[i] = fuzz_byte(&in);
	for (size_t i = 0; i < sizeof(peer); i++)
		((uint8_t *)&peer)[i] = fuzz_byte(&in);
	status = ori_verbs_check_peer(&d, &peer, &at);
	if (status != ORIEL_OK) {
		FUZZ_CHECK(*oriel_last_error());
		return 0;
	}
	FUZZ_CHECK(at.magic == VERBS_MAGIC && at.version == VERBS_VERSION);
	FUZZ_CHECK(at.is_ethernet == d.address.is_ethernet);
	FUZZ_CHECK(peer.mtu >= 256 && peer.mtu <= 4096 && peer.max_rd_atomic > 0);
	FUZZ_CHECK(peer.qpn < 1u << 24 && peer.psn < 1u << 24);
	address_check_path(&d, &at);
	return 0;
}

/* Valid addresses: of Ethernet, of the subnet, of another one with and without a FLID. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	struct ori_hca_qp_address peer = {.version = ORI_HCA_ADDRESS_VERSION,
					  .qpn = 7,
					  .psn = 9,
					  .mtu = 1024,
					  .max_rd_atomic = 16};
	struct verbs_address at = {.magic = VERBS_MAGIC,
				   .version = VERBS_VERSION,
				   .lid = n % 3 ? 17 : 0,
				   .is_ethernet = n & 1,
				   .needs_grh = n >> 1 & 1,
				   .pkey = 0xffff};
	static const uint8_t site[8] = {0xfe, 0xc0, 0, 0, 0, 5, 0, 1};

	if (n >= 48)
		return 0;
	memset(bytes, 0, 12);
	bytes[0] = (uint8_t)(n & 1);
	bytes[2] = bytes[3] = 0xff;
	if (n & 4)
		memcpy(bytes + 4, site, sizeof(site));
	if (n & 8)
		memcpy(at.gid, site, sizeof(site));
	if (n & 16)
		at.gid[7] ^= 3;
	if (n & 32)
		at.gid[5] = 0;
	memcpy(peer.hca_address, &at, sizeof(at));
	memcpy(bytes + 12, &peer, sizeof(peer));
	return 12 + sizeof(peer);
}
