/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job ids from inside: their bytes, and jobs of them. The bootstraps of launchers that have a
 * store, and oriel_bootstrap_open_id(), call it; invitation.c shares the addresses.
 */
#ifndef ORI_BOOTSTRAP_JOB_ID_H
#define ORI_BOOTSTRAP_JOB_ID_H

#include "bootstrap/tcp.h"

#define ORI_JOB_ID_ADDRESSES 4

/* The contents of a struct oriel_job_id. */
struct ori_job_id {
	struct ori_key key; /* of 32 bytes, or none */
	struct ori_address addresses[ORI_JOB_ID_ADDRESSES];
	unsigned count; /* of addresses, 1 to 4; all have one port */
};

void ori_job_id_encode(const struct ori_job_id *in, struct oriel_job_id *id);
/* False if the bytes are malformed. */
bool ori_job_id_parse(const struct oriel_job_id *id, struct ori_job_id *out);

/* False if the @count addresses, which follow each other at @bytes, are none of a job id. */
bool ori_job_id_parse_addresses(const unsigned char *bytes, unsigned count,
				struct ori_address addresses[ORI_JOB_ID_ADDRESSES]);

/*
 * Listens where other machines reach this one, at a port that the kernel chooses; @is_local: by a
 * unix socket.
 */
enum oriel_status ori_job_id_listen(bool is_local,
				    struct ori_address addresses[ORI_JOB_ID_ADDRESSES],
				    unsigned *count, int *fd);

/* As oriel_job_id_open(); @is_local: all ranks are on this machine, and meet by unix sockets. */
enum oriel_status ori_job_id_open(struct oriel_job_id *id, bool is_local);

/*
 * Fill in all of @job but rank, size, timeout and host; rank 0 gets a descriptor of the
 * listener, which is then ori_tcp_open()'s to close. @caller begins the texts of errors.
 */
enum oriel_status ori_job_id_use(const struct oriel_job_id *id, const char *caller,
				 struct ori_tcp_job *job);

/*
 * As oriel_bootstrap_open_id() for the ranks of a list, each with an id of its own, as
 * oriel_comm_create_ids() describes it.
 */
enum oriel_status ori_bootstrap_open_ids(const struct oriel_job_id *ids, unsigned rank,
					 unsigned size, uint64_t number, uint64_t timeout_ns,
					 struct oriel_bootstrap *bootstrap);

#endif
