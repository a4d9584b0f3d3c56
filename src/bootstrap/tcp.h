/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bootstrap over TCP. All ranks connect to rank 0, which tells each its
 * parent in the tree; from then on a rank talks to its neighbours there, and to
 * those it exchanges messages with.
 */
#ifndef ORI_BOOTSTRAP_TCP_H
#define ORI_BOOTSTRAP_TCP_H

#include <oriel/bootstrap.h>

#include "bootstrap/job_tag.h"
#include "bootstrap/link.h"
#include "net/auth.h"

#define ORI_TCP_RANKS_MAX (1u << 20)

struct ori_tcp_job {
	unsigned rank, size;
	const char *host; /* where rank 0 listens */
	uint16_t port;
	int listen_fd; /* -1, or the listener of rank 0, which takes it also on failure */
	bool is_only;  /* rejected while such a bootstrap of @rank at @port is open here */
	struct ori_credentials own;
	uint64_t timeout_ns;
};

enum oriel_status ori_tcp_open(const struct ori_tcp_job *job, struct oriel_bootstrap *bootstrap);

/* What the rank of @bootstrap, which ori_tcp_open() has opened, has sent so far. */
const struct ori_traffic *ori_tcp_traffic(const struct oriel_bootstrap *bootstrap);

#endif
