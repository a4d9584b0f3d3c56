/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job ids: rank 0 opens one, which is a listener and bytes that name it; with the bytes all ranks
 * join. Programs call it, and the bootstraps of launchers that have a store.
 */
#include "bootstrap/job_id.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/handle.h"
#include "base/job_key.h"
#include "base/late.h"
#include "base/log.h"
#include "base/secret.h"
#include "sys/process.h"

#define JOB_ID_KEY 32
/* Offsets in the bytes; all others are zero. */
#define JOB_ID_AT_KEY_LENGTH 4
#define JOB_ID_AT_COUNT 5
#define JOB_ID_AT_KEY 8
#define JOB_ID_AT_ADDRESSES (JOB_ID_AT_KEY + JOB_ID_KEY)
#define JOB_ID_END (JOB_ID_AT_ADDRESSES + ORI_JOB_ID_ADDRESSES * ORI_ADDRESS_LENGTH)

static_assert(JOB_ID_END <= ORIEL_JOB_ID_LENGTH, "the bytes fit");

static const unsigned char job_id_magic[4] = {'O', 'J', 'I', 1}; /* 1 is the version */

/* The listener of an id that this process has opened, in secret memory, since the id has the key.
 */
struct job_id_listener {
	struct job_id_listener *next;
	struct oriel_job_id id;
	uint64_t stamp; /* ori_handle_stamp of the opening process; differs in its children */
	int fd;
};

static pthread_mutex_t job_id_lock = PTHREAD_MUTEX_INITIALIZER;
static struct job_id_listener *job_id_listeners;

void ori_job_id_encode(const struct ori_job_id *in, struct oriel_job_id *id)
{
	unsigned i;

	memset(id, 0, sizeof(*id));
	memcpy(id->bytes, job_id_magic, sizeof(job_id_magic));
	id->bytes[JOB_ID_AT_KEY_LENGTH] = (unsigned char)in->key.length;
	id->bytes[JOB_ID_AT_COUNT] = (unsigned char)in->count;
	memcpy(id->bytes + JOB_ID_AT_KEY, in->key.bytes, in->key.length);
	for (i = 0; i < in->count; i++)
		ori_address_encode(&in->addresses[i],
				   id->bytes + JOB_ID_AT_ADDRESSES + i * ORI_ADDRESS_LENGTH);
}

bool ori_job_id_parse_addresses(const unsigned char *bytes, unsigned count,
				struct ori_address addresses[ORI_JOB_ID_ADDRESSES])
{
	struct ori_address *a;
	unsigned i;

	if (count == 0 || count > ORI_JOB_ID_ADDRESSES)
		return false;
	for (i = 0; i < count; i++) {
		a = &addresses[i];
		if (!ori_address_parse(bytes + i * ORI_ADDRESS_LENGTH, ORI_ADDRESS_LENGTH, a) ||
		    a->family == 0 || (a->family == ORI_ADDRESS_UNIX) != (a->port == 0) ||
		    (a->family == ORI_ADDRESS_UNIX && count != 1))
			return false;
	}
	return true;
}

bool ori_job_id_parse(const struct oriel_job_id *id, struct ori_job_id *out)
{
	struct ori_job_id found = {.key.length = id->bytes[JOB_ID_AT_KEY_LENGTH],
				   .count = id->bytes[JOB_ID_AT_COUNT]};
	struct oriel_job_id again;
	bool is_whole;

	if (memcmp(id->bytes, job_id_magic, sizeof(job_id_magic)) != 0 ||
	    (found.key.length != 0 && found.key.length != JOB_ID_KEY) ||
	    !ori_job_id_parse_addresses(id->bytes + JOB_ID_AT_ADDRESSES, found.count,
					found.addresses))
		return false;
	memcpy(found.key.bytes, id->bytes + JOB_ID_AT_KEY, found.key.length);
	/* Bytes without a meaning are zero, so that a later version may give them one. */
	ori_job_id_encode(&found, &again);
	is_whole = memcmp(&again, id, sizeof(again)) == 0;
	if (is_whole)
		*out = found;
	explicit_bzero(&found, sizeof(found));
	explicit_bzero(&again, sizeof(again));
	return is_whole;
}

static_assert(ORI_HOSTS == ORI_JOB_ID_ADDRESSES, "all addresses of a host fit");

enum oriel_status ori_job_id_listen(bool is_local,
				    struct ori_address addresses[ORI_JOB_ID_ADDRESSES],
				    unsigned *count, int *fd)
{
	enum oriel_status status;
	struct ori_hosts hosts;
	uint16_t port;

	if (is_local) {
		*count = 1;
		addresses[0] = (struct ori_address){.family = ORI_ADDRESS_UNIX};
		return ori_endpoint_listen(&addresses[0], fd);
	}
	status = ori_endpoint_listen_all(&hosts, &port, fd);
	if (status != ORIEL_OK)
		return status;
	*count = ori_endpoint_of_hosts(&hosts, port, addresses);
	if (*count)
		return ORIEL_OK;
	/* Other machines do not reach this one, so no other rank is there. */
	*count = 1;
	addresses[0] = (struct ori_address){.family = 4, .port = port, .ip = {127, 0, 0, 1}};
	return ORIEL_OK;
}

enum oriel_status ori_job_id_open(struct oriel_job_id *id, bool is_local)
{
	static const struct ori_fork_hook hook = {.lock = &job_id_lock};
	enum oriel_status status = ORIEL_OK;
	struct job_id_listener *listener;
	struct ori_job_id in = {0};

	if (!ori_job_key_is_set()) {
		in.key.length = JOB_ID_KEY;
		status = ori_random(in.key.bytes, JOB_ID_KEY);
	}
	if (status != ORIEL_OK)
		return status;
	listener = ori_secret_alloc(sizeof(*listener));
	if (!listener)
		return ori_fail_nomem(sizeof(*listener), "a job id");
	status = ori_job_id_listen(is_local, in.addresses, &in.count, &listener->fd);
	if (status != ORIEL_OK) {
		ori_secret_free(listener, sizeof(*listener));
		return status;
	}
	ori_job_id_encode(&in, &listener->id);
	explicit_bzero(&in, sizeof(in));
	listener->stamp = ori_handle_stamp;
	*id = listener->id;
	ori_fork_add(ORI_FORK_JOB_ID, &hook);
	pthread_mutex_lock(&job_id_lock);
	listener->next = job_id_listeners;
	job_id_listeners = listener;
	pthread_mutex_unlock(&job_id_lock);
	return ORIEL_OK;
}

enum oriel_status oriel_job_id_open(struct oriel_job_id *id)
{
	enum oriel_status status;

	if (!id)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_job_id_open: id is NULL");
	status = oriel_settings_check();
	/* The caller may know that all ranks are here; the library does not. */
	return status == ORIEL_OK ? ori_job_id_open(id, strcmp(ori_setting_text(ORI_SETTING_MEET),
							       "unix") == 0)
				  : status;
}

/* The place of the pointer to the listener of @id, or of the NULL at the end. */
static struct job_id_listener **job_id_find_locked(const struct oriel_job_id *id)
{
	struct job_id_listener **at = &job_id_listeners;

	while (*at &&
	       ((*at)->stamp != ori_handle_stamp || memcmp(&(*at)->id, id, sizeof(*id)) != 0))
		at = &(*at)->next;
	return at;
}

enum oriel_status oriel_job_id_close(const struct oriel_job_id *id)
{
	struct job_id_listener **at, *found;

	if (!id)
		return ORIEL_OK;
	pthread_mutex_lock(&job_id_lock);
	at = job_id_find_locked(id);
	found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&job_id_lock);
	if (!found)
		return ori_misuse("oriel_job_id_close: this id is not open in this process");
	close(found->fd);
	ori_secret_free(found, sizeof(*found));
	return ORIEL_OK;
}

/* Duplicate the listener of @id for one job. */
static enum oriel_status job_id_listen(const struct oriel_job_id *id, const char *caller, int *fd)
{
	struct job_id_listener *found;
	int copy = -1;

	pthread_mutex_lock(&job_id_lock);
	found = *job_id_find_locked(id);
	if (found)
		copy = fcntl(found->fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&job_id_lock);
	if (!found)
		return ori_fail(
			ORIEL_ERR_STATE,
			"%s: rank 0 has not opened this id in this process, or has closed it",
			caller);
	if (copy < 0)
		return ori_fail_errno(ORIEL_ERR_NOMEM, "no descriptor for the listener");
	ori_fork_socket(copy);
	*fd = copy;
	return ORIEL_OK;
}

enum oriel_status ori_job_id_use(const struct oriel_job_id *id, const char *caller,
				 struct ori_tcp_job *job)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_job_id in;

	if (!ori_job_id_parse(id, &in))
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: the bytes of the id are not those of oriel_job_id_open()",
				caller);
	job->port = in.addresses[0].port;
	job->address_count = in.count;
	memcpy(job->addresses, in.addresses, in.count * sizeof(in.addresses[0]));
	job->is_only = true;
	/* A key of the settings is stronger: it was set by the user. */
	if (ori_job_key_is_set() || !in.key.length) {
		status = ori_key_read(&job->own.key);
	} else {
		job->own.key = in.key;
		status = ori_key_adopt(&in.key);
	}
	explicit_bzero(&in, sizeof(in));
	if (status == ORIEL_OK)
		status = ori_job_tag_make(&job->own.key, &job->own.tag);
	if (status == ORIEL_OK)
		status = ori_process_token(&job->own.process);
	if (status == ORIEL_OK && job->rank == 0 && job->size > 1)
		status = job_id_listen(id, caller, &job->listen_fd);
	return status;
}

static void job_id_log(const struct ori_tcp_job *job)
{
	char at[ORI_ENDPOINT_LENGTH];

	ori_log_begin(job->rank);
	if (job->rank == 0)
		ori_log_rank(ORIEL_LOG_INFO, 0,
			     "bootstrap: a job id of the caller, for %u ranks: %s, rank 0 listens "
			     "at %s, with a job key",
			     job->size, ori_tcp_job_is_local(job) ? "unix sockets" : "TCP",
			     ori_endpoint_text(&job->addresses[0], at));
}

/* @is_list: of @job->size ids and @number; else of one. @caller begins the texts of errors. */
static enum oriel_status job_id_join(const struct oriel_job_id *ids, bool is_list, uint64_t number,
				     const char *caller, struct ori_tcp_job *job,
				     struct oriel_bootstrap *bootstrap)
{
	enum oriel_status status;

	if (!ids || !bootstrap)
		return ori_fail(ORIEL_ERR_INVALID, "%s: %s is NULL", caller,
				ids       ? "bootstrap"
				: is_list ? "ids"
					  : "id");
	if (job->size == 0 || job->size > ORI_TCP_RANKS_MAX || job->rank >= job->size)
		return ori_fail(ORIEL_ERR_RANGE, "%s: rank %u of %u", caller, job->rank, job->size);
	status = oriel_settings_check();
	if (status == ORIEL_OK)
		status = ori_setting_open_log();
	ori_late_read();
	if (status == ORIEL_OK && job->timeout_ns == 0)
		status = ori_setting_timeout(&job->timeout_ns);
	if (status == ORIEL_OK)
		status = ori_job_id_use(&ids[0], caller, job);
	if (status == ORIEL_OK && is_list) {
		job->ids = ids;
		status = ori_job_tag_list(&job->own.key, ids, job->rank, job->size, number,
					  &job->own.tag);
	}
	if (status == ORIEL_OK) {
		job_id_log(job);
		status = ori_tcp_open(job, bootstrap);
	}
	explicit_bzero(&job->own, sizeof(job->own));
	return status;
}

enum oriel_status oriel_bootstrap_open_id(const struct oriel_job_id *id, unsigned rank,
					  unsigned size, uint64_t timeout_ns,
					  struct oriel_bootstrap *bootstrap)
{
	struct ori_tcp_job job = {.rank = rank,
				  .size = size,
				  .host = "the address of the job id",
				  .listen_fd = -1,
				  .timeout_ns = timeout_ns};

	return job_id_join(id, false, 0, "oriel_bootstrap_open_id", &job, bootstrap);
}

enum oriel_status ori_bootstrap_open_ids(const struct oriel_job_id *ids, unsigned rank,
					 unsigned size, uint64_t number, uint64_t timeout_ns,
					 struct oriel_bootstrap *bootstrap)
{
	struct ori_tcp_job job = {.rank = rank,
				  .size = size,
				  .host = "the address of the first job id",
				  .listen_fd = -1,
				  .timeout_ns = timeout_ns};

	return job_id_join(ids, true, number, "oriel_comm_create_ids", &job, bootstrap);
}
