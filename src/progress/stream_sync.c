/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words between a stream and the thread of the communicator. The stream's side is stream
 * memory operations, or small kernels where the GPU lacks these. Called by engine.c.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/types.h>

#include "base/error.h"
#include "kernels/kernels.h"
#include "progress/engine.h"

static_assert(sizeof(struct ori_line) == 128, "each word has its own cache line");

static enum oriel_status lines_add_locked(struct ori_engine *engine)
{
	struct ori_lines *lines = calloc(1, sizeof(*lines));
	enum oriel_status status;
	unsigned i;

	if (!lines)
		return ori_fail_nomem(sizeof(*lines), "jobs in streams");
	status = ori_mem_alloc_pinned(engine->comm->gpu, ORI_LINES * sizeof(struct ori_line),
				      &lines->mem);
	if (status != ORIEL_OK) {
		free(lines);
		return status;
	}
	lines->next = engine->lines;
	engine->lines = lines;
	for (i = ORI_LINES; i-- > 0;) {
		struct ori_free_line *line =
			(void *)(lines->mem->address + i * sizeof(struct ori_line));

		line->next = engine->free;
		engine->free = line;
	}
	return ORIEL_OK;
}

enum oriel_status ori_lines_open(struct ori_engine *engine)
{
	enum oriel_status status;

	pthread_mutex_lock(&engine->lock);
	status = lines_add_locked(engine);
	pthread_mutex_unlock(&engine->lock);
	return status;
}

enum oriel_status ori_line_open(struct ori_engine *engine, struct ori_line **out)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_free_line *line = NULL;

	pthread_mutex_lock(&engine->lock);
	if (!engine->free)
		status = lines_add_locked(engine);
	if (status == ORIEL_OK) {
		line = engine->free;
		engine->free = line->next;
	}
	pthread_mutex_unlock(&engine->lock);
	if (status != ORIEL_OK)
		return status;
	memset(line, 0, sizeof(struct ori_line));
	*out = (void *)line;
	return ORIEL_OK;
}

void ori_line_close(struct ori_engine *engine, struct ori_line *l)
{
	struct ori_free_line *line = (void *)l;

	pthread_mutex_lock(&engine->lock);
	line->next = engine->free;
	engine->free = line;
	pthread_mutex_unlock(&engine->lock);
}

void ori_lines_close(struct ori_engine *engine, bool is_over)
{
	struct ori_lines *lines;

	while (engine->lines) {
		lines = engine->lines;
		engine->lines = lines->next;
		/* Memory that a stream may still write to stays allocated. */
		if (is_over)
			ori_mem_unref_pinned(engine->comm->gpu, lines->mem);
		free(lines);
	}
}

/* The kernels take a window that they do not read. */
static enum oriel_status line_launch(struct ori_engine *engine, enum ori_kernel kernel,
				     uint32_t *word, void *stream)
{
	const struct oriel_comm *comm = engine->comm;
	struct ori_kernel_call call = {.memory = word};
	struct oriel_dev_window none = {0};
	void *arguments[] = {&none, &call};

	if (!comm->program.module)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"jobs in streams: GPU %s has no stream memory operations, and the "
				"library was built without nvcc",
				comm->gpu->pci);
	return comm->gpu->ops->launch(comm->gpu, &comm->program, kernel, 1, 1, arguments, stream);
}

/*
 * begun, the wait for done, and the reset of done. With kernels the last two are one, since a
 * kernel can do both.
 */
enum oriel_status ori_line_post(struct ori_engine *engine, struct ori_line *line, void *stream,
				bool *has_begun)
{
	const struct ori_gpu *gpu = engine->comm->gpu;
	bool has_words = gpu->flags & ORI_GPU_STREAM_MEMOPS;
	enum oriel_status status;

	*has_begun = false;
	status = has_words ? gpu->ops->stream_write(gpu, stream, &line->begun, 1)
			   : line_launch(engine, ORI_KERNEL_JOB_BEGIN, &line->begun, stream);
	if (status != ORIEL_OK)
		return status;
	*has_begun = true;
	if (!has_words)
		return line_launch(engine, ORI_KERNEL_JOB_END, &line->done, stream);
	status = gpu->ops->stream_wait(gpu, stream, &line->done, 1);
	return status == ORIEL_OK ? gpu->ops->stream_write(gpu, stream, &line->done, 0) : status;
}
