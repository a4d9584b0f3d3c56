/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP bootstrap: its ops table over join, tree and messages. env.c opens it for a job of the
 * environment, tests open it for jobs of threads.
 */
#include "bootstrap/tcp.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/handle.h"
#include "base/secret.h"
#include "bootstrap/join.h"
#include "bootstrap/message.h"

struct tcp {
	struct tcp *next; /* in tcp_only */
	uint64_t stamp;   /* ori_handle_stamp of the opening process; differs in its children */
	uint16_t port;    /* of rank 0 */
	struct ori_address local; /* the unix socket of rank 0; family 0: none */
	bool is_only;
	struct ori_credentials own; /* without the key */
	struct ori_key *key;        /* secret memory */
	struct ori_traffic traffic;
	struct ori_listener listener;
	struct ori_tree tree;
	struct ori_message_service service;
};

/* The open bootstraps that exclude a second one of the same rank at the same port. */
static pthread_mutex_t tcp_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tcp *tcp_only;

/*
 * Rank 0 has one listener at the port, so a second job at the port would have no root. Each rank
 * finds that by its own list, at once, without waiting for other ranks.
 */
static enum oriel_status tcp_enlist(struct tcp *tcp)
{
	static const struct ori_fork_hook hook = {.lock = &tcp_lock};
	struct tcp *other;

	if (!tcp->is_only)
		return ORIEL_OK;
	ori_fork_add(ORI_FORK_TCP, &hook);
	pthread_mutex_lock(&tcp_lock);
	for (other = tcp_only; other; other = other->next)
		if (other->stamp == tcp->stamp && other->port == tcp->port &&
		    memcmp(&other->local, &tcp->local, sizeof(tcp->local)) == 0 &&
		    other->tree.rank == tcp->tree.rank)
			break;
	if (!other) {
		tcp->next = tcp_only;
		tcp_only = tcp;
	}
	pthread_mutex_unlock(&tcp_lock);
	if (!other)
		return ORIEL_OK;
	tcp->is_only = false; /* it is not in the list */
	return ori_fail(ORIEL_ERR_STATE,
			"this process has a bootstrap open as rank %u of the job at port %u: close "
			"that first, or give this one a port of its own (ORIEL_PORT)",
			tcp->tree.rank, tcp->port);
}

static void tcp_delist(const struct tcp *tcp)
{
	struct tcp **at;

	if (!tcp->is_only)
		return;
	pthread_mutex_lock(&tcp_lock);
	for (at = &tcp_only; *at != tcp; at = &(*at)->next)
		;
	*at = tcp->next;
	pthread_mutex_unlock(&tcp_lock);
}

/* The sockets of a child are closed, so a call there would wait for ever or fail late. */
static enum oriel_status tcp_check(const struct tcp *tcp)
{
	return ori_handle_check_stamp(tcp->stamp, "bootstrap");
}

static enum oriel_status tcp_barrier(void *context, uint64_t timeout_ns)
{
	struct tcp *tcp = context;
	enum oriel_status status = tcp_check(tcp);
	char nothing;

	if (status != ORIEL_OK)
		return status;
	return ori_tree_exchange(&tcp->tree, &nothing, 0, 0, timeout_ns);
}

static enum oriel_status tcp_all_gather(void *context, const void *mine, void *all, size_t length,
					uint64_t timeout_ns)
{
	struct tcp *tcp = context;
	enum oriel_status status = tcp_check(tcp);

	if (status != ORIEL_OK)
		return status;
	if (length > SIZE_MAX / 2 / tcp->tree.size)
		return ori_fail(ORIEL_ERR_RANGE, "all_gather of %zu bytes by %u ranks", length,
				tcp->tree.size);
	if (length == 0)
		return tcp_barrier(context, timeout_ns);
	memcpy((char *)all + tcp->tree.rank * length, mine, length);
	return ori_tree_exchange(&tcp->tree, all, length, tcp->tree.size * length, timeout_ns);
}

static enum oriel_status tcp_send(void *context, unsigned peer, uint32_t tag, const void *data,
				  size_t length, uint64_t timeout_ns)
{
	struct tcp *tcp = context;
	enum oriel_status status = tcp_check(tcp);

	if (status != ORIEL_OK)
		return status;
	return ori_message_send(&tcp->service, peer, tag, data, length, timeout_ns);
}

static enum oriel_status tcp_recv(void *context, unsigned peer, uint32_t tag, void *data,
				  size_t length, uint64_t timeout_ns)
{
	struct tcp *tcp = context;
	enum oriel_status status = tcp_check(tcp);

	if (status != ORIEL_OK)
		return status;
	return ori_message_recv(&tcp->service, peer, tag, data, length, timeout_ns);
}

static void tcp_interrupt(void *context)
{
	struct tcp *tcp = context;

	if (tcp->stamp == ori_handle_stamp)
		ori_listener_interrupt(&tcp->listener);
}

static unsigned tcp_at_fault(void *context)
{
	const struct tcp *tcp = context;

	return ori_tree_at_fault(&tcp->tree);
}

static void tcp_close(void *context)
{
	struct tcp *tcp = context;

	ori_tree_beat_end(&tcp->tree, tcp->stamp != ori_handle_stamp);
	ori_message_close(&tcp->service);
	ori_tree_close(&tcp->tree);
	ori_listener_close(&tcp->listener);
	ori_tls_context_destroy(tcp->own.tls);
	tcp_delist(tcp); /* the port is free again */
	ori_secret_free(tcp->key, sizeof(*tcp->key));
	free(tcp);
}

static const struct oriel_bootstrap_ops tcp_ops = {
	.size = sizeof(tcp_ops),
	.all_gather = tcp_all_gather,
	.barrier = tcp_barrier,
	.send = tcp_send,
	.recv = tcp_recv,
	.close = tcp_close,
	.interrupt = tcp_interrupt,
	.at_fault = tcp_at_fault,
};

/* Rank 0 sends its table of addresses to all ranks, once all links of the tree are connected. */
static enum oriel_status tcp_share_addresses(struct tcp *tcp, struct ori_address *addresses,
					     uint64_t deadline)
{
	size_t length = (size_t)tcp->tree.size * ORI_ADDRESS_LENGTH;
	unsigned char *table = calloc(1, length);
	uint64_t now = ori_clock_ns();
	enum oriel_status status;
	unsigned i;

	if (!table)
		return ori_tree_break(&tcp->tree, ORIEL_ERR_NOMEM, tcp->tree.rank,
				      "rank %u has no memory for %zu bytes of %u addresses",
				      tcp->tree.rank, length, tcp->tree.size);
	for (i = 0; i < tcp->tree.size; i++)
		ori_address_encode(&addresses[i], table + i * ORI_ADDRESS_LENGTH);
	status = ori_tree_exchange(&tcp->tree, table, 0, length,
				   deadline == ORIEL_TIMEOUT_INFINITE ? ORIEL_TIMEOUT_INFINITE
				   : deadline > now                   ? deadline - now
								      : 1);
	for (i = 0; i < tcp->tree.size && status == ORIEL_OK; i++)
		if (!ori_address_parse(table + i * ORI_ADDRESS_LENGTH, ORI_ADDRESS_LENGTH,
				       &addresses[i]))
			status = ori_tree_break(&tcp->tree, ORIEL_ERR_PROTOCOL, 0,
						"rank 0 gave rank %u of %u no address", i,
						tcp->tree.size);
	free(table);
	return status;
}

static enum oriel_status tcp_join(struct tcp *tcp, const struct ori_tcp_job *job,
				  struct ori_address *addresses)
{
	struct ori_join join = {
		.job = job,
		.deadline = ori_deadline(job->timeout_ns),
		.listener = &tcp->listener,
		.tree = &tcp->tree,
		.addresses = addresses,
		.key = tcp->key,
		.tls = &tcp->own.tls,
		.limit_ns = job->timeout_ns,
	};
	struct ori_address root = {0};
	enum oriel_status status;

	tcp->listener.abort_fd = job->abort_fd;
	status = job->rank == 0 ? ori_join_root(&join) : ori_join_member(&join, &root);
	tcp->listener.abort_fd = NULL;
	if (status == ORIEL_OK)
		status = ori_tree_beat(&tcp->tree);
	if (status == ORIEL_OK)
		status = tcp_share_addresses(tcp, addresses, join.deadline);
	/* Each rank uses the address by which it reached rank 0; rank 0 does not know it. */
	addresses[0] = root;
	return status;
}

static struct tcp *tcp_new(const struct ori_tcp_job *job)
{
	struct tcp *tcp = calloc(1, sizeof(*tcp));

	if (tcp)
		tcp->key = ori_secret_alloc(sizeof(*tcp->key));
	if (!tcp || !tcp->key) {
		free(tcp);
		return NULL;
	}
	tcp->stamp = ori_handle_stamp;
	tcp->own = job->own;
	tcp->own.tls = NULL;
	*tcp->key = job->own.key;
	explicit_bzero(&tcp->own.key, sizeof(tcp->own.key));
	tcp->port = job->port;
	if (ori_tcp_job_is_local(job))
		tcp->local = job->addresses[0];
	tcp->is_only = job->is_only && job->size > 1;
	ori_listener_init(&tcp->listener, &tcp->own, job->size, &tcp->traffic);
	tcp->listener.rank = job->rank;
	if (job->size > 1)
		tcp->listener.net.fd = job->listen_fd;
	ori_tree_init(&tcp->tree, job->rank, job->size, &tcp->listener);
	return tcp;
}

static enum oriel_status tcp_start(struct tcp *tcp, const struct ori_tcp_job *job)
{
	struct ori_address *addresses = calloc(job->size, sizeof(*addresses));
	enum oriel_status status = tcp_enlist(tcp);

	if (status == ORIEL_OK && !addresses)
		status = ori_fail_nomem(job->size * sizeof(*addresses), "a job of %u ranks",
					job->size);
	if (status == ORIEL_OK)
		status = ori_listener_enable_interrupt(&tcp->listener);
	if (status == ORIEL_OK && job->size > 1 && tcp->key->length && !tcp->local.family)
		status = ori_tls_context_create(tcp->key, &tcp->own.tls);
	if (status == ORIEL_OK && tcp->own.tls && job->own.is_munged)
		status = ori_join_seal_key(tcp->key, tcp->own.tls);
	tcp->listener.net.context = tcp->own.tls;
	if (status == ORIEL_OK && job->size > 1)
		status = tcp_join(tcp, job, addresses);
	if (status == ORIEL_OK)
		status = ori_message_open(&tcp->service, &tcp->tree, &tcp->listener, addresses);
	if (status != ORIEL_OK)
		free(addresses);
	return status;
}

enum oriel_status ori_tcp_open(const struct ori_tcp_job *job, struct oriel_bootstrap *bootstrap)
{
	struct tcp *tcp = tcp_new(job);
	struct ori_error before;
	enum oriel_status status;

	if (!tcp) {
		if (job->listen_fd >= 0 && job->size > 1)
			close(job->listen_fd);
		return ori_fail_nomem(sizeof(*tcp), "a job of %u ranks", job->size);
	}
	ori_error_save(&before);
	/* Attempts that failed before one succeeded must not stay the last error. */
	status = ori_error_end(&before, tcp_start(tcp, job));
	if (status != ORIEL_OK) {
		tcp_close(tcp);
		return status;
	}
	*bootstrap = (struct oriel_bootstrap){
		.ops = &tcp_ops,
		.context = tcp,
		.rank = job->rank,
		.size = job->size,
	};
	return ORIEL_OK;
}

bool ori_tcp_is_local(const struct oriel_bootstrap *bootstrap)
{
	const struct tcp *tcp = bootstrap->context;

	return tcp->local.family != 0;
}

bool ori_tcp_is_own(const struct oriel_bootstrap *bootstrap)
{
	return bootstrap->ops == &tcp_ops;
}

const struct ori_key *ori_tcp_key(const struct oriel_bootstrap *bootstrap)
{
	const struct tcp *tcp = bootstrap->context;

	return tcp->key;
}

void ori_tcp_abort_by(const struct oriel_bootstrap *bootstrap, const int *abort_fd)
{
	struct tcp *tcp = bootstrap->context;

	tcp->listener.abort_fd = abort_fd;
}

enum oriel_status ori_tcp_check(const struct oriel_bootstrap *bootstrap)
{
	const struct tcp *tcp = bootstrap->context;

	return ori_listener_check(&tcp->listener);
}

const struct ori_traffic *ori_tcp_traffic(const struct oriel_bootstrap *bootstrap)
{
	const struct tcp *tcp = bootstrap->context;

	return &tcp->traffic;
}
