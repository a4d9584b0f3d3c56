/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The word that says why a queue of any NIC is dead, and the wait of a thread for a queue. Rings,
 * the proxy and the links of the host use both.
 *
 * No API: this may change in any release.
 */
#ifndef ORIEL_DEV_DETAIL_QUEUE_H
#define ORIEL_DEV_DETAIL_QUEUE_H

#include <oriel/dev/detail/order.h>

/* States of a queue: the first failure ends it. */
enum oriel_queue_state {
	ORIEL_QUEUE_OK,
	ORIEL_QUEUE_ERROR_CQE, /* the HCA reported it in the CQE of the WQE */
	ORIEL_QUEUE_STRAY_CQE, /* the CQE of the WQE names another one */
	ORIEL_QUEUE_ABANDONED, /* a thread gave up after it had reserved the WQE */
	ORIEL_QUEUE_CONDEMNED, /* the host declared it dead */
};

/* Reasons why a NIC failed a request: those of an mlx5 CQE; other NICs report the nearest one. */
enum oriel_queue_syndrome {
	ORIEL_SYNDROME_LOCAL_LENGTH = 0x01,
	ORIEL_SYNDROME_LOCAL_OPERATION = 0x02,
	ORIEL_SYNDROME_LOCAL_PROTECTION = 0x04,
	ORIEL_SYNDROME_FLUSHED = 0x05,
	ORIEL_SYNDROME_WINDOW_BIND = 0x06,
	ORIEL_SYNDROME_BAD_RESPONSE = 0x10,
	ORIEL_SYNDROME_LOCAL_ACCESS = 0x11,
	ORIEL_SYNDROME_REMOTE_REQUEST = 0x12,
	ORIEL_SYNDROME_REMOTE_ACCESS = 0x13,
	ORIEL_SYNDROME_REMOTE_OPERATION = 0x14,
	ORIEL_SYNDROME_RETRY_EXCEEDED = 0x15,
	ORIEL_SYNDROME_NOT_READY_EXCEEDED = 0x16,
	ORIEL_SYNDROME_REMOTE_ABORTED = 0x22,
};

/* @wqe keeps its low 40 bits. */
ORIEL_DEV uint64_t ori_dev_queue_err(uint32_t state, uint32_t syndrome, uint32_t vendor,
				     uint64_t wqe)
{
	return (uint64_t)state << 56 | (uint64_t)syndrome << 48 | (uint64_t)vendor << 40 |
	       (wqe & (((uint64_t)1 << 40) - 1));
}

ORIEL_DEV uint32_t ori_dev_queue_err_state(uint64_t err)
{
	return (uint32_t)(err >> 56);
}

ORIEL_DEV uint32_t ori_dev_queue_err_syndrome(uint64_t err)
{
	return err >> 48 & 0xff;
}

ORIEL_DEV uint32_t ori_dev_queue_err_vendor(uint64_t err)
{
	return err >> 40 & 0xff;
}

ORIEL_DEV uint64_t ori_dev_queue_err_index(uint64_t err)
{
	return err & (((uint64_t)1 << 40) - 1);
}

/* The status of an err word for the caller. */
ORIEL_DEV_COLD enum oriel_status ori_dev_queue_err_status(uint64_t err)
{
	switch (ori_dev_queue_err_state(err)) {
	case ORIEL_QUEUE_OK:
		return ORIEL_OK;
	case ORIEL_QUEUE_ABANDONED:
		return ORIEL_ERR_TIMEOUT;
	case ORIEL_QUEUE_CONDEMNED:
		return ORIEL_ERR_STATE;
	case ORIEL_QUEUE_STRAY_CQE:
		return ORIEL_ERR_PROTOCOL;
	}
	switch (ori_dev_queue_err_syndrome(err)) {
	case ORIEL_SYNDROME_RETRY_EXCEEDED:
	case ORIEL_SYNDROME_NOT_READY_EXCEEDED:
	case ORIEL_SYNDROME_REMOTE_OPERATION:
	case ORIEL_SYNDROME_REMOTE_ABORTED:
		return ORIEL_ERR_PEER;
	case ORIEL_SYNDROME_FLUSHED:
		return ORIEL_ERR_STATE;
	}
	return ORIEL_ERR_ACCESS;
}

/* The limits of a wait. */
struct oriel_link_wait_limits {
	const struct oriel_dev_fault *health; /* broken once FULL; NULL if there is none */
	uint64_t timeout_ns;                  /* ORIEL_TIMEOUT_INFINITE for none */
	uint32_t spin;                        /* polls before a CPU thread yields */
	uint32_t reserved;
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_link_wait_limits) == 24);

struct oriel_link_waiter {
	const struct oriel_link_wait_limits *limits;
	uint64_t start;
	uint32_t polls;
};

ORIEL_DEV struct oriel_link_waiter
ori_dev_link_wait_begin(const struct oriel_link_wait_limits *limits)
{
	struct oriel_link_waiter waiter = {limits, 0, 0};

	return waiter;
}

ORIEL_DEV_RARE enum oriel_status ori_dev_link_wait_slowly(struct oriel_link_waiter *waiter)
{
	const struct oriel_link_wait_limits *limits = waiter->limits;
	uint64_t now = oriel_dev_clock_ns();

	if (limits->health &&
	    ori_dev_load_acquire32(&limits->health->state) == ORIEL_DEV_FAULT_FULL)
		return (enum oriel_status)limits->health->status;
	if (!waiter->start)
		waiter->start = now;
	if (limits->timeout_ns != ORIEL_TIMEOUT_INFINITE &&
	    now - waiter->start >= limits->timeout_ns)
		return ORIEL_ERR_TIMEOUT;
	ori_dev_back_off(now - waiter->start);
	return ORIEL_AGAIN;
}

/* A poll found nothing, and nothing has failed. ORIEL_AGAIN: poll again. */
ORIEL_DEV enum oriel_status ori_dev_link_wait_again(struct oriel_link_waiter *waiter)
{
	waiter->polls++;
#ifdef __CUDA_ARCH__
	/*
	 * The clock and the host word cost more than a poll; reading them every 64 polls is enough.
	 */
	if (waiter->polls % 64)
		return ORIEL_AGAIN;
#else
	if (waiter->polls < waiter->limits->spin) {
		oriel_dev_relax();
		return ORIEL_AGAIN;
	}
#endif
	return ori_dev_link_wait_slowly(waiter);
}

#endif
