/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rank's kernel puts numbers into the window of the next rank. README.md shows the kernel.
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

/* [kernel] */
/* One block. The window: an inbox of COUNT numbers, and behind it what this rank sends. */
__global__ void greet(struct oriel_dev_window w)
{
	struct oriel_dev_group block = oriel_dev_block();
	unsigned next = (w.rank + 1) % w.ranks, before = (w.rank + w.ranks - 1) % w.ranks;
	unsigned *mine = (unsigned *)oriel_dev_address(&w, w.rank, BYTES);

	for (unsigned i = threadIdx.x; i < COUNT; i += blockDim.x)
		mine[i] = 100 * w.rank + i;
	oriel_dev_sync(block);
	oriel_dev_put_signal(&w, block, next, 0, mine, BYTES, ARRIVED, 1, NULL);
	oriel_dev_wait_signal_next(&w, block, before, ARRIVED, 1, 0);
	oriel_dev_drain(&w, block, 0);
}
/* [/kernel] */

int main(void)
{
	struct oriel_window *window;
	struct oriel_comm *comm;
	unsigned got = 0;
	void *inbox;
	int gpus = 0;

	cuda(cudaGetDeviceCount(&gpus));
	struct oriel_comm_attr with_gpu = {};
	struct oriel_window_attr on_gpu = {};
	struct oriel_dev_window device;
	const char *local = getenv("LOCAL_RANK"); /* set by oriel run and torchrun */

	cuda(cudaSetDevice(local ? atoi(local) % gpus : 0));
	cuda(cudaFree(NULL)); /* makes the context, which the communicator takes */
	with_gpu.size = sizeof(with_gpu);
	with_gpu.flags = ORIEL_COMM_GPU;
	must(oriel_comm_create(NULL, &with_gpu, &comm));
	on_gpu.size = sizeof(on_gpu);
	on_gpu.length = 2 * BYTES;
	on_gpu.flags = ORIEL_WINDOW_DEVICE;
	must(oriel_window_create(comm, &on_gpu, &window));
	must(oriel_window_device(window, &device)); /* the handle, passed by value */
	greet<<<1, 256>>>(device);
	cuda(cudaDeviceSynchronize());

	unsigned rank = oriel_comm_rank(comm), ranks = oriel_comm_size(comm);
	unsigned expected = 100 * ((rank + ranks - 1) % ranks) + COUNT - 1;

	must(oriel_window_buffer(window, 0, &inbox, NULL));
	cuda(cudaMemcpy(&got, (unsigned *)inbox + COUNT - 1, sizeof(got), cudaMemcpyDefault));
	printf("rank %u of %u got: %u\n", rank, ranks, got);
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	return got == expected ? 0 : 1;
}
