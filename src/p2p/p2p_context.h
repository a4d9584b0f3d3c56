/* SPDX-License-Identifier: Apache-2.0 */
/* What the ends of a process share. Any thread. */
#ifndef ORI_P2P_CONTEXT_H
#define ORI_P2P_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/handle.h"
#include "comm/choose.h"
#include "hca/hca.h"
#include "net/auth.h"
#include "p2p/p2p_wire.h"

#define P2P_PENDING_MAX 64u
#define P2P_ACCESS (ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE) /* of what peers put to */

/* Memory of the library's that peers write to, and the adapter knows once there is one. */
struct p2p_area {
	char *base;
	size_t length;
	struct ori_mem *mem;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
	bool is_pinned;
};

/*
 * A set of slots, last in first out. @head is {tag, count, first}: every change
 * counts the tag up, so that a first that came back is told from one that stayed.
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
	struct oriel_p2p_memory *next; /* in the hub, or among those to be registered */
	char *address;
	size_t length;
	struct ori_mem *mem; /* referenced; NULL: nobody else can map it */
	uint64_t offset;     /* of @address in it */
	uint64_t iova;       /* ... as adapters know it: in its page where @address is */
	bool is_gpu;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
	_Atomic int status; /* enum oriel_status; ORIEL_AGAIN: not registered yet */
	bool is_mr_ref;     /* of transfers, and not the user's */
	bool has_mr;        /* guarded by the hub's lock until @status says so */
};

/* Where the ends of a process are called. A listener is -1 where there is none. */
struct p2p_listeners {
	int local; /* of unix sockets, by @name */
	int tcp;   /* at @port of @hosts */
	uint8_t name[ORI_FDSOCK_NAME];
	uint8_t token[16]; /* of the hub */
	uint16_t port;
	struct ori_hosts hosts;
};

/* A connection that nobody has taken. */
struct p2p_pending_connection {
	int fd;
	bool is_remote;      /* over TCP */
	bool was_challenged; /* ... and has been told that the hub knows the key */
	struct ori_auth auth;
	size_t length; /* of what it says now; all of it is P2P_HELLO, and right */
	uint64_t deadline;
	struct p2p_frame frame;
};

struct oriel_p2p_context {
	bool has_owner; /* a communicator, which alone destroys it */
	uint64_t timeout_ns;
	uint32_t paths;
	struct p2p_address address; /* of its ends, without their numbers */
	struct p2p_pool pool;
	_Atomic uint64_t number; /* of the next end */
	struct p2p_listeners listeners;
	struct ori_key key; /* that who calls over TCP has to know */
	struct ori_gpu gpu; /* gpu.ops NULL: none. A stream of its own */

	struct ori_cache *mr_refs; /* memory of transfers that nobody has registered */

	pthread_mutex_t lock; /* guards the rest */
	struct oriel_p2p *endpoints;
	struct oriel_p2p_memory *memories;
	unsigned spares; /* slots that ends keep for themselves */
	struct p2p_pending_connection pending[P2P_PENDING_MAX];
	unsigned pending_count;
	struct ori_choice choice; /* what the settings say, once there is an adapter */
	const struct ori_hca_ops *ops;
	struct ori_hca *hca; /* opened for the first end that needs it, stays */
	bool reaches_all;    /* it registers memory of GPUs as any other */
	bool needs_flush;    /* what it writes to the GPU is not there yet when it tells so */

	pthread_cond_t wake; /* of the thread that registers */
	struct oriel_p2p_memory *waiting, **waiting_last;
	struct oriel_p2p_memory *working; /* it is at that one */
	bool has_thread, is_closing;
	pthread_t thread;
};

/*
 * oriel_p2p_context_create() for what listens already: takes the listeners on success. A live
 * handle.
 * @gpu NULL: none.
 */
enum oriel_status ori_p2p_context_create_at(const struct oriel_p2p_context_attr *attr,
					    const struct p2p_listeners *listeners,
					    const struct ori_gpu *gpu,
					    struct oriel_p2p_context **ctx);
void ori_p2p_context_close(struct oriel_p2p_context *ctx);
/* Has the user registered memory, or is about to? */
bool ori_p2p_context_has_memory(struct oriel_p2p_context *ctx);

/* The adapter, which then knows the pool and all registered memory. */
enum oriel_status ori_p2p_context_need_hca(struct oriel_p2p_context *ctx);
enum oriel_status ori_p2p_context_register(struct oriel_p2p_context *ctx, struct p2p_area *area);
void ori_p2p_context_unregister(struct oriel_p2p_context *ctx, struct p2p_area *area);

enum oriel_status ori_area_open(struct p2p_area *area, size_t length);
void ori_area_close(struct p2p_area *area);

void ori_p2p_context_add(struct oriel_p2p_context *ctx, struct oriel_p2p *p2p);
void ori_p2p_context_remove(struct oriel_p2p_context *ctx, struct oriel_p2p *p2p);
/* One more end keeps a slot for itself, whose number it is. */
enum oriel_status ori_p2p_context_take_spare(struct oriel_p2p_context *ctx, int *slot);
void ori_p2p_context_give_spare(struct oriel_p2p_context *ctx, int slot);

/* The socket of @from, if it has called @to. ORIEL_AGAIN: not yet. */
enum oriel_status ori_p2p_context_answer(struct oriel_p2p_context *ctx,
					 const struct p2p_token *from, const struct p2p_token *to,
					 int *fd);

/*
 * ORIEL_ERR_MISMATCH: the peer of @p2p, a communicator's, has not called it, but an end of
 * another mode that nobody has asked for here; it is told so, too. ORIEL_AGAIN: it has not.
 */
enum oriel_status ori_p2p_context_find_clash(struct oriel_p2p_context *ctx,
					     const struct oriel_p2p *p2p);

/* p2p_gpu.c */
/* That of the calling thread, or @like. What fails is closed with the hub. */
enum oriel_status ori_p2p_context_open_gpu(struct oriel_p2p_context *ctx,
					   const struct ori_gpu *like);
/* Whole pages of its memory, as the adapter knows them by @iova. */
enum oriel_status ori_p2p_context_register_gpu(struct oriel_p2p_context *ctx, char *address,
					       size_t length, uint64_t iova, struct ori_hca_mr **mr,
					       struct ori_hca_keys *keys);
/* For copies by the GPU; nothing without one. */
enum oriel_status ori_p2p_context_pin(struct oriel_p2p_context *ctx, struct p2p_area *area);
void ori_p2p_context_unpin(struct oriel_p2p_context *ctx, struct p2p_area *area);
enum oriel_status ori_p2p_context_query(const struct oriel_p2p_context *ctx, const void *address,
					bool *is_gpu);
/* Would memory of the GPU of @uuid be reached? 0 is none. */
bool ori_p2p_context_reaches(const struct oriel_p2p_context *ctx, const uint8_t uuid[ORI_GPU_UUID]);
/* What the adapter has written before is there for the GPU. */
enum oriel_status ori_p2p_context_flush(struct oriel_p2p_context *ctx);

/* p2p_mr_ref.c: memory that lasts as long as @request, which has none. */
enum p2p_mr_ref { P2P_MR_REF_NONE, P2P_MR_REF_PART, P2P_MR_REF_WHOLE };

enum oriel_status ori_mr_refs_open(struct oriel_p2p_context *ctx);
void ori_mr_refs_close(struct oriel_p2p_context *ctx);
enum oriel_status ori_mr_ref_take(struct oriel_p2p_context *ctx, struct oriel_p2p_request *request);
/* What no transfer uses now. */
void ori_mr_refs_drop_idle(struct oriel_p2p_context *ctx);
/* What the request does not hold is left alone. */
void ori_mr_ref_drop(struct oriel_p2p_context *ctx, struct oriel_p2p_request *request);

/* p2p_memory.c */
/* Is any of it the user's, or in use by a transfer? */
bool ori_memory_is_registered(struct oriel_p2p_context *ctx, const struct ori_mem *mem);
/* What the new adapter does not take says so from then on. */
void ori_memory_register_all_locked(struct oriel_p2p_context *ctx);
void ori_memory_stop(struct oriel_p2p_context *ctx);

#endif
