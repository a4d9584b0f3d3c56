/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launchers: how a process learns its job. Each is a table in a file of its own; launch.c chooses
 * one, and opens the TCP bootstrap with what it has read.
 */
#ifndef ORI_BOOTSTRAP_LAUNCH_H
#define ORI_BOOTSTRAP_LAUNCH_H

#include "bootstrap/tcp.h"

#define ORI_LAUNCH_HOST 256
#define ORI_LAUNCH_WHY 160
#define ORI_LAUNCH_PORT 29500 /* of rank 0 where a host is one rank's alone: torchrun's default */

struct ori_launch {
	struct ori_tcp_job job;     /* in: timeout; a job of size 1 has no other fields */
	char host[ORI_LAUNCH_HOST]; /* where job.host may point */
	const char *host_from;      /* source of the host, for the log */
	const char *port_from;      /* source of the port */
	/* The reason why all ranks are known to be on this machine, such as a variable; or NULL. */
	const char *local_from;
};

struct ori_launcher {
	const char *name; /* in ORIEL_BOOTSTRAP */

	/* Has this launcher started the process? @why gets the reason, "RANK is set". */
	bool (*is_there)(char why[ORI_LAUNCH_WHY]);

	/* Fill in the job. Errors name the variable. Where the user demands it, it may not be
	 * there. */
	enum oriel_status (*read)(struct ori_launch *launch);
};

extern const struct ori_launcher ori_launch_env;      /* RANK is set */
extern const struct ori_launcher ori_launch_env_part; /* only others of these names are set */
extern const struct ori_launcher ori_launch_kubernetes;
extern const struct ori_launcher ori_launch_pmix;
extern const struct ori_launcher ori_launch_slurm;

/* The text of variable @name, or NULL if it is not set or empty. */
const char *ori_launch_variable(const char *name);

/* Parse variable @name. ORIEL_ERR_CONFIG, with its name: it is not set, or is no such number. */
enum oriel_status ori_launch_unsigned(const char *name, uint64_t max, unsigned *value);

/* Parse rank and size from two variables. */
enum oriel_status ori_launch_ranks(const char *rank_name, const char *size_name,
				   struct ori_launch *launch);

/* ORIEL_PORT, or else MASTER_PORT, or else @port, whose source is @from. */
enum oriel_status ori_launch_port(uint16_t port, const char *from, struct ori_launch *launch);

/*
 * Will the ranks meet by unix sockets? ORIEL_MEET decides, or else launch->local_from, which then
 * is set.
 */
bool ori_launch_is_local(struct ori_launch *launch);

/* Key, tag and token of this process. */
enum oriel_status ori_launch_credentials(struct ori_launch *launch);

#endif
