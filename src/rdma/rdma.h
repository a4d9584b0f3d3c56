/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma transport: adapters, one for each rail, and links over them. A link
 * goes through the adapters of one rail at both ends. It yields an address and
 * takes one; who lives at an address is not known here.
 */
#ifndef ORI_RDMA_RDMA_H
#define ORI_RDMA_RDMA_H

#include <oriel/dev/link.h>

#include "hca/hca.h"
#include "hca/syndrome.h"

struct ori_rdma;
struct ori_rdma_mr; /* memory that all its adapters know */
struct ori_rdma_link;

/* Who posts what is asked for on links. */
enum ori_rdma_post {
	ORI_RDMA_POST_AUTO,  /* who asks, if the adapter reads rings; else a proxy */
	ORI_RDMA_POST_RINGS, /* who asks */
	ORI_RDMA_POST_PROXY, /* a thread of the host */
};

struct ori_rdma_attr {
	const struct ori_hca_ops *hca;  /* which adapters */
	const char *config;             /* its text, NULL = defaults */
	uint32_t depth;                 /* WQEs of a main queue; 0 = 1024 */
	struct oriel_dev_fault *health; /* what links break when they fail; or NULL */
	uint64_t timeout_ns;            /* default of waits on links */
	uint32_t spin;
	unsigned rails; /* at most ORIEL_DEV_RAILS; 0 = 1 */
	/* NULL, or kernels there post to queues of their own. It outlives the adapters. */
	const struct ori_gpu *gpu;
	struct oriel_dev_fault *blame; /* what kernels leave; they only read @health */
	enum ori_rdma_post post;
	bool is_remote; /* peers are on other hosts or in other network namespaces */
};

enum oriel_status ori_rdma_open(const struct ori_rdma_attr *attr, struct ori_rdma **rdma);
/* Links and memory are gone already. NULL is allowed. */
void ori_rdma_close(struct ori_rdma *rdma);

unsigned ori_rdma_rails(const struct ori_rdma *rdma);
void ori_rdma_caps(const struct ori_rdma *rdma, unsigned rail, struct ori_hca_caps *caps);

enum ori_rdma_use {
	ORI_RDMA_OWN,    /* what is posted here names it; for results if it may be written */
	ORI_RDMA_SHARED, /* peers do so as well */
};

/*
 * For all rails. The wire knows the first byte by the place that @address has in
 * its page: whole pages begin at 0.
 */
enum oriel_status ori_rdma_register(struct ori_rdma *rdma, void *address, size_t length,
				    enum ori_rdma_use use, struct ori_rdma_mr **mr,
				    struct oriel_dev_keys *rkeys);
void ori_rdma_unregister(struct ori_rdma *rdma, struct ori_rdma_mr *mr);

/*
 * What is posted here names @mr by *@address, of its first byte, and by *@lkeys. It has
 * to, instead of by the lkeys of all memory, if ori_rdma_finds_own() and it is a GPU's.
 */
void ori_rdma_mr_local(const struct ori_rdma_mr *mr, uint64_t *address,
		       struct oriel_dev_keys *lkeys);
bool ori_rdma_finds_own(const struct ori_rdma *rdma);
/*
 * Kernels may name the allocation that @address is of in what they post, if it is of the
 * GPU. They may do so anyhow unless ori_rdma_finds_own().
 */
enum oriel_status ori_rdma_reach(struct ori_rdma *rdma, const void *address);

/* Does a proxy post what is asked for on its links? */
bool ori_rdma_is_proxied(const struct ori_rdma *rdma);

/*
 * May what adapters write to memory here be seen after the word that tells of it? Of a GPU
 * that does not order such writes. Its links read before they tell that something has come;
 * peers do before they tell of what they put, if they are told: see ori_rdma_link_set_unordered().
 */
bool ori_rdma_is_unordered(const struct ori_rdma *rdma);

/* lkeys of all memory of this process, at its own addresses: sources and results. */
const struct oriel_dev_keys *ori_rdma_whole_lkeys(const struct ori_rdma *rdma);

/* Where the adapter of @rail is found: what the addresses of all its queues have in common. */
void ori_rdma_describe(const struct ori_rdma *rdma, unsigned rail,
		       struct ori_hca_qp_address *hca_address);

/* The queues of one end of a link, for the other end. Goes over the wire as it is. */
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
 * A link of @rail to rank @peer (for records only), which has no queues and
 * refuses what is posted. One thread at a time makes, joins and destroys links;
 * others may meanwhile post to those that are ready.
 */
enum oriel_status ori_rdma_link_create(struct ori_rdma *rdma, unsigned peer, unsigned rail,
				       struct ori_rdma_link **link);

/* Memory of the peer is late, see ori_rdma_is_unordered(). Before it is opened. */
void ori_rdma_link_set_unordered(struct ori_rdma_link *link);

/* Make its queues; @qps is for the other end. On failure there are none. */
enum oriel_status ori_rdma_link_open(struct ori_rdma_link *link, struct ori_rdma_qps *qps);

/*
 * Join the queues to @qps, which the other end has opened on @hca_address, that of
 * the same rail. Nobody
 * may post before the other end has done it too: what comes there earlier is
 * lost, and sent again only so often.
 */
enum oriel_status ori_rdma_link_connect(struct ori_rdma_link *link,
					const struct ori_hca_qp_address *hca_address,
					const struct ori_rdma_qps *qps);

/* Both ends have connected: whoever looks at the link may post. */
void ori_rdma_link_begin(struct ori_rdma_link *link);

/* Any thread: has it begun? It stays so until it is destroyed. */
bool ori_rdma_link_is_ready(const struct ori_rdma_link *link);

/* Back to what create() made, for a link that has not begun. */
void ori_rdma_link_close(struct ori_rdma_link *link);

/* What device functions take; the same from create() to destroy(). Borrowed from the link. */
const struct oriel_dev_link *ori_rdma_link_device(const struct ori_rdma_link *link);

/*
 * The same for kernels of the GPU, in its memory; NULL without a GPU. It has
 * queues of its own, since atomics of a GPU and of the CPU do not know of each
 * other; none as long as the other end has no GPU.
 */
const struct oriel_dev_link *ori_rdma_link_kernel(const struct ori_rdma_link *link);

/*
 * Look once: has all that kernels have posted to @link completed? ORIEL_AGAIN:
 * not yet; else the failure of the queue, or of the GPU.
 */
enum oriel_status ori_rdma_link_poll_kernels(const struct ori_rdma_link *link);

/*
 * A link that is ready has one more queue to its peer, shallow and for the host
 * alone, which posts by calls: it still works when the main queue has failed, is
 * full, or cannot be posted to from here.
 */
#define ORI_RDMA_PIECE 24u /* bytes at most */

struct ori_rdma_piece {
	uint64_t at; /* in memory of the peer */
	const void *data;
	uint32_t length;
};

/*
 * Write up to four pieces to what the peer knows as @rkeys, in their order, by
 * the pulse queue of @link. One thread at a time; never waits: ORIEL_AGAIN if
 * there is no room now, the failure of the queue if it is dead.
 */
enum oriel_status ori_rdma_heartbeat_post(const struct ori_rdma_link *link,
					  const struct oriel_dev_keys *rkeys,
					  const struct ori_rdma_piece *pieces, unsigned count);

/* Is all that was posted there delivered? ORIEL_AGAIN: not yet. */
enum oriel_status ori_rdma_heartbeat_poll(const struct ori_rdma_link *link);

/* The pulse queue is dead: why, as the health has it. */
void ori_rdma_heartbeat_fault(const struct ori_rdma_link *link, struct oriel_dev_fault *record);

/* Look once at what nobody may be waiting for; true if the link, if ready, has failed. */
bool ori_rdma_link_poll(const struct ori_rdma_link *link, struct oriel_dev_fault *record);

/*
 * Give up what is posted to @link, if ready: its requests end with errors, and on
 * return the adapter touches no memory for them. The pulse queue lives on.
 */
void ori_rdma_link_fail(const struct ori_rdma_link *link);

/* Something that happened outside any ring; each rail numbers queues of its own. */
struct ori_rdma_event {
	unsigned rail;
	struct ori_hca_event of;
};

/* @event as the health has it; false if it is not of @link, or that is not ready. */
bool ori_rdma_link_explain(const struct ori_rdma_link *link, const struct ori_rdma_event *event,
			   struct oriel_dev_fault *record);

/* Nobody posts or waits any more; what is in flight is flushed. NULL is allowed. */
void ori_rdma_link_destroy(struct ori_rdma_link *link);

/* Look once for trouble with the adapters; ORIEL_AGAIN if there is none. */
enum oriel_status ori_rdma_poll_event(struct ori_rdma *rdma, struct ori_rdma_event *event);

#endif
