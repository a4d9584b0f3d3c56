/* SPDX-License-Identifier: Apache-2.0 */
/* The program conformance: the cases on CPU threads. Its arguments are in conformance.h. */
#include "conformance.h"

int main(int argc, char **argv)
{
	return conformance_main(argc, argv, &conformance_cpus);
}
