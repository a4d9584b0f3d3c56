/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The p2p context: settings, listeners, the HCA, and the connections of peers. Users create
 * it, the cache of a communicator creates its own; endpoints call the rest.
 */
#include "p2p/p2p_context.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "net/endpoint.h"
#include "p2p/p2p.h"
#include "p2p/p2p_host.h"
#include "sys/process.h"

#define CONTEXT_CHUNK (128u << 10)
#define CONTEXT_SLOTS 128u
#define CONTEXT_SLOTS_MAX 32768u
#define CONTEXT_PATIENCE_NS \
	UINT64_C(10000000000) /* with a process that connects over TCP and stays silent */
#define CONTEXT_SHARED 8u     /* slots that no endpoint may keep for itself */

#define CONTEXT_FLAGS ((unsigned)(ORIEL_P2P_GPU | ORIEL_P2P_GPU_SLOTS))
#define CONTEXT_PATHS (1u << ORIEL_PATH_MAPPED | 1u << ORIEL_PATH_RDMA)

static enum oriel_status context_paths(unsigned asked, uint32_t *paths)
{
	unsigned allowed;
	enum oriel_status status = ori_setting_paths(&allowed);

	if (status != ORIEL_OK)
		return status;
	if (strcmp(ori_setting_text(ORI_SETTING_HCA), "none") == 0)
		allowed &= ~(1u << ORIEL_PATH_RDMA);
	if (asked & ~(CONTEXT_PATHS | 1u << ORIEL_PATH_SELF))
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_context_attr.paths is 0x%x", asked);
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
	return strcmp(word, "on") == 0 || (strcmp(word, "auto") == 0 && ctx->key.length);
}

static enum oriel_status context_listen(struct oriel_p2p_context *ctx)
{
	struct p2p_listeners *listeners = &ctx->listeners;
	enum oriel_status status = ori_random(listeners->token, sizeof(listeners->token));

	if (status == ORIEL_OK)
		status = ori_fdsock_listen(listeners->name, &listeners->local);

	if (status == ORIEL_OK && context_wants_tcp(ctx))
		status = ori_endpoint_listen_all(&listeners->hosts, &listeners->port,
						 &listeners->tcp);
	return status;
}

static enum oriel_status context_describe(struct oriel_p2p_context *ctx)
{
	struct p2p_host host;
	enum oriel_status status = ori_p2p_host(&host);

	if (status != ORIEL_OK)
		return status;
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
	ctx->timeout_ns = attr->timeout_ns;
	status = attr->timeout_ns ? ORIEL_OK : ori_setting_timeout(&ctx->timeout_ns);
	if (status == ORIEL_OK)
		status = oriel_settings_check();
	if (status == ORIEL_OK)
		status = context_paths(attr->paths, &ctx->paths);
	ori_key_read(&ctx->key);
	if (status == ORIEL_OK && ctx->listeners.local < 0)
		status = context_listen(ctx);
	if (status == ORIEL_OK)
		status = context_describe(ctx);
	if (status == ORIEL_OK)
		status = ori_mr_refs_open(ctx);
	if (status == ORIEL_OK && (gpu || attr->flags & ORIEL_P2P_GPU))
		status = ori_p2p_context_open_gpu(ctx, gpu);
	if (status == ORIEL_OK)
		status = ori_pool_open(&ctx->pool, chunk, slots, has_gpu_slots ? &ctx->gpu : NULL);
	return status == ORIEL_OK ? ori_p2p_context_pin(ctx, &ctx->pool.area) : status;
}

void ori_p2p_context_close(struct oriel_p2p_context *ctx)
{
	ori_mr_refs_close(ctx);
	ori_memory_stop(ctx);
	for (unsigned i = 0; i < ctx->pending_count; i++)
		close(ctx->pending[i].fd);
	/* All slots have been given back. */
	assert(ori_pool_free(&ctx->pool.receives) == ctx->pool.receive);
	assert(ori_pool_free(&ctx->pool.sends) == ctx->pool.slots - ctx->pool.receive);
	if (ctx->pool.area.mr)
		ctx->ops->unregister_memory(ctx->pool.area.mr);
	if (ctx->hca)
		ctx->ops->close(ctx->hca);
	ori_p2p_context_unpin(ctx, &ctx->pool.area);
	if (ctx->pool.area.mem)
		ori_pool_close(&ctx->pool);
	ori_gpu_close(&ctx->gpu);
	if (ctx->listeners.local >= 0)
		close(ctx->listeners.local);
	if (ctx->listeners.tcp >= 0)
		close(ctx->listeners.tcp);
	explicit_bzero(&ctx->key, sizeof(ctx->key));
	pthread_cond_destroy(&ctx->wake);
	pthread_mutex_destroy(&ctx->lock);
	ori_handle_free(ctx);
}

static const struct p2p_listeners context_no_listeners = {.local = -1, .tcp = -1};

enum oriel_status ori_p2p_context_create_at(const struct oriel_p2p_context_attr *attr,
					    const struct p2p_listeners *listeners,
					    const struct ori_gpu *gpu,
					    struct oriel_p2p_context **out)
{
	struct oriel_p2p_context *ctx = ori_handle_alloc(ORI_HANDLE_P2P_CONTEXT, sizeof(*ctx));
	enum oriel_status status;

	if (!ctx)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a p2p context");
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_cond_init(&ctx->wake, NULL);
	ctx->listeners = *listeners;
	ctx->waiting_last = &ctx->waiting;
	/* Lower numbers are those of endpoints that a communicator keeps. */
	atomic_init(&ctx->number, P2P_UNCACHED);
	status = context_open(ctx, attr, gpu);
	if (status != ORIEL_OK) {
		/* After a failure the listeners are still the caller's. */
		if (listeners->local >= 0)
			ctx->listeners = context_no_listeners;
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
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_context_create: context is NULL");
	status = ori_attr_read("oriel_p2p_context_attr", caller, &attr, sizeof(attr));
	if (status == ORIEL_OK)
		status = ori_p2p_context_create_at(&attr, &context_no_listeners, NULL, out);
	return status;
}

static bool context_has_memory_locked(const struct oriel_p2p_context *ctx)
{
	const struct oriel_p2p_memory *m = ctx->memories;

	while (m && m->is_mr_ref)
		m = m->next;
	return m || ctx->waiting || ctx->working;
}

bool ori_p2p_context_has_memory(struct oriel_p2p_context *ctx)
{
	bool has_memory;

	pthread_mutex_lock(&ctx->lock);
	has_memory = context_has_memory_locked(ctx);
	pthread_mutex_unlock(&ctx->lock);
	return has_memory;
}

void oriel_p2p_context_destroy(struct oriel_p2p_context *ctx)
{
	bool is_used;

	if (!ori_handle_may_end(ctx, ORI_HANDLE_P2P_CONTEXT, __func__))
		return;
	if (ctx->has_owner) {
		ori_misuse("oriel_p2p_context_destroy: the context belongs to its communicator; "
			   "destroy that one");
		return;
	}
	pthread_mutex_lock(&ctx->lock);
	is_used = ctx->endpoints || context_has_memory_locked(ctx);
	pthread_mutex_unlock(&ctx->lock);
	if (is_used) {
		ori_misuse("oriel_p2p_context_destroy: the context still has %s",
			   ctx->endpoints ? "endpoints" : "registered memory");
		return;
	}
	if (ori_handle_shut(ctx, ORI_HANDLE_P2P_CONTEXT, __func__))
		ori_p2p_context_close(ctx);
}

static enum oriel_status context_register_locked(struct oriel_p2p_context *ctx,
						 struct p2p_area *area)
{
	return ctx->ops->register_memory(ctx->hca, area->base, area->length, 0, P2P_ACCESS,
					 &area->mr, &area->keys);
}

static enum oriel_status context_register_pool_locked(struct oriel_p2p_context *ctx)
{
	struct p2p_area *area = &ctx->pool.area;

	if (!ctx->pool.is_gpu || ctx->reaches_all)
		return context_register_locked(ctx, area);
	return ori_p2p_context_register_gpu(ctx, area->base, area->length, 0, &area->mr,
					    &area->keys);
}

static enum oriel_status context_open_hca_locked(struct oriel_p2p_context *ctx)
{
	const struct ori_gpu *gpu = ctx->gpu.ops ? &ctx->gpu : NULL;
	struct ori_hca_caps caps;
	enum oriel_status status;

	status = ori_choose(gpu, 1, &ctx->choice);
	if (status != ORIEL_OK)
		return status;
	ctx->ops = ctx->choice.ops;
	status = ctx->ops->open(ctx->choice.config, 0, &ctx->hca);
	if (status != ORIEL_OK)
		return status;
	ctx->ops->caps(ctx->hca, &caps);
	ctx->reaches_all = caps.reaches_gpu;
	ctx->needs_flush = gpu && !caps.is_software && !(gpu->flags & ORI_GPU_ORDERED);
	status = gpu ? ctx->ops->use_gpu(ctx->hca, gpu) : ORIEL_OK;
	if (status == ORIEL_OK)
		status = context_register_pool_locked(ctx);
	if (status == ORIEL_OK) {
		ori_memory_register_all_locked(ctx);
		return ORIEL_OK;
	}
	ctx->ops->close(ctx->hca);
	ctx->hca = NULL;
	return status;
}

enum oriel_status ori_p2p_context_need_hca(struct oriel_p2p_context *ctx)
{
	enum oriel_status status = ORIEL_OK;

	pthread_mutex_lock(&ctx->lock);
	if (!ctx->hca)
		status = context_open_hca_locked(ctx);
	pthread_mutex_unlock(&ctx->lock);
	return status;
}

enum oriel_status ori_p2p_context_register(struct oriel_p2p_context *ctx, struct p2p_area *area)
{
	return context_register_locked(ctx, area);
}

void ori_p2p_context_unregister(struct oriel_p2p_context *ctx, struct p2p_area *area)
{
	if (area->mr)
		ctx->ops->unregister_memory(area->mr);
	area->mr = NULL;
}

void ori_p2p_context_add(struct oriel_p2p_context *ctx, struct oriel_p2p *p2p)
{
	pthread_mutex_lock(&ctx->lock);
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
	int taken = -1;

	pthread_mutex_lock(&ctx->lock);
	if (ctx->spares + CONTEXT_SHARED < ctx->pool.receive)
		taken = ori_pool_take(&ctx->pool, &ctx->pool.receives, 0);
	ctx->spares += taken >= 0;
	pthread_mutex_unlock(&ctx->lock);
	if (taken < 0)
		return ori_fail(
			ORIEL_ERR_NOMEM,
			"%u staging slots to receive in are too few for endpoint %u of this "
			"context: raise oriel_p2p_context_attr.slots",
			ctx->pool.receive, ctx->spares + 1);
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

static void context_drop_pending(struct oriel_p2p_context *ctx, unsigned which)
{
	close(ctx->pending[which].fd);
	ctx->pending[which] = ctx->pending[--ctx->pending_count];
}

static void context_admit(struct oriel_p2p_context *ctx, int fd, bool is_remote)
{
	ctx->pending[ctx->pending_count++] = (struct p2p_pending_connection){
		.fd = fd,
		.is_remote = is_remote,
		.deadline = ori_deadline(is_remote ? CONTEXT_PATIENCE_NS : ctx->timeout_ns),
	};
}

/*
 * The connection that has been silent for longest makes room: so no process can keep
 * others out.
 */
static void context_make_room(struct oriel_p2p_context *ctx)
{
	unsigned oldest = P2P_PENDING_MAX;

	for (unsigned i = 0; i < ctx->pending_count; i++) {
		const struct p2p_pending_connection *s = &ctx->pending[i];

		if (s->is_remote && s->length < sizeof(s->frame) &&
		    (oldest == P2P_PENDING_MAX || s->deadline < ctx->pending[oldest].deadline))
			oldest = i;
	}
	if (oldest < P2P_PENDING_MAX)
		context_drop_pending(ctx, oldest);
}

/* False: no process connects, or no descriptor is left to accept with. */
static bool context_accept_tcp(struct oriel_p2p_context *ctx)
{
	struct pollfd ready = {.fd = ctx->listeners.tcp, .events = POLLIN};
	int fd;

	/* accept() takes a descriptor before it looks for a connection. */
	if (poll(&ready, 1, 0) <= 0)
		return false;
	fd = ori_endpoint_accept(ctx->listeners.tcp);
	if (fd >= 0)
		context_admit(ctx, fd, true);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		context_make_room(ctx);
	return fd >= 0;
}

static void context_accept(struct oriel_p2p_context *ctx)
{
	struct pollfd ready = {.fd = ctx->listeners.local, .events = POLLIN};
	enum oriel_status status;
	struct ucred who;
	int fd;

	if (ctx->pending_count == P2P_PENDING_MAX)
		context_make_room(ctx);
	while (ctx->pending_count < P2P_PENDING_MAX && poll(&ready, 1, 0) == 1) {
		/*
		 * A connection is there, so a deadline that has passed suffices; a process
		 * that gives up just now is no failure.
		 */
		status = ori_fdsock_accept(ctx->listeners.local, 1, &fd, &who);
		if (status == ORIEL_ERR_NOMEM)
			context_make_room(ctx);
		if (status != ORIEL_OK)
			break;
		context_admit(ctx, fd, false);
	}
	while (ctx->listeners.tcp >= 0 && ctx->pending_count < P2P_PENDING_MAX &&
	       context_accept_tcp(ctx))
		;
}

static void context_reject(const struct p2p_pending_connection *s, const char *why)
{
	char from[ORI_ENDPOINT_LENGTH] = "a process that has disconnected";
	struct ori_address address;

	if (ori_endpoint_remote(s->fd, &address) == ORIEL_OK)
		(void)ori_endpoint_text(&address, from);
	ori_log(ORIEL_LOG_WARN, "the connection of %s is rejected: %s", from, why);
}

/* Handle a frame of a process that connects over TCP; false: drop the connection. */
static bool context_take_tcp(struct oriel_p2p_context *ctx, struct p2p_pending_connection *s,
			     const struct p2p_frame *said)
{
	struct p2p_frame frame = {.magic = P2P_FRAME_MAGIC,
				  .version = P2P_VERSION,
				  .kind = P2P_PROOF};

	if (s->was_challenged && said->kind == P2P_HELLO) {
		s->deadline = ori_deadline(ctx->timeout_ns);
		if (ori_p2p_check_hello(&ctx->key, &s->auth, &said->hello) == ORIEL_OK)
			return true;
		context_reject(s, "it has another ORIEL_JOB_KEY");
		return false;
	}
	if (s->was_challenged || said->kind != P2P_CHALLENGE ||
	    ori_p2p_prove(&ctx->key, &ctx->address.token, &s->auth, &said->challenge,
			  &frame.proof) != ORIEL_OK)
		return false;
	s->was_challenged = true;
	s->length = 0;
	/* Few bytes are sent whole on a new socket, or not at all. */
	return send(s->fd, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(frame);
}

/* Read more of a frame; false: the connection can bring nothing useful any more. */
static bool context_read_pending(struct oriel_p2p_context *ctx, struct p2p_pending_connection *s)
{
	struct p2p_frame frame;
	ssize_t n;

	if (ori_deadline_passed(s->deadline))
		return false;
	if (s->length == sizeof(s->frame))
		return true;
	n = recv(s->fd, (char *)&s->frame + s->length, sizeof(s->frame) - s->length, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0 && s->was_challenged)
		context_reject(s, "it means another context, or has another ORIEL_JOB_KEY");
	if (n == 0)
		return false;
	s->length += (size_t)n;
	if (s->length < sizeof(s->frame))
		return true;
	if (ori_p2p_frame_parse(&s->frame, sizeof(s->frame), &frame) != ORIEL_OK)
		return false;
	return s->is_remote ? context_take_tcp(ctx, s, &frame) : frame.kind == P2P_HELLO;
}

static bool context_is_from(const struct p2p_pending_connection *s, const struct p2p_token *from,
			    const struct p2p_token *to)
{
	return s->length == sizeof(s->frame) &&
	       ori_p2p_token_compare(&s->frame.hello.from, from) == 0 &&
	       ori_p2p_token_compare(&s->frame.hello.to, to) == 0;
}

enum oriel_status ori_p2p_context_answer(struct oriel_p2p_context *ctx,
					 const struct p2p_token *from, const struct p2p_token *to,
					 int *fd)
{
	enum oriel_status status = ORIEL_AGAIN;
	unsigned i = 0;

	pthread_mutex_lock(&ctx->lock);
	context_accept(ctx);
	while (i < ctx->pending_count && status == ORIEL_AGAIN) {
		struct p2p_pending_connection *s = &ctx->pending[i];

		if (!context_read_pending(ctx, s)) {
			context_drop_pending(ctx, i);
			continue;
		}
		if (context_is_from(s, from, to)) {
			*fd = s->fd;
			*s = ctx->pending[--ctx->pending_count];
			status = ORIEL_OK;
		}
		i++;
	}
	pthread_mutex_unlock(&ctx->lock);
	return status;
}

static bool context_has_endpoint_locked(const struct oriel_p2p_context *ctx, uint64_t number)
{
	const struct oriel_p2p *p2p = ctx->endpoints;

	while (p2p && p2p->address.token.number != number)
		p2p = p2p->next;
	return p2p;
}

/*
 * Has the peer of @p2p connected to an endpoint of another mode that this process has not
 * created?
 */
static bool context_is_clash_locked(const struct oriel_p2p_context *ctx,
				    const struct p2p_pending_connection *s,
				    const struct oriel_p2p *p2p)
{
	const struct p2p_hello *hello = &s->frame.hello;

	return s->length == sizeof(s->frame) &&
	       memcmp(hello->from.context, p2p->peer.token.context, sizeof(hello->from.context)) ==
		       0 &&
	       hello->to.number / P2P_MODES == p2p->address.token.number / P2P_MODES &&
	       hello->from.number / P2P_MODES == p2p->peer.token.number / P2P_MODES &&
	       !context_has_endpoint_locked(ctx, hello->to.number);
}

enum oriel_status ori_p2p_context_find_clash(struct oriel_p2p_context *ctx,
					     const struct oriel_p2p *p2p)
{
	struct p2p_frame bye = {.magic = P2P_FRAME_MAGIC,
				.version = P2P_VERSION,
				.kind = P2P_BYE,
				.status = ORIEL_ERR_MISMATCH};
	enum oriel_status status = ORIEL_AGAIN;

	pthread_mutex_lock(&ctx->lock);
	for (unsigned i = 0; i < ctx->pending_count && status == ORIEL_AGAIN; i++) {
		const struct p2p_pending_connection *s = &ctx->pending[i];

		if (!context_is_clash_locked(ctx, s, p2p))
			continue;
		snprintf(bye.text, sizeof(bye.text),
			 "this rank has an endpoint of mode %s for the peer, which has one of mode "
			 "%s",
			 oriel_p2p_mode_name(p2p->mode),
			 oriel_p2p_mode_name(
				 (enum oriel_p2p_mode)(s->frame.hello.to.number % P2P_MODES)));
		/* Best effort: without it the peer times out. */
		(void)send(s->fd, &bye, sizeof(bye), MSG_NOSIGNAL | MSG_DONTWAIT);
		context_drop_pending(ctx, i);
		status = ori_fail(ORIEL_ERR_MISMATCH, "%s", bye.text);
	}
	pthread_mutex_unlock(&ctx->lock);
	return status;
}
