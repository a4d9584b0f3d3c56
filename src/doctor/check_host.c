/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the operating system: files in memory, sockets, limits. machine.c calls them
 * for `oriel doctor`.
 */
#include <inttypes.h>
#include <stdio.h>

#include "doctor/check.h"

#define FILES_LEAST 1024
#define SHM_LEAST (512ll << 20)
#define PTRACE_MOST 1 /* at 2 only administrators may trace, at 3 no process may */

static void check_memfd(const struct ori_facts *f, struct ori_answer *a)
{
	ori_answer_flag(a, f->memfd, "memfd_create, sealing", "no memfd_create, or no sealing",
			"unknown");
	if (a->verdict == ORI_DOCTOR_FAIL)
		ori_answer_fix(
			a, "%s",
			f->container == ORI_FACT_YES
				? "docker run --security-opt seccomp=unconfined ..."
				: "apt-get install linux-generic (a kernel of 3.17 or later)");
}

/* The sockets pass the descriptors of shared memory between processes. */
static void check_sockets(const struct ori_facts *f, struct ori_answer *a)
{
	ori_answer_flag(a, f->sockets, "abstract names", "no unix sockets with abstract names",
			"unknown");
	if (a->verdict == ORI_DOCTOR_FAIL)
		ori_answer_fix(a, "allow socket(AF_UNIX) and bind() in the seccomp or AppArmor "
				  "profile of the process");
}

/* Each rank on a machine has descriptors for the memory and the sockets of its peers. */
static void check_files(const struct ori_facts *f, struct ori_answer *a)
{
	if (f->files == ORI_FACT_UNKNOWN) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	} else if (f->files == ORI_FACT_UNLIMITED) {
		ori_answer(a, ORI_DOCTOR_PASS, "no limit");
	} else if (f->files >= FILES_LEAST) {
		ori_answer(a, ORI_DOCTOR_PASS, "%" PRId64 " for a process", f->files);
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "%" PRId64 " for a process, below %d", f->files,
			   FILES_LEAST);
		if (f->files_most >= FILES_LEAST)
			ori_answer_fix(a, "ulimit -n %d", FILES_LEAST);
		else
			ori_answer_fix(a, "echo '* - nofile 65536' >"
					  "/etc/security/limits.d/oriel.conf, and log in again");
	}
}

/* For other libraries in the process: Oriel's shared memory is anonymous files. */
static void check_shm(const struct ori_facts *f, struct ori_answer *a)
{
	if (f->shm == ORI_FACT_UNKNOWN) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	} else if (f->shm >= SHM_LEAST) {
		ori_answer(a, ORI_DOCTOR_PASS, "%" PRId64 " MiB", f->shm >> 20);
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "%" PRId64 " MiB, below %lld", f->shm >> 20,
			   SHM_LEAST >> 20);
		ori_answer_fix(a, "%s",
			       f->container == ORI_FACT_YES
				       ? "docker run --shm-size=8g ... (or --ipc=host)"
				       : "mount -o remount,size=50% /dev/shm");
	}
}

/* For other libraries, which copy with process_vm_readv(); Oriel does not. */
static void check_ptrace(const struct ori_facts *f, struct ori_answer *a)
{
	if (f->ptrace == ORI_FACT_UNKNOWN) {
		ori_answer(a, ORI_DOCTOR_UNKNOWN, "unknown");
	} else if (f->ptrace <= PTRACE_MOST) {
		ori_answer(a, ORI_DOCTOR_PASS, "scope %" PRId64, f->ptrace);
	} else {
		ori_answer(a, ORI_DOCTOR_FAIL, "scope %" PRId64, f->ptrace);
		ori_answer_fix(a, "sysctl -w kernel.yama.ptrace_scope=1%s",
			       f->ptrace > 2 ? ", after a reboot without scope 3" : "");
	}
}

static const struct ori_check checks[] = {
	{"memfd", ORI_DATA_PATH(MEMORY) | ORI_DATA_PATH(GPU), 0,
	 "ranks of one machine cannot share memory", check_memfd},
	{"unix sockets", ORI_DATA_PATH(MEMORY) | ORI_DATA_PATH(GPU) | ORI_DATA_PATH(SOFT), 0,
	 "ranks of one machine cannot pass memory to each other", check_sockets},
	{"descriptors", 0, ORI_DATA_PATH(MEMORY) | ORI_DATA_PATH(GPU) | ORI_DATA_PATH(SOFT),
	 "a job of some hundred ranks on one machine runs out of descriptors", check_files},
	{"/dev/shm", 0, 0,
	 "Oriel uses none of it; NCCL, Open MPI and PyTorch loaders in the same program run out",
	 check_shm},
	{"ptrace", 0, 0,
	 "Oriel passes descriptors and needs none; libraries that read other processes' memory "
	 "(CMA in UCX and MPI) copy twice instead",
	 check_ptrace},
};

const struct ori_check_list ori_checks_of_host = {checks, sizeof(checks) / sizeof(checks[0])};
