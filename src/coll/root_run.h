/* SPDX-License-Identifier: Apache-2.0 */
/* An execution of a gather or a scatter. gather_root.c and scatter_root.c call it. */
#ifndef ORI_COLL_ROOT_RUN_H
#define ORI_COLL_ROOT_RUN_H

#include "coll/gather.h"
#include "coll/object_cache.h"

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

/*
 * An execution without an object of the user's: @call has all but the length and what
 * ori_cached_begin() sets, and @begin checks the buffers and takes an object of the cache.
 */
enum oriel_status ori_root_once(struct ori_cached_call *call,
				enum oriel_status (*begin)(struct ori_cached_call *call,
							   const void *send),
				const void *send, const char *name);

#endif
