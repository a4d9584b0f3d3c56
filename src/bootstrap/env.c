/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the job from torchrun's names, which launchers and `oriel run` set. launch.c calls it by
 * its table.
 */
#include "bootstrap/launch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "net/endpoint.h"

static const char *const env_names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

static enum oriel_status env_text(const char *name, const char **text)
{
	const char *set = getenv(name);
	size_t i;

	if (set && *set) {
		*text = set;
		return ORIEL_OK;
	}
	if (set)
		return ori_fail(ORIEL_ERR_CONFIG, "%s is empty", name);
	for (i = 0; i < sizeof(env_names) / sizeof(env_names[0]) && !getenv(env_names[i]); i++)
		;
	if (i == sizeof(env_names) / sizeof(env_names[0]))
		return ori_fail(ORIEL_ERR_CONFIG, "%s is not set, but ORIEL_BOOTSTRAP is 'env'",
				name);
	return ori_fail(ORIEL_ERR_CONFIG, "%s is not set, but %s is '%s'", name, env_names[i],
			getenv(env_names[i]));
}

static enum oriel_status env_unsigned(const char *name, uint64_t max, unsigned *value)
{
	enum oriel_status status;
	const char *text = NULL; /* for compilers that do not see env_text() */
	uint64_t number;

	status = env_text(name, &text);
	if (status == ORIEL_OK)
		status = ori_parse_unsigned(name, text, max, &number);
	if (status == ORIEL_OK)
		*value = (unsigned)number;
	return status;
}

static enum oriel_status env_ranks(struct ori_tcp_job *job)
{
	enum oriel_status status;

	status = env_unsigned("WORLD_SIZE", ORI_TCP_RANKS_MAX, &job->size);
	if (status == ORIEL_OK)
		status = env_unsigned("RANK", ORI_TCP_RANKS_MAX, &job->rank);
	if (status != ORIEL_OK)
		return status;
	if (job->size == 0)
		return ori_fail(ORIEL_ERR_CONFIG, "WORLD_SIZE is 0, but a job has a rank or more");
	if (job->rank >= job->size)
		return ori_fail(ORIEL_ERR_CONFIG, "RANK is %u, but WORLD_SIZE is %u", job->rank,
				job->size);
	return ORIEL_OK;
}

/* torchrun's agent itself listens at MASTER_PORT if the ranks use its store; take the next. */
static enum oriel_status env_port(struct ori_launch *launch)
{
	const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
	unsigned above = agent && strcmp(agent, "True") == 0, number;
	enum oriel_status status;
	uint64_t set;

	if (*ori_setting_text(ORI_SETTING_PORT)) {
		status = ori_setting_unsigned(ORI_SETTING_PORT, 65535, &set);
		if (status == ORIEL_OK)
			launch->job.port = (uint16_t)set;
		launch->port_from = "ORIEL_PORT";
		return status;
	}
	launch->port_from = "MASTER_PORT";
	status = env_unsigned("MASTER_PORT", 65535 - above, &number);
	if (status != ORIEL_OK)
		return status;
	if (number == 0)
		return ori_fail(ORIEL_ERR_CONFIG, "MASTER_PORT is 0, but it may be 1 to 65535");
	launch->job.port = (uint16_t)(number + above);
	return ORIEL_OK;
}

/*
 * The listener of ORIEL_LISTEN_FD after the first job. Each job at its port gets a duplicate of
 * the descriptor: a shell around this process may have the socket open, too, and then no process
 * could listen at the port anew.
 */
static struct {
	pthread_mutex_t lock;
	int fd; /* -1: none */
	uint16_t port;
} env_inherited = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* Is it still open? Some programs close every descriptor that they did not open. */
static bool env_has_inherited_locked(void)
{
	struct ori_error before;
	bool is_usable;

	if (env_inherited.fd < 0)
		return false;
	ori_error_save(&before);
	is_usable = ori_endpoint_adopt(env_inherited.fd, env_inherited.port) == ORIEL_OK;
	ori_error_restore(&before);
	if (!is_usable)
		env_inherited.fd = -1;
	return is_usable;
}

/*
 * Read the number once, and unset the variable: when the next job opens, the number may be that
 * of another file.
 */
static enum oriel_status env_inherit_listener_locked(uint16_t port)
{
	enum oriel_status status;
	uint64_t fd;

	status = ori_setting_unsigned(ORI_SETTING_LISTEN_FD, INT32_MAX, &fd);
	if (status == ORIEL_OK)
		status = ori_endpoint_adopt((int)fd, port);
	if (status != ORIEL_OK)
		return status;
	if (env_inherited.fd != (int)fd && env_has_inherited_locked())
		close(env_inherited.fd);
	env_inherited.fd = (int)fd;
	env_inherited.port = port;
	unsetenv("ORIEL_LISTEN_FD");
	return ORIEL_OK;
}

/* As torchrun and `oriel run` set them. */
static enum oriel_status env_find_local(struct ori_launch *launch)
{
	enum oriel_status status = ORIEL_OK;
	unsigned local = 0;

	if (ori_launch_variable("LOCAL_WORLD_SIZE"))
		status = ori_launch_unsigned("LOCAL_WORLD_SIZE", ORI_TCP_RANKS_MAX, &local);
	if (local == launch->job.size)
		launch->local_from = "LOCAL_WORLD_SIZE is WORLD_SIZE";
	return status;
}

static enum oriel_status env_listener(struct ori_tcp_job *job)
{
	static const struct ori_fork_hook hook = {.lock = &env_inherited.lock};
	enum oriel_status status = ORIEL_OK;

	if (job->rank != 0)
		return ORIEL_OK;
	ori_fork_add(ORI_FORK_ENV, &hook);
	pthread_mutex_lock(&env_inherited.lock);
	if (*ori_setting_text(ORI_SETTING_LISTEN_FD))
		status = env_inherit_listener_locked(job->port);
	if (status == ORIEL_OK && env_inherited.port == job->port && env_has_inherited_locked()) {
		job->listen_fd = fcntl(env_inherited.fd, F_DUPFD_CLOEXEC, 0);
		if (job->listen_fd < 0)
			status = ori_fail_errno(ORIEL_ERR_NOMEM, "no descriptor for the listener");
		else
			ori_fork_socket(job->listen_fd);
	}
	pthread_mutex_unlock(&env_inherited.lock);
	return status;
}

static bool env_is_there(char why[ORI_LAUNCH_WHY])
{
	snprintf(why, ORI_LAUNCH_WHY, "RANK is set");
	return getenv("RANK") != NULL;
}

static bool env_part_is_there(char why[ORI_LAUNCH_WHY])
{
	size_t i;

	for (i = 0; i < sizeof(env_names) / sizeof(env_names[0]); i++)
		if (getenv(env_names[i])) {
			snprintf(why, ORI_LAUNCH_WHY, "%s is set", env_names[i]);
			return true;
		}
	return false;
}

static enum oriel_status env_read(struct ori_launch *launch)
{
	struct ori_tcp_job *job = &launch->job;
	enum oriel_status status = env_ranks(job);

	if (status != ORIEL_OK || job->size == 1)
		return status;
	launch->host_from = "MASTER_ADDR";
	status = env_text("MASTER_ADDR", &job->host);
	if (status == ORIEL_OK)
		status = env_port(launch);
	if (status == ORIEL_OK)
		status = env_find_local(launch);
	if (status == ORIEL_OK)
		status = ori_launch_credentials(launch);
	if (status != ORIEL_OK || ori_launch_is_local(launch))
		return status;
	return env_listener(job);
}

const struct ori_launcher ori_launch_env = {
	.name = "env",
	.is_there = env_is_there,
	.read = env_read,
};

const struct ori_launcher ori_launch_env_part = {
	.name = "env",
	.is_there = env_part_is_there,
	.read = env_read,
};
