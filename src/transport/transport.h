/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma transport: an adapter, and links over it. A link yields an address
 * and takes one; who lives at an address is not known here.
 */
#ifndef ORI_TRANSPORT_TRANSPORT_H
#define ORI_TRANSPORT_TRANSPORT_H

#include <oriel/dev/link.h>

#include "hca/hca.h"

struct ori_rdma;
struct ori_rdma_link;

struct ori_rdma_attr {
	const struct ori_hca_ops *hca;  /* which adapter */
	const char *config;             /* its text, NULL = defaults */
	uint32_t depth;                 /* WQEs of a main queue; 0 = 1024 */
	struct oriel_dev_fault *health; /* what links break when they fail; or NULL */
	uint64_t timeout_ns;            /* default of waits on links */
	uint32_t spin;
};

enum oriel_status ori_rdma_open(const struct ori_rdma_attr *attr, struct ori_rdma **rdma);
/* Links and memory are gone already. NULL is allowed. */
void ori_rdma_close(struct ori_rdma *rdma);

void ori_rdma_caps(const struct ori_rdma *rdma, struct ori_hca_caps *caps);

/* Known to the wire from address 0 on, for all that a link may do with memory. */
enum oriel_status ori_rdma_register(struct ori_rdma *rdma, void *address, size_t length,
				    struct ori_hca_mr **mr, struct ori_hca_keys *keys);

/* lkey of all memory of this process, at its own addresses: sources and results. */
uint32_t ori_rdma_whole_lkey(const struct ori_rdma *rdma);

void ori_rdma_unregister(struct ori_rdma *rdma, struct ori_hca_mr *mr);

/*
 * Queues for a link to rank @peer (for records only). The link's memory lives
 * as long as it does; @address is for the other end.
 */
enum oriel_status ori_rdma_link_create(struct ori_rdma *rdma, unsigned peer,
				       struct ori_rdma_link **link,
				       struct ori_hca_qp_address *address);

/* Both ends do it; then both may post. */
enum oriel_status ori_rdma_link_connect(struct ori_rdma_link *link,
					const struct ori_hca_qp_address *address);

/* What device functions take. Borrowed from the link. */
const struct oriel_dev_link *ori_rdma_link_device(const struct ori_rdma_link *link);

/* Nobody posts or waits any more; what is in flight is flushed. NULL is allowed. */
void ori_rdma_link_destroy(struct ori_rdma_link *link);

/* Look once for trouble with the adapter; ORIEL_AGAIN if there is none. */
enum oriel_status ori_rdma_poll_event(struct ori_rdma *rdma, struct ori_hca_event *event);

#endif
