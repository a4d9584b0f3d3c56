/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launchers with PMIx, such as mpirun of Open MPI, prterun and `srun --mpi=pmix`: rank 0 publishes
 * a job id in the launcher's store, the others fetch it, and the TCP bootstrap does the rest.
 * launch.c calls it by its table.
 */
#include "bootstrap/launch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/late.h"
#include "base/log.h"
#include "bootstrap/job_id.h"
#include "bootstrap/ranks.h"
#include "sys/pmix.h"

#define PMIX_KEY "oriel.job"

/*
 * The place and the id of this process, for all jobs that it opens: a later one meets at the same
 * port, and needs no launcher any more.
 */
static struct {
	pthread_mutex_t lock;
	bool is_known;
	unsigned rank, size;
	struct oriel_job_id id; /* if size > 1 */
} launch_pmix = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool pmix_is_there(char why[ORI_LAUNCH_WHY])
{
	const char *size = ori_launch_variable("OMPI_COMM_WORLD_SIZE");
	char ignored[ORI_LAUNCH_WHY];

	snprintf(why, ORI_LAUNCH_WHY, "PMIX_RANK is set");
	if (!ori_launch_variable("PMIX_RANK"))
		return false;
	/* Slurm describes the same ranks by variables, and a rank that is alone needs no store. */
	if (ori_pmix_load() == ORIEL_OK ||
	    (!ori_launch_slurm.is_there(ignored) && (!size || strcmp(size, "1") != 0)))
		return true;
	ori_log(ORIEL_LOG_INFO, "bootstrap: not pmix, though PMIX_RANK is set: %s",
		oriel_last_error());
	ori_error_clear();
	return false;
}

/*
 * No fence: a rank that never comes is then named by rank 0, where it is missed in the TCP
 * bootstrap.
 */
static enum oriel_status pmix_share(const struct ori_pmix *pmix, bool is_local,
				    struct oriel_job_id *id, uint64_t timeout_ns)
{
	enum oriel_status status;
	struct ori_error error;

	if (pmix->rank != 0) {
		status =
			ori_pmix_fetch(pmix, 0, PMIX_KEY, id->bytes, sizeof(id->bytes), timeout_ns);
		if (status != ORIEL_ERR_TIMEOUT)
			return status;
		return ori_fail(status,
				"rank %u of %u: rank 0 has published no address by PMIx within %g "
				"s " ORI_LATE_LIMIT,
				pmix->rank, pmix->size, ori_seconds(timeout_ns));
	}
	status = ori_job_id_open(id, is_local);
	if (status != ORIEL_OK)
		return status;
	status = ori_pmix_publish(PMIX_KEY, id->bytes, sizeof(id->bytes));
	if (status != ORIEL_OK) {
		ori_error_save(&error);
		oriel_job_id_close(id);
		ori_error_restore(&error);
	}
	return status;
}

static enum oriel_status pmix_meet_locked(struct ori_launch *launch)
{
	struct ori_pmix pmix = {.size = 1};
	struct oriel_job_id id = {{0}};
	enum oriel_status status;

	status = ori_pmix_open(&pmix);
	if (status != ORIEL_OK)
		return status;
	if (pmix.size == 0 || pmix.size > ORI_TCP_RANKS_MAX || pmix.rank >= pmix.size)
		status = ori_fail(ORIEL_ERR_PROTOCOL, "PMIx says that this is rank %u of %u",
				  pmix.rank, pmix.size);
	if (status == ORIEL_OK && pmix.local == pmix.size)
		launch->local_from = "PMIX_LOCAL_SIZE is PMIX_JOB_SIZE";
	if (status == ORIEL_OK && pmix.size > 1)
		status =
			pmix_share(&pmix, ori_launch_is_local(launch), &id, launch->job.timeout_ns);
	/* An exit without it would count as a crash, so it is not left to the end of the job. */
	ori_pmix_close();
	if (status == ORIEL_OK) {
		launch_pmix.rank = pmix.rank;
		launch_pmix.size = pmix.size;
		launch_pmix.id = id;
		launch_pmix.is_known = true;
	}
	explicit_bzero(&id, sizeof(id));
	return status;
}

static enum oriel_status pmix_check(void)
{
	char text[ORI_LAUNCH_WHY];
	enum oriel_status status;

	if (!ori_launch_variable("PMIX_RANK"))
		return ori_fail(ORIEL_ERR_CONFIG,
				"ORIEL_BOOTSTRAP is 'pmix', but PMIX_RANK is not set: no launcher "
				"with PMIx has started this process (Slurm: srun --mpi=pmix)");
	status = ori_pmix_load();
	if (status == ORIEL_OK)
		return status;
	snprintf(text, sizeof(text), "%s", oriel_last_error());
	return ori_fail(
		status,
		"PMIX_RANK is set, but this process cannot use PMIx: %s; or set "
		"ORIEL_BOOTSTRAP to env, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, "
		"or to local",
		text);
}

static enum oriel_status pmix_read(struct ori_launch *launch)
{
	static const struct ori_fork_hook hook = {.lock = &launch_pmix.lock};
	struct ori_tcp_job *job = &launch->job;
	enum oriel_status status = pmix_check();

	if (status != ORIEL_OK)
		return status;
	ori_fork_add(ORI_FORK_LAUNCH, &hook);
	pthread_mutex_lock(&launch_pmix.lock);
	if (!launch_pmix.is_known)
		status = pmix_meet_locked(launch);
	if (status == ORIEL_OK) {
		job->rank = launch_pmix.rank;
		job->size = launch_pmix.size;
	}
	if (status == ORIEL_OK && job->size > 1)
		status = ori_job_id_use(&launch_pmix.id, "PMIx", job);
	pthread_mutex_unlock(&launch_pmix.lock);
	if (status != ORIEL_OK || job->size == 1)
		return status;
	if (ori_tcp_job_is_local(job)) {
		launch->local_from = "all ranks are on this machine, by PMIx";
		job->host = launch->local_from;
		return ORIEL_OK;
	}
	ori_endpoint_text(&job->addresses[0], launch->host);
	*strrchr(launch->host, ':') = '\0';
	job->host = launch->host;
	launch->host_from = "all interfaces";
	launch->port_from = "of the kernel's choice";
	return ORIEL_OK;
}

const struct ori_launcher ori_launch_pmix = {
	.name = "pmix",
	.is_there = pmix_is_there,
	.read = pmix_read,
};
