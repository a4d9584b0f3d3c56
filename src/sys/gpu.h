/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU of a CUDA context, without the types of CUDA: what the rest of the
 * library asks of a driver. Addresses are the same on host and GPU, so memory
 * of a GPU is a pointer here, which no CPU may follow.
 */
#ifndef ORI_SYS_GPU_H
#define ORI_SYS_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#define ORI_GPU_UUID 16
#define ORI_GPU_NAME 64
#define ORI_GPU_PCI 16
#define ORI_GPU_HANDLE 64 /* bytes of a handle that other processes open */

enum ori_gpu_flags {
	ORI_GPU_VMM = 1,           /* gives memory away by descriptor */
	ORI_GPU_FABRIC = 2,        /* and by handles, to other nodes of its NVLink fabric */
	ORI_GPU_RDMA = 4,          /* adapters may reach that memory */
	ORI_GPU_STREAM_MEMOPS = 8, /* its streams write and await words without a kernel */
	ORI_GPU_STREAM_FLAGS = 16, /* its streams can tell the host of copies */
	/* Kernels and copies see what adapters have written without a flush(). */
	ORI_GPU_ORDERED = 32,
	ORI_GPU_FLUSHES = 64,  /* where they do not: there is one */
	ORI_GPU_BATCHES = 128, /* its driver takes several copies at once */
};

/* What is known of an NVLink fabric that joins the GPUs of several nodes. */
enum ori_fabric_state {
	ORI_FABRIC_NONE,       /* GPU or driver know no such thing */
	ORI_FABRIC_READY,      /* handles have been made and opened */
	ORI_FABRIC_OFF,        /* by ORIEL_FABRIC */
	ORI_FABRIC_UNKNOWN,    /* NVML does not tell */
	ORI_FABRIC_PENDING,    /* the GPU has not joined it yet */
	ORI_FABRIC_LOCAL,      /* it ends at the node */
	ORI_FABRIC_NO_HANDLES, /* the driver makes or opens no handle */
	ORI_FABRIC_UNEVEN,     /* some rank of the node has none, or another */
	ORI_FABRIC_STATES
};

/* Goes over the wire as it is. All but @state 0 unless that is ORI_FABRIC_READY. */
struct ori_gpu_fabric {
	uint32_t state;      /* enum ori_fabric_state */
	uint32_t clique;     /* GPUs with equal numbers reach each other */
	uint8_t cluster[16]; /* UUID, never 0 where there is one */
};

struct ori_gpu_ops;

enum ori_gpu_reach_flags {
	ORI_GPU_ACCESS = 1,  /* loads and stores */
	ORI_GPU_ATOMICS = 2, /* atomics too, which PCIe does not have */
	ORI_GPU_NVLINK = 4,  /* by NVLink */
};

/* How a GPU reaches another one that its process sees. */
struct ori_gpu_reach {
	uint8_t uuid[ORI_GPU_UUID]; /* of the other */
	uint32_t flags;             /* enum ori_gpu_reach_flags */
};

/* Plain, copied freely; good while the context lives, which is the application's. */
struct ori_gpu {
	const struct ori_gpu_ops *ops;
	void *context; /* CUcontext */
	void *stream;  /* the library's own, for tables and zeroes */
	int device;    /* number in this process; no other may rely on it */
	unsigned flags;
	unsigned processors; /* multiprocessors that this process may use */
	uint8_t uuid[ORI_GPU_UUID];
	char name[ORI_GPU_NAME];
	char pci[ORI_GPU_PCI];
	struct ori_gpu_fabric fabric;
};

/* How memory leaves its process. */
struct ori_gpu_handles {
	int fd; /* for processes of the node; -1: it cannot */
	bool has_fabric;
	uint8_t fabric[ORI_GPU_HANDLE]; /* for GPUs of one fabric, on every node */
};

#define ORI_GPU_KERNELS 32u
#define ORI_GPU_BATCH 8u /* copies that are handed over at once */

/*
 * GPU number @number, modulo how many there are, in its primary context, which stays and
 * is current here; a stream of it, of the caller's until it is closed.
 */
enum oriel_status ori_gpu_primary_open(unsigned number, void **stream);
enum oriel_status ori_gpu_primary_wait(void *stream);
void ori_gpu_primary_close(void *stream);

/* Device code in a context. Zeroed storage is empty. */
struct ori_gpu_program {
	void *module;
	void *kernels[ORI_GPU_KERNELS];
	bool has_pdl; /* its kernels wait for the kernel before them in a stream themselves */
};

/* A stream of the library beside one of the caller's. Zeroed storage is closed. */
struct ori_gpu_side_stream {
	void *stream;
	void *fork_event, *join_event; /* events */
};

enum ori_gpu_kind {
	ORI_GPU_PAGEABLE, /* of the host, and unknown to the driver */
	ORI_GPU_PINNED,   /* of the host */
	ORI_GPU_LEGACY,   /* of a GPU, by cudaMalloc(): other processes open a handle */
	ORI_GPU_MAPPED,   /* of a GPU, mapped from a physical allocation */
	ORI_GPU_OTHER,    /* managed, or of a pool: nobody else can open it */
};

/* What lies at an address: one allocation, or one mapping. */
struct ori_gpu_memory_info {
	enum ori_gpu_kind kind;
	char *base;
	size_t length;
	int device;
	uint64_t id; /* no other allocation of the process ever has it; 0: nobody tells */
};

/*
 * What a driver does. Calls enter the context by themselves, from any thread,
 * also one that captures a stream; they fail with a text, and wait for nothing
 * but the library's own stream.
 */
struct ori_gpu_ops {
	/* How many of the others there are, at most @room, each in @reach. */
	unsigned (*list_peers)(const struct ori_gpu *gpu, struct ori_gpu_reach *reach,
			       unsigned room);

	/*
	 * At least *@length zero bytes, which becomes the true length. The caller closes
	 * the descriptor, which there always is.
	 */
	enum oriel_status (*alloc)(const struct ori_gpu *gpu, size_t *length, void **address,
				   struct ori_gpu_handles *handles);
	/*
	 * Map @count pieces of other processes one behind the other. The descriptors
	 * stay the caller's.
	 */
	enum oriel_status (*import)(const struct ori_gpu *gpu, const int *fds,
				    const uint64_t *lengths, unsigned count, void **address);
	/* Map one piece of @length bytes by its handle of a fabric. */
	enum oriel_status (*import_fabric)(const struct ori_gpu *gpu,
					   const uint8_t handle[ORI_GPU_HANDLE], uint64_t length,
					   void **address);
	/* What alloc and both imports have mapped, all of it. Needs no context. */
	void (*unmap)(void *address, size_t length);

	/* Of another GPU the driver may not tell the range: @length is 0 then. */
	enum oriel_status (*query)(const struct ori_gpu *gpu, const void *address,
				   struct ori_gpu_memory_info *info);
	/*
	 * Is @address of its own memory, or of the host's and pinned? What each operation in a
	 * stream asks, by one call of the driver.
	 */
	enum oriel_status (*can_access)(const struct ori_gpu *gpu, const void *address,
					bool *is_accessible);
	/*
	 * Let @gpu reach memory of this process: of @kind ORI_GPU_LEGACY all that there
	 * is, of ORI_GPU_MAPPED these whole mappings.
	 */
	enum oriel_status (*enable_access)(const struct ori_gpu *gpu, enum ori_gpu_kind kind,
					   const void *address, size_t length);
	/*
	 * Of the ORI_GPU_MAPPED @info, what its maker asked for; a descriptor is the
	 * caller's to close. ORIEL_ERR_INVALID: he asked for neither.
	 */
	enum oriel_status (*export_mapped)(const struct ori_gpu *gpu,
					   const struct ori_gpu_memory_info *info,
					   struct ori_gpu_handles *handles);
	/* Of the ORI_GPU_LEGACY @info. */
	enum oriel_status (*export_handle)(const struct ori_gpu *gpu,
					   const struct ori_gpu_memory_info *info,
					   uint8_t handle[ORI_GPU_HANDLE]);
	/*
	 * Whole pages of the host's size, of one allocation, for adapters; the caller
	 * closes the descriptor.
	 */
	enum oriel_status (*export_dmabuf)(const struct ori_gpu *gpu, void *address, size_t length,
					   int *fd);
	/* Of another process. Open twice is open twice, and closed twice. */
	enum oriel_status (*open_handle)(const struct ori_gpu *gpu,
					 const uint8_t handle[ORI_GPU_HANDLE], void **address);
	void (*close_handle)(const struct ori_gpu *gpu, void *address);

	/*
	 * Let every GPU of this process reach host memory, at its own address.
	 * ORIEL_AGAIN: somebody has join_event so before, and it is not the caller's to undo.
	 */
	enum oriel_status (*pin)(const struct ori_gpu *gpu, void *address, size_t length);
	void (*unpin)(const struct ori_gpu *gpu, void *address);
	/*
	 * The same for whole pages of a device on the bus, which kernels then have at *@at;
	 * undone by unpin().
	 */
	enum oriel_status (*map_io)(const struct ori_gpu *gpu, void *address, size_t length,
				    void **at);

	/* Done on return; memory of host or GPU on either side. */
	enum oriel_status (*copy)(const struct ori_gpu *gpu, void *to, const void *from,
				  size_t length);
	enum oriel_status (*zero)(const struct ori_gpu *gpu, void *at, size_t length);

	/* @count kernels of @image, at most ORI_GPU_KERNELS; no launch waits for code. */
	enum oriel_status (*load)(const struct ori_gpu *gpu, const void *image,
				  const char *const *names, unsigned count,
				  struct ori_gpu_program *program);
	/* Empty is fine. */
	void (*unload)(const struct ori_gpu *gpu, struct ori_gpu_program *program);

	/*
	 * In order in @stream, the caller's, and captured with it; join_event later. @blocks
	 * of @threads each; @arguments are read before the return.
	 */
	enum oriel_status (*launch)(const struct ori_gpu *gpu,
				    const struct ori_gpu_program *program, unsigned kernel,
				    unsigned blocks, unsigned threads, void **arguments,
				    void *stream);
	enum oriel_status (*stream_copy)(const struct ori_gpu *gpu, void *stream, void *to,
					 const void *from, size_t length);
	/*
	 * @count of them, at most ORI_GPU_BATCH, of @length bytes each, not 0: in any order
	 * and beside each other, and all in that of @stream. ORIEL_AGAIN: this stream takes
	 * them one by one alone. Of a GPU that ORI_GPU_BATCHES.
	 */
	enum oriel_status (*stream_copy_batch)(const struct ori_gpu *gpu, void *stream,
					       void *const *to, const void *const *from,
					       size_t length, unsigned count);

	/*
	 * In order in @stream, and captured with it: @word becomes @value after all that
	 * is before it; or what is behind it waits until @word is @value, and then sees
	 * what whoever wrote that wrote before. The GPU reaches @word. Only with
	 * ORI_GPU_STREAM_MEMOPS.
	 */
	enum oriel_status (*stream_write)(const struct ori_gpu *gpu, void *stream, uint32_t *word,
					  uint32_t value);
	enum oriel_status (*stream_wait)(const struct ori_gpu *gpu, void *stream, uint32_t *word,
					 uint32_t value);
	/* Look once: is all join_event that was put into @stream? ORIEL_AGAIN: not yet. */
	enum oriel_status (*stream_query)(const struct ori_gpu *gpu, void *stream);
	/*
	 * If @stream is captured, the graph holds @object from now on, and with it every
	 * clone and executable of that graph. Once none of them is left, a thread of the
	 * driver calls @drop, which calls no driver. After a failure nobody does.
	 */
	enum oriel_status (*graph_retain)(const struct ori_gpu *gpu, void *stream, void *object,
					  void (*drop)(void *object), bool *is_captured);
	/* Streams of the library's own for copies beside each other. */
	enum oriel_status (*open_stream)(const struct ori_gpu *gpu, void **stream);
	void (*close_stream)(const struct ori_gpu *gpu, void *stream);
	/*
	 * The same as stream_copy(), and then store @value to @word, of pinned host memory: who
	 * sees it there, with acquire, sees the copy. Of a GPU that ORI_GPU_STREAM_FLAGS.
	 */
	enum oriel_status (*stream_copy_and_flag)(const struct ori_gpu *gpu, void *stream, void *to,
						  const void *from, size_t length, uint64_t *word,
						  uint64_t value);
	/* What adapters have written is there for kernels and copies. Waits for the bus. */
	enum oriel_status (*flush)(const struct ori_gpu *gpu);

	enum oriel_status (*open_side_stream)(const struct ori_gpu *gpu,
					      struct ori_gpu_side_stream *side);
	void (*close_side_stream)(const struct ori_gpu *gpu, struct ori_gpu_side_stream *side);
	/*
	 * What is put into the side after a fork comes after all that is in @stream, and
	 * what is put into @stream after the join comes after all of it. Captured with
	 * @stream. A fork that has failed may be joined. One fork at a time.
	 */
	enum oriel_status (*fork)(const struct ori_gpu *gpu, const struct ori_gpu_side_stream *side,
				  void *stream);
	enum oriel_status (*join)(const struct ori_gpu *gpu, const struct ori_gpu_side_stream *side,
				  void *stream);
};

/*
 * The GPU whose context is current in the calling thread. ORIEL_ERR_STATE:
 * none is; ORIEL_ERR_UNSUPPORTED: no driver, or a GPU that will not do, as one
 * without a fabric where ORIEL_FABRIC requires it.
 */
enum oriel_status ori_gpu_open(struct ori_gpu *gpu);

/*
 * The same GPU once more, closed by itself, with a stream of its own: copies
 * there do not wait for what other threads do with @gpu.
 */
enum oriel_status ori_gpu_open_again(const struct ori_gpu *gpu, struct ori_gpu *again);

/* Zeroed storage is closed. */
void ori_gpu_close(struct ori_gpu *gpu);

#endif
