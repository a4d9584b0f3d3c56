/* SPDX-License-Identifier: Apache-2.0 */
/* Paths, reasons and domains of fabricated machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "topo/classify.h"

#define MAPPED (1u << ORIEL_PATH_MAPPED)
#define RDMA (1u << ORIEL_PATH_RDMA)

/* Attributes of a rank on a fabricated machine; the first values are the common ones. */
struct fake {
	unsigned process, machine, pid_ns, ipc_ns, net_ns, user_ns, uid;
	const char *node;
	unsigned forbidden; /* mask of paths */
	unsigned hcas;
	bool are_soft;    /* software HCAs, not NICs */
	unsigned gpu;     /* number of its GPU from 1 on, 0: none */
	unsigned seen;    /* mask of 1 << number of the GPUs it sees */
	unsigned reached; /* the accessible ones of these */
	unsigned atomics; /* those of these with atomics */
	unsigned bus;     /* those of these that NVLink does not connect */
	unsigned fabric;  /* enum ori_fabric_state */
	unsigned cluster, clique;
	unsigned given; /* mask of enum ori_given_flags */
};

static struct ori_host_gpu gpu_of(const struct fake *f)
{
	struct ori_host_gpu g = {.uuid = {(uint8_t)f->gpu}};

	if (!f->gpu)
		return (struct ori_host_gpu){.count = 0};
	snprintf(g.pci, sizeof(g.pci), "0000:%02x:00.0", (uint8_t)f->gpu);
	g.given = f->given;
	g.fabric = (struct ori_gpu_fabric){f->fabric, f->clique, {(uint8_t)f->cluster}};
	for (unsigned other = 1; other < 32; other++) {
		struct ori_gpu_reach reach = {.uuid = {(uint8_t)other}};

		if (other == f->gpu || !(f->seen >> other & 1))
			continue;
		reach.flags = (f->reached >> other & 1 ? ORI_GPU_ACCESS : 0) |
			      (f->atomics >> other & 1 ? ORI_GPU_ATOMICS : 0) |
			      (f->bus >> other & 1 ? 0 : ORI_GPU_NVLINK);
		g.reach[g.count++] = reach;
	}
	return g;
}

static struct ori_host host_of(const struct fake *f)
{
	struct ori_host h = {
		.magic = ORI_HOST_MAGIC,
		.version = ORI_HOST_VERSION,
		.length = sizeof(h),
		.paths = ORI_HOST_PATHS & ~f->forbidden,
		.boot_id = {(uint8_t)f->machine},
		.pid_ns = f->pid_ns,
		.ipc_ns = f->ipc_ns,
		.net_ns = f->net_ns,
		.user_ns = f->user_ns,
		.token = f->process + 1,
		.uid = f->uid,
		.pid = 100 + f->process,
		.page_size = 4096,
		.hca_count = (uint16_t)f->hcas,
		.hca_kind = f->are_soft ? ORI_HOST_HCA_SOFT : ORI_HOST_HCA_NIC,
		.cpus = {0x3},
		.gpu = gpu_of(f),
	};

	snprintf(h.hostname, sizeof(h.hostname), "host%u", f->machine);
	snprintf(h.node, sizeof(h.node), "%s", f->node ? f->node : "");
	return h;
}

/* Expect @path and @reason for ranks 4 and 7, in both orders. */
static void expect(struct fake a, struct fake b, enum oriel_path path, const char *reason)
{
	char forth[ORI_REASON_LENGTH], back[ORI_REASON_LENGTH];
	struct ori_host first = host_of(&a), second = host_of(&b);

	assert_int_equal(ori_classify(&first, 4, &second, 7, forth, sizeof(forth)), path);
	assert_int_equal(ori_classify(&second, 7, &first, 4, back, sizeof(back)), path);
	assert_int_equal(ori_classify(&first, 4, &second, 7, NULL, 0), path);
	assert_string_equal(forth, back);
	assert_string_equal(forth, reason);
}

/* As expect(), for windows on GPUs. */
static void expect_gpus(struct fake a, struct fake b, enum oriel_path path, const char *reason)
{
	char forth[ORI_REASON_LENGTH], back[ORI_REASON_LENGTH];
	struct ori_host first = host_of(&a), second = host_of(&b);

	assert_int_equal(ori_classify_gpus(&first, 4, &second, 7, forth, sizeof(forth)), path);
	assert_int_equal(ori_classify_gpus(&second, 7, &first, 4, back, sizeof(back)), path);
	assert_int_equal(ori_classify_gpus(&first, 4, &second, 7, NULL, 0), path);
	assert_string_equal(forth, back);
	assert_string_equal(forth, reason);
}

static void test_each_obstacle_is_named(void **state)
{
	static const char no_hca[] = "; rdma: no RDMA NIC on ranks 4 (host0) and 7 (host0)";
	static const struct {
		struct fake b;
		const char *mapped;
	} table[] = {
		{{.process = 1, .pid_ns = 1}, "different PID namespaces of one machine"},
		{{.process = 1, .ipc_ns = 1}, "different IPC namespaces of one machine"},
		{{.process = 1, .net_ns = 1}, "different network namespaces of one machine"},
		{{.process = 1, .user_ns = 1}, "different user namespaces of one machine"},
		{{.process = 1, .uid = 1000}, "different users (0, 1000)"},
		{{.process = 1, .node = "b"}, "different virtual nodes (ORIEL_NODE \"\", \"b\")"},
		{{.process = 0, .node = "b"}, "different virtual nodes (ORIEL_NODE \"\", \"b\")"},
		{{.process = 1, .forbidden = MAPPED},
		 "not allowed by ORIEL_PATHS on rank 7 (host0)"},
		{{.process = 0, .forbidden = MAPPED},
		 "not allowed by ORIEL_PATHS on rank 7 (host0)"},
	};
	char reason[ORI_REASON_LENGTH];

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		snprintf(reason, sizeof(reason), "mapped: %s%s", table[i].mapped, no_hca);
		expect((struct fake){0}, table[i].b, ORIEL_PATH_NONE, reason);
	}
}

static void test_one_machine_is_mapped(void **state)
{
	(void)state;
	expect((struct fake){0}, (struct fake){.process = 1}, ORIEL_PATH_MAPPED,
	       "mapped: same machine");
	expect((struct fake){.node = "a"}, (struct fake){.process = 1, .node = "a"},
	       ORIEL_PATH_MAPPED, "mapped: same machine");
	expect((struct fake){.hcas = 1}, (struct fake){.process = 1, .hcas = 1}, ORIEL_PATH_MAPPED,
	       "mapped: same machine");
}

static void test_one_process_is_mapped_whatever_its_namespaces(void **state)
{
	(void)state;
	expect((struct fake){0}, (struct fake){.pid_ns = 1, .net_ns = 2, .uid = 5},
	       ORIEL_PATH_MAPPED, "mapped: same process");
}

static void test_a_rank_reaches_itself_whatever_it_may_use(void **state)
{
	struct ori_host h = host_of(&(struct fake){.forbidden = MAPPED | RDMA});
	char reason[ORI_REASON_LENGTH];

	(void)state;
	assert_int_equal(ori_classify(&h, 3, &h, 3, reason, sizeof(reason)), ORIEL_PATH_SELF);
	assert_string_equal(reason, "self: the rank itself");
}

static void test_rdma_needs_a_nic_and_permission_on_both(void **state)
{
	struct fake remote = {.process = 1, .machine = 1, .hcas = 2};

	(void)state;
	expect((struct fake){.hcas = 1}, remote, ORIEL_PATH_RDMA,
	       "mapped: different machines (host0, host1); rdma: RDMA NICs on both");
	expect((struct fake){0}, remote, ORIEL_PATH_NONE,
	       "mapped: different machines (host0, host1); "
	       "rdma: no RDMA NIC on rank 4 (host0)");
	remote.are_soft = true;
	expect((struct fake){.hcas = 1, .are_soft = true}, remote, ORIEL_PATH_RDMA,
	       "mapped: different machines (host0, host1); rdma: software HCAs on both");
	remote.forbidden = RDMA;
	expect((struct fake){.hcas = 1}, remote, ORIEL_PATH_NONE,
	       "mapped: different machines (host0, host1); "
	       "rdma: not allowed by ORIEL_PATHS on rank 7 (host1)");
	expect((struct fake){.hcas = 1, .node = "a"},
	       (struct fake){.hcas = 1, .node = "b", .process = 1}, ORIEL_PATH_RDMA,
	       "mapped: different virtual nodes (ORIEL_NODE \"a\", \"b\"); "
	       "rdma: RDMA NICs on both");
}

/* A rank on one of eight GPUs of one switch, as its process describes it. */
static struct fake on_gpu(unsigned gpu, unsigned process)
{
	return (struct fake){
		.process = process, .gpu = gpu, .seen = 0x1fe, .reached = 0x1fe, .atomics = 0x1fe};
}

static void test_gpus_that_nvlink_joins_are_mapped(void **state)
{
	(void)state;
	expect_gpus(on_gpu(1, 0), on_gpu(8, 1), ORIEL_PATH_MAPPED,
		    "mapped: same machine, GPUs connected by NVLink");
	expect_gpus(on_gpu(1, 0), on_gpu(8, 0), ORIEL_PATH_MAPPED,
		    "mapped: same process, GPUs connected by NVLink");
	expect_gpus(on_gpu(3, 0), on_gpu(3, 1), ORIEL_PATH_MAPPED,
		    "mapped: same machine, same GPU");
	expect_gpus(on_gpu(3, 0), (struct fake){.process = 1}, ORIEL_PATH_MAPPED,
		    "mapped: same machine");
}

static void test_gpus_out_of_reach_are_not_mapped(void **state)
{
	struct fake a = on_gpu(1, 0), b = on_gpu(2, 1);

	(void)state;
	a.reached = a.atomics = 0;
	expect_gpus(a, b, ORIEL_PATH_NONE,
		    "mapped: GPUs 0000:01:00.0 and 0000:02:00.0 of one machine do not reach each "
		    "other; rdma: no RDMA NIC on ranks 4 (host0) and 7 (host0)");
	b.process = 0;
	a.hcas = b.hcas = 1;
	expect_gpus(a, b, ORIEL_PATH_RDMA,
		    "mapped: GPUs 0000:01:00.0 and 0000:02:00.0 of one machine do not reach each "
		    "other; rdma: RDMA NICs on both");
}

/* PCIe: loads and stores pass, atomics do not. */
static void test_gpus_on_pcie_are_mapped_without_atomics(void **state)
{
	struct fake a = on_gpu(1, 0), b = on_gpu(2, 1), unseen = a, none = {.process = 2};
	struct ori_host one = host_of(&a), two;

	(void)state;
	two = host_of(&b);
	assert_int_equal(ori_classify_bus(&one, &two), ORI_BUS_WHOLE);
	b.bus = 1u << 1;
	two = host_of(&b);
	assert_int_equal(ori_classify_bus(&one, &two), ORI_BUS_ATOMICS);
	/* Atomics must pass in both directions. */
	b.atomics = 0;
	two = host_of(&b);
	assert_int_equal(ori_classify_bus(&one, &two), ORI_BUS_STORES);
	assert_int_equal(ori_classify_bus(&two, &one), ORI_BUS_STORES);
	expect_gpus(a, b, ORIEL_PATH_MAPPED,
		    "mapped: same machine, GPUs connected by PCIe, without atomics");
	two = host_of(&none);
	assert_int_equal(ori_classify_bus(&one, &two), ORI_BUS_WHOLE);
	b.seen = unseen.seen = 0;
	two = host_of(&b);
	assert_int_equal(ori_classify_bus(&one, &two), ORI_BUS_WHOLE);
	one = host_of(&unseen);
	assert_int_equal(ori_classify_bus(&one, &two), ORI_BUS_STORES);
	one = two = host_of(&a);
	assert_int_equal(ori_classify_bus(&one, &two), ORI_BUS_WHOLE);
	two.boot_id[0]++;
	two.gpu.uuid[0]++;
	assert_int_equal(ori_classify_bus(&one, &two), ORI_BUS_WHOLE);
}

static void test_peer_access_that_is_off_keeps_all_gpus_apart(void **state)
{
	struct fake a = on_gpu(1, 0), b = on_gpu(2, 1), c = on_gpu(1, 2);

	(void)state;
	b.given = ORI_GIVEN_NO_PEERS;
	a.hcas = b.hcas = c.hcas = 1;
	expect(a, b, ORIEL_PATH_MAPPED, "mapped: same machine");
	expect_gpus(a, b, ORIEL_PATH_RDMA,
		    "mapped: no peer access (ORIEL_TOPOLOGY) on rank 7 (host0); rdma: RDMA NICs on "
		    "both");
	c.given = ORI_GIVEN_NO_PEERS;
	expect_gpus(a, c, ORIEL_PATH_RDMA,
		    "mapped: no peer access (ORIEL_TOPOLOGY) on rank 7 (host0); rdma: RDMA NICs on "
		    "both");
	expect_gpus(b, c, ORIEL_PATH_RDMA,
		    "mapped: no peer access (ORIEL_TOPOLOGY) on ranks 4 (host0) and 7 (host0); "
		    "rdma: RDMA NICs on both");
}

static void test_another_bus_with_atomics_is_distinguished(void **state)
{
	struct fake a = on_gpu(1, 0), b = on_gpu(2, 1);

	(void)state;
	b.bus = 1u << 1;
	expect_gpus(a, b, ORIEL_PATH_MAPPED,
		    "mapped: same machine, GPUs connected by another bus than NVLink");
}

/* A rank on GPU @gpu of machine @machine, in a fabric that is ready. */
static struct fake in_fabric(unsigned machine, unsigned gpu)
{
	struct fake f = on_gpu(gpu, machine * 8 + gpu);

	f.machine = machine;
	f.fabric = ORI_FABRIC_READY;
	f.cluster = 7;
	f.clique = 3;
	f.hcas = 1;
	return f;
}

static void test_a_fabric_joins_gpus_of_two_machines(void **state)
{
	static const char hosts[] =
		"mapped: different machines (host0, host1); rdma: RDMA NICs on both";
	struct fake a = in_fabric(0, 1), b = in_fabric(1, 1);

	(void)state;
	expect(a, b, ORIEL_PATH_RDMA, hosts);
	expect_gpus(a, b, ORIEL_PATH_MAPPED, "mapped: one NVLink fabric (clique 3)");
	expect_gpus(a, in_fabric(0, 2), ORIEL_PATH_MAPPED,
		    "mapped: same machine, GPUs connected by NVLink");
	b.gpu = 0;
	expect_gpus(a, b, ORIEL_PATH_RDMA, hosts);
}

static void test_a_missing_fabric_is_explained(void **state)
{
	static const struct {
		struct fake b;
		const char *lacks;
	} table[] = {
		{{.fabric = ORI_FABRIC_READY, .cluster = 7, .clique = 4},
		 "different cliques (3, 4) of one cluster"},
		{{.fabric = ORI_FABRIC_READY, .cluster = 8, .clique = 3}, "different clusters"},
		{{.fabric = ORI_FABRIC_READY, .cluster = 7, .clique = 3, .forbidden = MAPPED},
		 "not allowed by ORIEL_PATHS"},
		{{.fabric = ORI_FABRIC_NONE}, "none on rank 7 (host1)"},
		{{.fabric = ORI_FABRIC_OFF}, "ORIEL_FABRIC is off on rank 7 (host1)"},
		{{.fabric = ORI_FABRIC_UNKNOWN}, "NVML does not report it on rank 7 (host1)"},
		{{.fabric = ORI_FABRIC_PENDING}, "not joined yet on rank 7 (host1)"},
		{{.fabric = ORI_FABRIC_LOCAL}, "confined to its node on rank 7 (host1)"},
		{{.fabric = ORI_FABRIC_NO_HANDLES},
		 "the driver rejects its handles on rank 7 (host1)"},
		{{.fabric = ORI_FABRIC_NO_PEERS},
		 "no peer access (ORIEL_TOPOLOGY) on rank 7 (host1)"},
		{{.fabric = ORI_FABRIC_UNEVEN},
		 "not the same for all ranks of the node on rank 7 (host1)"},
	};
	char reason[ORI_REASON_LENGTH];
	struct fake b;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		b = in_fabric(1, 1);
		b.fabric = table[i].b.fabric;
		b.cluster = table[i].b.cluster;
		b.clique = table[i].b.clique;
		b.forbidden = table[i].b.forbidden;
		snprintf(reason, sizeof(reason),
			 "mapped: %s; rdma: RDMA NICs on both; NVLink fabric: %s",
			 b.forbidden ? "not allowed by ORIEL_PATHS on rank 7 (host1)"
				     : "different machines (host0, host1)",
			 table[i].lacks);
		expect_gpus(in_fabric(0, 1), b, ORIEL_PATH_RDMA, reason);
	}
}

/* Two ranks on each of four machines. */
static void test_a_node_is_in_a_fabric_with_all_its_ranks(void **state)
{
	struct ori_host hosts[8];
	unsigned members[8];

	(void)state;
	for (unsigned r = 0; r < 8; r++) {
		struct fake f = in_fabric(r / 2, 1 + r % 2);

		if (r == 3)
			f.fabric = ORI_FABRIC_NO_HANDLES;
		if (r == 3)
			f.cluster = f.clique = 0;
		if (r == 6)
			f.clique = 4;
		hosts[r] = host_of(&f);
		members[r] = r < 2 ? r : r + 2;
	}
	ori_hosts_join(hosts, 8);
	for (unsigned r = 0; r < 8; r++)
		assert_int_equal(hosts[r].gpu.fabric.state, r == 3 ? ORI_FABRIC_NO_HANDLES
							    : r == 2 || r == 6 || r == 7
								    ? ORI_FABRIC_UNEVEN
								    : ORI_FABRIC_READY);
	assert_true(ori_gpus_are_mapped(hosts, 0, 5) && !ori_gpus_are_mapped(hosts, 0, 2));
	assert_true(ori_gpus_are_mapped(hosts, 2, 3) && ori_gpus_are_mapped(hosts, 6, 7));
	assert_int_equal(ori_domain_check(0, members, 4, ori_gpus_are_mapped, hosts), ORIEL_OK);
}

static void test_a_gpu_that_one_process_sees_is_judged_by_that_one(void **state)
{
	struct fake a = on_gpu(1, 0), b = on_gpu(2, 1);

	(void)state;
	a.seen = 0;
	expect_gpus(a, b, ORIEL_PATH_MAPPED, "mapped: same machine, GPUs connected by NVLink");
	b.reached = b.atomics = 0;
	b.hcas = a.hcas = 1;
	expect_gpus(a, b, ORIEL_PATH_RDMA,
		    "mapped: GPUs 0000:01:00.0 and 0000:02:00.0 of one machine do not reach each "
		    "other; rdma: RDMA NICs on both");
	b.seen = 0;
	expect_gpus(a, b, ORIEL_PATH_MAPPED,
		    "mapped: same machine, GPUs that are not visible to each other's process");
}

/* Two groups of four GPUs, connected within each group, as on a machine with two switches. */
static void test_islands_of_gpus_are_domains_of_their_own(void **state)
{
	struct ori_host hosts[8];
	unsigned members[8];

	(void)state;
	for (unsigned r = 0; r < 8; r++) {
		struct fake f = on_gpu(r + 1, r);

		f.reached = f.atomics = r < 4 ? 0x1e : 0x1e0;
		hosts[r] = host_of(&f);
		members[r] = r;
	}
	ori_hosts_join(hosts, 8);
	for (unsigned a = 0; a < 8; a++)
		for (unsigned b = 0; b < 8; b++)
			if (a != b)
				assert_int_equal(ori_gpus_are_mapped(hosts, a, b), a / 4 == b / 4);
	assert_int_equal(ori_domain_check(0, members, 4, ori_gpus_are_mapped, hosts), ORIEL_OK);
	assert_int_equal(ori_domain_check(0, members, 5, ori_gpus_are_mapped, hosts),
			 ORIEL_ERR_NO_PATH);
	/* Memory of the host is shared by all, whatever the GPUs reach. */
	assert_int_equal(ori_domain_check(0, members, 8, ori_hosts_are_mapped, hosts), ORIEL_OK);
}

/* @reached[r]: mask of the ranks whose GPUs that of rank r reaches; ranks are on one machine. */
struct reaches {
	unsigned ranks;
	unsigned reached[8];
	unsigned domain[8]; /* the lowest rank of each rank's domain */
	unsigned cpus;      /* mask of the ranks without a GPU */
};

static void test_gpus_are_parted_into_groups_that_all_reach_each_other(void **state)
{
	static const struct reaches table[] = {
		/* All, and none. */
		{4, {0xf, 0xf, 0xf, 0xf}, {0, 0, 0, 0}, 0},
		{4, {1, 2, 4, 8}, {0, 1, 2, 3}, 0},
		/* A chain: 1 reaches 0 and 2, which do not reach each other. */
		{3, {3, 7, 6}, {0, 0, 2}, 0},
		/* A ring of four: pairs. */
		{4, {0xb, 0x7, 0xe, 0xd}, {0, 0, 2, 2}, 0},
		/* Access that one side alone reports is none. */
		{3, {7, 7, 4}, {0, 0, 2}, 0},
		/* Two root complexes, of which one GPU reaches all. */
		{8, {0xf, 0xf, 0xf, 0xff, 0xf8, 0xf8, 0xf8, 0xf8}, {0, 0, 0, 0, 4, 4, 4, 4}, 0},
		/* The first domain that takes a rank takes it; 3 reaches 1 and 2, but not 0. */
		{4, {0x3, 0xb, 0xc, 0xe}, {0, 0, 2, 2}, 0},
		/* Ranks without a GPU take no part, and join no domains together. */
		{5, {0x3, 0, 0x14, 0, 0x14}, {0, 0, 2, 0, 2}, 0xa},
		{5, {0x11, 0, 0x14, 0, 0x11}, {0, 0, 2, 0, 0}, 0xa},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct reaches *t = &table[i];
		struct ori_host hosts[8];

		for (unsigned r = 0; r < t->ranks; r++) {
			struct fake f = on_gpu(t->cpus >> r & 1 ? 0 : r + 1, r);

			f.reached = f.atomics = t->reached[r] << 1;
			hosts[r] = host_of(&f);
		}
		ori_hosts_join(hosts, t->ranks);
		for (unsigned r = 0; r < t->ranks; r++) {
			assert_int_equal(hosts[r].gpu.domain, t->domain[r]);
			hosts[r].gpu.domain = 0;
			assert_int_equal(ori_host_parse(&hosts[r], sizeof(hosts[r]), &hosts[r]),
					 ORIEL_OK);
		}
	}
}

static void test_a_pair_of_two_domains_is_explained(void **state)
{
	struct ori_host hosts[3];
	char reason[ORI_REASON_LENGTH];

	(void)state;
	for (unsigned r = 0; r < 3; r++) {
		struct fake f = on_gpu(r + 1, r);

		f.hcas = 1;
		f.reached = f.atomics = r == 1 ? 0xe : r == 0 ? 0x6 : 0xc;
		hosts[r] = host_of(&f);
	}
	assert_true(ori_gpus_are_mapped(hosts, 1, 2));
	ori_hosts_join(hosts, 3);
	assert_int_equal(ori_classify_gpus(&hosts[1], 1, &hosts[2], 2, reason, sizeof(reason)),
			 ORIEL_PATH_RDMA);
	assert_string_equal(
		reason,
		"mapped: GPUs 0000:02:00.0 and 0000:03:00.0 reach each other, but not "
		"all of the GPUs that are grouped with one of them; rdma: RDMA NICs on both");
	assert_int_equal(ori_classify(&hosts[0], 0, &hosts[2], 2, reason, sizeof(reason)),
			 ORIEL_PATH_MAPPED);
	assert_string_equal(reason, "mapped: same machine");
	assert_false(ori_classify_kind(&hosts[0], &hosts[1]) ==
		     ori_classify_kind(&hosts[1], &hosts[2]));
}

static void test_the_longest_reason_fits(void **state)
{
	struct ori_host a = host_of(&(struct fake){0}), b = host_of(&(struct fake){.process = 1});
	char reason[ORI_REASON_LENGTH];

	(void)state;
	memset(a.hostname, 'h', sizeof(a.hostname) - 1);
	memset(b.hostname, 'i', sizeof(b.hostname) - 1);
	a.paths = b.paths = 0;
	ori_classify(&a, UINT32_MAX - 1, &b, UINT32_MAX, reason, sizeof(reason));
	assert_string_equal(reason + strlen(reason) - 3, "ii)");
	assert_non_null(strstr(reason, "ii); rdma: "));
}

/* All combinations of 2 machines x 2 x 2 namespaces x 3 nodes x 2 masks, twice. */
#define RANKS 96

static struct ori_host fake_host(unsigned r)
{
	static const char *const nodes[] = {"", "a", "b"};

	const struct fake f = {
		.process = r,
		.machine = r % 2,
		.pid_ns = r / 2 % 2,
		.net_ns = r / 4 % 2,
		.node = nodes[r / 8 % 3],
		.forbidden = r / 24 % 2 ? MAPPED : 0,
	};

	return host_of(&f);
}

static bool fakes_are_mapped(unsigned a, unsigned b)
{
	return a % 24 == b % 24 && a / 24 % 2 == 0 && b / 24 % 2 == 0;
}

static void test_every_combination_is_classified_in_both_orders(void **state)
{
	struct ori_host hosts[RANKS];

	(void)state;
	for (unsigned r = 0; r < RANKS; r++)
		hosts[r] = fake_host(r);
	for (unsigned a = 0; a < RANKS; a++) {
		unsigned members[RANKS], count = 0;

		for (unsigned b = 0; b < RANKS; b++) {
			if (a != b)
				assert_int_equal(ori_hosts_are_mapped(hosts, a, b),
						 fakes_are_mapped(a, b));
			if (a == b || ori_hosts_are_mapped(hosts, a, b))
				members[count++] = b;
		}
		assert_int_equal(count, fakes_are_mapped(a, a) ? 2 : 1);
		assert_int_equal(ori_domain_check(a, members, count, ori_hosts_are_mapped, hosts),
				 ORIEL_OK);
	}
}

static void test_a_domain_of_512_is_checked(void **state)
{
	static struct ori_host hosts[512];
	unsigned members[512];

	(void)state;
	for (unsigned r = 0; r < 512; r++) {
		hosts[r] = host_of(&(struct fake){.process = r});
		members[r] = r;
	}
	assert_int_equal(ori_domain_check(17, members, 512, ori_hosts_are_mapped, hosts), ORIEL_OK);
	hosts[400].uid = 1;
	assert_int_equal(ori_domain_check(17, members, 512, ori_hosts_are_mapped, hosts),
			 ORIEL_ERR_NO_PATH);
	assert_non_null(strstr(oriel_last_error(), "rank 17 contains ranks 0 and 400"));
}

/* @context is a 4 x 4 table of '1' and '0'. */
static bool table_says(const void *context, unsigned a, unsigned b)
{
	return ((const char *)context)[4 * a + b] == '1';
}

static void test_a_relation_that_is_not_transitive_is_rejected(void **state)
{
	static const unsigned seen_by_1[] = {0, 1, 2}, seen_by_0[] = {0, 1};
	static const char chain[] = "1100"
				    "1110"
				    "0110"
				    "0001";

	(void)state;
	assert_int_equal(ori_domain_check(0, seen_by_0, 2, table_says, chain), ORIEL_OK);
	assert_int_equal(ori_domain_check(1, seen_by_1, 3, table_says, chain), ORIEL_ERR_NO_PATH);
	assert_string_equal(oriel_last_error(), "domain of rank 1 contains ranks 0 and 2, "
						"which do not map each other");
}

static void test_a_relation_that_is_not_symmetric_is_rejected(void **state)
{
	static const unsigned all[] = {0, 1, 3};
	static const char lopsided[] = "1101"
				       "1101"
				       "0010"
				       "1001";

	(void)state;
	assert_int_equal(ori_domain_check(0, all, 3, table_says, lopsided), ORIEL_ERR_NO_PATH);
	assert_string_equal(oriel_last_error(),
			    "domain of rank 0: rank 1 maps rank 3, but not the other way");
}

static void test_ranks_are_counted_against_the_cpus_of_their_machine(void **state)
{
	struct ori_host hosts[5];
	struct ori_machine_load load;

	(void)state;
	for (unsigned r = 0; r < 5; r++)
		hosts[r] = host_of(&(struct fake){.process = r, .machine = r == 4, .node = "n"});
	hosts[1].node[0] = '\0'; /* a virtual node does not add CPUs */
	load = ori_machine_load_of(hosts, 5, 0);
	assert_int_equal(load.ranks, 4);
	assert_int_equal(load.cpus, 2);
	assert_true(load.is_oversubscribed);

	hosts[2].cpus[ORI_HOST_CPUS / 64 - 1] = UINT64_MAX;
	load = ori_machine_load_of(hosts, 5, 3);
	assert_int_equal(load.cpus, 66);
	assert_false(load.is_oversubscribed);

	load = ori_machine_load_of(hosts, 5, 4);
	assert_int_equal(load.ranks, 1);
	assert_int_equal(load.cpus, 2);
	assert_false(load.is_oversubscribed);
}

static uint64_t kind_of(const struct fake *a, const struct fake *b)
{
	struct ori_host one = host_of(a), two = host_of(b);

	assert_true(ori_classify_kind(&one, &two) == ori_classify_kind(&two, &one));
	return ori_classify_kind(&one, &two);
}

static void test_reasons_of_one_kind_differ_in_names_alone(void **state)
{
	const struct fake first = {.process = 1, .machine = 1, .hcas = 1};
	const struct fake sibling = {.process = 2, .machine = 1, .hcas = 1};
	const struct fake second = {.process = 3, .machine = 2, .hcas = 1};
	const struct fake third = {.process = 4, .machine = 3, .hcas = 1};
	const struct fake no_nic = {.process = 5, .machine = 4};
	const struct fake thread = {.process = 1, .machine = 1, .hcas = 1};

	(void)state;
	assert_true(kind_of(&first, &second) == kind_of(&second, &third));
	assert_false(kind_of(&first, &sibling) == kind_of(&first, &second));
	assert_false(kind_of(&first, &second) == kind_of(&first, &no_nic));
	assert_false(kind_of(&first, &sibling) == kind_of(&first, &thread));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reasons_of_one_kind_differ_in_names_alone),
		cmocka_unit_test(test_each_obstacle_is_named),
		cmocka_unit_test(test_one_machine_is_mapped),
		cmocka_unit_test(test_one_process_is_mapped_whatever_its_namespaces),
		cmocka_unit_test(test_a_rank_reaches_itself_whatever_it_may_use),
		cmocka_unit_test(test_rdma_needs_a_nic_and_permission_on_both),
		cmocka_unit_test(test_gpus_that_nvlink_joins_are_mapped),
		cmocka_unit_test(test_gpus_out_of_reach_are_not_mapped),
		cmocka_unit_test(test_gpus_on_pcie_are_mapped_without_atomics),
		cmocka_unit_test(test_peer_access_that_is_off_keeps_all_gpus_apart),
		cmocka_unit_test(test_another_bus_with_atomics_is_distinguished),
		cmocka_unit_test(test_a_fabric_joins_gpus_of_two_machines),
		cmocka_unit_test(test_a_missing_fabric_is_explained),
		cmocka_unit_test(test_a_node_is_in_a_fabric_with_all_its_ranks),
		cmocka_unit_test(test_a_gpu_that_one_process_sees_is_judged_by_that_one),
		cmocka_unit_test(test_islands_of_gpus_are_domains_of_their_own),
		cmocka_unit_test(test_gpus_are_parted_into_groups_that_all_reach_each_other),
		cmocka_unit_test(test_a_pair_of_two_domains_is_explained),
		cmocka_unit_test(test_the_longest_reason_fits),
		cmocka_unit_test(test_every_combination_is_classified_in_both_orders),
		cmocka_unit_test(test_a_domain_of_512_is_checked),
		cmocka_unit_test(test_a_relation_that_is_not_transitive_is_rejected),
		cmocka_unit_test(test_a_relation_that_is_not_symmetric_is_rejected),
		cmocka_unit_test(test_ranks_are_counted_against_the_cpus_of_their_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
