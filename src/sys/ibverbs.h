/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs, opened at run time. Compiled only where infiniband/verbs.h was found; other code
 * uses sys/ibverbs_built.h.
 */
#ifndef ORI_SYS_IBVERBS_H
#define ORI_SYS_IBVERBS_H

#include <infiniband/verbs.h>

#include <oriel/status.h>

#include "sys/ibverbs_built.h"

/*
 * X(member, symbol, version). Posting and polling are not here: the header calls the provider of a
 * device directly. Members lack the prefix because the header has macros with some of the names.
 * Plain query_port() fills in only the fields that libraries before 1.9 knew of struct
 * ibv_port_attr: the rest must be zeroed.
 */
#define ORI_IBVERBS_CALLS(X)                                     \
	X(get_device_list, ibv_get_device_list, "IBVERBS_1.1")   \
	X(free_device_list, ibv_free_device_list, "IBVERBS_1.1") \
	X(get_device_name, ibv_get_device_name, "IBVERBS_1.1")   \
	X(open_device, ibv_open_device, "IBVERBS_1.1")           \
	X(close_device, ibv_close_device, "IBVERBS_1.1")         \
	X(get_async_event, ibv_get_async_event, "IBVERBS_1.1")   \
	X(ack_async_event, ibv_ack_async_event, "IBVERBS_1.1")   \
	X(event_type_str, ibv_event_type_str, "IBVERBS_1.1")     \
	X(query_device, ibv_query_device, "IBVERBS_1.1")         \
	X(query_port, ibv_query_port, "IBVERBS_1.1")             \
	X(query_gid, ibv_query_gid, "IBVERBS_1.1")               \
	X(query_pkey, ibv_query_pkey, "IBVERBS_1.1")             \
	X(alloc_pd, ibv_alloc_pd, "IBVERBS_1.1")                 \
	X(dealloc_pd, ibv_dealloc_pd, "IBVERBS_1.1")             \
	X(reg_mr, ibv_reg_mr, "IBVERBS_1.1")                     \
	X(dereg_mr, ibv_dereg_mr, "IBVERBS_1.1")                 \
	X(create_cq, ibv_create_cq, "IBVERBS_1.1")               \
	X(destroy_cq, ibv_destroy_cq, "IBVERBS_1.1")             \
	X(create_qp, ibv_create_qp, "IBVERBS_1.1")               \
	X(modify_qp, ibv_modify_qp, "IBVERBS_1.1")               \
	X(destroy_qp, ibv_destroy_qp, "IBVERBS_1.1")             \
	X(wc_status_str, ibv_wc_status_str, "IBVERBS_1.1")

/*
 * NULL if the library is older than the header. Only mlx5 HCAs need the address handles, which
 * give a QP its packet path.
 */
#define ORI_IBVERBS_OPTIONAL(X)                             \
	X(reg_mr_iova2, ibv_reg_mr_iova2, "IBVERBS_1.8")    \
	X(query_gid_ex, _ibv_query_gid_ex, "IBVERBS_1.11")  \
	X(reg_dmabuf_mr, ibv_reg_dmabuf_mr, "IBVERBS_1.12") \
	X(create_ah, ibv_create_ah, "IBVERBS_1.1")          \
	X(destroy_ah, ibv_destroy_ah, "IBVERBS_1.1")

#define ORI_IBVERBS_MEMBER(member, symbol, version) __typeof__(symbol) *member;
struct ori_ibverbs {
	ORI_IBVERBS_CALLS(ORI_IBVERBS_MEMBER)
	ORI_IBVERBS_OPTIONAL(ORI_IBVERBS_MEMBER)
};

/* Constant once ori_ibverbs_open() has returned ORIEL_OK. */
extern struct ori_ibverbs ori_ibverbs;

/*
 * Open libibverbs, at the first call; any thread. The text of ORIEL_ERR_UNSUPPORTED names what is
 * missing.
 */
enum oriel_status ori_ibverbs_open(void);

#endif
