/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables that several launchers set, and what all jobs need beside them. The tables of launchers
 * call it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/job_key.h"
#include "base/log.h"
#include "bootstrap/launch.h"
#include "sys/hosts.h"
#include "sys/munge.h"
#include "sys/process.h"

#define LAUNCH_KEY 32 /* bytes of a key that rank 0 makes */

const char *ori_launch_variable(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

enum oriel_status ori_launch_unsigned(const char *name, uint64_t max, unsigned *value)
{
	const char *text = getenv(name);
	enum oriel_status status;
	uint64_t number;

	if (!text || !*text)
		return ori_fail(ORIEL_ERR_CONFIG, "%s is %s", name, text ? "empty" : "not set");
	status = ori_parse_unsigned(name, text, max, &number);
	if (status == ORIEL_OK)
		*value = (unsigned)number;
	return status;
}

enum oriel_status ori_launch_ranks(const char *rank_name, const char *size_name,
				   struct ori_launch *launch)
{
	struct ori_tcp_job *job = &launch->job;
	enum oriel_status status;

	status = ori_launch_unsigned(size_name, ORI_TCP_RANKS_MAX, &job->size);
	if (status == ORIEL_OK)
		status = ori_launch_unsigned(rank_name, ORI_TCP_RANKS_MAX, &job->rank);
	if (status != ORIEL_OK)
		return status;
	if (job->size == 0)
		return ori_fail(ORIEL_ERR_CONFIG, "%s is 0, but a job has a rank or more",
				size_name);
	if (job->rank >= job->size)
		return ori_fail(ORIEL_ERR_CONFIG, "%s is %u, but %s is %u", rank_name, job->rank,
				size_name, job->size);
	return ORIEL_OK;
}

enum oriel_status ori_launch_port(uint16_t port, const char *from, struct ori_launch *launch)
{
	enum oriel_status status = ORIEL_OK;
	unsigned master;
	uint64_t set;

	launch->job.port = port;
	launch->port_from = from;
	if (*ori_setting_text(ORI_SETTING_PORT)) {
		status = ori_setting_unsigned(ORI_SETTING_PORT, 65535, &set);
		launch->port_from = "ORIEL_PORT";
		if (status == ORIEL_OK)
			launch->job.port = (uint16_t)set;
	} else if (ori_launch_variable("MASTER_PORT")) {
		status = ori_launch_unsigned("MASTER_PORT", 65535, &master);
		launch->port_from = "MASTER_PORT";
		if (status == ORIEL_OK)
			launch->job.port = (uint16_t)master;
	}
	if (status == ORIEL_OK && launch->job.port == 0)
		status = ori_fail(ORIEL_ERR_CONFIG, "%s is 0, but it may be 1 to 65535",
				  launch->port_from);
	return status;
}

bool ori_launch_is_local(struct ori_launch *launch)
{
	const char *meet = ori_setting_text(ORI_SETTING_MEET);

	if (strcmp(meet, "unix") == 0)
		launch->local_from = "ORIEL_MEET is 'unix'";
	else if (strcmp(meet, "auto") != 0)
		launch->local_from = NULL;
	return launch->local_from != NULL;
}

/*
 * Is the key to be one by munge? By unix sockets each rank knows the user of its peers. All ranks
 * of a job find the same, where munged runs on all of its hosts, or on none; else they name it.
 */
static bool launch_is_munged(struct ori_launch *launch)
{
	struct ori_error before;
	bool is_there;

	if (ori_launch_is_local(launch) || ori_job_key_is_set() || ori_job_key_is_none())
		return false;
	ori_error_save(&before);
	is_there = ori_munge_check() == ORIEL_OK;
	if (!is_there)
		ori_log(ORIEL_LOG_DEBUG, "no job key by munge: %s", oriel_last_error());
	ori_error_restore(&before);
	return is_there;
}

/* Rank 0 makes the key for the first job of the process, and others ask for it when they join. */
static enum oriel_status launch_make_key(struct ori_launch *launch)
{
	struct ori_key *key = &launch->job.own.key;
	enum oriel_status status;

	launch->job.own.is_munged = true;
	if (launch->job.rank != 0)
		return ORIEL_OK;
	key->length = LAUNCH_KEY;
	status = ori_random(key->bytes, LAUNCH_KEY);
	if (status == ORIEL_OK)
		status = ori_key_adopt(key);
	return status == ORIEL_OK ? ori_key_read(key) : status;
}

/* The tag stays that of the launcher's name: a member knows the tag before it knows the key. */
static enum oriel_status launch_key(struct ori_launch *launch)
{
	struct ori_credentials *own = &launch->job.own;
	const struct ori_key none = {0};
	enum oriel_status status;

	if (launch_is_munged(launch)) {
		status = launch_make_key(launch);
		return status == ORIEL_OK ? ori_job_tag_make(&none, &own->tag) : status;
	}
	status = ori_key_read(&own->key);
	return status == ORIEL_OK ? ori_job_tag_make(&own->key, &own->tag) : status;
}

enum oriel_status ori_launch_credentials(struct ori_launch *launch)
{
	struct ori_credentials *own = &launch->job.own;
	enum oriel_status status = ORIEL_OK;
	struct ori_hosts hosts;

	/* A choice of interfaces that leaves none is known before any rank waits for this one. */
	if (ori_hosts_is_chosen() && !ori_launch_is_local(launch))
		status = ori_hosts_list(&hosts);
	if (status == ORIEL_OK)
		status = launch_key(launch);
	return status == ORIEL_OK ? ori_process_token(&own->process) : status;
}
