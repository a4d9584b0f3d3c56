/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of what was measured on machines (`oriel tune`), by which collectives choose
 * their algorithm; without one for the machine at hand they choose by that of the
 * library. docs/allgather.md has the format.
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

/* What collectives of a communicator choose by. */
struct oriel_tune_info {
	char machine[64]; /* the model of this rank's GPU or CPU */
	char path[256];   /* ORIEL_TUNE, or the file of the user that is read without; "": none */
	unsigned nodes;   /* domains, of GPUs or of the host */
	unsigned rows; /* of that file for this machine, these ranks and nodes; 0: of the library */
	uint64_t digest; /* of those rows; 0 without; must be equal on all ranks */
};

/*
 * Of the host: local. Of memory on GPUs, which needs ORIEL_COMM_GPU: collective, for each
 * rank knows its own domain alone.
 * ORIEL_ERR_CONFIG: the file that ORIEL_TUNE names is not there, or a line of a file is
 * wrong; the text behind oriel_last_error() names both.
 */
enum oriel_status oriel_tune_find(struct oriel_comm *comm, bool is_gpu,
				  struct oriel_tune_info *info);

/*
 * For programs that are not linked with CUDA: GPU number @rank of this process, modulo
 * how many there are, becomes the current one of the calling thread, and gets a stream.
 * ORIEL_ERR_UNSUPPORTED: there is none.
 */
enum oriel_status oriel_tune_gpu_open(unsigned rank, void **stream);
/* Until all that was posted is done. */
enum oriel_status oriel_tune_gpu_wait(void *stream);
void oriel_tune_gpu_close(void *stream); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
