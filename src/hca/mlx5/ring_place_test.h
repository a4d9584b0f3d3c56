/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of a queue of a ConnectX HCA; tests/fakemlx5 and tests/hw post to it. */
#ifndef ORI_HCA_MLX5_RING_PLACE_TEST_H
#define ORI_HCA_MLX5_RING_PLACE_TEST_H

#include <string.h>

#include <oriel/dev/detail/mlx5_ring.h>

#include "hca/hca.h"

/* @ring is that of @qp, empty, of @depth WQEs. */
static inline void ring_place(struct ori_dev_mlx5_queue *ring, const struct ori_hca_caps *caps,
			      struct ori_hca_qp *qp, uint32_t qpn, uint32_t cqn, uint32_t depth)
{
	struct ori_hca_queue_memory place;

	caps->rings->place(qp, &place);
	memset(ring, 0, sizeof(*ring));
	ring->sq = place.sq;
	ring->cq = place.cq;
	ring->record = place.record;
	ring->doorbell = place.doorbell;
	ring->asleep = place.asleep;
	ring->qpn = qpn;
	ring->cqn = cqn;
	ring->log_depth = 31 - (unsigned)__builtin_clz(depth);
	ring->flags = caps->is_atomic_host_endian ? 0 : ORIEL_MLX5_ATOMICS_SWAPPED;
	ori_dev_mlx5_queue_begin(ring, 0);
}

#endif
