/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The p2p context: settings, listeners, the NICs. Users create it, the cache of a
 * communicator creates its own; endpoints call the rest.
 */
#include "p2p/p2p_context.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/config.h"
#include "base/error.h"
#include "base/job_key.h"
#include "base/log.h"
#include "net/endpoint.h"
#include "p2p/p2p.h"
#include "p2p/p2p_host.h"
#include "sys/process.h"

#define CONTEXT_CHUNK (128u << 10)
#define CONTEXT_SLOTS 128u
#define CONTEXT_SLOTS_MAX 32768u
#define CONTEXT_SHARED 8u /* slots that no endpoint may keep for itself */

#define CONTEXT_FLAGS ((unsigned)(ORIEL_P2P_GPU | ORIEL_P2P_GPU_SLOTS))
#define CONTEXT_PATHS (1u << ORIEL_PATH_MAPPED | 1u << ORIEL_PATH_RDMA)

static enum oriel_status context_paths(unsigned asked, uint32_t *paths)
{
	unsigned allowed;
	enum oriel_status status = ori_setting_paths(&allowed);

	if (status != ORIEL_OK)
		return status;
	/*
	 * Both endpoints choose from the paths in their addresses, so a path that this process
	 * has no NIC for must not be among them.
	 */
	if (strcmp(ori_setting_text(ORI_SETTING_HCA), "none") == 0)
		allowed &= ~(1u << ORIEL_PATH_RDMA);
	if (asked & ~(CONTEXT_PATHS | 1u << ORIEL_PATH_SELF))
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_context_attr.paths is 0x%x", asked);
	/* An endpoint that is its own peer needs neither shared memory nor a NIC. */
	allowed |= 1u << ORIEL_PATH_SELF;
	*paths = asked ? allowed & asked : allowed;
	if (!*paths)
		return ori_fail(ORIEL_ERR_CONFIG,
				"ORIEL_PATHS and ORIEL_HCA allow none of the paths asked for");
	return ORIEL_OK;
}

/*
 * A TCP port is open to every process on the network, so it is opened only where the key
 * of the job guards it, or on request.
 */
static bool context_wants_tcp(const struct oriel_p2p_context *ctx)
{
	const char *word = ori_setting_text(ORI_SETTING_P2P_TCP);

	if (!(ctx->paths & 1u << ORIEL_PATH_RDMA))
		return false;
	return strcmp(word, "on") == 0 || (strcmp(word, "auto") == 0 && ctx->tls);
}

static enum oriel_status context_read_key(struct oriel_p2p_context *ctx)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_key key = {0};

	/* Endpoints of other paths use no TCP. */
	if (!(ctx->paths & 1u << ORIEL_PATH_RDMA))
		return ORIEL_OK;
	if (ctx->listeners.key)
		key = *ctx->listeners.key;
	else
		status = ori_key_read(&key);
	if (status == ORIEL_OK && key.length)
		status = ori_tls_context_create(&key, &ctx->tls);
	/* TLS has derived its own key from it, and no copy of the secret stays here. */
	explicit_bzero(&key, sizeof(key));
	return status;
}

/* A context without a communicator does. In a job rank 0 warns, as the others join. */
static void context_warn_of_no_key(const struct oriel_p2p_context *ctx)
{
	static atomic_flag is_warned = ATOMIC_FLAG_INIT;
	struct ori_address at = {0};
	char text[ORI_ENDPOINT_LENGTH];

	if (ctx->tls || ori_endpoint_local(ctx->listeners.tcp, &at) != ORIEL_OK ||
	    ori_endpoint_is_loopback(&at) ||
	    atomic_flag_test_and_set_explicit(&is_warned, memory_order_relaxed))
		return;
	ori_log(ORIEL_LOG_WARN,
		"a p2p context has no key and listens at %s, since ORIEL_P2P_TCP is 'on': any "
		"process that reaches the port can connect, and bytes travel as they "
		"are; " ORI_JOB_KEY_HOW "; ORIEL_JOB_KEY=required forbids contexts without a key",
		ori_endpoint_text(&at, text));
}

static enum oriel_status context_listen(struct oriel_p2p_context *ctx)
{
	struct p2p_listeners *listeners = &ctx->listeners;
	enum oriel_status status = ori_random(listeners->token, sizeof(listeners->token));

	/* No context dials endpoints whose transport is the caller's. */
	if (status == ORIEL_OK && p2p_has_transport(ctx))
		return ORIEL_OK;
	if (status == ORIEL_OK)
		status = ori_fdsock_listen(listeners->name, &listeners->local);
	if (status == ORIEL_OK && context_wants_tcp(ctx))
		status = ori_endpoint_listen_all(&listeners->hosts, &listeners->port,
						 &listeners->tcp);
	if (status == ORIEL_OK && listeners->tcp >= 0)
		context_warn_of_no_key(ctx);
	return status;
}

/* On failure, too, the listeners have the sockets, so that the context closes them. */
static enum oriel_status context_open_listeners(struct oriel_p2p_context *ctx)
{
	enum oriel_status status = ORIEL_OK;

	/*
	 * A communicator's sockets listen since it was created: peers may wait in their backlog.
	 */
	if (ctx->listeners.local < 0)
		status = context_listen(ctx);
	ctx->local.fd = ctx->listeners.local;
	ctx->tcp.fd = ctx->listeners.tcp;
	ctx->tcp.context = ctx->tls;
	if (status == ORIEL_OK && ctx->local.fd >= 0)
		status = ori_net_listener_open(&ctx->local, ctx->local.fd);
	if (status == ORIEL_OK && ctx->tcp.fd >= 0)
		status = ori_net_listener_open(&ctx->tcp, ctx->tcp.fd);
	return status;
}

static enum oriel_status context_describe(struct oriel_p2p_context *ctx)
{
	struct p2p_host host;
	enum oriel_status status = ori_p2p_host(&host);
	uint64_t rails;

	if (status == ORIEL_OK)
		status = ori_setting_unsigned(ORI_SETTING_RAILS, ORIEL_DEV_RAILS, &rails);
	if (status != ORIEL_OK)
		return status;
	if (ctx->lent)
		rails = ori_rdma_rails(ctx->lent);
	ctx->address = (struct p2p_address){
		.magic = P2P_ADDRESS_MAGIC,
		.version = P2P_VERSION,
		.paths = ctx->paths,
		.uid = host.uid,
		.kernel = host.kernel,
		.process = host.process,
		.pid = host.pid,
		.port = ctx->listeners.port,
		.node = host.node,
		.hosts = ctx->listeners.hosts,
		.rails = (uint32_t)rails,
	};
	memcpy(ctx->address.token.context, ctx->listeners.token, sizeof(ctx->listeners.token));
	memcpy(ctx->address.listener, ctx->listeners.name, ORI_FDSOCK_NAME);
	return ORIEL_OK;
}

static enum oriel_status context_open(struct oriel_p2p_context *ctx,
				      const struct oriel_p2p_context_attr *attr,
				      const struct ori_gpu *gpu)
{
	size_t chunk = attr->chunk ? attr->chunk : CONTEXT_CHUNK;
	unsigned slots = attr->slots ? attr->slots : CONTEXT_SLOTS;
	bool has_gpu_slots = attr->flags & ORIEL_P2P_GPU_SLOTS;
	enum oriel_status status;

	if (chunk < P2P_CHUNK_MIN || chunk > P2P_CHUNK_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "staging slots of %zu bytes, not %u to %u", chunk,
				P2P_CHUNK_MIN, P2P_CHUNK_MAX);
	if (slots <= CONTEXT_SHARED || slots > CONTEXT_SLOTS_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "%u staging slots, not %u to %u", slots,
				CONTEXT_SHARED + 1, CONTEXT_SLOTS_MAX);
	if (attr->flags & ~CONTEXT_FLAGS)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_context_attr.flags is 0x%x",
				attr->flags);
	if (has_gpu_slots && !(attr->flags & ORIEL_P2P_GPU))
		return ori_fail(ORIEL_ERR_INVALID, "ORIEL_P2P_GPU_SLOTS needs ORIEL_P2P_GPU");
	/*
	 * The order below matters: listeners hand TLS to their connections, the address has the
	 * port of a listener, and slots may lie on the GPU.
	 */
	ctx->timeout_ns = attr->timeout_ns;
	status = attr->timeout_ns ? ORIEL_OK : ori_setting_timeout(&ctx->timeout_ns);
	if (status == ORIEL_OK)
		status = oriel_settings_check();
	if (status == ORIEL_OK)
		status = ori_transport_read(attr, &ctx->transport);
	ctx->transport_context = attr->transport_context;
	if (status == ORIEL_OK)
		status = context_paths(attr->paths, &ctx->paths);
	if (p2p_has_transport(ctx))
		ctx->paths = P2P_PATHS_TRANSPORT;
	if (status == ORIEL_OK)
		status = context_read_key(ctx);
	if (status == ORIEL_OK)
		status = context_open_listeners(ctx);
	if (status == ORIEL_OK)
		status = context_describe(ctx);
	if (status == ORIEL_OK)
		status = ori_mr_refs_open(ctx);
	if (status == ORIEL_OK && (gpu || attr->flags & ORIEL_P2P_GPU))
		status = ori_p2p_context_open_gpu(ctx, gpu);
	if (status == ORIEL_OK)
		status = ori_pool_open(&ctx->pool, chunk, slots, has_gpu_slots ? &ctx->gpu : NULL);
	if (status == ORIEL_OK && p2p_has_transport(ctx)) {
		status = ori_transport_register(ctx, ctx->pool.area.base, ctx->pool.area.length,
						&ctx->pool_target);
		ctx->has_pool_target = status == ORIEL_OK;
	}
	return status == ORIEL_OK ? ori_p2p_context_pin(ctx, &ctx->pool.area) : status;
}

void ori_p2p_context_close(struct oriel_p2p_context *ctx)
{
	/*
	 * A creation that failed half-way ends here as well, so each step accepts a part that was
	 * never opened. No lock is needed: the owner has destroyed all endpoints. Memory is freed
	 * only when neither the NICs nor the GPU know it any more, and TLS after its connections.
	 */
	ori_mr_refs_close(ctx);
	ori_memory_stop(ctx);
	for (unsigned i = 0; i < ctx->pending_count; i++)
		ori_net_pending_free(ctx->pending[i].net);
	/* All slots have been given back. */
	assert(ori_pool_free(&ctx->pool.receives) == ctx->pool.receive);
	assert(ori_pool_free(&ctx->pool.sends) == ctx->pool.slots - ctx->pool.receive);
	ori_p2p_context_unregister(ctx, &ctx->pool.area);
	if (ctx->has_pool_target)
		ori_transport_unregister(ctx, &ctx->pool_target);
	ori_rdma_close(ctx->rdma);
	ori_rdma_close(ctx->lent);
	ori_p2p_context_unpin(ctx, &ctx->pool.area);
	if (ctx->pool.area.mem)
		ori_pool_close(&ctx->pool);
	ori_gpu_close(&ctx->gpu);
	ori_net_listener_close(&ctx->local);
	ori_net_listener_close(&ctx->tcp);
	ori_tls_context_destroy(ctx->tls);
	pthread_cond_destroy(&ctx->wake);
	pthread_mutex_destroy(&ctx->lock);
	ori_handle_free(ctx);
}

static const struct p2p_listeners context_no_listeners = {.local = -1, .tcp = -1};

enum oriel_status ori_p2p_context_create_at(const struct oriel_p2p_context_attr *attr,
					    const struct p2p_listeners *listeners,
					    const struct ori_gpu *gpu, struct ori_rdma *rdma,
					    struct oriel_p2p_context **out)
{
	struct oriel_p2p_context *ctx = ori_handle_alloc(ORI_HANDLE_P2P_CONTEXT, sizeof(*ctx));
	enum oriel_status status;

	if (!ctx)
		return ori_fail_nomem(sizeof(*ctx), "a p2p context");
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_cond_init(&ctx->wake, NULL);
	ctx->listeners = *listeners;
	ori_net_listener_init(&ctx->local, NULL, P2P_PENDING_MAX, NULL);
	ori_net_listener_init(&ctx->tcp, NULL, P2P_PENDING_MAX, NULL);
	ctx->lent = rdma ? ori_rdma_ref(rdma) : NULL;
	ctx->waiting_last = &ctx->waiting;
	/* Lower numbers are those of endpoints that a communicator keeps. */
	atomic_init(&ctx->number, P2P_UNCACHED);
	status = context_open(ctx, attr, gpu);
	if (status != ORIEL_OK) {
		/* After a failure the listeners are still the caller's. */
		if (listeners->local >= 0)
			ctx->local.fd = ctx->tcp.fd = -1;
		ori_p2p_context_close(ctx);
		return status;
	}
	ori_handle_open(ctx, NULL);
	*out = ctx;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_context_create(const struct oriel_p2p_context_attr *caller,
					   struct oriel_p2p_context **out)
{
	struct oriel_p2p_context_attr attr;
	enum oriel_status status;

	if (!out)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_context_create: ctx is NULL");
	status = ori_attr_read("oriel_p2p_context_attr", caller, &attr, sizeof(attr));
	if (status == ORIEL_OK)
		status = ori_attr_check_reserved("oriel_p2p_context_attr.reserved", attr.reserved);
	if (status == ORIEL_OK)
		status = ori_p2p_context_create_at(&attr, &context_no_listeners, NULL, NULL, out);
	return status;
}

static bool context_has_memory_locked(const struct oriel_p2p_context *ctx)
{
	const struct oriel_p2p_memory *m = ctx->memories;

	/*
	 * References of transfers do not count: the context's cache keeps some of them while it
	 * lives.
	 */
	while (m && m->use != ORI_RDMA_TARGET)
		m = m->next;
	return m || ctx->waiting || ctx->working;
}

const char *ori_p2p_context_child(struct oriel_p2p_context *ctx)
{
	bool has_memory;

	pthread_mutex_lock(&ctx->lock);
	has_memory = context_has_memory_locked(ctx);
	pthread_mutex_unlock(&ctx->lock);
	return has_memory ? "registered memory" : ori_handle_child(ctx);
}

enum oriel_status oriel_p2p_context_destroy(struct oriel_p2p_context *ctx)
{
	const char *child;
	bool has_endpoints;

	if (!ori_handle_may_end(ctx, ORI_HANDLE_P2P_CONTEXT, __func__))
		return ori_handle_refused(ctx);
	if (ctx->has_owner)
		return ori_misuse("oriel_p2p_context_destroy: the context belongs to its "
				  "communicator; destroy that one");
	/* Another thread may destroy the last endpoint as soon as the lock is released. */
	pthread_mutex_lock(&ctx->lock);
	has_endpoints = ctx->endpoints;
	pthread_mutex_unlock(&ctx->lock);
	child = has_endpoints ? "endpoints" : ori_p2p_context_child(ctx);
	if (child)
		return ori_misuse("oriel_p2p_context_destroy: the context still has its %s", child);
	if (!ori_handle_shut(ctx, ORI_HANDLE_P2P_CONTEXT, __func__))
		return ori_handle_refused(ctx);
	ori_p2p_context_close(ctx);
	return ORIEL_OK;
}

enum oriel_status ori_p2p_context_register(struct oriel_p2p_context *ctx, struct p2p_area *area)
{
	struct oriel_dev_keys rkeys;
	enum oriel_status status = area->mem->gpu ? ori_p2p_context_check_flush(ctx) : ORIEL_OK;
	uint64_t address;

	if (status == ORIEL_OK)
		status = ori_rdma_register(ctx->rdma, area->base, area->length, ORI_RDMA_TARGET,
					   &area->mr, &rkeys);
	if (status != ORIEL_OK)
		return status;
	area->rkeys = rkeys;
	ori_rdma_mr_local(area->mr, &address, &area->lkeys);
	/*
	 * Areas are whole pages that nothing else registers, so that endpoints name a byte of
	 * them by its offset alone.
	 */
	assert(address == 0);
	return ORIEL_OK;
}

void ori_p2p_context_unregister(struct oriel_p2p_context *ctx, struct p2p_area *area)
{
	if (area->mr)
		ori_rdma_unregister(ctx->rdma, area->mr);
	area->mr = NULL;
}

static enum oriel_status context_open_rdma_locked(struct oriel_p2p_context *ctx)
{
	const struct ori_rdma_attr attr = {.rails = ctx->address.rails,
					   .gpu = ctx->gpu.ops ? &ctx->gpu : NULL};
	enum oriel_status status = ORIEL_OK;

	if (ctx->lent)
		ctx->rdma = ori_rdma_ref(ctx->lent);
	else
		status = ori_rdma_open(&attr, &ctx->rdma);
	if (status == ORIEL_OK)
		/*
		 * All endpoints share the pool, so it is registered with the NICs and not with a
		 * link.
		 */
		status = ori_p2p_context_register(ctx, &ctx->pool.area);
	if (status == ORIEL_OK) {
		/*
		 * No endpoint has needed the keys of these regions: its link is opened after
		 * this.
		 */
		ori_memory_register_all_locked(ctx);
		return ORIEL_OK;
	}
	ori_rdma_close(ctx->rdma);
	ctx->rdma = NULL;
	return status;
}

enum oriel_status ori_p2p_context_need_rdma(struct oriel_p2p_context *ctx)
{
	enum oriel_status status = ORIEL_OK;

	pthread_mutex_lock(&ctx->lock);
	if (!ctx->rdma)
		/*
		 * The lock is held although NICs take long to open: other endpoints must not open
		 * them twice, and a region that is registered meanwhile must not miss them.
		 */
		status = context_open_rdma_locked(ctx);
	pthread_mutex_unlock(&ctx->lock);
	return status;
}

void ori_p2p_context_add(struct oriel_p2p_context *ctx, struct oriel_p2p *p2p)
{
	pthread_mutex_lock(&ctx->lock);
	/*
	 * Threads of other endpoints walk this list, when they look for a clash of a
	 * communicator's modes.
	 */
	p2p->next = ctx->endpoints;
	ctx->endpoints = p2p;
	pthread_mutex_unlock(&ctx->lock);
}

void ori_p2p_context_remove(struct oriel_p2p_context *ctx, struct oriel_p2p *p2p)
{
	struct oriel_p2p **at = &ctx->endpoints;

	pthread_mutex_lock(&ctx->lock);
	while (*at != p2p)
		at = &(*at)->next;
	*at = p2p->next;
	pthread_mutex_unlock(&ctx->lock);
}

enum oriel_status ori_p2p_context_take_spare(struct oriel_p2p_context *ctx, int *slot)
{
	unsigned spares;
	bool has_room;
	int taken = -1;

	pthread_mutex_lock(&ctx->lock);
	/*
	 * The invariant is spares <= receive - CONTEXT_SHARED: transfers of all endpoints always
	 * have slots to share, however many endpoints keep one.
	 */
	spares = ctx->spares;
	has_room = spares + CONTEXT_SHARED < ctx->pool.receive;
	if (has_room)
		taken = ori_pool_take(&ctx->pool, &ctx->pool.receives, 0);
	ctx->spares += taken >= 0;
	pthread_mutex_unlock(&ctx->lock);
	if (!has_room)
		return ori_fail(
			ORIEL_ERR_NOMEM,
			"%u staging slots to receive in are too few for endpoint %u of this "
			"context: raise oriel_p2p_context_attr.slots",
			ctx->pool.receive, spares + 1);
	if (taken < 0)
		return ori_fail(
			ORIEL_ERR_NOMEM,
			"transfers hold all %u staging slots to receive in: create the "
			"endpoint when some are done, or raise oriel_p2p_context_attr.slots",
			ctx->pool.receive);
	*slot = taken;
	return ORIEL_OK;
}

void ori_p2p_context_give_spare(struct oriel_p2p_context *ctx, int slot)
{
	pthread_mutex_lock(&ctx->lock);
	ori_pool_give(&ctx->pool, &ctx->pool.receives, slot);
	ctx->spares--;
	pthread_mutex_unlock(&ctx->lock);
}
