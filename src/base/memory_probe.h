/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of memory, and copies from and to addresses that a peer or the program has named. They
 * return false where a load or store would raise a signal. In a sandbox that forbids
 * process_vm_readv() a pipe does the copy; false, too, if no pipe can be opened. The software
 * HCA, src/p2p and src/window call them; any thread.
 */
#ifndef ORI_BASE_MEMORY_PROBE_H
#define ORI_BASE_MEMORY_PROBE_H

#include <stdbool.h>
#include <stddef.h>

bool ori_probe_read(void *to, const void *from, size_t length);
bool ori_probe_write(void *to, const void *from, size_t length);

/*
 * May this process read all of it now? Every page is probed. may_overwrite(): may it write? The
 * probe overwrites bytes, so the memory must be the target of data that has not arrived yet.
 */
bool ori_probe_may_read(const void *at, size_t length);
bool ori_probe_may_overwrite(void *at, size_t length);

/*
 * The same by a constant number of system calls, and no byte changes. They find both ends and
 * every hole, but not a page in between that is mapped without the permission.
 */
bool ori_probe_looks_readable(const void *at, size_t length);
bool ori_probe_looks_writable(void *at, size_t length);

#endif
