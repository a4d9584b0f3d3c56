/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bootstrap over TCP, or over unix sockets where all ranks are on one machine. All ranks connect
 * to rank 0, which sends each the address of its parent in the tree. From then on a rank talks to
 * its neighbours in the tree and to the peers with which it exchanges messages. env.c, part.c and
 * tests open it.
 */
#ifndef ORI_BOOTSTRAP_TCP_H
#define ORI_BOOTSTRAP_TCP_H

#include <oriel/bootstrap.h>

#include "bootstrap/job_tag.h"
#include "net/endpoint.h"

#define ORI_TCP_RANKS_MAX (1u << 20)

struct ori_tcp_job {
	unsigned rank, size;
	const char *host; /* where rank 0 listens; with @addresses only for texts */
	uint16_t port;
	/*
	 * The addresses of @host, in the order in which they are tried; count 0: resolve @host. One
	 * of a unix socket: all ranks meet by unix sockets, and no TCP port is open.
	 */
	struct ori_address addresses[ORI_ENDPOINT_NAMES];
	unsigned address_count;
	int listen_fd; /* -1, or the listener of rank 0; the call takes it over, also on failure */
	bool is_only;  /* reject it while this process has such a bootstrap of @rank at @port */
	struct ori_credentials own;
	const struct oriel_job_id *ids; /* of all ranks, if a list of ids is the job; else NULL */
	uint64_t timeout_ns;
	/* NULL, or a descriptor that becomes readable where a rank exits, or gives up, instead. */
	const int *abort_fd;
};

enum oriel_status ori_tcp_open(const struct ori_tcp_job *job, struct oriel_bootstrap *bootstrap);

/* Has ori_tcp_open() opened it? */
bool ori_tcp_is_own(const struct oriel_bootstrap *bootstrap);

/* Do all ranks of @job meet by unix sockets? */
static inline bool ori_tcp_job_is_local(const struct ori_tcp_job *job)
{
	return job->address_count > 0 && job->addresses[0].family == ORI_ADDRESS_UNIX;
}

/* Did the ranks of @bootstrap, opened by ori_tcp_open(), meet so? */
bool ori_tcp_is_local(const struct oriel_bootstrap *bootstrap);

/* The key of the job of @bootstrap, opened by ori_tcp_open(); of length 0 if it has none. */
const struct ori_key *ori_tcp_key(const struct oriel_bootstrap *bootstrap);

/*
 * @abort_fd, NULL or what it is in struct ori_tcp_job, ends the waits of @bootstrap, opened by
 * ori_tcp_open(), from now on. Not while another thread uses it.
 */
void ori_tcp_abort_by(const struct oriel_bootstrap *bootstrap, const int *abort_fd);
/* ORIEL_ERR_PEER once that descriptor is readable, else ORIEL_OK; never waits. */
enum oriel_status ori_tcp_check(const struct oriel_bootstrap *bootstrap);

/* The traffic that the rank of @bootstrap, opened by ori_tcp_open(), has sent so far. */
const struct ori_traffic *ori_tcp_traffic(const struct oriel_bootstrap *bootstrap);

#endif
