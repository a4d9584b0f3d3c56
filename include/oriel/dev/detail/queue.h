/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The word that says why a queue of any NIC is dead, and the wait of a thread for a queue. Rings,
 * the proxy and the links of the host use both.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_QUEUE_H
#define ORIEL_DEV_DETAIL_QUEUE_H

#include <oriel/dev/detail/answer.h>
#include <oriel/dev/detail/order.h>

/* States of a queue: the first failure ends it. */
enum ori_dev_queue_state {
	ORIEL_QUEUE_OK,
	ORIEL_QUEUE_ERROR_CQE, /* the HCA reported it in the CQE of the WQE */
	ORIEL_QUEUE_STRAY_CQE, /* the CQE of the WQE names another one */
	ORIEL_QUEUE_ABANDONED, /* a thread gave up after it had reserved the WQE */
	ORIEL_QUEUE_CONDEMNED, /* the host declared it dead */
};

/* Reasons why a NIC failed a request: those of an mlx5 CQE; other NICs report the nearest one. */
enum ori_dev_queue_syndrome {
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

/*
 * The side of a link whose memory is unordered: bytes that a NIC writes there may become
 * visible after the word that announces them. GPUs that do not order such writes are like that;
 * see docs/hardware.md.
 */
#define ORIEL_LINK_UNORDERED_LOCAL 1u
#define ORIEL_LINK_UNORDERED_REMOTE 2u
/*
 * The network between them may bring requests of one queue in another order. A request that
 * announces data, or replaces a word, starts when all before it has been acknowledged.
 */
#define ORIEL_LINK_UNORDERED_NETWORK 4u
/*
 * The peer is mapped as well: a word in its memory may announce a put that was flushed, before
 * any request of the NIC, so that a flush has to read the peer's memory.
 */
#define ORIEL_LINK_MAPPED_TOO 8u
/*
 * The first CPU thread that posts to the link connects it. Links that kernels post to are never
 * like that: they cannot wait for a thread of the host.
 */
#define ORIEL_LINK_DEMAND 16u
/*
 * A thread of the host polls the link for as long as others post to it, and leaves the cause of a
 * failure in @health.
 */
#define ORIEL_LINK_WATCHED 32u

struct oriel_dev_link {
	void *main; /* NULL until connected; its type depends on @post_kind: see ori_dev_link_main()
		     */
	struct ori_dev_mlx5_queue *companion; /* of the same time; NULL: rings without counters */
	struct oriel_dev_fault *health;       /* of the communicator; NULL if there is none */
	struct oriel_dev_fault *blame; /* where failures are recorded, as in a window's handle */
	struct ori_dev_link_answers *answers; /* NULL: threads have stacks that NICs reach */
	uint64_t timeout_ns;
	uint32_t spin;      /* polls before a CPU thread yields */
	uint32_t peer;      /* rank, for the health record */
	uint32_t rail;      /* the NIC at both ends, and the key of a table */
	uint16_t post_kind; /* enum ori_dev_link_post_kind, from the beginning */
	uint16_t unordered; /* ORIEL_LINK_UNORDERED_... and _MAPPED_TOO, as long as it has been
			       connected; ORIEL_LINK_DEMAND and _WATCHED, from the beginning */
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_link) == 64);

/*
 * The limits of a wait. Its slow polls read the link for the rest, which would take registers of
 * the kernel.
 */
struct ori_dev_link_wait_limits {
	const struct oriel_dev_link *link; /* NULL: of a queue alone */
	uint64_t timeout_ns; /* ORIEL_TIMEOUT_INFINITE for none; 0: that of the link */
	uint32_t spin;       /* polls before a CPU thread yields */
	uint32_t reserved;
};

ORIEL_DEV_ASSERT(sizeof(struct ori_dev_link_wait_limits) == 24);

struct ori_dev_link_waiter {
	const struct ori_dev_link_wait_limits *limits;
	uint64_t start;
	uint32_t polls;
	uint64_t late; /* on a CPU: the age at which oriel_cpu_late() is called */
};

ORIEL_DEV struct ori_dev_link_waiter
ori_dev_link_wait_begin(const struct ori_dev_link_wait_limits *limits)
{
	struct ori_dev_link_waiter waiter = {limits, 0, 0, 0};

	return waiter;
}

#ifndef __CUDA_ARCH__
/* The rank that waits is found by its communicator: a link does not have it. */
ORIEL_DEV_COLD uint64_t ori_dev_link_late(const struct oriel_dev_link *link, uint64_t limit_ns,
					  uint64_t age_ns)
{
	struct oriel_dev_fault record = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

	record.what = ORIEL_DEV_NIC;
	record.peer = link->peer;
	record.age_ns = age_ns;
	record.comm = (uintptr_t)link->health;
	return oriel_cpu_late(&record, ORIEL_EQ, limit_ns);
}
#endif

ORIEL_DEV_RARE enum oriel_status ori_dev_link_wait_slowly(struct ori_dev_link_waiter *waiter)
{
	const struct oriel_dev_link *link = waiter->limits->link;
	const struct oriel_dev_fault *health = link ? link->health : NULL;
	uint64_t limit = waiter->limits->timeout_ns, now = oriel_dev_clock_ns();
#ifdef __CUDA_ARCH__
	uint32_t asked = health ? ori_dev_load_relaxed32(&health->asked) : 0;
#endif

	if (link && !limit)
		limit = link->timeout_ns;
	if (health && ori_dev_load_acquire32(&health->state) == ORIEL_DEV_FAULT_FULL)
		return (enum oriel_status)health->status;
	if (!waiter->start)
		waiter->start = now;
	if (limit != ORIEL_TIMEOUT_INFINITE && now - waiter->start >= limit)
		return ORIEL_ERR_TIMEOUT;
#ifdef __CUDA_ARCH__
	if (health)
		ori_dev_answer_nic(health, asked, link->peer, now - waiter->start);
#else
	if (health && !ORIEL_DEV_OFTEN(now - waiter->start < waiter->late))
		waiter->late = ori_dev_link_late(link, limit, now - waiter->start);
#endif
	ori_dev_back_off(now - waiter->start);
	return ORIEL_AGAIN;
}

/* A poll found nothing, and nothing has failed. ORIEL_AGAIN: poll again. */
ORIEL_DEV enum oriel_status ori_dev_link_wait_again(struct ori_dev_link_waiter *waiter)
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
