/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nulls [--list | gpu]: every public host function gets NULL for each of its pointers that it
 * needs, one at a time. It returns ORIEL_ERR_INVALID with a text that says so, and crashes with
 * none; afterwards the communicator still works, also where one rank alone made those calls that
 * are refused before the ranks meet. Two ranks as threads. gpu: the calls that need windows, views
 * and streams of a GPU, by the fake driver. --list prints functions and parameters, also those of
 * which NULL has a meaning, so that nulls_test.py finds one that is missing.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev.h>
#include <oriel/dev/copy_group.h>
#include <oriel/oriel.h>
#include <oriel/p2p_mock.h>

#define RANKS 2u

/* The objects of one rank. */
struct objects {
	unsigned rank;
	struct oriel_bootstrap end, other;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_region *region;
	struct oriel_allgather *allgather;
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	struct oriel_allreduce *allreduce;
	struct oriel_reduce_scatter *reduce_scatter;
	struct oriel_reduce *reduce;
	struct oriel_gather *gather;
	struct oriel_scatter *scatter;
	struct oriel_copies *copies;
	struct oriel_p2p_context *ctx;
	struct oriel_p2p *p2p;
	struct oriel_p2p_copy_group *group;
	struct oriel_p2p_mock *mock;
	struct CUstream_st *stream;
	struct oriel_view view;
	struct oriel_dev_buffer places[RANKS];
};

static _Thread_local struct objects o;

/* Arguments that are valid, or never read since another one is NULL. */
static _Thread_local char bytes[4096];
static _Thread_local uint64_t word, table[64];
static _Thread_local void *made;
static _Thread_local struct oriel_p2p_request request;
static struct oriel_local_job *job;
static struct oriel_job_id id;
static struct oriel_invitation invitation;
static struct oriel_coll_info info = {.size = sizeof(info)};
static struct oriel_health health = {.size = sizeof(health), .what = "", .reason = ""};
static struct oriel_dev_gather series;
static struct oriel_dev_reduction reduced = {.type = ORIEL_TYPE_FP32, .op = ORIEL_OP_SUM};
static struct oriel_dev_alltoallv layout[RANKS] = {{.send_length = 8}, {.send_length = 8}};
static struct oriel_p2p_remote remote;
static _Thread_local struct oriel_p2p_buffer buffer = {.length = 8};
static const struct oriel_reduction reduction = {.size = sizeof(reduction),
						 .type = ORIEL_TYPE_FP32,
						 .op = ORIEL_OP_SUM};

static void close_nothing(struct oriel_comm *comm, void *object)
{
	(void)comm, (void)object;
}

/* Where a row is checked: with the objects of hosts, or of GPUs. */
enum where { HOST, GPU };

/* How NULL is refused. */
enum refusal {
	NAMED,  /* "call: parameter is NULL"; by this rank alone, before it meets others */
	LOCAL,  /* "call: ... NULL"; likewise */
	AGREED, /* the text says NULL; a collective may have met the other ranks */
};

#define OUT(x) (void *)&(x)

/* X(where, refusal, function, parameter, arguments) */
#define COMM_CASES(X)                                                                  \
	X(HOST, NAMED, oriel_comm_create, comm, (&o.other, NULL, NULL))                \
	X(HOST, NAMED, oriel_comm_create_id, comm, (&id, 0, 1, NULL, NULL))            \
	X(HOST, AGREED, oriel_comm_create_id, id, (NULL, 0, 1, NULL, OUT(made)))       \
	X(HOST, NAMED, oriel_comm_create_ids, comm, (&id, 0, 1, 1, NULL, NULL))        \
	X(HOST, AGREED, oriel_comm_create_ids, ids, (NULL, 0, 1, 1, NULL, OUT(made)))  \
	X(HOST, AGREED, oriel_comm_split, part, (o.comm, 0, 0, NULL, NULL))            \
	X(HOST, NAMED, oriel_comm_shrink, survivors, (o.comm, NULL, NULL))             \
	X(HOST, NAMED, oriel_comm_unsafe, rank, (o.comm, bytes, 8, NULL))              \
	X(HOST, NAMED, oriel_invitation_text, invitation, (NULL, bytes))               \
	X(HOST, NAMED, oriel_invitation_text, text, (&invitation, NULL))               \
	X(HOST, NAMED, oriel_invitation_read, text, (NULL, &invitation))               \
	X(HOST, NAMED, oriel_invitation_read, invitation, ("", NULL))                  \
	X(HOST, NAMED, oriel_comm_invite, invitation, (o.comm, NULL))                  \
	X(HOST, AGREED, oriel_comm_grow, grown, (o.comm, 1, NULL, NULL))               \
	X(HOST, NAMED, oriel_comm_join, grown, (&invitation, NULL, NULL))              \
	X(HOST, NAMED, oriel_comm_join, invitation, (NULL, NULL, OUT(made)))           \
	X(HOST, AGREED, oriel_comm_merge, invitation, (o.comm, NULL, NULL, OUT(made))) \
	X(HOST, AGREED, oriel_comm_merge, grown, (o.comm, &invitation, NULL, NULL))    \
	X(HOST, NAMED, oriel_comm_origin, origin, (o.comm, 0, NULL))                   \
	X(HOST, NAMED, oriel_comm_path, path, (o.comm, 0, NULL))                       \
	X(HOST, AGREED, oriel_comm_peer, peer, (o.comm, 0, NULL))                      \
	X(HOST, AGREED, oriel_comm_peer_gpu, gpu, (o.comm, 0, NULL))                   \
	X(HOST, NAMED, oriel_comm_path_between, path, (o.comm, 0, 1, NULL))            \
	X(HOST, NAMED, oriel_comm_domain_rank, rank, (o.comm, 0, NULL))                \
	X(HOST, NAMED, oriel_comm_domain_find, index, (o.comm, 0, NULL))               \
	X(HOST, NAMED, oriel_comm_peer_rank, rank, (o.comm, 0, NULL))                  \
	X(HOST, NAMED, oriel_comm_peer_index, index, (o.comm, !o.rank, NULL))          \
	X(HOST, AGREED, oriel_comm_connect, peers, (o.comm, NULL, 1))                  \
	X(HOST, AGREED, oriel_comm_all_gather, mine, (o.comm, NULL, bytes, 8))         \
	X(HOST, AGREED, oriel_comm_all_gather, all, (o.comm, bytes, NULL, 8))          \
	X(HOST, NAMED, oriel_comm_attach, key, (o.comm, NULL, bytes, close_nothing))   \
	X(HOST, NAMED, oriel_comm_attach, close, (o.comm, bytes, bytes, NULL))         \
	X(HOST, NAMED, oriel_comm_attached, object, (o.comm, bytes, NULL))             \
	X(HOST, AGREED, oriel_comm_health, health, (o.comm, NULL))                     \
	X(HOST, AGREED, oriel_feature_get, feature, (0, NULL))                         \
	X(HOST, AGREED, oriel_comm_nic, nic, (o.comm, NULL))                           \
	X(HOST, AGREED, oriel_setting_get, setting, (0, NULL))                         \
	X(HOST, NAMED, oriel_comm_device_as, device,                                   \
	  (o.comm, ORIEL_DEV_VERSION, sizeof(struct oriel_dev_window), NULL))          \
	X(HOST, NAMED, oriel_comm_device_atomics, atomics, (o.comm, NULL))             \
	X(HOST, NAMED, oriel_comm_device_fault, fault, (o.comm, NULL))                 \
	X(HOST, NAMED, oriel_region_publish, number, (o.region, NULL))                 \
	X(HOST, AGREED, oriel_object_cache_query, info, (o.comm, NULL))                \
	X(HOST, AGREED, oriel_tune_find, info, (o.comm, false, NULL))                  \
	X(HOST, NAMED, oriel_tune_gpu_open, stream, (0, NULL))                         \
	X(HOST, NAMED, oriel_bootstrap_open_env, bootstrap, (1, NULL))                 \
	X(HOST, NAMED, oriel_job_id_open, id, (NULL))                                  \
	X(HOST, NAMED, oriel_bootstrap_open_id, id, (NULL, 0, 1, 1, &o.other))         \
	X(HOST, NAMED, oriel_bootstrap_open_id, bootstrap, (&id, 0, 1, 1, NULL))       \
	X(HOST, NAMED, oriel_local_job_create, job, (1, NULL))                         \
	X(HOST, NAMED, oriel_bootstrap_open_local, bootstrap, (job, 0, NULL))          \
	X(HOST, NAMED, oriel_comm_post, job, (o.comm, NULL))                           \
	X(GPU, NAMED, oriel_comm_post_on_stream, job, (o.comm, NULL, NULL))            \
	X(HOST, NAMED, oriel_mark_create, mark, (o.comm, NULL))                        \
	X(GPU, NAMED, oriel_comm_is_capturing, is_capturing, (o.comm, NULL, NULL))     \
	X(HOST, NAMED, oriel_copies_create, copies, (o.comm, NULL))                    \
	X(HOST, NAMED, oriel_copies_memory, memory, (o.copies, 8, NULL))               \
	X(HOST, NAMED, oriel_copies_add, to, (o.copies, 0, NULL, bytes, 8))            \
	X(HOST, NAMED, oriel_copies_add, from, (o.copies, 0, bytes, NULL, 8))          \
	X(HOST, NAMED, oriel_memory_alloc, address, (8, 0, NULL))                      \
	X(HOST, AGREED, oriel_memory_take_fd, address, (NULL, 8, 0, 0))                \
	X(HOST, AGREED, oriel_memory_identity, address, (o.comm, NULL, 8, &word))      \
	X(HOST, NAMED, oriel_memory_identity, identity, (o.comm, bytes, 8, NULL))      \
	X(HOST, AGREED, oriel_region_register, address, (o.comm, NULL, 8, OUT(made)))  \
	X(HOST, NAMED, oriel_region_register, region, (o.comm, bytes, 8, NULL))        \
	X(HOST, NAMED, oriel_region_peer_length, length, (o.region, 0, NULL))          \
	X(HOST, NAMED, oriel_region_peer_address, address, (o.region, 0, 0, NULL))     \
	X(HOST, NAMED, oriel_region_table, table, (o.region, NULL))                    \
	X(HOST, NAMED, oriel_stream_barrier_create, barrier, (o.comm, 0, NULL))

/* Persistent collectives, and calls without an object; the arguments before @send follow. */
#define CREATED(X, kind, out)                                                         \
	X(HOST, AGREED, oriel_##kind##_create, view, (o.comm, NULL, NULL, OUT(made))) \
	X(HOST, LOCAL, oriel_##kind##_create, out, (o.comm, &o.view, NULL, NULL))
#define CREATED_REDUCTION(X, kind, out)                                                           \
	X(HOST, AGREED, oriel_##kind##_create, view, (o.comm, NULL, &reduction, NULL, OUT(made))) \
	X(HOST, AGREED, oriel_##kind##_create, reduction,                                         \
	  (o.comm, &o.view, NULL, NULL, OUT(made)))                                               \
	X(HOST, LOCAL, oriel_##kind##_create, out, (o.comm, &o.view, &reduction, NULL, NULL))
#define EXECUTED(X, kind, ...)                                                           \
	X(HOST, AGREED, oriel_##kind##_run, send, (__VA_ARGS__, NULL, 8))                \
	X(GPU, AGREED, oriel_##kind##_run_on_stream, send, (__VA_ARGS__, NULL, 8, NULL)) \
	X(HOST, AGREED, oriel_##kind##_start, send, (__VA_ARGS__, NULL, 8))              \
	X(HOST, AGREED, oriel_##kind##_query, info, (o.kind, 8, NULL))
#define ONCE(X, kind, ...)                                                                       \
	X(HOST, AGREED, oriel_##kind##_once, send, (__VA_ARGS__, NULL, bytes, 8))                \
	X(HOST, AGREED, oriel_##kind##_once, recv, (__VA_ARGS__, bytes, NULL, 8))                \
	X(GPU, AGREED, oriel_##kind##_once_on_stream, send, (__VA_ARGS__, NULL, bytes, 8, NULL)) \
	X(GPU, AGREED, oriel_##kind##_once_on_stream, recv, (__VA_ARGS__, bytes, NULL, 8, NULL))
#define ONCE_REDUCTION(X, kind, ...)                                                          \
	X(HOST, AGREED, oriel_##kind##_once, send, (__VA_ARGS__, NULL, bytes, 8, &reduction)) \
	X(HOST, AGREED, oriel_##kind##_once, recv, (__VA_ARGS__, bytes, NULL, 8, &reduction)) \
	X(HOST, AGREED, oriel_##kind##_once, reduction, (__VA_ARGS__, bytes, bytes, 8, NULL)) \
	X(GPU, AGREED, oriel_##kind##_once_on_stream, send,                                   \
	  (__VA_ARGS__, NULL, bytes, 8, &reduction, NULL))                                    \
	X(GPU, AGREED, oriel_##kind##_once_on_stream, recv,                                   \
	  (__VA_ARGS__, bytes, NULL, 8, &reduction, NULL))                                    \
	X(GPU, AGREED, oriel_##kind##_once_on_stream, reduction,                              \
	  (__VA_ARGS__, bytes, bytes, 8, NULL, NULL))

/* The root alone needs what it sends, so that each rank names itself where it is not agreed. */
#define COLL_CASES(X)                                                                           \
	CREATED(X, allgather, gather)                                                           \
	X(HOST, AGREED, oriel_allgather_check, view, (o.comm, NULL, NULL, 8, &info))            \
	X(HOST, AGREED, oriel_allgather_check, info, (o.comm, &o.view, NULL, 8, NULL))          \
	EXECUTED(X, allgather, o.allgather)                                                     \
	ONCE(X, allgather, o.comm)                                                              \
	CREATED(X, alltoall, alltoall)                                                          \
	EXECUTED(X, alltoall, o.alltoall)                                                       \
	X(HOST, AGREED, oriel_alltoall_run_v, send, (o.alltoall, NULL, layout))                 \
	X(HOST, AGREED, oriel_alltoall_run_v, layout, (o.alltoall, bytes, NULL))                \
	X(HOST, AGREED, oriel_alltoall_start_v, send, (o.alltoall, NULL, layout))               \
	X(HOST, AGREED, oriel_alltoall_start_v, layout, (o.alltoall, bytes, NULL))              \
	X(GPU, AGREED, oriel_alltoall_run_v_on_stream, layout, (o.alltoall, bytes, NULL, NULL)) \
	ONCE(X, alltoall, o.comm)                                                               \
	CREATED(X, bcast, bcast)                                                                \
	EXECUTED(X, bcast, o.bcast, o.rank)                                                     \
	ONCE(X, bcast, o.comm, 0)                                                               \
	CREATED_REDUCTION(X, allreduce, allreduce)                                              \
	EXECUTED(X, allreduce, o.allreduce)                                                     \
	ONCE_REDUCTION(X, allreduce, o.comm)                                                    \
	CREATED_REDUCTION(X, reduce_scatter, scatter)                                           \
	EXECUTED(X, reduce_scatter, o.reduce_scatter)                                           \
	ONCE_REDUCTION(X, reduce_scatter, o.comm)                                               \
	CREATED_REDUCTION(X, reduce, reduce)                                                    \
	EXECUTED(X, reduce, o.reduce, 0)                                                        \
	ONCE_REDUCTION(X, reduce, o.comm, 0)                                                    \
	CREATED(X, gather, gather)                                                              \
	EXECUTED(X, gather, o.gather, 0)                                                        \
	ONCE(X, gather, o.comm, 0)                                                              \
	CREATED(X, scatter, scatter)                                                            \
	EXECUTED(X, scatter, o.scatter, o.rank)                                                 \
	ONCE(X, scatter, o.comm, 0)

/* An operation of windows in host memory, and the same of windows on GPUs. */
#define BOTH(X, refusal, operation, parameter, ...)                                    \
	X(HOST, refusal, oriel_window_##operation, parameter, (o.window, __VA_ARGS__)) \
	X(GPU, refusal, oriel_window_##operation##_on_stream, parameter,               \
	  (o.window, __VA_ARGS__, NULL))
/* One of all ranks, of the elements of a reduction too. */
#define SERIES(X, operation, ...)                                      \
	BOTH(X, NAMED, operation, gather, NULL, __VA_ARGS__, bytes, 8) \
	BOTH(X, AGREED, operation, from, &series, __VA_ARGS__, NULL, 8)
#define REDUCED(X, operation)                                            \
	BOTH(X, NAMED, operation, gather, NULL, &reduced, 1, bytes, 8)   \
	BOTH(X, NAMED, operation, reduction, &series, NULL, 1, bytes, 8) \
	BOTH(X, AGREED, operation, from, &series, &reduced, 1, NULL, 8)
#define REDUCED_HERE(X, operation, ...)                                \
	X(GPU, NAMED, oriel_window_##operation##_on_stream, gather,    \
	  (o.window, NULL, &reduced, __VA_ARGS__, bytes, 8, NULL))     \
	X(GPU, NAMED, oriel_window_##operation##_on_stream, reduction, \
	  (o.window, &series, NULL, __VA_ARGS__, bytes, 8, NULL))      \
	X(GPU, AGREED, oriel_window_##operation##_on_stream, from,     \
	  (o.window, &series, &reduced, __VA_ARGS__, NULL, 8, NULL))

#define WINDOW_CASES(X)                                                                    \
	X(HOST, NAMED, oriel_window_create, window, (o.comm, NULL, NULL))                  \
	X(HOST, NAMED, oriel_window_share, buffer, (o.window, table, 8, NULL))             \
	X(HOST, AGREED, oriel_window_share_table, table, (o.window, NULL, OUT(word)))      \
	X(HOST, NAMED, oriel_window_share_table, buffer, (o.window, o.places, NULL))       \
	X(HOST, NAMED, oriel_window_device_as, device,                                     \
	  (o.window, ORIEL_DEV_VERSION, sizeof(struct oriel_dev_window), NULL))            \
	X(HOST, NAMED, oriel_window_buffer, address, (o.window, 0, NULL, NULL))            \
	X(HOST, NAMED, oriel_window_peer_length, length, (o.window, 0, 0, NULL))           \
	X(HOST, NAMED, oriel_window_peer_address, address, (o.window, 0, 0, NULL))         \
	X(HOST, NAMED, oriel_window_atomics, atomics, (o.window, NULL))                    \
	X(HOST, NAMED, oriel_window_fault, fault, (o.window, NULL))                        \
	BOTH(X, AGREED, put, from, 0, 0, NULL, 8)                                          \
	BOTH(X, AGREED, get, to, 0, 0, NULL, 8)                                            \
	BOTH(X, AGREED, put_signal, from, 0, 0, NULL, 8, 0, 1)                             \
	BOTH(X, AGREED, fetch_add, old, 0, 0, 1, NULL)                                     \
	BOTH(X, AGREED, fetch_and, old, 0, 0, 1, NULL)                                     \
	BOTH(X, AGREED, fetch_or, old, 0, 0, 1, NULL)                                      \
	BOTH(X, AGREED, fetch_xor, old, 0, 0, 1, NULL)                                     \
	BOTH(X, AGREED, swap, old, 0, 0, 1, NULL)                                          \
	BOTH(X, AGREED, compare_swap, old, 0, 0, 1, 2, NULL)                               \
	BOTH(X, AGREED, fetch, value, 0, 0, NULL)                                          \
	BOTH(X, AGREED, fetch_add_32, old, 0, 0, 1, NULL)                                  \
	BOTH(X, AGREED, fetch_and_32, old, 0, 0, 1, NULL)                                  \
	BOTH(X, AGREED, fetch_or_32, old, 0, 0, 1, NULL)                                   \
	BOTH(X, AGREED, fetch_xor_32, old, 0, 0, 1, NULL)                                  \
	BOTH(X, AGREED, swap_32, old, 0, 0, 1, NULL)                                       \
	BOTH(X, AGREED, compare_swap_32, old, 0, 0, 1, 2, NULL)                            \
	BOTH(X, AGREED, fetch_32, value, 0, 0, NULL)                                       \
	BOTH(X, AGREED, read_signal, value, 0, NULL)                                       \
	BOTH(X, AGREED, read_signal_from, value, 0, 0, NULL)                               \
	BOTH(X, AGREED, send, from, !o.rank, 0, NULL, 8, 1)                                \
	BOTH(X, AGREED, recv, to, !o.rank, 0, NULL, 8, 1)                                  \
	BOTH(X, AGREED, put_counter, from, 0, 0, NULL, 8, 0)                               \
	BOTH(X, AGREED, put_signal_counter, from, 0, 0, NULL, 8, 0, 1, 0)                  \
	BOTH(X, AGREED, read_counter, value, 0, 0, NULL)                                   \
	BOTH(X, AGREED, put_all, from, 0, NULL, 8)                                         \
	BOTH(X, AGREED, put_each, from, 0, NULL, 8, 8)                                     \
	BOTH(X, AGREED, put_all_domain, from, 0, NULL, 8)                                  \
	BOTH(X, AGREED, put_each_domain, from, 0, NULL, 8, 8)                              \
	BOTH(X, AGREED, put_table, to, NULL, bytes, 8, 8)                                  \
	BOTH(X, AGREED, put_table, from, &made, NULL, 8, 8)                                \
	BOTH(X, NAMED, exchange, gather, NULL, 1, bytes, layout)                           \
	X(HOST, AGREED, oriel_window_exchange, from, (o.window, &series, 1, NULL, layout)) \
	BOTH(X, NAMED, exchange, layout, &series, 1, bytes, NULL)                          \
	BOTH(X, NAMED, broadcast, gather, NULL, 1, o.rank, bytes, 8)                       \
	BOTH(X, AGREED, broadcast, from, &series, 1, o.rank, NULL, 8)                      \
	SERIES(X, gather_lines, 1)                                                         \
	SERIES(X, gather_puts, 1)                                                          \
	REDUCED(X, reduce_lines)                                                           \
	REDUCED(X, reduce_slots)                                                           \
	REDUCED(X, reduce_owners)                                                          \
	REDUCED_HERE(X, reduce_rows, 1)                                                    \
	REDUCED_HERE(X, reduce_block, 1, 0)                                                \
	REDUCED_HERE(X, reduce_sums, 1)

#define P2P_CASES(X)                                                                       \
	X(HOST, NAMED, oriel_comm_p2p, p2p, (o.comm, 0, NULL, NULL))                       \
	X(HOST, NAMED, oriel_comm_p2p_context, ctx, (o.comm, NULL))                        \
	X(HOST, NAMED, oriel_p2p_context_create, ctx, (NULL, NULL))                        \
	X(HOST, NAMED, oriel_p2p_copy_group_create, group, (o.ctx, NULL, NULL))            \
	X(HOST, NAMED, oriel_p2p_copy_group_device_as, device,                             \
	  (o.group, ORIEL_DEV_VERSION, sizeof(struct oriel_dev_copy_group), NULL))         \
	X(HOST, NAMED, oriel_p2p_create, p2p, (o.ctx, NULL, NULL))                         \
	X(HOST, NAMED, oriel_p2p_address, bytes, (o.p2p, NULL))                            \
	X(HOST, NAMED, oriel_p2p_connect, address, (o.p2p, NULL, ORIEL_P2P_ADDRESS, 1))    \
	X(HOST, AGREED, oriel_p2p_describe, info, (o.p2p, NULL))                           \
	X(HOST, NAMED, oriel_p2p_send_control, data, (o.p2p, 1, NULL, 8, &request))        \
	X(HOST, NAMED, oriel_p2p_send_control, request, (o.p2p, 1, bytes, 8, NULL))        \
	X(HOST, NAMED, oriel_p2p_recv_control, data, (o.p2p, 1, NULL, 8, &request))        \
	X(HOST, NAMED, oriel_p2p_recv_control, request, (o.p2p, 1, bytes, 8, NULL))        \
	X(HOST, AGREED, oriel_p2p_register, address, (o.ctx, NULL, 8, 0, OUT(made)))       \
	X(HOST, NAMED, oriel_p2p_register, memory, (o.ctx, bytes, 8, 0, NULL))             \
	X(HOST, AGREED, oriel_p2p_send, from, (o.p2p, 0, NULL, &request))                  \
	X(HOST, NAMED, oriel_p2p_send, request, (o.p2p, 0, &buffer, NULL))                 \
	X(HOST, AGREED, oriel_p2p_recv, to, (o.p2p, 0, NULL, &request))                    \
	X(HOST, NAMED, oriel_p2p_recv, request, (o.p2p, 0, &buffer, NULL))                 \
	X(HOST, AGREED, oriel_p2p_send_chunk, from, (o.p2p, 0, 0, 0, NULL, &request))      \
	X(HOST, NAMED, oriel_p2p_send_chunk, request, (o.p2p, 0, 0, 0, &buffer, NULL))     \
	X(HOST, AGREED, oriel_p2p_recv_chunk, to, (o.p2p, 0, 0, 0, NULL, &request))        \
	X(HOST, NAMED, oriel_p2p_recv_chunk, request, (o.p2p, 0, 0, 0, &buffer, NULL))     \
	X(HOST, AGREED, oriel_p2p_export, buffer, (o.p2p, NULL, bytes))                    \
	X(HOST, AGREED, oriel_p2p_export, bytes, (o.p2p, &buffer, NULL))                   \
	X(HOST, AGREED, oriel_p2p_import, bytes, (o.p2p, NULL, ORIEL_P2P_EXPORT, &remote)) \
	X(HOST, AGREED, oriel_p2p_import, remote, (o.p2p, bytes, ORIEL_P2P_EXPORT, NULL))  \
	X(HOST, AGREED, oriel_p2p_put, from, (o.p2p, 0, NULL, &remote, 0, &request))       \
	X(HOST, AGREED, oriel_p2p_put, to, (o.p2p, 0, &buffer, NULL, 0, &request))         \
	X(HOST, NAMED, oriel_p2p_put, request, (o.p2p, 0, &buffer, &remote, 0, NULL))      \
	X(HOST, NAMED, oriel_p2p_expect, request, (o.p2p, 0, NULL))                        \
	X(HOST, NAMED, oriel_p2p_cancel, request, (o.p2p, NULL))                           \
	X(HOST, NAMED, oriel_p2p_test, request, (o.p2p, NULL))                             \
	X(HOST, NAMED, oriel_p2p_wait, request, (o.p2p, NULL, 1))                          \
	X(HOST, NAMED, oriel_p2p_mock_create, mock, (NULL, NULL))                          \
	X(HOST, NAMED, oriel_p2p_mock_peek, event, (o.mock, 0, NULL))

#define ALL_CASES(X) COMM_CASES(X) COLL_CASES(X) WINDOW_CASES(X) P2P_CASES(X)

#define DEFINE(where, refusal, function, parameter, arguments)        \
	static enum oriel_status function##_without_##parameter(void) \
	{                                                             \
		return function arguments;                            \
	}

ALL_CASES(DEFINE)

/* They return the length of the text, and have no status. */
static enum oriel_status text_status(size_t length)
{
	return length ? ORIEL_AGAIN : oriel_last_status();
}

static enum oriel_status oriel_health_text_without_health(void)
{
	return text_status(oriel_health_text(NULL, bytes, sizeof(bytes)));
}

static enum oriel_status oriel_health_text_without_buffer(void)
{
	return text_status(oriel_health_text(&health, NULL, 8));
}

static enum oriel_status oriel_health_json_without_health(void)
{
	return text_status(oriel_health_json(NULL, bytes, sizeof(bytes)));
}

static enum oriel_status oriel_health_json_without_buffer(void)
{
	return text_status(oriel_health_json(&health, NULL, 8));
}

#define TEXT_CASES(X)                                     \
	X(HOST, NAMED, oriel_health_text, health, unused) \
	X(HOST, NAMED, oriel_health_text, buffer, unused) \
	X(HOST, NAMED, oriel_health_json, health, unused) \
	X(HOST, NAMED, oriel_health_json, buffer, unused)

struct call {
	enum where where;
	enum refusal refusal;
	const char *function, *parameter;
	enum oriel_status (*make)(void);
};

#define ENTRY(where, refusal, function, parameter, arguments) \
	{where, refusal, #function, #parameter, function##_without_##parameter},

static const struct call calls[] = {ALL_CASES(ENTRY) TEXT_CASES(ENTRY)};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* NULL has a meaning, which the header names. */
static const char *const allowed[] = {
	/* The default attributes. */
	"oriel_allgather_check attr",
	"oriel_allgather_create attr",
	"oriel_allreduce_create attr",
	"oriel_alltoall_create attr",
	"oriel_bcast_create attr",
	"oriel_comm_create attr",
	"oriel_comm_create_id attr",
	"oriel_comm_create_ids attr",
	"oriel_comm_device_create attr",
	"oriel_comm_grow attr",
	"oriel_comm_join attr",
	"oriel_comm_merge attr",
	"oriel_comm_p2p attr",
	"oriel_comm_shrink attr",
	"oriel_comm_split attr",
	"oriel_gather_create attr",
	"oriel_p2p_context_create attr",
	"oriel_p2p_copy_group_create attr",
	"oriel_p2p_create attr",
	"oriel_p2p_mock_create attr",
	"oriel_reduce_create attr",
	"oriel_reduce_scatter_create attr",
	"oriel_scatter_create attr",
	"oriel_window_create attr",
	/* Nothing to be ended, or all of it. */
	"oriel_bootstrap_close bootstrap",
	"oriel_job_id_close id",
	"oriel_memory_free address",
	"oriel_memory_release address",
	"oriel_object_cache_release memory",
	/* The job that the environment describes. */
	"oriel_comm_create bootstrap",
	/* Memory of no bytes; no rank is its user; the messages have no bytes. */
	"oriel_window_share address",
	"oriel_comm_unsafe address",
	"oriel_window_exchange_on_stream from",
	"oriel_alltoall_run_v_on_stream send",
	/* No length, no object, no reason, no text, no sink, and what goes to that. */
	"oriel_window_buffer length",
	"oriel_comm_attach object",
	"oriel_comm_abort why",
	"oriel_comm_attached key",
	"oriel_error_set text",
	"oriel_log_set_sink sink",
	"oriel_log_set_sink context",
};

static bool is_gpu;
static unsigned failures[RANKS];
static _Thread_local sigjmp_buf back;

static void crashed(int number)
{
	siglongjmp(back, number);
}

static void complain(const struct call *call, const char *what)
{
	failures[o.rank]++;
	printf("rank %u: %s, %s NULL: %s\n", o.rank, call->function, call->parameter, what);
	fflush(stdout);
}

/* Does the text name the call and the parameter, or say NULL at least? */
static bool is_explained(const struct call *call)
{
	char text[160];

	/* A window, or an object, in host memory is of the wrong kind anyway. */
	if (call->where == GPU && !is_gpu)
		return true;
	/* glibc prints an address so. */
	if (!strstr(oriel_last_error(), "NULL") && !strstr(oriel_last_error(), "(nil)"))
		return false;
	snprintf(text, sizeof(text),
		 call->refusal == NAMED ? "%s: %s is NULL" : "%s: ", call->function,
		 call->parameter);
	return call->refusal == AGREED || strncmp(oriel_last_error(), text, strlen(text)) == 0;
}

static void check_refused(const struct call *call)
{
	struct oriel_setting none = {.size = sizeof(none)};
	char text[512];
	enum oriel_status status;
	int number = sigsetjmp(back, 1);

	if (number) {
		complain(call, strsignal(number));
		return;
	}
	/* Replaces the last error by that of an unrelated call. */
	(void)oriel_setting_get(UINT32_MAX, &none);
	status = call->make();
	if (status == ORIEL_ERR_INVALID && is_explained(call))
		return;
	if (is_gpu && status == ORIEL_ERR_UNSUPPORTED && call->refusal == AGREED &&
	    strstr(oriel_last_error(), "the library was built without nvcc"))
		return;
	snprintf(text, sizeof(text), "%s, \"%s\"", oriel_status_name(status), oriel_last_error());
	complain(call, text);
}

static void must(enum oriel_status status, const char *what)
{
	if (status == ORIEL_OK)
		return;
	printf("rank %u: %s: %s, \"%s\"\n", o.rank, what, oriel_status_name(status),
	       oriel_last_error());
	exit(1);
}

#define MUST(call) must(call, #call)

static void make_all(void)
{
	const struct oriel_comm_attr attr = {.size = sizeof(attr),
					     .flags = is_gpu ? ORIEL_COMM_GPU : 0};
	const struct oriel_window_attr window = {.size = sizeof(window),
						 .length = 4096,
						 .channels = 1,
						 .flags = is_gpu ? ORIEL_WINDOW_DEVICE : 0};

	if (is_gpu)
		MUST(oriel_tune_gpu_open(o.rank, &o.stream));
	MUST(oriel_comm_create(&o.end, &attr, &o.comm));
	MUST(oriel_window_create(o.comm, &window, &o.window));
	o.view = (struct oriel_view){.size = sizeof(o.view),
				     .kind = ORIEL_VIEW_WINDOW,
				     .flags = is_gpu ? ORIEL_VIEW_GPU : 0,
				     .length = 1024,
				     .window = o.window};
	MUST(oriel_region_register(o.comm, table, sizeof(table), &o.region));
	MUST(oriel_allgather_create(o.comm, &o.view, NULL, &o.allgather));
	MUST(oriel_alltoall_create(o.comm, &o.view, NULL, &o.alltoall));
	MUST(oriel_bcast_create(o.comm, &o.view, NULL, &o.bcast));
	MUST(oriel_allreduce_create(o.comm, &o.view, &reduction, NULL, &o.allreduce));
	MUST(oriel_reduce_scatter_create(o.comm, &o.view, &reduction, NULL, &o.reduce_scatter));
	MUST(oriel_reduce_create(o.comm, &o.view, &reduction, NULL, &o.reduce));
	MUST(oriel_gather_create(o.comm, &o.view, NULL, &o.gather));
	MUST(oriel_scatter_create(o.comm, &o.view, NULL, &o.scatter));
	MUST(oriel_copies_create(o.comm, &o.copies));
	buffer.address = table;
	if (is_gpu)
		return;
	MUST(oriel_region_share(o.region));
	MUST(oriel_comm_device_create(o.comm, NULL));
	MUST(oriel_p2p_context_create(NULL, &o.ctx));
	MUST(oriel_p2p_create(o.ctx, NULL, &o.p2p));
	MUST(oriel_p2p_copy_group_create(o.ctx, NULL, &o.group));
	MUST(oriel_p2p_mock_create(NULL, &o.mock));
}

static void destroy_all(void)
{
	MUST(oriel_p2p_mock_destroy(o.mock));
	MUST(oriel_p2p_copy_group_destroy(o.group));
	MUST(oriel_p2p_destroy(o.p2p));
	MUST(oriel_p2p_context_destroy(o.ctx));
	MUST(oriel_copies_destroy(o.copies));
	MUST(oriel_scatter_destroy(o.scatter));
	MUST(oriel_gather_destroy(o.gather));
	MUST(oriel_reduce_destroy(o.reduce));
	MUST(oriel_reduce_scatter_destroy(o.reduce_scatter));
	MUST(oriel_allreduce_destroy(o.allreduce));
	MUST(oriel_bcast_destroy(o.bcast));
	MUST(oriel_alltoall_destroy(o.alltoall));
	MUST(oriel_allgather_destroy(o.allgather));
	MUST(oriel_region_unregister(o.region));
	MUST(oriel_window_destroy(o.window));
	MUST(oriel_comm_destroy(o.comm));
	MUST(oriel_bootstrap_close(&o.end));
	oriel_tune_gpu_close(o.stream);
}

static void *run_rank(void *rank)
{
	size_t i;

	o.rank = (unsigned)(uintptr_t)rank;
	MUST(oriel_bootstrap_open_local(job, o.rank, &o.end));
	make_all();
	for (i = 0; i < CALLS; i++)
		if (!is_gpu || calls[i].where == GPU)
			check_refused(&calls[i]);
	MUST(oriel_comm_barrier(o.comm));
	/* Alone: a call that met the other rank would meet it in its barrier. */
	for (i = 0; i < CALLS && o.rank == 0; i++)
		if (calls[i].refusal <= LOCAL && (!is_gpu || calls[i].where == GPU))
			check_refused(&calls[i]);
	MUST(oriel_comm_barrier(o.comm));
	/* A rank that crashed may hold a lock, and the other one would wait for it. */
	if (!failures[0] && !failures[1])
		destroy_all();
	return NULL;
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = crashed};
	pthread_t threads[RANKS];
	uintptr_t i;

	if (argc > 1 && strcmp(argv[1], "--list") == 0) {
		for (i = 0; i < CALLS; i++)
			printf("%s %s\n", calls[i].function, calls[i].parameter);
		for (i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
			printf("%s\n", allowed[i]);
		return 0;
	}
	is_gpu = argc > 1;
	setenv("ORIEL_LOG", "error", 1);
	sigaction(SIGSEGV, &action, NULL);
	MUST(oriel_local_job_create(RANKS, &job));
	MUST(oriel_job_id_open(&id));
	for (i = 0; i < RANKS; i++)
		if (pthread_create(&threads[i], NULL, run_rank, (void *)i))
			return 1;
	for (i = 0; i < RANKS; i++)
		pthread_join(threads[i], NULL);
	MUST(oriel_job_id_close(&id));
	MUST(oriel_local_job_destroy(job));
	printf("%zu calls, %u failures\n", CALLS, failures[0] + failures[1]);
	return failures[0] + failures[1] != 0;
}
