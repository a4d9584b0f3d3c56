/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that the endpoints of a process share: listeners, staging slots, HCA, GPU,
 * registered memory. Any thread may call these functions.
 */
#ifndef ORI_P2P_CONTEXT_H
#define ORI_P2P_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/handle.h"
#include "net/listen.h"
#include "p2p/p2p_wire.h"
#include "rdma/rdma.h"

#define P2P_PENDING_MAX 64u /* peers whose endpoint here has not taken them yet */

struct p2p_backend;

/*
 * Memory of the library that peers write to. NICs, once open, register it, and know its
 * first byte as 0.
 */
struct p2p_area {
	char *base;
	size_t length;
	struct ori_mem *mem;
	struct ori_rdma_mr *mr; /* NULL: not registered */
	struct oriel_dev_keys lkeys, rkeys;
	bool is_pinned;
};

/*
 * A set of slots, last in first out. @head is {tag, count, first}: every change increments
 * the tag, so that a first slot that returned differs from one that stayed.
 */
struct p2p_stack {
	_Atomic uint64_t head;
};

/* Slots of @stride bytes: [0, receive) to receive in, the rest to send from. */
struct p2p_pool {
	struct p2p_area area;
	size_t chunk, stride;
	bool is_gpu; /* no CPU reads or writes slots, which then have no labels */
	unsigned receive, slots;
	struct p2p_stack receives, sends;
	_Atomic uint16_t *next; /* [slots] */
};

/* @gpu: whose memory they are of; NULL: of the host. */
enum oriel_status ori_pool_open(struct p2p_pool *pool, size_t chunk, unsigned receive,
				const struct ori_gpu *gpu);
void ori_pool_close(struct p2p_pool *pool);
/* A slot, as long as more than @leave are free; -1 if not. */
int ori_pool_take(struct p2p_pool *pool, struct p2p_stack *stack, unsigned leave);
void ori_pool_give(struct p2p_pool *pool, struct p2p_stack *stack, int slot);
unsigned ori_pool_free(const struct p2p_stack *stack);

struct oriel_p2p_memory {
	struct oriel_p2p_context *ctx;
	struct oriel_p2p_memory *next; /* in the context, or in its queue */
	char *address;
	size_t length;
	struct ori_mem *mem; /* referenced; NULL: no other process can map it */
	uint64_t offset;     /* of @address in it */
	bool is_gpu;
	/*
	 * NULL: none. Final with @status, unless there were no NICs then: those that are opened
	 * later register it under the context's lock, before any endpoint uses them.
	 */
	struct ori_rdma_mr *mr;
	bool is_exposed; /* to the context's transport, which knows it by @iova and @rkeys */
	uint64_t iova;   /* of @address, as NICs know it */
	struct oriel_dev_keys lkeys, rkeys;
	_Atomic int status;     /* enum oriel_status; ORIEL_AGAIN: not registered yet */
	_Atomic uint64_t users; /* requests under way that name it */
	enum ori_rdma_use use;  /* ORI_RDMA_TARGET: the user's; else of a reference by transfers */
};

/* The sockets that listen for endpoints of a process. -1: that one does not listen. */
struct p2p_listeners {
	int local; /* of unix sockets, by @name */
	int tcp;   /* at @port of @hosts */
	uint8_t name[ORI_FDSOCK_NAME];
	uint8_t token[16]; /* of the context */
	uint16_t port;
	struct ori_hosts hosts;
	const struct ori_key *key; /* of the job; NULL: that of this process */
};

/* The connection of a peer, which no endpoint has taken. */
struct p2p_pending_connection {
	struct ori_net_pending *net;
	struct p2p_hello hello;
};

struct oriel_p2p_context {
	bool has_owner; /* a communicator, which alone destroys it */
	/* All its endpoints use it, in tests; NULL: the path of each decides. */
	const struct p2p_backend *backend;
	void *backend_state;                  /* of it */
	struct oriel_p2p_transport transport; /* of the caller; without a name: none */
	void *transport_context;
	struct oriel_p2p_target pool_target; /* the pool, registered with the transport */
	bool has_pool_target;
	uint64_t timeout_ns;
	uint32_t paths;
	struct p2p_address address; /* of its endpoints, without their numbers */
	struct p2p_pool pool;
	_Atomic uint64_t number; /* of the next endpoint */
	struct p2p_listeners listeners;
	struct ori_tls_context *tls; /* of connections over TCP; NULL: the job has no key */
	struct ori_gpu gpu;          /* gpu.ops NULL: none. A stream of its own */

	struct ori_cache *mr_refs; /* memory of transfers that the user has not registered */
	struct ori_rdma *lent;     /* referenced; NULL: the context opens one of its own */

	pthread_mutex_t lock; /* guards the rest */
	struct oriel_p2p *endpoints;
	struct oriel_p2p_memory *memories;
	unsigned spares;                    /* slots that endpoints keep for themselves */
	struct ori_net_listener local, tcp; /* they own the sockets of @listeners */
	struct p2p_pending_connection pending[P2P_PENDING_MAX];
	unsigned pending_count;
	struct ori_rdma *rdma; /* for the first endpoint that needs it, stays */

	pthread_cond_t wake; /* of the thread that registers */
	struct oriel_p2p_memory *waiting, **waiting_last;
	struct oriel_p2p_memory *working; /* the thread registers this one now */
	bool has_thread, is_closing;
	pthread_t thread;
};

/*
 * oriel_p2p_context_create() for sockets that listen already: takes the listeners on
 * success. A live handle. @gpu NULL: none; @rdma NULL: one is opened for the first endpoint
 * that needs it, else it references @rdma, which has the same GPU.
 */
enum oriel_status ori_p2p_context_create_at(const struct oriel_p2p_context_attr *attr,
					    const struct p2p_listeners *listeners,
					    const struct ori_gpu *gpu, struct ori_rdma *rdma,
					    struct oriel_p2p_context **ctx);
void ori_p2p_context_close(struct oriel_p2p_context *ctx);
/* The noun of what the user made of @ctx, or is about to, beside endpoints; NULL: nothing. */
const char *ori_p2p_context_child(struct oriel_p2p_context *ctx);

/* Open the NICs, which then register the pool and all registered memory. */
enum oriel_status ori_p2p_context_need_rdma(struct oriel_p2p_context *ctx);
enum oriel_status ori_p2p_context_register(struct oriel_p2p_context *ctx, struct p2p_area *area);
void ori_p2p_context_unregister(struct oriel_p2p_context *ctx, struct p2p_area *area);

enum oriel_status ori_area_open(struct p2p_area *area, size_t length);
void ori_area_close(struct p2p_area *area);

void ori_p2p_context_add(struct oriel_p2p_context *ctx, struct oriel_p2p *p2p);
void ori_p2p_context_remove(struct oriel_p2p_context *ctx, struct oriel_p2p *p2p);
/* One more endpoint keeps a slot for itself: *@slot is its number. */
enum oriel_status ori_p2p_context_take_spare(struct oriel_p2p_context *ctx, int *slot);
void ori_p2p_context_give_spare(struct oriel_p2p_context *ctx, int slot);

static inline bool p2p_has_transport(const struct oriel_p2p_context *ctx)
{
	return ctx->transport.name;
}

/* p2p_transport.c: the transport of a context, which has one. */
/* Without one @transport is all zero. */
enum oriel_status ori_transport_read(const struct oriel_p2p_context_attr *attr,
				     struct oriel_p2p_transport *transport);
enum oriel_status ori_transport_register(const struct oriel_p2p_context *ctx, void *address,
					 size_t length, struct oriel_p2p_target *target);
void ori_transport_unregister(const struct oriel_p2p_context *ctx,
			      const struct oriel_p2p_target *target);

/* p2p_accept.c */
/* @conn becomes the connection of @from, if it has connected to @to. ORIEL_AGAIN: not yet. */
enum oriel_status ori_p2p_context_answer(struct oriel_p2p_context *ctx,
					 const struct p2p_token *from, const struct p2p_token *to,
					 struct ori_net_conn *conn);

/*
 * ORIEL_ERR_MISMATCH: the peer of @p2p, a communicator's, has not connected to it, but to
 * an endpoint of another mode that this rank has not created; the peer gets the status,
 * too. ORIEL_AGAIN: it has not.
 */
enum oriel_status ori_p2p_context_find_clash(struct oriel_p2p_context *ctx,
					     const struct oriel_p2p *p2p);

/* p2p_gpu.c */
/*
 * Use the GPU of the calling thread, or @like. After a failure the context closes what is
 * open.
 */
enum oriel_status ori_p2p_context_open_gpu(struct oriel_p2p_context *ctx,
					   const struct ori_gpu *like);
/* May NICs write to memory of the GPU, since what they write can be flushed? */
enum oriel_status ori_p2p_context_check_flush(const struct oriel_p2p_context *ctx);
/* For copies by the GPU; nothing without one. */
enum oriel_status ori_p2p_context_pin(struct oriel_p2p_context *ctx, struct p2p_area *area);
void ori_p2p_context_unpin(struct oriel_p2p_context *ctx, struct p2p_area *area);
enum oriel_status ori_p2p_context_query(const struct oriel_p2p_context *ctx, const void *address,
					bool *is_gpu);
/* Can this GPU reach memory of the GPU of @uuid? 0 is none. */
bool ori_p2p_context_reaches(const struct oriel_p2p_context *ctx, const uint8_t uuid[ORI_GPU_UUID]);
/* On return earlier writes of the HCA are visible to the GPU. */
enum oriel_status ori_p2p_context_flush(struct oriel_p2p_context *ctx);

/*
 * p2p_mr_ref.c: registrations that last as long as @request, whose memory the user has not
 * registered.
 */
enum p2p_mr_ref {
	P2P_MR_REF_NONE,
	P2P_MR_REF_PART,
	P2P_MR_REF_WHOLE,
	P2P_MR_REF_CALLER, /* the caller's registration, which counts the request */
};

enum oriel_status ori_mr_refs_open(struct oriel_p2p_context *ctx);
void ori_mr_refs_close(struct oriel_p2p_context *ctx);
/* @is_rdma: its endpoint uses NICs. */
enum oriel_status ori_mr_ref_take(struct oriel_p2p_context *ctx, struct oriel_p2p_request *request,
				  bool is_rdma);
/* Drop registrations that no transfer uses now. */
void ori_mr_refs_drop_idle(struct oriel_p2p_context *ctx);
/* @request, which is under way, uses the caller's registration, if it names one. */
void ori_mr_ref_count(struct oriel_p2p_request *request);
/* A request without a reference is left alone. */
void ori_mr_ref_drop(struct oriel_p2p_context *ctx, struct oriel_p2p_request *request);

/*
 * p2p_copy_group.c: take the copy group that @hooks and their @context are of, NULL if of none, for
 * an endpoint; and give back one for which no endpoint was made, or NULL.
 */
enum oriel_status ori_copy_group_of(const struct oriel_p2p_context *ctx,
				    const struct oriel_p2p_hooks *hooks, void *context,
				    struct oriel_p2p_copy_group **group);
void ori_copy_group_give_back(struct oriel_p2p_copy_group *group);

/* p2p_memory.c */
/* Is any of it registered by the user, or in use by a transfer? */
bool ori_memory_is_registered(struct oriel_p2p_context *ctx, const struct ori_mem *mem);
/* oriel_p2p_register(), or a registration that transfers refer to. */
enum oriel_status ori_memory_make(struct oriel_p2p_context *ctx, void *address, size_t length,
				  unsigned flags, enum ori_rdma_use use,
				  struct oriel_p2p_memory **memory);
/* A region that the new HCA rejects has the failure as its status from then on. */
void ori_memory_register_all_locked(struct oriel_p2p_context *ctx);
void ori_memory_stop(struct oriel_p2p_context *ctx);

#endif
