/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings and the parsers of their values. It reports no errors, so that the log
 * can read its level here: config.c does, and calls this file.
 */
#include "base/config_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/log_file.h"

#define CONFIG_SECONDS_MAX 1000000000u
#define CONFIG_INVITATION (2 * 144u) /* hex digits: ORIEL_INVITATION_LENGTH of oriel/comm.h */

bool ori_config_digits(const char *text, uint64_t max, uint64_t *value)
{
	uint64_t sum = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		unsigned digit = (unsigned)*text - '0';

		if (digit > 9 || sum > max / 10 || digit > max - sum * 10)
			return false;
		sum = sum * 10 + digit;
	}
	*value = sum;
	return true;
}

/* Parse seconds with up to nine decimals. strtod() would read them in the program's locale. */
bool ori_config_seconds(const char *text, uint64_t *ns)
{
	const char *dot = strchrnul(text, '.');
	char whole[ORI_CONFIG_NAME_MAX], part[] = "000000000";
	uint64_t seconds, rest;
	size_t decimals;

	if ((size_t)(dot - text) >= sizeof(whole))
		return false;
	memcpy(whole, text, (size_t)(dot - text));
	whole[dot - text] = '\0';
	if (*dot) {
		decimals = strlen(dot + 1);
		if (decimals == 0 || decimals > 9)
			return false;
		memcpy(part, dot + 1, decimals);
	}
	if (!ori_config_digits(whole, CONFIG_SECONDS_MAX, &seconds) ||
	    !ori_config_digits(part, UINT64_MAX, &rest))
		return false;
	*ns = seconds * 1000000000u + rest;
	return true;
}

bool ori_config_timeout(const char *text, uint64_t *ns)
{
	*ns = ORIEL_TIMEOUT_INFINITE;
	return strcmp(text, "infinite") == 0 || (ori_config_seconds(text, ns) && *ns > 0);
}

static bool config_list_has(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && memcmp(text, word, length) == 0;
}

bool ori_config_paths(const char *text, unsigned *mask)
{
	static const struct {
		const char *name;
		unsigned bit;
	} paths[] = {{"mapped", 1u << 2}, {"rdma", 1u << 3}};
	unsigned found = 0;
	size_t i, length;

	for (;; text += length + 1) {
		length = (size_t)(strchrnul(text, ',') - text);
		for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
			if (config_list_has(text, length, paths[i].name))
				break;
		if (i == sizeof(paths) / sizeof(paths[0]))
			return false;
		found |= paths[i].bit;
		if (!text[length])
			break;
	}
	*mask = found;
	return true;
}

static bool config_is_timeout(const char *text)
{
	uint64_t ns;

	return ori_config_timeout(text, &ns);
}

static bool config_is_seconds(const char *text)
{
	uint64_t ns;

	return ori_config_seconds(text, &ns);
}

static bool config_is_node(const char *text)
{
	size_t length = strlen(text), i;

	for (i = 0; i < length; i++)
		if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
			return false;
	return length <= 63;
}

static bool config_is_paths(const char *text)
{
	unsigned mask;

	return ori_config_paths(text, &mask);
}

static bool config_is_key(const char *text)
{
	size_t length = strlen(text);

	if (strcmp(text, ORI_CONFIG_REQUIRED) == 0 || strcmp(text, ORI_CONFIG_NO_KEY) == 0)
		return true;
	/* A peer that poses as rank 0 can try keys offline, so a key has 16 bytes at least. */
	return length % 2 == 0 && length >= 32 && length <= ORI_CONFIG_TEXT_MAX &&
	       strspn(text, "0123456789abcdefABCDEF") == length;
}

/* The bytes are parsed where they are used. */
static bool config_is_invitation(const char *text)
{
	size_t length = strlen(text);

	return length == CONFIG_INVITATION && strspn(text, "0123456789abcdef") == length;
}

static bool config_is_hca(const char *text)
{
	size_t i;

	/* The code that looks for HCAs parses the filter in full, and names the error. */
	for (i = 0; text[i]; i++)
		if (text[i] <= ' ' || text[i] > '~' || text[i] == ';')
			return false;
	return i <= ORI_CONFIG_TEXT_MAX;
}

/* The software HCA parses its scenario in full, a communicator the topology; each names the error.
 */
static bool config_is_scenario(const char *text)
{
	return strlen(text) <= ORI_CONFIG_TEXT_MAX;
}

/* The create functions of collectives read the file, and name the error. */
/* The grammar of ori_hosts_match(). */
static bool config_is_iface(const char *text)
{
	size_t length;

	if (!*text)
		return true;
	text += *text == '^';
	text += *text == '=';
	for (;; text += length + 1) {
		length = strcspn(text, ", \t\n^=");
		/* IFNAMSIZ of Linux is 16, with the NUL (linux/if.h). */
		if (!length || length > 15 || (text[length] && text[length] != ','))
			return false;
		if (!text[length])
			return true;
	}
}

/* The library only knows that it is a setting; the tool splits it, and names the error. */
static bool config_is_command(const char *text)
{
	return *text != '\0';
}

static bool config_is_path(const char *text)
{
	return strlen(text) <= ORI_CONFIG_TEXT_MAX;
}

/* The file is opened by the first job that needs the key, which names the error. */
static bool config_is_key_file(const char *text)
{
	size_t prefix = strlen(ORI_CONFIG_KEY_FD);
	uint64_t fd;

	if (strncmp(text, ORI_CONFIG_KEY_FD, prefix) == 0)
		return ori_config_digits(text + prefix, INT32_MAX, &fd);
	return config_is_path(text);
}

/* oriel_settings_check() opens no file: a bootstrap or communicator does, and names the error. */
static bool config_is_log_file(const char *text)
{
	char name[ORI_LOG_FILE_NAME];

	return strlen(text) <= ORI_CONFIG_TEXT_MAX && ori_log_file_name(text, name);
}

static bool config_is_mtu(const char *text)
{
	uint64_t value;

	return ori_config_digits(text, 4096, &value) && value >= 256 && (value & (value - 1)) == 0;
}

const struct ori_config_entry ori_config_entries[ORI_SETTINGS] = {
	[ORI_SETTING_TIMEOUT] =
		{
			.name = "ORIEL_TIMEOUT",
			.fallback = "600",
			.may_be = "seconds such as 30 or 0.5, or infinite",
			.help = "default of every wait, in seconds, or infinite",
			.is_valid = config_is_timeout,
		},
	[ORI_SETTING_LATE] =
		{
			.name = "ORIEL_LATE",
			.fallback = "30",
			.may_be = "seconds such as 30 or 0.5, or 0 for never",
			.help = "seconds after which the log names the ranks that a rank waits for",
			.is_valid = config_is_seconds,
		},
	[ORI_SETTING_HEARTBEAT] =
		{
			.name = "ORIEL_HEARTBEAT",
			.fallback = "0",
			.may_be = "seconds such as 30 or 0.5, or 0 for never",
			.help = "seconds after which a rank that does not run (stopped, or its "
				"machine) breaks the job, whatever ORIEL_TIMEOUT is",
			.is_valid = config_is_seconds,
		},
	[ORI_SETTING_HANG_SIGNAL] =
		{
			.name = "ORIEL_HANG_SIGNAL",
			.fallback = "off",
			.help = "signal at which a process writes what its threads wait for to "
				"its log",
			.words = "off,SIGUSR1,SIGUSR2,SIGQUIT",
		},
	[ORI_SETTING_NODE] =
		{
			.name = "ORIEL_NODE",
			.fallback = "",
			.may_be = "a name of up to 63 characters without spaces",
			.help = "name of the virtual node; ranks of different nodes share no "
				"memory",
			.is_valid = config_is_node,
		},
	[ORI_SETTING_PATHS] =
		{
			.name = "ORIEL_PATHS",
			.fallback = "mapped,rdma",
			.may_be = "a list of mapped and rdma, separated by commas",
			.help = "paths that this rank may use",
			.is_valid = config_is_paths,
		},
	[ORI_SETTING_LOG] =
		{
			.name = "ORIEL_LOG",
			.fallback = "warn",
			.help = "least level of the records that are written",
			.words = "error,warn,info,debug",
		},
	[ORI_SETTING_LOG_FILE] =
		{
			.name = "ORIEL_LOG_FILE",
			.fallback = "",
			.may_be = "the path of a file, with %h for the host, %p for the process, "
				  "%% for a percent sign",
			.help = "file that records are appended to; unset: standard error",
			.is_valid = config_is_log_file,
		},
	[ORI_SETTING_BOOTSTRAP] =
		{
			.name = "ORIEL_BOOTSTRAP",
			.fallback = "auto",
			.help = "how ranks meet: as the environment shows, or by the names of this "
				"launcher",
			.words = "auto,env,pmix,slurm,kubernetes,local",
		},
	[ORI_SETTING_MEET] =
		{
			.name = "ORIEL_MEET",
			.fallback = "auto",
			.help = "sockets by which the ranks meet: unix, if all are on one machine, "
				"or tcp; auto: unix where the launcher says that they are",
			.words = "auto,unix,tcp",
		},
	[ORI_SETTING_PORT] =
		{
			.name = "ORIEL_PORT",
			.fallback = "",
			.may_be = "a port from 1 to 65535",
			.help = "TCP port of rank 0, instead of MASTER_PORT",
			.least = 1,
			.most = 65535,
		},
	[ORI_SETTING_LISTEN_FD] =
		{
			.name = "ORIEL_LISTEN_FD",
			.fallback = "",
			.may_be = "the number of a file descriptor",
			.help = "listening socket that rank 0 inherits, instead of opening one",
			.most = INT32_MAX,
		},
	[ORI_SETTING_JOB_KEY] =
		{
			.name = "ORIEL_JOB_KEY",
			.fallback = "",
			.may_be = "an even number of hex digits, 32 to 254, or required, or none",
			.help = "secret that the ranks of a job share, in hex; required: no job "
				"without a key; none: no key by munge",
			.is_valid = config_is_key,
			.is_secret = true,
		},
	[ORI_SETTING_JOB_KEY_FILE] =
		{
			.name = "ORIEL_JOB_KEY_FILE",
			.fallback = "",
			.may_be = "the path of a file, or fd:N for a descriptor",
			.help = "file of this user alone that has the job key, or fd:N",
			.is_valid = config_is_key_file,
		},
	[ORI_SETTING_INVITATION] =
		{
			.name = "ORIEL_INVITATION",
			.fallback = "",
			.may_be = "the text of an invitation of oriel_comm_invite()",
			.help = "secret by which oriel_comm_create() joins a communicator that "
				"grows, instead of a job",
			.is_valid = config_is_invitation,
			.is_secret = true,
		},
	[ORI_SETTING_SSH] =
		{
			.name = "ORIEL_SSH",
			.fallback = "ssh -o BatchMode=yes",
			.may_be = "a command",
			.help = "command that oriel run --hosts executes for each host",
			.is_valid = config_is_command,
		},
	[ORI_SETTING_HCA] =
		{
			.name = "ORIEL_HCA",
			.fallback = "auto",
			.may_be = "auto, soft, none, verbs, or names as mlx5_0:1,mlx5_1 or ^mlx5_2 "
				  "or =rxe0",
			.help = "NICs for the rdma path; soft, the software HCA, is for "
				"development; without NICs auto takes it on one host only",
			.is_valid = config_is_hca,
		},
	[ORI_SETTING_SOFT_HCA] =
		{
			.name = "ORIEL_SOFT_HCA",
			.fallback = "",
			.may_be = "a scenario such as seed=7,drop=0.01",
			.help = "faults that the software HCA injects",
			.is_valid = config_is_scenario,
		},
	[ORI_SETTING_CONNECT] =
		{
			.name = "ORIEL_CONNECT",
			.fallback = "demand",
			.help = "when links to rdma peers connect: each at its first use, all "
				"with the communicator, or all with the first window",
			.words = "demand,eager,lazy",
		},
	[ORI_SETTING_FABRIC] =
		{
			.name = "ORIEL_FABRIC",
			.fallback = "auto",
			.help = "NVLink between GPUs of different nodes: used if present, never, "
				"or required",
			.words = "auto,off,require",
		},
	[ORI_SETTING_TOPOLOGY] =
		{
			.name = "ORIEL_TOPOLOGY",
			.fallback = "",
			.may_be = "a list such as clique=3,peer_access=off",
			.help = "what this rank says of its GPU instead of the machine: "
				"cluster=UUID, clique=NUMBER, peer_access=off, gpudirect=off",
			.is_valid = config_is_scenario,
		},
	[ORI_SETTING_TIER] =
		{
			.name = "ORIEL_TIER",
			.fallback = "auto",
			.help = "how requests are posted to a ConnectX NIC: the best tier that "
				"works, or this one",
			.words = "auto,t0,t1,t2,t3",
		},
	[ORI_SETTING_DEVX] =
		{
			.name = "ORIEL_DEVX",
			.fallback = "auto",
			.help = "queues of a ConnectX NIC are created by commands to its firmware "
				"if "
				"that works (auto), always (on), or by verbs alone (off)",
			.words = "auto,on,off",
		},
	[ORI_SETTING_RAILS] =
		{
			.name = "ORIEL_RAILS",
			.fallback = "1",
			.help = "NICs of each rank or p2p context; its links are spread over them",
			.least = 1,
			.most = 4,
		},
	[ORI_SETTING_ALLGATHER] =
		{
			.name = "ORIEL_ALLGATHER",
			.fallback = "auto",
			.help = "algorithm of all-gathers whose attr names none",
			.words = "auto,ll,store,ce,direct,ring,bruck",
		},
	[ORI_SETTING_ALLREDUCE] =
		{
			.name = "ORIEL_ALLREDUCE",
			.fallback = "auto",
			.help = "algorithm of all-reduces whose attr names none",
			.words = "auto,one_shot,owner,hierarchical,ring,recursive",
		},
	[ORI_SETTING_REDUCE_FAST] =
		{
			.name = "ORIEL_REDUCE_FAST",
			.fallback = "off",
			.help = "all-reduces of host memory over nodes may add in another order "
				"where that is faster, as with the flag of that name",
			.words = "on,off",
		},
	[ORI_SETTING_CE_BATCH] =
		{
			.name = "ORIEL_CE_BATCH",
			.fallback = "0",
			.help = "copy-engine copies to all ranks, of at most so many bytes each, "
				"are handed to the GPU driver in one call; 0: one call each",
			.most = UINT32_MAX,
		},
	[ORI_SETTING_TUNE] =
		{
			.name = "ORIEL_TUNE",
			.fallback = "",
			.may_be = "the path of a file, or off",
			.help = "table of oriel tune from which collectives choose an algorithm; "
				"unset: ~/.cache/oriel/tune if it exists; off: the built-in table",
			.is_valid = config_is_path,
		},
	[ORI_SETTING_POST] =
		{
			.name = "ORIEL_POST",
			.fallback = "auto",
			.help = "requests are posted by the initiator, to the rings of the NIC, or "
				"by a proxy thread; auto: rings where the NIC has them",
			.words = "auto,rings,proxy",
		},
	[ORI_SETTING_NET_ORDER] =
		{
			.name = "ORIEL_NET_ORDER",
			.fallback = "auto",
			.help = "whether the network keeps the order of requests to a NIC; "
				"relaxed: "
				"signals wait until the data before them is acknowledged; auto: as "
				"the NIC reports it",
			.words = "auto,ordered,relaxed",
		},
	[ORI_SETTING_PROXY_NEAR] =
		{
			.name = "ORIEL_PROXY_NEAR",
			.fallback = "auto",
			.help = "the proxy thread stays on CPUs of the NUMA node of its NIC, or "
				"runs anywhere",
			.words = "auto,off",
		},
	[ORI_SETTING_IFACE] =
		{
			.name = "ORIEL_IFACE",
			.fallback = "",
			.may_be = "names of interfaces, or their beginnings, separated by commas; "
				  "= before the list: whole names; ^: all others",
			.is_valid = config_is_iface,
			.help = "network interfaces for TCP, as in NCCL_SOCKET_IFNAME: eth0,ib "
				"(beginnings of names), =eth0 (whole), ^docker (all others); "
				"listeners are at the address of the first that is up",
		},
	[ORI_SETTING_FAMILY] =
		{
			.name = "ORIEL_FAMILY",
			.fallback = "auto",
			.help = "addresses for TCP; auto: IPv4 where there is one, else IPv6",
			.words = "auto,ipv4,ipv6",
		},
	[ORI_SETTING_P2P_TCP] =
		{
			.name = "ORIEL_P2P_TCP",
			.fallback = "auto",
			.help = "whether a p2p context listens on TCP for endpoints on other "
				"machines; auto: if there is a job key, or ranks on other "
				"machines",
			.words = "auto,on,off",
		},
	[ORI_SETTING_IB_GID_INDEX] =
		{
			.name = "ORIEL_IB_GID_INDEX",
			.fallback = "",
			.help = "GID index of a NIC; unset: the first of RoCE v2, IPv4 before "
				"IPv6",
			.most = 255,
		},
	[ORI_SETTING_IB_TC] =
		{
			.name = "ORIEL_IB_TC",
			.fallback = "0",
			.help = "traffic class of packets",
			.most = 255,
		},
	[ORI_SETTING_IB_SL] =
		{
			.name = "ORIEL_IB_SL",
			.fallback = "0",
			.help = "service level of packets",
			.most = 15,
		},
	[ORI_SETTING_IB_TIMEOUT] =
		{
			.name = "ORIEL_IB_TIMEOUT",
			.fallback = "20",
			.help = "a NIC retransmits after 4.096 us * 2^n; 0 = never",
			.most = 31,
		},
	[ORI_SETTING_IB_RETRY] =
		{
			.name = "ORIEL_IB_RETRY",
			.fallback = "7",
			.help = "retransmissions before the peer counts as failed",
			.most = 7,
		},
	[ORI_SETTING_IB_RNR_RETRY] =
		{
			.name = "ORIEL_IB_RNR_RETRY",
			.fallback = "7",
			.help = "retries, 0.64 ms apart, while the peer has no receive posted; "
				"7 = for ever",
			.most = 7,
		},
	[ORI_SETTING_IB_MTU] =
		{
			.name = "ORIEL_IB_MTU",
			.fallback = "4096",
			.may_be = "256, 512, 1024, 2048 or 4096",
			.help = "largest packet in bytes; the two sides use the smaller value",
			.is_valid = config_is_mtu,
		},
};

/* A setting that is set but empty counts as unset, as shells treat it. */
const char *ori_config_environment(const struct ori_config_entry *entry)
{
	const char *text = getenv(entry->name);

	return text && *text ? text : NULL;
}

static bool config_is_word(const char *words, const char *text)
{
	size_t length;

	for (;; words += length + 1) {
		length = (size_t)(strchrnul(words, ',') - words);
		if (config_list_has(words, length, text))
			return true;
		if (!words[length])
			return false;
	}
}

bool ori_config_is_valid(const struct ori_config_entry *entry, const char *text)
{
	uint64_t value;

	if (entry->is_valid)
		return entry->is_valid(text);
	if (entry->words)
		return config_is_word(entry->words, text);
	return ori_config_digits(text, entry->most, &value) && value >= entry->least;
}

const char *ori_setting_text(enum ori_setting which)
{
	const char *text = ori_config_environment(&ori_config_entries[which]);

	return text ? text : ori_config_entries[which].fallback;
}
