/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of all fuzz targets: a silent log, failed checks, bytes of the input, connections. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <oriel/status.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

static void fuzz_silence(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	(void)level;
	(void)message;
}

/* libFuzzer and replay.c call it once, before the first input. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	oriel_log_set_sink(fuzz_silence, NULL);
	return 0;
}

void fuzz_broken(const char *claim, const char *file, int line)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, claim);
	abort();
}

uint8_t fuzz_byte(struct fuzz_input *input)
{
	if (input->left == 0)
		return 0;
	input->left--;
	return *input->at++;
}

void fuzz_connect(int ends[2])
{
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
}

void fuzz_say(int end, const uint8_t *bytes, size_t length)
{
	if (length)
		FUZZ_CHECK(send(end, bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
}
