/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a window. The files of this folder share it, and src/coll uses its fields. */
#ifndef ORI_WINDOW_WINDOW_H
#define ORI_WINDOW_WINDOW_H

#include <oriel/window.h>

#include "base/handle.h"
#include "comm/share.h"
#include "kernels/kernels.h"

#define ORI_WINDOW_COLLECTIVES (15u << 8) /* of enum oriel_window_flags */

/* The numbers that must be equal on all ranks. Goes over the wire as it is. */
struct ori_window_counts {
	uint32_t signals;
	uint32_t barriers;
	uint32_t counters;
	uint32_t channels;
	uint32_t channel_bytes;
	uint32_t buffers;
	uint32_t is_device; /* ORIEL_WINDOW_DEVICE */
	uint32_t atomics;   /* enum oriel_atomics that was asked for */
};

struct oriel_window {
	struct oriel_comm *comm;        /* borrowed */
	struct oriel_dev_window device; /* the handle that oriel_window_device() copies */
	struct oriel_dev_fault fault;   /* the record that its users leave, in host memory */
	const struct ori_gpu *gpu;      /* of the communicator; NULL: all lies in host memory */

	struct ori_mem *mem;          /* control segment, and buffer 0 if allocated here */
	struct ori_mapping *control;  /* [size] */
	struct ori_mapping **buffers; /* [buffers][size]; NULL: not shared, or in control */
	uint32_t shared;              /* buffers in use */
	bool is_rdma;                 /* ORIEL_WINDOW_RDMA: no peer is mapped */
	enum oriel_atomics atomics;   /* DEFAULT: no single agent */

	struct oriel_dev_peer
		*peers; /* [size]; those of the handle, or the originals of its copy */
	struct oriel_dev_buffer *table; /* [buffers][size], the same; then: */
	struct oriel_dev_buffer *own;   /* [buffers], of this rank as its peers see it */
	struct ori_rdma_mr *control_mr; /* the rest of the memory for NICs */
	struct ori_rdma_mr *counter_mr;
	struct ori_rdma_mr **buffer_mrs; /* [buffers] */
	struct ori_window_late *late;    /* of window_touch.c; NULL: all is mapped that will be */
	void *state;                     /* all that only this rank uses */
	struct ori_mem *gpu_state;       /* the same on a GPU, and the tables */
	size_t batch;                    /* copies of at most so many bytes go at once */
	struct ori_gpu_side_stream lane; /* of oriel_window_put_all(), from its first call on */
};

/*
 * window_share.c, collective: the memory that each rank passes becomes row @number of the table,
 * which is free, if @status, the result of the caller's step before, is ORIEL_OK. All ranks get the
 * same status; the row is free again after a failure.
 */
enum oriel_status ori_window_fill(struct oriel_window *window, uint32_t number,
				  enum oriel_status status, void *address, size_t length);
/* Local: row @number is free again; peers use this rank's memory of it no more. */
void ori_window_clear(struct oriel_window *window, uint32_t number);
/* window.c: waits for what this rank has posted by the window, by all groups. */
void ori_window_quiet(struct oriel_window *window);

/* Offsets and strides of @device for its counts; the bytes of a control segment. */
uint64_t ori_window_layout(struct oriel_dev_window *device);
/* Copies the handle of @window if @version and @size are those of this library. */
enum oriel_status ori_window_copy_device(const struct oriel_window *window, uint32_t version,
					 size_t size, struct oriel_dev_window *device,
					 const char *call);

/* window_connect.c: are the peers that @attr names, if it does, ranks of the job? Local. */
enum oriel_status ori_window_check_peers(const struct oriel_window *window,
					 const struct oriel_window_attr *attr);
/* Memory for what ranks name. The caller frees @peers, of which the others are parts. */
struct ori_window_names {
	unsigned *peers; /* [size], those of this rank */
	uint8_t *mine;   /* a row: a bit for each rank */
	uint8_t *rows;   /* [size], of all ranks */
};

/* Local, before ranks agree: afterwards none fails alone for want of memory. */
enum oriel_status ori_window_names_open(const struct oriel_window *window,
					struct ori_window_names *names);
/* Some rank names its peers. Collective: compares what all name, and makes those links. */
enum oriel_status ori_window_connect_peers(struct oriel_window *window,
					   const struct oriel_window_attr *attr,
					   const struct ori_window_names *names);

/* window_peers.c: the paths of the memory that the window lies in. */
const struct ori_paths *ori_window_paths(const struct oriel_window *window);
/* The topology of its handle, which is that of the communicator. */
void ori_window_fill_domain(struct oriel_window *window);
/* Is there a link to each peer that the window reaches by rdma? */
enum oriel_status ori_window_check_links(const struct oriel_window *window);
/*
 * Local: sets the agent of the atomics, which is the same on all ranks, or fails. @may_link: the
 * default may be one that takes more links.
 */
enum oriel_status ori_window_choose_atomics(struct oriel_window *window, uint32_t wanted,
					    bool may_link);
/* Entries of its @peers: of the paths, and of atomics by NICs if there are any. */
size_t ori_window_entries(const struct oriel_window *window);
/* Do NICs execute them? */
bool ori_window_has_nic_atomics(const struct oriel_window *window);
/*
 * Fills the entries of @peer and of its buffer 0, which has @length bytes, from the memory that it
 * offers; what is mapped of it is mapped.
 */
void ori_window_fill_peer(struct oriel_window *window, unsigned peer, const struct ori_offer *offer,
			  uint64_t length);

/*
 * window_touch.c: the part of ori_window_fill_peer() that mappings decide. @control_length: of
 * ori_window_layout().
 */
void ori_window_fill_mapped(struct oriel_window *window, unsigned peer, uint64_t control_length);
/* Does a new window with @flags map peers at their first touch? On all alike. */
bool ori_window_is_late(const struct oriel_window *window, unsigned flags);
/* Local, before ranks agree: peers may map this rank's memory from then on. */
enum oriel_status ori_window_late_open(struct oriel_window *window,
				       const struct ori_offering *offering,
				       uint64_t control_length);
/* Sets what @peer offers. */
void ori_window_late_set(struct oriel_window *window, unsigned peer, const struct ori_offer *offer);
/* No peer touches it any more. */
void ori_window_late_close(struct oriel_window *window);

enum oriel_status ori_window_touch_late(const struct oriel_window *window, unsigned peer);
enum oriel_status ori_window_touch_whole(const struct oriel_window *window);
enum oriel_status ori_window_touch_late_by(const struct oriel_window *window,
					   enum ori_kernel kernel, unsigned peer);

/* Before this thread reaches memory of @peer, by the tables of the window. */
static inline enum oriel_status ori_window_touch(const struct oriel_window *w, unsigned peer)
{
	return w->late ? ori_window_touch_late(w, peer) : ORIEL_OK;
}

/* Touches what @kernel reaches, an operation of the host on @peer or on all. */
static inline enum oriel_status ori_window_touch_by(const struct oriel_window *w,
						    enum ori_kernel kernel, unsigned peer)
{
	return w->late ? ori_window_touch_late_by(w, kernel, peer) : ORIEL_OK;
}

/* The same for all peers. */
static inline enum oriel_status ori_window_touch_all(const struct oriel_window *w)
{
	return w->late ? ori_window_touch_whole(w) : ORIEL_OK;
}

/*
 * Fills this rank's own entry: posts of this rank name its memory by other keys than peers do. @mr:
 * NULL without NICs; @offset: in that memory.
 */
void ori_window_fill_own(struct oriel_dev_buffer *own, const struct ori_rdma_mr *mr,
			 uint64_t offset);

/* Fills the inline peers of @device, which is complete, with the ranks from @first on. */
void ori_window_fill_inline(struct oriel_dev_window *device, uint32_t first,
			    const struct oriel_dev_peer *peers,
			    const struct oriel_dev_buffer *table);

/* Memory for this rank's epochs, bases, cursors and counters, all zero. */
enum oriel_status ori_window_open_state(struct oriel_window *window);

/* Bytes of that memory, from a multiple of ORIEL_DEV_LINE on; @at: its beginning. */
size_t ori_window_state_length(const struct oriel_dev_window *device);
void ori_window_place_state(struct oriel_dev_window *device, char *at);

/* window_gpu.c: the same on the GPU of the communicator, with room for the tables. */
enum oriel_status ori_window_gpu_open(struct oriel_window *window);
/* Copies the entries of the tables to the GPU, from @buffer on for @count buffers. */
enum oriel_status ori_window_gpu_publish(struct oriel_window *window, uint32_t buffer,
					 uint32_t count);
/* Marks the inline peers that have buffer 0 on a GPU. */
void ori_window_gpu_mark(struct oriel_window *window);
void ori_window_gpu_close(struct oriel_window *window);

/* window_host.c: @window lies elsewhere; the text names the function to call instead of @call. */
enum oriel_status ori_window_other_form(const struct oriel_window *window, const char *call)
	__attribute__((cold));

/* May @call, a function for windows in host memory, use @w? */
static inline enum oriel_status ori_window_check_host(const struct oriel_window *w,
						      const char *call)
{
	enum oriel_status status = ori_handle_check(w, ORI_HANDLE_WINDOW, call);

	return status == ORIEL_OK && w->gpu ? ori_window_other_form(w, call) : status;
}

/* The same for windows on a GPU; the name of @call ends with "_on_stream". */
static inline enum oriel_status ori_window_check_gpu(const struct oriel_window *w, const char *call)
{
	enum oriel_status status = ori_handle_check(w, ORI_HANDLE_WINDOW, call);

	return status == ORIEL_OK && !w->gpu ? ori_window_other_form(w, call) : status;
}

/*
 * window_stream.c: @kernel for a window on a GPU, in a stream of its context; NULL is the default
 * stream. Arguments are checked before anything is posted. @timeout_ns of waits, 0 = the default.
 */
enum oriel_status ori_window_stream_call(struct oriel_window *window, enum ori_kernel kernel,
					 const struct ori_kernel_call *call, uint64_t timeout_ns,
					 void *stream);

/* Bytes to several ranks: rank r gets the @length bytes that lie r * @stride behind @from. */
struct ori_window_put {
	uint64_t to;        /* offset in a window, unless @is_table */
	bool is_table;      /* the addresses are given */
	void *const *table; /* [ranks]: local addresses; NULL: the rank gets nothing */
	bool is_domain;     /* the ranks that are not mapped get nothing */
	const char *from;
	size_t stride;
	size_t length;
};

/* window_gather.c has the other callers: bytes to all ranks by copy engines. */
enum oriel_status ori_window_stream_put_each(struct oriel_window *window,
					     const struct ori_window_put *put, void *stream);
/* An execution of a collective, by @kernel, with the arguments of @call. */
enum oriel_status ori_window_stream_gather(struct oriel_window *window, enum ori_kernel kernel,
					   const struct ori_kernel_call *call, void *stream);

/*
 * One operation that the host starts: it has a handle of its own, so that rejected arguments are
 * reported to the thread that passed them.
 */
struct ori_window_call {
	struct oriel_dev_window device;
	struct oriel_dev_fault fault;
};

static inline void ori_window_call_open(struct ori_window_call *call, const struct oriel_window *w)
{
	call->device = w->device;
	call->device.fault = &call->fault;
	call->fault.state = ORIEL_DEV_FAULT_EMPTY;
}

/* window_failed.c: @kernel with operation @op was given no memory. */
enum oriel_status ori_window_host_null(const struct oriel_window *window, enum ori_kernel kernel,
				       uint32_t op) __attribute__((cold));
/* The same file: memory of the caller may not be read, or written if @is_target. */
enum oriel_status ori_window_host_no_access(const struct oriel_window *window,
					    enum ori_kernel kernel, const struct ori_kernel_call *c,
					    bool is_target) __attribute__((cold));
/* The same file: gives @failure, which the device function of @kernel returned, its text. */
enum oriel_status ori_window_host_failed(const struct ori_window_call *call,
					 const struct oriel_window *window, enum ori_kernel kernel,
					 const struct ori_kernel_call *c, uint64_t timeout_ns,
					 enum oriel_status failure) __attribute__((cold));

/* The text of @fault, which device functions left. */
void ori_window_fault_text(const struct oriel_dev_window *device,
			   const struct oriel_dev_fault *fault, char *text, size_t length);

#endif
