/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two_hosts: a rank of a job of two, which tell each other of different kernels and so are on
 * different hosts for the library. It prints whether they came together. hca_test.py calls it.
 */
#include <oriel/oriel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define ID_BYTES 16

struct rank {
	struct oriel_bootstrap inner;
};

static unsigned char boot_id[ID_BYTES];

static void read_boot_id(void)
{
	FILE *file = fopen(BOOT_ID_FILE, "r");
	unsigned count = 0;

	while (file && count < ID_BYTES && fscanf(file, "%2hhx", &boot_id[count]) == 1) {
		int next = getc(file);

		if (next != '-')
			(void)ungetc(next, file);
		count++;
	}
	if (count < ID_BYTES) {
		fprintf(stderr, "two_hosts: " BOOT_ID_FILE " has no id\n");
		exit(2);
	}
	fclose(file);
}

/* Rank 1 puts another id wherever its record names the kernel. */
static enum oriel_status gather(void *context, const void *mine, void *all, size_t length,
				uint64_t timeout_ns)
{
	struct rank *r = context;
	enum oriel_status status;
	unsigned char *copy = malloc(length + 1), *at;

	if (!copy)
		return ORIEL_ERR_NOMEM;
	memcpy(copy, mine, length);
	while (r->inner.rank == 1 && (at = memmem(copy, length, boot_id, ID_BYTES)))
		at[0] ^= 1;
	status = r->inner.ops->all_gather(r->inner.context, copy, all, length, timeout_ns);
	free(copy);
	return status;
}

static enum oriel_status barrier(void *context, uint64_t timeout_ns)
{
	struct rank *r = context;

	return r->inner.ops->barrier(r->inner.context, timeout_ns);
}

static enum oriel_status send_to(void *context, unsigned peer, uint32_t tag, const void *data,
				 size_t length, uint64_t timeout_ns)
{
	struct rank *r = context;

	return r->inner.ops->send(r->inner.context, peer, tag, data, length, timeout_ns);
}

static enum oriel_status recv_from(void *context, unsigned peer, uint32_t tag, void *data,
				   size_t length, uint64_t timeout_ns)
{
	struct rank *r = context;

	return r->inner.ops->recv(r->inner.context, peer, tag, data, length, timeout_ns);
}

static void close_inner(void *context)
{
	struct rank *r = context;

	oriel_bootstrap_close(&r->inner);
}

static const struct oriel_bootstrap_ops ops = {
	.size = sizeof(ops),
	.all_gather = gather,
	.barrier = barrier,
	.send = send_to,
	.recv = recv_from,
	.close = close_inner,
};

int main(void)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 64};
	struct oriel_bootstrap bootstrap = {0};
	struct oriel_window *window = NULL;
	struct oriel_comm *comm = NULL;
	enum oriel_status status;
	struct rank r = {0};

	read_boot_id();
	status = oriel_bootstrap_open_env(0, &r.inner);
	bootstrap = (struct oriel_bootstrap){&ops, &r, r.inner.rank, r.inner.size};
	if (status == ORIEL_OK)
		status = oriel_comm_create(&bootstrap, NULL, &comm);
	if (status == ORIEL_OK)
		status = oriel_window_create(comm, &attr, &window);
	if (status == ORIEL_OK)
		status = oriel_window_barrier(window, 0, 0);
	printf("rank %u: %s\n", r.inner.rank, status == ORIEL_OK ? "joined" : oriel_last_error());
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&r.inner);
	/* The launcher ends the ranks that remain when one fails. */
	return 0;
}
