/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU of a CUDA context, without CUDA's types: the interface of the rest of the library to the
 * driver. gpu_cuda.c implements it; gpu_none.c stands in for builds without cuda.h. Host and GPU
 * use the same addresses, so GPU memory is a plain pointer here, which no CPU may dereference.
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
#define ORI_GPU_HANDLE 64 /* bytes of a handle that another process opens */

enum ori_gpu_flags {
	ORI_GPU_VMM = 1,           /* exports its memory as file descriptors */
	ORI_GPU_FABRIC = 2,        /* and as fabric handles, for other nodes of its NVLink fabric */
	ORI_GPU_RDMA = 4,          /* NICs can access that memory (GPUDirect RDMA) */
	ORI_GPU_STREAM_MEMOPS = 8, /* its streams write and wait for 32-bit words: CUDA's stream
				      memory operations */
	ORI_GPU_STREAM_FLAGS = 16, /* its streams write 64-bit flags to host memory after a copy */
	/* Kernels and copies see what NICs have written without a flush(). */
	ORI_GPU_ORDERED = 32,
	ORI_GPU_FLUSHES = 64,  /* GPUs without that flag: flush() exists */
	ORI_GPU_BATCHES = 128, /* its driver takes several copies in one call */
	/* These two are of the rank, not of the driver: topo/overrides.h. */
	ORI_GPU_NO_PEERS = 256, /* it and other GPUs do not map each other's memory */
	ORI_GPU_NO_RDMA = 512,  /* HCAs do not access its memory */
};

/* State of the NVLink fabric that joins the GPUs of several nodes. */
enum ori_fabric_state {
	ORI_FABRIC_NONE,       /* the GPU or the driver does not support fabrics */
	ORI_FABRIC_READY,      /* a fabric handle has been exported and imported */
	ORI_FABRIC_OFF,        /* disabled by ORIEL_FABRIC */
	ORI_FABRIC_UNKNOWN,    /* NVML does not report it */
	ORI_FABRIC_PENDING,    /* the GPU has not joined it yet */
	ORI_FABRIC_LOCAL,      /* the fabric is confined to this node */
	ORI_FABRIC_NO_HANDLES, /* the driver exports or imports no handle */
	ORI_FABRIC_UNEVEN,     /* another rank of the node has no fabric, or a different one */
	ORI_FABRIC_NO_PEERS,   /* ORI_GPU_NO_PEERS */
	ORI_FABRIC_STATES
};

/* Sent over the wire as is. All fields but @state are 0 unless @state is ORI_FABRIC_READY. */
struct ori_gpu_fabric {
	uint32_t state;      /* enum ori_fabric_state */
	uint32_t clique;     /* GPUs with equal cliques reach each other */
	uint8_t cluster[16]; /* UUID of the fabric, never 0 if there is one */
};

struct ori_gpu_ops;

enum ori_gpu_reach_flags {
	ORI_GPU_ACCESS = 1,  /* loads and stores */
	ORI_GPU_ATOMICS = 2, /* atomics as well, which PCIe does not have */
	ORI_GPU_NVLINK = 4,  /* over NVLink */
};

/* The access of a GPU to another GPU that its process sees. */
struct ori_gpu_reach {
	uint8_t uuid[ORI_GPU_UUID]; /* of the other GPU */
	uint32_t flags;             /* enum ori_gpu_reach_flags */
};

/* A plain value, copied freely. Valid while the context lives, which belongs to the application. */
struct ori_gpu {
	const struct ori_gpu_ops *ops;
	void *context; /* CUcontext */
	void *stream;  /* the library's own stream, for tables and memory that is zeroed */
	int device;    /* ordinal in this process, meaningless in any other */
	unsigned flags;
	unsigned processors; /* multiprocessors that this process may use */
	uint8_t uuid[ORI_GPU_UUID];
	char name[ORI_GPU_NAME];
	char pci[ORI_GPU_PCI];
	struct ori_gpu_fabric fabric;
};

/* The handles by which memory is exported to other processes. */
struct ori_gpu_handles {
	int fd; /* for processes of this node; -1: the memory has none */
	bool has_fabric;
	uint8_t fabric[ORI_GPU_HANDLE]; /* for GPUs of the same fabric, on every node */
};

/*
 * The default stream with legacy synchronization, for the members of struct ori_gpu_ops:
 * CU_STREAM_LEGACY of cuda.h ("CUDA Driver API", "Data types used by CUDA driver" and "Stream
 * synchronization behavior"). They take no NULL, which also means that there is no stream.
 */
#define ORI_GPU_STREAM_LEGACY ((void *)0x1)

/* Callers pass NULL to functions on a stream for the default one. */
static inline void *ori_gpu_stream(void *stream)
{
	return stream ? stream : ORI_GPU_STREAM_LEGACY;
}

#define ORI_GPU_KERNELS 48u
#define ORI_GPU_BATCH 8u /* copies in one call of the driver, at most */

/*
 * Make the primary context of GPU number @number, modulo the number of GPUs, current in this
 * thread; it stays retained. @stream is a stream of it, which ori_gpu_primary_close() closes. For
 * the tools, which use no CUDA themselves.
 */
enum oriel_status ori_gpu_primary_open(unsigned number, void **stream);
enum oriel_status ori_gpu_primary_wait(void *stream);
void ori_gpu_primary_close(void *stream);

/* Device code loaded into a context. Zeroed storage is empty. */
struct ori_gpu_program {
	void *module;
	void *kernels[ORI_GPU_KERNELS];
	bool has_pdl; /* programmatic dependent launch: a kernel itself waits for the one before it
		       */
};

/* A stream of the library that runs beside one of the caller's. Zeroed storage is closed. */
struct ori_gpu_side_stream {
	void *stream;
	void *fork_event, *join_event; /* CUDA events */
};

enum ori_gpu_kind {
	ORI_GPU_PAGEABLE, /* host memory that the driver does not know */
	ORI_GPU_PINNED,   /* host memory that the driver has pinned */
	ORI_GPU_LEGACY,   /* GPU memory of cudaMalloc(): other processes open an IPC handle */
	ORI_GPU_MAPPED,   /* GPU memory mapped from a physical allocation */
	ORI_GPU_OTHER,    /* managed memory, or of a pool: no other process can open it */
};

/* The allocation or mapping that an address lies in. */
struct ori_gpu_memory_info {
	enum ori_gpu_kind kind;
	char *base;
	size_t length;
	int device;
	uint64_t id; /* unique among all allocations of the process, past ones too; 0: not known */
};

/*
 * The operations of a driver. Each call enters the context itself, from any thread, also from one
 * that captures a stream. A call that fails leaves an error text; a call waits for nothing but the
 * library's own stream.
 */
struct ori_gpu_ops {
	/*
	 * List the other GPUs that this process sees, then those that NVML sees, at most @room, in
	 * @reach; returns how many.
	 */
	unsigned (*list_peers)(const struct ori_gpu *gpu, struct ori_gpu_reach *reach,
			       unsigned room);

	/*
	 * Allocate at least *@length zeroed bytes; *@length becomes the true length. The caller
	 * closes the descriptor, which is always valid.
	 */
	enum oriel_status (*alloc)(const struct ori_gpu *gpu, size_t *length, void **address,
				   struct ori_gpu_handles *handles);
	/*
	 * Map @count allocations of other processes one behind the other. The descriptors stay the
	 * caller's.
	 */
	enum oriel_status (*import)(const struct ori_gpu *gpu, const int *fds,
				    const uint64_t *lengths, unsigned count, void **address);
	/* Map one allocation of @length bytes by its fabric handle. */
	enum oriel_status (*import_fabric)(const struct ori_gpu *gpu,
					   const uint8_t handle[ORI_GPU_HANDLE], uint64_t length,
					   void **address);
	/* Unmap all of a range that alloc() or an import has mapped. Needs no context. */
	void (*unmap)(void *address, size_t length);

	/*
	 * Describe the allocation at @address. @length is 0 if it belongs to another GPU and the
	 * driver does not report its range.
	 */
	enum oriel_status (*query)(const struct ori_gpu *gpu, const void *address,
				   struct ori_gpu_memory_info *info);
	/*
	 * Is @address memory of this GPU, or pinned host memory? One call of the driver, since
	 * each operation in a stream asks.
	 */
	enum oriel_status (*can_access)(const struct ori_gpu *gpu, const void *address,
					bool *is_accessible);
	/*
	 * Let @gpu access memory of another GPU of this process: all of it for @kind
	 * ORI_GPU_LEGACY, these whole mappings for ORI_GPU_MAPPED.
	 */
	enum oriel_status (*enable_access)(const struct ori_gpu *gpu, enum ori_gpu_kind kind,
					   const void *address, size_t length);
	/*
	 * Export the ORI_GPU_MAPPED @info by the handle types that it was allocated with. The
	 * caller closes the descriptor. ORIEL_ERR_INVALID: it was allocated with none of them.
	 */
	enum oriel_status (*export_mapped)(const struct ori_gpu *gpu,
					   const struct ori_gpu_memory_info *info,
					   struct ori_gpu_handles *handles);
	/* Export the ORI_GPU_LEGACY @info as an IPC handle. */
	enum oriel_status (*export_handle)(const struct ori_gpu *gpu,
					   const struct ori_gpu_memory_info *info,
					   uint8_t handle[ORI_GPU_HANDLE]);
	/*
	 * Export whole pages of the host's size, of one allocation, for NICs; the caller closes
	 * the descriptor.
	 */
	enum oriel_status (*export_dmabuf)(const struct ori_gpu *gpu, void *address, size_t length,
					   int *fd);
	/* Map memory of another process. Each open needs a close of its own. */
	enum oriel_status (*open_handle)(const struct ori_gpu *gpu,
					 const uint8_t handle[ORI_GPU_HANDLE], void **address);
	void (*close_handle)(const struct ori_gpu *gpu, void *address);

	/*
	 * Let every GPU of this process access host memory, at its own address. ORIEL_AGAIN: it is
	 * already pinned, by code that will unpin it.
	 */
	enum oriel_status (*pin)(const struct ori_gpu *gpu, void *address, size_t length);
	void (*unpin)(const struct ori_gpu *gpu, void *address);
	/*
	 * The same for whole pages of a device on the bus, which kernels then reach at *@at;
	 * unpin() undoes it.
	 */
	enum oriel_status (*map_io)(const struct ori_gpu *gpu, void *address, size_t length,
				    void **at);

	/* Complete on return; each side is memory of the host or of a GPU. */
	enum oriel_status (*copy)(const struct ori_gpu *gpu, void *to, const void *from,
				  size_t length);
	enum oriel_status (*zero)(const struct ori_gpu *gpu, void *at, size_t length);

	/*
	 * Load @count kernels of @image, at most ORI_GPU_KERNELS, so that no launch has to load
	 * code.
	 */
	enum oriel_status (*load)(const struct ori_gpu *gpu, const void *image,
				  const char *const *names, unsigned count,
				  struct ori_gpu_program *program);
	/* An empty program is fine. */
	void (*unload)(const struct ori_gpu *gpu, struct ori_gpu_program *program);

	/*
	 * Launch in the caller's @stream, in order and captured with it; the kernel runs later.
	 * @blocks blocks of @threads threads each; @arguments are read before the return.
	 */
	enum oriel_status (*launch)(const struct ori_gpu *gpu,
				    const struct ori_gpu_program *program, unsigned kernel,
				    unsigned blocks, unsigned threads, void **arguments,
				    void *stream);
	enum oriel_status (*stream_copy)(const struct ori_gpu *gpu, void *stream, void *to,
					 const void *from, size_t length);
	/*
	 * @count copies, at most ORI_GPU_BATCH, of @length > 0 bytes each: in any order among
	 * themselves, but in order with the rest of @stream. ORIEL_AGAIN: this stream takes copies
	 * only one by one. Needs ORI_GPU_BATCHES.
	 */
	enum oriel_status (*stream_copy_batch)(const struct ori_gpu *gpu, void *stream,
					       void *const *to, const void *const *from,
					       size_t length, unsigned count);

	/*
	 * In order in @stream and captured with it: stream_write() sets @word to @value after all
	 * that precedes it; stream_wait() holds back all that follows until @word is @value, and
	 * then makes visible what the writer of @word wrote before. The GPU must reach @word. Both
	 * need ORI_GPU_STREAM_MEMOPS.
	 */
	enum oriel_status (*stream_write)(const struct ori_gpu *gpu, void *stream, uint32_t *word,
					  uint32_t value);
	enum oriel_status (*stream_wait)(const struct ori_gpu *gpu, void *stream, uint32_t *word,
					 uint32_t value);
	/* Poll once: is all work in @stream complete? ORIEL_AGAIN: not yet. */
	enum oriel_status (*stream_query)(const struct ori_gpu *gpu, void *stream);
	/*
	 * If @stream is being captured, its graph, and each clone and executable of that graph,
	 * keeps a reference to @object from now on. After the last of them is destroyed, a thread
	 * of the driver calls @drop, which must not call the driver. After a failure @drop is
	 * never called.
	 */
	enum oriel_status (*graph_retain)(const struct ori_gpu *gpu, void *stream, void *object,
					  void (*drop)(void *object), bool *is_captured);
	enum oriel_status (*stream_is_capturing)(const struct ori_gpu *gpu, void *stream,
						 bool *is_capturing);
	/*
	 * Marks the end of what @stream holds now; it is not being captured. *@mark, NULL before
	 * the first call, is moved there. mark_query() polls once: has the GPU passed the mark?
	 * ORIEL_AGAIN: not yet. mark_close() may be called before, and for NULL.
	 */
	enum oriel_status (*mark_set)(const struct ori_gpu *gpu, void *stream, void **mark);
	enum oriel_status (*mark_query)(const struct ori_gpu *gpu, void *mark);
	void (*mark_close)(const struct ori_gpu *gpu, void *mark);
	/* Streams of the library's own, for copies that run beside each other. */
	enum oriel_status (*open_stream)(const struct ori_gpu *gpu, void **stream);
	void (*close_stream)(const struct ori_gpu *gpu, void *stream);
	/*
	 * As stream_copy(); then write @value to @word in pinned host memory: a thread that reads
	 * the value with acquire sees the copy. Needs ORI_GPU_STREAM_FLAGS.
	 */
	enum oriel_status (*stream_copy_and_flag)(const struct ori_gpu *gpu, void *stream, void *to,
						  const void *from, size_t length, uint64_t *word,
						  uint64_t value);
	/*
	 * Make what NICs have written visible to kernels and copies. Blocks for a round trip over
	 * the bus.
	 */
	enum oriel_status (*flush)(const struct ori_gpu *gpu);

	enum oriel_status (*open_side_stream)(const struct ori_gpu *gpu,
					      struct ori_gpu_side_stream *side);
	void (*close_side_stream)(const struct ori_gpu *gpu, struct ori_gpu_side_stream *side);
	/*
	 * After fork(), work in @side follows all that is in @stream; after join(), work in
	 * @stream follows all that is in @side. Captured with @stream. A fork that failed may be
	 * joined. One fork at a time.
	 */
	enum oriel_status (*fork)(const struct ori_gpu *gpu, const struct ori_gpu_side_stream *side,
				  void *stream);
	enum oriel_status (*join)(const struct ori_gpu *gpu, const struct ori_gpu_side_stream *side,
				  void *stream);
};

/*
 * Open the GPU whose context is current in the calling thread. ORIEL_ERR_STATE: no context is
 * current; ORIEL_ERR_UNSUPPORTED: no driver, or a GPU that does not qualify, for instance one
 * without a fabric where ORIEL_FABRIC requires it.
 */
enum oriel_status ori_gpu_open(struct ori_gpu *gpu);

/*
 * Open the same GPU again with a stream of its own, closed on its own: copies there do not wait
 * for what other threads do with @gpu.
 */
enum oriel_status ori_gpu_open_again(const struct ori_gpu *gpu, struct ori_gpu *again);

/* Zeroed storage is closed. */
void ori_gpu_close(struct ori_gpu *gpu);

#endif
