/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indexed jobs of Kubernetes: the controller gives each pod JOB_COMPLETION_INDEX and the host name
 * NAME-INDEX; with a headless service as the subdomain of the pods, DNS has these names
 * (https://kubernetes.io/docs/concepts/workloads/controllers/job/, "Completion mode"). The number
 * of pods is in no variable: the manifest sets WORLD_SIZE. launch.c calls it by its table.
 */
#include "bootstrap/launch_kubernetes.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "sys/hosts.h"

static bool kubernetes_is_there(char why[ORI_LAUNCH_WHY])
{
	snprintf(why, ORI_LAUNCH_WHY, "JOB_COMPLETION_INDEX and WORLD_SIZE are set");
	return ori_launch_variable("JOB_COMPLETION_INDEX") && ori_launch_variable("WORLD_SIZE");
}

bool ori_kubernetes_host(const char *name, unsigned index, char host[ORI_LAUNCH_HOST])
{
	size_t label = strcspn(name, "."), length;
	char end[16];

	length = (size_t)snprintf(end, sizeof(end), "-%u", index);
	if (label <= length || memcmp(name + label - length, end, length) != 0)
		return false;
	return snprintf(host, ORI_LAUNCH_HOST, "%.*s-0%s", (int)(label - length), name,
			name + label) < ORI_LAUNCH_HOST;
}

static enum oriel_status kubernetes_host(struct ori_launch *launch)
{
	enum oriel_status status;
	char own[ORI_LAUNCH_HOST];

	launch->job.host = ori_launch_variable("MASTER_ADDR");
	launch->host_from = "MASTER_ADDR";
	if (launch->job.host)
		return ORIEL_OK;
	status = ori_hosts_own_name(own, sizeof(own));
	if (status != ORIEL_OK)
		return status;
	if (!ori_kubernetes_host(own, launch->job.rank, launch->host))
		return ori_fail(
			ORIEL_ERR_CONFIG,
			"the name of this host is '%s', but that of a pod of an indexed job "
			"begins with NAME-%u (JOB_COMPLETION_INDEX): set MASTER_ADDR to the "
			"address of pod 0",
			own, launch->job.rank);
	launch->job.host = launch->host;
	launch->host_from = "the name of this pod";
	return ORIEL_OK;
}

static enum oriel_status kubernetes_read(struct ori_launch *launch)
{
	enum oriel_status status;

	status = ori_launch_ranks("JOB_COMPLETION_INDEX", "WORLD_SIZE", launch);
	if (status != ORIEL_OK || launch->job.size == 1)
		return status;
	status = kubernetes_host(launch);
	if (status == ORIEL_OK)
		status = ori_launch_port(ORI_LAUNCH_PORT, "the default", launch);
	return status == ORIEL_OK ? ori_launch_credentials(launch) : status;
}

const struct ori_launcher ori_launch_kubernetes = {
	.name = "kubernetes",
	.is_there = kubernetes_is_there,
	.read = kubernetes_read,
};
