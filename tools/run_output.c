/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the ranks' output to the launcher's, line by line. The bytes of a rank are unchanged. A
 * newline is added only if another rank writes after an unfinished line.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "tool.h"

#define OUTPUT_READ (64u << 10)     /* the default capacity of a pipe */
#define OUTPUT_LINE_MAX (1u << 20)  /* longer lines are written in pieces */
#define OUTPUT_SINK_FULL (1u << 20) /* with more than this buffered, stop reading */
#define OUTPUT_PIPE_MAX (1u << 20)  /* a pipe's capacity can be raised to this */
#define OUTPUT_WRITE 4096           /* poll() guarantees no more than PIPE_BUF */

/* If memory runs out the launcher exits, and its guard kills the ranks. */
static void output_grow(char **bytes, size_t *room, size_t need)
{
	size_t wanted = *room ? *room : OUTPUT_READ;

	while (wanted < need)
		wanted *= 2;
	if (wanted == *room)
		return;
	*bytes = realloc(*bytes, wanted);
	if (!*bytes) {
		fprintf(stderr, "oriel run: no memory for the output of the ranks\n");
		exit(TOOL_FAILED);
	}
	*room = wanted;
}

void run_sink_open(struct run_sink *sink, int fd)
{
	*sink = (struct run_sink){.fd = fd, .writer = RUN_NO_WRITER};
}

void run_sink_close(struct run_sink *sink)
{
	free(sink->bytes);
}

bool run_sink_is_empty(const struct run_sink *sink)
{
	return sink->length == 0;
}

bool run_sink_is_full(const struct run_sink *sink)
{
	return sink->length > OUTPUT_SINK_FULL;
}

static void sink_append(struct run_sink *sink, const char *bytes, size_t length)
{
	if (sink->error || length == 0)
		return;
	if (sink->start > 0 && sink->start + sink->length + length > sink->room) {
		memmove(sink->bytes, sink->bytes + sink->start, sink->length);
		sink->start = 0;
	}
	output_grow(&sink->bytes, &sink->room, sink->length + length);
	memcpy(sink->bytes + sink->start + sink->length, bytes, length);
	sink->length += length;
}

/* Write at most one line, which may lack its newline. */
static void sink_line(struct run_sink *sink, int writer, const char *prefix, const char *bytes,
		      size_t length)
{
	if (sink->writer != writer) {
		if (sink->writer != RUN_NO_WRITER)
			sink_append(sink, "\n", 1);
		sink_append(sink, prefix, strlen(prefix));
	}
	sink_append(sink, bytes, length);
	sink->writer = bytes[length - 1] == '\n' ? RUN_NO_WRITER : writer;
}

void run_sink_say(struct run_sink *sink, const char *format, ...)
{
	char *text;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	sink_line(sink, RUN_LAUNCHER, "oriel run: ", text, (size_t)length);
	sink_line(sink, RUN_LAUNCHER, "", "\n", 1);
	free(text);
}

void run_sink_poll(const struct run_sink *sink, struct pollfd *entry)
{
	*entry = (struct pollfd){.fd = run_sink_is_empty(sink) ? -1 : sink->fd, .events = POLLOUT};
}

void run_sink_write(struct run_sink *sink)
{
	size_t length = sink->length < OUTPUT_WRITE ? sink->length : OUTPUT_WRITE;
	ssize_t done = write(sink->fd, sink->bytes + sink->start, length);

	if (done < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (done < 0) {
		sink->error = errno;
		sink->length = 0;
		return;
	}
	sink->start += (size_t)done;
	sink->length -= (size_t)done;
	if (sink->length == 0)
		sink->start = 0;
}

void run_stream_open(struct run_stream *stream, int fd, unsigned rank, const char *prefix,
		     struct run_sink *sink)
{
	*stream = (struct run_stream){.is_open = true, .fd = fd, .rank = rank, .sink = sink};
	snprintf(stream->prefix, sizeof(stream->prefix), "%s", prefix);
}

/* Write the first @length buffered bytes, split into lines. */
static void stream_emit(struct run_stream *stream, size_t length)
{
	const char *at = stream->bytes;
	const char *end = at + length;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t line = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);

		sink_line(stream->sink, (int)stream->rank, stream->prefix, at, line);
		at += line;
	}
	stream->length -= length;
	memmove(stream->bytes, end, stream->length);
}

void run_stream_close(struct run_stream *stream)
{
	if (!stream->is_open)
		return;
	if (stream->length > 0)
		stream_emit(stream, stream->length);
	if (stream->fd >= 0)
		close(stream->fd);
	free(stream->bytes);
	stream->bytes = NULL;
	stream->fd = -1;
	stream->is_open = false;
}

void run_stream_poll(const struct run_stream *stream, struct pollfd *entry)
{
	*entry = (struct pollfd){.fd = run_sink_is_full(stream->sink) ? -1 : stream->fd,
				 .events = POLLIN};
}

static void stream_make_room(struct run_stream *stream)
{
	if (stream->length < stream->room)
		return;
	if (stream->room >= OUTPUT_LINE_MAX)
		stream_emit(stream, stream->length);
	else
		output_grow(&stream->bytes, &stream->room, stream->room + 1);
}

/* @got bytes have been added: write the whole lines. */
static void stream_advance(struct run_stream *stream, size_t got)
{
	const char *stop = memrchr(stream->bytes + stream->length, '\n', got);

	stream->length += got;
	if (stop)
		stream_emit(stream, (size_t)(stop - stream->bytes) + 1);
}

/* Returns the number of bytes read. */
static size_t stream_fill(struct run_stream *stream)
{
	ssize_t got;

	stream_make_room(stream);
	got = read(stream->fd, stream->bytes + stream->length, stream->room - stream->length);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	/* The master of a terminal that no process has open any more says EIO. */
	if (got <= 0) {
		run_stream_close(stream);
		return 0;
	}
	stream_advance(stream, (size_t)got);
	return (size_t)got;
}

void run_stream_put(struct run_stream *stream, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (stream->is_open && length > 0) {
		size_t part;

		stream_make_room(stream);
		part = stream->room - stream->length;
		if (part > length)
			part = length;
		memcpy(stream->bytes + stream->length, at, part);
		stream_advance(stream, part);
		at += part;
		length -= part;
	}
}

void run_stream_read(struct run_stream *stream)
{
	stream_fill(stream);
}

/* Bounded, because a child of the rank may write faster than this reads. */
void run_stream_drain(struct run_stream *stream)
{
	size_t total = 0;
	size_t got;

	while (stream->fd >= 0 && total < OUTPUT_PIPE_MAX) {
		got = stream_fill(stream);
		if (got == 0)
			return;
		total += got;
	}
}
