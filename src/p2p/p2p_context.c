/* SPDX-License-Identifier: Apache-2.0 */
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
#include "bootstrap/endpoint.h"
#include "p2p/p2p.h"
#include "p2p/p2p_host.h"
#include "sys/process.h"

#define HUB_CHUNK (128u << 10)
#define HUB_SLOTS 128u
#define HUB_SLOTS_MAX 32768u
#define HUB_PATIENCE_NS UINT64_C(10000000000) /* with who calls over TCP and does not say more */
#define HUB_SHARED 8u                         /* slots that no end may keep for itself */

#define HUB_FLAGS ((unsigned)(ORIEL_P2P_GPU | ORIEL_P2P_GPU_SLOTS))
#define HUB_PATHS (1u << ORIEL_PATH_MAPPED | 1u << ORIEL_PATH_RDMA)

static enum oriel_status hub_paths(unsigned asked, uint32_t *paths)
{
	unsigned allowed;
	enum oriel_status st = ori_setting_paths(&allowed);

	if (st != ORIEL_OK)
		return st;
	if (strcmp(ori_setting_text(ORI_SETTING_HCA), "none") == 0)
		allowed &= ~(1u << ORIEL_PATH_RDMA);
	if (asked & ~(HUB_PATHS | 1u << ORIEL_PATH_SELF))
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_context_attr.paths is 0x%x", asked);
	allowed |= 1u << ORIEL_PATH_SELF;
	*paths = asked ? allowed & asked : allowed;
	if (!*paths)
		return ori_fail(ORIEL_ERR_CONFIG,
				"ORIEL_PATHS and ORIEL_HCA allow none of the paths asked for");
	return ORIEL_OK;
}

/*
 * A port that everybody reaches is opened where it is guarded, or asked for: by the
 * key of the job.
 */
static bool hub_wants_tcp(const struct oriel_p2p_context *hub)
{
	const char *word = ori_setting_text(ORI_SETTING_P2P_TCP);

	if (!(hub->paths & 1u << ORIEL_PATH_RDMA))
		return false;
	return strcmp(word, "on") == 0 || (strcmp(word, "auto") == 0 && hub->key.length);
}

static enum oriel_status hub_listen(struct oriel_p2p_context *hub)
{
	struct p2p_listeners *doors = &hub->doors;
	enum oriel_status st = ori_random(doors->token, sizeof(doors->token));

	if (st == ORIEL_OK)
		st = ori_fdsock_listen(doors->name, &doors->local);

	if (st == ORIEL_OK && hub_wants_tcp(hub))
		st = ori_endpoint_listen_all(&doors->hosts, &doors->port, &doors->tcp);
	return st;
}

static enum oriel_status hub_describe(struct oriel_p2p_context *hub)
{
	struct p2p_host host;
	enum oriel_status st = ori_p2p_host(&host);

	if (st != ORIEL_OK)
		return st;
	hub->address = (struct p2p_address){
		.magic = P2P_ADDRESS_MAGIC,
		.version = P2P_VERSION,
		.paths = hub->paths,
		.uid = host.uid,
		.place = host.place,
		.process = host.process,
		.pid = host.pid,
		.port = hub->doors.port,
		.node = host.node,
		.hosts = hub->doors.hosts,
	};
	memcpy(hub->address.token.hub, hub->doors.token, sizeof(hub->doors.token));
	memcpy(hub->address.door, hub->doors.name, ORI_FDSOCK_NAME);
	return ORIEL_OK;
}

static enum oriel_status hub_open(struct oriel_p2p_context *hub,
				  const struct oriel_p2p_context_attr *attr,
				  const struct ori_gpu *gpu)
{
	size_t chunk = attr->chunk ? attr->chunk : HUB_CHUNK;
	unsigned slots = attr->slots ? attr->slots : HUB_SLOTS;
	bool has_gpu_slots = attr->flags & ORIEL_P2P_GPU_SLOTS;
	enum oriel_status st;

	if (chunk < P2P_CHUNK_MIN || chunk > P2P_CHUNK_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "staging slots of %zu bytes, not %u to %u", chunk,
				P2P_CHUNK_MIN, P2P_CHUNK_MAX);
	if (slots <= HUB_SHARED || slots > HUB_SLOTS_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "%u staging slots, not %u to %u", slots,
				HUB_SHARED + 1, HUB_SLOTS_MAX);
	if (attr->flags & ~HUB_FLAGS)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_context_attr.flags is 0x%x",
				attr->flags);
	if (has_gpu_slots && !(attr->flags & ORIEL_P2P_GPU))
		return ori_fail(ORIEL_ERR_INVALID, "ORIEL_P2P_GPU_SLOTS needs ORIEL_P2P_GPU");
	hub->timeout_ns = attr->timeout_ns;
	st = attr->timeout_ns ? ORIEL_OK : ori_setting_timeout(&hub->timeout_ns);
	if (st == ORIEL_OK)
		st = oriel_settings_check();
	if (st == ORIEL_OK)
		st = hub_paths(attr->paths, &hub->paths);
	ori_auth_read_key(&hub->key);
	if (st == ORIEL_OK && hub->doors.local < 0)
		st = hub_listen(hub);
	if (st == ORIEL_OK)
		st = hub_describe(hub);
	if (st == ORIEL_OK)
		st = ori_mr_refs_open(hub);
	if (st == ORIEL_OK && (gpu || attr->flags & ORIEL_P2P_GPU))
		st = ori_p2p_context_open_gpu(hub, gpu);
	if (st == ORIEL_OK)
		st = ori_pool_open(&hub->pool, chunk, slots, has_gpu_slots ? &hub->gpu : NULL);
	return st == ORIEL_OK ? ori_p2p_context_pin(hub, &hub->pool.area) : st;
}

void ori_p2p_context_close(struct oriel_p2p_context *hub)
{
	ori_mr_refs_close(hub);
	ori_memory_stop(hub);
	for (unsigned i = 0; i < hub->pending_count; i++)
		close(hub->pending[i].fd);
	/* Whoever took a slot has given it back. */
	assert(ori_pool_free(&hub->pool.receives) == hub->pool.receive);
	assert(ori_pool_free(&hub->pool.sends) == hub->pool.slots - hub->pool.receive);
	if (hub->pool.area.mr)
		hub->ops->unregister_memory(hub->pool.area.mr);
	if (hub->hca)
		hub->ops->close(hub->hca);
	ori_p2p_context_unpin(hub, &hub->pool.area);
	if (hub->pool.area.mem)
		ori_pool_close(&hub->pool);
	ori_gpu_close(&hub->gpu);
	if (hub->doors.local >= 0)
		close(hub->doors.local);
	if (hub->doors.tcp >= 0)
		close(hub->doors.tcp);
	explicit_bzero(&hub->key, sizeof(hub->key));
	pthread_cond_destroy(&hub->wake);
	pthread_mutex_destroy(&hub->lock);
	ori_handle_free(hub);
}

static const struct p2p_listeners hub_no_doors = {.local = -1, .tcp = -1};

enum oriel_status ori_p2p_context_create_at(const struct oriel_p2p_context_attr *attr,
					    const struct p2p_listeners *doors,
					    const struct ori_gpu *gpu,
					    struct oriel_p2p_context **out)
{
	struct oriel_p2p_context *hub = ori_handle_alloc(ORI_HANDLE_P2P_CONTEXT, sizeof(*hub));
	enum oriel_status st;

	if (!hub)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a hub");
	pthread_mutex_init(&hub->lock, NULL);
	pthread_cond_init(&hub->wake, NULL);
	hub->doors = *doors;
	hub->waiting_last = &hub->waiting;
	/* Below are the ranks of a communicator. */
	atomic_init(&hub->number, P2P_UNCACHED);
	st = hub_open(hub, attr, gpu);
	if (st != ORIEL_OK) {
		if (doors->local >= 0)
			hub->doors = hub_no_doors;
		ori_p2p_context_close(hub);
		return st;
	}
	ori_handle_open(hub, NULL);
	*out = hub;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_context_create(const struct oriel_p2p_context_attr *caller,
					   struct oriel_p2p_context **out)
{
	struct oriel_p2p_context_attr attr;
	enum oriel_status st;

	if (!out)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_context_create: hub is NULL");
	st = ori_attr_read("oriel_p2p_context_attr", caller, &attr, sizeof(attr));
	if (st == ORIEL_OK)
		st = ori_p2p_context_create_at(&attr, &hub_no_doors, NULL, out);
	return st;
}

static bool hub_has_memory_locked(const struct oriel_p2p_context *hub)
{
	const struct oriel_p2p_memory *m = hub->memories;

	while (m && m->is_hold)
		m = m->next;
	return m || hub->waiting || hub->working;
}

bool ori_p2p_context_has_memory(struct oriel_p2p_context *hub)
{
	bool has_memory;

	pthread_mutex_lock(&hub->lock);
	has_memory = hub_has_memory_locked(hub);
	pthread_mutex_unlock(&hub->lock);
	return has_memory;
}

void oriel_p2p_context_destroy(struct oriel_p2p_context *hub)
{
	bool is_used;

	if (!ori_handle_may_end(hub, ORI_HANDLE_P2P_CONTEXT, __func__))
		return;
	if (hub->has_owner) {
		ori_misuse("oriel_p2p_context_destroy: the hub belongs to its communicator");
		return;
	}
	pthread_mutex_lock(&hub->lock);
	is_used = hub->ends || hub_has_memory_locked(hub);
	pthread_mutex_unlock(&hub->lock);
	if (is_used) {
		ori_misuse("oriel_p2p_context_destroy: it still has %s",
			   hub->ends ? "ends" : "registered memory");
		return;
	}
	if (ori_handle_shut(hub, ORI_HANDLE_P2P_CONTEXT, __func__))
		ori_p2p_context_close(hub);
}

static enum oriel_status hub_register_locked(struct oriel_p2p_context *hub, struct p2p_area *area)
{
	return hub->ops->register_memory(hub->hca, area->base, area->length, 0, P2P_ACCESS,
					 &area->mr, &area->keys);
}

static enum oriel_status hub_register_pool_locked(struct oriel_p2p_context *hub)
{
	struct p2p_area *area = &hub->pool.area;

	if (!hub->pool.is_gpu || hub->reaches_all)
		return hub_register_locked(hub, area);
	return ori_p2p_context_register_gpu(hub, area->base, area->length, 0, &area->mr,
					    &area->keys);
}

static enum oriel_status hub_open_adapter_locked(struct oriel_p2p_context *hub)
{
	const struct ori_gpu *gpu = hub->gpu.ops ? &hub->gpu : NULL;
	struct ori_hca_caps caps;
	enum oriel_status st;

	st = ori_choose(gpu, 1, &hub->choice);
	if (st != ORIEL_OK)
		return st;
	hub->ops = hub->choice.ops;
	st = hub->ops->open(hub->choice.config, 0, &hub->hca);
	if (st != ORIEL_OK)
		return st;
	hub->ops->caps(hub->hca, &caps);
	hub->reaches_all = caps.reaches_gpu;
	hub->needs_flush = gpu && !caps.is_software && !(gpu->flags & ORI_GPU_ORDERED);
	st = gpu ? hub->ops->use_gpu(hub->hca, gpu) : ORIEL_OK;
	if (st == ORIEL_OK)
		st = hub_register_pool_locked(hub);
	if (st == ORIEL_OK) {
		ori_memory_register_all_locked(hub);
		return ORIEL_OK;
	}
	hub->ops->close(hub->hca);
	hub->hca = NULL;
	return st;
}

enum oriel_status ori_p2p_context_need_hca(struct oriel_p2p_context *hub)
{
	enum oriel_status st = ORIEL_OK;

	pthread_mutex_lock(&hub->lock);
	if (!hub->hca)
		st = hub_open_adapter_locked(hub);
	pthread_mutex_unlock(&hub->lock);
	return st;
}

enum oriel_status ori_p2p_context_register(struct oriel_p2p_context *hub, struct p2p_area *area)
{
	return hub_register_locked(hub, area);
}

void ori_p2p_context_unregister(struct oriel_p2p_context *hub, struct p2p_area *area)
{
	if (area->mr)
		hub->ops->unregister_memory(area->mr);
	area->mr = NULL;
}

void ori_p2p_context_add(struct oriel_p2p_context *hub, struct oriel_p2p *p)
{
	pthread_mutex_lock(&hub->lock);
	p->next = hub->ends;
	hub->ends = p;
	pthread_mutex_unlock(&hub->lock);
}

void ori_p2p_context_remove(struct oriel_p2p_context *hub, struct oriel_p2p *p)
{
	struct oriel_p2p **at = &hub->ends;

	pthread_mutex_lock(&hub->lock);
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	pthread_mutex_unlock(&hub->lock);
}

enum oriel_status ori_p2p_context_take_spare(struct oriel_p2p_context *hub, int *slot)
{
	int taken = -1;

	pthread_mutex_lock(&hub->lock);
	if (hub->spares + HUB_SHARED < hub->pool.receive)
		taken = ori_pool_take(&hub->pool, &hub->pool.receives, 0);
	hub->spares += taken >= 0;
	pthread_mutex_unlock(&hub->lock);
	if (taken < 0)
		return ori_fail(ORIEL_ERR_NOMEM,
				"%u staging slots to receive in are too few for one more end of "
				"this hub (%u): oriel_p2p_context_attr.slots",
				hub->pool.receive, hub->spares + 1);
	*slot = taken;
	return ORIEL_OK;
}

void ori_p2p_context_give_spare(struct oriel_p2p_context *hub, int slot)
{
	pthread_mutex_lock(&hub->lock);
	ori_pool_give(&hub->pool, &hub->pool.receives, slot);
	hub->spares--;
	pthread_mutex_unlock(&hub->lock);
}

static void hub_drop_stranger(struct oriel_p2p_context *hub, unsigned which)
{
	close(hub->pending[which].fd);
	hub->pending[which] = hub->pending[--hub->pending_count];
}

static void hub_admit(struct oriel_p2p_context *hub, int fd, bool is_far)
{
	hub->pending[hub->pending_count++] = (struct p2p_pending_connection){
		.fd = fd,
		.is_far = is_far,
		.deadline = ori_deadline(is_far ? HUB_PATIENCE_NS : hub->timeout_ns),
	};
}

/* Who has said nothing for longest makes room: nobody can keep others out so. */
static void hub_make_room(struct oriel_p2p_context *hub)
{
	unsigned oldest = P2P_PENDING_MAX;

	for (unsigned i = 0; i < hub->pending_count; i++) {
		const struct p2p_pending_connection *s = &hub->pending[i];

		if (s->is_far && s->length < sizeof(s->frame) &&
		    (oldest == P2P_PENDING_MAX || s->deadline < hub->pending[oldest].deadline))
			oldest = i;
	}
	if (oldest < P2P_PENDING_MAX)
		hub_drop_stranger(hub, oldest);
}

/* False: nobody is there, or there is nothing left to accept the connection with. */
static bool hub_accept_far(struct oriel_p2p_context *hub)
{
	struct pollfd p = {.fd = hub->doors.tcp, .events = POLLIN};
	int fd;

	/* accept() wants a descriptor before it looks whether anybody is there. */
	if (poll(&p, 1, 0) <= 0)
		return false;
	fd = ori_endpoint_accept(hub->doors.tcp);
	if (fd >= 0)
		hub_admit(hub, fd, true);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		hub_make_room(hub);
	return fd >= 0;
}

static void hub_accept(struct oriel_p2p_context *hub)
{
	struct pollfd p = {.fd = hub->doors.local, .events = POLLIN};
	enum oriel_status st;
	struct ucred who;
	int fd;

	if (hub->pending_count == P2P_PENDING_MAX)
		hub_make_room(hub);
	while (hub->pending_count < P2P_PENDING_MAX && poll(&p, 1, 0) == 1) {
		/* Somebody is there, so a deadline that has passed does; who gives up just now
		 * is no failure. */
		st = ori_fdsock_accept(hub->doors.local, 1, &fd, &who);
		if (st == ORIEL_ERR_NOMEM)
			hub_make_room(hub);
		if (st != ORIEL_OK)
			break;
		hub_admit(hub, fd, false);
	}
	while (hub->doors.tcp >= 0 && hub->pending_count < P2P_PENDING_MAX && hub_accept_far(hub))
		;
}

static void hub_turn_away(const struct p2p_pending_connection *s, const char *why)
{
	char from[ORI_ENDPOINT_LENGTH] = "somebody who has gone";
	struct ori_address address;

	if (ori_endpoint_remote(s->fd, &address) == ORIEL_OK)
		(void)ori_endpoint_text(&address, from);
	ori_log(ORIEL_LOG_WARN, "a call from %s is turned away: %s", from, why);
}

/* What who calls over TCP has said; false: nothing more is wanted of him. */
static bool hub_take_far(struct oriel_p2p_context *hub, struct p2p_pending_connection *s,
			 const struct p2p_frame *said)
{
	struct p2p_frame frame = {.magic = P2P_FRAME_MAGIC,
				  .version = P2P_VERSION,
				  .kind = P2P_PROOF};

	if (s->was_challenged && said->kind == P2P_HELLO) {
		s->deadline = ori_deadline(hub->timeout_ns);
		if (ori_p2p_check_hello(&hub->key, &s->auth, &said->hello) == ORIEL_OK)
			return true;
		hub_turn_away(s, "it has another ORIEL_JOB_KEY");
		return false;
	}
	if (s->was_challenged || said->kind != P2P_CHALLENGE ||
	    ori_p2p_prove(&hub->key, &hub->address.token, &s->auth, &said->challenge,
			  &frame.proof) != ORIEL_OK)
		return false;
	s->was_challenged = true;
	s->length = 0;
	/* So little goes whole on a socket that is new, or not at all. */
	return send(s->fd, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(frame);
}

/* Reads on; false if nothing sensible can come any more. */
static bool hub_listen_to(struct oriel_p2p_context *hub, struct p2p_pending_connection *s)
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
		hub_turn_away(s, "it does not take this hub for the one it means, or has another "
				 "ORIEL_JOB_KEY");
	if (n == 0)
		return false;
	s->length += (size_t)n;
	if (s->length < sizeof(s->frame))
		return true;
	if (ori_p2p_frame_parse(&s->frame, sizeof(s->frame), &frame) != ORIEL_OK)
		return false;
	return s->is_far ? hub_take_far(hub, s, &frame) : frame.kind == P2P_HELLO;
}

static bool hub_is_caller(const struct p2p_pending_connection *s, const struct p2p_token *from,
			  const struct p2p_token *to)
{
	return s->length == sizeof(s->frame) &&
	       ori_p2p_token_compare(&s->frame.hello.from, from) == 0 &&
	       ori_p2p_token_compare(&s->frame.hello.to, to) == 0;
}

enum oriel_status ori_p2p_context_answer(struct oriel_p2p_context *hub,
					 const struct p2p_token *from, const struct p2p_token *to,
					 int *fd)
{
	enum oriel_status st = ORIEL_AGAIN;
	unsigned i = 0;

	pthread_mutex_lock(&hub->lock);
	hub_accept(hub);
	while (i < hub->pending_count && st == ORIEL_AGAIN) {
		struct p2p_pending_connection *s = &hub->pending[i];

		if (!hub_listen_to(hub, s)) {
			hub_drop_stranger(hub, i);
			continue;
		}
		if (hub_is_caller(s, from, to)) {
			*fd = s->fd;
			*s = hub->pending[--hub->pending_count];
			st = ORIEL_OK;
		}
		i++;
	}
	pthread_mutex_unlock(&hub->lock);
	return st;
}

static bool hub_has_end_locked(const struct oriel_p2p_context *hub, uint64_t number)
{
	const struct oriel_p2p *p = hub->ends;

	while (p && p->address.token.number != number)
		p = p->next;
	return p;
}

/* Is it the peer of @p that has called, for another mode, and in vain so far? */
static bool hub_is_clash_locked(const struct oriel_p2p_context *hub,
				const struct p2p_pending_connection *s, const struct oriel_p2p *p)
{
	const struct p2p_hello *hello = &s->frame.hello;

	return s->length == sizeof(s->frame) &&
	       memcmp(hello->from.hub, p->peer.token.hub, sizeof(hello->from.hub)) == 0 &&
	       hello->to.number / P2P_MODES == p->address.token.number / P2P_MODES &&
	       hello->from.number / P2P_MODES == p->peer.token.number / P2P_MODES &&
	       !hub_has_end_locked(hub, hello->to.number);
}

enum oriel_status ori_p2p_context_find_clash(struct oriel_p2p_context *hub,
					     const struct oriel_p2p *p)
{
	struct p2p_frame bye = {.magic = P2P_FRAME_MAGIC,
				.version = P2P_VERSION,
				.kind = P2P_BYE,
				.status = ORIEL_ERR_MISMATCH};
	enum oriel_status st = ORIEL_AGAIN;

	pthread_mutex_lock(&hub->lock);
	for (unsigned i = 0; i < hub->pending_count && st == ORIEL_AGAIN; i++) {
		const struct p2p_pending_connection *s = &hub->pending[i];

		if (!hub_is_clash_locked(hub, s, p))
			continue;
		snprintf(bye.text, sizeof(bye.text),
			 "this rank keeps an end of mode %s for the peer, which keeps one of mode "
			 "%s",
			 oriel_p2p_mode_name(p->mode),
			 oriel_p2p_mode_name(
				 (enum oriel_p2p_mode)(s->frame.hello.to.number % P2P_MODES)));
		/* Best effort: else it hears of a timeout. */
		(void)send(s->fd, &bye, sizeof(bye), MSG_NOSIGNAL | MSG_DONTWAIT);
		hub_drop_stranger(hub, i);
		st = ori_fail(ORIEL_ERR_MISMATCH, "%s", bye.text);
	}
	pthread_mutex_unlock(&hub->lock);
	return st;
}
