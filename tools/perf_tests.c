/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of `oriel perf` with their cases. perf_options.c selects from them. */
#include "perf.h"
#include "perf_p2p.h"

#define PERF_COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const struct perf_case cases_memcpy[] = {
	{"memcpy", "hot", NULL, PERF_ORIGIN, PERF_ONE, 1, 1, perf_memcpy, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_store_flag[] = {
	{"store_flag", "one way", NULL, PERF_PAIR, PERF_ROUND_TRIP, 1, 1, perf_store_flag, NULL,
	 PERF_BY_MAPPED},
};
static const struct perf_case cases_put_lat[] = {
	{"put_lat", "one way", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 8, perf_put_lat, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_put_poll_lat[] = {
	{"put_poll_lat", "one way", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 8,
	 perf_put_poll_lat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_put_flush[] = {
	{"put_flush", "origin", "memcpy", PERF_ORIGIN, PERF_ONE, 1, 1, perf_put_flush, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_put_flush_each[] = {
	{"put_flush_each", "each thread", "memcpy", PERF_ORIGIN, PERF_REPORTED, 1, 1,
	 perf_put_flush_each, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_put_bw[] = {
	{"put_bw", "64 a flush", "memcpy", PERF_ORIGIN, PERF_MANY, 1, 1, perf_put_bw, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_get_lat[] = {
	{"get_lat", "origin", "memcpy", PERF_ORIGIN, PERF_ONE, 1, 1, perf_get_lat, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_put_signal[] = {
	{"put_signal_lat", "one way", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1,
	 perf_put_signal_lat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_signal[] = {
	{"signal_lat", "add", NULL, PERF_PAIR, PERF_ROUND_TRIP, 0, 1, perf_signal_add, NULL,
	 PERF_ANY_PATH},
	{"signal_lat", "set", NULL, PERF_PAIR, PERF_ROUND_TRIP, 0, 1, perf_signal_set, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_counter[] = {
	{"put_local", "wait_local", NULL, PERF_ORIGIN, PERF_ONE, 1, 1, perf_put_local, NULL,
	 PERF_ANY_PATH},
	{"put_counter", "wait_counter", "put_local", PERF_ORIGIN, PERF_ONE, 1, 1, perf_put_counter,
	 NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_signal_counter[] = {
	{"put_signal_counter", "wait_counter", "put_local", PERF_ORIGIN, PERF_ONE, 1, 1,
	 perf_put_signal_counter, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_fan_out[] = {
	{"fan_out", "put", "memcpy", PERF_ALL, PERF_REPORTED, 1, 1, perf_fan_out_put, NULL,
	 PERF_ANY_PATH},
	{"fan_out", "put_signal", "memcpy", PERF_ALL, PERF_REPORTED, 1, 1, perf_fan_out_signal,
	 NULL, PERF_ANY_PATH},
	{"fan_out", "drain", "memcpy", PERF_ALL, PERF_REPORTED, 1, 1, perf_fan_out_drain, NULL,
	 PERF_ANY_PATH},
	{"fan_out", "wait_counter", "memcpy", PERF_ALL, PERF_REPORTED, 1, 1, perf_fan_out_counter,
	 NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_signal_all[] = {
	{"signal_all", "flush", NULL, PERF_ALL, PERF_ONE, 0, 1, perf_signal_all_flush, NULL,
	 PERF_ANY_PATH},
	{"signal_all", "one way", NULL, PERF_ALL, PERF_ROUND_TRIP, 0, 1, perf_signal_all_answered,
	 NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_atomic[] = {
	{"fetch_add", "uncontended", NULL, PERF_ORIGIN, PERF_ONE, 0, 1, perf_fetch_add, NULL,
	 PERF_ANY_PATH},
	/* CPU atomics of rank 0 and atomics of a NIC must not act on the same word. */
	{"fetch_add", "contended", NULL, PERF_PAIR, PERF_ONE, 0, 1, perf_fetch_add_contended, NULL,
	 PERF_BY_MAPPED},
	{"swap", "uncontended", NULL, PERF_ORIGIN, PERF_ONE, 0, 1, perf_swap, NULL, PERF_ANY_PATH},
	{"compare_swap", "uncontended", NULL, PERF_ORIGIN, PERF_ONE, 0, 1, perf_compare_swap, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_barrier[] = {
	{"barrier", "all", NULL, PERF_ALL, PERF_ONE, 0, 1, perf_barrier, NULL, PERF_ANY_PATH},
	{"barrier", "flat", NULL, PERF_ALL, PERF_ONE, 0, 1, perf_barrier_flat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_allgather[] = {
	{"allgather", "all", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_allgather, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_alltoall[] = {
	{"alltoall", "all", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_alltoall, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_bcast[] = {
	{"bcast", "all", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_bcast, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_allreduce[] = {
	{"all_reduce", "fp32 sum", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_allreduce, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_reduce_scatter[] = {
	{"reduce_scatter", "fp32 sum", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_reduce_scatter, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_reduce[] = {
	{"reduce", "fp32 sum", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_reduce, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_gather[] = {
	{"gather", "all", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_gather, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_scatter[] = {
	{"scatter", "all", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_scatter, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_send_recv_lat[] = {
	{"send_recv_lat", "one way", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1,
	 perf_send_recv_lat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_send_recv_bw[] = {
	{"send_recv_bw", "one way", "memcpy", PERF_PAIR, PERF_MANY, 1, 1, perf_send_recv_bw, NULL,
	 PERF_ANY_PATH},
	{"send_recv_bw", "both ways", "memcpy", PERF_PAIR, PERF_MANY, 2, 1, perf_send_recv_both,
	 NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_p2p_lat[] = {
	{"p2p_lat", "zero_copy", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1, perf_p2p_lat_zero,
	 NULL, PERF_ANY_PATH},
	{"p2p_lat", "copy_based", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1, perf_p2p_lat_copy,
	 NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_p2p_put_lat[] = {
	{"p2p_put_lat", "zero_copy", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1,
	 perf_p2p_put_lat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_p2p_bw[] = {
	{"p2p_bw", "zero_copy", "memcpy", PERF_PAIR, PERF_MANY, 1, 1, perf_p2p_bw_zero, NULL,
	 PERF_ANY_PATH},
	{"p2p_bw", "zero_copy, both ways", "memcpy", PERF_PAIR, PERF_MANY, 2, 1, perf_p2p_both_zero,
	 NULL, PERF_ANY_PATH},
	{"p2p_bw", "copy_based", "memcpy", PERF_PAIR, PERF_MANY, 1, 1, perf_p2p_bw_copy, NULL,
	 PERF_ANY_PATH},
	{"p2p_bw", "copy_based, both ways", "memcpy", PERF_PAIR, PERF_MANY, 2, 1,
	 perf_p2p_both_copy, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_wqe[] = {
	{"wqe_rate", "1 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_1, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "2 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_2, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "4 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_4, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "8 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_8, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "16 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_16, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "32 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_32, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "cooperative", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_cooperative,
	 NULL, PERF_BY_RDMA},
};
static const struct perf_case cases_window[] = {
	{"window_create", "and destroy", NULL, PERF_ALL, PERF_ONE, 0, 1, NULL, perf_window_create,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_launch[] = {
	{"launch", "join", NULL, PERF_ALL, PERF_ONE, 0, 1, NULL, perf_launch, PERF_ANY_PATH},
};

const struct perf_test perf_tests[] = {
	{"memcpy", "8,4K,64K,1M,16M", cases_memcpy, PERF_COUNT(cases_memcpy),
	 "limit: a plain copy into the own window"},
	{"store_flag", "8,4K,64K,1M,16M", cases_store_flag, PERF_COUNT(cases_store_flag),
	 "limit: stores and a polled flag, without the library"},
	{"put_lat", "8,4K,64K,1M,16M", cases_put_lat, PERF_COUNT(cases_put_lat),
	 "put until the peer sees its last word"},
	{"put_poll_lat", "8,4K,64K,1M,16M", cases_put_poll_lat, PERF_COUNT(cases_put_poll_lat),
	 "one put from the own window until the peer sees its last word"},
	{"put_flush", "8,4K,64K,1M,16M", cases_put_flush, PERF_COUNT(cases_put_flush),
	 "put and flush at the origin"},
	{"put_flush_each", "8,4K,64K,1M", cases_put_flush_each, PERF_COUNT(cases_put_flush_each),
	 "time per put, with a flush by each thread of a team"},
	{"put_bw", "8,4K,64K,1M,16M", cases_put_bw, PERF_COUNT(cases_put_bw),
	 "time per put, with many puts before a flush"},
	{"get_lat", "8,4K,64K,1M,16M", cases_get_lat, PERF_COUNT(cases_get_lat),
	 "get until complete"},
	{"put_signal_lat", "8,4K,64K,1M,16M", cases_put_signal, PERF_COUNT(cases_put_signal),
	 "put_signal until the peer's wait returns"},
	{"signal_lat", NULL, cases_signal, PERF_COUNT(cases_signal),
	 "signal until the peer's wait returns"},
	{"counter", "8,64,512,4K,64K", cases_counter, PERF_COUNT(cases_counter),
	 "put until its source can be reused: wait_local, and a counter"},
	{"put_signal_counter", "8,64,512,4K,64K", cases_signal_counter,
	 PERF_COUNT(cases_signal_counter), "put_signal until the counter of its completion rises"},
	{"fan_out", "8,4K,64K,1M", cases_fan_out, PERF_COUNT(cases_fan_out),
	 "time per put of rank 0 to every other rank: one flush, or a wait for each"},
	{"signal_all", NULL, cases_signal_all, PERF_COUNT(cases_signal_all),
	 "signal of rank 0 to every other rank: a flush, or an answer of each"},
	{"atomic_rate", NULL, cases_atomic, PERF_COUNT(cases_atomic),
	 "fetch_add, swap, compare_swap by one rank; fetch_add by two on one word"},
	{"barrier", NULL, cases_barrier, PERF_COUNT(cases_barrier), "barrier of all ranks"},
	{"allgather", "8,1K,64K,1M", cases_allgather, PERF_COUNT(cases_allgather),
	 "persistent all-gather of all ranks"},
	{"alltoall", "8,64K,1M", cases_alltoall, PERF_COUNT(cases_alltoall),
	 "persistent all-to-all of all ranks; bytes of each for each"},
	{"bcast", "8,64K,1M", cases_bcast, PERF_COUNT(cases_bcast),
	 "persistent broadcast, from each rank in turn"},
	{"all_reduce", "8,64K,1M", cases_allreduce, PERF_COUNT(cases_allreduce),
	 "persistent all-reduce of all ranks, sums of fp32"},
	{"reduce_scatter", "8,64K,1M", cases_reduce_scatter, PERF_COUNT(cases_reduce_scatter),
	 "persistent reduce-scatter of all ranks, sums of fp32; bytes of each part"},
	{"reduce", "8,64K,1M", cases_reduce, PERF_COUNT(cases_reduce),
	 "persistent reduction to each rank in turn, sums of fp32"},
	{"gather", "8,64K,1M", cases_gather, PERF_COUNT(cases_gather),
	 "persistent gather to each rank in turn"},
	{"scatter", "8,64K,1M", cases_scatter, PERF_COUNT(cases_scatter),
	 "persistent scatter from each rank in turn; bytes for each"},
	{"send_recv_lat", "8,4K,64K", cases_send_recv_lat, PERF_COUNT(cases_send_recv_lat),
	 "send until recv returns"},
	{"send_recv_bw", "64K,1M,16M", cases_send_recv_bw, PERF_COUNT(cases_send_recv_bw),
	 "time per message of many, one way and both ways"},
	{"p2p_lat", "8,4K,64K", cases_p2p_lat, PERF_COUNT(cases_p2p_lat),
	 "a transfer between two p2p endpoints, in each mode"},
	{"p2p_put_lat", "8,4K,64K", cases_p2p_put_lat, PERF_COUNT(cases_p2p_put_lat),
	 "a put between two p2p endpoints into exported memory, until the peer sees it"},
	{"p2p_bw", "64K,1M,16M", cases_p2p_bw, PERF_COUNT(cases_p2p_bw),
	 "time per transfer of many, one way and both ways"},
	{"wqe_rate", NULL, cases_wqe, PERF_COUNT(cases_wqe),
	 "time of posting one work request to a link, alone and in batches"},
	{"window_create", "1M,16M", cases_window, PERF_COUNT(cases_window),
	 "create and destroy a window, memory untouched"},
	{"launch", NULL, cases_launch, PERF_COUNT(cases_launch),
	 "join the job and create the communicator"},
	{.name = NULL},
};
