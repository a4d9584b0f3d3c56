/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rank's kernel puts numbers into the window of the next rank. README.md shows the kernel and
 * what starts it.
 * usage: oriel run -n 2 first_put_gpu
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define COUNT 1024u
#define BYTES (COUNT * sizeof(unsigned))

enum { ARRIVED }; /* a signal */

static void must(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "first_put_gpu: %s\n", oriel_last_error());
	exit(1);
}

static void cuda(cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "first_put_gpu: %s\n", cudaGetErrorString(error));
	exit(1);
}

/* The context of this rank's GPU, which the communicator takes. */
static void take_gpu(void)
{
	const char *local = getenv("LOCAL_RANK"); /* set by oriel run and torchrun */
	int gpus = 0;

	cuda(cudaGetDeviceCount(&gpus));
	cuda(cudaSetDevice(local ? atoi(local) % gpus : 0));
	cuda(cudaFree(NULL)); /* makes it */
}

/* [kernel] */
__global__ void greet(struct oriel_dev_window w)
{
	struct oriel_dev_group block = oriel_dev_block();
	unsigned next = (w.rank + 1) % w.ranks, before = (w.rank + w.ranks - 1) % w.ranks;
	unsigned *mine = (unsigned *)oriel_dev_address(&w, w.rank, BYTES); /* behind the inbox */

	for (unsigned i = threadIdx.x; i < COUNT; i += blockDim.x)
		mine[i] = 100 * w.rank + i;
	oriel_dev_sync(block);
	oriel_dev_put_signal(&w, block, next, 0, mine, BYTES, ARRIVED, 1, NULL);
	oriel_dev_wait_signal_next(&w, block, before, ARRIVED, 1, ORIEL_TIMEOUT_DEFAULT);
}
/* [/kernel] */

int main(void)
{
	/* [host] */
	struct oriel_comm_attr with_gpu = {.size = sizeof(with_gpu), .flags = ORIEL_COMM_GPU};
	struct oriel_window_attr on_gpu = {.size = sizeof(on_gpu),
					   .length = 2 * BYTES,
					   .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_dev_window device;
	struct oriel_window *window;
	struct oriel_comm *comm;

	take_gpu(); /* by LOCAL_RANK */
	must(oriel_comm_create(NULL, &with_gpu, &comm));
	must(oriel_window_create(comm, &on_gpu, &window));
	must(oriel_window_device(window, &device)); /* the handle, passed by value */
	greet<<<1, 256>>>(device);
	/* [/host] */
	cuda(cudaDeviceSynchronize());

	unsigned rank = oriel_comm_rank(comm), ranks = oriel_comm_size(comm), got = 0;
	unsigned expected = 100 * ((rank + ranks - 1) % ranks) + COUNT - 1;
	void *inbox;

	must(oriel_window_buffer(window, 0, &inbox, NULL));
	cuda(cudaMemcpy(&got, (unsigned *)inbox + COUNT - 1, sizeof(got), cudaMemcpyDefault));
	printf("rank %u of %u got: %u\n", rank, ranks, got);
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	return got == expected ? 0 : 1;
}
