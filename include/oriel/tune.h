/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of measurements (`oriel tune`), by which collectives choose their algorithm. Without rows
 * for the current machine they use the table of the library. Called by tools; docs/allgather.md
 * has the format.
 */
#ifndef ORIEL_TUNE_H
#define ORIEL_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/comm.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORIEL_TUNE_HEAD "oriel-tune 1" /* the first line of a file */

/* The table by which the collectives of a communicator choose. */
struct oriel_tune_info {
	size_t size;      /* of this struct, as the caller knew it */
	char machine[64]; /* the model of this rank's GPU or CPU */
	char path[256];   /* the file that ORIEL_TUNE names, else the user's; "": none */
	unsigned nodes;   /* domains, of GPUs or of the host */
	unsigned rows;    /* of the file that match; 0: the library's table is used */
	uint64_t digest;  /* of those rows, 0 without; must be equal on all ranks */
};

/*
 * Local for host memory. Collective for GPU memory, which needs ORIEL_COMM_GPU, since a rank knows
 * only its own domain.
 * ORIEL_ERR_CONFIG: the file that ORIEL_TUNE names does not exist, or a line of a file is invalid;
 * oriel_last_error() names the file and the line.
 */
enum oriel_status oriel_tune_find(struct oriel_comm *comm, bool is_gpu,
				  struct oriel_tune_info *info);

/*
 * For programs that are not linked with CUDA: makes GPU @rank, modulo the number of GPUs of this
 * process, current for the calling thread and creates a stream on it. ORIEL_ERR_UNSUPPORTED: there
 * is no GPU.
 */
enum oriel_status oriel_tune_gpu_open(unsigned rank, struct CUstream_st **stream);
/* Waits until everything in the stream has completed. */
enum oriel_status oriel_tune_gpu_wait(struct CUstream_st *stream);
void oriel_tune_gpu_close(struct CUstream_st *stream); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
