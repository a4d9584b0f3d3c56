/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoints that a communicator keeps, one for each rank and mode. All ranks know the
 * listeners of all since the communicator was made, and a connection waits at the listener
 * until the rank creates its endpoint, so no call waits here. Users call oriel_comm_p2p().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/health.h"
#include "comm/paths.h"
#include "p2p/p2p.h"
#include "p2p/p2p_host.h"

#define CACHE_CLASH_NS UINT64_C(10000000000)

struct ori_p2p_cache {
	struct oriel_p2p_context *ctx;
	struct oriel_p2p *of[]; /* [size * P2P_MODES] */
};

/*
 * All ranks have arrived, or none can use the endpoints any more: requests that are not
 * done are given up.
 */
static void cache_close(struct oriel_comm *comm, void *object)
{
	struct ori_p2p_cache *cache = object;

	for (unsigned i = 0; i < comm->size * P2P_MODES; i++)
		if (cache->of[i])
			(void)ori_p2p_close(cache->of[i], true);
	/* Endpoints use the slots and NICs of the context until they are closed. */
	(void)ori_handle_shut(cache->ctx, ORI_HANDLE_P2P_CONTEXT, __func__);
	ori_p2p_context_close(cache->ctx);
	free(cache);
}

static const char *cache_find_child(void *object)
{
	const struct ori_p2p_cache *cache = object;

	return ori_p2p_context_child(cache->ctx);
}

/* The lock lets threads that ask for endpoints at once create one context. */
static enum oriel_status cache_open_locked(struct oriel_comm *comm, struct ori_p2p_cache **out)
{
	struct ori_attached *attached = &comm->attached[ORI_ATTACHED_P2P];
	const struct oriel_p2p_context_attr attr = {.size = sizeof(attr),
						    .timeout_ns = comm->timeout_ns};
	const struct ori_listen_address *mine = &comm->listen_addresses[comm->rank];
	struct p2p_listeners listeners = {.local = comm->listener,
					  .tcp = comm->listener_tcp,
					  .port = (uint16_t)mine->port,
					  .hosts = mine->hosts,
					  .key = ori_comm_key(comm)};
	struct ori_p2p_cache *cache;
	enum oriel_status status;

	*out = attached->object;
	if (*out)
		return ORIEL_OK;
	cache = calloc(1, sizeof(*cache) + comm->size * P2P_MODES * sizeof(struct oriel_p2p *));
	if (!cache)
		return ori_fail_nomem(sizeof(*cache) +
					      comm->size * P2P_MODES * sizeof(struct oriel_p2p *),
				      "endpoints of %u ranks", comm->size);
	memcpy(listeners.name, mine->name, sizeof(listeners.name));
	memcpy(listeners.token, mine->name, sizeof(listeners.token));
	status = ori_p2p_context_create_at(&attr, &listeners, comm->gpu, comm->rdma, &cache->ctx);
	if (status != ORIEL_OK) {
		free(cache);
		return status;
	}
	/* The context closes the sockets from now on. */
	comm->listener = comm->listener_tcp = -1;
	cache->ctx->has_owner = true;
	attached->object = cache;
	attached->find_child = cache_find_child;
	attached->close = cache_close;
	*out = cache;
	return ORIEL_OK;
}

/*
 * Both ranks take the path that the communicator chose, so they agree on it. Memory of GPUs that do
 * not reach each other goes through staging slots of the host, but for zero_copy, which has none.
 */
static enum oriel_path cache_path(const struct oriel_comm *comm, unsigned peer,
				  enum oriel_p2p_mode mode)
{
	const struct ori_paths *paths =
		comm->gpu && mode == ORIEL_P2P_ZERO_COPY ? &comm->gpu_paths : &comm->host_paths;

	/* An NVLink fabric carries no descriptors. */
	return ori_comm_is_fabric_peer(comm, peer) ? ORIEL_PATH_RDMA
						   : (enum oriel_path)paths->of[peer].path;
}

/* The address of the endpoint of @mode that rank @at keeps for rank @of. */
static struct p2p_address cache_address(const struct oriel_comm *comm,
					const struct p2p_address *mine, unsigned at, unsigned of,
					enum oriel_p2p_mode mode)
{
	const struct ori_listen_address *listener = &comm->listen_addresses[at];
	struct p2p_host host = ori_p2p_host_of(&comm->hosts[at]);
	struct p2p_address a = *mine;

	a.paths = 1u << cache_path(comm, at == comm->rank ? of : at, mode);
	a.token.number = p2p_cached_number(of, mode);
	memcpy(a.token.context, listener->name, sizeof(a.token.context));
	memcpy(a.listener, listener->name, sizeof(a.listener));
	a.pid = host.pid;
	a.uid = host.uid;
	a.process = host.process;
	a.kernel = host.kernel;
	a.node = host.node;
	a.port = (uint16_t)listener->port;
	a.hosts = listener->hosts;
	return a;
}

static enum oriel_status cache_make_locked(struct oriel_comm *comm, struct ori_p2p_cache *cache,
					   unsigned peer, const struct oriel_p2p_attr *attr,
					   struct oriel_p2p **entry)
{
	struct p2p_address theirs;
	char process[P2P_NAME];
	struct oriel_p2p *p2p;
	enum oriel_status status = ori_p2p_open(cache->ctx, attr, 0, &p2p);

	if (status != ORIEL_OK)
		return status;
	p2p->address = cache_address(comm, &cache->ctx->address, comm->rank, peer, p2p->mode);
	theirs = cache_address(comm, &cache->ctx->address, peer, comm->rank, p2p->mode);
	status = ori_p2p_join(p2p, &theirs, 0);
	if (status != ORIEL_OK) {
		status = ori_fail(status, "rank %u: %s", peer, oriel_last_error());
		(void)ori_p2p_close(p2p, true);
		return status;
	}
	ori_p2p_name(&p2p->address, &theirs, process);
	snprintf(p2p->peer_name, sizeof(p2p->peer_name), "rank %u, %s", peer, process);
	/*
	 * Half of the timeout: this rank reports the clash while the other one still
	 * waits, so that both get it.
	 */
	p2p->control_socket.clash = ori_deadline(
		comm->timeout_ns / 2 < CACHE_CLASH_NS ? comm->timeout_ns / 2 : CACHE_CLASH_NS);
	p2p->has_owner = true;
	p2p->comm = comm;
	p2p->peer_rank = peer;
	*entry = p2p;
	return ORIEL_OK;
}

/* Does @p2p, of its mode, have the attributes of @attr? */
static enum oriel_status cache_compare(const struct oriel_p2p *p2p,
				       const struct oriel_p2p_attr *attr, unsigned peer)
{
	unsigned channels = attr->channels ? attr->channels : 1;
	unsigned queues = attr->queues ? attr->queues : 1;

	if (channels == p2p->whole && attr->chunk_slots == p2p->chunk_slots &&
	    (!attr->depth || attr->depth == p2p->depth) && queues == p2p->queues)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_MISMATCH,
			"oriel_comm_p2p: the endpoint of mode %s for rank %u has %u channels of "
			"%u slots, depth %u and %u queues, not %u of %u slots, depth %u and %u "
			"queues",
			oriel_p2p_mode_name(p2p->mode), peer, p2p->whole, p2p->chunk_slots,
			p2p->depth, p2p->queues, channels, attr->chunk_slots,
			attr->depth ? attr->depth : p2p->depth, queues);
}

static enum oriel_status cache_take_locked(struct oriel_comm *comm, unsigned peer,
					   const struct oriel_p2p_attr *caller,
					   struct oriel_p2p **p2p)
{
	struct ori_p2p_cache *cache;
	struct oriel_p2p_attr attr;
	struct oriel_p2p **entry;
	enum oriel_status status = ori_p2p_read_attr(caller, &attr);

	if (status == ORIEL_OK && attr.mode >= P2P_MODES)
		status = ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_attr.mode is %u", attr.mode);
	/* Such an endpoint would outlive its group, which ends before the context. */
	if (status == ORIEL_OK && attr.hooks &&
	    attr.hooks->pack == oriel_p2p_copy_group_hooks()->pack)
		status = ori_fail(ORIEL_ERR_INVALID,
				  "oriel_comm_p2p: hooks of a copy group, which serves an endpoint "
				  "of oriel_p2p_create()");
	if (status == ORIEL_OK)
		status = cache_open_locked(comm, &cache);
	if (status != ORIEL_OK)
		return status;
	entry = &cache->of[peer * P2P_MODES + attr.mode];
	status = *entry ? cache_compare(*entry, &attr, peer)
			: cache_make_locked(comm, cache, peer, caller, entry);
	if (status == ORIEL_OK)
		*p2p = *entry;
	return status;
}

enum oriel_status oriel_comm_p2p(struct oriel_comm *comm, unsigned peer,
				 const struct oriel_p2p_attr *attr, struct oriel_p2p **p2p)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!p2p)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_p2p: p2p is NULL");
	if (peer >= comm->size)
		return ori_fail(ORIEL_ERR_RANGE, "oriel_comm_p2p: rank %u of %u", peer, comm->size);
	status = ori_comm_check(comm);
	if (status != ORIEL_OK)
		return status;
	pthread_mutex_lock(&comm->attached[ORI_ATTACHED_P2P].lock);
	status = cache_take_locked(comm, peer, attr, p2p);
	pthread_mutex_unlock(&comm->attached[ORI_ATTACHED_P2P].lock);
	return status;
}

enum oriel_status oriel_comm_p2p_context(struct oriel_comm *comm, struct oriel_p2p_context **ctx)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_p2p_cache *cache;

	if (status != ORIEL_OK)
		return status;
	if (!ctx)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_p2p_context: ctx is NULL");
	status = ori_comm_check(comm);
	if (status != ORIEL_OK)
		return status;
	pthread_mutex_lock(&comm->attached[ORI_ATTACHED_P2P].lock);
	status = cache_open_locked(comm, &cache);
	if (status == ORIEL_OK)
		*ctx = cache->ctx;
	pthread_mutex_unlock(&comm->attached[ORI_ATTACHED_P2P].lock);
	return status;
}
