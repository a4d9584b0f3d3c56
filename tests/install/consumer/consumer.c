/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside the tree: it needs the headers to be found and to link. */
#include <stdio.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

int main(void)
{
	struct oriel_window *window = NULL;

	oriel_window_destroy(window);
	return puts(oriel_version()) < 0;
}
