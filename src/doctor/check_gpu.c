/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of GPUs and of the CUDA driver. machine.c calls them for `oriel doctor`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor/check.h"

#define CAPABILITY_LEAST 80

enum cuda_result {
	RESULT_NO_DEVICE = 100,
	RESULT_NOT_READY = 802,
	RESULT_MISMATCH = 803,
};

static bool gpus_are_absent(const struct ori_facts *f)
{
	return f->bus_gpus == 0 && f->gpu_count == 0;
}

/*
 * Without GPUs nothing is checked: either the machine has none, or the driver lists none, which
 * the check "CUDA driver" reports.
 */
static bool skip_without_gpus(const struct ori_facts *f, struct ori_answer *a)
{
	if (gpus_are_absent(f))
		ori_answer(a, ORI_DOCTOR_SKIP, "no GPU");
	else if (f->gpu_count == 0)
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "the driver shows no GPU");
	return f->gpu_count == 0;
}

/* The results of cuInit() whose cause and fix are known; the values are CUresult's. */
static void check_driver_result(const struct ori_facts *f, struct ori_answer *a)
{
	switch (f->cuda_result) {
	case 0:
		ori_answer(a, ORI_DOCTOR_PASS, "%s, CUDA %" PRId64 ".%" PRId64 ", %u GPUs",
			   f->nvidia[0] ? f->nvidia : "version unknown", f->cuda_version / 1000,
			   f->cuda_version % 1000 / 10, f->gpu_count);
		return;
	case RESULT_NO_DEVICE:
		ori_answer(a, ORI_DOCTOR_FAIL,
			   "CUDA_ERROR_NO_DEVICE: this process has access to no GPU");
		ori_answer_fix(a, "%s",
			       f->container == ORI_FACT_YES
				       ? "docker run --gpus all ..."
				       : "unset CUDA_VISIBLE_DEVICES; nvidia-modprobe -u -c 0");
		return;
	case RESULT_NOT_READY:
		ori_answer(a, ORI_DOCTOR_FAIL,
			   "CUDA_ERROR_SYSTEM_NOT_READY: the NVSwitch fabric is not started");
		ori_answer_fix(a, "systemctl enable --now nvidia-fabricmanager");
		return;
	case RESULT_MISMATCH:
		ori_answer(a, ORI_DOCTOR_FAIL,
			   "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: libcuda and "
			   "the kernel modules are of different versions");
		ori_answer_fix(a, "reboot (after: apt-get install --reinstall the driver)");
		return;
	default:
		ori_answer(a, ORI_DOCTOR_FAIL, "cuInit() fails with %" PRId64, f->cuda_result);
		ori_answer_fix(a, "dmesg | grep -i -e nvrm -e xid");
	}
}

/* Without libcuda only the PCI bus shows whether the machine has GPUs. */
static void check_driver(const struct ori_facts *f, struct ori_answer *a)
{
	if (gpus_are_absent(f)) {
		ori_answer(a, ORI_DOCTOR_SKIP, "no GPU");
	} else if (f->cuda == ORI_FACT_YES && f->cuda_result != ORI_FACT_UNKNOWN) {
		check_driver_result(f, a);
	} else if (f->cuda == ORI_FACT_NO && f->bus_gpus > 0) {
		ori_answer(a, ORI_DOCTOR_FAIL, "%" PRId64 " GPUs on the bus, but no libcuda.so.1",
			   f->bus_gpus);
		ori_answer_fix(a, "%s",
			       f->container == ORI_FACT_YES ? "docker run --gpus all ..."
							    : "apt-get install cuda-drivers");
	} else if (f->cuda == ORI_FACT_NO) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN,
			   "no libcuda.so.1; unknown whether the machine has a GPU");
	} else {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	}
}

static void check_build(const struct ori_facts *f, struct ori_answer *a)
{
	if (gpus_are_absent(f)) {
		ori_answer(a, ORI_DOCTOR_SKIP, "no GPU");
		return;
	}
	ori_answer_flag(a, f->built_gpu, "built with CUDA", "built without CUDA", "unknown");
	if (a->verdict == ORI_DOCTOR_FAIL)
		ori_answer_fix(a, "CUDA_PATH=/usr/local/cuda cmake --preset release -D "
				  "ORIEL_CUDA=ON && cmake --build --preset release");
}

/*
 * The library's kernels need compute capability 8.0, and peers of a node import memory by
 * descriptor.
 */
static int64_t gpu_is_fit(const struct ori_facts_gpu *g)
{
	if (g->capability == ORI_FACT_UNKNOWN || g->descriptors == ORI_FACT_UNKNOWN)
		return ORI_FACT_UNKNOWN;
	return g->capability >= CAPABILITY_LEAST && g->descriptors;
}

static void check_model(const struct ori_facts *f, struct ori_answer *a)
{
	struct ori_summary sum = {0};
	const struct ori_facts_gpu *g;

	if (skip_without_gpus(f, a))
		return;
	for (unsigned i = 0; i < f->gpu_count; i++)
		ori_summary_add(&sum, i, gpu_is_fit(&f->gpu[i]));
	g = &f->gpu[sum.bad ? sum.first_bad : 0];
	a->verdict = ori_summary_verdict(&sum);
	if (a->verdict == ORI_DOCTOR_UNKNOWN)
		ori_answer(a, a->verdict, "unknown for GPU %u", sum.first_unknown);
	else if (a->verdict == ORI_DOCTOR_PASS || g->capability < CAPABILITY_LEAST)
		ori_answer(a, a->verdict, "%s, compute capability %" PRId64 ".%" PRId64 "%s",
			   g->name[0] ? g->name : "a GPU", g->capability / 10, g->capability % 10,
			   a->verdict == ORI_DOCTOR_PASS ? "" : ", below 8.0");
	else
		ori_answer(a, a->verdict, "%s does not export memory as descriptors", g->name);
}

/* Does @reach, a letter per GPU, have only @letters? */
static int64_t reach_has_only(const char *reach, unsigned count, const char *letters)
{
	if (strlen(reach) != count)
		return ORI_FACT_UNKNOWN;
	return strspn(reach, letters) == count;
}

/* Find the first pair of GPUs with @letter; false if there is none. */
static bool reach_find_letter(const struct ori_facts *f, char letter, unsigned *from, unsigned *to)
{
	for (unsigned i = 0; i < f->gpu_count; i++) {
		const char *at = strchr(f->gpu[i].reach, letter);

		if (!at)
			continue;
		*from = i;
		*to = (unsigned)(at - f->gpu[i].reach);
		return true;
	}
	return false;
}

static void check_access_fail(const struct ori_facts *f, struct ori_answer *a)
{
	unsigned from, to;

	if (reach_find_letter(f, '-', &from, &to)) {
		ori_answer(a, ORI_DOCTOR_FAIL, "GPU %u does not reach GPU %u", from, to);
		ori_answer_fix(a, "nvidia-smi topo -p2p r; if it says DR or CNS: remove "
				  "NVreg_RegistryDwords=\"ForceP2P=0\" and the like from "
				  "/etc/modprobe.d, boot with iommu=pt");
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "not every GPU reaches every other");
	}
}

static bool skip_without_pairs(const struct ori_facts *f, struct ori_answer *a)
{
	if (skip_without_gpus(f, a))
		return true;
	if (f->gpu_count == 1)
		ori_answer(a, ORI_DOCTOR_SKIP, "one GPU");
	return f->gpu_count == 1;
}

/* The verdict on pairs of GPUs, which pass if the reach of each GPU has only @letters. */
static struct ori_summary summarise_pairs(const struct ori_facts *f, const char *letters,
					  struct ori_answer *a)
{
	struct ori_summary sum = {0};

	for (unsigned i = 0; i < f->gpu_count; i++)
		ori_summary_add(&sum, i, reach_has_only(f->gpu[i].reach, f->gpu_count, letters));
	a->verdict = ori_summary_verdict(&sum);
	return sum;
}

/* Loads and stores suffice for the mapped path, over PCIe too. */
static void check_access(const struct ori_facts *f, struct ori_answer *a)
{
	struct ori_summary sum;

	if (skip_without_pairs(f, a))
		return;
	sum = summarise_pairs(f, "SAN", a);
	if (a->verdict == ORI_DOCTOR_PASS)
		ori_answer(a, a->verdict, "all %u reach each other", f->gpu_count);
	else if (a->verdict == ORI_DOCTOR_UNKNOWN)
		ori_answer(a, a->verdict, "unknown for GPU %u", sum.first_unknown);
	else
		check_access_fail(f, a);
}

/* PCIe passes none. Pairs without access are the business of check_access(). */
static void check_atomics(const struct ori_facts *f, struct ori_answer *a)
{
	struct ori_summary sum;
	unsigned from = 0, to = 0;

	if (skip_without_pairs(f, a))
		return;
	sum = summarise_pairs(f, "SA-", a);
	if (a->verdict == ORI_DOCTOR_PASS)
		ori_answer(a, a->verdict, "all that reach each other");
	else if (a->verdict == ORI_DOCTOR_UNKNOWN)
		ori_answer(a, a->verdict, "unknown for GPU %u", sum.first_unknown);
	else if (reach_find_letter(f, 'N', &from, &to))
		ori_answer(a, a->verdict, "GPU %u reaches GPU %u without atomics: over PCIe", from,
			   to);
	else
		ori_answer(a, a->verdict, "GPU %u reaches others in an unknown way", sum.first_bad);
}

/*
 * GPUs behind NVSwitches have no access to each other before they are registered with the fabric.
 */
static int64_t fabric_is_up(const struct ori_facts_gpu *g)
{
	if (!g->fabric[0])
		return ORI_FACT_UNKNOWN;
	return strcmp(g->fabric, "completed") == 0 || strcmp(g->fabric, "none") == 0;
}

static void check_fabric(const struct ori_facts *f, struct ori_answer *a)
{
	struct ori_summary sum = {0};

	if (skip_without_gpus(f, a))
		return;
	for (unsigned i = 0; i < f->gpu_count; i++)
		ori_summary_add(&sum, i, fabric_is_up(&f->gpu[i]));
	a->verdict = ori_summary_verdict(&sum);
	if (a->verdict == ORI_DOCTOR_UNKNOWN) {
		ori_answer(a, a->verdict, "unknown for GPU %u", sum.first_unknown);
	} else if (a->verdict == ORI_DOCTOR_FAIL) {
		ori_answer(a, a->verdict, "GPU %u: registration with the fabric: %s", sum.first_bad,
			   f->gpu[sum.first_bad].fabric);
		ori_answer_fix(a, "systemctl restart nvidia-fabricmanager (on NVL72: "
				  "systemctl restart nvidia-imex), then nvidia-smi -q | grep -A3 "
				  "Fabric");
	} else if (strcmp(f->gpu[0].fabric, "none") == 0) {
		ori_answer(a, ORI_DOCTOR_SKIP, "these GPUs have no fabric to register with");
	} else {
		ori_answer(a, a->verdict, "all %u GPUs are registered", f->gpu_count);
	}
}

/* Only a fabric that spans machines needs IMEX channels. */
static void check_imex(const struct ori_facts *f, struct ori_answer *a)
{
	bool is_cluster = false, is_unknown = false;

	if (skip_without_gpus(f, a))
		return;
	for (unsigned i = 0; i < f->gpu_count; i++) {
		is_cluster |= f->gpu[i].cluster == ORI_FACT_YES;
		is_unknown |= f->gpu[i].cluster == ORI_FACT_UNKNOWN;
	}
	if (!is_cluster && is_unknown) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown whether the fabric spans machines");
	} else if (!is_cluster) {
		ori_answer(a, ORI_DOCTOR_SKIP,
			   "the fabric of the GPUs is confined to this machine");
	} else if (f->imex_channels == ORI_FACT_UNKNOWN) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	} else if (f->imex_channels > 0) {
		ori_answer(a, ORI_DOCTOR_PASS, "%" PRId64 " in /dev/nvidia-caps-imex-channels",
			   f->imex_channels);
	} else if (f->imex == ORI_FACT_NO) {
		ori_answer(a, ORI_DOCTOR_FAIL, "the driver has no IMEX channels");
		ori_answer_fix(a, "echo 'options nvidia NVreg_CreateImexChannel0=1' "
				  ">/etc/modprobe.d/nvidia-imex.conf; systemctl enable --now "
				  "nvidia-imex; reboot");
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "none in /dev/nvidia-caps-imex-channels");
		ori_answer_fix(a, "mkdir -p /dev/nvidia-caps-imex-channels; mknod -m 666 "
				  "/dev/nvidia-caps-imex-channels/channel0 c $(awk "
				  "'/nvidia-caps-imex-channels/{print $1}' /proc/devices) 0");
	}
}

/* An older driver that does not report the attribute needs a module parameter. */
static int64_t gpu_has_memops(const struct ori_facts *f, const struct ori_facts_gpu *g)
{
	if (g->stream_memops != ORI_FACT_UNKNOWN)
		return g->stream_memops;
	return f->nvidia_streamops == ORI_FACT_NO ? ORI_FACT_NO : ORI_FACT_UNKNOWN;
}

/*
 * Streams wait for the library by stream memory operations, or by a kernel where the GPU has none.
 */
static void check_memops(const struct ori_facts *f, struct ori_answer *a)
{
	struct ori_summary sum = {0};

	if (skip_without_gpus(f, a))
		return;
	for (unsigned i = 0; i < f->gpu_count; i++)
		ori_summary_add(&sum, i, gpu_has_memops(f, &f->gpu[i]));
	a->verdict = ori_summary_verdict(&sum);
	if (a->verdict == ORI_DOCTOR_PASS) {
		ori_answer(a, a->verdict, "all %u GPUs", sum.count);
	} else if (a->verdict == ORI_DOCTOR_UNKNOWN) {
		ori_answer(a, a->verdict, "unknown for GPU %u", sum.first_unknown);
	} else if (f->nvidia_streamops == ORI_FACT_NO) {
		ori_answer(a, a->verdict, "GPU %u lacks them: EnableStreamMemOPs is not set",
			   sum.first_bad);
		ori_answer_fix(a, "echo 'options nvidia NVreg_EnableStreamMemOPs=1' "
				  ">/etc/modprobe.d/nvidia-stream.conf; update-initramfs -u; "
				  "reboot (a driver of CUDA 12 needs no parameter)");
	} else {
		ori_answer(a, a->verdict, "GPU %u lacks them", sum.first_bad);
		ori_answer_fix(a, "apt-get install cuda-drivers, of CUDA 12 or later; reboot");
	}
}

static const struct ori_check checks[] = {
	{"CUDA driver", ORI_DATA_PATH(GPU) | ORI_DATA_PATH(FABRIC) | ORI_DATA_PATHS_GPU_POSTED, 0,
	 "no windows in GPU memory, no kernels", check_driver},
	{"CUDA in this library",
	 ORI_DATA_PATH(GPU) | ORI_DATA_PATH(FABRIC) | ORI_DATA_PATHS_GPU_POSTED, 0,
	 "no windows in GPU memory, with any driver", check_build},
	{"GPU model", ORI_DATA_PATH(GPU) | ORI_DATA_PATHS_GPU_POSTED, 0,
	 "the library's kernels do not run on this GPU, or it cannot share its memory",
	 check_model},
	{"GPU to GPU", ORI_DATA_PATH(GPU), 0,
	 "windows on GPUs without peer access use rdma; host memory stays mapped", check_access},
	{"GPU atomics", 0, ORI_DATA_PATH(GPU),
	 "signals of kernels cost a round trip over the bus there, and fetch_add several",
	 check_atomics},
	{"GPU fabric", ORI_DATA_PATH(GPU) | ORI_DATA_PATH(FABRIC), 0,
	 "GPUs that are not registered with their NVSwitches reach no other GPU", check_fabric},
	{"IMEX channels", ORI_DATA_PATH(FABRIC), 0,
	 "GPUs of other machines are reached through NICs and not over NVLink", check_imex},
	{"stream memops", 0, ORI_DATA_PATH(GPU),
	 "a stream waits for an operation of the library by a kernel, which occupies an SM",
	 check_memops},
};

const struct ori_check_list ori_checks_of_gpus = {checks, sizeof(checks) / sizeof(checks[0])};
