/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of a message that a ping-pong of oriel_rows.cu times. */
#ifndef BENCH_GPU_ORIEL_METHODS_H
#define BENCH_GPU_ORIEL_METHODS_H

#include "oriel_measure.h"

/* One side of a ping-pong. */
struct side {
	const struct oriel_dev_window *w;
	uint32_t peer;
	uint64_t bytes;
	char *source;
	char *target; /* in the own window: the peer puts there */
	uint32_t place;
};

/* The signal @id of message @n. */
static __device__ __forceinline__ uint32_t signal_of(const struct side *s, uint32_t id, uint64_t n)
{
	return id + word_of(s->place, n);
}

/* Offset of the lines of this place, from @at on; there is room for lines of 64 KiB. */
static __device__ __forceinline__ uint64_t lines_of(const struct side *s, uint64_t at)
{
	return at + s->place * (262144ul + APART);
}

/* One method of a message. @n counts the messages of this direction, from 1, over all rows. */
struct value_method {
	static const bool has_bytes = false;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group,
						  uint64_t n)
	{
		oriel_dev_put_value(s->w, s->peer, word_of(s->place, n) * 8, n, NULL);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s, struct oriel_dev_group,
						       uint64_t n)
	{
		const uint64_t *word = (const uint64_t *)(s->target + word_of(s->place, n) * 8);
		uint64_t polls = 0;

		while (oriel_dev_load_relaxed(word) < n)
			if (++polls > 20000000)
				return false;
		return true;
	}
};

struct relaxed_method {
	static const bool has_bytes = false;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_signal_relaxed(s->w, g, s->peer, signal_of(s, 1, n), ORIEL_SIGNAL_ADD, 1,
					 NULL);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_signal_relaxed(s->w, g, s->peer, signal_of(s, 1, n), ORIEL_GE,
						     turns_of(n), 0) == ORIEL_OK;
	}
};

struct signal_method {
	static const bool has_bytes = false;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_signal(s->w, g, s->peer, signal_of(s, 2, n), ORIEL_SIGNAL_ADD, 1, NULL);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_signal_from(s->w, g, s->peer, signal_of(s, 2, n), ORIEL_GE,
						  turns_of(n), 0) == ORIEL_OK;
	}
};

struct put_signal_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_put_signal(s->w, g, s->peer, 0, s->source, s->bytes, signal_of(s, 3, n),
				     1, NULL);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_signal_from(s->w, g, s->peer, signal_of(s, 3, n), ORIEL_GE,
						  turns_of(n), 0) == ORIEL_OK;
	}
};

struct ll_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_put_ll(s->w, g, s->peer, lines_of(s, AT_LL), s->source, s->bytes,
				 (uint32_t)n);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_ll(s->w, g, lines_of(s, AT_LL), s->target, s->bytes,
					 (uint32_t)n, 0) == ORIEL_OK;
	}
};

struct ll128_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t n)
	{
		oriel_dev_put_ll128(s->w, g, s->peer, lines_of(s, AT_LL128), s->source, s->bytes,
				    n);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t n)
	{
		return oriel_dev_wait_ll128(s->w, g, lines_of(s, AT_LL128), s->target, s->bytes, n,
					    0) == ORIEL_OK;
	}
};

struct channel_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t)
	{
		oriel_dev_send(s->w, g, s->peer, 0, s->source, s->bytes, 0);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t)
	{
		return oriel_dev_recv(s->w, g, s->peer, 0, s->target, s->bytes, 0) == ORIEL_OK;
	}
};

struct channel_ll_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t)
	{
		oriel_dev_send_ll(s->w, g, s->peer, LL_CHANNEL, s->source, s->bytes, 0);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t)
	{
		return oriel_dev_recv_ll(s->w, g, s->peer, LL_CHANNEL, s->target, s->bytes, 0) ==
		       ORIEL_OK;
	}
};

struct channel_ll128_method {
	static const bool has_bytes = true;

	static __device__ __forceinline__ void go(const struct side *s, struct oriel_dev_group g,
						  uint64_t)
	{
		oriel_dev_send_ll128(s->w, g, s->peer, LL128_CHANNEL, s->source, s->bytes, 0);
	}
	static __device__ __forceinline__ bool arrived(const struct side *s,
						       struct oriel_dev_group g, uint64_t)
	{
		return oriel_dev_recv_ll128(s->w, g, s->peer, LL128_CHANNEL, s->target, s->bytes,
					    0) == ORIEL_OK;
	}
};

#endif
