/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handles [--list]: every public host function that takes a handle gets invalid ones. It returns
 * the status or the value that its header names, with a text that has the function and the kind
 * of the handle. It crashes on none, and the live objects still work. --list prints the
 * functions, so that handles_test.py finds one without a case.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev.h>
#include <oriel/dev/copy_group.h>
#include <oriel/oriel.h>
#include <oriel/p2p_mock.h>

enum kind {
	COMM,
	WINDOW,
	REGION,
	ALLGATHER,
	ALLTOALL,
	BCAST,
	ALLREDUCE,
	REDUCE_SCATTER,
	REDUCE,
	GATHER,
	SCATTER,
	STREAM_BARRIER,
	COPIES,
	MARK,
	P2P_CONTEXT,
	P2P_ENDPOINT,
	P2P_MEMORY,
	P2P_COPY_GROUP,
	P2P_MOCK,
	LOCAL_JOB,
	KINDS
};

static const char *const nouns[KINDS] = {"communicator",  "window",         "region",
					 "all-gather",    "all-to-all",     "broadcast",
					 "all-reduce",    "reduce-scatter", "reduce",
					 "gather",        "scatter",        "barrier",
					 "copies object", "mark",           "p2p context",
					 "p2p endpoint",  "p2p memory",     "p2p copy group",
					 "p2p mock",      "local job"};

static void *live[KINDS];

/* Arguments beside the handle. */
static char bytes[256];
static uint64_t word, table[64];
static unsigned number;
static bool flag;
static size_t length;
static void *address;
static enum oriel_path path;
static struct oriel_peer peer = {.size = sizeof(peer)};
static struct oriel_peer_gpu gpu = {.size = sizeof(gpu)};
static struct oriel_health health = {.size = sizeof(health)};
static struct oriel_nic nic = {.size = sizeof(nic)};
static struct oriel_dev_window dev_window;
static struct oriel_dev_fault fault;
static enum oriel_atomics atomics;
static struct oriel_dev_gather series;
static const struct oriel_dev_reduction reduced = {.type = ORIEL_TYPE_FP32, .op = ORIEL_OP_SUM};
static struct oriel_dev_alltoallv alltoallv;
static struct oriel_dev_buffer places[4];
static struct oriel_dev_copy_group dev_copy_group;
static struct oriel_coll_info info = {.size = sizeof(info)};
static struct oriel_tune_info tune = {.size = sizeof(tune)};
static struct oriel_object_cache_info cache_info = {.size = sizeof(cache_info)};
static struct oriel_p2p_info p2p_info = {.size = sizeof(p2p_info)};
static struct oriel_p2p_request request;
static struct oriel_p2p_remote remote;
static struct oriel_p2p_mock_event event;
static struct oriel_bootstrap end;
static struct oriel_invitation invitation;
static struct oriel_view view = {.size = sizeof(view),
				 .kind = ORIEL_VIEW_BUFFER,
				 .length = sizeof(bytes),
				 .buffer = bytes};
static const struct oriel_reduction reduction = {.size = sizeof(reduction),
						 .type = ORIEL_TYPE_FP32,
						 .op = ORIEL_OP_SUM};
static struct oriel_p2p_buffer buffer = {.address = bytes, .length = 8};
static void *made;

static enum oriel_status step(void *context, bool *has_moved)
{
	(void)context, (void)has_moved;
	return ORIEL_OK;
}

static void close_nothing(struct oriel_comm *comm, void *object)
{
	(void)comm, (void)object;
}

static const struct oriel_job job = {.size = sizeof(job), .step = step};

/* The result of a call with an invalid handle. */
enum answer {
	STATUS,  /* it returns the status */
	VALUE,   /* it returns the value that its header names */
	NOTHING, /* it returns nothing */
	DESTROY, /* it returns nothing, and NULL is allowed */
};

#define OUT(x) (void *)&(x)

/* X(kind, answer, function, arguments, value) */
#define COMM_CASES(X)                                                                              \
	X(COMM, DESTROY, oriel_comm_destroy, (h), 0)                                               \
	X(COMM, VALUE, oriel_comm_rank, (h), UINT32_MAX)                                           \
	X(COMM, VALUE, oriel_comm_size, (h), 0)                                                    \
	X(COMM, VALUE, oriel_comm_timeout, (h), 0)                                                 \
	X(COMM, STATUS, oriel_comm_path, (h, 0, &path), 0)                                         \
	X(COMM, STATUS, oriel_comm_peer, (h, 0, &peer), 0)                                         \
	X(COMM, STATUS, oriel_comm_peer_gpu, (h, 0, &gpu), 0)                                      \
	X(COMM, STATUS, oriel_comm_path_between, (h, 0, 0, &path), 0)                              \
	X(COMM, VALUE, oriel_comm_domain_size, (h), 0)                                             \
	X(COMM, VALUE, oriel_comm_domain_index, (h), UINT32_MAX)                                   \
	X(COMM, STATUS, oriel_comm_domain_rank, (h, 0, &number), 0)                                \
	X(COMM, STATUS, oriel_comm_domain_find, (h, 0, &number), 0)                                \
	X(COMM, STATUS, oriel_comm_peer_rank, (h, 0, &number), 0)                                  \
	X(COMM, STATUS, oriel_comm_peer_index, (h, 0, &number), 0)                                 \
	X(COMM, STATUS, oriel_comm_device_as,                                                      \
	  (h, ORIEL_DEV_VERSION, sizeof(dev_window), &dev_window), 0)                              \
	X(COMM, STATUS, oriel_comm_device_create, (h, NULL), 0)                                    \
	X(COMM, STATUS, oriel_comm_device_atomics, (h, &atomics), 0)                               \
	X(COMM, STATUS, oriel_comm_device_fault, (h, &fault), 0)                                   \
	X(COMM, STATUS, oriel_comm_connect, (h, NULL, 0), 0)                                       \
	X(COMM, STATUS, oriel_comm_barrier, (h), 0)                                                \
	X(COMM, STATUS, oriel_comm_split, (h, ORIEL_SPLIT_NONE, 0, NULL, NULL), 0)                 \
	X(COMM, STATUS, oriel_comm_shrink, (h, NULL, OUT(made)), 0)                                \
	X(COMM, STATUS, oriel_comm_invite, (h, &invitation), 0)                                    \
	X(COMM, STATUS, oriel_comm_grow, (h, 1, NULL, OUT(made)), 0)                               \
	X(COMM, STATUS, oriel_comm_merge, (h, &invitation, NULL, OUT(made)), 0)                    \
	X(COMM, VALUE, oriel_comm_epoch, (h), 0)                                                   \
	X(COMM, STATUS, oriel_comm_unsafe, (h, bytes, 8, &number), 0)                              \
	X(COMM, STATUS, oriel_comm_origin, (h, 0, &number), 0)                                     \
	X(COMM, STATUS, oriel_comm_all_gather, (h, bytes, bytes, 1), 0)                            \
	X(COMM, STATUS, oriel_comm_agree, (h, ORIEL_OK), 0)                                        \
	X(COMM, STATUS, oriel_comm_attach, (h, bytes, bytes, close_nothing), 0)                    \
	X(COMM, STATUS, oriel_comm_attached, (h, bytes, &address), 0)                              \
	X(COMM, STATUS, oriel_memory_identity, (h, bytes, 8, &word), 0)                            \
	X(COMM, STATUS, oriel_comm_health, (h, &health), 0)                                        \
	X(COMM, NOTHING, oriel_comm_abort, (h, "test"), 0)                                         \
	X(COMM, VALUE, oriel_comm_gpu_name, (h), NULL)                                             \
	X(COMM, VALUE, oriel_comm_gpu_processors, (h), 0)                                          \
	X(COMM, STATUS, oriel_comm_nic, (h, &nic), 0)                                              \
	X(COMM, STATUS, oriel_comm_p2p, (h, 0, NULL, OUT(made)), 0)                                \
	X(COMM, STATUS, oriel_comm_p2p_context, (h, OUT(made)), 0)                                 \
	X(COMM, STATUS, oriel_comm_prepare, (h), 0)                                                \
	X(COMM, STATUS, oriel_comm_post, (h, &job), 0)                                             \
	X(COMM, STATUS, oriel_comm_post_on_stream, (h, &job, NULL), 0)                             \
	X(COMM, STATUS, oriel_copies_create, (h, OUT(made)), 0)                                    \
	X(COMM, STATUS, oriel_mark_create, (h, OUT(made)), 0)                                      \
	X(COMM, STATUS, oriel_comm_is_capturing, (h, (void *)bytes, &flag), 0)                     \
	X(COMM, STATUS, oriel_region_register, (h, bytes, 8, OUT(made)), 0)                        \
	X(COMM, STATUS, oriel_window_create, (h, NULL, OUT(made)), 0)                              \
	X(COMM, STATUS, oriel_stream_barrier_create, (h, 0, OUT(made)), 0)                         \
	X(COMM, STATUS, oriel_allgather_create, (h, &view, NULL, OUT(made)), 0)                    \
	X(COMM, STATUS, oriel_allgather_once, (h, bytes, bytes, 8), 0)                             \
	X(COMM, STATUS, oriel_allgather_once_on_stream, (h, bytes, bytes, 8, NULL), 0)             \
	X(COMM, STATUS, oriel_alltoall_once, (h, bytes, bytes, 8), 0)                              \
	X(COMM, STATUS, oriel_alltoall_once_on_stream, (h, bytes, bytes, 8, NULL), 0)              \
	X(COMM, STATUS, oriel_bcast_once, (h, 0, bytes, bytes, 8), 0)                              \
	X(COMM, STATUS, oriel_bcast_once_on_stream, (h, 0, bytes, bytes, 8, NULL), 0)              \
	X(COMM, STATUS, oriel_object_cache_release, (h, NULL, 0), 0)                               \
	X(COMM, STATUS, oriel_object_cache_query, (h, &cache_info), 0)                             \
	X(COMM, STATUS, oriel_allgather_check, (h, &view, NULL, 8, &info), 0)                      \
	X(COMM, STATUS, oriel_alltoall_create, (h, &view, NULL, OUT(made)), 0)                     \
	X(COMM, STATUS, oriel_bcast_create, (h, &view, NULL, OUT(made)), 0)                        \
	X(COMM, STATUS, oriel_allreduce_create, (h, &view, &reduction, NULL, OUT(made)), 0)        \
	X(COMM, STATUS, oriel_reduce_scatter_create, (h, &view, &reduction, NULL, OUT(made)), 0)   \
	X(COMM, STATUS, oriel_reduce_create, (h, &view, &reduction, NULL, OUT(made)), 0)           \
	X(COMM, STATUS, oriel_allreduce_once, (h, bytes, bytes, 2, &reduction), 0)                 \
	X(COMM, STATUS, oriel_allreduce_once_on_stream, (h, bytes, bytes, 2, &reduction, NULL), 0) \
	X(COMM, STATUS, oriel_reduce_scatter_once, (h, bytes, bytes, 2, &reduction), 0)            \
	X(COMM, STATUS, oriel_reduce_scatter_once_on_stream,                                       \
	  (h, bytes, bytes, 2, &reduction, NULL), 0)                                               \
	X(COMM, STATUS, oriel_reduce_once, (h, 0, bytes, bytes, 2, &reduction), 0)                 \
	X(COMM, STATUS, oriel_reduce_once_on_stream, (h, 0, bytes, bytes, 2, &reduction, NULL), 0) \
	X(COMM, STATUS, oriel_gather_create, (h, &view, NULL, OUT(made)), 0)                       \
	X(COMM, STATUS, oriel_scatter_create, (h, &view, NULL, OUT(made)), 0)                      \
	X(COMM, STATUS, oriel_gather_once, (h, 0, bytes, bytes, 2), 0)                             \
	X(COMM, STATUS, oriel_scatter_once, (h, 0, bytes, bytes, 2), 0)                            \
	X(COMM, STATUS, oriel_gather_once_on_stream, (h, 0, bytes, bytes, 2, NULL), 0)             \
	X(COMM, STATUS, oriel_scatter_once_on_stream, (h, 0, bytes, bytes, 2, NULL), 0)            \
	X(COMM, STATUS, oriel_tune_find, (h, false, &tune), 0)

/* An operation of windows in host memory, and the same of windows on GPUs. */
#define BOTH(X, operation, ...)                                       \
	X(WINDOW, STATUS, oriel_window_##operation, (__VA_ARGS__), 0) \
	X(WINDOW, STATUS, oriel_window_##operation##_on_stream, (__VA_ARGS__, NULL), 0)

#define WINDOW_CASES(X)                                                      \
	X(WINDOW, DESTROY, oriel_window_destroy, (h), 0)                     \
	X(WINDOW, STATUS, oriel_window_share, (h, bytes, 8, &number), 0)     \
	X(WINDOW, STATUS, oriel_window_share_table, (h, places, &number), 0) \
	X(WINDOW, STATUS, oriel_window_device_as,                            \
	  (h, ORIEL_DEV_VERSION, sizeof(dev_window), &dev_window), 0)        \
	X(WINDOW, STATUS, oriel_window_buffer, (h, 0, &address, &length), 0) \
	X(WINDOW, STATUS, oriel_window_peer_length, (h, 0, 0, &length), 0)   \
	X(WINDOW, STATUS, oriel_window_peer_address, (h, 0, 0, &address), 0) \
	X(WINDOW, STATUS, oriel_window_fault, (h, &fault), 0)                \
	X(WINDOW, STATUS, oriel_window_atomics, (h, &atomics), 0)            \
	BOTH(X, put, h, 0, 0, bytes, 8)                                      \
	BOTH(X, put_value, h, 0, 0, 1)                                       \
	BOTH(X, get, h, 0, 0, bytes, 8)                                      \
	BOTH(X, put_signal, h, 0, 0, bytes, 8, 0, 1)                         \
	BOTH(X, fetch_add, h, 0, 0, 1, &word)                                \
	BOTH(X, fetch_and, h, 0, 0, 1, &word)                                \
	BOTH(X, fetch_or, h, 0, 0, 1, &word)                                 \
	BOTH(X, fetch_xor, h, 0, 0, 1, &word)                                \
	BOTH(X, swap, h, 0, 0, 1, &word)                                     \
	BOTH(X, compare_swap, h, 0, 0, 1, 2, &word)                          \
	BOTH(X, fetch, h, 0, 0, &word)                                       \
	BOTH(X, set, h, 0, 0, 1)                                             \
	BOTH(X, fetch_add_32, h, 0, 0, 1, &number)                           \
	BOTH(X, fetch_and_32, h, 0, 0, 1, &number)                           \
	BOTH(X, fetch_or_32, h, 0, 0, 1, &number)                            \
	BOTH(X, fetch_xor_32, h, 0, 0, 1, &number)                           \
	BOTH(X, swap_32, h, 0, 0, 1, &number)                                \
	BOTH(X, compare_swap_32, h, 0, 0, 1, 2, &number)                     \
	BOTH(X, fetch_32, h, 0, 0, &number)                                  \
	BOTH(X, set_32, h, 0, 0, 1)                                          \
	BOTH(X, signal, h, 0, 0, ORIEL_SIGNAL_ADD, 1)                        \
	BOTH(X, signal_all, h, 0, ORIEL_SIGNAL_ADD, 1)                       \
	BOTH(X, wait_signal, h, 0, ORIEL_GE, 0, 1)                           \
	BOTH(X, wait_signal_from, h, 0, 0, ORIEL_GE, 0, 1)                   \
	BOTH(X, wait_signal_next, h, 0, 0, 0, 1)                             \
	BOTH(X, read_signal, h, 0, &word)                                    \
	BOTH(X, read_signal_from, h, 0, 0, &word)                            \
	BOTH(X, barrier, h, 0, 0)                                            \
	BOTH(X, barrier_arrive, h, 0)                                        \
	BOTH(X, barrier_wait, h, 0, 0)                                       \
	BOTH(X, barrier_peer, h, 0, 0, 0)                                    \
	BOTH(X, barrier_peer_arrive, h, 0, 0)                                \
	BOTH(X, barrier_peer_wait, h, 0, 0, 0)                               \
	BOTH(X, send, h, 0, 0, bytes, 8, 1)                                  \
	BOTH(X, recv, h, 0, 0, bytes, 8, 1)                                  \
	BOTH(X, drain, h, 0)                                                 \
	BOTH(X, flush, h, 0)                                                 \
	BOTH(X, put_counter, h, 0, 0, bytes, 8, 0)                           \
	BOTH(X, put_signal_counter, h, 0, 0, bytes, 8, 0, 1, 0)              \
	BOTH(X, signal_counter, h, 0, 0, 1, 0)                               \
	BOTH(X, wait_counter, h, 0, 0, ORIEL_GE, 0, 1)                       \
	BOTH(X, read_counter, h, 0, 0, &word)                                \
	BOTH(X, reset_counter, h, 0, 0)                                      \
	BOTH(X, put_all, h, 0, bytes, 8)                                     \
	BOTH(X, put_each, h, 0, bytes, 8, 8)                                 \
	BOTH(X, put_all_domain, h, 0, bytes, 8)                              \
	BOTH(X, put_each_domain, h, 0, bytes, 8, 8)                          \
	BOTH(X, put_table, h, &address, bytes, 8, 8)                         \
	BOTH(X, broadcast, h, &series, 1, 0, bytes, 8)                       \
	BOTH(X, exchange, h, &series, 1, bytes, &alltoallv)                  \
	BOTH(X, gather_lines, h, &series, 1, bytes, 8)                       \
	BOTH(X, gather_puts, h, &series, 1, bytes, 8)                        \
	BOTH(X, reduce_lines, h, &series, &reduced, 1, bytes, 8)             \
	BOTH(X, reduce_slots, h, &series, &reduced, 1, bytes, 8)             \
	BOTH(X, reduce_owners, h, &series, &reduced, 1, bytes, 8)            \
	X(WINDOW, STATUS, oriel_window_reduce_rows_on_stream,                \
	  (h, &series, &reduced, 1, bytes, 8, NULL), 0)                      \
	X(WINDOW, STATUS, oriel_window_reduce_block_on_stream,               \
	  (h, &series, &reduced, 1, 0, bytes, 8, NULL), 0)                   \
	X(WINDOW, STATUS, oriel_window_reduce_sums_on_stream,                \
	  (h, &series, &reduced, 1, bytes, 8, NULL), 0)                      \
	BOTH(X, reset_signals, h)

#define OTHER_CASES(X)                                                                        \
	X(REGION, STATUS, oriel_region_share, (h), 0)                                         \
	X(REGION, DESTROY, oriel_region_unregister, (h), 0)                                   \
	X(REGION, STATUS, oriel_region_peer_length, (h, 0, &length), 0)                       \
	X(REGION, STATUS, oriel_region_peer_address, (h, 0, 0, &address), 0)                  \
	X(REGION, STATUS, oriel_region_table, (h, places), 0)                                 \
	X(REGION, STATUS, oriel_region_publish, (h, &number), 0)                              \
	X(ALLGATHER, DESTROY, oriel_allgather_destroy, (h), 0)                                \
	X(ALLGATHER, STATUS, oriel_allgather_run, (h, bytes, 8), 0)                           \
	X(ALLGATHER, STATUS, oriel_allgather_run_on_stream, (h, bytes, 8, NULL), 0)           \
	X(ALLGATHER, STATUS, oriel_allgather_start, (h, bytes, 8), 0)                         \
	X(ALLGATHER, STATUS, oriel_allgather_test, (h), 0)                                    \
	X(ALLGATHER, STATUS, oriel_allgather_wait, (h, 0), 0)                                 \
	X(ALLGATHER, STATUS, oriel_allgather_query, (h, 8, &info), 0)                         \
	X(ALLTOALL, DESTROY, oriel_alltoall_destroy, (h), 0)                                  \
	X(ALLTOALL, STATUS, oriel_alltoall_run, (h, bytes, 8), 0)                             \
	X(ALLTOALL, STATUS, oriel_alltoall_run_on_stream, (h, bytes, 8, NULL), 0)             \
	X(ALLTOALL, STATUS, oriel_alltoall_start, (h, bytes, 8), 0)                           \
	X(ALLTOALL, STATUS, oriel_alltoall_run_v, (h, bytes, &alltoallv), 0)                  \
	X(ALLTOALL, STATUS, oriel_alltoall_run_v_on_stream, (h, bytes, &alltoallv, NULL), 0)  \
	X(ALLTOALL, STATUS, oriel_alltoall_start_v, (h, bytes, &alltoallv), 0)                \
	X(ALLTOALL, STATUS, oriel_alltoall_test, (h), 0)                                      \
	X(ALLTOALL, STATUS, oriel_alltoall_wait, (h, 0), 0)                                   \
	X(ALLTOALL, STATUS, oriel_alltoall_query, (h, 8, &info), 0)                           \
	X(BCAST, DESTROY, oriel_bcast_destroy, (h), 0)                                        \
	X(BCAST, STATUS, oriel_bcast_run, (h, 0, bytes, 8), 0)                                \
	X(BCAST, STATUS, oriel_bcast_run_on_stream, (h, 0, bytes, 8, NULL), 0)                \
	X(BCAST, STATUS, oriel_bcast_start, (h, 0, bytes, 8), 0)                              \
	X(BCAST, STATUS, oriel_bcast_test, (h), 0)                                            \
	X(BCAST, STATUS, oriel_bcast_wait, (h, 0), 0)                                         \
	X(BCAST, STATUS, oriel_bcast_query, (h, 8, &info), 0)                                 \
	X(ALLREDUCE, DESTROY, oriel_allreduce_destroy, (h), 0)                                \
	X(ALLREDUCE, STATUS, oriel_allreduce_run, (h, bytes, 2), 0)                           \
	X(ALLREDUCE, STATUS, oriel_allreduce_run_on_stream, (h, bytes, 2, NULL), 0)           \
	X(ALLREDUCE, STATUS, oriel_allreduce_start, (h, bytes, 2), 0)                         \
	X(ALLREDUCE, STATUS, oriel_allreduce_test, (h), 0)                                    \
	X(ALLREDUCE, STATUS, oriel_allreduce_wait, (h, 0), 0)                                 \
	X(ALLREDUCE, STATUS, oriel_allreduce_query, (h, 2, &info), 0)                         \
	X(REDUCE_SCATTER, DESTROY, oriel_reduce_scatter_destroy, (h), 0)                      \
	X(REDUCE_SCATTER, STATUS, oriel_reduce_scatter_run, (h, bytes, 2), 0)                 \
	X(REDUCE_SCATTER, STATUS, oriel_reduce_scatter_run_on_stream, (h, bytes, 2, NULL), 0) \
	X(REDUCE_SCATTER, STATUS, oriel_reduce_scatter_start, (h, bytes, 2), 0)               \
	X(REDUCE_SCATTER, STATUS, oriel_reduce_scatter_test, (h), 0)                          \
	X(REDUCE_SCATTER, STATUS, oriel_reduce_scatter_wait, (h, 0), 0)                       \
	X(REDUCE_SCATTER, STATUS, oriel_reduce_scatter_query, (h, 2, &info), 0)               \
	X(REDUCE, DESTROY, oriel_reduce_destroy, (h), 0)                                      \
	X(REDUCE, STATUS, oriel_reduce_run, (h, 0, bytes, 2), 0)                              \
	X(REDUCE, STATUS, oriel_reduce_run_on_stream, (h, 0, bytes, 2, NULL), 0)              \
	X(REDUCE, STATUS, oriel_reduce_start, (h, 0, bytes, 2), 0)                            \
	X(REDUCE, STATUS, oriel_reduce_test, (h), 0)                                          \
	X(REDUCE, STATUS, oriel_reduce_wait, (h, 0), 0)                                       \
	X(REDUCE, STATUS, oriel_reduce_query, (h, 2, &info), 0)                               \
	X(GATHER, DESTROY, oriel_gather_destroy, (h), 0)                                      \
	X(GATHER, STATUS, oriel_gather_run, (h, 0, bytes, 2), 0)                              \
	X(GATHER, STATUS, oriel_gather_run_on_stream, (h, 0, bytes, 2, NULL), 0)              \
	X(GATHER, STATUS, oriel_gather_start, (h, 0, bytes, 2), 0)                            \
	X(GATHER, STATUS, oriel_gather_test, (h), 0)                                          \
	X(GATHER, STATUS, oriel_gather_wait, (h, 0), 0)                                       \
	X(GATHER, STATUS, oriel_gather_query, (h, 2, &info), 0)                               \
	X(SCATTER, DESTROY, oriel_scatter_destroy, (h), 0)                                    \
	X(SCATTER, STATUS, oriel_scatter_run, (h, 0, bytes, 2), 0)                            \
	X(SCATTER, STATUS, oriel_scatter_run_on_stream, (h, 0, bytes, 2, NULL), 0)            \
	X(SCATTER, STATUS, oriel_scatter_start, (h, 0, bytes, 2), 0)                          \
	X(SCATTER, STATUS, oriel_scatter_test, (h), 0)                                        \
	X(SCATTER, STATUS, oriel_scatter_wait, (h, 0), 0)                                     \
	X(SCATTER, STATUS, oriel_scatter_query, (h, 2, &info), 0)                             \
	X(STREAM_BARRIER, DESTROY, oriel_stream_barrier_destroy, (h), 0)                      \
	X(STREAM_BARRIER, STATUS, oriel_stream_barrier_run, (h), 0)                           \
	X(STREAM_BARRIER, STATUS, oriel_stream_barrier_run_on_stream, (h, NULL), 0)           \
	X(COPIES, DESTROY, oriel_copies_destroy, (h), 0)                                      \
	X(COPIES, STATUS, oriel_copies_memory, (h, 8, &address), 0)                           \
	X(COPIES, STATUS, oriel_copies_add, (h, 0, bytes, bytes + 8, 8), 0)                   \
	X(COPIES, STATUS, oriel_copies_test, (h), 0)                                          \
	X(MARK, DESTROY, oriel_mark_destroy, (h), 0)                                          \
	X(MARK, STATUS, oriel_mark_set_on_stream, (h, (void *)bytes), 0)                      \
	X(MARK, STATUS, oriel_mark_test, (h), 0)                                              \
	X(LOCAL_JOB, DESTROY, oriel_local_job_destroy, (h), 0)                                \
	X(LOCAL_JOB, STATUS, oriel_bootstrap_open_local, (h, 0, &end), 0)

#define P2P_CASES(X)                                                                        \
	X(P2P_CONTEXT, DESTROY, oriel_p2p_context_destroy, (h), 0)                          \
	X(P2P_CONTEXT, STATUS, oriel_p2p_copy_group_create, (h, NULL, OUT(made)), 0)        \
	X(P2P_CONTEXT, STATUS, oriel_p2p_create, (h, NULL, OUT(made)), 0)                   \
	X(P2P_CONTEXT, STATUS, oriel_p2p_register, (h, bytes, 8, 0, OUT(made)), 0)          \
	X(P2P_COPY_GROUP, STATUS, oriel_p2p_copy_group_device_as,                           \
	  (h, ORIEL_DEV_VERSION, sizeof(dev_copy_group), &dev_copy_group), 0)               \
	X(P2P_COPY_GROUP, DESTROY, oriel_p2p_copy_group_destroy, (h), 0)                    \
	X(P2P_ENDPOINT, DESTROY, oriel_p2p_destroy, (h), 0)                                 \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_address, (h, bytes), 0)                           \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_connect, (h, bytes, ORIEL_P2P_ADDRESS, 1), 0)     \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_check, (h), 0)                                    \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_describe, (h, &p2p_info), 0)                      \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_send_control, (h, 1, bytes, 8, &request), 0)      \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_recv_control, (h, 1, bytes, 8, &request), 0)      \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_send, (h, 0, &buffer, &request), 0)               \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_recv, (h, 0, &buffer, &request), 0)               \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_send_chunk, (h, 0, 0, 0, &buffer, &request), 0)   \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_recv_chunk, (h, 0, 0, 0, &buffer, &request), 0)   \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_export, (h, &buffer, bytes), 0)                   \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_import, (h, bytes, ORIEL_P2P_EXPORT, &remote), 0) \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_put, (h, 0, &buffer, &remote, 0, &request), 0)    \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_expect, (h, 0, &request), 0)                      \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_cancel, (h, &request), 0)                         \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_progress, (h), 0)                                 \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_test, (h, &request), 0)                           \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_wait, (h, &request, 1), 0)                        \
	X(P2P_ENDPOINT, STATUS, oriel_p2p_drain, (h, 1), 0)                                 \
	X(P2P_MEMORY, STATUS, oriel_p2p_memory_check, (h), 0)                               \
	X(P2P_MEMORY, DESTROY, oriel_p2p_unregister, (h), 0)                                \
	X(P2P_MOCK, DESTROY, oriel_p2p_mock_destroy, (h), 0)                                \
	X(P2P_MOCK, VALUE, oriel_p2p_mock_endpoint, (h, 0), NULL)                           \
	X(P2P_MOCK, VALUE, oriel_p2p_mock_context, (h), NULL)                               \
	X(P2P_MOCK, VALUE, oriel_p2p_mock_count, (h), 0)                                    \
	X(P2P_MOCK, STATUS, oriel_p2p_mock_peek, (h, 0, &event), 0)                         \
	X(P2P_MOCK, STATUS, oriel_p2p_mock_deliver, (h, 0), 0)                              \
	X(P2P_MOCK, NOTHING, oriel_p2p_mock_hold_completions, (h, 0, true), 0)              \
	X(P2P_MOCK, NOTHING, oriel_p2p_mock_fill_queue, (h, 0, 1), 0)                       \
	X(P2P_MOCK, NOTHING, oriel_p2p_mock_fail, (h, 0, ORIEL_ERR_PEER), 0)

#define ALL_CASES(X) COMM_CASES(X) WINDOW_CASES(X) OTHER_CASES(X) P2P_CASES(X)

/* Define a function for each, which returns the expected oriel_last_status() too. */
#define CALL_STATUS(function, arguments, value) return function arguments
#define CALL_VALUE(function, arguments, value) \
	return function arguments == (value) ? oriel_last_status() : ORIEL_AGAIN
#define CALL_NOTHING(function, arguments, value) \
	function arguments;                      \
	return oriel_last_status()
#define CALL_DESTROY CALL_NOTHING
#define DEFINE(kind, answer, function, arguments, value)   \
	static enum oriel_status call_##function(void *h)  \
	{                                                  \
		CALL_##answer(function, arguments, value); \
	}

ALL_CASES(DEFINE)

struct call {
	const char *name;
	enum kind kind;
	enum answer answer;
	enum oriel_status (*make)(void *handle);
};

#define ENTRY(kind, answer, function, arguments, value) {#function, kind, answer, call_##function},

static const struct call calls[] = {ALL_CASES(ENTRY)};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

static unsigned failures;

static void complain(const struct call *call, const char *what, const void *handle,
		     enum oriel_status status)
{
	failures++;
	printf("%s with %s (%p): %s, \"%s\"\n", call->name, what, handle, oriel_status_name(status),
	       oriel_last_error());
}

/* Replace the last error by that of an unrelated call. */
static void replace_last_error(void)
{
	struct oriel_setting none = {.size = sizeof(none)};

	(void)oriel_setting_get(UINT32_MAX, &none);
}

static void check_rejected(const struct call *call, const char *what, void *handle)
{
	enum oriel_status expected = handle ? ORIEL_ERR_STATE : ORIEL_ERR_INVALID, status;
	char name[80];

	snprintf(name, sizeof(name), "%s: ", call->name);
	replace_last_error();
	status = call->make(handle);
	if (!handle && call->answer == DESTROY) {
		if (strstr(oriel_last_error(), name))
			complain(call, what, handle, status);
		return;
	}
	if (status != expected || oriel_last_status() != expected ||
	    strncmp(oriel_last_error(), name, strlen(name)) != 0 ||
	    !strstr(oriel_last_error(), nouns[call->kind]))
		complain(call, what, handle, status);
}

static void must(enum oriel_status status, const char *what)
{
	if (status == ORIEL_OK)
		return;
	printf("%s: %s, \"%s\"\n", what, oriel_status_name(status), oriel_last_error());
	exit(1);
}

#define MUST(call) must(call, #call)

/* Create one object of each kind. */
static void make_all(void *of[KINDS], const struct oriel_bootstrap *bootstrap,
		     struct oriel_local_job *made_job)
{
	struct oriel_p2p_copy_group_attr copy_group = {.size = sizeof(copy_group), .timeout_ns = 1};
	struct oriel_view part = {.size = sizeof(part), .kind = ORIEL_VIEW_WINDOW, .length = 64};
	struct oriel_window_attr window = {.size = sizeof(window), .length = 4096, .channels = 16};

	of[LOCAL_JOB] = made_job;
	if (bootstrap)
		MUST(oriel_comm_create(bootstrap, NULL, OUT(of[COMM])));
	MUST(oriel_window_create(of[COMM], &window, OUT(of[WINDOW])));
	MUST(oriel_region_register(of[COMM], table, sizeof(table), OUT(of[REGION])));
	part.window = of[WINDOW];
	MUST(oriel_allgather_create(of[COMM], &part, NULL, OUT(of[ALLGATHER])));
	MUST(oriel_alltoall_create(of[COMM], &part, NULL, OUT(of[ALLTOALL])));
	MUST(oriel_bcast_create(of[COMM], &part, NULL, OUT(of[BCAST])));
	MUST(oriel_allreduce_create(of[COMM], &part, &reduction, NULL, OUT(of[ALLREDUCE])));
	MUST(oriel_reduce_scatter_create(of[COMM], &part, &reduction, NULL,
					 OUT(of[REDUCE_SCATTER])));
	MUST(oriel_gather_create(of[COMM], &part, NULL, OUT(of[GATHER])));
	MUST(oriel_scatter_create(of[COMM], &part, NULL, OUT(of[SCATTER])));
	MUST(oriel_reduce_create(of[COMM], &part, &reduction, NULL, OUT(of[REDUCE])));
	MUST(oriel_stream_barrier_create(of[COMM], 0, OUT(of[STREAM_BARRIER])));
	MUST(oriel_copies_create(of[COMM], OUT(of[COPIES])));
	MUST(oriel_mark_create(of[COMM], OUT(of[MARK])));
	MUST(oriel_p2p_context_create(NULL, OUT(of[P2P_CONTEXT])));
	MUST(oriel_p2p_create(of[P2P_CONTEXT], NULL, OUT(of[P2P_ENDPOINT])));
	MUST(oriel_p2p_register(of[P2P_CONTEXT], table, sizeof(table), 0, OUT(of[P2P_MEMORY])));
	MUST(oriel_p2p_copy_group_create(of[P2P_CONTEXT], &copy_group, OUT(of[P2P_COPY_GROUP])));
	MUST(oriel_p2p_mock_create(NULL, OUT(of[P2P_MOCK])));
}

/* Destroy children before parents. The last error must be that of the unrelated call. */
static void destroy_all(void *const of[KINDS])
{
	replace_last_error();
	oriel_p2p_mock_destroy(of[P2P_MOCK]);
	oriel_p2p_copy_group_destroy(of[P2P_COPY_GROUP]);
	oriel_p2p_unregister(of[P2P_MEMORY]);
	oriel_p2p_destroy(of[P2P_ENDPOINT]);
	oriel_p2p_context_destroy(of[P2P_CONTEXT]);
	oriel_mark_destroy(of[MARK]);
	oriel_copies_destroy(of[COPIES]);
	oriel_stream_barrier_destroy(of[STREAM_BARRIER]);
	oriel_reduce_destroy(of[REDUCE]);
	oriel_scatter_destroy(of[SCATTER]);
	oriel_gather_destroy(of[GATHER]);
	oriel_reduce_scatter_destroy(of[REDUCE_SCATTER]);
	oriel_allreduce_destroy(of[ALLREDUCE]);
	oriel_bcast_destroy(of[BCAST]);
	oriel_alltoall_destroy(of[ALLTOALL]);
	oriel_allgather_destroy(of[ALLGATHER]);
	oriel_region_unregister(of[REGION]);
	oriel_window_destroy(of[WINDOW]);
	oriel_comm_destroy(of[COMM]);
	oriel_local_job_destroy(of[LOCAL_JOB]);
	if (oriel_last_status() != ORIEL_ERR_RANGE) {
		printf("destruction: \"%s\"\n", oriel_last_error());
		failures++;
	}
}

static void check_all(void *const destroyed[KINDS])
{
	uint64_t local[64] = {0};
	unsigned other;
	size_t i;

	for (i = 0; i < CALLS; i++) {
		const struct call *call = &calls[i];

		check_rejected(call, "NULL", NULL);
		check_rejected(call, "a small number", (void *)8);
		check_rejected(call, "the last address", (void *)UINTPTR_MAX);
		check_rejected(call, "an address without memory", (void *)(uintptr_t)0xdead0000000);
		check_rejected(call, "memory of the caller's", &local[8]);
		check_rejected(call, "a misaligned handle", (char *)live[call->kind] + 1);
		check_rejected(call, "the inside of an object", (char *)live[call->kind] + 64);
		check_rejected(call, "a destroyed object", destroyed[call->kind]);
		for (other = 0; other < KINDS; other++)
			if (other != call->kind)
				check_rejected(call, "an object of another kind", live[other]);
	}
}

/* Invalid handles inside other arguments. */
static void check_inside(void *const destroyed[KINDS])
{
	struct oriel_view bad = {.size = sizeof(bad),
				 .kind = ORIEL_VIEW_WINDOW,
				 .length = 8,
				 .window = destroyed[WINDOW]};
	struct oriel_p2p_buffer from = {bytes, 8, destroyed[P2P_MEMORY]};
	const struct call create = {"oriel_allgather_create", WINDOW, STATUS, NULL},
			  send = {"oriel_p2p_send", P2P_MEMORY, STATUS, NULL};
	enum oriel_status status;

	status = oriel_allgather_create(live[COMM], &bad, NULL, OUT(made));
	if (status != ORIEL_ERR_STATE || !strstr(oriel_last_error(), nouns[WINDOW]))
		complain(&create, "a destroyed window", destroyed[WINDOW], status);
	status = oriel_p2p_send(live[P2P_ENDPOINT], 0, &from, &request);
	if (status != ORIEL_ERR_STATE || !strstr(oriel_last_error(), nouns[P2P_MEMORY]))
		complain(&send, "destroyed memory", destroyed[P2P_MEMORY], status);
}

int main(int argc, char **argv)
{
	struct oriel_local_job *jobs[2] = {NULL, NULL};
	struct oriel_bootstrap ends[2];
	void *destroyed[KINDS];
	size_t i;

	for (i = 0; argc > 1 && strcmp(argv[1], "--list") == 0 && i < CALLS; i++)
		printf("%s\n", calls[i].name);
	if (argc > 1)
		return 0;
	setenv("ORIEL_LOG", "error", 1);
	for (i = 0; i < 2; i++) {
		MUST(oriel_local_job_create(1, &jobs[i]));
		MUST(oriel_bootstrap_open_local(jobs[i], 0, &ends[i]));
	}
	make_all(destroyed, &ends[0], jobs[0]);
	make_all(live, &ends[1], jobs[1]);
	destroy_all(destroyed);
	check_all(destroyed);
	check_inside(destroyed);
	/* The rejected calls have not changed the live objects. */
	MUST(oriel_window_put(live[WINDOW], 0, 0, bytes, 8));
	MUST(oriel_comm_barrier(live[COMM]));
	MUST(oriel_allgather_run(live[ALLGATHER], bytes, 8));
	destroy_all(live);
	oriel_bootstrap_close(&ends[0]);
	oriel_bootstrap_close(&ends[1]);
	printf("%zu functions, %u failures\n", CALLS, failures);
	return failures != 0;
}
