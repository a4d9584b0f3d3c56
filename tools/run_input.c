/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards the input of a terminal to rank 0. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "run.h"

int run_input_pipe(int *to)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	*to = ends[1];
	return ends[0];
}

int run_input_open(struct run_input *input)
{
	int end;

	*input = (struct run_input){.from = -1, .to = -1};
	if (!isatty(STDIN_FILENO))
		return STDIN_FILENO;
	end = run_input_pipe(&input->to);
	if (end >= 0)
		input->from = STDIN_FILENO;
	return end;
}

void run_input_close(struct run_input *input)
{
	if (input->to >= 0)
		close(input->to);
	input->to = -1;
	input->from = -1;
}

void run_input_poll(const struct run_input *input, struct pollfd *entry)
{
	if (input->length > 0)
		*entry = (struct pollfd){.fd = input->to, .events = POLLOUT};
	else
		*entry = (struct pollfd){.fd = input->from, .events = POLLIN};
}

/* A read returns no data, an end of file, or EIO if the launcher is in the background. */
static void input_fill(struct run_input *input)
{
	ssize_t got = read(input->from, input->bytes, sizeof(input->bytes));

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got <= 0) {
		run_input_close(input);
		return;
	}
	input->start = 0;
	input->length = (size_t)got;
}

void run_input_move(struct run_input *input)
{
	ssize_t done;

	if (input->length == 0) {
		input_fill(input);
		return;
	}
	done = write(input->to, input->bytes + input->start, input->length);
	if (done < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (done < 0) {
		input->length = 0;
		run_input_close(input);
		return;
	}
	input->start += (size_t)done;
	input->length -= (size_t)done;
}
