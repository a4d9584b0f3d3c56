/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oriel_bootstrap_open_env(): reads the job from the environment, with torchrun's names, and
 * opens a TCP bootstrap. Launchers and `oriel run` set these variables.
 */
#include <oriel/bootstrap.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/late.h"
#include "base/log.h"
#include "bootstrap/tcp.h"
#include "net/endpoint.h"
#include "sys/hosts.h"
#include "sys/process.h"

static const char *const env_names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

static bool env_is_alone(void)
{
	size_t i;

	for (i = 0; i < sizeof(env_names) / sizeof(env_names[0]); i++)
		if (getenv(env_names[i]))
			return false;
	return true;
}

/*
 * Under a launcher that sets other names each rank would be a job of one. A program that works
 * with any number of ranks would then do all of the work in every process, without an error.
 */
static void env_warn_of_others(void)
{
	static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					    "SLURM_STEP_NUM_TASKS"};
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *size = getenv(sizes[i]);

		if (!size || strtoul(size, NULL, 10) < 2)
			continue;
		ori_log(ORIEL_LOG_WARN,
			"%s is '%s', but RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not "
			"set: this process is a job of one rank",
			sizes[i], size);
		return;
	}
}

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
	for (i = 0; !getenv(env_names[i]); i++)
		;
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
static enum oriel_status env_port(uint16_t *port)
{
	const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
	unsigned above = agent && strcmp(agent, "True") == 0, number;
	enum oriel_status status;
	uint64_t set;

	if (*ori_setting_text(ORI_SETTING_PORT)) {
		status = ori_setting_unsigned(ORI_SETTING_PORT, 65535, &set);
		if (status == ORIEL_OK)
			*port = (uint16_t)set;
		return status;
	}
	status = env_unsigned("MASTER_PORT", 65535 - above, &number);
	if (status != ORIEL_OK)
		return status;
	if (number == 0)
		return ori_fail(ORIEL_ERR_CONFIG, "MASTER_PORT is 0, but it may be 1 to 65535");
	*port = (uint16_t)(number + above);
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

static enum oriel_status env_job(struct ori_tcp_job *job)
{
	enum oriel_status status = env_ranks(job);
	struct ori_hosts hosts;

	if (status != ORIEL_OK || job->size == 1)
		return status;
	/* A choice that leaves nothing is known before any rank waits for this one. */
	if (ori_hosts_is_chosen())
		status = ori_hosts_list(&hosts);
	if (status == ORIEL_OK)
		status = env_text("MASTER_ADDR", &job->host);
	if (status == ORIEL_OK)
		status = env_port(&job->port);
	ori_key_read(&job->own.key);
	if (status == ORIEL_OK)
		status = ori_job_tag_make(&job->own.key, &job->own.tag);
	if (status == ORIEL_OK)
		status = ori_process_token(&job->own.process);
	return status == ORIEL_OK ? env_listener(job) : status;
}

/* Before the ranks meet, which is when a job most often fails. */
static void env_log(const struct ori_tcp_job *job)
{
	const char *port = *ori_setting_text(ORI_SETTING_PORT) ? "ORIEL_PORT" : "MASTER_PORT";

	ori_log_begin(job->rank);
	if (job->rank != 0)
		return;
	if (env_is_alone())
		ori_log_rank(ORIEL_LOG_INFO, 0,
			     "bootstrap: this process alone, since RANK, WORLD_SIZE, MASTER_ADDR "
			     "and MASTER_PORT are not set");
	else if (job->size == 1)
		ori_log_rank(ORIEL_LOG_INFO, 0,
			     "bootstrap: this process alone, since WORLD_SIZE is 1");
	else
		ori_log_rank(ORIEL_LOG_INFO, 0,
			     "bootstrap: TCP, since WORLD_SIZE is %u: rank 0 listens at %s "
			     "(MASTER_ADDR), port %u (%s), by a socket %s, %s",
			     job->size, job->host, job->port, port,
			     job->listen_fd < 0 ? "of its own" : "that it inherits",
			     job->own.key.length ? "with a job key" : "without a job key");
}

enum oriel_status oriel_bootstrap_open_env(uint64_t timeout_ns, struct oriel_bootstrap *bootstrap)
{
	struct ori_tcp_job job = {.size = 1,
				  .listen_fd = -1,
				  .is_only = true,
				  .timeout_ns = timeout_ns};
	enum oriel_status status;

	if (!bootstrap)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_bootstrap_open_env: bootstrap is NULL");
	status = oriel_settings_check();
	if (status == ORIEL_OK)
		status = ori_setting_open_log();
	ori_late_read();
	if (status == ORIEL_OK && timeout_ns == 0)
		status = ori_setting_timeout(&job.timeout_ns);
	if (status == ORIEL_OK && env_is_alone())
		env_warn_of_others();
	else if (status == ORIEL_OK)
		status = env_job(&job);
	if (status == ORIEL_OK) {
		env_log(&job);
		status = ori_tcp_open(&job, bootstrap);
	}
	explicit_bzero(&job.own, sizeof(job.own));
	return status;
}
