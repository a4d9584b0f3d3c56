/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a job's start: settings, limits, hosts, paths, NICs. comm.c and comm_nics.c call
 * it, and exchange the records made here to find what differs between ranks.
 */
#include "comm/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/config.h"
#include "base/log.h"
#include "bootstrap/local.h"
#include "bootstrap/tcp.h"
#include "rdma/rdma.h"
#include "sys/gpu.h"
#include "topo/classify.h"

#define REPORT_LINE 1100

static_assert(ORI_SETTINGS <= ORI_REPORT_SETTINGS, "a digest for each setting");

/* FNV-1a; never 0, which stands for no line. */
static uint32_t report_digest(const char *text)
{
	uint32_t digest = 0x811c9dc5u;

	for (; *text; text++)
		digest = (digest ^ (unsigned char)*text) * 0x01000193u;
	return digest ? digest : 1;
}

static void report_override(struct oriel_setting *setting, const char *value)
{
	if (strcmp(setting->value, value) == 0)
		return;
	setting->value = value;
	setting->source = "oriel_comm_attr";
}

/* The words of ORIEL_NET_ORDER; the first one never replaces it. */
static const char *const report_orders[] = {
	[ORIEL_NET_ORDER_DEFAULT] = "",
	[ORIEL_NET_ORDER_AUTO] = "auto",
	[ORIEL_NET_ORDER_ORDERED] = "ordered",
	[ORIEL_NET_ORDER_RELAXED] = "relaxed",
};

/* The limit of @comm as the setting has it; @unit follows a number. */
static void report_write_timeout(const struct oriel_comm *comm, const char *unit, char *text,
				 size_t length)
{
	if (comm->timeout_ns == ORIEL_TIMEOUT_INFINITE)
		snprintf(text, length, "infinite");
	else
		snprintf(text, length, "%.9g%s", (double)comm->timeout_ns / 1e9, unit);
}

/* Setting @index as it counts for @comm; @seconds has room for its value. */
static void report_setting(const struct oriel_comm *comm, const struct ori_report_given *given,
			   unsigned index, struct oriel_setting *setting, char seconds[32])
{
	uint64_t timeout_ns;

	(void)oriel_setting_get(index, setting); /* the index exists */
	if (index == ORI_SETTING_NODE)
		report_override(setting, given->node);
	if (index == ORI_SETTING_TOPOLOGY && given->topology)
		report_override(setting, given->topology);
	if (index == ORI_SETTING_CONNECT)
		report_override(setting, given->connect);
	if (index == ORI_SETTING_NET_ORDER && comm->net_order != ORIEL_NET_ORDER_DEFAULT)
		report_override(setting, report_orders[comm->net_order]);
	if (index == ORI_SETTING_TIMEOUT && ori_setting_timeout(&timeout_ns) == ORIEL_OK &&
	    timeout_ns != comm->timeout_ns) {
		report_write_timeout(comm, "", seconds, 32);
		report_override(setting, seconds);
	}
}

static void report_write_memory(const struct oriel_comm *comm, char *line, size_t length)
{
	const struct ori_gpu *gpu = comm->gpu;

	if (!gpu)
		snprintf(line, length,
			 "memory: of the host, shared by memfd; no GPU "
			 "(ORIEL_COMM_GPU is not set)");
	else
		snprintf(
			line, length,
			"memory: of the host, shared by memfd; of the GPU, shared by %s%s; NICs %s",
			gpu->flags & ORI_GPU_VMM ? "file descriptors" : "IPC handles",
			gpu->flags & ORI_GPU_FABRIC ? " and fabric handles" : "",
			gpu->flags & ORI_GPU_RDMA ? "may access it (GPUDirect RDMA)"
						  : "cannot access it (no GPUDirect RDMA)");
}

static void report_write_limit(int which, unsigned unit, char text[32])
{
	struct rlimit limit;

	if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		snprintf(text, 32, "unlimited");
	else
		snprintf(text, 32, "%" PRIu64, (uint64_t)limit.rlim_cur / unit);
}

static void report_write_limits(const struct oriel_comm *comm, char *line, size_t length)
{
	char files[32], locked[32], timeout[48];
	uint64_t late = ori_setting_late();

	report_write_limit(RLIMIT_NOFILE, 1, files);
	report_write_limit(RLIMIT_MEMLOCK, 1024, locked);
	report_write_timeout(comm, " s", timeout, sizeof(timeout));
	snprintf(line, length,
		 "limits: waits %s, late ranks named after %.9g s (0: never), open files %s, "
		 "locked memory %s KiB",
		 timeout, (double)late / 1e9, files, locked);
}

void ori_report_make(const struct oriel_comm *comm, const struct ori_report_given *given,
		     struct ori_report *report)
{
	char line[REPORT_LINE], seconds[32];
	struct oriel_setting setting = {.size = sizeof(setting)};
	unsigned i;

	memset(report, 0, sizeof(*report));
	for (i = 0; i < ORI_SETTINGS; i++) {
		report_setting(comm, given, i, &setting, seconds);
		report->settings[i] = report_digest(setting.value);
	}
	report_write_memory(comm, line, sizeof(line));
	report->memory = report_digest(line);
	report_write_limits(comm, line, sizeof(line));
	report->limits = report_digest(line);
}

static void report_line(const struct oriel_comm *comm, const char *line)
{
	ori_log_rank(ORIEL_LOG_INFO, comm->rank, "%s", line);
}

static void report_settings(const struct oriel_comm *comm, const struct ori_report_given *given,
			    const struct ori_report *mine, const struct ori_report *of_rank_0)
{
	struct oriel_setting setting = {.size = sizeof(setting)};
	char seconds[32];
	unsigned i;

	for (i = 0; i < ORI_SETTINGS; i++) {
		report_setting(comm, given, i, &setting, seconds);
		if (comm->rank == 0 ? strcmp(setting.source, "default") != 0
				    : mine->settings[i] != of_rank_0->settings[i])
			ori_log_rank(ORIEL_LOG_INFO, comm->rank, "setting %s=%s (%s)", setting.name,
				     setting.value, setting.source);
	}
}

static void report_host(const struct oriel_comm *comm)
{
	const struct ori_host *host = &comm->hosts[comm->rank];
	char gpu[ORI_GPU_PCI + ORI_GPU_NAME + 16] = "no GPU";

	if (comm->gpu)
		snprintf(gpu, sizeof(gpu), "GPU %s (%s)", comm->gpu->pci, comm->gpu->name);
	ori_log_rank(ORIEL_LOG_INFO, comm->rank, "host %s, node \"%s\", process %u, %s",
		     host->hostname, host->node, host->pid, gpu);
}

/* Peers that one rank reaches by one path and for one reason. */
struct report_class {
	uint64_t kind;
	unsigned peers, first;
};

static unsigned report_classify(const struct oriel_comm *comm, unsigned rank,
				struct report_class *classes)
{
	unsigned peer, i, count = 0;

	for (peer = 0; peer < comm->size; peer++) {
		uint64_t kind = ori_classify_kind(&comm->hosts[rank], &comm->hosts[peer]);

		for (i = 0; peer != rank && i < count && classes[i].kind != kind; i++)
			;
		if (peer == rank)
			continue;
		if (i == count)
			classes[count++] = (struct report_class){.kind = kind, .first = peer};
		classes[i].peers++;
	}
	return count;
}

static bool report_has_class(const struct report_class *classes, unsigned count,
			     const struct report_class *class)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (classes[i].kind == class->kind)
			return classes[i].peers == class->peers;
	return false;
}

static void report_class(const struct oriel_comm *comm, const struct report_class *class)
{
	const struct ori_paths *host = &comm->host_paths, *gpu = &comm->gpu_paths;
	unsigned peer = class->first;

	ori_log_rank(ORIEL_LOG_INFO, comm->rank, "path %s to %u peer%s, such as rank %u: %s",
		     oriel_path_name(host->of[peer].path), class->peers,
		     class->peers == 1 ? "" : "s", peer, host->reasons[peer]);
	if (comm->gpu && strcmp(gpu->reasons[peer], host->reasons[peer]) != 0)
		ori_log_rank(ORIEL_LOG_INFO, comm->rank,
			     "path %s of GPU memory to %u peer%s, such as rank %u: %s",
			     oriel_path_name(gpu->of[peer].path), class->peers,
			     class->peers == 1 ? "" : "s", peer, gpu->reasons[peer]);
}

/* Every rank has the hosts of all, so it knows the classes that rank 0 logs. */
void ori_report_paths(const struct oriel_comm *comm)
{
	struct report_class *mine, *of_rank_0;
	unsigned count, count_0, i;
	bool is_alike;

	if (!ori_log_has(ORIEL_LOG_INFO))
		return;
	mine = calloc(comm->size, sizeof(*mine));
	of_rank_0 = calloc(comm->size, sizeof(*of_rank_0));
	if (mine && of_rank_0) {
		count = report_classify(comm, comm->rank, mine);
		count_0 = report_classify(comm, 0, of_rank_0);
		is_alike = comm->rank != 0 && count == count_0;
		for (i = 0; i < count && is_alike; i++)
			is_alike = report_has_class(of_rank_0, count_0, &mine[i]);
		for (i = 0; i < count && !is_alike; i++)
			report_class(comm, &mine[i]);
	}
	free(of_rank_0);
	free(mine);
}

void ori_report_join(const struct oriel_comm *comm, const struct ori_report_given *given,
		     const struct ori_report *mine, const struct ori_report *of_rank_0)
{
	char line[REPORT_LINE];

	if (!ori_log_has(ORIEL_LOG_INFO))
		return;
	if (comm->rank == 0 && !ori_tcp_is_own(&comm->bootstrap) &&
	    !ori_local_is_own(&comm->bootstrap))
		report_line(comm, "bootstrap: a table of the caller");
	report_settings(comm, given, mine, of_rank_0);
	report_host(comm);
	report_write_memory(comm, line, sizeof(line));
	if (comm->rank == 0 || mine->memory != of_rank_0->memory)
		report_line(comm, line);
	report_write_limits(comm, line, sizeof(line));
	if (comm->rank == 0 || mine->limits != of_rank_0->limits)
		report_line(comm, line);
}

/* The part of the line about NICs that says in which order their requests arrive. */
static void report_write_order(const struct oriel_comm *comm, char *text, size_t length)
{
	bool is_unordered = ori_rdma_is_unordered(comm->rdma);
	bool is_reordered = ori_rdma_is_reordered(comm->rdma);

	snprintf(text, length, "%s%s%s%s%s%s", is_unordered ? "; writes to its " : "",
		 is_unordered ? (comm->gpu ? "GPU" : "memory") : "",
		 is_unordered ? " are not visible in order: peers read them back before they signal"
			      : "",
		 is_reordered ? "; the network may bring requests in another order, " : "",
		 is_reordered ? ori_rdma_why_reordered(comm->rdma) : "",
		 is_reordered ? ": signals, barriers, values and messages wait until all before "
				"them is acknowledged, one round trip each (ORIEL_NET_ORDER)"
			      : "");
}

/* "mlx5_0:1 (RoCE, GID 3), mlx5_1:1 (RoCE, GID 3)" */
static void report_write_names(const struct oriel_comm *comm, char *names, size_t length)
{
	struct ori_hca_caps caps;
	unsigned rail;
	size_t used;

	names[0] = '\0';
	for (rail = 0; rail < ori_rdma_rails(comm->rdma); rail++) {
		ori_rdma_caps(comm->rdma, rail, &caps);
		used = strlen(names);
		snprintf(names + used, length - used, "%s%s%s%s%s", rail ? ", " : "", caps.name,
			 caps.port ? " (" : "", caps.port ? caps.port : "", caps.port ? ")" : "");
	}
}

static const char *report_nic_kind(const struct oriel_nic *nic)
{
	if (nic->is_sink)
		return "software HCA that discards all data";
	if (nic->is_software)
		return "software HCA, for development and tests: no NIC is used";
	return nic->kind;
}

static void report_write_nics(const struct oriel_comm *comm, const struct oriel_nic *nic,
			      char *line, size_t length)
{
	const char *why = ori_rdma_why(comm->rdma);
	char names[256], order[384];

	report_write_names(comm, names, sizeof(names));
	report_write_order(comm, order, sizeof(order));
	snprintf(line, length,
		 "NIC %s: %s%s%s%s%s%s, MTU %u, queue depth %u (<= %u), max_rd_atomic <= %u, "
		 "counters %s WAIT, posted to by %s%s",
		 names, report_nic_kind(nic), *nic->tier ? ", tier " : "", nic->tier,
		 *why ? " (" : "", why, *why ? ")" : "", nic->mtu, nic->depth, nic->depth_max,
		 nic->outstanding_max, nic->has_wait ? "by" : "without",
		 nic->is_proxied ? "a proxy" : "callers", order);
}

uint32_t ori_report_nics_digest(const struct oriel_comm *comm, const struct oriel_nic *nic)
{
	char line[REPORT_LINE];

	report_write_nics(comm, nic, line, sizeof(line));
	return report_digest(line);
}

void ori_report_nics(const struct oriel_comm *comm, const struct oriel_nic *nic, uint32_t of_rank_0)
{
	char line[REPORT_LINE];

	if (!ori_log_has(ORIEL_LOG_INFO))
		return;
	report_write_nics(comm, nic, line, sizeof(line));
	if (comm->rank == 0 || report_digest(line) != of_rank_0)
		report_line(comm, line);
}

static unsigned report_domain_of_rank_0(const struct oriel_comm *comm)
{
	unsigned peer, size = 1;

	for (peer = 1; peer < comm->size; peer++)
		size += ori_hosts_are_mapped(comm->hosts, 0, peer);
	return size;
}

void ori_report_end(const struct oriel_comm *comm)
{
	struct ori_machine_load mine, first;

	if (!ori_log_has(ORIEL_LOG_INFO))
		return;
	mine = ori_machine_load_of(comm->hosts, comm->size, comm->rank);
	first = ori_machine_load_of(comm->hosts, comm->size, 0);
	if (comm->rank != 0 && mine.ranks == first.ranks && mine.cpus == first.cpus &&
	    comm->host_paths.domain_size == report_domain_of_rank_0(comm))
		return;
	ori_log_rank(ORIEL_LOG_INFO, comm->rank,
		     "job of %u rank%s: domain of %u, %s; ranks on this machine %u, CPUs %u",
		     comm->size, comm->size == 1 ? "" : "s", comm->host_paths.domain_size,
		     comm->is_oversubscribed ? "ranks share CPUs" : "a CPU for each rank",
		     mine.ranks, mine.cpus);
}
