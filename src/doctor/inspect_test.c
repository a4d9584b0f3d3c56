/* SPDX-License-Identifier: Apache-2.0 */
/* Inspects fabricated machines, each a directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <ftw.h>
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/inspect.h"

#define NIC "/sys/class/infiniband/mlx5_0"
#define BRIDGE "/sys/devices/pci0000:00/0000:00:01.0"
#define DEVICE BRIDGE "/0000:18:00.0"

static char root[64];
static struct ori_facts facts;

static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
}

static void put_bytes(const char *path, const void *bytes, size_t length)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	make_folders(full);
	file = fopen(full, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static void put(const char *path, const char *text)
{
	put_bytes(path, text, strlen(text));
}

static void link_to(const char *path, const char *target)
{
	char full[512], where[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	snprintf(where, sizeof(where), "%s%s", root, target);
	make_folders(full);
	assert_int_equal(symlink(where, full), 0);
}

static int forget(const char *path, const struct stat *what, int flag, struct FTW *walk)
{
	(void)what;
	(void)flag;
	(void)walk;
	return remove(path);
}

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/oriel-look-XXXXXX");
	ori_facts_clear(&facts);
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	(void)state;
	return nftw(root, forget, 16, FTW_DEPTH | FTW_PHYS);
}

/* A configuration space with two extended capabilities, the second of them ACS. */
static void make_config(unsigned char config[4096], unsigned control)
{
	memset(config, 0, 4096);
	config[0x100] = 0x01;
	config[0x102] = 0x01;
	config[0x103] = 0x14; /* the next capability is at 0x140 */
	config[0x140] = 0x0d;
	config[0x142] = 0x01;
	config[0x146] = (unsigned char)control;
}

static void test_acs_is_found_in_the_configuration(void **state)
{
	unsigned char config[4096];

	(void)state;
	make_config(config, 0x1d);
	assert_int_equal(ori_inspect_acs(config, sizeof(config)), ORI_FACT_YES);
	make_config(config, 0x19); /* all but request redirect */
	assert_int_equal(ori_inspect_acs(config, sizeof(config)), ORI_FACT_NO);
	config[0x140] = 0x0e;
	assert_int_equal(ori_inspect_acs(config, sizeof(config)), ORI_FACT_NO);
	assert_int_equal(ori_inspect_acs(config, 64), ORI_FACT_UNKNOWN);
	assert_int_equal(ori_inspect_acs(config, 256), ORI_FACT_UNKNOWN);
	memset(config, 0xff, sizeof(config)); /* a device that was removed reads as all ones */
	ori_inspect_acs(config, sizeof(config));
	make_config(config, 0);
	config[0x140] = 0x02;
	config[0x143] = 0x14; /* the capability points to itself */
	assert_int_equal(ori_inspect_acs(config, sizeof(config)), ORI_FACT_NO);
}

static void make_device(unsigned control)
{
	unsigned char config[4096];

	make_config(config, control);
	put_bytes(BRIDGE "/config", config, sizeof(config));
	put(BRIDGE "/vendor", "0x8086\n");
	put(BRIDGE "/class", "0x060400\n");
	put(DEVICE "/vendor", "0x15b3\n");
	put(DEVICE "/class", "0x020700\n");
	put(DEVICE "/numa_node", "1\n");
	put(DEVICE "/iommu_group/type", "DMA-FQ\n");
	put("/sys/bus/pci/drivers/mlx5_core/bind", "");
	link_to(DEVICE "/driver", "/sys/bus/pci/drivers/mlx5_core");
	link_to("/sys/bus/pci/devices/0000:18:00.0", DEVICE);
	link_to("/sys/bus/pci/devices/0000:00:01.0", BRIDGE);
}

static void test_devices_on_the_bus_are_counted(void **state)
{
	static const unsigned network[] = {0x0200, 0x0207};
	int64_t numa = -1, acs = -1;
	ori_fact_text iommu = "";

	(void)state;
	assert_int_equal(ori_inspect_bus(root, 0x15b3, network, 2), ORI_FACT_UNKNOWN);
	make_device(0x04);
	assert_int_equal(ori_inspect_bus(root, 0x15b3, network, 2), 1);
	assert_int_equal(ori_inspect_bus(root, 0x10de, network, 2), 0);
	assert_int_equal(ori_inspect_bus(root, 0x15b3, network, 1), 0);
	ori_inspect_pci(root, "0000:18:00.0", &numa, &acs, &iommu);
	assert_int_equal(numa, 1);
	assert_int_equal(acs, ORI_FACT_YES);
	assert_string_equal(iommu, "DMA-FQ");
}

static void test_a_bridge_that_hides_its_configuration_is_unknown(void **state)
{
	int64_t numa = -1, acs = -1;
	ori_fact_text iommu = "";

	(void)state;
	make_device(0);
	ori_inspect_pci(root, "0000:18:00.0", &numa, &acs, &iommu);
	assert_int_equal(acs, ORI_FACT_NO);
	put_bytes(BRIDGE "/config", "short", 5);
	ori_inspect_pci(root, "0000:18:00.0", &numa, &acs, &iommu);
	assert_int_equal(acs, ORI_FACT_UNKNOWN);
	acs = 7;
	ori_inspect_pci(root, "../../etc", &numa, &acs, &iommu);
	assert_int_equal(acs, 7);
}

static void make_nic(void)
{
	make_device(0);
	put(NIC "/ports/1/state", "4: ACTIVE\n");
	put(NIC "/ports/1/link_layer", "Ethernet\n");
	put(NIC "/ports/1/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
	put(NIC "/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0001\n");
	put(NIC "/ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	put(NIC "/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
	put(NIC "/ports/1/gid_attrs/types/1", "RoCE v2\n");
	put(NIC "/ports/1/gid_attrs/types/2", "RoCE v2\n");
	put(NIC "/ports/1/gid_attrs/ndevs/0", "enp24s0\n");
	put("/sys/class/net/enp24s0/mtu", "1500\n");
	link_to(NIC "/device", DEVICE);
}

static void test_a_nic_is_inspected(void **state)
{
	const struct ori_facts_nic *n = &facts.nic[0];

	(void)state;
	make_nic();
	ori_inspect_nics(root, &facts);
	assert_int_equal(facts.nics, 1);
	assert_int_equal(facts.bus_nics, 1);
	assert_int_equal(facts.nic_count, 1);
	assert_string_equal(n->name, "mlx5_0");
	assert_string_equal(n->driver, "mlx5_core");
	assert_string_equal(n->pci, "0000:18:00.0");
	assert_string_equal(n->port, "active");
	assert_string_equal(n->link, "ethernet");
	assert_string_equal(n->net, "enp24s0");
	assert_int_equal(n->mtu_net, 1500);
	assert_int_equal(n->gid_v1, 1);
	assert_int_equal(n->gid_v2, 1);
	assert_int_equal(n->numa, 1);
	assert_int_equal(n->acs, ORI_FACT_NO);
}

static void test_a_nic_of_infiniband_has_what_its_subnet_manager_gave(void **state)
{
	const struct ori_facts_nic *n = &facts.nic[0];

	(void)state;
	make_nic();
	put(NIC "/ports/1/link_layer", "InfiniBand\n");
	put(NIC "/ports/1/lid", "0x5\n");
	put(NIC "/ports/1/sm_lid", "0x1\n");
	put(NIC "/ports/1/gids/0", "fec0:0000:0000:0007:0000:00ff:fe00:0001\n");
	ori_inspect_nics(root, &facts);
	assert_string_equal(n->link, "infiniband");
	assert_int_equal(n->lid, ORI_FACT_YES);
	assert_int_equal(n->sm, ORI_FACT_YES);
	assert_string_equal(n->subnet, "fec0:0000:0000:0007");
	put(NIC "/ports/1/sm_lid", "0x0\n");
	ori_facts_clear(&facts);
	ori_inspect_nics(root, &facts);
	assert_int_equal(n->sm, ORI_FACT_NO);
	put(NIC "/ports/1/link_layer", "Ethernet\n");
	ori_facts_clear(&facts);
	ori_inspect_nics(root, &facts);
	assert_int_equal(n->sm, ORI_FACT_UNKNOWN);
}

/* A reply as kernel 6.1 sends it: the interface, then IEEE with ETS and PFC inside. */
static size_t make_pfc_reply(unsigned char *bytes, unsigned enabled)
{
	struct {
		struct nlmsghdr head;
		struct dcbmsg what;
		struct nlattr name;
		char text[8];
		struct nlattr ieee, ets;
		uint32_t any;
		struct nlattr pfc;
		struct ieee_pfc values;
	} answer;

	memset(&answer, 0, sizeof(answer));
	answer.head.nlmsg_len = sizeof(answer);
	answer.head.nlmsg_type = RTM_GETDCB;
	answer.what.cmd = DCB_CMD_IEEE_GET;
	answer.name.nla_type = DCB_ATTR_IFNAME;
	answer.name.nla_len = sizeof(answer.name) + 6;
	answer.ieee.nla_type = DCB_ATTR_IEEE | NLA_F_NESTED;
	answer.ieee.nla_len = (uint16_t)(sizeof(answer) - ((char *)&answer.ieee - (char *)&answer));
	answer.ets.nla_type = DCB_ATTR_IEEE_ETS;
	answer.ets.nla_len = sizeof(answer.ets) + sizeof(answer.any);
	answer.pfc.nla_type = DCB_ATTR_IEEE_PFC;
	answer.pfc.nla_len = (uint16_t)(sizeof(answer) - ((char *)&answer.pfc - (char *)&answer));
	answer.values.pfc_en = (uint8_t)enabled;
	memcpy(bytes, &answer, sizeof(answer));
	return sizeof(answer);
}

static void test_flow_control_is_found_in_the_reply(void **state)
{
	unsigned char bytes[512], *end;
	struct nlmsghdr head;
	size_t length, cut;

	(void)state;
	length = make_pfc_reply(bytes, 0x08);
	assert_int_equal(ori_inspect_pfc_reply(bytes, length), 0x08);
	make_pfc_reply(bytes, 0);
	assert_int_equal(ori_inspect_pfc_reply(bytes, length), 0);
	for (cut = 0; cut < length; cut++) {
		end = malloc(cut + 1); /* so that a sanitizer detects reads past the end */
		assert_non_null(end);
		make_pfc_reply(bytes, 0x08);
		if (cut >= sizeof(head)) {
			memcpy(&head, bytes, sizeof(head));
			head.nlmsg_len = (uint32_t)cut;
			memcpy(bytes, &head, sizeof(head));
		}
		memcpy(end, bytes, cut);
		assert_int_equal(ori_inspect_pfc_reply(end, cut), ORI_FACT_UNKNOWN);
		free(end);
	}
	make_pfc_reply(bytes, 0x08);
	memcpy(&head, bytes, sizeof(head));
	head.nlmsg_type = NLMSG_ERROR;
	memcpy(bytes, &head, sizeof(head));
	assert_int_equal(ori_inspect_pfc_reply(bytes, length), ORI_FACT_UNKNOWN);
}

static void test_an_interface_without_flow_control_is_unknown(void **state)
{
	(void)state;
	assert_int_equal(ori_inspect_pfc("lo"), ORI_FACT_UNKNOWN);
	assert_int_equal(ori_inspect_pfc("gone0"), ORI_FACT_UNKNOWN);
	assert_int_equal(ori_inspect_pfc(""), ORI_FACT_UNKNOWN);
	assert_int_equal(ori_inspect_pfc("a-name-that-is-far-too-long"), ORI_FACT_UNKNOWN);
}

static void test_a_nic_in_software_is_on_no_bus(void **state)
{
	(void)state;
	put("/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
	put("/sys/class/infiniband/rxe0/parent", "eth0\n");
	put("/sys/class/net/eth0/mtu", "4200\n");
	ori_inspect_nics(root, &facts);
	assert_string_equal(facts.nic[0].driver, "none");
	assert_string_equal(facts.nic[0].pci, "none");
	assert_string_equal(facts.nic[0].port, "down");
	assert_string_equal(facts.nic[0].net, "eth0");
	assert_int_equal(facts.nic[0].acs, ORI_FACT_UNKNOWN);
}

static void test_the_drivers_parameters_are_read(void **state)
{
	(void)state;
	put("/proc/driver/nvidia/version",
	    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
	    "GCC version:  gcc version 12.3.0\n");
	put("/proc/driver/nvidia/params",
	    "EnableStreamMemOPs: 1\nRegistryDwords: \"PeerMappingOverride=1;\"\n");
	put("/proc/devices", "Character devices:\n507 nvidia-caps-imex-channels\n");
	put("/dev/nvidia-caps-imex-channels/channel0", "");
	put("/sys/module/nvidia_peermem/version", "580.65.06\n");
	ori_inspect_gpus(root, &facts);
	assert_string_equal(facts.nvidia, "580.65.06");
	assert_int_equal(facts.nvidia_open, ORI_FACT_YES);
	assert_int_equal(facts.nvidia_override, ORI_FACT_YES);
	assert_int_equal(facts.nvidia_streamops, ORI_FACT_YES);
	assert_int_equal(facts.peermem, ORI_FACT_YES);
	assert_int_equal(facts.imex, ORI_FACT_YES);
	assert_int_equal(facts.imex_channels, 1);
}

static void test_unset_parameters_are_no(void **state)
{
	(void)state;
	put("/proc/driver/nvidia/version",
	    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\n");
	put("/proc/driver/nvidia/params", "EnableStreamMemOPs: 0\nRegistryDwords: \"\"\n");
	put("/proc/devices", "Character devices:\n  1 mem\n");
	put("/sys/module/nvidia/version", "535.129.03\n");
	ori_inspect_gpus(root, &facts);
	assert_string_equal(facts.nvidia, "535.129.03");
	assert_int_equal(facts.nvidia_open, ORI_FACT_NO);
	assert_int_equal(facts.nvidia_override, ORI_FACT_NO);
	assert_int_equal(facts.nvidia_streamops, ORI_FACT_NO);
	assert_int_equal(facts.peermem, ORI_FACT_NO);
	assert_int_equal(facts.imex, ORI_FACT_NO);
	assert_int_equal(facts.imex_channels, 0);
}

static void test_an_unreadable_fact_is_unknown(void **state)
{
	(void)state;
	ori_inspect_gpus(root, &facts);
	ori_inspect_host(root, &facts);
	assert_int_equal(facts.nvidia_override, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.nvidia_streamops, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.peermem, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.imex_channels, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.bus_gpus, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.memlock_exempt, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.ptrace, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.shm, 0);
}

static void test_the_capability_counts_in_the_first_user_namespace(void **state)
{
	(void)state;
	put("/proc/self/uid_map", "         0          0 4294967295\n");
	put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
	put("/proc/sys/kernel/yama/ptrace_scope", "2\n");
	put("/.dockerenv", "");
	ori_inspect_host(root, &facts);
	assert_int_equal(facts.memlock_exempt, ORI_FACT_YES);
	assert_int_equal(facts.ptrace, 2);
	assert_int_equal(facts.container, ORI_FACT_YES);
	put("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffbfff\n");
	ori_inspect_host(root, &facts);
	assert_int_equal(facts.memlock_exempt, ORI_FACT_NO);
	put("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
	put("/proc/self/uid_map", "         0       1000          1\n");
	ori_inspect_host(root, &facts);
	assert_int_equal(facts.memlock_exempt, ORI_FACT_NO);
}

int main(void)
{
#define INSPECT_TEST(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_acs_is_found_in_the_configuration),
		INSPECT_TEST(test_devices_on_the_bus_are_counted),
		INSPECT_TEST(test_a_bridge_that_hides_its_configuration_is_unknown),
		INSPECT_TEST(test_a_nic_is_inspected),
		INSPECT_TEST(test_a_nic_of_infiniband_has_what_its_subnet_manager_gave),
		cmocka_unit_test(test_flow_control_is_found_in_the_reply),
		cmocka_unit_test(test_an_interface_without_flow_control_is_unknown),
		INSPECT_TEST(test_a_nic_in_software_is_on_no_bus),
		INSPECT_TEST(test_the_drivers_parameters_are_read),
		INSPECT_TEST(test_unset_parameters_are_no),
		INSPECT_TEST(test_an_unreadable_fact_is_unknown),
		INSPECT_TEST(test_the_capability_counts_in_the_first_user_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
