/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of RDMA NICs: ports, addresses, memory registration, GPUDirect, and PCIe topology.
 * machine.c calls them for `oriel doctor`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor/check.h"

#define MTU_BEST 4096
#define MTU_NET_BEST 4200 /* of the network interface, so that its port can have 4096 */

static bool nic_is_active(const struct ori_facts_nic *n)
{
	return strcmp(n->port, "active") == 0;
}

/* Does it certainly carry no traffic? */
static bool nic_is_idle(const struct ori_facts_nic *n)
{
	return n->port[0] && !nic_is_active(n);
}

static int64_t nic_is_mlx5(const struct ori_facts_nic *n)
{
	return n->driver[0] ? strncmp(n->driver, "mlx5", 4) == 0 : ORI_FACT_UNKNOWN;
}

/* A NIC in the kernel's software (rdma_rxe, siw) is not on the PCI bus. */
static bool nic_is_software(const struct ori_facts_nic *n)
{
	return strcmp(n->pci, "none") == 0;
}

static const char *nic_name(const struct ori_facts_nic *n)
{
	return n->name[0] ? n->name : "a NIC";
}

static const char *nic_driver(const struct ori_facts_nic *n)
{
	if (nic_is_software(n))
		return "in software";
	return n->driver[0] ? n->driver : "with an unknown driver";
}

/* A property of one NIC: yes, no, ORI_FACT_UNKNOWN, or NIC_NOT_APPLICABLE. */
typedef int64_t nic_property(const struct ori_facts *f, const struct ori_facts_nic *n);

#define NIC_NOT_APPLICABLE 2 /* the property does not apply to this NIC */

static bool skip_without_nics(const struct ori_facts *f, struct ori_answer *a)
{
	if (f->nics == ORI_FACT_UNKNOWN && f->nic_count == 0)
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown whether there is a NIC");
	else if (f->nic_count == 0)
		ori_answer(a, ORI_DOCTOR_SKIP, "no NIC");
	return f->nic_count == 0;
}

/*
 * Evaluate a property over the NICs that are active, or over all if none is. Returns the first NIC
 * that lacks it, or NULL.
 */
static const struct ori_facts_nic *nics_evaluate(const struct ori_facts *f, nic_property *property,
						 struct ori_answer *a)
{
	struct ori_summary sum = {0};
	bool has_active = false;

	if (skip_without_nics(f, a))
		return NULL;
	for (unsigned i = 0; i < f->nic_count; i++)
		has_active |= nic_is_active(&f->nic[i]);
	for (unsigned i = 0; i < f->nic_count; i++) {
		int64_t is_fine = has_active && nic_is_idle(&f->nic[i]) ? NIC_NOT_APPLICABLE
									: property(f, &f->nic[i]);

		if (is_fine != NIC_NOT_APPLICABLE)
			ori_summary_add(&sum, i, is_fine);
	}
	if (sum.count == 0) {
		ori_answer(a, ORI_DOCTOR_SKIP, "applies to no NIC");
		return NULL;
	}
	a->verdict = ori_summary_verdict(&sum);
	if (a->verdict == ORI_DOCTOR_UNKNOWN) {
		ori_answer(a, a->verdict, "unknown for %s", nic_name(&f->nic[sum.first_unknown]));
		return NULL;
	}
	if (a->verdict == ORI_DOCTOR_PASS)
		ori_answer(a, a->verdict, "%u of %u", sum.fine, sum.count);
	return a->verdict == ORI_DOCTOR_FAIL ? &f->nic[sum.first_bad] : NULL;
}

static void check_device(const struct ori_facts *f, struct ori_answer *a)
{
	if (f->nic_count > 0) {
		ori_answer(a, ORI_DOCTOR_PASS, "%u: %s, %s%s", f->nic_count, nic_name(&f->nic[0]),
			   nic_driver(&f->nic[0]), f->nic_count > 1 ? ", and others" : "");
	} else if (f->nics != 0) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	} else if (f->bus_nics > 0) {
		ori_answer(a, ORI_DOCTOR_FAIL, "%" PRId64 " on the bus, none with a driver",
			   f->bus_nics);
		ori_answer_fix(a, "modprobe mlx5_ib");
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "none");
		ori_answer_fix(a, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0 "
				  "(in software; not needed within one machine)");
	}
}

static void check_verbs(const struct ori_facts *f, struct ori_answer *a)
{
	if (skip_without_nics(f, a))
		return;
	ori_answer_flag(a, f->verbs, "libibverbs.so.1", "no libibverbs.so.1", "unknown");
	if (a->verdict == ORI_DOCTOR_FAIL)
		ori_answer_fix(a, "apt-get install libibverbs1 ibverbs-providers");
}

static int64_t nic_opens(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	return n->opens;
}

static void check_opens(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n = nics_evaluate(f, nic_opens, a);

	if (!n)
		return;
	ori_answer(a, ORI_DOCTOR_FAIL, "%s cannot be opened by this process", nic_name(n));
	ori_answer_fix(a, "%s",
		       f->container == ORI_FACT_YES
			       ? "docker run --device=/dev/infiniband --cap-add=IPC_LOCK "
				 "--network=host ..."
			       : "modprobe ib_uverbs; chmod 666 /dev/infiniband/uverbs*; "
				 "apt-get install ibverbs-providers");
}

/* The cable is there, and no subnet manager has given the port a LID. */
static bool nic_waits_for_manager(const struct ori_facts_nic *n)
{
	return strcmp(n->link, "infiniband") == 0 && strcmp(n->port, "init") == 0 &&
	       n->sm != ORI_FACT_YES;
}

/* A port that is down is no fault as long as another one is active. */
static void check_port(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n = &f->nic[0];
	unsigned active = 0, unknown = 0;

	if (skip_without_nics(f, a))
		return;
	for (unsigned i = 0; i < f->nic_count; i++) {
		active += nic_is_active(&f->nic[i]);
		unknown += !f->nic[i].port[0];
	}
	if (active > 0) {
		ori_answer(a, ORI_DOCTOR_PASS, "%u of %u active", active, f->nic_count);
	} else if (unknown > 0) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown for %u", unknown);
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "none active; %s is %s%s", nic_name(n), n->port,
			   nic_waits_for_manager(n) ? ": no subnet manager" : "");
		if (nic_waits_for_manager(n))
			ori_answer_fix(a, "systemctl start opensm on one machine of the subnet, or "
					  "the manager of its switch");
		else if (strcmp(n->link, "infiniband") == 0)
			ori_answer_fix(a, "plug the cable in, then systemctl start opensm on one "
					  "machine of the subnet");
		else
			ori_answer_fix(a, "ip link set %s up",
				       n->net[0] ? n->net : "(its interface)");
	}
}

/* InfiniBand has no RoCE addresses: its subnet manager assigns GIDs. */
static int64_t nic_has_address(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	if (strcmp(n->link, "infiniband") == 0)
		return NIC_NOT_APPLICABLE;
	if (!n->link[0] || n->gid_v2 == ORI_FACT_UNKNOWN)
		return ORI_FACT_UNKNOWN;
	return n->gid_v2 > 0;
}

static void check_address(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n = nics_evaluate(f, nic_has_address, a);
	const char *net;

	if (!n)
		return;
	net = n->net[0] ? n->net : "(its interface)";
	ori_answer(a, ORI_DOCTOR_FAIL, "%s has %s", nic_name(n),
		   n->gid_v1 > 0 ? "addresses of RoCE v1 only" : "no address");
	if (n->gid_v1 > 0)
		ori_answer_fix(a,
			       "mlxconfig -d %s set ROCE_NEXT_PROTOCOL=254 (mlx4: options "
			       "mlx4_core roce_mode=2); a kernel of 4.5 or later; reboot",
			       n->pci[0] ? n->pci : "(its PCI address)");
	else
		ori_answer_fix(a, "ip link set %s up && ip addr add ADDRESS/24 dev %s", net, net);
}

static int64_t nic_has_mtu(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	return n->mtu == ORI_FACT_UNKNOWN ? n->mtu : n->mtu >= MTU_BEST;
}

static void check_mtu(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n = nics_evaluate(f, nic_has_mtu, a);

	if (a->verdict == ORI_DOCTOR_PASS)
		ori_answer(a, a->verdict, "%d", MTU_BEST);
	if (!n)
		return;
	if (n->mtu_net > 0)
		ori_answer(a, ORI_DOCTOR_FAIL, "%s: %" PRId64 " (%s has %" PRId64 ")", nic_name(n),
			   n->mtu, n->net, n->mtu_net);
	else
		ori_answer(a, ORI_DOCTOR_FAIL, "%s: %" PRId64, nic_name(n), n->mtu);
	if (strcmp(n->link, "infiniband") == 0)
		ori_answer_fix(a, "set mtu=5 in /etc/opensm/partitions.conf of the subnet manager");
	else
		ori_answer_fix(a, "ip link set %s mtu %d (on its switch port and on the peers too)",
			       n->net[0] ? n->net : "(its interface)", MTU_NET_BEST);
}

/* Ethernet only: InfiniBand has flow control by credits. */
static int64_t nic_is_lossless(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	if (strcmp(n->link, "infiniband") == 0 || nic_is_software(n))
		return NIC_NOT_APPLICABLE;
	if (!n->link[0] || n->pfc == ORI_FACT_UNKNOWN)
		return ORI_FACT_UNKNOWN;
	return n->pfc > 0;
}

static void check_lossless(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n = nics_evaluate(f, nic_is_lossless, a);

	if (!n)
		return;
	ori_answer(a, ORI_DOCTOR_FAIL, "no priority of %s has flow control",
		   n->net[0] ? n->net : nic_name(n));
	ori_answer_fix(a,
		       "mlnx_qos -i %s --trust dscp --pfc 0,0,0,1,0,0,0,0 (and the same "
		       "priority of the switch)",
		       n->net[0] ? n->net : "(its interface)");
}

/* With CAP_IPC_LOCK a process may pin more than the limit. */
static void check_memlock(const struct ori_facts *f, struct ori_answer *a)
{
	if (skip_without_nics(f, a))
		return;
	if (f->memlock == ORI_FACT_UNLIMITED) {
		ori_answer(a, ORI_DOCTOR_PASS, "no limit");
	} else if (f->memlock_exempt == ORI_FACT_YES) {
		ori_answer(a, ORI_DOCTOR_PASS, "CAP_IPC_LOCK: the limit does not apply");
	} else if (f->memlock == ORI_FACT_UNKNOWN || f->memlock_exempt == ORI_FACT_UNKNOWN) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "limited to %" PRId64 " KiB", f->memlock >> 10);
		ori_answer_fix(a, "%s",
			       f->container == ORI_FACT_YES
				       ? "docker run --ulimit memlock=-1 ..."
				       : "echo '* - memlock unlimited' "
					 ">/etc/security/limits.d/oriel.conf, and log in again "
					 "(systemd: LimitMEMLOCK=infinity)");
	}
}

static int64_t nic_pins(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	return n->pins;
}

/* The result of a trial: the rdma controller of a cgroup forbids registration too. */
static void check_pins(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n = nics_evaluate(f, nic_pins, a);

	if (!n)
		return;
	ori_answer(a, ORI_DOCTOR_FAIL, "%s cannot register a page", nic_name(n));
	ori_answer_fix(a, "%s",
		       f->container == ORI_FACT_YES
			       ? "docker run --cap-add=IPC_LOCK --ulimit memlock=-1 ..."
			       : "ulimit -l unlimited; cat /sys/fs/cgroup/rdma.max");
}

static int64_t nic_has_atomics(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	return n->atomics;
}

static void check_atomics(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n = nics_evaluate(f, nic_has_atomics, a);

	if (n)
		ori_answer(a, ORI_DOCTOR_FAIL, "%s has no 64-bit atomics", nic_name(n));
}

/* As skip_without_nics(), for checks that are about a NIC and a GPU. */
static bool skip_without_gpus(const struct ori_facts *f, struct ori_answer *a)
{
	if (skip_without_nics(f, a))
		return true;
	if (f->bus_gpus == 0 && f->gpu_count == 0)
		ori_answer(a, ORI_DOCTOR_SKIP, "no GPU");
	else if (f->gpu_count == 0)
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "the driver shows no GPU");
	return f->gpu_count == 0;
}

/* dma-buf needs both sides: the GPU driver exports it, the NIC registers it. */
static int64_t dmabuf_of_gpus(const struct ori_facts *f)
{
	struct ori_summary sum = {0};

	for (unsigned i = 0; i < f->gpu_count; i++)
		ori_summary_add(&sum, i, f->gpu[i].dmabuf);
	return sum.bad ? ORI_FACT_NO : sum.unknown ? ORI_FACT_UNKNOWN : ORI_FACT_YES;
}

static int64_t dmabuf_of_nics(const struct ori_facts *f)
{
	struct ori_summary sum = {0};

	for (unsigned i = 0; i < f->nic_count; i++)
		if (!nic_is_idle(&f->nic[i]))
			ori_summary_add(&sum, i, f->nic[i].dmabuf);
	return sum.bad ? ORI_FACT_NO : sum.unknown || !sum.count ? ORI_FACT_UNKNOWN : ORI_FACT_YES;
}

/* NICs register GPU memory as a dma-buf, or by nvidia_peermem, an older kernel module. */
static void check_gpu_memory(const struct ori_facts *f, struct ori_answer *a)
{
	int64_t of_gpus, of_nics;

	if (skip_without_gpus(f, a))
		return;
	of_gpus = dmabuf_of_gpus(f);
	of_nics = dmabuf_of_nics(f);
	if (of_gpus == ORI_FACT_YES && of_nics == ORI_FACT_YES) {
		ori_answer(a, ORI_DOCTOR_PASS, "as dma-buf");
	} else if (f->peermem == ORI_FACT_YES) {
		ori_answer(a, ORI_DOCTOR_PASS, "by nvidia_peermem");
	} else if (f->peermem == ORI_FACT_UNKNOWN ||
		   (of_gpus != ORI_FACT_NO && of_nics != ORI_FACT_NO)) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "no nvidia_peermem, and %s",
			   of_gpus == ORI_FACT_NO && of_nics == ORI_FACT_NO
				   ? "neither GPUs nor NICs support dma-buf"
			   : of_gpus == ORI_FACT_NO ? "the GPU driver exports no dma-buf"
						    : "the NIC registers no dma-buf");
		ori_answer_fix(a, "modprobe nvidia_peermem%s",
			       of_gpus == ORI_FACT_NO && f->nvidia_open == ORI_FACT_NO
				       ? " (or apt-get install nvidia-open, and reboot)"
			       : of_nics == ORI_FACT_NO ? " (or a kernel of 5.12 or later)"
							: "");
	}
}

/*
 * Both attributes count: windows are allocated with cuMemCreate(), users' buffers often with
 * cudaMalloc().
 */
static int64_t gpu_is_direct(const struct ori_facts_gpu *g)
{
	if (g->rdma == ORI_FACT_NO || g->rdma_vmm == ORI_FACT_NO)
		return ORI_FACT_NO;
	return g->rdma == ORI_FACT_YES ? g->rdma_vmm : ORI_FACT_UNKNOWN;
}

static void check_direct(const struct ori_facts *f, struct ori_answer *a)
{
	struct ori_summary sum = {0};

	if (skip_without_gpus(f, a))
		return;
	for (unsigned i = 0; i < f->gpu_count; i++)
		ori_summary_add(&sum, i, gpu_is_direct(&f->gpu[i]));
	a->verdict = ori_summary_verdict(&sum);
	if (a->verdict == ORI_DOCTOR_PASS)
		ori_answer(a, a->verdict, "all %u GPUs", sum.count);
	else if (a->verdict == ORI_DOCTOR_UNKNOWN)
		ori_answer(a, a->verdict, "unknown for GPU %u", sum.first_unknown);
	else
		ori_answer(a, a->verdict, "GPU %u (%s): %s", sum.first_bad,
			   f->gpu[sum.first_bad].name,
			   f->gpu[sum.first_bad].rdma == ORI_FACT_NO
				   ? "no GPUDirect RDMA"
				   : "GPUDirect RDMA for cudaMalloc() memory only");
}

/* Device code posts to queues that DEVX creates, which only mlx5 has. */
static int64_t nic_has_devx(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	return nic_is_mlx5(n) == ORI_FACT_YES ? n->devx : nic_is_mlx5(n);
}

static void check_devx(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n;

	if (skip_without_nics(f, a))
		return;
	if (f->mlx5 == ORI_FACT_NO) {
		ori_answer(a, ORI_DOCTOR_FAIL, "no libmlx5.so.1");
		ori_answer_fix(a, "apt-get install ibverbs-providers");
		return;
	}
	n = nics_evaluate(f, nic_has_devx, a);
	if (!n)
		return;
	if (nic_is_mlx5(n) == ORI_FACT_NO) {
		ori_answer(a, ORI_DOCTOR_FAIL, "%s is no ConnectX, but %s", nic_name(n),
			   nic_driver(n));
		return;
	}
	ori_answer(a, ORI_DOCTOR_FAIL, "%s accepts no DEVX commands from this process",
		   nic_name(n));
	ori_answer_fix(a, "%s",
		       f->container == ORI_FACT_YES
			       ? "docker run --device=/dev/infiniband --cap-add=NET_RAW ..."
			       : "a kernel of 5.0 or later with CONFIG_INFINIBAND_USER_ACCESS");
}

static int64_t nic_has_doorbell(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	if (nic_is_mlx5(n) == ORI_FACT_NO)
		return NIC_NOT_APPLICABLE;
	/* The result of a trial overrides the configuration. */
	if (n->doorbell != ORI_FACT_UNKNOWN)
		return n->doorbell;
	return f->nvidia_override == ORI_FACT_NO ? ORI_FACT_NO : ORI_FACT_UNKNOWN;
}

/* The driver maps registers of another device for a GPU only with PeerMappingOverride. */
static void check_doorbell(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n;

	if (skip_without_gpus(f, a))
		return;
	n = nics_evaluate(f, nic_has_doorbell, a);
	if (!n)
		return;
	ori_answer(a, ORI_DOCTOR_FAIL, "no GPU can map the doorbell of %s%s", nic_name(n),
		   f->nvidia_override == ORI_FACT_NO ? ": PeerMappingOverride is not set" : "");
	if (f->nvidia_override == ORI_FACT_NO)
		ori_answer_fix(a, "echo 'options nvidia NVreg_EnableStreamMemOPs=1 "
				  "NVreg_RegistryDwords=\"PeerMappingOverride=1;\"' "
				  ">/etc/modprobe.d/nvidia-rdma.conf; update-initramfs -u; reboot");
	else
		ori_answer_fix(a, "run once as root, to see whether privileges are missing; "
				  "docker run --privileged ...");
}

static int64_t nic_has_umem(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	return nic_is_mlx5(n) == ORI_FACT_NO ? NIC_NOT_APPLICABLE : n->umem;
}

static void check_umem(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n;

	if (skip_without_gpus(f, a))
		return;
	n = nics_evaluate(f, nic_has_umem, a);
	if (!n)
		return;
	ori_answer(a, ORI_DOCTOR_FAIL, "%s accepts no queue in GPU memory", nic_name(n));
	ori_answer_fix(a, "%s",
		       f->peermem == ORI_FACT_YES
			       ? "a kernel of 5.12 or later, rdma-core 41 or later"
			       : "modprobe nvidia_peermem");
}

/* Device code polls CQEs of 64 bytes and expects them uncompressed. */
static void check_cqe(const struct ori_facts *f, struct ori_answer *a)
{
	if (skip_without_nics(f, a))
		return;
	if (f->cqe_compressed == ORI_FACT_YES) {
		ori_answer(a, ORI_DOCTOR_FAIL, "MLX5_ENABLE_CQE_COMPRESSION is set");
		ori_answer_fix(a, "unset MLX5_ENABLE_CQE_COMPRESSION");
	} else if (f->cqe_size > 0 && f->cqe_size != 64) {
		ori_answer(a, ORI_DOCTOR_FAIL, "MLX5_CQE_SIZE is %" PRId64 ", not 64", f->cqe_size);
		ori_answer_fix(a, "unset MLX5_CQE_SIZE");
	} else if (f->cqe_compressed == ORI_FACT_UNKNOWN || f->cqe_size == ORI_FACT_UNKNOWN) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	} else {
		ori_answer(a, ORI_DOCTOR_PASS, "64 bytes, not compressed");
	}
}

/*
 * With ACS request redirect, traffic between devices below one PCIe switch is sent through the
 * root complex.
 */
static int64_t nic_is_direct(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	if (nic_is_software(n))
		return NIC_NOT_APPLICABLE;
	return n->acs == ORI_FACT_UNKNOWN ? n->acs : !n->acs;
}

static void check_acs(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n;

	if (skip_without_gpus(f, a))
		return;
	n = nics_evaluate(f, nic_is_direct, a);
	if (a->verdict == ORI_DOCTOR_PASS)
		ori_answer(a, a->verdict, "off in the bridges above the NICs");
	if (!n)
		return;
	ori_answer(a, ORI_DOCTOR_FAIL, "a bridge above %s (%s) redirects requests", nic_name(n),
		   n->pci);
	ori_answer_fix(a, "for b in $(lspci -D -d '*:*:0604' | cut -d' ' -f1); do setpci -s $b "
			  "ECAP_ACS+6.w=0000; done (not on virtualised hosts)");
}

/* An IOMMU in identity mode passes addresses through; the other types translate each access. */
static int64_t nic_is_untranslated(const struct ori_facts *f, const struct ori_facts_nic *n)
{
	(void)f;
	if (nic_is_software(n))
		return NIC_NOT_APPLICABLE;
	if (!n->iommu[0])
		return ORI_FACT_UNKNOWN;
	return strcmp(n->iommu, "none") == 0 || strcmp(n->iommu, "identity") == 0;
}

static void check_iommu(const struct ori_facts *f, struct ori_answer *a)
{
	const struct ori_facts_nic *n;

	if (skip_without_gpus(f, a))
		return;
	n = nics_evaluate(f, nic_is_untranslated, a);
	if (a->verdict == ORI_DOCTOR_PASS)
		ori_answer(a, a->verdict, "off, or passes addresses through");
	if (!n)
		return;
	ori_answer(a, ORI_DOCTOR_FAIL, "it translates addresses for %s (%s)", nic_name(n),
		   n->iommu);
	ori_answer_fix(a, "add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub; update-grub; "
			  "reboot");
}

/* Does the NUMA node of the GPU have an active NIC? */
static int64_t gpu_has_nic(const struct ori_facts *f, const struct ori_facts_gpu *g)
{
	bool is_unknown = g->numa == ORI_FACT_UNKNOWN;

	for (unsigned i = 0; i < f->nic_count && !is_unknown; i++) {
		if (nic_is_idle(&f->nic[i]))
			continue;
		if (nic_is_active(&f->nic[i]) && f->nic[i].numa == g->numa)
			return ORI_FACT_YES;
		is_unknown |= f->nic[i].numa == ORI_FACT_UNKNOWN || !f->nic[i].port[0];
	}
	return is_unknown ? ORI_FACT_UNKNOWN : ORI_FACT_NO;
}

static void check_numa(const struct ori_facts *f, struct ori_answer *a)
{
	struct ori_summary sum = {0};

	if (skip_without_gpus(f, a))
		return;
	for (unsigned i = 0; i < f->gpu_count; i++)
		ori_summary_add(&sum, i, gpu_has_nic(f, &f->gpu[i]));
	a->verdict = ori_summary_verdict(&sum);
	if (a->verdict == ORI_DOCTOR_PASS)
		ori_answer(a, a->verdict, "each GPU has an active NIC in its NUMA node");
	else if (a->verdict == ORI_DOCTOR_UNKNOWN)
		ori_answer(a, a->verdict, "unknown for GPU %u", sum.first_unknown);
	else
		ori_answer(a, a->verdict, "GPU %u: no active NIC in its NUMA node %" PRId64,
			   sum.first_bad, f->gpu[sum.first_bad].numa);
	if (a->verdict == ORI_DOCTOR_FAIL)
		ori_answer_fix(
			a, "nvidia-smi topo -m; run ranks on GPUs with a NIC in their NUMA node "
			   "(CUDA_VISIBLE_DEVICES), or move the NIC to the other socket");
}

static const struct ori_check checks[] = {
	{"RDMA NIC", ORI_DATA_PATHS_NIC, 0,
	 "ranks of other machines are reached only by the software HCA (ORIEL_HCA=soft)",
	 check_device},
	{"libibverbs", ORI_DATA_PATHS_NIC, 0, "NICs cannot be used", check_verbs},
	{"NIC opens", ORI_DATA_PATHS_NIC, 0, "this process cannot use NICs", check_opens},
	{"port", ORI_DATA_PATHS_NIC, 0, "no packet can be sent", check_port},
	{"RoCE address", ORI_DATA_PATHS_NIC, 0,
	 "queue pairs cannot be connected: Oriel uses RoCE v2", check_address},
	{"MTU", 0, ORI_DATA_PATHS_NIC,
	 "both peers use the smaller MTU: less bandwidth, and a hang if software assumes 4096",
	 check_mtu},
	{"lossless Ethernet", 0, ORI_DATA_PATHS_NIC,
	 "many-to-one traffic loses packets: retries, or peers that seem dead (syndrome 0x15)",
	 check_lossless},
	{"locked memory", ORI_DATA_PATHS_NIC, 0,
	 "windows and regions beyond the limit cannot be registered (ENOMEM)", check_memlock},
	{"registration", ORI_DATA_PATHS_NIC, 0, "no memory can be registered", check_pins},
	{"NIC atomics", ORI_DATA_PATHS_NIC, 0, "no signals: they are 64-bit remote atomics",
	 check_atomics},
	{"GPU memory", ORI_DATA_PATHS_GPU_POSTED, ORI_DATA_PATH(T3),
	 "windows in GPU memory cannot be registered with the NIC", check_gpu_memory},
	{"GPUDirect", ORI_DATA_PATHS_GPU_POSTED, ORI_DATA_PATH(T3),
	 "memory of oriel_memory_alloc() on a GPU cannot be registered with the NIC", check_direct},
	{"mlx5 DEVX", ORI_DATA_PATHS_GPU_POSTED, 0, "kernels cannot post to queues of the NIC",
	 check_devx},
	{"doorbell", ORI_DATA_PATH(T1) | ORI_DATA_PATH(T0), 0,
	 "kernels cannot ring the doorbell: a CPU thread does (tier T2)", check_doorbell},
	{"queues on the GPU", ORI_DATA_PATH(T0), 0,
	 "queues are in host memory: each post crosses PCIe (tier T1)", check_umem},
	{"CQE format", ORI_DATA_PATHS_GPU_POSTED, 0, "device code would misread completions",
	 check_cqe},
	{"PCIe ACS", 0, ORI_DATA_PATHS_NIC,
	 "traffic between GPU and NIC passes through the CPU: half the bandwidth "
	 "or less",
	 check_acs},
	{"IOMMU", 0, ORI_DATA_PATHS_NIC,
	 "traffic between GPU and NIC is translated: slower, and with some "
	 "chipsets it is lost",
	 check_iommu},
	{"NUMA", 0, ORI_DATA_PATHS_NIC, "traffic crosses the link between the sockets", check_numa},
};

const struct ori_check_list ori_checks_of_nics = {checks, sizeof(checks) / sizeof(checks[0])};
