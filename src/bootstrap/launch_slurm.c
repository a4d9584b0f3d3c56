/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of Slurm without PMIx, `srun --mpi=none`: the job by the variables that srun gives each
 * task (https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES"). launch.c calls it by
 * its table.
 */
#include "bootstrap/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bootstrap/hostlist.h"

/* Ports that neither the kernel chooses (32768 to 60999) nor well-known servers have. */
#define SLURM_PORT_FIRST 20480u
#define SLURM_PORTS 12288u
#define SLURM_STEPS 61u /* ports between those of one step of two jobs with neighboring numbers */

/*
 * sbatch, too, sets SLURM_PROCID for its script, which is one process whatever SLURM_NTASKS says;
 * only a task of srun has the two others.
 */
static bool slurm_is_there(char why[ORI_LAUNCH_WHY])
{
	snprintf(why, ORI_LAUNCH_WHY,
		 "SLURM_PROCID, SLURM_STEP_ID and SLURM_STEP_NUM_TASKS are "
		 "set");
	return ori_launch_variable("SLURM_PROCID") && ori_launch_variable("SLURM_STEP_ID") &&
	       ori_launch_variable("SLURM_STEP_NUM_TASKS");
}

/*
 * The first node of the step runs task 0, with each --distribution. All tasks of one node meet on
 * its loopback interface: no other machine can reach that.
 */
static enum oriel_status slurm_host(struct ori_launch *launch)
{
	const char *nodes = ori_launch_variable("SLURM_STEP_NODELIST");
	enum oriel_status status;
	unsigned count;

	launch->job.host = ori_launch_variable("MASTER_ADDR");
	launch->host_from = "MASTER_ADDR";
	if (launch->job.host)
		return ORIEL_OK;
	launch->job.host = launch->host;
	status = ori_launch_unsigned("SLURM_STEP_NUM_NODES", UINT32_MAX, &count);
	if (status == ORIEL_OK && count == 1) {
		strcpy(launch->host, "127.0.0.1");
		launch->host_from = launch->local_from = "SLURM_STEP_NUM_NODES is 1";
		return ORIEL_OK;
	}
	if (status != ORIEL_OK)
		return status;
	launch->host_from = "SLURM_STEP_NODELIST";
	if (nodes && ori_hostlist_first(nodes, launch->host, sizeof(launch->host)))
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_CONFIG, "SLURM_STEP_NODELIST is '%s', which is no list of hosts",
			nodes ? nodes : "");
}

static enum oriel_status slurm_port(struct ori_launch *launch)
{
	unsigned job, step;
	enum oriel_status status;

	status = ori_launch_unsigned("SLURM_JOB_ID", UINT32_MAX, &job);
	if (status == ORIEL_OK)
		status = ori_launch_unsigned("SLURM_STEP_ID", UINT32_MAX, &step);
	if (status != ORIEL_OK)
		return status;
	return ori_launch_port((uint16_t)(SLURM_PORT_FIRST +
					  ((uint64_t)job * SLURM_STEPS + step) % SLURM_PORTS),
			       "SLURM_JOB_ID, SLURM_STEP_ID", launch);
}

static enum oriel_status slurm_read(struct ori_launch *launch)
{
	enum oriel_status status;

	status = ori_launch_ranks("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", launch);
	if (status != ORIEL_OK || launch->job.size == 1)
		return status;
	status = slurm_host(launch);
	if (status == ORIEL_OK)
		status = slurm_port(launch);
	return status == ORIEL_OK ? ori_launch_credentials(launch) : status;
}

const struct ori_launcher ori_launch_slurm = {
	.name = "slurm",
	.is_there = slurm_is_there,
	.read = slurm_read,
};
