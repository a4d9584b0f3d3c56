/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: a byte stream from each rank to each other, through staging at the receiver.
 * Kernels and threads of the CPU call them. The sender may cut the stream differently than the
 * receiver.
 *
 *   freed <= received <= ready <= sent <= freed + channel_bytes
 *
 * where ready and freed are the last values written to the other rank. received - freed stays
 * below a quarter of channel_bytes once the receiver has caught up.
 *
 * Staging that is enough for GPUs: us for a message that goes both ways between two H200s, cut
 * among blocks of 512 threads, each with a channel of its own:
 *
 *   channel_bytes   blocks   1 MiB   16 MiB   1 GiB
 *   128 KiB             16    13.4    111.5    6593
 *   128 KiB             64    10.4     58.5    3112
 *   256 KiB             16    11.9     78.5    4388
 *   256 KiB             64    10.2     56.8    2959
 *   1 MiB               16    10.7     65.8    3315
 *   1 MiB               64     9.8     56.8    2932
 */
#ifndef ORIEL_DEV_CHANNEL_H
#define ORIEL_DEV_CHANNEL_H

#include <oriel/dev/detail/channel.h>
#include <oriel/dev/domain.h>

/*
 * Whole group: append @length bytes to the stream of @channel to @peer. Does not block while
 * the bytes that the peer has not taken stay below three quarters of channel_bytes. @from may
 * be reused on return. A limit of the caller's own is for the first bytes to find room: when it
 * has passed, none have been sent. Not with the rank itself.
 */
ORIEL_DEV enum oriel_status oriel_dev_send(const struct oriel_dev_window *w,
					   struct oriel_dev_group g, uint32_t peer,
					   uint32_t channel, const void *from, uint64_t length,
					   uint64_t timeout_ns)
{
	enum oriel_status status;

	status = ori_dev_check_other(w, ORIEL_DEV_SEND, peer, channel, w->channels);
	if (status != ORIEL_OK)
		return status;
	switch (oriel_dev_path(w, peer)) {
	case ORIEL_PATH_MAPPED:
		return ori_dev_mapped_send(w, g, peer, channel, from, length, timeout_ns);
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		return ori_dev_rdma_send(w, g, peer, channel, from, length, timeout_ns);
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * Whole group: take the next @length bytes of the stream of @channel from @peer; blocks until
 * they have arrived. The cuts need not be the sender's. A limit of the caller's own is for the
 * first bytes to arrive: when it has passed, none have been taken. After any other failure the
 * position in the stream is undefined.
 */
ORIEL_DEV enum oriel_status oriel_dev_recv(const struct oriel_dev_window *w,
					   struct oriel_dev_group g, uint32_t peer,
					   uint32_t channel, void *to, uint64_t length,
					   uint64_t timeout_ns)
{
	enum oriel_status status;

	status = ori_dev_check_other(w, ORIEL_DEV_RECV, peer, channel, w->channels);
	if (status != ORIEL_OK)
		return status;
	switch (oriel_dev_path(w, peer)) {
	case ORIEL_PATH_NONE:
		return ORIEL_ERR_NO_PATH;
	case ORIEL_PATH_RDMA:
		status = ori_dev_rdma_reach(w, peer);
		if (status != ORIEL_OK)
			return status;
	}
	return ori_dev_channel_recv(w, g, peer, channel, to, length, timeout_ns);
}

#endif
