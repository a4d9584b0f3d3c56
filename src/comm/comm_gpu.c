/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU of a communicator: its program, and the records that kernels write. comm.c
 * opens it; windows take records from it.
 */
#include "comm/comm_gpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "kernels/kernels.h"

#define NOTES_EACH 64u

/*
 * Pinned records, one for each window in GPU memory. They are made in advance, since
 * pinning may wait for kernels that wait for this very rank.
 */
struct ori_gpu_notes {
	struct ori_gpu_notes *next;
	struct ori_mem *mem;
	uint64_t used; /* bit i: a window uses record i */
};

static enum oriel_status notes_open(struct oriel_comm *comm)
{
	struct ori_gpu_notes *notes = calloc(1, sizeof(*notes));
	enum oriel_status status;

	if (!notes)
		return ori_fail_nomem(sizeof(*notes), "records of kernels");
	status = ori_mem_alloc_pinned(comm->gpu, NOTES_EACH * sizeof(struct oriel_dev_fault),
				      &notes->mem);
	if (status != ORIEL_OK) {
		free(notes);
		return status;
	}
	notes->next = comm->notes;
	comm->notes = notes;
	return ORIEL_OK;
}

static_assert(ORI_KERNEL_COUNT <= ORI_GPU_KERNELS, "all fit a program");

/*
 * Launches each kernel once, with a window that it rejects. The preparations of the GPU
 * for a first launch (local memory, say) may wait for kernels that run there, and those
 * kernels for this rank. Done when the library's own stream is next waited for.
 */
static enum oriel_status program_warm_up(const struct oriel_comm *comm)
{
	static const unsigned threads[] = {ORI_KERNELS(ORI_KERNEL_THREADS)};
	struct oriel_dev_window invalid = {0};
	struct ori_kernel_call call = {.parts = 1};
	void *arguments[] = {&invalid, &call};
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < ORI_KERNEL_COUNT && status == ORIEL_OK; i++)
		status = comm->gpu->ops->launch(comm->gpu, &comm->program, i, 1, threads[i],
						arguments, comm->gpu->stream);
	return status;
}

/* In advance, since loading may wait for kernels that wait for this very rank. */
static enum oriel_status program_open(struct oriel_comm *comm)
{
	static const char *const names[] = {ORI_KERNELS(ORI_KERNEL_NAME)};
	const void *image = ori_kernels_image();
	enum oriel_status status;

	if (!image)
		return ORIEL_OK;
	status = comm->gpu->ops->load(comm->gpu, image, names, ORI_KERNEL_COUNT, &comm->program);
	return status == ORIEL_OK ? program_warm_up(comm) : status;
}

const char *oriel_comm_gpu_name(const struct oriel_comm *comm)
{
	if (!ori_handle_use(comm, ORI_HANDLE_COMM, __func__))
		return NULL;
	return comm->gpu ? comm->gpu->name : NULL;
}

unsigned oriel_comm_gpu_processors(const struct oriel_comm *comm)
{
	if (!ori_handle_use(comm, ORI_HANDLE_COMM, __func__))
		return 0;
	return comm->gpu ? comm->gpu->processors : 0;
}

enum oriel_status ori_comm_gpu_open(struct oriel_comm *comm)
{
	struct ori_gpu *gpu = calloc(1, sizeof(*gpu));
	enum oriel_status status;

	if (!gpu)
		return ori_fail_nomem(sizeof(*gpu), "the state of a GPU");
	status = ori_gpu_open(gpu);
	if (status != ORIEL_OK) {
		free(gpu);
		return status;
	}
	comm->gpu = gpu;
	ori_log_rank(ORIEL_LOG_DEBUG, comm->rank, "opens GPU %s (%s)", gpu->pci, gpu->name);
	status = program_open(comm);
	return status == ORIEL_OK ? notes_open(comm) : status;
}

enum oriel_status ori_comm_gpu_pin(struct oriel_comm *comm)
{
	return comm->gpu ? ori_mem_pin(comm->gpu, comm->control_mem) : ORIEL_OK;
}

const struct oriel_dev_rank *ori_comm_gpu_topology(const struct oriel_comm *comm)
{
	return (const void *)comm->gpu_ranks->address;
}

const uint32_t *ori_comm_gpu_domain(const struct oriel_comm *comm)
{
	return (const void *)(ori_comm_gpu_topology(comm) + comm->size);
}

enum oriel_status ori_comm_gpu_publish(struct oriel_comm *comm)
{
	size_t of = comm->size * sizeof(*comm->host_paths.of);
	size_t domain = comm->gpu_paths.domain_size * sizeof(*comm->host_paths.domain);
	enum oriel_status status;
	char *at;

	if (!comm->gpu)
		return ORIEL_OK;
	status = ori_mem_alloc_gpu(comm->gpu, of + domain, &comm->gpu_ranks);
	if (status != ORIEL_OK)
		return status;
	at = comm->gpu_ranks->address;
	status = comm->gpu->ops->copy(comm->gpu, at, comm->gpu_paths.of, of);
	if (status != ORIEL_OK)
		return status;
	return comm->gpu->ops->copy(comm->gpu, at + of, comm->gpu_paths.domain, domain);
}

static struct oriel_dev_fault *notes_records(const struct ori_gpu_notes *notes)
{
	return (void *)notes->mem->address;
}

enum oriel_status ori_comm_gpu_note(struct oriel_comm *comm, struct oriel_dev_fault **note)
{
	struct ori_gpu_notes *notes = comm->notes;
	enum oriel_status status;
	unsigned i;

	while (notes && notes->used == UINT64_MAX)
		notes = notes->next;
	if (!notes) {
		status = notes_open(comm);
		if (status != ORIEL_OK)
			return status;
		notes = comm->notes;
	}
	i = (unsigned)__builtin_ctzll(~notes->used);
	notes->used |= (uint64_t)1 << i;
	*note = notes_records(notes) + i;
	memset(*note, 0, sizeof(**note));
	return ORIEL_OK;
}

void ori_comm_gpu_forget(struct oriel_comm *comm, struct oriel_dev_fault *note)
{
	struct ori_gpu_notes *notes;
	size_t i;

	for (notes = comm->notes; notes; notes = notes->next) {
		i = (size_t)(note - notes_records(notes));
		if (note >= notes_records(notes) && i < NOTES_EACH)
			notes->used &= ~((uint64_t)1 << i);
	}
}

void ori_comm_gpu_close(struct oriel_comm *comm)
{
	struct ori_gpu_notes *notes;

	if (!comm->gpu)
		return;
	ori_mem_unref(comm->gpu_ranks);
	while (comm->notes) {
		notes = comm->notes;
		comm->notes = notes->next;
		ori_mem_unref_pinned(comm->gpu, notes->mem);
		free(notes);
	}
	if (comm->control_mem && comm->control_mem->pins)
		ori_mem_unpin(comm->gpu, comm->control_mem);
	comm->gpu->ops->unload(comm->gpu, &comm->program);
	ori_gpu_close(comm->gpu);
	free(comm->gpu);
	comm->gpu = NULL;
}
