/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the loopback link of a NIC, steps it and drains it. Lanes of the proxy (rdma_proxy.c)
 * use it for counters and read flushes, and its thread steps it.
 */
#include "rdma/rdma_loopback.h"

#include <oriel/dev/detail/queue.h>

#include "base/clock.h"

#define LOOPBACK_DEPTH 256u
#define LOOPBACK_TIMEOUT_NS 1000000000u

enum oriel_status ori_loopback_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
				    uint32_t sink_lkey, struct ori_host_link **loopback)
{
	struct ori_host_attr attr = {
		.ops = ops,
		.hcas = {hca},
		.depth = LOOPBACK_DEPTH,
		.operations = LOOPBACK_DEPTH,
		.immediates = ORI_HOST_NONE,
		.sink_lkey = sink_lkey,
	};
	struct ori_hca_qp_address address;
	struct ori_host_link *link;
	struct ori_host_qps end;
	enum oriel_status status = ori_host_create(&attr, &link, &end);

	if (status != ORIEL_OK)
		return status;
	ops->describe(hca, &address);
	status = ori_host_connect(link, &address, &end);
	if (status != ORIEL_OK) {
		ori_host_destroy(link);
		return status;
	}
	*loopback = link;
	return ORIEL_OK;
}

bool ori_loopback_step(struct ori_host_link *link)
{
	uint32_t before = ori_host_in_flight(link);

	if (!before)
		return false;
	/* Lanes ask why it failed. */
	(void)ori_host_progress(link);
	return ori_host_in_flight(link) != before;
}

void ori_loopback_drain(struct ori_host_link *link)
{
	uint64_t start = ori_clock_ns(), deadline = ori_deadline(LOOPBACK_TIMEOUT_NS);
	struct ori_host_failure late = {.status = ORIEL_ERR_STATE};

	while (ori_host_in_flight(link)) {
		if (ori_loopback_step(link))
			continue;
		late.err = ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, ORIEL_SYNDROME_FLUSHED, 0,
					     ori_host_done(link));
		if (ori_deadline_passed(deadline))
			ori_host_fail(link, &late);
		oriel_cpu_back_off(ori_clock_ns() - start);
	}
}
