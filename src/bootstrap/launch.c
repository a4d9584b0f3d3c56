/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oriel_bootstrap_open_env(): chooses the launcher that has started this process, as
 * ORIEL_BOOTSTRAP demands or by the environment, and opens the TCP bootstrap of its job.
 */
#include "bootstrap/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/late.h"
#include "base/log.h"

/*
 * Under a launcher that sets other names each rank would be a job of one. A program that works
 * with any number of ranks would then do all of the work in every process, without an error.
 */
static void launch_warn_of_others(void)
{
	static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					    "SLURM_STEP_NUM_TASKS"};
	const char *index = ori_launch_variable("JOB_COMPLETION_INDEX");
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *size = getenv(sizes[i]);

		if (!size || strtoul(size, NULL, 10) < 2)
			continue;
		ori_log(ORIEL_LOG_WARN,
			"%s is '%s', but none of RANK, PMIX_RANK and SLURM_PROCID with "
			"SLURM_STEP_ID "
			"is set: this process is a job of one rank (ORIEL_BOOTSTRAP=local if that "
			"is "
			"meant; MPICH needs liboriel_mpi)",
			sizes[i], size);
		return;
	}
	if (index)
		ori_log(ORIEL_LOG_WARN,
			"JOB_COMPLETION_INDEX is '%s', but WORLD_SIZE is not set: this process is "
			"a "
			"job of one rank (ORIEL_BOOTSTRAP=local if that is meant, else set "
			"WORLD_SIZE "
			"to the completions of the job)",
			index);
}

static bool launch_local_is_there(char why[ORI_LAUNCH_WHY])
{
	snprintf(why, ORI_LAUNCH_WHY,
		 "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not set, and no launcher is "
		 "found");
	return true;
}

static enum oriel_status launch_local_read(struct ori_launch *launch)
{
	launch->job.size = 1;
	return ORIEL_OK;
}

static const struct ori_launcher launch_local = {
	.name = "local",
	.is_there = launch_local_is_there,
	.read = launch_local_read,
};

/*
 * The first that is there is taken. RANK is nearest to the program: torchrun, or a shell, that a
 * launcher below has started. A mpirun in a step of Slurm sets the names of PMIx.
 */
static const struct ori_launcher *const launchers[] = {
	&ori_launch_env,   &ori_launch_kubernetes, &ori_launch_pmix,
	&ori_launch_slurm, &ori_launch_env_part,   &launch_local,
};

static const struct ori_launcher *launch_choose(char why[ORI_LAUNCH_WHY])
{
	const char *demanded = ori_setting_text(ORI_SETTING_BOOTSTRAP);
	bool is_auto = strcmp(demanded, "auto") == 0;
	size_t i;

	for (i = 0;
	     is_auto ? !launchers[i]->is_there(why) : strcmp(launchers[i]->name, demanded) != 0;
	     i++)
		;
	if (!is_auto)
		snprintf(why, ORI_LAUNCH_WHY, "ORIEL_BOOTSTRAP is '%s'", demanded);
	else if (launchers[i] == &launch_local)
		launch_warn_of_others();
	return launchers[i];
}

/* A WORLD_SIZE that another launcher contradicts is a mistake which would stay unnoticed. */
static enum oriel_status launch_check_size(const struct ori_launcher *launcher,
					   const struct ori_launch *launch)
{
	enum oriel_status status;
	unsigned size;

	if (launcher == &launch_local || !ori_launch_variable("WORLD_SIZE"))
		return ORIEL_OK;
	status = ori_launch_unsigned("WORLD_SIZE", ORI_TCP_RANKS_MAX, &size);
	if (status == ORIEL_OK && size != launch->job.size)
		status = ori_fail(ORIEL_ERR_CONFIG,
				  "WORLD_SIZE is %u, but the launcher (%s) has started %u ranks: "
				  "unset it, or set RANK, MASTER_ADDR and MASTER_PORT as well",
				  size, launcher->name, launch->job.size);
	return status;
}

static const char *launch_key_text(const struct ori_credentials *own)
{
	if (own->is_munged)
		return "with a job key by munge";
	return own->key.length ? "with a job key" : "without a job key";
}

/* Before the ranks meet, which is when a job most often fails. */
static void launch_log(const struct ori_launcher *launcher, const char *why,
		       const struct ori_launch *launch)
{
	const struct ori_tcp_job *job = &launch->job;
	char at[ORI_ENDPOINT_LENGTH];

	ori_log_begin(job->rank);
	if (job->rank != 0)
		return;
	if (job->size > 1 && ori_tcp_job_is_local(job))
		ori_log_rank(
			ORIEL_LOG_INFO, 0,
			"bootstrap: %s, since %s: rank 0 of %u listens at unix socket %s (%s), "
			"%s",
			launcher->name, why, job->size, ori_endpoint_text(&job->addresses[0], at),
			launch->local_from, launch_key_text(&job->own));
	else if (job->size == 1)
		ori_log_rank(ORIEL_LOG_INFO, 0, "bootstrap: %s, since %s: this process alone",
			     launcher->name, why);
	else
		ori_log_rank(
			ORIEL_LOG_INFO, 0,
			"bootstrap: %s, since %s: rank 0 of %u listens at %s (%s), TCP port %u "
			"(%s), by a socket %s, %s",
			launcher->name, why, job->size, job->host, launch->host_from, job->port,
			launch->port_from,
			job->listen_fd < 0 ? "of its own" : "that is open already",
			launch_key_text(&job->own));
}

/* All ranks are on this machine: a unix socket takes the place of the TCP port. */
static enum oriel_status launch_meet_here(struct ori_launch *launch)
{
	struct ori_tcp_job *job = &launch->job;

	if (job->size == 1 || job->address_count || !ori_launch_is_local(launch))
		return ORIEL_OK;
	job->address_count = 1;
	job->addresses[0] = (struct ori_address){.family = ORI_ADDRESS_UNIX};
	job->host = launch->local_from;
	return ori_job_tag_socket(&job->own.tag, job->port, job->addresses[0].ip);
}

enum oriel_status oriel_bootstrap_open_env(uint64_t timeout_ns, struct oriel_bootstrap *bootstrap)
{
	struct ori_launch launch = {
		.job = {.size = 1, .listen_fd = -1, .is_only = true, .timeout_ns = timeout_ns}};
	const struct ori_launcher *launcher = NULL;
	char why[ORI_LAUNCH_WHY] = "";
	enum oriel_status status;

	if (!bootstrap)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_bootstrap_open_env: bootstrap is NULL");
	status = oriel_settings_check();
	if (status == ORIEL_OK)
		status = ori_setting_open_log();
	ori_late_read();
	if (status == ORIEL_OK && timeout_ns == 0)
		status = ori_setting_timeout(&launch.job.timeout_ns);
	if (status == ORIEL_OK) {
		launcher = launch_choose(why);
		status = launcher->read(&launch);
	}
	if (status == ORIEL_OK) {
		status = launch_check_size(launcher, &launch);
		if (status != ORIEL_OK && launch.job.listen_fd >= 0)
			close(launch.job.listen_fd);
	}
	if (status == ORIEL_OK)
		status = launch_meet_here(&launch);
	if (status == ORIEL_OK) {
		launch_log(launcher, why, &launch);
		status = ori_tcp_open(&launch.job, bootstrap);
	}
	explicit_bzero(&launch.job.own, sizeof(launch.job.own));
	return status;
}
