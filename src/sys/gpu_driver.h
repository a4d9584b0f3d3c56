/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the CUDA ops table (struct ori_gpu_ops), by file, and what those files share. Only
 * gpu_*.c include it.
 */
#ifndef ORI_SYS_GPU_DRIVER_H
#define ORI_SYS_GPU_DRIVER_H

#include "sys/cuda.h"
#include "sys/gpu.h"

static inline CUdeviceptr ori_gpu_address(const void *address)
{
	return (CUdeviceptr)(uintptr_t)address;
}

static inline void *ori_gpu_pointer(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/*
 * Guards a section in which a context is current. If the thread captures a stream, calls inside
 * the section are not captured.
 */
struct ori_gpu_guard {
	enum oriel_status status;
	CUstreamCaptureMode mode;
	bool is_pushed; /* the context was not current before */
};

/* gpu_context.c */
struct ori_gpu_guard ori_gpu_enter(const struct ori_gpu *gpu);
void ori_gpu_leave(struct ori_gpu_guard *guard);

int ori_gpu_attribute(int device, CUdevice_attribute attribute);

/*
 * gpu_fabric.c: find out whether @gpu, otherwise open, is in an NVLink fabric, and fill in which.
 * ORIEL_ERR_UNSUPPORTED only if ORIEL_FABRIC requires one.
 */
enum oriel_status ori_gpu_fabric_open(struct ori_gpu *gpu);

/* gpu_dmabuf.c */
enum oriel_status ori_gpu_export_dmabuf(const struct ori_gpu *gpu, void *address, size_t length,
					int *fd);

/* gpu_pointer.c */
enum oriel_status ori_gpu_query(const struct ori_gpu *gpu, const void *address,
				struct ori_gpu_memory_info *info);
enum oriel_status ori_gpu_can_access(const struct ori_gpu *gpu, const void *address,
				     bool *is_accessible);
enum oriel_status ori_gpu_export_handle(const struct ori_gpu *gpu,
					const struct ori_gpu_memory_info *info,
					uint8_t handle[ORI_GPU_HANDLE]);
enum oriel_status ori_gpu_open_handle(const struct ori_gpu *gpu,
				      const uint8_t handle[ORI_GPU_HANDLE], void **address);
void ori_gpu_close_handle(const struct ori_gpu *gpu, void *address);
void ori_gpu_unpin(const struct ori_gpu *gpu, void *address);
enum oriel_status ori_gpu_pin(const struct ori_gpu *gpu, void *address, size_t length);
enum oriel_status ori_gpu_map_io(const struct ori_gpu *gpu, void *address, size_t length,
				 void **at);

/* gpu_range.c */
void ori_gpu_unmap(void *address, size_t length);
enum oriel_status ori_gpu_alloc(const struct ori_gpu *gpu, size_t *length, void **address,
				struct ori_gpu_handles *handles);
enum oriel_status ori_gpu_import(const struct ori_gpu *gpu, const int *fds, const uint64_t *lengths,
				 unsigned count, void **address);
enum oriel_status ori_gpu_enable_access(const struct ori_gpu *gpu, enum ori_gpu_kind kind,
					const void *address, size_t length);
enum oriel_status ori_gpu_import_fabric(const struct ori_gpu *gpu,
					const uint8_t handle[ORI_GPU_HANDLE], uint64_t length,
					void **address);
enum oriel_status ori_gpu_export_mapped(const struct ori_gpu *gpu,
					const struct ori_gpu_memory_info *info,
					struct ori_gpu_handles *handles);

/* gpu_stream.c */
enum oriel_status ori_gpu_copy(const struct ori_gpu *gpu, void *to, const void *from,
			       size_t length);
enum oriel_status ori_gpu_zero(const struct ori_gpu *gpu, void *at, size_t length);
void ori_gpu_unload(const struct ori_gpu *gpu, struct ori_gpu_program *program);
enum oriel_status ori_gpu_load(const struct ori_gpu *gpu, const void *image,
			       const char *const *names, unsigned count,
			       struct ori_gpu_program *program);
enum oriel_status ori_gpu_launch(const struct ori_gpu *gpu, const struct ori_gpu_program *program,
				 unsigned kernel, unsigned blocks, unsigned threads,
				 void **arguments, void *stream);
enum oriel_status ori_gpu_stream_copy(const struct ori_gpu *gpu, void *stream, void *to,
				      const void *from, size_t length);
enum oriel_status ori_gpu_stream_copy_batch(const struct ori_gpu *gpu, void *stream,
					    void *const *to, const void *const *from, size_t length,
					    unsigned count);
bool ori_gpu_has_batches(void);

enum oriel_status ori_gpu_open_stream(const struct ori_gpu *gpu, void **stream);
void ori_gpu_close_stream(const struct ori_gpu *gpu, void *stream);
enum oriel_status ori_gpu_stream_copy_and_flag(const struct ori_gpu *gpu, void *stream, void *to,
					       const void *from, size_t length, uint64_t *word,
					       uint64_t value);
enum oriel_status ori_gpu_flush(const struct ori_gpu *gpu);

/* gpu_memops.c */
bool ori_gpu_has_memops(int device);
enum oriel_status ori_gpu_stream_write(const struct ori_gpu *gpu, void *stream, uint32_t *word,
				       uint32_t value);
enum oriel_status ori_gpu_stream_wait(const struct ori_gpu *gpu, void *stream, uint32_t *word,
				      uint32_t value);
enum oriel_status ori_gpu_stream_query(const struct ori_gpu *gpu, void *stream);
enum oriel_status ori_gpu_graph_retain(const struct ori_gpu *gpu, void *stream, void *object,
				       void (*drop)(void *object), bool *is_captured);
enum oriel_status ori_gpu_stream_is_capturing(const struct ori_gpu *gpu, void *stream,
					      bool *is_capturing);
enum oriel_status ori_gpu_mark_set(const struct ori_gpu *gpu, void *stream, void **mark);
enum oriel_status ori_gpu_mark_query(const struct ori_gpu *gpu, void *mark);
void ori_gpu_mark_close(const struct ori_gpu *gpu, void *mark);

/* gpu_side_stream.c */
enum oriel_status ori_gpu_open_side_stream(const struct ori_gpu *gpu,
					   struct ori_gpu_side_stream *side);
void ori_gpu_close_side_stream(const struct ori_gpu *gpu, struct ori_gpu_side_stream *side);
enum oriel_status ori_gpu_fork(const struct ori_gpu *gpu, const struct ori_gpu_side_stream *side,
			       void *stream);
enum oriel_status ori_gpu_join(const struct ori_gpu *gpu, const struct ori_gpu_side_stream *side,
			       void *stream);

#endif
