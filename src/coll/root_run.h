/* SPDX-License-Identifier: Apache-2.0 */
/* An execution of a gather or a scatter. gather_root.c and scatter_root.c call it. */
#ifndef ORI_COLL_ROOT_RUN_H
#define ORI_COLL_ROOT_RUN_H

#include "coll/gather.h"

/*
 * Checks that @handle is of @kind, and the other arguments of an execution, first. @is_start: the
 * thread of the communicator executes.
 */
enum oriel_status ori_root_execute(const struct ori_gather_kind *kind, void *handle, uint32_t root,
				   const void *send, size_t bytes, bool is_start, const char *call);

/* The same for an execution in GPU memory, which is posted to @stream. */
enum oriel_status ori_root_execute_on_stream(const struct ori_gather_kind *kind, void *handle,
					     uint32_t root, const void *send, size_t bytes,
					     struct CUstream_st *stream, const char *call);

#endif
