/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma context: NICs, one for each rail, and memory that they know; and links over them.
 * A communicator opens it, and its p2p context shares it; a p2p context that stands alone
 * opens one. A link joins two NICs of one rail, one at each end. It exports an address and
 * takes the address of the other end; src/comm knows which rank has which address, this
 * folder does not.
 */
#ifndef ORI_RDMA_RDMA_H
#define ORI_RDMA_RDMA_H

#include <oriel/dev/detail/link.h>

#include "hca/hca.h"

struct ori_rdma;
struct ori_rdma_mr; /* memory that all its NICs know */
struct ori_rdma_link;
struct ori_rdma_heartbeat;

/* Both ends of a link have the same kind. Goes over the wire. */
enum ori_hca_kind {
	ORI_HCA_KIND_NONE, /* the rank needs none */
	ORI_HCA_KIND_SOFT,
	ORI_HCA_KIND_VERBS,
};

/* Does the network between NICs keep the order of requests? docs/rdma.md has the consequences. */
enum ori_rdma_order {
	ORI_RDMA_ORDER_DEFAULT, /* as ORIEL_NET_ORDER says */
	ORI_RDMA_ORDER_AUTO,    /* as the NICs say */
	ORI_RDMA_ORDERED,
	ORI_RDMA_RELAXED,
};

struct ori_rdma_attr {
	unsigned rails; /* at most ORIEL_DEV_RAILS; 0 = 1 */
	/* NULL, or the GPU whose memory NICs reach. It outlives the context. */
	const struct ori_gpu *gpu;
	const struct ori_hca_ops *hca; /* the backend; NULL: what the settings choose */
	const char *config;            /* ... of it, a text; NULL = defaults */
	enum ori_rdma_order order;
};

#define ORI_RDMA_WHY 640
#define ORI_RDMA_LACK 88 /* bytes of ori_rdma_lack(): its error fits a verdict of comm/ */

/* One reference to it is the caller's. */
enum oriel_status ori_rdma_open(const struct ori_rdma_attr *attr, struct ori_rdma **rdma);
/* One more reference, which ori_rdma_close() drops. */
struct ori_rdma *ori_rdma_ref(struct ori_rdma *rdma);
/*
 * Closes it with the last reference: all links are destroyed then, and all memory
 * unregistered. NULL is allowed.
 */
void ori_rdma_close(struct ori_rdma *rdma);

enum ori_hca_kind ori_rdma_kind(const struct ori_rdma *rdma);
/* The reason why no NIC was usable, if `auto` took the software HCA for it; else "". */
const char *ori_rdma_lack(const struct ori_rdma *rdma);
/* The reason for these NICs, of that tier, and not better ones; "" if there are none. */
const char *ori_rdma_why(const struct ori_rdma *rdma);
/*
 * Before links to other hosts: ORIEL_ERR_NO_PATH after `auto` took the software HCA. A job
 * that lost its NICs would be slower by orders of magnitude, without a message.
 */
enum oriel_status ori_rdma_check_remote(const struct ori_rdma *rdma);
unsigned ori_rdma_rails(const struct ori_rdma *rdma);
void ori_rdma_caps(const struct ori_rdma *rdma, unsigned rail, struct ori_hca_caps *caps);
/* For links that the host drives (rdma_host.h); @rdma outlives them. */
const struct ori_hca_ops *ori_rdma_ops(const struct ori_rdma *rdma);
struct ori_hca *ori_rdma_hca(const struct ori_rdma *rdma, unsigned rail);
/* See listen() of struct ori_hca_ops: that of all rails. */
enum oriel_status ori_rdma_listen(struct ori_rdma *rdma);
/*
 * May writes of a NIC to the GPU be invisible to it when the NIC reports them? Then the GPU
 * flushes them before the arrival is reported to it.
 */
bool ori_rdma_needs_flush(const struct ori_rdma *rdma);

/* The thread that posts what callers of device functions ask of a link. */
enum ori_rdma_post {
	ORI_RDMA_POST_AUTO,  /* the caller, if the NIC reads rings; else a proxy */
	ORI_RDMA_POST_RINGS, /* the caller */
	ORI_RDMA_POST_PROXY, /* a thread of the host */
};

struct ori_rdma_links_attr {
	uint32_t depth;                 /* WQEs of a main queue; 0: by blocks */
	uint32_t blocks;                /* that post to one peer at once; 0: unknown */
	struct oriel_dev_fault *health; /* the record that links write when they fail; or NULL */
	uint64_t timeout_ns;            /* default of waits on links */
	uint32_t spin;
	struct oriel_dev_fault
		*blame; /* where kernels write their failures; they only read @health */
	enum ori_rdma_post post;
	bool is_remote; /* peers are on other hosts or in other network namespaces */
	/*
	 * A thread of the caller polls each link, by ori_rdma_link_poll(), as long as others post
	 * to it, and leaves the cause of a failure in @health, for which they wait.
	 */
	bool is_watched;
	/*
	 * NULL, or: connects the link to @peer, at the first post of a CPU thread; see
	 * oriel_cpu_connect(). Not with a GPU.
	 */
	void (*connect)(void *context, unsigned peer);
	void *context; /* of it */
};

/*
 * Opens what links share. Call it once, before anything is registered, if links follow;
 * after a failure, close @rdma. Kernels of the GPU post to queues of their own.
 */
enum oriel_status ori_rdma_open_links(struct ori_rdma *rdma,
				      const struct ori_rdma_links_attr *attr);

enum ori_rdma_use {
	ORI_RDMA_OWN, /* only requests of this process name it; for results if it may be written */
	ORI_RDMA_SHARED, /* requests of peers write it, read it, and do atomics there as well */
	ORI_RDMA_TARGET, /* requests of peers only write it */
	/*
	 * The same, and the source of requests of this process, while one transfer lasts: memory
	 * of a GPU stays registered for a while, and may be freed without being unregistered.
	 */
	ORI_RDMA_PASSING_TARGET,
	ORI_RDMA_PASSING_SOURCE,
};

/*
 * Registers @address with every rail for @use, unless a registration that is held for all its
 * memory covers it and allows as much: then that one serves both. One that allows less stays
 * beside the new one, since its keys are in use. Peers name its first byte by the address that
 * ori_rdma_mr_local() returns: 0 where a page begins that nothing else has registered.
 */
enum oriel_status ori_rdma_register(struct ori_rdma *rdma, void *address, size_t length,
				    enum ori_rdma_use use, struct ori_rdma_mr **mr,
				    struct oriel_dev_keys *rkeys);
void ori_rdma_unregister(struct ori_rdma *rdma, struct ori_rdma_mr *mr);
/* Would ori_rdma_register() find all of it registered for @use? */
bool ori_rdma_serves(struct ori_rdma *rdma, const void *address, size_t length,
		     enum ori_rdma_use use);

/*
 * Requests name the first byte of @mr by *@address; those posted here its key by *@lkeys.
 * They must do so, instead of using the lkeys of all memory, if ori_rdma_finds_own() and
 * the memory is a GPU's.
 */
void ori_rdma_mr_local(const struct ori_rdma_mr *mr, uint64_t *address,
		       struct oriel_dev_keys *lkeys);
bool ori_rdma_finds_own(const struct ori_rdma *rdma);
/*
 * Kernels may name the allocation that holds @address in their requests, if it is memory
 * of the GPU. They may do so without this call unless ori_rdma_finds_own().
 */
enum oriel_status ori_rdma_reach(struct ori_rdma *rdma, const void *address);

/* Does a proxy post the requests of its links? */
bool ori_rdma_is_proxied(const struct ori_rdma *rdma);

/*
 * May DMA writes of NICs to memory of this process become visible after the word that
 * announces them? This is so for a GPU that does not order such writes. Its links then do
 * a read flush before they report that data arrived; peers that know of it do one before
 * they signal a put: see ori_rdma_link_set_unordered().
 */
bool ori_rdma_is_unordered(const struct ori_rdma *rdma);

/*
 * May the network bring requests of one queue in another order? All that announces data then
 * waits for it to be acknowledged: links of one end for which this holds do so, and others after
 * ori_rdma_link_set_unordered().
 */
bool ori_rdma_is_reordered(const struct ori_rdma *rdma);
const char *ori_rdma_why_reordered(const struct ori_rdma *rdma); /* if it is; static */

/* Requests that a main queue of a link holds, after ori_rdma_open_links(). */
uint32_t ori_rdma_depth(const struct ori_rdma *rdma);

/* lkeys of all memory of this process, at its own addresses: sources and results. */
const struct oriel_dev_keys *ori_rdma_whole_lkeys(const struct ori_rdma *rdma);

/* The address of the NIC of @rail: the part that the addresses of all its queues share. */
void ori_rdma_describe(const struct ori_rdma *rdma, unsigned rail,
		       struct ori_hca_qp_address *hca_address);

/* The queues at one end of a link, for the other end. Goes over the wire as it is. */
struct ori_rdma_qps {
	uint32_t main_qpn;
	uint32_t main_psn;
	uint32_t heartbeat_qpn;
	uint32_t heartbeat_psn;
	uint32_t kernel_qpn; /* 0: no kernels post at this end */
	uint32_t kernel_psn;
};

static_assert(sizeof(struct ori_rdma_qps) == 24, "goes over the wire");

/*
 * Makes a link of @rail to rank @peer (a number for records only) that has no queues and
 * rejects posts. One thread at a time creates, connects and destroys links; other threads
 * may meanwhile post to links that are ready.
 */
enum oriel_status ori_rdma_link_create(struct ori_rdma *rdma, unsigned peer, unsigned rail,
				       struct ori_rdma_link **link);

/*
 * The answers of ori_rdma_is_unordered() and ori_rdma_is_reordered() at the peer. Call it before
 * ori_rdma_link_open().
 */
void ori_rdma_link_set_unordered(struct ori_rdma_link *link, bool is_unordered, bool is_reordered);

/* The peer is mapped as well: see ORIEL_LINK_MAPPED_TOO. Call it before ori_rdma_link_open(). */
void ori_rdma_link_set_mapped(struct ori_rdma_link *link);

/*
 * Only few threads wait for its requests at once: its queues take less memory, and others wait for
 * room. Call it before ori_rdma_link_open().
 */
void ori_rdma_link_set_shallow(struct ori_rdma_link *link);
/* No post connects it, also where links are made on demand. */
void ori_rdma_link_set_eager(struct ori_rdma_link *link);

/* Makes the queues of @link; @qps is for the other end. On failure there are none. */
enum oriel_status ori_rdma_link_open(struct ori_rdma_link *link, struct ori_rdma_qps *qps);

/*
 * Connects the queues to @qps, which the other end has opened on @hca_address, its NIC of
 * the same rail. No thread may post before the other end has connected too: a queue that
 * is not connected drops a request, and the sender retries it only so often.
 */
enum oriel_status ori_rdma_link_connect(struct ori_rdma_link *link,
					const struct ori_hca_qp_address *hca_address,
					const struct ori_rdma_qps *qps);

/* Both ends have connected: every thread that sees the link may post. */
void ori_rdma_link_begin(struct ori_rdma_link *link);

/* Any thread: has it begun? It stays so until it is destroyed. */
bool ori_rdma_link_is_ready(const struct ori_rdma_link *link);

/* Back to the state that create() made, for a link that has not begun. */
void ori_rdma_link_close(struct ori_rdma_link *link);

/*
 * The handle that device functions take; the same from create() to destroy(). Borrowed
 * from the link.
 */
const struct oriel_dev_link *ori_rdma_link_device(const struct ori_rdma_link *link);

/*
 * The handle for kernels, in memory of the GPU; NULL without a GPU. It has queues of its
 * own, since atomics of a GPU and of the CPU do not exclude each other; it has none as
 * long as the other end has no GPU.
 */
const struct oriel_dev_link *ori_rdma_link_kernel(const struct ori_rdma_link *link);

/*
 * Polls once: has all that kernels have posted to @link completed? Returns ORIEL_AGAIN if
 * not yet; else the failure of the queue, or of the GPU.
 */
enum oriel_status ori_rdma_link_poll_kernels(const struct ori_rdma_link *link);

/*
 * A link that is ready has one more queue to its peer, the heartbeat queue: shallow, for
 * the host alone, which posts by calls. It still works when the main queue has failed, is
 * full, or cannot be posted to from the host.
 */
#define ORI_RDMA_PIECE 24u /* bytes at most */

struct ori_rdma_piece {
	uint64_t at; /* in memory of the peer */
	const void *data;
	uint32_t length;
};

/* The heartbeat queue of @link, which is open. One thread at a time calls the functions below. */
struct ori_rdma_heartbeat *ori_rdma_link_heartbeat(const struct ori_rdma_link *link);

/*
 * Writes up to four pieces, in their order, by the heartbeat queue of a link to memory
 * that the peer named @rkeys. It never waits: it returns
 * ORIEL_AGAIN if there is no room now, the failure of the queue if it is dead.
 */
enum oriel_status ori_rdma_heartbeat_post(struct ori_rdma_heartbeat *heartbeat,
					  const struct oriel_dev_keys *rkeys,
					  const struct ori_rdma_piece *pieces, unsigned count);

/* Is all that was posted there delivered? ORIEL_AGAIN: not yet. */
enum oriel_status ori_rdma_heartbeat_poll(struct ori_rdma_heartbeat *heartbeat);

/* The heartbeat queue is dead: the cause, as a health record. */
void ori_rdma_heartbeat_fault(const struct ori_rdma_heartbeat *heartbeat,
			      struct oriel_dev_fault *record);

/*
 * Polls once, for failures that no thread may be waiting for; true if the link, if ready,
 * has failed.
 */
bool ori_rdma_link_poll(const struct ori_rdma_link *link, struct oriel_dev_fault *record);

/*
 * Gives up the requests of @link, if ready: they end with errors, and on return the NIC
 * touches no memory for them. The heartbeat queue lives on.
 */
void ori_rdma_link_fail(const struct ori_rdma_link *link);

/* An event of a NIC outside any ring; each rail numbers queues of its own. */
struct ori_rdma_event {
	unsigned rail;
	struct ori_hca_event of;
};

/* @event as a health record; false if it is not an event of @link, or @link is not ready. */
bool ori_rdma_link_explain(const struct ori_rdma_link *link, const struct ori_rdma_event *event,
			   struct oriel_dev_fault *record);

/* No thread posts or waits any more; requests in flight are flushed. NULL is allowed. */
void ori_rdma_link_destroy(struct ori_rdma_link *link);

/* The failure of a queue whose ori_dev_queue_err() is @err; "" if there is none. Never NULL. */
const char *ori_rdma_error_text(uint64_t err);

/* Polls once for failures of the NICs; ORIEL_AGAIN if there is none. */
enum oriel_status ori_rdma_poll_event(struct ori_rdma *rdma, struct ori_rdma_event *event);

#endif
