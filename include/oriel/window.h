/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window: memory of every rank that every rank can reach, with signals,
 * barriers, counters and channels. This is the host object; oriel/dev.h has
 * the operations for kernels and CPU threads, with the full contracts.
 *
 *   oriel_window_create(comm, &attr, &window);
 *   oriel_window_put_signal(window, peer, 0, from, length, id, 1);
 *   oriel_window_wait_signal_next(window, source, id, 1, ORIEL_TIMEOUT_DEFAULT);
 */
#ifndef ORIEL_WINDOW_H
#define ORIEL_WINDOW_H

#include <oriel/comm.h>
#include <oriel/dev/types.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_window;

/* For counts where 0 means default: none at all. */
#define ORIEL_NONE UINT32_MAX

enum oriel_window_flags {
	ORIEL_WINDOW_HUGE = 1,   /* huge pages for what the window allocates */
	ORIEL_WINDOW_SPARSE = 2, /* on all ranks: makes no links; see oriel_window_create() */
	/*
	 * All that the window allocates lies on the GPU of the communicator, which
	 * needs ORIEL_COMM_GPU, and the handle is for kernels. Equal on all ranks.
	 */
	ORIEL_WINDOW_DEVICE = 4,
	/*
	 * Every peer is reached by the rdma path, mapped ones too, for which the communicator needs
	 * ORIEL_COMM_BOTH_PATHS. Equal on all ranks; see oriel_window_create().
	 */
	ORIEL_WINDOW_RDMA = 8,
	/*
	 * The library's collectives set one of these, equal on all ranks: a timeout then names the
	 * collective that a rank has not started, on all ranks.
	 */
	ORIEL_WINDOW_ALLGATHER = 1 << 8,
	ORIEL_WINDOW_ALLTOALL = 2 << 8,
	ORIEL_WINDOW_BCAST = 3 << 8,
	ORIEL_WINDOW_ALLREDUCE = 4 << 8,
	ORIEL_WINDOW_REDUCE_SCATTER = 5 << 8,
	ORIEL_WINDOW_REDUCE = 6 << 8,
	ORIEL_WINDOW_GATHER = 7 << 8,
	ORIEL_WINDOW_SCATTER = 8 << 8,
};

/*
 * The agent that executes the atomics on a window's data: CPUs, GPUs and each NIC do not see each
 * other's atomics, so that those of two agents on one word lose updates.
 */
enum oriel_atomics {
	/*
	 * One agent where the window has one: MAPPED if no rank is reached by rdma, else HCA if
	 * each rank drives one NIC and the window is not sparse. Else processors execute atomics on
	 * mapped words and NICs the others, and the program keeps each word to one agent, or asks
	 * for one.
	 */
	ORIEL_ATOMICS_DEFAULT,
	/* The processors. ORIEL_ERR_UNSUPPORTED if a rank is reached by rdma. */
	ORIEL_ATOMICS_MAPPED,
	/*
	 * The NIC of the word's owner, for the rank itself and mapped ranks, too: their other
	 * operations stay on their paths. If a rank drives several NICs, the first
	 * is the agent, and the first such window of a communicator makes one more link to each
	 * rank whose own link is of another one, in any mode of connecting. ORIEL_ERR_UNSUPPORTED
	 * if ranks drive no NIC, since all are mapped (ORIEL_COMM_BOTH_PATHS opens them).
	 */
	ORIEL_ATOMICS_HCA,
	/* The processor of the word's owner: ORIEL_ERR_UNSUPPORTED (docs/memory-model.md). */
	ORIEL_ATOMICS_OWNER,
};

/*
 * Zero means default for every field. The counts must be equal on all ranks;
 * lengths and buffers may differ.
 */
struct oriel_window_attr {
	size_t size;       /* of this struct, as the caller knew it */
	void *buffer;      /* memory to expose as buffer 0; NULL: the window allocates it, zeroed */
	size_t length;     /* of buffer 0 in bytes; may be 0 with buffer NULL */
	unsigned flags;    /* enum oriel_window_flags */
	uint32_t signals;  /* words that each rank may change at each other; default 64 */
	uint32_t barriers; /* slots; default 16 */
	uint32_t counters; /* per peer; default 16 */
	uint32_t channels; /* per pair of ranks and direction; default 0: no send, no recv */
	uint32_t channel_bytes; /* staging of one; a power of two >= 4096; default 64 KiB; GPUs
				 * want more: oriel/dev/channel.h */
	uint32_t buffers;       /* how many may be shared in all; default 8, at most 65535 */
	uint32_t atomics;       /* enum oriel_atomics, equal on all ranks */
	uint32_t peer_count;    /* of @peers */
	uint32_t reserved;      /* 0 */
	const uint32_t *peers;  /* ranks, in any order, whose links the window makes; NULL: all */
};

/*
 * Collective: all ranks call it in one order and all get the same status. @comm must outlive
 * the window, and so must a @buffer given, which follows the rules of oriel_region_share().
 * @attr may be NULL. ORIEL_ERR_MISMATCH names the field and the ranks that disagree.
 *
 * Makes the links of a lazy communicator that are not made, unless the window is sparse: then
 * it reaches the peers that are connected, before it or later, and an operation on another peer
 * returns ORIEL_ERR_NO_PATH and breaks nothing. So does a barrier of all on ranks that lack a
 * link, after the other peers have been notified of their arrival. With ORIEL_CONNECT_DEMAND no
 * window makes links, and operations do, of sparse windows as well. With @peers a window is sparse,
 * and makes the links to the ranks that are named there and reached by rdma, in any mode of
 * connecting. Each names the other, else all ranks get ORIEL_ERR_MISMATCH, which names both; mapped
 * ranks and the rank itself may be left out. All ranks have such a list, of no ranks too, or none
 * has: a list without ranks may be NULL with ORIEL_WINDOW_SPARSE. A window whose atomics NICs
 * execute takes links to mapped ranks and to the rank itself, and more with several NICs (enum
 * oriel_atomics): the first of them makes these.
 *
 * Both paths to a peer: two windows over the same memory, one of them with ORIEL_WINDOW_RDMA.
 * Every operation takes the path of the handle that it is given: a kernel leaves a copy to the NIC
 * by a put of the one and stores with its own threads by a put of the other. Each window has
 * signals, barriers, counters, channels, drain and flush of its own, which order and cover its own
 * operations. Between the two there is no order but by a flush of the first: what it flushed is
 * visible to the peer that sees any later signal, arrival or message of the other
 * (docs/memory-model.md). Buffers of a window with ORIEL_WINDOW_RDMA may be any memory that the
 * NIC reaches, of malloc() as well; no peer has an address of them, and collectives of host memory
 * take no view of it (ORIEL_ERR_UNSUPPORTED).
 *
 * A buffer of a window on GPUs is memory of this rank's GPU or host memory: of
 * oriel_memory_alloc(), which is pinned here, or pinned by the caller, if all ranks are threads
 * of one process. Its kind may differ between ranks. Over the nodes of an NVLink fabric it
 * follows the rules of oriel_region_share(), and is no host memory. A buffer of a window in
 * host memory is host memory.
 *
 * Memory of a peer in another process, of a window in host memory, is mapped by the first function
 * that reaches it where more than 32 ranks are mapped: that one may fail for want of descriptors or
 * mappings (ORIEL_ERR_NOMEM), or because the peer's process does not run (ORIEL_ERR_TIMEOUT after
 * half of the communicator's limit; the communicator goes on).
 */
enum oriel_status oriel_window_create(struct oriel_comm *comm, const struct oriel_window_attr *attr,
				      struct oriel_window **window);

/*
 * Collective; waits until all ranks have called it, so that no rank's memory is freed while it
 * may be written, but no longer than the timeout, and not at all once the communicator is
 * broken. Before that it waits for the operations that this rank has posted and for the
 * counters that they increment, of all groups; once the communicator is broken, until the NIC
 * has released them. Device handles are dead afterwards: no kernel uses one any more, and no
 * captured graph is launched again. Ranks that destroy different windows, or are in different
 * calls, are reported at level warn, and behind oriel_last_error() with ORIEL_ERR_STATE; each
 * rank's window is destroyed all the same, with ORIEL_OK. ORIEL_ERR_STATE: it is the view of a
 * collective of this rank that lives, and goes on.
 */
enum oriel_status oriel_window_destroy(struct oriel_window *window);

/*
 * Share one more buffer. Collective, like create; ranks may share different lengths, also none
 * (NULL, 0). @buffer gets its number for oriel_at(), the same on all ranks. Device handles made
 * before see it too. The memory follows the rules of @buffer of oriel_window_create(), and stays
 * until the window is destroyed. ORIEL_ERR_RANGE: all @buffers of the attributes are shared.
 */
enum oriel_status oriel_window_share(struct oriel_window *window, void *address, size_t length,
				     uint32_t *buffer);

/*
 * The same for memory of which this rank knows the addresses already: @table has an entry for
 * each rank, as oriel_region_table() fills it, and is copied. For a peer that the window reaches
 * by mapped memory only @base and @length count, unless NICs execute its atomics: then the keys of
 * all peers do (ORIEL_ERR_INVALID without them). Collective, like share; all stays mapped and
 * registered until the window is destroyed.
 */
enum oriel_status oriel_window_share_table(struct oriel_window *window,
					   const struct oriel_dev_buffer *table, uint32_t *buffer);

/*
 * The handle for device functions, to be passed by value. Local; maps all peers that are not mapped
 * yet, see oriel_window_create(). The program says for which version and size of handles it was
 * compiled, since its kernels have the code of that version inside; ORIEL_ERR_VERSION: this
 * library makes no such handles.
 */
enum oriel_status oriel_window_device_as(const struct oriel_window *window, uint32_t version,
					 size_t size, struct oriel_dev_window *device);
static inline enum oriel_status oriel_window_device(const struct oriel_window *window,
						    struct oriel_dev_window *device)
{
	return oriel_window_device_as(window, ORIEL_DEV_VERSION, sizeof(*device), device);
}

/*
 * Local queries. ORIEL_ERR_RANGE for a rank or buffer that does not exist. oriel_window_buffer()
 * takes NULL for a @length that is not needed. Its memory is plain memory of this rank, or of its
 * GPU: read what peers put there after a wait that covers it, and write where no peer reads or
 * writes at that time.
 */
enum oriel_status oriel_window_buffer(const struct oriel_window *window, uint32_t buffer,
				      void **address, size_t *length); /* of this rank */
enum oriel_status oriel_window_peer_length(const struct oriel_window *window, unsigned peer,
					   uint32_t buffer, size_t *length);
/* This rank's address of offset @at of @peer; ORIEL_ERR_NO_PATH if not mapped. */
enum oriel_status oriel_window_peer_address(const struct oriel_window *window, unsigned peer,
					    uint64_t at, void **address);

/*
 * The agent of the window's atomics, equal on all ranks; ORIEL_ATOMICS_DEFAULT: there is no single
 * one.
 */
enum oriel_status oriel_window_atomics(const struct oriel_window *window,
				       enum oriel_atomics *atomics);

/*
 * The first rejected arguments of a device function since the last call, taken out of the
 * window; ORIEL_AGAIN if there are none. The text goes to oriel_last_error(). Any thread.
 */
enum oriel_status oriel_window_fault(struct oriel_window *window, struct oriel_dev_fault *fault);

/*
 * The operations of oriel/dev.h for host threads, of which several may call any at once, by the
 * rules for groups there. Failures leave a text behind oriel_last_error(). Waits:
 * ORIEL_TIMEOUT_DEFAULT = the communicator's timeout.
 *
 * The contract of oriel_window_X() is that of the device function oriel_dev_X(), for a group of one
 * thread. put, get, drain and flush: oriel/dev/data.h; atomics: oriel/dev/atomic.h; signals:
 * oriel/dev/signal.h; barriers: oriel/dev/barrier.h; send and recv: oriel/dev/channel.h; counters:
 * oriel/dev/counter.h. Device functions alone have tickets, put_part, fetch_add_relaxed,
 * signal_relaxed, wait_signal_relaxed, wait_signal_next_all, wait_word, reset_signal, the flat
 * barrier, messages in lines (LL and LL128), reduce and reduce_all.
 *
 * oriel_window_X() is for windows in host memory: the calling thread does the operation, now, and a
 * get is complete on return. The caller's memory is any that it may read, or for results write, and
 * need not be registered. ORIEL_ERR_ACCESS: a NIC would read, or write, memory of the caller of
 * which it may not access the ends, or holes in between; nothing was posted or broken.
 *
 * oriel_window_X_on_stream() is for windows on a GPU: the operation is posted to @stream, a stream
 * of the context of the communicator, and done in its order; a captured operation is done at each
 * launch of the graph. NULL is CUDA's default stream with legacy synchronization, as
 * cudaStreamLegacy; for the default stream of each thread pass cudaStreamPerThread. Nothing here
 * waits for the GPU. The caller leaves its memory alone until the operation is done, and the GPU
 * reaches it (its own memory, or pinned memory), if kernels copy (send, recv) and for a result
 * (of an atomic, read_signal, read_counter); a result is aligned to its size. Arguments are checked
 * now; a later failure cannot be reported to any caller, so it breaks the communicator, a wait
 * whose limit has passed among it, the caller's own as well. Several streams may operate at once,
 * on signals, counters, slots and channels of their own.
 *
 * A window of the other kind: ORIEL_ERR_INVALID, and the text names the function for it.
 *
 * The source of a put, with or without a signal, may be reused after oriel_window_drain() or
 * oriel_window_flush(), or once the counter that the call names has been incremented, and not
 * before. Today a put of host memory without a counter returns only after that, which hides a
 * missing drain: do not rely on it. Drain and flush wait for all that was posted to any peer
 * before, and for the counters that this increments: they then have their final values, and
 * oriel_window_reset_counter() is safe.
 */
enum oriel_status oriel_window_put(struct oriel_window *window, unsigned peer, uint64_t to,
				   const void *from, size_t length);
enum oriel_status oriel_window_put_on_stream(struct oriel_window *window, unsigned peer,
					     uint64_t to, const void *from, size_t length,
					     struct CUstream_st *stream);
enum oriel_status oriel_window_put_value(struct oriel_window *window, unsigned peer, uint64_t to,
					 uint64_t value);
enum oriel_status oriel_window_put_value_on_stream(struct oriel_window *window, unsigned peer,
						   uint64_t to, uint64_t value,
						   struct CUstream_st *stream);
enum oriel_status oriel_window_get(struct oriel_window *window, unsigned peer, uint64_t from,
				   void *to, size_t length);
enum oriel_status oriel_window_get_on_stream(struct oriel_window *window, unsigned peer,
					     uint64_t from, void *to, size_t length,
					     struct CUstream_st *stream);
enum oriel_status oriel_window_put_signal(struct oriel_window *window, unsigned peer, uint64_t to,
					  const void *from, size_t length, uint32_t id,
					  uint64_t value);
enum oriel_status oriel_window_put_signal_on_stream(struct oriel_window *window, unsigned peer,
						    uint64_t to, const void *from, size_t length,
						    uint32_t id, uint64_t value,
						    struct CUstream_st *stream);
/*
 * Atomics on the word at offset @at of @peer, by oriel/dev/atomic.h, which says what they are
 * atomic with, and what they do not order. The call waits for *@old, the value before the
 * operation; @old is not NULL. set has no result, and says there what it waits for.
 */
enum oriel_status oriel_window_fetch_add(struct oriel_window *window, unsigned peer, uint64_t at,
					 uint64_t value, uint64_t *old);
enum oriel_status oriel_window_fetch_add_on_stream(struct oriel_window *window, unsigned peer,
						   uint64_t at, uint64_t value, uint64_t *old,
						   struct CUstream_st *stream);
enum oriel_status oriel_window_fetch_and(struct oriel_window *window, unsigned peer, uint64_t at,
					 uint64_t value, uint64_t *old);
enum oriel_status oriel_window_fetch_and_on_stream(struct oriel_window *window, unsigned peer,
						   uint64_t at, uint64_t value, uint64_t *old,
						   struct CUstream_st *stream);
enum oriel_status oriel_window_fetch_or(struct oriel_window *window, unsigned peer, uint64_t at,
					uint64_t value, uint64_t *old);
enum oriel_status oriel_window_fetch_or_on_stream(struct oriel_window *window, unsigned peer,
						  uint64_t at, uint64_t value, uint64_t *old,
						  struct CUstream_st *stream);
enum oriel_status oriel_window_fetch_xor(struct oriel_window *window, unsigned peer, uint64_t at,
					 uint64_t value, uint64_t *old);
enum oriel_status oriel_window_fetch_xor_on_stream(struct oriel_window *window, unsigned peer,
						   uint64_t at, uint64_t value, uint64_t *old,
						   struct CUstream_st *stream);
enum oriel_status oriel_window_swap(struct oriel_window *window, unsigned peer, uint64_t at,
				    uint64_t value, uint64_t *old);
enum oriel_status oriel_window_swap_on_stream(struct oriel_window *window, unsigned peer,
					      uint64_t at, uint64_t value, uint64_t *old,
					      struct CUstream_st *stream);
enum oriel_status oriel_window_compare_swap(struct oriel_window *window, unsigned peer, uint64_t at,
					    uint64_t compare, uint64_t value, uint64_t *old);
enum oriel_status oriel_window_compare_swap_on_stream(struct oriel_window *window, unsigned peer,
						      uint64_t at, uint64_t compare, uint64_t value,
						      uint64_t *old, struct CUstream_st *stream);
enum oriel_status oriel_window_fetch(struct oriel_window *window, unsigned peer, uint64_t at,
				     uint64_t *value);
enum oriel_status oriel_window_fetch_on_stream(struct oriel_window *window, unsigned peer,
					       uint64_t at, uint64_t *value,
					       struct CUstream_st *stream);
enum oriel_status oriel_window_set(struct oriel_window *window, unsigned peer, uint64_t at,
				   uint64_t value);
enum oriel_status oriel_window_set_on_stream(struct oriel_window *window, unsigned peer,
					     uint64_t at, uint64_t value,
					     struct CUstream_st *stream);
enum oriel_status oriel_window_fetch_add_32(struct oriel_window *window, unsigned peer, uint64_t at,
					    uint32_t value, uint32_t *old);
enum oriel_status oriel_window_fetch_add_32_on_stream(struct oriel_window *window, unsigned peer,
						      uint64_t at, uint32_t value, uint32_t *old,
						      struct CUstream_st *stream);
enum oriel_status oriel_window_fetch_and_32(struct oriel_window *window, unsigned peer, uint64_t at,
					    uint32_t value, uint32_t *old);
enum oriel_status oriel_window_fetch_and_32_on_stream(struct oriel_window *window, unsigned peer,
						      uint64_t at, uint32_t value, uint32_t *old,
						      struct CUstream_st *stream);
enum oriel_status oriel_window_fetch_or_32(struct oriel_window *window, unsigned peer, uint64_t at,
					   uint32_t value, uint32_t *old);
enum oriel_status oriel_window_fetch_or_32_on_stream(struct oriel_window *window, unsigned peer,
						     uint64_t at, uint32_t value, uint32_t *old,
						     struct CUstream_st *stream);
enum oriel_status oriel_window_fetch_xor_32(struct oriel_window *window, unsigned peer, uint64_t at,
					    uint32_t value, uint32_t *old);
enum oriel_status oriel_window_fetch_xor_32_on_stream(struct oriel_window *window, unsigned peer,
						      uint64_t at, uint32_t value, uint32_t *old,
						      struct CUstream_st *stream);
enum oriel_status oriel_window_swap_32(struct oriel_window *window, unsigned peer, uint64_t at,
				       uint32_t value, uint32_t *old);
enum oriel_status oriel_window_swap_32_on_stream(struct oriel_window *window, unsigned peer,
						 uint64_t at, uint32_t value, uint32_t *old,
						 struct CUstream_st *stream);
enum oriel_status oriel_window_compare_swap_32(struct oriel_window *window, unsigned peer,
					       uint64_t at, uint32_t compare, uint32_t value,
					       uint32_t *old);
enum oriel_status oriel_window_compare_swap_32_on_stream(struct oriel_window *window, unsigned peer,
							 uint64_t at, uint32_t compare,
							 uint32_t value, uint32_t *old,
							 struct CUstream_st *stream);
enum oriel_status oriel_window_fetch_32(struct oriel_window *window, unsigned peer, uint64_t at,
					uint32_t *value);
enum oriel_status oriel_window_fetch_32_on_stream(struct oriel_window *window, unsigned peer,
						  uint64_t at, uint32_t *value,
						  struct CUstream_st *stream);
enum oriel_status oriel_window_set_32(struct oriel_window *window, unsigned peer, uint64_t at,
				      uint32_t value);
enum oriel_status oriel_window_set_32_on_stream(struct oriel_window *window, unsigned peer,
						uint64_t at, uint32_t value,
						struct CUstream_st *stream);
/*
 * Signals: each rank has a word for each source rank and each @id, from 0 to below @signals of the
 * attributes; put_signal adds to it. wait_signal compares the sum of the words of all sources, so
 * that sources with one id cannot be told apart; wait_signal_from compares the word of @source;
 * wait_signal_next waits until @source has added @count since the last successful call for it.
 * Afterwards the puts before those signals are visible. All three may be used for one @id, since
 * the first two change nothing; SET is not for an @id of which wait_signal or wait_signal_next
 * count additions. See oriel/dev/signal.h.
 */
enum oriel_status oriel_window_signal(struct oriel_window *window, unsigned peer, uint32_t id,
				      enum oriel_signal_op op, uint64_t value);
enum oriel_status oriel_window_signal_on_stream(struct oriel_window *window, unsigned peer,
						uint32_t id, enum oriel_signal_op op,
						uint64_t value, struct CUstream_st *stream);
enum oriel_status oriel_window_signal_all(struct oriel_window *window, uint32_t id,
					  enum oriel_signal_op op, uint64_t value);
enum oriel_status oriel_window_signal_all_on_stream(struct oriel_window *window, uint32_t id,
						    enum oriel_signal_op op, uint64_t value,
						    struct CUstream_st *stream);
enum oriel_status oriel_window_wait_signal(struct oriel_window *window, uint32_t id,
					   enum oriel_compare compare, uint64_t operand,
					   uint64_t timeout_ns);
enum oriel_status oriel_window_wait_signal_on_stream(struct oriel_window *window, uint32_t id,
						     enum oriel_compare compare, uint64_t operand,
						     uint64_t timeout_ns,
						     struct CUstream_st *stream);
enum oriel_status oriel_window_wait_signal_from(struct oriel_window *window, unsigned source,
						uint32_t id, enum oriel_compare compare,
						uint64_t operand, uint64_t timeout_ns);
enum oriel_status oriel_window_wait_signal_from_on_stream(struct oriel_window *window,
							  unsigned source, uint32_t id,
							  enum oriel_compare compare,
							  uint64_t operand, uint64_t timeout_ns,
							  struct CUstream_st *stream);
enum oriel_status oriel_window_wait_signal_next(struct oriel_window *window, unsigned source,
						uint32_t id, uint64_t count, uint64_t timeout_ns);
enum oriel_status oriel_window_wait_signal_next_on_stream(struct oriel_window *window,
							  unsigned source, uint32_t id,
							  uint64_t count, uint64_t timeout_ns,
							  struct CUstream_st *stream);
enum oriel_status oriel_window_read_signal(struct oriel_window *window, uint32_t id,
					   uint64_t *value);
enum oriel_status oriel_window_read_signal_on_stream(struct oriel_window *window, uint32_t id,
						     uint64_t *value, struct CUstream_st *stream);
enum oriel_status oriel_window_read_signal_from(struct oriel_window *window, unsigned source,
						uint32_t id, uint64_t *value);
enum oriel_status oriel_window_read_signal_from_on_stream(struct oriel_window *window,
							  unsigned source, uint32_t id,
							  uint64_t *value,
							  struct CUstream_st *stream);
/*
 * Arrive at @slot, then wait for all ranks; the other two are its halves. Afterwards everything
 * that any rank put to this rank before its arrival is visible. Window in host memory: after
 * ORIEL_ERR_TIMEOUT by a limit of the caller's own the arrival stands, and the same call made
 * again, or oriel_window_barrier_wait(), continues the wait; oriel_window_barrier_arrive() is
 * rejected with ORIEL_ERR_STATE until that has succeeded. Window on a GPU: a caller that polls
 * posts barrier_arrive, and barrier_wait when the stream may wait.
 */
enum oriel_status oriel_window_barrier(struct oriel_window *window, uint32_t slot,
				       uint64_t timeout_ns);
enum oriel_status oriel_window_barrier_on_stream(struct oriel_window *window, uint32_t slot,
						 uint64_t timeout_ns, struct CUstream_st *stream);
enum oriel_status oriel_window_barrier_arrive(struct oriel_window *window, uint32_t slot);
enum oriel_status oriel_window_barrier_arrive_on_stream(struct oriel_window *window, uint32_t slot,
							struct CUstream_st *stream);
enum oriel_status oriel_window_barrier_wait(struct oriel_window *window, uint32_t slot,
					    uint64_t timeout_ns);
enum oriel_status oriel_window_barrier_wait_on_stream(struct oriel_window *window, uint32_t slot,
						      uint64_t timeout_ns,
						      struct CUstream_st *stream);
/*
 * Meet @peer alone at @slot, which has words of its own for each peer: the full barrier and
 * those with other peers may use the same slot. Not with the rank itself (ORIEL_ERR_INVALID).
 * Afterwards everything that @peer put to this rank before its arrival is visible. The other
 * two are its halves; what is said above of a pending arrival holds for them, and a passed limit
 * names @peer. ORIEL_ERR_NO_PATH if @peer is not connected: that is no arrival.
 */
enum oriel_status oriel_window_barrier_peer(struct oriel_window *window, unsigned peer,
					    uint32_t slot, uint64_t timeout_ns);
enum oriel_status oriel_window_barrier_peer_on_stream(struct oriel_window *window, unsigned peer,
						      uint32_t slot, uint64_t timeout_ns,
						      struct CUstream_st *stream);
enum oriel_status oriel_window_barrier_peer_arrive(struct oriel_window *window, unsigned peer,
						   uint32_t slot);
enum oriel_status oriel_window_barrier_peer_arrive_on_stream(struct oriel_window *window,
							     unsigned peer, uint32_t slot,
							     struct CUstream_st *stream);
enum oriel_status oriel_window_barrier_peer_wait(struct oriel_window *window, unsigned peer,
						 uint32_t slot, uint64_t timeout_ns);
enum oriel_status oriel_window_barrier_peer_wait_on_stream(struct oriel_window *window,
							   unsigned peer, uint32_t slot,
							   uint64_t timeout_ns,
							   struct CUstream_st *stream);
enum oriel_status oriel_window_send(struct oriel_window *window, unsigned peer, uint32_t channel,
				    const void *from, size_t length, uint64_t timeout_ns);
enum oriel_status oriel_window_send_on_stream(struct oriel_window *window, unsigned peer,
					      uint32_t channel, const void *from, size_t length,
					      uint64_t timeout_ns, struct CUstream_st *stream);
enum oriel_status oriel_window_recv(struct oriel_window *window, unsigned peer, uint32_t channel,
				    void *to, size_t length, uint64_t timeout_ns);
enum oriel_status oriel_window_recv_on_stream(struct oriel_window *window, unsigned peer,
					      uint32_t channel, void *to, size_t length,
					      uint64_t timeout_ns, struct CUstream_st *stream);
enum oriel_status oriel_window_drain(struct oriel_window *window, uint64_t timeout_ns);
enum oriel_status oriel_window_drain_on_stream(struct oriel_window *window, uint64_t timeout_ns,
					       struct CUstream_st *stream);
enum oriel_status oriel_window_flush(struct oriel_window *window, uint64_t timeout_ns);
enum oriel_status oriel_window_flush_on_stream(struct oriel_window *window, uint64_t timeout_ns,
					       struct CUstream_st *stream);
enum oriel_status oriel_window_put_counter(struct oriel_window *window, unsigned peer, uint64_t to,
					   const void *from, size_t length, uint32_t counter);
enum oriel_status oriel_window_put_counter_on_stream(struct oriel_window *window, unsigned peer,
						     uint64_t to, const void *from, size_t length,
						     uint32_t counter, struct CUstream_st *stream);
enum oriel_status oriel_window_put_signal_counter(struct oriel_window *window, unsigned peer,
						  uint64_t to, const void *from, size_t length,
						  uint32_t id, uint64_t value, uint32_t counter);
enum oriel_status oriel_window_put_signal_counter_on_stream(
	struct oriel_window *window, unsigned peer, uint64_t to, const void *from, size_t length,
	uint32_t id, uint64_t value, uint32_t counter, struct CUstream_st *stream);
enum oriel_status oriel_window_signal_counter(struct oriel_window *window, unsigned peer,
					      uint32_t id, uint64_t value, uint32_t counter);
enum oriel_status oriel_window_signal_counter_on_stream(struct oriel_window *window, unsigned peer,
							uint32_t id, uint64_t value,
							uint32_t counter,
							struct CUstream_st *stream);
enum oriel_status oriel_window_wait_counter(struct oriel_window *window, unsigned peer,
					    uint32_t counter, enum oriel_compare compare,
					    uint64_t operand, uint64_t timeout_ns);
enum oriel_status oriel_window_wait_counter_on_stream(struct oriel_window *window, unsigned peer,
						      uint32_t counter, enum oriel_compare compare,
						      uint64_t operand, uint64_t timeout_ns,
						      struct CUstream_st *stream);
enum oriel_status oriel_window_read_counter(struct oriel_window *window, unsigned peer,
					    uint32_t counter, uint64_t *value);
enum oriel_status oriel_window_read_counter_on_stream(struct oriel_window *window, unsigned peer,
						      uint32_t counter, uint64_t *value,
						      struct CUstream_st *stream);
enum oriel_status oriel_window_reset_counter(struct oriel_window *window, unsigned peer,
					     uint32_t counter);
enum oriel_status oriel_window_reset_counter_on_stream(struct oriel_window *window, unsigned peer,
						       uint32_t counter,
						       struct CUstream_st *stream);

/*
 * Put the same bytes to offset @to of every rank, this one among them unless that is @from
 * itself; put by put, or on a GPU by copy engines beside each other and beside no kernel. On a
 * GPU all ranks must be mapped (ORIEL_ERR_UNSUPPORTED), and one thread at a time calls it, or one
 * of the next four, for a window.
 */
enum oriel_status oriel_window_put_all(struct oriel_window *window, uint64_t to, const void *from,
				       size_t length);
enum oriel_status oriel_window_put_all_on_stream(struct oriel_window *window, uint64_t to,
						 const void *from, size_t length,
						 struct CUstream_st *stream);

/*
 * The same with bytes of its own for each rank: rank r gets the @length bytes that lie
 * r * @stride behind @from.
 */
enum oriel_status oriel_window_put_each(struct oriel_window *window, uint64_t to, const void *from,
					size_t stride, size_t length);
enum oriel_status oriel_window_put_each_on_stream(struct oriel_window *window, uint64_t to,
						  const void *from, size_t stride, size_t length,
						  struct CUstream_st *stream);

/*
 * The same to the ranks of the domain alone: the ranks that are not mapped get nothing, and a job
 * may have such ranks on GPUs, too. A put to each of the other ranks completes the broadcast.
 */
enum oriel_status oriel_window_put_all_domain(struct oriel_window *window, uint64_t to,
					      const void *from, size_t length);
enum oriel_status oriel_window_put_all_domain_on_stream(struct oriel_window *window, uint64_t to,
							const void *from, size_t length,
							struct CUstream_st *stream);
enum oriel_status oriel_window_put_each_domain(struct oriel_window *window, uint64_t to,
					       const void *from, size_t stride, size_t length);
enum oriel_status oriel_window_put_each_domain_on_stream(struct oriel_window *window, uint64_t to,
							 const void *from, size_t stride,
							 size_t length, struct CUstream_st *stream);

/*
 * The same to explicit addresses: @to has one for each rank, where this process has mapped
 * @length bytes (oriel_window_peer_address(), oriel_region_peer_address(), or mapped by the
 * caller); NULL: that rank gets nothing. @to is read before the call returns. Nothing checks
 * the addresses. Signals and barriers of @window cover the bytes as they do puts to mapped peers.
 */
enum oriel_status oriel_window_put_table(struct oriel_window *window, void *const *to,
					 const void *from, size_t stride, size_t length);
enum oriel_status oriel_window_put_table_on_stream(struct oriel_window *window, void *const *to,
						   const void *from, size_t stride, size_t length,
						   struct CUstream_st *stream);

/*
 * One execution of the device function of that name, with all of its @parts: see
 * oriel/dev/gather.h, oriel/dev/exchange.h and oriel/dev/reduction.h. On a GPU a block has one
 * part, and @layout lies where kernels reach it; an error in it then breaks the communicator.
 * Persistent collectives (oriel/allgather.h) are made of these.
 */
struct oriel_dev_gather;
struct oriel_dev_alltoallv;
struct oriel_dev_reduction;
enum oriel_status oriel_window_broadcast(struct oriel_window *window,
					 const struct oriel_dev_gather *gather, uint32_t parts,
					 unsigned root, const void *from, size_t length);
enum oriel_status oriel_window_broadcast_on_stream(struct oriel_window *window,
						   const struct oriel_dev_gather *gather,
						   uint32_t parts, unsigned root, const void *from,
						   size_t length, struct CUstream_st *stream);
enum oriel_status oriel_window_exchange(struct oriel_window *window,
					const struct oriel_dev_gather *gather, uint32_t parts,
					const void *from, const struct oriel_dev_alltoallv *layout);
enum oriel_status oriel_window_exchange_on_stream(struct oriel_window *window,
						  const struct oriel_dev_gather *gather,
						  uint32_t parts, const void *from,
						  const struct oriel_dev_alltoallv *layout,
						  struct CUstream_st *stream);
enum oriel_status oriel_window_gather_lines(struct oriel_window *window,
					    const struct oriel_dev_gather *gather, uint32_t parts,
					    const void *from, size_t length);
enum oriel_status oriel_window_gather_lines_on_stream(struct oriel_window *window,
						      const struct oriel_dev_gather *gather,
						      uint32_t parts, const void *from,
						      size_t length, struct CUstream_st *stream);
enum oriel_status oriel_window_gather_puts(struct oriel_window *window,
					   const struct oriel_dev_gather *gather, uint32_t parts,
					   const void *from, size_t length);
enum oriel_status oriel_window_gather_puts_on_stream(struct oriel_window *window,
						     const struct oriel_dev_gather *gather,
						     uint32_t parts, const void *from,
						     size_t length, struct CUstream_st *stream);
enum oriel_status oriel_window_reduce_lines(struct oriel_window *window,
					    const struct oriel_dev_gather *gather,
					    const struct oriel_dev_reduction *reduction,
					    uint32_t parts, const void *from, size_t count);
enum oriel_status oriel_window_reduce_lines_on_stream(struct oriel_window *window,
						      const struct oriel_dev_gather *gather,
						      const struct oriel_dev_reduction *reduction,
						      uint32_t parts, const void *from,
						      size_t count, struct CUstream_st *stream);
enum oriel_status oriel_window_reduce_slots(struct oriel_window *window,
					    const struct oriel_dev_gather *gather,
					    const struct oriel_dev_reduction *reduction,
					    uint32_t parts, const void *from, size_t count);
enum oriel_status oriel_window_reduce_slots_on_stream(struct oriel_window *window,
						      const struct oriel_dev_gather *gather,
						      const struct oriel_dev_reduction *reduction,
						      uint32_t parts, const void *from,
						      size_t count, struct CUstream_st *stream);
enum oriel_status oriel_window_reduce_owners(struct oriel_window *window,
					     const struct oriel_dev_gather *gather,
					     const struct oriel_dev_reduction *reduction,
					     uint32_t parts, const void *from, size_t count);
enum oriel_status oriel_window_reduce_owners_on_stream(struct oriel_window *window,
						       const struct oriel_dev_gather *gather,
						       const struct oriel_dev_reduction *reduction,
						       uint32_t parts, const void *from,
						       size_t count, struct CUstream_st *stream);

/*
 * The same for the elements of all ranks in memory of this rank, where those of rank r lie
 * r * @gather->stride behind @from: to @gather->result, which does not overlap them. Local: no rank
 * waits for another, and no other field of @gather is read.
 */
enum oriel_status oriel_window_reduce_rows_on_stream(struct oriel_window *window,
						     const struct oriel_dev_gather *gather,
						     const struct oriel_dev_reduction *reduction,
						     uint32_t parts, const void *from, size_t count,
						     struct CUstream_st *stream);

/*
 * The same in two steps, where the blocks of the order have their elements in different memory.
 * First the fold of the elements of one block, its ranks' rows alone, to sums in the accumulation
 * type at @gather->result: @gather->stride lies between two rows. Then the end result of the sums
 * of all blocks: @gather->stride lies between those of two blocks. Sums are aligned to 16 bytes, as
 * the stride between them is. For each 16 bytes of elements they have as many, but 32 for floats of
 * 16 bits and averages of integers of 16 and 32, and 64 for floats and averages of 8 bits.
 */
enum oriel_status oriel_window_reduce_block_on_stream(struct oriel_window *window,
						      const struct oriel_dev_gather *gather,
						      const struct oriel_dev_reduction *reduction,
						      uint32_t parts, uint32_t block,
						      const void *from, size_t count,
						      struct CUstream_st *stream);
enum oriel_status oriel_window_reduce_sums_on_stream(struct oriel_window *window,
						     const struct oriel_dev_gather *gather,
						     const struct oriel_dev_reduction *reduction,
						     uint32_t parts, const void *from, size_t count,
						     struct CUstream_st *stream);

/*
 * Set all signals of this rank, and the bases of wait_signal_next, to 0. Local, while no rank
 * signals this one.
 */
enum oriel_status oriel_window_reset_signals(struct oriel_window *window);
enum oriel_status oriel_window_reset_signals_on_stream(struct oriel_window *window,
						       struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
