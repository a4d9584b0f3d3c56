/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of requests for a thread of the host, the proxy, which posts them to an HCA whose
 * queues no other thread can write to. Links post to it. Any number of threads publish
 * requests; the proxy takes them, in the order of the ring.
 *
 * Indices count entries from the first ever and never wrap:
 *   completed <= tail <= resv, and for all threads that may fill their entries resv <= tail + depth
 * An entry that the proxy has copied, below tail, is free for another one; its request is done
 * once it is below completed.
 *
 * A post is reserve, fill in, publish: its entries follow each other, and the stamp of the
 * first one, stored last, says that all are filled in. Between reserve and publish the poster
 * does not wait for anything: it would hold up all entries behind.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_PROXY_H
#define ORIEL_DEV_DETAIL_PROXY_H

#include <oriel/dev/detail/mlx5.h>
#include <oriel/dev/detail/order_gpu.h>

/* Key of memory of this process for which the proxy looks up one, by its address. */
#define ORIEL_PROXY_LOOKUP UINT32_MAX

enum ori_dev_proxy_operation {
	ORIEL_PROXY_NOTHING, /* no entry */
	ORIEL_PROXY_WRITE,
	ORIEL_PROXY_WRITE_VALUE, /* the 8 bytes of the operand */
	ORIEL_PROXY_READ,
	ORIEL_PROXY_ADD,        /* the operand to 8 bytes of the peer */
	ORIEL_PROXY_FETCH_ADD,  /* the same, and return the old value */
	ORIEL_PROXY_READ_FLUSH, /* read 8 bytes of the peer; no thread uses them */
	ORIEL_PROXY_COUNT,      /* the operand to 8 local bytes, once all before is done */
	/* The operand in place of @compare, in 8 bytes of the peer, and return the old value. */
	ORIEL_PROXY_COMPARE_SWAP,
};

/* The condition for its start. */
enum ori_dev_proxy_fence_kind {
	ORIEL_PROXY_FENCE_NONE,
	ORIEL_PROXY_FENCE_ALL, /* when everything before it is done */
};

/*
 * One line. Entry @index of a post of @count begins with stamp count << 48 | (index + 1) %
 * 2^48, which no earlier entry in this slot has had, nor one that is zero; the stamps of the
 * other entries of the post are not read.
 */
struct ori_dev_proxy_entry {
	uint64_t local;  /* address in this process */
	uint64_t remote; /* as the HCA of the peer knows it */
	uint64_t operand;
	uint64_t keys;    /* rkey << 32 | lkey */
	uint64_t what;    /* length << 32 | enum ori_dev_proxy_fence_kind << 8 | enum
			     ori_dev_proxy_operation */
	uint64_t compare; /* of a COMPARE_SWAP */
	uint64_t reserved;
	uint64_t stamp;
};

ORIEL_DEV_ASSERT(sizeof(struct ori_dev_proxy_entry) == 64);
ORIEL_DEV_ASSERT(offsetof(struct ori_dev_proxy_entry, stamp) == 56);

#define ORIEL_PROXY_STAMP_BITS 48

/* The words that the proxy writes. Only the proxy writes them. Aligned to ORIEL_DEV_LINE. */
struct ori_dev_proxy_words {
	uint64_t completed; /* all below are done */
	uint64_t err;       /* ori_dev_queue_err(); 0 while it works */
	uint64_t tail;      /* all below have been copied */
	uint64_t is_over;   /* the HCA has released all requests, and the proxy takes no more */
	uint64_t failed;    /* enum ori_dev_proxy_operation of the entry in err; before err */
	uint64_t failed_at; /* ... and the memory of this process that it named, if it did */
	uint64_t failed_length;
	uint64_t reserved[9];
};

ORIEL_DEV_ASSERT(sizeof(struct ori_dev_proxy_words) == ORIEL_DEV_LINE);

/* Results of atomics are big-endian. */
#define ORIEL_PROXY_ATOMICS_SWAPPED 1u

/*
 * Lives in memory that posters reach, which are the threads of one GPU or those of
 * the CPU, aligned to ORIEL_DEV_LINE. Entries and words lie where the proxy reaches
 * them too.
 */
struct ori_dev_proxy_ring {
	/* Never changes while any thread posts. */
	struct ori_dev_proxy_entry *entries; /* [depth] */
	struct ori_dev_proxy_words *words;
	uint32_t *asleep; /* not 0: the proxy's thread sleeps; NULL where posters cannot help it */
	void *seat;       /* see oriel_cpu_ask_proxy(); NULL if @asleep is */
	uint32_t number;  /* of the queue that it posts to, for records */
	uint32_t log_depth; /* depth is at most ORIEL_MLX5_DEPTH_MAX, at least 2 */
	uint32_t flags;
	uint32_t reserved0[21];

	uint64_t resv; /* the next to hand out */
	uint64_t reserved1[15];
	uint64_t room; /* tail, as far as any thread has polled */
	uint64_t reserved2[15];
	uint64_t done; /* completed, as far as any thread has polled */
	uint64_t reserved3[15];
	uint64_t err; /* the first cause, of a poster or of the proxy */
	uint64_t reserved4[15];
};

ORIEL_DEV_ASSERT(sizeof(struct ori_dev_proxy_ring) == 5 * ORIEL_DEV_LINE);
ORIEL_DEV_ASSERT(offsetof(struct ori_dev_proxy_ring, resv) == ORIEL_DEV_LINE);
ORIEL_DEV_ASSERT(offsetof(struct ori_dev_proxy_ring, err) == 4 * ORIEL_DEV_LINE);

ORIEL_DEV uint64_t ori_dev_proxy_depth(const struct ori_dev_proxy_ring *r)
{
	return (uint64_t)1 << r->log_depth;
}

ORIEL_DEV struct ori_dev_proxy_entry *ori_dev_proxy_slot(const struct ori_dev_proxy_ring *r,
							 uint64_t index)
{
	return &r->entries[index & (ori_dev_proxy_depth(r) - 1)];
}

ORIEL_DEV uint64_t ori_dev_proxy_stamp(uint64_t index, uint32_t count)
{
	return (uint64_t)count << ORIEL_PROXY_STAMP_BITS |
	       ((index + 1) & (((uint64_t)1 << ORIEL_PROXY_STAMP_BITS) - 1));
}

/* Entries of the post that @stamp begins at @index; 0: it has not been published. */
ORIEL_DEV uint32_t ori_dev_proxy_stamp_count(uint64_t stamp, uint64_t index)
{
	return (stamp ^ (index + 1)) << (64 - ORIEL_PROXY_STAMP_BITS)
		       ? 0
		       : (uint32_t)(stamp >> ORIEL_PROXY_STAMP_BITS);
}

/* One thread. Those of @remote, @local, @operand and @length that are not needed are 0. */
ORIEL_DEV void ori_dev_proxy_fill(const struct ori_dev_proxy_ring *r, uint64_t index,
				  uint32_t opcode, uint32_t fence,
				  struct ori_dev_rdma_address remote,
				  struct ori_dev_rdma_address local, uint64_t operand,
				  uint32_t length)
{
	void *slot = ori_dev_proxy_slot(r, index);

	ori_dev_mlx5_segment(slot, 0, local.address, remote.address);
	ori_dev_mlx5_segment(slot, 1, operand, (uint64_t)remote.key << 32 | local.key);
	ori_dev_mlx5_segment(slot, 2, (uint64_t)length << 32 | fence << 8 | opcode, 0);
}

/* One thread, behind ori_dev_proxy_fill(): the value that a COMPARE_SWAP expects. */
ORIEL_DEV void ori_dev_proxy_expect(const struct ori_dev_proxy_ring *r, uint64_t index,
				    uint64_t compare)
{
	ori_dev_proxy_slot(r, index)->compare = compare;
}

ORIEL_DEV uint32_t ori_dev_proxy_opcode(const struct ori_dev_proxy_entry *e)
{
	return (uint32_t)e->what & 0xff;
}

ORIEL_DEV uint32_t ori_dev_proxy_fence(const struct ori_dev_proxy_entry *e)
{
	return (uint32_t)e->what >> 8 & 0xff;
}

ORIEL_DEV uint32_t ori_dev_proxy_length(const struct ori_dev_proxy_entry *e)
{
	return (uint32_t)(e->what >> 32);
}

/* The operation that the user called. */
ORIEL_DEV_COLD uint32_t ori_dev_proxy_what(uint64_t opcode, uint32_t what)
{
	switch (opcode) {
	case ORIEL_PROXY_WRITE:
	case ORIEL_PROXY_WRITE_VALUE:
		return ORIEL_DEV_PUT;
	case ORIEL_PROXY_READ:
		return ORIEL_DEV_GET;
	case ORIEL_PROXY_ADD:
		return ORIEL_DEV_SIGNAL;
	case ORIEL_PROXY_FETCH_ADD:
		return ORIEL_DEV_FETCH_ADD;
	case ORIEL_PROXY_COMPARE_SWAP:
		return ORIEL_DEV_ATOMIC;
	case ORIEL_PROXY_READ_FLUSH:
		return ORIEL_DEV_FLUSH;
	case ORIEL_PROXY_COUNT:
		return ORIEL_DEV_COUNTER;
	}
	return what;
}

/* The 8 bytes that an atomic returned, in the order of the machine. */
ORIEL_DEV uint64_t ori_dev_proxy_atomic_result(const struct ori_dev_proxy_ring *r, uint64_t word)
{
	return r->flags & ORIEL_PROXY_ATOMICS_SWAPPED ? ori_dev_swap_bytes(word) : word;
}

/* Any thread: @r fails with @err, unless it has failed before. */
ORIEL_DEV_COLD void ori_dev_proxy_condemn(struct ori_dev_proxy_ring *r, uint64_t err)
{
	uint64_t well = 0;

	(void)ori_dev_swap_acq_rel_gpu(&r->err, &well, err);
}

/* ORIEL_OK while the ring works, as far as any thread has polled. */
ORIEL_DEV enum oriel_status ori_dev_proxy_health(const struct ori_dev_proxy_ring *r)
{
	uint64_t err = ori_dev_load_relaxed_gpu(&r->err);

	return err ? ori_dev_queue_err_status(err) : ORIEL_OK;
}

/*
 * Any thread: poll the progress of the proxy, and whether it has failed. A request that was
 * done before the failure is known to be done before the failure is known.
 */
ORIEL_DEV void ori_dev_proxy_progress(struct ori_dev_proxy_ring *r)
{
	const struct ori_dev_proxy_words *words = r->words;
	uint64_t completed, err;

	ori_dev_load_pair_relaxed(&words->completed, &completed, &err);
	if (err) {
		/* Acquires completed, and failed, as they were when err was released. */
		err = ori_dev_acquire(&words->err, err);
		completed = oriel_dev_load_relaxed(&words->completed);
	}
	if (completed > ori_dev_load_relaxed_gpu(&r->done))
		/*
		 * Acquires the writes of the HCA; done passes them on to any thread that
		 * acquires it.
		 */
		ori_dev_max_release_gpu(&r->done, ori_dev_acquire(&words->completed, completed));
	if (err)
		ori_dev_proxy_condemn(r, err);
}

/* Any thread: is entry @index done, as far as any thread has polled? */
ORIEL_DEV bool ori_dev_proxy_is_done(const struct ori_dev_proxy_ring *r, uint64_t index)
{
	return ori_dev_load_acquire_gpu(&r->done) > index;
}

/*
 * Any thread: has the HCA released entry @index, which is published? Also one that failed or
 * was never begun.
 */
ORIEL_DEV_COLD bool ori_dev_proxy_is_over(const struct ori_dev_proxy_ring *r, uint64_t index)
{
	return oriel_dev_load_acquire(&r->words->completed) > index ||
	       oriel_dev_load_acquire(&r->words->is_over);
}

/*
 * Any thread: poll once whether entry @index is done. ORIEL_AGAIN if not. An entry that was
 * done before the ring failed counts as done.
 */
ORIEL_DEV enum oriel_status ori_dev_proxy_poll(struct ori_dev_proxy_ring *r, uint64_t index)
{
	enum oriel_status status;

	if (ori_dev_proxy_is_done(r, index))
		return ORIEL_OK;
	ori_dev_proxy_progress(r);
	if (ori_dev_proxy_is_done(r, index))
		return ORIEL_OK;
	status = ori_dev_proxy_health(r);
	return status == ORIEL_OK ? ORIEL_AGAIN : status;
}

/* Does the thread of the proxy sleep, where the caller can do its work? */
ORIEL_DEV bool ori_dev_proxy_is_asleep(const struct ori_dev_proxy_ring *r)
{
#ifdef __CUDA_ARCH__
	(void)r;
	return false;
#else
	return r->asleep && ori_dev_load_relaxed32(r->asleep);
#endif
}

/* Does the work of the proxy if that sleeps and the caller can; false if not. */
ORIEL_DEV bool ori_dev_proxy_help(const struct ori_dev_proxy_ring *r)
{
#ifdef __CUDA_ARCH__
	(void)r;
	return false;
#else
	if (!ori_dev_proxy_is_asleep(r))
		return false;
	oriel_cpu_help_proxy(r->seat);
	return true;
#endif
}

/* A poll found nothing. ORIEL_AGAIN: poll again. */
ORIEL_DEV enum oriel_status ori_dev_proxy_wait_step(const struct ori_dev_proxy_ring *r,
						    struct ori_dev_link_waiter *waiter)
{
	enum oriel_status status = ori_dev_proxy_health(r);

	(void)ori_dev_proxy_help(r);
	return status == ORIEL_OK ? ori_dev_link_wait_again(waiter) : status;
}

/* Any thread: wait until entry @index is done. Its source may then be written. */
ORIEL_DEV enum oriel_status ori_dev_proxy_wait(struct ori_dev_proxy_ring *r, uint64_t index,
					       const struct ori_dev_link_wait_limits *limits)
{
	struct ori_dev_link_waiter waiter = ori_dev_link_wait_begin(limits);
	enum oriel_status status;

	for (;;) {
		status = ori_dev_proxy_poll(r, index);
		if (status != ORIEL_AGAIN)
			return status;
		/*
		 * To back off before polling for the result may cost a time slice of the core.
		 */
		if (ori_dev_proxy_help(r) && ori_dev_proxy_poll(r, index) == ORIEL_OK)
			return ORIEL_OK;
		status = ori_dev_link_wait_again(&waiter);
		if (status != ORIEL_AGAIN)
			return status;
	}
}

/* Any thread: poll how many entries the proxy has copied. */
ORIEL_DEV void ori_dev_proxy_make_room(struct ori_dev_proxy_ring *r)
{
	uint64_t tail = oriel_dev_load_relaxed(&r->words->tail);

	/* Acquires that the proxy has read the slots. */
	if (tail > ori_dev_load_relaxed_gpu(&r->room))
		ori_dev_max_release_gpu(&r->room, ori_dev_acquire(&r->words->tail, tail));
	else
		ori_dev_proxy_progress(r);
}

/*
 * Any thread: @count entries from *@base on are the caller's to fill in and to
 * publish. At most half the depth, else ORIEL_ERR_RANGE; after any other failure
 * the ring is dead.
 */
ORIEL_DEV enum oriel_status ori_dev_proxy_reserve(struct ori_dev_proxy_ring *r, uint32_t count,
						  const struct ori_dev_link_wait_limits *limits,
						  uint64_t *base)
{
	struct ori_dev_link_waiter waiter = ori_dev_link_wait_begin(limits);
	uint64_t depth = ori_dev_proxy_depth(r), first;
	enum oriel_status status = ori_dev_proxy_health(r);

	if (status != ORIEL_OK)
		return status;
	if (!count || count > depth / 2)
		return ORIEL_ERR_RANGE;
	first = ori_dev_fetch_add_relaxed_gpu(&r->resv, count);
	/* Acquires that the proxy has read the slots; see ori_dev_proxy_make_room(). */
	while (first + count > ori_dev_load_acquire_gpu(&r->room) + depth) {
		ori_dev_proxy_make_room(r);
		if (first + count <= ori_dev_load_relaxed_gpu(&r->room) + depth)
			continue;
		status = ori_dev_proxy_wait_step(r, &waiter);
		if (status != ORIEL_AGAIN) {
			/*
			 * A reservation cannot be returned: the proxy never takes anything
			 * behind it.
			 */
			ori_dev_proxy_condemn(r, ori_dev_queue_err(ORIEL_QUEUE_ABANDONED, 0, 0,
								   first));
			return status;
		}
	}
	*base = first;
	return ORIEL_OK;
}

/*
 * The thread that reserved, or the leader of its group after a sync: the entries are filled in.
 * Never waits.
 */
ORIEL_DEV void ori_dev_proxy_publish(struct ori_dev_proxy_ring *r, uint64_t base, uint32_t count)
{
	/* Acquired by the proxy: entries and payload are visible before the stamp is. */
	oriel_dev_store_release(&ori_dev_proxy_slot(r, base)->stamp,
				ori_dev_proxy_stamp(base, count));
#ifndef __CUDA_ARCH__
	/* The proxy sets asleep, does a full fence and reads the stamp once more. */
	if (r->asleep) {
		ori_dev_fence_full();
		if (ori_dev_proxy_is_asleep(r))
			oriel_cpu_ask_proxy(r->seat);
	}
#endif
}

/* All below have been handed out. */
ORIEL_DEV uint64_t ori_dev_proxy_reserved(const struct ori_dev_proxy_ring *r)
{
	return ori_dev_load_relaxed_gpu(&r->resv);
}

#endif
