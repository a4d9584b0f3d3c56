/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offset of each field of an mlx5 command, as tables, and the only
 * functions that write or read a field. A structure is a view: bytes and their
 * layout; a field of another structure, or an access of another width, is an
 * error and changes nothing.
 */
#ifndef ORI_HCA_MLX5_PRM_TABLES_H
#define ORI_HCA_MLX5_PRM_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

enum ori_prm_layout {
	ORI_PRM_NO_LAYOUT,
	ORI_PRM_COMMAND, /* the 16 bytes every command begins with */
	ORI_PRM_REPLY,   /* the 16 bytes every answer begins with */
	ORI_PRM_CQC,
	ORI_PRM_ADS, /* address path */
	ORI_PRM_QPC,
	ORI_PRM_GENERAL_CAPS,
	ORI_PRM_PAGING_CAPS,
	ORI_PRM_ATOMIC_CAPS,
	ORI_PRM_CREATE_CQ_IN,
	ORI_PRM_CREATE_QP_IN,
	ORI_PRM_MODIFY_QP_IN,
	ORI_PRM_QUERY_CQ_OUT,
	ORI_PRM_QUERY_QP_OUT,
	ORI_PRM_QUERY_GENERAL_OUT,
	ORI_PRM_QUERY_PAGING_OUT,
	ORI_PRM_QUERY_ATOMIC_OUT,
	ORI_PRM_LAYOUTS,
};

/* Named by structure, then by the field's name in the PRM. */
enum ori_prm_field {
	ORI_PRM_COMMAND_OPCODE,
	ORI_PRM_COMMAND_UID,
	ORI_PRM_COMMAND_OP_MOD,
	ORI_PRM_COMMAND_NUMBER,

	ORI_PRM_REPLY_STATUS,
	ORI_PRM_REPLY_SYNDROME,
	ORI_PRM_REPLY_NUMBER,

	ORI_PRM_CQC_STATUS,
	ORI_PRM_CQC_DBR_UMEM_VALID,
	ORI_PRM_CQC_CQE_SZ,
	ORI_PRM_CQC_CC,
	ORI_PRM_CQC_OI,
	ORI_PRM_CQC_CQE_COMP_EN,
	ORI_PRM_CQC_ST,
	ORI_PRM_CQC_DBR_UMEM_ID,
	ORI_PRM_CQC_PAGE_OFFSET,
	ORI_PRM_CQC_LOG_CQ_SIZE,
	ORI_PRM_CQC_UAR_PAGE,
	ORI_PRM_CQC_C_EQN,
	ORI_PRM_CQC_LOG_PAGE_SIZE,
	ORI_PRM_CQC_CONSUMER_COUNTER,
	ORI_PRM_CQC_PRODUCER_COUNTER,
	ORI_PRM_CQC_DBR_ADDR,

	ORI_PRM_ADS_PKEY_INDEX,
	ORI_PRM_ADS_GRH,
	ORI_PRM_ADS_MLID,
	ORI_PRM_ADS_RLID,
	ORI_PRM_ADS_ACK_TIMEOUT,
	ORI_PRM_ADS_SRC_ADDR_INDEX,
	ORI_PRM_ADS_STAT_RATE,
	ORI_PRM_ADS_HOP_LIMIT,
	ORI_PRM_ADS_TCLASS,
	ORI_PRM_ADS_FLOW_LABEL,
	ORI_PRM_ADS_RGID_HIGH, /* the PRM has one field of 128 bits */
	ORI_PRM_ADS_RGID_LOW,
	ORI_PRM_ADS_DSCP,
	ORI_PRM_ADS_UDP_SPORT,
	ORI_PRM_ADS_ETH_PRIO,
	ORI_PRM_ADS_SL,
	ORI_PRM_ADS_VHCA_PORT_NUM,
	ORI_PRM_ADS_RMAC_47_32,
	ORI_PRM_ADS_RMAC_31_0,

	ORI_PRM_QPC_STATE,
	ORI_PRM_QPC_ST,
	ORI_PRM_QPC_PM_STATE,
	ORI_PRM_QPC_DP_ORDERING_0,
	ORI_PRM_QPC_DP_ORDERING_FORCE,
	ORI_PRM_QPC_PD,
	ORI_PRM_QPC_MTU,
	ORI_PRM_QPC_LOG_MSG_MAX,
	ORI_PRM_QPC_LOG_RQ_SIZE,
	ORI_PRM_QPC_LOG_RQ_STRIDE,
	ORI_PRM_QPC_NO_SQ,
	ORI_PRM_QPC_LOG_SQ_SIZE,
	ORI_PRM_QPC_TS_FORMAT,
	ORI_PRM_QPC_RLKY,
	ORI_PRM_QPC_COUNTER_SET_ID,
	ORI_PRM_QPC_UAR_PAGE,
	ORI_PRM_QPC_SEND_DBR_MODE,
	ORI_PRM_QPC_USER_INDEX,
	ORI_PRM_QPC_LOG_PAGE_SIZE,
	ORI_PRM_QPC_REMOTE_QPN,
	ORI_PRM_QPC_PRIMARY_ADDRESS_PATH,
	ORI_PRM_QPC_LOG_ACK_REQ_FREQ,
	ORI_PRM_QPC_LOG_SRA_MAX,
	ORI_PRM_QPC_RETRY_COUNT,
	ORI_PRM_QPC_RNR_RETRY,
	ORI_PRM_QPC_NEXT_SEND_PSN,
	ORI_PRM_QPC_CQN_SND,
	ORI_PRM_QPC_LOG_RRA_MAX,
	ORI_PRM_QPC_ATOMIC_MODE,
	ORI_PRM_QPC_RRE,
	ORI_PRM_QPC_RWE,
	ORI_PRM_QPC_RAE,
	ORI_PRM_QPC_PAGE_OFFSET,
	ORI_PRM_QPC_DP_ORDERING_1,
	ORI_PRM_QPC_CD_SLAVE_RECEIVE,
	ORI_PRM_QPC_CD_SLAVE_SEND,
	ORI_PRM_QPC_CD_MASTER,
	ORI_PRM_QPC_MIN_RNR_NAK,
	ORI_PRM_QPC_NEXT_RCV_PSN,
	ORI_PRM_QPC_CQN_RCV,
	ORI_PRM_QPC_DBR_ADDR,
	ORI_PRM_QPC_RQ_TYPE,
	ORI_PRM_QPC_SRQN,
	ORI_PRM_QPC_HW_SQ_WQEBB_COUNTER,
	ORI_PRM_QPC_SW_SQ_WQEBB_COUNTER,
	ORI_PRM_QPC_CS_REQ,
	ORI_PRM_QPC_CS_RES,
	ORI_PRM_QPC_DBR_UMEM_VALID,
	ORI_PRM_QPC_DBR_UMEM_ID,

	ORI_PRM_GENERAL_CAPS_LOG_MAX_QP_SZ,
	ORI_PRM_GENERAL_CAPS_LOG_MAX_CQ_SZ,
	ORI_PRM_GENERAL_CAPS_CQE_VERSION,
	ORI_PRM_GENERAL_CAPS_CQ_OI,
	ORI_PRM_GENERAL_CAPS_CD,
	ORI_PRM_GENERAL_CAPS_UAR_4K,
	ORI_PRM_GENERAL_CAPS_LOG_BF_REG_SIZE,
	ORI_PRM_GENERAL_CAPS_LOG_UAR_PAGE_SZ,

	ORI_PRM_PAGING_CAPS_MEM_PAGE_FAULT,
	ORI_PRM_ATOMIC_CAPS_REQ_8B_ENDIANNESS_MODE,
	ORI_PRM_ATOMIC_CAPS_OPERATIONS,
	ORI_PRM_ATOMIC_CAPS_SIZE_QP,
	ORI_PRM_ATOMIC_CAPS_SIZE_DC,
	ORI_PRM_ATOMIC_CAPS_FETCH_ADD_PCI,
	ORI_PRM_ATOMIC_CAPS_SWAP_PCI,
	ORI_PRM_ATOMIC_CAPS_COMPARE_SWAP_PCI,

	ORI_PRM_CREATE_CQ_IN_COMMAND,
	ORI_PRM_CREATE_CQ_IN_CQC,
	ORI_PRM_CREATE_CQ_IN_CQ_UMEM_OFFSET,
	ORI_PRM_CREATE_CQ_IN_CQ_UMEM_ID,
	ORI_PRM_CREATE_CQ_IN_CQ_UMEM_VALID,

	ORI_PRM_CREATE_QP_IN_COMMAND,
	ORI_PRM_CREATE_QP_IN_OPT_PARAM_MASK,
	ORI_PRM_CREATE_QP_IN_QPC,
	ORI_PRM_CREATE_QP_IN_WQ_UMEM_OFFSET,
	ORI_PRM_CREATE_QP_IN_WQ_UMEM_ID,
	ORI_PRM_CREATE_QP_IN_WQ_UMEM_VALID,

	ORI_PRM_MODIFY_QP_IN_COMMAND,
	ORI_PRM_MODIFY_QP_IN_OPT_PARAM_MASK,
	ORI_PRM_MODIFY_QP_IN_QPC,

	ORI_PRM_QUERY_CQ_OUT_REPLY,
	ORI_PRM_QUERY_CQ_OUT_CQC,

	ORI_PRM_QUERY_QP_OUT_REPLY,
	ORI_PRM_QUERY_QP_OUT_OPT_PARAM_MASK,
	ORI_PRM_QUERY_QP_OUT_QPC,

	ORI_PRM_QUERY_GENERAL_OUT_REPLY,
	ORI_PRM_QUERY_GENERAL_OUT_CAPS,

	ORI_PRM_QUERY_PAGING_OUT_REPLY,
	ORI_PRM_QUERY_PAGING_OUT_CAPS,
	ORI_PRM_QUERY_ATOMIC_OUT_REPLY,
	ORI_PRM_QUERY_ATOMIC_OUT_CAPS,

	ORI_PRM_FIELDS,
};

struct ori_prm_row {
	const char *name;
	enum ori_prm_layout layout; /* its structure */
	enum ori_prm_layout
		inner;  /* layout of an inner structure, ORI_PRM_NO_LAYOUT for a number */
	unsigned bit;   /* counted from the most significant of byte 0 */
	unsigned width; /* 1..32 or 64; of an inner structure, all of it */
};

/* @bytes is borrowed, ori_prm_layout_length() long. */
struct ori_prm_view {
	enum ori_prm_layout layout;
	uint8_t *bytes;
};

const struct ori_prm_row *ori_prm_field_row(enum ori_prm_field field);
const char *ori_prm_layout_name(enum ori_prm_layout layout);
size_t ori_prm_layout_length(enum ori_prm_layout layout); /* in bytes */

/*
 * A number of up to 32 bits. ORIEL_ERR_INVALID for a field that @view lacks or
 * that is wider, ORIEL_ERR_RANGE for a value that does not fit.
 */
enum oriel_status ori_prm_set(struct ori_prm_view view, enum ori_prm_field field, uint32_t value);
enum oriel_status ori_prm_get(struct ori_prm_view view, enum ori_prm_field field, uint32_t *value);

/* A number of exactly 64 bits: ORIEL_ERR_INVALID for a narrower field. */
enum oriel_status ori_prm_set64(struct ori_prm_view view, enum ori_prm_field field, uint64_t value);
enum oriel_status ori_prm_get64(struct ori_prm_view view, enum ori_prm_field field,
				uint64_t *value);

/* The structure that is field @field of @view. */
enum oriel_status ori_prm_inner(struct ori_prm_view view, enum ori_prm_field field,
				struct ori_prm_view *inner);

#endif
