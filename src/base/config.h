/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of the library, all in one table; they come from the environment. Every module
 * reads its own here. Each call reads the environment afresh; nothing is cached.
 */
#ifndef ORI_BASE_CONFIG_H
#define ORI_BASE_CONFIG_H

#include <oriel/status.h>

enum ori_setting {
	ORI_SETTING_TIMEOUT,      /* ORIEL_TIMEOUT, seconds (decimals allowed), or infinite */
	ORI_SETTING_LATE,         /* ORIEL_LATE, seconds until a wait is reported, 0 = never */
	ORI_SETTING_HEARTBEAT,    /* ORIEL_HEARTBEAT, seconds, 0 = none: see comm/silence.h */
	ORI_SETTING_HANG_SIGNAL,  /* ORIEL_HANG_SIGNAL, off or a signal: comm/wait_report.h */
	ORI_SETTING_NODE,         /* ORIEL_NODE, text: name of the virtual node */
	ORI_SETTING_PATHS,        /* ORIEL_PATHS, list of mapped,rdma: paths this rank may use */
	ORI_SETTING_LOG,          /* ORIEL_LOG, error | warn | info | debug */
	ORI_SETTING_LOG_FILE,     /* ORIEL_LOG_FILE, see log_file.h, or "": standard error */
	ORI_SETTING_BOOTSTRAP,    /* ORIEL_BOOTSTRAP, auto or a name: see bootstrap/launch.h */
	ORI_SETTING_MEET,         /* ORIEL_MEET, auto | unix | tcp: sockets of the bootstrap */
	ORI_SETTING_PORT,         /* ORIEL_PORT, where rank 0 listens instead of MASTER_PORT */
	ORI_SETTING_LISTEN_FD,    /* ORIEL_LISTEN_FD, a listening socket rank 0 inherits */
	ORI_SETTING_JOB_KEY,      /* ORIEL_JOB_KEY, hex or "required": only job_key.c reads it */
	ORI_SETTING_JOB_KEY_FILE, /* ORIEL_JOB_KEY_FILE, a path or fd:N: see base/job_key.h */
	ORI_SETTING_INVITATION,   /* ORIEL_INVITATION, hex: the process joins a communicator */
	ORI_SETTING_SSH,          /* ORIEL_SSH, a command: `oriel run --hosts` reads it */
	ORI_SETTING_HCA,          /* ORIEL_HCA, see ori_setting_hca() */
	ORI_SETTING_SOFT_HCA,     /* ORIEL_SOFT_HCA, text: faults of the software HCA */
	ORI_SETTING_CONNECT,      /* ORIEL_CONNECT, demand | eager | lazy */
	ORI_SETTING_FABRIC,       /* ORIEL_FABRIC, auto | off | require: NVLink between nodes */
	ORI_SETTING_TOPOLOGY,     /* ORIEL_TOPOLOGY, see topo/overrides.h */
	ORI_SETTING_TIER,         /* ORIEL_TIER, auto | t0 to t3: ConnectX NICs */
	ORI_SETTING_DEVX,         /* ORIEL_DEVX, auto | on | off: commands to their firmware */
	ORI_SETTING_RAILS,        /* ORIEL_RAILS, 1 to 4: NICs that each rank drives */
	ORI_SETTING_ALLGATHER,    /* ORIEL_ALLGATHER, auto or a name: algorithm of all-gathers */
	ORI_SETTING_ALLREDUCE,    /* ORIEL_ALLREDUCE, auto or a name: algorithm of all-reduces */
	ORI_SETTING_REDUCE_FAST,  /* ORIEL_REDUCE_FAST, on | off: all-reduces in another order */
	ORI_SETTING_CE_BATCH,     /* ORIEL_CE_BATCH, bytes: largest copy that is batched */
	ORI_SETTING_TUNE,         /* ORIEL_TUNE, off, a path, or "": ~/.cache/oriel/tune */
	ORI_SETTING_POST,         /* ORIEL_POST, auto | rings | proxy: initiator or proxy posts */
	ORI_SETTING_NET_ORDER,    /* ORIEL_NET_ORDER, auto | ordered | relaxed: of the network */
	ORI_SETTING_PROXY_NEAR,   /* ORIEL_PROXY_NEAR, auto | off: NUMA node of the proxy */
	ORI_SETTING_IFACE,        /* ORIEL_IFACE, network interfaces, see ori_hosts_match() */
	ORI_SETTING_FAMILY,       /* ORIEL_FAMILY, auto | ipv4 | ipv6 */
	ORI_SETTING_P2P_TCP,      /* ORIEL_P2P_TCP, auto | on | off: p2p contexts listen */
	ORI_SETTING_IB_GID_INDEX, /* ORIEL_IB_GID_INDEX, 0 to 255, or "": RoCE v2 */
	ORI_SETTING_IB_TC,        /* ORIEL_IB_TC, 0 to 255: traffic class */
	ORI_SETTING_IB_SL,        /* ORIEL_IB_SL, 0 to 15: service level */
	ORI_SETTING_IB_TIMEOUT,   /* ORIEL_IB_TIMEOUT, 0 to 31: 4.096 us * 2^n, 0 = none */
	ORI_SETTING_IB_RETRY,     /* ORIEL_IB_RETRY, 0 to 7 */
	ORI_SETTING_IB_RNR_RETRY, /* ORIEL_IB_RNR_RETRY, 0 to 7; 7 = for ever */
	ORI_SETTING_IB_MTU,       /* ORIEL_IB_MTU, 256 to 4096: at most */
	ORI_SETTINGS
};

/* The text in the environment, or else the default, which may be "". */
const char *ori_setting_text(enum ori_setting which);

/* Parsed values. The text of ORIEL_ERR_CONFIG names the setting and its valid values. */
enum oriel_status
ori_setting_timeout(uint64_t *timeout_ns); /* ORIEL_TIMEOUT_INFINITE for "infinite" */
/* The next two: ns; 0: never; the default for a text that does not parse. */
uint64_t ori_setting_late(void);
uint64_t ori_setting_heartbeat(void);
/*
 * The limit of a wait in which all ranks are inside one call, of which none has beats yet:
 * @timeout_ns, or ORIEL_HEARTBEAT, ten seconds at least, if that is set and less.
 */
uint64_t ori_setting_boot_limit(uint64_t timeout_ns);
enum oriel_status ori_setting_unsigned(enum ori_setting which, uint64_t max, uint64_t *value);
/* Bits 1 << enum oriel_path value: 1 << 2 mapped, 1 << 3 rdma. */
enum oriel_status ori_setting_paths(unsigned *mask);

/*
 * Open the file of ORIEL_LOG_FILE, if it is set, so that a job that could write no log fails as
 * it begins. ORIEL_ERR_CONFIG names the file and the reason.
 */
enum oriel_status ori_setting_open_log(void);

/* The parsed form of ORIEL_HCA. */
enum ori_hca_request {
	ORI_HCA_REQUEST_AUTO,  /* NICs if the machine has any, else the software HCA on one host */
	ORI_HCA_REQUEST_NONE,  /* there is no rdma path */
	ORI_HCA_REQUEST_SOFT,  /* the software HCA */
	ORI_HCA_REQUEST_VERBS, /* the NICs that *@filter selects: see hca/verbs/verbs_pick.h */
};

enum ori_hca_request ori_setting_hca(const char **filter);

/*
 * Parse decimal digits: no sign, no space, no more than @max. The bootstrap also calls it for
 * the variables of launchers (RANK, WORLD_SIZE).
 */
enum oriel_status ori_parse_unsigned(const char *name, const char *text, uint64_t max,
				     uint64_t *value);

#endif
