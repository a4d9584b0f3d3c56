/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seen first by every source of the library, which is compiled with
 * -fvisibility=hidden: what a public header declares stays visible, and the
 * public headers need no export macro.
 */
#pragma GCC visibility push(default)
#include <oriel/dev.h>
#include <oriel/oriel.h>
#pragma GCC visibility pop
