/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of a job with PMIx whose program uses PMIx too: rank 0 publishes a key of its own while
 * the others wait for that of Oriel, and only then opens the job. Prints what oriel_comm_size()
 * says. launch_test.py starts it.
 */
#include <oriel/comm.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <pmix.h>

int main(void)
{
	pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 1};
	struct oriel_comm *comm;
	pmix_proc_t self;

	if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
		return 1;
	if (self.rank == 0) {
		sleep(1);
		if (PMIx_Put(PMIX_GLOBAL, "other", &value) != PMIX_SUCCESS ||
		    PMIx_Commit() != PMIX_SUCCESS)
			return 1;
		sleep(1);
	}
	if (oriel_comm_create(NULL, NULL, &comm) != ORIEL_OK) {
		fprintf(stderr, "%s\n", oriel_last_error());
		return 1;
	}
	printf("size %u\n", oriel_comm_size(comm));
	oriel_comm_destroy(comm);
	return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
