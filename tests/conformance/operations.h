/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation as a function that is linked, made once in operations.cu: if each call inlined
 * all paths and kinds of groups, nvcc would take an hour.
 */
#ifndef CONFORMANCE_OPERATIONS_H
#define CONFORMANCE_OPERATIONS_H

#include <oriel/dev.h>

#define OPERATIONS(ROW)                     \
	ROW(oriel_dev_put)                  \
	ROW(oriel_dev_put_value)            \
	ROW(oriel_dev_get)                  \
	ROW(oriel_dev_fetch_add)            \
	ROW(oriel_dev_fetch_add_relaxed)    \
	ROW(oriel_dev_fetch_add_32)         \
	ROW(oriel_dev_fetch_and)            \
	ROW(oriel_dev_fetch_and_32)         \
	ROW(oriel_dev_fetch_or)             \
	ROW(oriel_dev_fetch_or_32)          \
	ROW(oriel_dev_fetch_xor)            \
	ROW(oriel_dev_fetch_xor_32)         \
	ROW(oriel_dev_swap)                 \
	ROW(oriel_dev_swap_32)              \
	ROW(oriel_dev_compare_swap)         \
	ROW(oriel_dev_compare_swap_32)      \
	ROW(oriel_dev_fetch)                \
	ROW(oriel_dev_fetch_32)             \
	ROW(oriel_dev_set)                  \
	ROW(oriel_dev_set_32)               \
	ROW(oriel_dev_address)              \
	ROW(oriel_dev_wait_local)           \
	ROW(oriel_dev_drain)                \
	ROW(oriel_dev_flush)                \
	ROW(oriel_dev_signal)               \
	ROW(oriel_dev_signal_relaxed)       \
	ROW(oriel_dev_signal_all)           \
	ROW(oriel_dev_put_signal)           \
	ROW(oriel_dev_read_signal)          \
	ROW(oriel_dev_read_signal_from)     \
	ROW(oriel_dev_wait_signal)          \
	ROW(oriel_dev_wait_signal_from)     \
	ROW(oriel_dev_wait_signal_relaxed)  \
	ROW(oriel_dev_wait_signal_next)     \
	ROW(oriel_dev_wait_signal_next_all) \
	ROW(oriel_dev_reset_signal)         \
	ROW(oriel_dev_barrier)              \
	ROW(oriel_dev_barrier_arrive)       \
	ROW(oriel_dev_barrier_wait)         \
	ROW(oriel_dev_barrier_flat)         \
	ROW(oriel_dev_barrier_flat_arrive)  \
	ROW(oriel_dev_barrier_flat_wait)    \
	ROW(oriel_dev_barrier_peer)         \
	ROW(oriel_dev_barrier_peer_arrive)  \
	ROW(oriel_dev_barrier_peer_wait)    \
	ROW(oriel_dev_put_counter)          \
	ROW(oriel_dev_put_signal_counter)   \
	ROW(oriel_dev_signal_counter)       \
	ROW(oriel_dev_wait_counter)         \
	ROW(oriel_dev_read_counter)         \
	ROW(oriel_dev_reset_counter)        \
	ROW(oriel_dev_send)                 \
	ROW(oriel_dev_recv)                 \
	ROW(oriel_dev_put_ll)               \
	ROW(oriel_dev_wait_ll)              \
	ROW(oriel_dev_put_ll128)            \
	ROW(oriel_dev_wait_ll128)           \
	ROW(oriel_dev_send_ll)              \
	ROW(oriel_dev_recv_ll)              \
	ROW(oriel_dev_send_ll128)           \
	ROW(oriel_dev_recv_ll128)           \
	ROW(ori_dev_wait_led)               \
	ROW(ori_dev_arrive_at)              \
	ROW(ori_dev_link_signal)

/* @type is that of the operation called @tag. */
template <class tag, class type> struct apart;
template <class tag, class result, class... arguments> struct apart<tag, result(arguments...)> {
	static __device__ result on(arguments... given);
};

#define OPERATION(name) using apart_##name = apart<struct tag_##name, decltype(name)>;
OPERATIONS(OPERATION)

#ifndef OPERATIONS_ARE_MADE_HERE
#define oriel_dev_put apart_oriel_dev_put::on
#define oriel_dev_put_value apart_oriel_dev_put_value::on
#define oriel_dev_get apart_oriel_dev_get::on
#define oriel_dev_fetch_add apart_oriel_dev_fetch_add::on
#define oriel_dev_fetch_add_relaxed apart_oriel_dev_fetch_add_relaxed::on
#define oriel_dev_fetch_add_32 apart_oriel_dev_fetch_add_32::on
#define oriel_dev_fetch_and apart_oriel_dev_fetch_and::on
#define oriel_dev_fetch_and_32 apart_oriel_dev_fetch_and_32::on
#define oriel_dev_fetch_or apart_oriel_dev_fetch_or::on
#define oriel_dev_fetch_or_32 apart_oriel_dev_fetch_or_32::on
#define oriel_dev_fetch_xor apart_oriel_dev_fetch_xor::on
#define oriel_dev_fetch_xor_32 apart_oriel_dev_fetch_xor_32::on
#define oriel_dev_swap apart_oriel_dev_swap::on
#define oriel_dev_swap_32 apart_oriel_dev_swap_32::on
#define oriel_dev_compare_swap apart_oriel_dev_compare_swap::on
#define oriel_dev_compare_swap_32 apart_oriel_dev_compare_swap_32::on
#define oriel_dev_fetch apart_oriel_dev_fetch::on
#define oriel_dev_fetch_32 apart_oriel_dev_fetch_32::on
#define oriel_dev_set apart_oriel_dev_set::on
#define oriel_dev_set_32 apart_oriel_dev_set_32::on
#define oriel_dev_address apart_oriel_dev_address::on
#define oriel_dev_wait_local apart_oriel_dev_wait_local::on
#define oriel_dev_drain apart_oriel_dev_drain::on
#define oriel_dev_flush apart_oriel_dev_flush::on
#define oriel_dev_signal apart_oriel_dev_signal::on
#define oriel_dev_signal_relaxed apart_oriel_dev_signal_relaxed::on
#define oriel_dev_signal_all apart_oriel_dev_signal_all::on
#define oriel_dev_put_signal apart_oriel_dev_put_signal::on
#define oriel_dev_read_signal apart_oriel_dev_read_signal::on
#define oriel_dev_read_signal_from apart_oriel_dev_read_signal_from::on
#define oriel_dev_wait_signal apart_oriel_dev_wait_signal::on
#define oriel_dev_wait_signal_from apart_oriel_dev_wait_signal_from::on
#define oriel_dev_wait_signal_relaxed apart_oriel_dev_wait_signal_relaxed::on
#define oriel_dev_wait_signal_next apart_oriel_dev_wait_signal_next::on
#define oriel_dev_wait_signal_next_all apart_oriel_dev_wait_signal_next_all::on
#define oriel_dev_reset_signal apart_oriel_dev_reset_signal::on
#define oriel_dev_barrier apart_oriel_dev_barrier::on
#define oriel_dev_barrier_arrive apart_oriel_dev_barrier_arrive::on
#define oriel_dev_barrier_wait apart_oriel_dev_barrier_wait::on
#define oriel_dev_barrier_flat apart_oriel_dev_barrier_flat::on
#define oriel_dev_barrier_flat_arrive apart_oriel_dev_barrier_flat_arrive::on
#define oriel_dev_barrier_flat_wait apart_oriel_dev_barrier_flat_wait::on
#define oriel_dev_barrier_peer apart_oriel_dev_barrier_peer::on
#define oriel_dev_barrier_peer_arrive apart_oriel_dev_barrier_peer_arrive::on
#define oriel_dev_barrier_peer_wait apart_oriel_dev_barrier_peer_wait::on
#define oriel_dev_put_counter apart_oriel_dev_put_counter::on
#define oriel_dev_put_signal_counter apart_oriel_dev_put_signal_counter::on
#define oriel_dev_signal_counter apart_oriel_dev_signal_counter::on
#define oriel_dev_wait_counter apart_oriel_dev_wait_counter::on
#define oriel_dev_read_counter apart_oriel_dev_read_counter::on
#define oriel_dev_reset_counter apart_oriel_dev_reset_counter::on
#define oriel_dev_send apart_oriel_dev_send::on
#define oriel_dev_recv apart_oriel_dev_recv::on
#define oriel_dev_put_ll apart_oriel_dev_put_ll::on
#define oriel_dev_wait_ll apart_oriel_dev_wait_ll::on
#define oriel_dev_put_ll128 apart_oriel_dev_put_ll128::on
#define oriel_dev_wait_ll128 apart_oriel_dev_wait_ll128::on
#define oriel_dev_send_ll apart_oriel_dev_send_ll::on
#define oriel_dev_recv_ll apart_oriel_dev_recv_ll::on
#define oriel_dev_send_ll128 apart_oriel_dev_send_ll128::on
#define oriel_dev_recv_ll128 apart_oriel_dev_recv_ll128::on
#define ori_dev_wait_led apart_ori_dev_wait_led::on
#define ori_dev_arrive_at apart_ori_dev_arrive_at::on
#define ori_dev_link_signal apart_ori_dev_link_signal::on
#endif

#endif
