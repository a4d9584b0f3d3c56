/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of communicators and windows over a bootstrap whose other ranks lie. The first byte
 * has the number of this rank and the kind of its peers. Then follow, for each record of a peer,
 * a byte with the number of changes, and for each change its offset, its kind and its value. At
 * the end of the input the peers send what this rank would send in their place.
 */
#include <string.h>

#include <oriel/oriel.h>

#include "fuzz.h"
#include "hca/soft/soft_objects.h"
#include "topo/host.h"

#define JOIN_RANKS 3u
#define JOIN_TIMEOUT_NS 5000000u
#define JOIN_MAPPED_NS 4000000u /* no peer connects */
#define JOIN_MESSAGE_MAX 4096u
#define JOIN_HCA_MAGIC 0x4148534fu

enum join_flags {
	JOIN_RANK = 3,
	JOIN_LAZY = 4,
	JOIN_MAPPED = 8,  /* the peers are processes of the same node */
	JOIN_BUFFER = 16, /* the window gets a buffer of the caller's, and one more */
};

struct join_job {
	struct fuzz_input in;
	unsigned rank;
	bool is_mapped;
	size_t said; /* bytes of the last message to a peer, which it sends back */
	uint8_t words[JOIN_MESSAGE_MAX];
};

/* The position of @magic in @bytes, NULL if it is not there. */
static uint8_t *join_find(uint8_t *bytes, size_t length, uint32_t magic, size_t whole)
{
	size_t at;

	for (at = 0; at + whole <= length; at += 4)
		if (memcmp(bytes + at, &magic, sizeof(magic)) == 0)
			return bytes + at;
	return NULL;
}

/* Make @peer a process of its own: on another node unless the input wants it mapped. */
static void join_move(const struct join_job *job, uint8_t *at, unsigned peer)
{
	struct ori_host host;

	memcpy(&host, at, sizeof(host));
	host.token ^= peer + 1;
	if (!job->is_mapped)
		host.node[0] = (char)('a' + peer);
	memcpy(at, &host, sizeof(host));
}

/* The library trusts addresses of threads of its own process, so no peer may pass for one. */
static void join_keep_apart(uint8_t *at, uint64_t token)
{
	struct ori_host host;

	memcpy(&host, at, sizeof(host));
	if (host.token == token)
		host.token ^= 1;
	memcpy(at, &host, sizeof(host));
}

/* No packet leaves this machine, whatever the input is. */
static void join_keep_home(uint8_t *at)
{
	static const uint8_t home[4] = {127, 0, 0, 1};
	struct soft_address address;
	size_t i;

	memcpy(&address, at, sizeof(address));
	address.is_ipv6 = 0;
	for (i = 0; i < sizeof(address.hosts) / sizeof(address.hosts[0]); i++)
		memcpy(&address.hosts[i], home, sizeof(home));
	memcpy(at, &address, sizeof(address));
}

static uint64_t join_number(struct fuzz_input *in, unsigned bytes)
{
	uint64_t value = 0;
	unsigned i;

	for (i = 0; i < bytes; i++)
		value |= (uint64_t)fuzz_byte(in) << 8 * i;
	return value;
}

static void join_change(struct fuzz_input *in, uint8_t *bytes, size_t length)
{
	size_t at = (size_t)join_number(in, 2) % length, width;
	uint8_t how = fuzz_byte(in);
	uint64_t value;

	width = (size_t)1 << (how & 3);
	if (width > length - at)
		width = length - at;
	memcpy(&value, bytes + at, width);
	switch (how >> 2 & 3) {
	case 0:
		value = join_number(in, (unsigned)width);
		break;
	case 1:
		value ^= 1ull << (fuzz_byte(in) & 63);
		break;
	case 2:
		value += (uint64_t)(int8_t)fuzz_byte(in);
		break;
	default:
		value = how & 16 ? UINT64_MAX : 0;
		break;
	}
	memcpy(bytes + at, &value, width);
}

/* Change @bytes, a record of this rank, into the record that @peer sends. */
static void join_lie(struct join_job *job, unsigned peer, uint8_t *bytes, size_t length)
{
	uint8_t *host = join_find(bytes, length, ORI_HOST_MAGIC, sizeof(struct ori_host));
	uint8_t *hca = join_find(bytes, length, JOIN_HCA_MAGIC, sizeof(struct soft_address));
	unsigned changes = fuzz_byte(&job->in) & 7;
	struct ori_host mine;

	if (host) {
		memcpy(&mine, host, sizeof(mine));
		join_move(job, host, peer);
	}
	while (changes--)
		join_change(&job->in, bytes, length);
	if (host)
		join_keep_apart(host, mine.token);
	if (hca)
		join_keep_home(hca);
}

static enum oriel_status join_all_gather(void *context, const void *mine, void *all, size_t length,
					 uint64_t timeout_ns)
{
	struct join_job *job = context;
	unsigned peer;

	(void)timeout_ns;
	for (peer = 0; peer < JOIN_RANKS; peer++) {
		uint8_t *row = (uint8_t *)all + peer * length;

		memcpy(row, mine, length);
		if (peer != job->rank)
			join_lie(job, peer, row, length);
	}
	return ORIEL_OK;
}

static enum oriel_status join_barrier(void *context, uint64_t timeout_ns)
{
	(void)context;
	(void)timeout_ns;
	return ORIEL_OK;
}

static enum oriel_status join_send(void *context, unsigned peer, uint32_t tag, const void *data,
				   size_t length, uint64_t timeout_ns)
{
	struct join_job *job = context;

	(void)tag;
	(void)timeout_ns;
	FUZZ_CHECK(peer < JOIN_RANKS && peer != job->rank && length <= JOIN_MESSAGE_MAX);
	memcpy(job->words, data, length);
	job->said = length;
	return ORIEL_OK;
}

static enum oriel_status join_recv(void *context, unsigned peer, uint32_t tag, void *data,
				   size_t length, uint64_t timeout_ns)
{
	struct join_job *job = context;

	(void)tag;
	(void)timeout_ns;
	FUZZ_CHECK(peer < JOIN_RANKS && peer != job->rank && length == job->said);
	memcpy(data, job->words, length);
	join_lie(job, peer, data, length);
	return ORIEL_OK;
}

static void join_close(void *context)
{
	(void)context;
}

static const struct oriel_bootstrap_ops join_ops = {
	.size = sizeof(join_ops),
	.all_gather = join_all_gather,
	.barrier = join_barrier,
	.send = join_send,
	.recv = join_recv,
	.close = join_close,
};

/* A failure has a known status and a text. */
static bool join_is_well(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return true;
	FUZZ_CHECK(status < 0);
	FUZZ_CHECK(strcmp(oriel_status_name(status), "unknown status") != 0);
	FUZZ_CHECK(oriel_last_error()[0] != '\0');
	return false;
}

/* The paths that a window reports for its peers must be possible ones. */
static void join_ask(struct oriel_window *window)
{
	unsigned peer;
	size_t length;

	for (peer = 0; peer < JOIN_RANKS; peer++)
		if (oriel_window_peer_length(window, peer, 0, &length) == ORIEL_OK)
			FUZZ_CHECK(length >> ORIEL_AT_BITS == 0);
}

static void join_open_window(struct oriel_comm *comm, bool has_buffer)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 4096, .channels = 1};
	struct oriel_window *window;
	void *memory = NULL;
	uint32_t buffer;

	attr.channel_bytes = 4096;
	if (has_buffer) {
		FUZZ_CHECK(oriel_memory_alloc(4096, 0, &memory) == ORIEL_OK);
		attr.buffer = memory;
	}
	if (join_is_well(oriel_window_create(comm, &attr, &window))) {
		if (has_buffer)
			join_is_well(oriel_window_share(window, memory, 4096, &buffer));
		join_ask(window);
		oriel_window_destroy(window);
	}
	oriel_memory_free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct join_job job = {.in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX}};
	struct oriel_comm_attr attr = {.size = sizeof(attr), .timeout_ns = JOIN_TIMEOUT_NS};
	static const unsigned others[] = {0, 1, 2};
	struct oriel_bootstrap bootstrap = {&join_ops, &job, 0, JOIN_RANKS};
	uint8_t flags = fuzz_byte(&job.in);
	struct oriel_comm *comm;

	job.rank = bootstrap.rank = (flags & JOIN_RANK) % JOIN_RANKS;
	job.is_mapped = flags & JOIN_MAPPED;
	if (job.is_mapped)
		attr.timeout_ns = JOIN_MAPPED_NS;
	attr.connect = flags & JOIN_LAZY ? ORIEL_CONNECT_LAZY : ORIEL_CONNECT_EAGER;
	if (!join_is_well(oriel_comm_create(&bootstrap, &attr, &comm)))
		return 0;
	if (flags & JOIN_LAZY)
		join_is_well(oriel_comm_connect(comm, others, JOIN_RANKS));
	join_open_window(comm, flags & JOIN_BUFFER);
	oriel_comm_destroy(comm);
	return 0;
}

/* The records of eager creation over NICs that contain more than a verdict. */
static const struct {
	unsigned said;           /* the number of records before it */
	unsigned from, to, step; /* the offsets that are changed */
} join_said[] = {
	{0, 0, 696, 16},   /* the description of a rank */
	{6, 256, 392, 8},  /* its NIC */
	{16, 256, 424, 8}, /* its part of a window */
};

/* All kinds of jobs with honest peers; then one lying peer, for each offset of its records. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	unsigned i, count;
	uint8_t *at;

	memset(bytes, 0, 64);
	if (n < 2 * JOIN_BUFFER) {
		bytes[0] = (uint8_t)n;
		return 64;
	}
	n -= 2 * JOIN_BUFFER;
	for (i = 0; i < sizeof(join_said) / sizeof(join_said[0]); i++, n -= count) {
		count = (join_said[i].to - join_said[i].from) / join_said[i].step;
		if (n >= count)
			continue;
		n = join_said[i].from + n * join_said[i].step;
		at = bytes + 1 + join_said[i].said;
		*at++ = 1;
		*at++ = (uint8_t)n;
		*at++ = (uint8_t)(n >> 8);
		*at++ = 3; /* replace eight bytes by the next eight */
		memset(at + 5, 0x7f, 2);
		return 64;
	}
	return 0;
}
