/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This calls every device function in a kernel, for each kind of group. It is compiled wherever
 * nvcc is found, so that the one text stays good for both compilers; running it needs a GPU.
 */
#include <oriel/dev.h>

static __device__ int64_t use_data(const struct oriel_dev_window *w, struct oriel_dev_group g,
				   uint32_t peer, char *memory)
{
	int64_t result = 0;
	uint64_t old = 0;
	uint32_t number = 0;
	struct oriel_dev_ticket ticket = {0, 0, 0};

	result |= oriel_dev_put(w, g, peer, 0, memory, 4096, &ticket);
	result |= oriel_dev_put_part(w, g, 1, 3, peer, 0, memory, 4096, NULL);
	result |= oriel_dev_put_value(w, peer, 8, 1, NULL);
	result |= oriel_dev_get(w, g, peer, oriel_at(1, 3), memory, 77, NULL);
	result |= oriel_dev_fetch_add(w, peer, 16, 1, &old);
	result |= oriel_dev_put_signal(w, g, peer, 0, memory, 100, 0, 1, NULL);
	result |= oriel_dev_put_counter(w, g, peer, 0, memory, 100, 0, NULL);
	result |= oriel_dev_put_signal_counter(w, g, peer, 0, memory, 100, 0, 1, 0, NULL);
	result |= oriel_dev_signal_counter(w, g, peer, 0, 1, 0, NULL);
	result |= oriel_dev_wait_local(w, g, ticket, 0);
	result |= oriel_dev_drain(w, g, 0);
	result |= oriel_dev_flush(w, g, 0);
	result |= oriel_dev_put_ll(w, g, peer, 0, memory, 100, 1);
	result |= oriel_dev_put_ll128(w, g, peer, 0, memory, 100, 1);
	result |= oriel_dev_domain_rank(w, oriel_dev_domain_index(w), &number);
	result |= oriel_dev_domain_find(w, peer, &number);
	result |= oriel_dev_peer_rank(w, oriel_dev_domain_size(w), &number);
	result |= oriel_dev_peer_index(w, peer, &number);
	return oriel_dev_address(w, peer, old + number) ? result : -1;
}

static __device__ int64_t use_waits(const struct oriel_dev_window *w, struct oriel_dev_group g,
				    uint32_t peer, char *memory)
{
	int64_t result = 0;
	uint64_t value = 0;

	result |= oriel_dev_signal(w, g, peer, 0, ORIEL_SIGNAL_ADD, 1, NULL);
	result |= oriel_dev_signal_relaxed(w, g, peer, 0, ORIEL_SIGNAL_ADD, 1, NULL);
	result |= oriel_dev_signal_all(w, g, 1, ORIEL_SIGNAL_SET, 1);
	result |= oriel_dev_fetch_add_relaxed(w, peer, 0, 1, &value);
	result |= oriel_dev_wait_signal(w, g, 0, ORIEL_GE, 1, 1000);
	result |= oriel_dev_wait_signal_from(w, g, peer, 0, ORIEL_EQ, 1, 1000);
	result |= oriel_dev_wait_signal_relaxed(w, g, peer, 0, ORIEL_EQ, 1, 1000);
	result |= oriel_dev_wait_signal_next(w, g, peer, 0, 1, 1000);
	result |= oriel_dev_wait_signal_next_all(w, g, 0, 1, 1000);
	result |= oriel_dev_read_signal(w, 0, &value);
	result |= oriel_dev_read_signal_from(w, peer, 0, &value);
	result |= oriel_dev_reset_signal(w, peer, 0);
	result |= oriel_dev_barrier(w, g, 0, 1000);
	result |= oriel_dev_barrier_flat(w, g, 0, 1000);
	result |= oriel_dev_barrier_peer(w, g, peer, 0, 1000);
	result |= oriel_dev_barrier_peer_arrive(w, g, peer, 0);
	result |= oriel_dev_barrier_peer_wait(w, g, peer, 0, 1000);
	result |= oriel_dev_wait_counter(w, g, peer, 0, ORIEL_GT, 1, 1000);
	result |= oriel_dev_read_counter(w, peer, 0, &value);
	result |= oriel_dev_reset_counter(w, peer, 0);
	result |= oriel_dev_send(w, g, peer, 0, memory, 1000, 1000);
	result |= oriel_dev_recv(w, g, peer, 0, memory, 1000, 1000);
	result |= oriel_dev_send_ll(w, g, peer, 1, memory, 100, 1000);
	result |= oriel_dev_recv_ll(w, g, peer, 1, memory, 100, 1000);
	result |= oriel_dev_send_ll128(w, g, peer, 2, memory, 100, 1000);
	result |= oriel_dev_recv_ll128(w, g, peer, 2, memory, 100, 1000);
	result |= oriel_dev_wait_ll(w, g, 0, memory, 100, 1, 1000);
	result |= oriel_dev_wait_ll128(w, g, 0, memory, 100, 1, 1000);
	return result + (int64_t)value;
}

__global__ void every_operation(struct oriel_dev_window w, uint32_t peer, char *memory,
				int64_t *result)
{
	struct oriel_dev_group groups[] = {oriel_dev_thread(), oriel_dev_warp(), oriel_dev_block()};
	int i;

	for (i = 0; i < 3; i++)
		*result |= use_data(&w, groups[i], peer, memory) |
			   use_waits(&w, groups[i], peer, memory);
#if __CUDA_ARCH__ >= 900
	*result |= use_data(&w, oriel_dev_cluster(), peer, memory) |
		   use_waits(&w, oriel_dev_cluster(), peer, memory);
#endif
}
