/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU of a communicator. comm.c opens it; windows take records from it. Kernels read the
 * health of @comm, which aborts of peers change, and write their own failures to another
 * record: in host memory, atomics of a GPU and of the CPU do not exclude each other.
 */
#ifndef ORI_COMM_COMM_GPU_H
#define ORI_COMM_COMM_GPU_H

#include "comm/comm.h"

enum oriel_status ori_comm_gpu_open(struct oriel_comm *comm);
/* Pins the control segment, so that the GPU reaches it. */
enum oriel_status ori_comm_gpu_pin(struct oriel_comm *comm);
/* Copies the paths, which are known by now, to the GPU. */
enum oriel_status ori_comm_gpu_publish(struct oriel_comm *comm);
/* Where they lie there: [size] ranks, and the ranks of the domain. */
const struct oriel_dev_rank *ori_comm_gpu_topology(const struct oriel_comm *comm);
const uint32_t *ori_comm_gpu_domain(const struct oriel_comm *comm);
/* Gives a record for arguments that kernels of one window reject. */
enum oriel_status ori_comm_gpu_note(struct oriel_comm *comm, struct oriel_dev_fault **note);
void ori_comm_gpu_forget(struct oriel_comm *comm, struct oriel_dev_fault *note);
/* Kernels use nothing of @comm any more. */
void ori_comm_gpu_close(struct oriel_comm *comm);

#endif
