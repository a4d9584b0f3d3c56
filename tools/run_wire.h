/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames between `oriel run --hosts` and its agent on a host, over standard input and output
 * of ssh; docs/wire.md draws them. The hosts (run_host), the agent (run_agent) and the description
 * of a job (run_task) call it. No function waits.
 */
#ifndef ORIEL_RUN_WIRE_H
#define ORIEL_RUN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The agent begins with this line, so that the launcher finds its first frame behind the words
 * that a login script may print. It has the version of the frames.
 */
#define RUN_WIRE_GREETING "\001oriel agent 1\n"
#define RUN_WIRE_HEADER 12u
#define RUN_WIRE_BODY (4u << 20) /* bytes of a body at most: arguments and variables */

enum run_frame_type {
	/* From the launcher. */
	RUN_FRAME_LISTEN = 1, /* a port (4), or 0: rank 0 is on this host */
	RUN_FRAME_TASK,       /* the job: run_task.h */
	RUN_FRAME_SIGNAL,     /* for all ranks here (4) */
	RUN_FRAME_CONTINUE,   /* those that are stopped */
	RUN_FRAME_INPUT,      /* bytes for rank 0; none: the end of its input */
	RUN_FRAME_PING,
	/* From the agent. */
	RUN_FRAME_VERSION, /* of Oriel, as text */
	RUN_FRAME_PORT,    /* of rank 0 (4) */
	RUN_FRAME_FAILED,  /* the exit code (4): no rank runs here; the text is on standard error */
	RUN_FRAME_STARTED, /* all ranks here run the program */
	RUN_FRAME_OUTPUT,  /* which (4: 0 standard output, 1 error), bytes; none: its end */
	RUN_FRAME_EVENT,   /* enum run_event_kind, status, pid (4 each) */
	RUN_FRAME_TAKEN,   /* the last RUN_FRAME_INPUT is written: another one may come */
	RUN_FRAME_PONG,
	RUN_FRAME_END, /* the last: all ranks here have ended */
	RUN_FRAME_TYPES,
};

struct run_frame {
	enum run_frame_type type;
	unsigned rank; /* of an output or event; else 0 */
	size_t length;
	const unsigned char *body; /* until the next call for this wire */
};

/* Bytes that wait, to be written or to be parsed. */
struct run_bytes {
	unsigned char *bytes;
	size_t start, length, room;
	bool is_broken; /* there was no memory */
};

struct run_wire {
	int in, out; /* -1: at end, closed; borrowed */
	struct run_bytes received, waiting;
};

void run_wire_open(struct run_wire *wire, int in, int out);
/* Frees the memory, not the descriptors. */
void run_wire_close(struct run_wire *wire);

/* Append bytes; if there is no memory, the bytes are broken. */
void run_bytes_add(struct run_bytes *bytes, const void *from, size_t length);
void run_bytes_add_number(struct run_bytes *bytes, uint32_t number);
void run_bytes_skip(struct run_bytes *bytes, size_t length);
void run_bytes_free(struct run_bytes *bytes);

/* Numbers are little-endian. */
uint32_t run_number(const unsigned char bytes[4]);
/* The number at the start of @frame's body; false: its body is not one of @numbers numbers. */
bool run_frame_numbers(const struct run_frame *frame, uint32_t *numbers, unsigned count);

/* Queue a frame, and write what can be written. */
void run_wire_send(struct run_wire *wire, enum run_frame_type type, unsigned rank, const void *body,
		   size_t length);
void run_wire_send_number(struct run_wire *wire, enum run_frame_type type, uint32_t number);
/* Write what waits. False, with errno: the peer does not read any more. */
bool run_wire_flush(struct run_wire *wire);
/* Read once. Returns the bytes, 0 at the end, or -1 with errno; EAGAIN: none now. */
long run_wire_fill(struct run_wire *wire);

enum run_wire_next {
	RUN_WIRE_FRAME, /* @frame is set */
	RUN_WIRE_MORE,  /* a whole frame has not arrived */
	RUN_WIRE_MALFORMED,
};

/* Parse the next of the received frames. */
enum run_wire_next run_wire_next(struct run_wire *wire, struct run_frame *frame);

#endif
