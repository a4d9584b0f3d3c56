/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hw_replay FILE...: checks that traces of queues show the behaviour that the
 * library builds on.
 */
#include "trace.h"

int main(int argc, char **argv)
{
	int wrong = argc < 2;

	for (int i = 1; i < argc; i++) {
		int found = hw_trace_check(argv[i]);

		printf("%-4s %s\n", found ? "FAIL" : "ok", argv[i]);
		wrong |= found != 0;
	}
	return wrong;
}
