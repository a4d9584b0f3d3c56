/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory of the software adapter: keys, checked access, and the
 * queue of writes that relaxed ordering holds back.
 */
#ifndef ORI_HCA_SOFT_MEMORY_H
#define ORI_HCA_SOFT_MEMORY_H

#include "hca/soft_objects.h"

void ori_soft_keys_open(struct soft_keys *keys, uint32_t salt);
void ori_soft_keys_close(struct soft_keys *keys);
enum oriel_status ori_soft_keys_add(struct soft_keys *keys, struct soft_mr *mr);
void ori_soft_keys_remove(struct soft_keys *keys, struct soft_mr *mr);

/*
 * The memory that @key names if [@address, @address + @length) lies in it and
 * all of @access is allowed; else NULL and *@why.
 */
struct soft_mr *ori_soft_mr_find(struct soft_node *node, uint32_t key, uint64_t address,
				 uint64_t length, unsigned access, const char **why);

static inline char *soft_mr_at(const struct soft_mr *mr, uint64_t address)
{
	return mr->base + (address - mr->iova);
}

/*
 * The GPU whose memory @node uses. Closed with the node. is_far(): does @at lie
 * there, for all that the driver knows?
 */
enum oriel_status ori_soft_far_open(const struct ori_gpu *gpu, struct soft_remote **far);
void ori_soft_far_close(struct soft_remote *far); /* NULL is allowed */
bool ori_soft_far_has(struct soft_remote *far, const char *at);

/* Is the byte of @mr at @at out of reach of loads and stores? @mr NULL: no. */
bool ori_soft_is_far(const struct soft_mr *mr, const char *at);

/* Was all of @mr there when it was registered? Else each request may name what is not. */
static inline bool ori_soft_is_vouched(const struct soft_mr *mr)
{
	return !mr || !(mr->access & ORI_HCA_ANY_MEMORY);
}

/*
 * Copy from, and to, memory of @mr wherever it lies (NULL: the adapter's own);
 * done on return. False: the GPU does not do it any more, or @mr does not vouch for
 * memory that may not be read, or written.
 */
bool ori_soft_load(const struct soft_mr *mr, void *to, const char *from, size_t length);
bool ori_soft_store(const struct soft_mr *mr, char *to, const void *from, size_t length);

/* Copy; an aligned word of 8 or 4 bytes is read and written whole, with acquire and release. */
void ori_soft_copy(void *to, const void *from, size_t length);

/* Does a write to @at, of @mr, wait in the queue? Memory of GPUs takes all at once. */
bool ori_soft_is_held(const struct soft_mr *mr, const char *at);

/*
 * Write as the PCIe rules say: strict writes push out all that came before.
 * False as ori_soft_store() has it.
 */
bool ori_soft_write(struct soft_mr *mr, char *to, const void *from, size_t length);

/* Let one held write reach memory, if it is time; false if it is not. */
bool ori_soft_held_leak(struct soft_node *node);
uint64_t ori_soft_held_due(const struct soft_node *node);

/* Let all of them. settle(): as an atomic on [@at, @at + @length) does. */
void ori_soft_held_drain(struct soft_node *node);
void ori_soft_held_settle(struct soft_node *node, const char *at, size_t length);

#endif
