/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory of the software HCA: keys, checked access, and the queue of
 * writes that relaxed ordering holds back. Requester, responder and wire use
 * it, with the lock of the engine held.
 */
#ifndef ORI_HCA_SOFT_MEMORY_H
#define ORI_HCA_SOFT_MEMORY_H

#include "hca/soft/soft_objects.h"

void ori_soft_keys_open(struct soft_keys *keys, uint32_t salt);
void ori_soft_keys_close(struct soft_keys *keys);
enum oriel_status ori_soft_keys_add(struct soft_keys *keys, struct soft_mr *mr);
void ori_soft_keys_remove(struct soft_keys *keys, struct soft_mr *mr);

/*
 * The memory of @key if [@address, @address + @length) lies in it and the
 * registration allows all of @access; else NULL and *@why.
 */
struct soft_mr *ori_soft_mr_find(struct soft_node *node, uint32_t key, uint64_t address,
				 uint64_t length, unsigned access, const char **why);

static inline char *soft_mr_at(const struct soft_mr *mr, uint64_t address)
{
	return mr->base + (address - mr->iova);
}

/*
 * The GPU whose memory @node uses. Closed with the node. has(): does @at lie in
 * memory of that GPU, as far as the driver knows?
 */
enum oriel_status ori_soft_remote_open(const struct ori_gpu *gpu, struct soft_remote **remote);
void ori_soft_remote_close(struct soft_remote *remote); /* NULL is allowed */
bool ori_soft_remote_has(struct soft_remote *remote, const char *at);

/* Do loads and stores of a CPU not reach the byte of @mr at @at? @mr NULL: they do. */
bool ori_soft_is_remote(const struct soft_mr *mr, const char *at);

/*
 * Was all of @mr mapped when it was registered? If not, a request may name
 * bytes that are not.
 */
static inline bool ori_soft_is_vouched(const struct soft_mr *mr)
{
	return !mr || !(mr->access & ORI_HCA_ANY_MEMORY);
}

/*
 * Copy from, and to, memory of @mr on either side (NULL: the HCA's own); done
 * on return. False: the GPU does not copy it any more, or @mr does not vouch
 * for memory that may not be read, or written.
 */
bool ori_soft_load(const struct soft_mr *mr, void *to, const char *from, size_t length);
bool ori_soft_store(const struct soft_mr *mr, char *to, const void *from, size_t length);

/* Copy; an aligned word of 8 or 4 bytes is read and written whole, with acquire and release. */
void ori_soft_copy(void *to, const void *from, size_t length);

/* Would a write to @at, of @mr, wait in the queue? GPU memory takes every write at once. */
bool ori_soft_is_held(const struct soft_mr *mr, const char *at);

/*
 * Write by the PCIe rules: a strict write pushes out all earlier writes. False
 * as for ori_soft_store().
 */
bool ori_soft_write(struct soft_mr *mr, char *to, const void *from, size_t length);

/* Let one held write reach memory, if it is due; false if it is not. */
bool ori_soft_held_leak(struct soft_node *node);
uint64_t ori_soft_held_due(const struct soft_node *node);

/*
 * Let all held writes reach memory. settle(): those that an atomic on [@at, @at
 * + @length) pushes out.
 */
void ori_soft_held_drain(struct soft_node *node);
void ori_soft_held_settle(struct soft_node *node, const char *at, size_t length);

#endif
