/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the mesh: what a process of this user sends to the unix socket of a rank, as if it
 * were rank 1. The first byte is the number of descriptors that the rank expects; then pieces, each
 * with its length, the number of descriptors that come with it, and its bytes. A rank takes the
 * descriptors that it expects, or none; and all of them are closed in the end.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/count_fds.h"
#include "comm/exchange.h"
#include "comm/mesh.h"
#include "fuzz.h"
#include "net/conn.h"

#define MESH_PIECES 12u
#define MESH_TIMEOUT_NS 2000u
#define MESH_ENDS 128u /* of the first byte: the peer closes its socket behind the pieces */

struct mesh_scene {
	unsigned expected, taken;
};

static unsigned mesh_count(const void *context, unsigned peer)
{
	const struct mesh_scene *s = context;

	FUZZ_CHECK(peer == 1);
	return s->expected;
}

static enum oriel_status mesh_take(void *context, unsigned peer, const int *fds)
{
	struct mesh_scene *s = context;

	FUZZ_CHECK(peer == 1 && s->taken == 0);
	for (unsigned i = 0; i < s->expected; i++)
		FUZZ_CHECK(fcntl(fds[i], F_GETFD) >= 0);
	s->taken = 1;
	return ORIEL_OK;
}

static void mesh_send(int fd, const uint8_t *bytes, size_t length, unsigned count)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	int fds[ORI_FDSOCK_FDS];
	union ori_fds_room room;

	for (unsigned i = 0; i < count; i++)
		fds[i] = STDERR_FILENO;
	if (count)
		ori_fdsock_attach(&message, &room, fds, count);
	/* The kernel may refuse so many at once. */
	(void)!sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void mesh_say(int fd, struct fuzz_input *in)
{
	for (unsigned i = 0; in->left > 2 && i < MESH_PIECES; i++) {
		size_t length = fuzz_byte(in);
		unsigned count = fuzz_byte(in) % (ORI_FDSOCK_FDS + 1);

		length = length < in->left ? length : in->left;
		if (length)
			mesh_send(fd, in->at, length, count);
		in->at += length;
		in->left -= length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	struct ori_host hosts[2] = {{.token = 1, .pid = (uint32_t)getpid()},
				    {.token = 2, .pid = (uint32_t)getpid()}};
	struct oriel_dev_rank of[2] = {{.path = ORIEL_PATH_SELF}, {.path = ORIEL_PATH_MAPPED}};
	struct oriel_comm comm = {.size = 2,
				  .hosts = hosts,
				  .host_paths.of = of,
				  .timeout_ns = MESH_TIMEOUT_NS};
	unsigned choice = fuzz_byte(&in), before = count_fds();
	struct mesh_scene s = {.expected = choice % (ORI_MESH_FDS + 1)};
	const struct ori_mesh_taker taker = {mesh_count, mesh_take, &s};
	uint8_t name[ORI_FDSOCK_NAME];
	enum oriel_status status;
	int fd;

	FUZZ_CHECK(ori_mesh_open(&comm, name) == ORIEL_OK);
	FUZZ_CHECK(ori_fdsock_connect(name, getuid(), getpid(), ORIEL_TIMEOUT_INFINITE, &fd) ==
		   ORIEL_OK);
	mesh_say(fd, &in);
	if (choice & MESH_ENDS)
		shutdown(fd, SHUT_WR);
	/* All that will come is there: nothing is waited for. */
	status = ori_mesh_connect(&comm, NULL, 0, 1);
	if (status == ORIEL_OK)
		status = ori_mesh_exchange(&comm, NULL, 0, &taker);
	FUZZ_CHECK((status == ORIEL_OK) == (s.taken == 1));
	FUZZ_CHECK(status == ORIEL_OK || *oriel_last_error());
	ori_mesh_close(&comm, true);
	close(fd);
	FUZZ_CHECK(count_fds() == before);
	return 0;
}

static uint8_t *seed_piece(uint8_t *at, unsigned type, unsigned tag, const void *body,
			   size_t length, unsigned fds)
{
	const struct ori_frame frame = {.type = type, .tag = tag, .length = length};

	*at++ = (uint8_t)(ORI_FRAME_HEADER + length);
	*at++ = (uint8_t)fds;
	ori_frame_encode(&frame, at);
	if (length)
		memcpy(at + ORI_FRAME_HEADER, body, length);
	return at + ORI_FRAME_HEADER + length;
}

/* A hello, and an exchange with the descriptors that are expected, one more, one less, or none. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const unsigned expected[] = {0, 1, 2, 60, ORI_MESH_FDS};
	const uint32_t hello[2] = {ORI_COMM_WIRE, n == 0 ? 2 : 1};
	unsigned want = expected[n / 8 % 5], sent = want + n % 4 - 1;
	uint8_t *at = bytes;

	if (n >= 40)
		return 0;
	*at++ = (uint8_t)(want | (n % 8 >= 4 ? MESH_ENDS : 0));
	at = seed_piece(at, 1, 0, hello, sizeof(hello), n % 8 == 7);
	if (n % 8 == 6)
		at = seed_piece(at, 2, 0, NULL, 0, 3); /* of an exchange before */
	if (n % 8 == 3)
		at = seed_piece(at, 3, 1, NULL, 0, 0); /* it failed */
	else
		at = seed_piece(at, 2, n % 8 == 2 ? 2 : 1, NULL, 0, sent > 200 ? 0 : sent);
	at = seed_piece(at, 4, 0, NULL, 0, 0);
	return (size_t)(at - bytes);
}
