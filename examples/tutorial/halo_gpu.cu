/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The halo exchange by kernels: all steps in one launch. See docs/tutorial.md.
 * usage: oriel run -n 2 halo_gpu
 */
#include <cuda_runtime.h>

#include "line.h"

static void cuda(cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s\n", cudaGetErrorString(error));
	exit(1);
}

/* [kernel] */
/* One block; *@status is in pinned memory. */
__global__ void run(struct oriel_dev_window w, enum oriel_status *status)
{
	enum oriel_status now = ORIEL_OK;

	for (unsigned s = 0; s < STEPS && now == ORIEL_OK; s++)
		now = line_step(&w, oriel_dev_block(), s);
	if (threadIdx.x == 0)
		*status = now;
}
/* [/kernel] */

int main(void)
{
	const char *local = getenv("LOCAL_RANK");
	struct oriel_dev_window device;
	double cells[ROOM], heat;
	enum oriel_status *status;
	int gpus = 0;

	cuda(cudaGetDeviceCount(&gpus));
	cuda(cudaSetDevice(local ? atoi(local) % gpus : 0));
	/* [main] */
	cuda(cudaFree(NULL)); /* makes the context of this GPU */
	struct oriel_comm_attr with_gpu = {};
	struct oriel_window_attr on_gpu = {};
	struct oriel_window *window;
	struct oriel_comm *comm;
	void *memory;

	with_gpu.size = sizeof(with_gpu);
	with_gpu.flags = ORIEL_COMM_GPU;
	on_gpu.size = sizeof(on_gpu);
	on_gpu.length = 2 * ROOM * sizeof(double);
	on_gpu.flags = ORIEL_WINDOW_DEVICE;
	must(oriel_comm_create(NULL, &with_gpu, &comm));
	must(oriel_window_create(comm, &on_gpu, &window));
	must(oriel_window_device(window, &device));
	must(oriel_window_buffer(window, 0, &memory, NULL));

	heat = oriel_comm_rank(comm) + 1;
	cuda(cudaMemcpy((double *)memory + CELLS / 2, &heat, sizeof(heat), cudaMemcpyDefault));
	cuda(cudaMallocHost((void **)&status, sizeof(*status)));
	run<<<1, 32>>>(device, status);
	cuda(cudaDeviceSynchronize());
	if (*status != ORIEL_OK)
		fprintf(stderr, "%s\n", oriel_status_text(*status));
	/* [/main] */
	cuda(cudaMemcpy(cells, (char *)memory + line_at(STEPS, 0), sizeof(cells),
			cudaMemcpyDefault));
	line_verify(cells, oriel_comm_rank(comm), oriel_comm_size(comm));
	cuda(cudaFreeHost(status));
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	return 0;
}
