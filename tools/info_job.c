/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job in `oriel info`: the matrix of paths, the reasons, and the NIC. Each rank knows only the
 * reasons of its own paths, so rank 0 gathers them, one peer at a time, and counts equal ones
 * together.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/tune.h>

#include "info.h"
#include "table.h"

/* One rank's path to one peer, as exchanged between ranks. */
struct info_view {
	uint32_t path; /* enum oriel_path */
	char reason[INFO_REASON];
};

static bool reason_fits(const struct info_reason *reason, const struct info_view *view)
{
	return reason->path == view->path && strcmp(reason->text, view->reason) == 0;
}

static enum oriel_status reason_count(struct info_job *job, unsigned from, unsigned to,
				      const struct info_view *view)
{
	struct info_reason *reasons;
	unsigned i;

	for (i = 0; i < job->reason_count; i++) {
		if (reason_fits(&job->reasons[i], view)) {
			job->reasons[i].pairs++;
			return ORIEL_OK;
		}
	}
	reasons = realloc(job->reasons, (job->reason_count + 1) * sizeof(*reasons));
	if (!reasons)
		return ORIEL_ERR_NOMEM;
	reasons[i] = (struct info_reason){.path = view->path, .pairs = 1, .from = from, .to = to};
	memcpy(reasons[i].text, view->reason, sizeof(view->reason));
	job->reasons = reasons;
	job->reason_count++;
	return ORIEL_OK;
}

/* Paths are symmetric: the lower rank of a pair counts for both. */
static enum oriel_status reasons_count(struct info_job *job, unsigned peer,
				       const struct info_view *views)
{
	enum oriel_status status = ORIEL_OK;
	unsigned from;

	assert(views);
	for (from = 0; from < peer && status == ORIEL_OK; from++)
		if (views[from].path != ORIEL_PATH_MAPPED)
			status = reason_count(job, from, peer, &views[from]);
	return status;
}

static enum oriel_status view_of(const struct info_job *job, unsigned rank, struct info_view *view)
{
	struct oriel_peer peer = {.size = sizeof(peer)};
	enum oriel_status status;

	memset(view, 0, sizeof(*view));
	status = oriel_comm_peer(job->comm, rank, &peer);
	if (status != ORIEL_OK)
		return status;
	view->path = (uint32_t)(job->stream ? peer.gpu_path : peer.path);
	snprintf(view->reason, sizeof(view->reason), "%s",
		 job->stream ? peer.gpu_reason : peer.reason);
	return ORIEL_OK;
}

static enum oriel_status reasons_gather(struct info_job *job, struct info_view *views)
{
	enum oriel_status status = ORIEL_OK;
	struct info_view mine;
	unsigned peer;

	for (peer = 0; peer < job->size && status == ORIEL_OK; peer++) {
		status = view_of(job, peer, &mine);
		if (status == ORIEL_OK)
			status = oriel_comm_all_gather(job->comm, &mine, views, sizeof(mine));
		if (status == ORIEL_OK && job->rank == 0)
			status = reasons_count(job, peer, views);
	}
	return status;
}

enum oriel_status info_job_open(struct info_job *job, bool is_gpu)
{
	const struct oriel_comm_attr attr = {.size = sizeof(attr),
					     .flags = is_gpu ? ORIEL_COMM_GPU : 0};
	struct info_view *views;
	enum oriel_status status;

	status = oriel_bootstrap_open_env(0, &job->bootstrap);
	if (status == ORIEL_OK && is_gpu)
		status = oriel_tune_gpu_open(job->bootstrap.rank, &job->stream);
	if (status == ORIEL_OK)
		status = oriel_comm_create(&job->bootstrap, &attr, &job->comm);
	if (status != ORIEL_OK)
		return status;
	job->rank = oriel_comm_rank(job->comm);
	job->size = oriel_comm_size(job->comm);

	views = calloc(job->size, sizeof(*views));
	status = oriel_comm_agree(job->comm, views ? ORIEL_OK : ORIEL_ERR_NOMEM);
	if (status == ORIEL_OK)
		status = reasons_gather(job, views);
	free(views);
	return status;
}

void info_job_close(struct info_job *job)
{
	oriel_comm_destroy(job->comm);
	oriel_tune_gpu_close(job->stream);
	oriel_bootstrap_close(&job->bootstrap);
	free(job->reasons);
}

static enum oriel_path path_between(const struct info_job *job, unsigned from, unsigned to)
{
	enum oriel_path path = ORIEL_PATH_NONE;

	oriel_comm_path_between(job->comm, from, to, &path); /* both ranks exist */
	return path;
}

static bool peers_print(const struct info_job *job)
{
	static const char *const head[] = {"rank", "host", "node", "pid"};
	struct table table = {.columns = 4};
	bool is_added = table_add(&table, head);
	struct oriel_peer peer = {.size = sizeof(peer)};
	unsigned i;

	for (i = 0; is_added && oriel_comm_peer(job->comm, i, &peer) == ORIEL_OK; i++) {
		char rank[16];
		char pid[24];
		const char *cells[] = {rank, peer.host, *peer.node ? peer.node : "-", pid};

		snprintf(rank, sizeof(rank), "%u", i);
		snprintf(pid, sizeof(pid), "%" PRIu64, peer.pid);
		is_added = table_add(&table, cells);
	}
	table_print(&table, stdout);
	table_free(&table);
	return is_added;
}

/* One letter per pair, so that 64 ranks fit. */
static void matrix_print(const struct info_job *job)
{
	static const char letters[] = {
		[ORIEL_PATH_NONE] = '-',
		[ORIEL_PATH_SELF] = 'S',
		[ORIEL_PATH_MAPPED] = 'M',
		[ORIEL_PATH_RDMA] = 'R',
	};
	const int width = snprintf(NULL, 0, "%u", job->size - 1) + 1;
	unsigned from;
	unsigned to;

	printf("\n  paths: S self, M mapped, R rdma, - none\n\n  %*s", width, "");
	for (to = 0; to < job->size; to++)
		printf("%*u", width, to);
	printf("\n");
	for (from = 0; from < job->size; from++) {
		printf("  %*u", width, from);
		for (to = 0; to < job->size; to++)
			printf("%*c", width, letters[path_between(job, from, to)]);
		printf("\n");
	}
}

static bool reasons_print(const struct info_job *job)
{
	static const char *const head[] = {"path", "pairs", "example", "why it is not mapped"};
	struct table table = {.columns = 4};
	bool is_added = table_add(&table, head);
	unsigned i;

	for (i = 0; is_added && i < job->reason_count; i++) {
		const struct info_reason *reason = &job->reasons[i];
		char pairs[16];
		char example[32];
		const char *cells[] = {oriel_path_name((enum oriel_path)reason->path), pairs,
				       example, reason->text};

		snprintf(pairs, sizeof(pairs), "%u", reason->pairs);
		snprintf(example, sizeof(example), "%u - %u", reason->from, reason->to);
		is_added = table_add(&table, cells);
	}
	if (job->reason_count > 0) {
		printf("\n");
		table_print(&table, stdout);
	}
	table_free(&table);
	return is_added;
}

static const char *nic_note(const struct oriel_nic *nic)
{
	if (nic->is_sink)
		return "software HCA, set to discard all data: for measuring posts only";
	if (nic->is_software)
		return "software HCA, for development and tests: no NIC is used";
	return "a NIC";
}

static bool nic_print(const struct oriel_nic *nic)
{
	static const char *const head[] = {"NIC",         "kind",          "tier", "mtu",
					   "queue depth", "max_rd_atomic", "WAIT", "rails",
					   "posts",       "order",         "port", "description"};
	struct table table = {.columns = 12};
	char mtu[16], depth[16], gets[16], rails[16];
	const char *cells[] = {nic->name,
			       nic->kind,
			       *nic->tier ? nic->tier : "-",
			       mtu,
			       depth,
			       gets,
			       nic->has_wait ? "yes" : "no",
			       rails,
			       nic->is_proxied ? "proxy" : "rings",
			       nic->is_reordered ? "relaxed" : "ordered",
			       *nic->port ? nic->port : "-",
			       nic_note(nic)};
	bool is_added;

	snprintf(mtu, sizeof(mtu), "%u", nic->mtu);
	snprintf(depth, sizeof(depth), "%u (<= %u)", nic->depth, nic->depth_max);
	snprintf(gets, sizeof(gets), "<= %u", nic->outstanding_max);
	snprintf(rails, sizeof(rails), "%u", nic->rails);
	is_added = table_add(&table, head) && table_add(&table, cells);
	printf("\n");
	table_print(&table, stdout);
	table_free(&table);
	return is_added;
}

static void tuning_print(const struct info_job *job)
{
	struct oriel_tune_info tune = {.size = sizeof(tune)};

	if (oriel_tune_find(job->comm, false, &tune) != ORIEL_OK)
		printf("\ncollectives: the tuning table cannot be read: %s\n", oriel_last_error());
	else if (tune.rows)
		printf("\ncollectives: algorithms by %u lines of %s for '%s'\n", tune.rows,
		       tune.path, tune.machine);
	else
		printf("\ncollectives: algorithms by the library's table: `oriel tune` has not "
		       "been "
		       "run for %u ranks on %u nodes of '%s'\n",
		       job->size, tune.nodes, tune.machine);
}

bool info_job_print(const struct info_job *job)
{
	struct oriel_nic nic = {.size = sizeof(nic)};

	printf("\njob of %u ranks\n\n", job->size);
	if (!peers_print(job))
		return false;
	matrix_print(job);
	if (job->stream && !info_gpus_print(job))
		return false;
	tuning_print(job);
	/* Rank 0 has one if any rank does; without any, all ranks are in one domain. */
	if (oriel_comm_nic(job->comm, &nic) == ORIEL_OK && !nic_print(&nic))
		return false;
	return reasons_print(job);
}

static void peers_write(const struct info_job *job, struct json *json)
{
	struct oriel_peer peer = {.size = sizeof(peer)};
	unsigned i;

	json_open_array(json, "peers");
	for (i = 0; oriel_comm_peer(job->comm, i, &peer) == ORIEL_OK; i++) {
		json_open_object(json, NULL);
		json_unsigned(json, "rank", i);
		json_text(json, "host", peer.host);
		json_text(json, "node", peer.node);
		json_unsigned(json, "pid", peer.pid);
		json_close_object(json);
	}
	json_close_array(json);
}

static void matrix_write(const struct info_job *job, struct json *json)
{
	unsigned from;
	unsigned to;

	json_open_array(json, "paths");
	for (from = 0; from < job->size; from++) {
		json_open_array(json, NULL);
		for (to = 0; to < job->size; to++)
			json_text(json, NULL, oriel_path_name(path_between(job, from, to)));
		json_close_array(json);
	}
	json_close_array(json);
}

static void reasons_write(const struct info_job *job, struct json *json)
{
	unsigned i;

	json_open_array(json, "reasons");
	for (i = 0; i < job->reason_count; i++) {
		const struct info_reason *reason = &job->reasons[i];

		json_open_object(json, NULL);
		json_text(json, "path", oriel_path_name((enum oriel_path)reason->path));
		json_unsigned(json, "pairs", reason->pairs);
		json_unsigned(json, "from", reason->from);
		json_unsigned(json, "to", reason->to);
		json_text(json, "reason", reason->text);
		json_close_object(json);
	}
	json_close_array(json);
}

static void nic_write(const struct info_job *job, struct json *json)
{
	struct oriel_nic nic = {.size = sizeof(nic)};

	if (oriel_comm_nic(job->comm, &nic) != ORIEL_OK)
		return;
	json_open_object(json, "nic");
	json_text(json, "kind", nic.kind);
	json_text(json, "name", nic.name);
	json_text(json, "tier", nic.tier);
	json_unsigned(json, "mtu", nic.mtu);
	json_unsigned(json, "depth_max", nic.depth_max);
	json_unsigned(json, "depth", nic.depth);
	json_unsigned(json, "outstanding_max", nic.outstanding_max);
	json_bool(json, "has_wait", nic.has_wait);
	json_bool(json, "is_software", nic.is_software);
	json_bool(json, "is_sink", nic.is_sink);
	json_unsigned(json, "rails", nic.rails);
	json_text(json, "post", nic.is_proxied ? "proxy" : "rings");
	json_text(json, "order", nic.is_reordered ? "relaxed" : "ordered");
	json_text(json, "port", nic.port);
	json_text(json, "note", nic_note(&nic));
	json_close_object(json);
}

static void tuning_write(const struct info_job *job, struct json *json)
{
	struct oriel_tune_info tune = {.size = sizeof(tune)};

	json_open_object(json, "tuning");
	if (oriel_tune_find(job->comm, false, &tune) != ORIEL_OK) {
		json_text(json, "error", oriel_last_error());
	} else {
		json_text(json, "source", tune.rows ? tune.path : "library");
		json_text(json, "machine", tune.machine);
		json_unsigned(json, "nodes", tune.nodes);
		json_unsigned(json, "rows", tune.rows);
	}
	json_close_object(json);
}

void info_job_write(const struct info_job *job, struct json *json)
{
	json_open_object(json, "job");
	json_unsigned(json, "ranks", job->size);
	peers_write(job, json);
	matrix_write(job, json);
	if (job->stream)
		info_gpus_write(job, json);
	tuning_write(job, json);
	nic_write(job, json);
	reasons_write(job, json);
	json_close_object(json);
}
