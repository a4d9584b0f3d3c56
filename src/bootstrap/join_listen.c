/* SPDX-License-Identifier: Apache-2.0 */
/* Where rank 0 listens for the ranks of its job. join.c calls it. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/job_key.h"
#include "base/log.h"
#include "bootstrap/join.h"

/*
 * Debian's /etc/hosts gives the machine's own name the address 127.0.1.1 (Debian Reference, 5.1.1),
 * where other machines, which resolve it to another one, do not reach rank 0. A caller that means
 * loopback says "localhost" or the address.
 */
static bool listen_is_only_home(const char *host, const struct ori_address *address)
{
	return ori_endpoint_is_loopback(address) && strcmp(host, "localhost") != 0 &&
	       strspn(host, "0123456789.") != strlen(host) && !strchr(host, ':');
}

static enum oriel_status listen_at(const struct ori_tcp_job *job, const struct ori_address *names,
				   unsigned count, struct ori_listener *listener, int *fd)
{
	enum oriel_status status = ORIEL_ERR_SYSTEM;
	unsigned i;

	for (i = 0; i < count; i++) {
		if (listen_is_only_home(job->host, &names[i]))
			continue;
		listener->address = names[i];
		status = ori_endpoint_listen(&listener->address, fd);
		if (status == ORIEL_OK || errno != EADDRNOTAVAIL)
			return status;
	}
	/* The name is a router's in front of this machine, or loopback here: listen at any address.
	 */
	if (!ori_endpoint_chosen(job->port, &listener->address))
		listener->address =
			(struct ori_address){.family = names[0].family, .port = job->port};
	return ori_endpoint_listen(&listener->address, fd);
}

/* Members listen at the network by which they reach rank 0, which therefore speaks for all. */
static void listen_warn_of_no_key(const struct ori_join *join)
{
	static atomic_flag is_warned = ATOMIC_FLAG_INIT;
	const struct ori_address *address = &join->listener->address;
	char at[ORI_ENDPOINT_LENGTH];

	if (join->job->own.key.length || address->family == ORI_ADDRESS_UNIX ||
	    ori_endpoint_is_loopback(address) ||
	    atomic_flag_test_and_set_explicit(&is_warned, memory_order_relaxed))
		return;
	ori_log_rank(ORIEL_LOG_WARN, 0,
		     "this job has no key and listens at %s: any process that reaches the port can "
		     "join, and bytes travel as they are; " ORI_JOB_KEY_HOW
		     "; ORIEL_JOB_KEY=required forbids jobs without a key",
		     ori_endpoint_text(address, at));
}

static enum oriel_status listen_root(struct ori_join *join)
{
	const struct ori_tcp_job *job = join->job;
	struct ori_address names[ORI_ENDPOINT_NAMES];
	enum oriel_status status;
	unsigned count;
	int fd = join->listener->net.fd;

	if (ori_tcp_job_is_local(job)) {
		join->listener->address = job->addresses[0];
		status = fd >= 0 ? ORIEL_OK : ori_endpoint_listen(&join->listener->address, &fd);
		return status == ORIEL_OK ? ori_net_listener_open(&join->listener->net, fd)
					  : status;
	}
	if (fd >= 0) {
		status = ori_endpoint_local(fd, &join->listener->address);
		return status == ORIEL_OK ? ori_net_listener_open(&join->listener->net, fd)
					  : status;
	}
	status = ori_endpoint_resolve(job->host, job->port, join->deadline, names, &count);
	if (status == ORIEL_OK)
		status = listen_at(job, names, count, join->listener, &fd);
	return status == ORIEL_OK ? ori_net_listener_open(&join->listener->net, fd) : status;
}

enum oriel_status ori_join_listen(struct ori_join *join)
{
	enum oriel_status status = listen_root(join);

	if (status == ORIEL_OK)
		listen_warn_of_no_key(join);
	return status;
}

enum oriel_status ori_join_listen_member(struct ori_listener *listener, int root)
{
	enum oriel_status status;
	int fd;

	if (listener->net.fd >= 0)
		return ORIEL_OK;
	if (ori_fdsock_is(root)) {
		listener->address = (struct ori_address){.family = ORI_ADDRESS_UNIX};
	} else if (!ori_endpoint_chosen(0, &listener->address)) {
		status = ori_endpoint_local(root, &listener->address);
		if (status != ORIEL_OK)
			return status;
	}
	listener->address.port = 0;
	status = ori_endpoint_listen(&listener->address, &fd);
	return status == ORIEL_OK ? ori_net_listener_open(&listener->net, fd) : status;
}
