/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets as the PRM prints them: byte of the 32-bit big-endian word, then its bits, 31 the
 * most significant. Each table names the structure of the Linux header mlx5_ifc.h that has the
 * same fields. mlx5_prm_codec.c reads and writes fields by them.
 */
#include "hca/mlx5/mlx5_prm_tables.h"

#include <assert.h>
#include <stdbool.h>

#include "base/error.h"

#define BITS(byte, high, low) ORI_PRM_NO_LAYOUT, (byte)*8 + 31 - (high), (high) - (low) + 1
#define WORD(byte) BITS(byte, 31, 0)
#define QUAD(byte) ORI_PRM_NO_LAYOUT, (byte)*8, 64
#define PART(byte, layout, length) layout, (byte)*8, (length)*8

enum {
	LENGTH_HEAD = 0x10,
	LENGTH_CQC = 0x40,
	LENGTH_ADS = 0x2c,
	LENGTH_QPC = 0xe8,
	LENGTH_CAPS = 0x1000, /* hca_cap_union */
};

static const struct {
	const char *name;
	size_t length;
} layouts[ORI_PRM_LAYOUTS] = {
	[ORI_PRM_NO_LAYOUT] = {"no structure", 0},
	[ORI_PRM_COMMAND] = {"command", LENGTH_HEAD},
	[ORI_PRM_REPLY] = {"reply", LENGTH_HEAD},
	[ORI_PRM_CQC] = {"cqc", LENGTH_CQC},
	[ORI_PRM_ADS] = {"ads", LENGTH_ADS},
	[ORI_PRM_QPC] = {"qpc", LENGTH_QPC},
	[ORI_PRM_GENERAL_CAPS] = {"cmd_hca_cap", LENGTH_CAPS},
	[ORI_PRM_PAGING_CAPS] = {"odp_cap", LENGTH_CAPS},
	[ORI_PRM_ATOMIC_CAPS] = {"atomic_caps", LENGTH_CAPS},
	[ORI_PRM_CREATE_CQ_IN] = {"create_cq_in", 0x110},
	[ORI_PRM_CREATE_QP_IN] = {"create_qp_in", 0x110},
	[ORI_PRM_MODIFY_QP_IN] = {"modify_qp_in", 0x110},
	[ORI_PRM_QUERY_CQ_OUT] = {"query_cq_out", 0x110},
	[ORI_PRM_QUERY_QP_OUT] = {"query_qp_out", 0x110},
	[ORI_PRM_QUERY_GENERAL_OUT] = {"query_hca_cap_out", LENGTH_HEAD + LENGTH_CAPS},
	[ORI_PRM_QUERY_PAGING_OUT] = {"query_hca_cap_out", LENGTH_HEAD + LENGTH_CAPS},
	[ORI_PRM_QUERY_ATOMIC_OUT] = {"query_hca_cap_out", LENGTH_HEAD + LENGTH_CAPS},
};

static const struct ori_prm_row rows[ORI_PRM_FIELDS] = {
	/* The common head of *_in_bits; "number" is qpn or cqn, reserved in create_*_in_bits. */
	[ORI_PRM_COMMAND_OPCODE] = {"opcode", ORI_PRM_COMMAND, BITS(0x00, 31, 16)},
	[ORI_PRM_COMMAND_UID] = {"uid", ORI_PRM_COMMAND, BITS(0x00, 15, 0)},
	[ORI_PRM_COMMAND_OP_MOD] = {"op_mod", ORI_PRM_COMMAND, BITS(0x04, 15, 0)},
	[ORI_PRM_COMMAND_NUMBER] = {"number", ORI_PRM_COMMAND, BITS(0x08, 23, 0)},

	/* create_cq_out_bits and create_qp_out_bits; the head of the other *_out_bits. */
	[ORI_PRM_REPLY_STATUS] = {"status", ORI_PRM_REPLY, BITS(0x00, 31, 24)},
	[ORI_PRM_REPLY_SYNDROME] = {"syndrome", ORI_PRM_REPLY, WORD(0x04)},
	[ORI_PRM_REPLY_NUMBER] = {"number", ORI_PRM_REPLY, BITS(0x08, 23, 0)},

	/* cqc_bits; dbr_umem_id is named in the newer headers only (DPDK mlx5_prm.h). */
	[ORI_PRM_CQC_STATUS] = {"status", ORI_PRM_CQC, BITS(0x00, 31, 28)},
	[ORI_PRM_CQC_DBR_UMEM_VALID] = {"dbr_umem_valid", ORI_PRM_CQC, BITS(0x00, 25, 25)},
	[ORI_PRM_CQC_CQE_SZ] = {"cqe_sz", ORI_PRM_CQC, BITS(0x00, 23, 21)},
	[ORI_PRM_CQC_CC] = {"cc", ORI_PRM_CQC, BITS(0x00, 20, 20)},
	[ORI_PRM_CQC_OI] = {"oi", ORI_PRM_CQC, BITS(0x00, 17, 17)},
	[ORI_PRM_CQC_CQE_COMP_EN] = {"cqe_comp_en", ORI_PRM_CQC, BITS(0x00, 14, 14)},
	[ORI_PRM_CQC_ST] = {"st", ORI_PRM_CQC, BITS(0x00, 11, 8)},
	[ORI_PRM_CQC_DBR_UMEM_ID] = {"dbr_umem_id", ORI_PRM_CQC, WORD(0x04)},
	[ORI_PRM_CQC_PAGE_OFFSET] = {"page_offset", ORI_PRM_CQC, BITS(0x08, 11, 6)},
	[ORI_PRM_CQC_LOG_CQ_SIZE] = {"log_cq_size", ORI_PRM_CQC, BITS(0x0c, 28, 24)},
	[ORI_PRM_CQC_UAR_PAGE] = {"uar_page", ORI_PRM_CQC, BITS(0x0c, 23, 0)},
	[ORI_PRM_CQC_C_EQN] = {"c_eqn", ORI_PRM_CQC, BITS(0x14, 7, 0)},
	[ORI_PRM_CQC_LOG_PAGE_SIZE] = {"log_page_size", ORI_PRM_CQC, BITS(0x18, 28, 24)},
	[ORI_PRM_CQC_CONSUMER_COUNTER] = {"consumer_counter", ORI_PRM_CQC, BITS(0x28, 23, 0)},
	[ORI_PRM_CQC_PRODUCER_COUNTER] = {"producer_counter", ORI_PRM_CQC, BITS(0x2c, 23, 0)},
	[ORI_PRM_CQC_DBR_ADDR] = {"dbr_addr", ORI_PRM_CQC, QUAD(0x38)},

	/* ads_bits */
	[ORI_PRM_ADS_PKEY_INDEX] = {"pkey_index", ORI_PRM_ADS, BITS(0x00, 15, 0)},
	[ORI_PRM_ADS_GRH] = {"grh", ORI_PRM_ADS, BITS(0x04, 23, 23)},
	[ORI_PRM_ADS_MLID] = {"mlid", ORI_PRM_ADS, BITS(0x04, 22, 16)},
	[ORI_PRM_ADS_RLID] = {"rlid", ORI_PRM_ADS, BITS(0x04, 15, 0)},
	[ORI_PRM_ADS_ACK_TIMEOUT] = {"ack_timeout", ORI_PRM_ADS, BITS(0x08, 31, 27)},
	[ORI_PRM_ADS_SRC_ADDR_INDEX] = {"src_addr_index", ORI_PRM_ADS, BITS(0x08, 23, 16)},
	[ORI_PRM_ADS_STAT_RATE] = {"stat_rate", ORI_PRM_ADS, BITS(0x08, 11, 8)},
	[ORI_PRM_ADS_HOP_LIMIT] = {"hop_limit", ORI_PRM_ADS, BITS(0x08, 7, 0)},
	[ORI_PRM_ADS_TCLASS] = {"tclass", ORI_PRM_ADS, BITS(0x0c, 27, 20)},
	[ORI_PRM_ADS_FLOW_LABEL] = {"flow_label", ORI_PRM_ADS, BITS(0x0c, 19, 0)},
	[ORI_PRM_ADS_RGID_HIGH] = {"rgid[127:64]", ORI_PRM_ADS, QUAD(0x10)},
	[ORI_PRM_ADS_RGID_LOW] = {"rgid[63:0]", ORI_PRM_ADS, QUAD(0x18)},
	[ORI_PRM_ADS_DSCP] = {"dscp", ORI_PRM_ADS, BITS(0x20, 21, 16)},
	[ORI_PRM_ADS_UDP_SPORT] = {"udp_sport", ORI_PRM_ADS, BITS(0x20, 15, 0)},
	[ORI_PRM_ADS_ETH_PRIO] = {"eth_prio", ORI_PRM_ADS, BITS(0x24, 30, 28)},
	[ORI_PRM_ADS_SL] = {"sl", ORI_PRM_ADS, BITS(0x24, 27, 24)},
	[ORI_PRM_ADS_VHCA_PORT_NUM] = {"vhca_port_num", ORI_PRM_ADS, BITS(0x24, 23, 16)},
	[ORI_PRM_ADS_RMAC_47_32] = {"rmac_47_32", ORI_PRM_ADS, BITS(0x24, 15, 0)},
	[ORI_PRM_ADS_RMAC_31_0] = {"rmac_31_0", ORI_PRM_ADS, WORD(0x28)},

	/*
	 * qpc_bits; send_dbr_mode is in the newer headers only (DOCA mlx5_ifc.h), and so is
	 * dp_ordering (UCX ib_mlx5_ifc.h, and Linux mlx5_ifc.h but for its low bit).
	 */
	[ORI_PRM_QPC_STATE] = {"state", ORI_PRM_QPC, BITS(0x00, 31, 28)},
	[ORI_PRM_QPC_ST] = {"st", ORI_PRM_QPC, BITS(0x00, 23, 16)},
	[ORI_PRM_QPC_PM_STATE] = {"pm_state", ORI_PRM_QPC, BITS(0x00, 12, 11)},
	[ORI_PRM_QPC_DP_ORDERING_0] = {"dp_ordering_0", ORI_PRM_QPC, BITS(0x04, 25, 25)},
	[ORI_PRM_QPC_DP_ORDERING_FORCE] = {"dp_ordering_force", ORI_PRM_QPC, BITS(0x04, 24, 24)},
	[ORI_PRM_QPC_PD] = {"pd", ORI_PRM_QPC, BITS(0x04, 23, 0)},
	[ORI_PRM_QPC_MTU] = {"mtu", ORI_PRM_QPC, BITS(0x08, 31, 29)},
	[ORI_PRM_QPC_LOG_MSG_MAX] = {"log_msg_max", ORI_PRM_QPC, BITS(0x08, 28, 24)},
	[ORI_PRM_QPC_LOG_RQ_SIZE] = {"log_rq_size", ORI_PRM_QPC, BITS(0x08, 22, 19)},
	[ORI_PRM_QPC_LOG_RQ_STRIDE] = {"log_rq_stride", ORI_PRM_QPC, BITS(0x08, 18, 16)},
	[ORI_PRM_QPC_NO_SQ] = {"no_sq", ORI_PRM_QPC, BITS(0x08, 15, 15)},
	[ORI_PRM_QPC_LOG_SQ_SIZE] = {"log_sq_size", ORI_PRM_QPC, BITS(0x08, 14, 11)},
	[ORI_PRM_QPC_TS_FORMAT] = {"ts_format", ORI_PRM_QPC, BITS(0x08, 7, 6)},
	[ORI_PRM_QPC_RLKY] = {"rlky", ORI_PRM_QPC, BITS(0x08, 4, 4)},
	[ORI_PRM_QPC_COUNTER_SET_ID] = {"counter_set_id", ORI_PRM_QPC, BITS(0x0c, 31, 24)},
	[ORI_PRM_QPC_UAR_PAGE] = {"uar_page", ORI_PRM_QPC, BITS(0x0c, 23, 0)},
	[ORI_PRM_QPC_SEND_DBR_MODE] = {"send_dbr_mode", ORI_PRM_QPC, BITS(0x10, 31, 30)},
	[ORI_PRM_QPC_USER_INDEX] = {"user_index", ORI_PRM_QPC, BITS(0x10, 23, 0)},
	[ORI_PRM_QPC_LOG_PAGE_SIZE] = {"log_page_size", ORI_PRM_QPC, BITS(0x14, 28, 24)},
	[ORI_PRM_QPC_REMOTE_QPN] = {"remote_qpn", ORI_PRM_QPC, BITS(0x14, 23, 0)},
	[ORI_PRM_QPC_PRIMARY_ADDRESS_PATH] = {"primary_address_path", ORI_PRM_QPC,
					      PART(0x18, ORI_PRM_ADS, LENGTH_ADS)},
	[ORI_PRM_QPC_LOG_ACK_REQ_FREQ] = {"log_ack_req_freq", ORI_PRM_QPC, BITS(0x70, 31, 28)},
	[ORI_PRM_QPC_LOG_SRA_MAX] = {"log_sra_max", ORI_PRM_QPC, BITS(0x70, 23, 21)},
	[ORI_PRM_QPC_RETRY_COUNT] = {"retry_count", ORI_PRM_QPC, BITS(0x70, 18, 16)},
	[ORI_PRM_QPC_RNR_RETRY] = {"rnr_retry", ORI_PRM_QPC, BITS(0x70, 15, 13)},
	[ORI_PRM_QPC_NEXT_SEND_PSN] = {"next_send_psn", ORI_PRM_QPC, BITS(0x78, 23, 0)},
	[ORI_PRM_QPC_CQN_SND] = {"cqn_snd", ORI_PRM_QPC, BITS(0x7c, 23, 0)},
	[ORI_PRM_QPC_LOG_RRA_MAX] = {"log_rra_max", ORI_PRM_QPC, BITS(0x90, 23, 21)},
	[ORI_PRM_QPC_ATOMIC_MODE] = {"atomic_mode", ORI_PRM_QPC, BITS(0x90, 19, 16)},
	[ORI_PRM_QPC_RRE] = {"rre", ORI_PRM_QPC, BITS(0x90, 15, 15)},
	[ORI_PRM_QPC_RWE] = {"rwe", ORI_PRM_QPC, BITS(0x90, 14, 14)},
	[ORI_PRM_QPC_RAE] = {"rae", ORI_PRM_QPC, BITS(0x90, 13, 13)},
	[ORI_PRM_QPC_PAGE_OFFSET] = {"page_offset", ORI_PRM_QPC, BITS(0x90, 11, 6)},
	[ORI_PRM_QPC_DP_ORDERING_1] = {"dp_ordering_1", ORI_PRM_QPC, BITS(0x90, 3, 3)},
	[ORI_PRM_QPC_CD_SLAVE_RECEIVE] = {"cd_slave_receive", ORI_PRM_QPC, BITS(0x90, 2, 2)},
	[ORI_PRM_QPC_CD_SLAVE_SEND] = {"cd_slave_send", ORI_PRM_QPC, BITS(0x90, 1, 1)},
	[ORI_PRM_QPC_CD_MASTER] = {"cd_master", ORI_PRM_QPC, BITS(0x90, 0, 0)},
	[ORI_PRM_QPC_MIN_RNR_NAK] = {"min_rnr_nak", ORI_PRM_QPC, BITS(0x94, 28, 24)},
	[ORI_PRM_QPC_NEXT_RCV_PSN] = {"next_rcv_psn", ORI_PRM_QPC, BITS(0x94, 23, 0)},
	[ORI_PRM_QPC_CQN_RCV] = {"cqn_rcv", ORI_PRM_QPC, BITS(0x9c, 23, 0)},
	[ORI_PRM_QPC_DBR_ADDR] = {"dbr_addr", ORI_PRM_QPC, QUAD(0xa0)},
	[ORI_PRM_QPC_RQ_TYPE] = {"rq_type", ORI_PRM_QPC, BITS(0xac, 26, 24)},
	[ORI_PRM_QPC_SRQN] = {"srqn_rmpn_xrqn", ORI_PRM_QPC, BITS(0xac, 23, 0)},
	[ORI_PRM_QPC_HW_SQ_WQEBB_COUNTER] = {"hw_sq_wqebb_counter", ORI_PRM_QPC,
					     BITS(0xb4, 31, 16)},
	[ORI_PRM_QPC_SW_SQ_WQEBB_COUNTER] = {"sw_sq_wqebb_counter", ORI_PRM_QPC, BITS(0xb4, 15, 0)},
	[ORI_PRM_QPC_CS_REQ] = {"cs_req", ORI_PRM_QPC, BITS(0xc4, 15, 8)},
	[ORI_PRM_QPC_CS_RES] = {"cs_res", ORI_PRM_QPC, BITS(0xc4, 7, 0)},
	[ORI_PRM_QPC_DBR_UMEM_VALID] = {"dbr_umem_valid", ORI_PRM_QPC, BITS(0xd0, 28, 28)},
	[ORI_PRM_QPC_DBR_UMEM_ID] = {"dbr_umem_id", ORI_PRM_QPC, WORD(0xe4)},

	/* cmd_hca_cap_bits */
	[ORI_PRM_GENERAL_CAPS_LOG_MAX_QP_SZ] = {"log_max_qp_sz", ORI_PRM_GENERAL_CAPS,
						BITS(0x10, 23, 16)},
	[ORI_PRM_GENERAL_CAPS_LOG_MAX_CQ_SZ] = {"log_max_cq_sz", ORI_PRM_GENERAL_CAPS,
						BITS(0x18, 23, 16)},
	[ORI_PRM_GENERAL_CAPS_CQE_VERSION] = {"cqe_version", ORI_PRM_GENERAL_CAPS,
					      BITS(0x3c, 3, 0)},
	[ORI_PRM_GENERAL_CAPS_CQ_OI] = {"cq_oi", ORI_PRM_GENERAL_CAPS, BITS(0x44, 31, 31)},
	[ORI_PRM_GENERAL_CAPS_CD] = {"cd", ORI_PRM_GENERAL_CAPS, BITS(0x44, 19, 19)},
	[ORI_PRM_GENERAL_CAPS_UAR_4K] = {"uar_4k", ORI_PRM_GENERAL_CAPS, BITS(0x48, 31, 31)},
	[ORI_PRM_GENERAL_CAPS_LOG_BF_REG_SIZE] = {"log_bf_reg_size", ORI_PRM_GENERAL_CAPS,
						  BITS(0x4c, 20, 16)},
	[ORI_PRM_GENERAL_CAPS_LOG_UAR_PAGE_SZ] = {"log_uar_page_sz", ORI_PRM_GENERAL_CAPS,
						  BITS(0x90, 15, 0)},

	/* odp_cap_bits; mem_page_fault by UCX ib_mlx5_ifc.h */
	[ORI_PRM_PAGING_CAPS_MEM_PAGE_FAULT] = {"mem_page_fault", ORI_PRM_PAGING_CAPS,
						BITS(0xc0, 31, 31)},

	/* atomic_caps_bits */
	[ORI_PRM_ATOMIC_CAPS_REQ_8B_ENDIANNESS_MODE] = {"atomic_req_8B_endianness_mode",
							ORI_PRM_ATOMIC_CAPS, BITS(0x08, 31, 30)},
	[ORI_PRM_ATOMIC_CAPS_OPERATIONS] = {"atomic_operations", ORI_PRM_ATOMIC_CAPS,
					    BITS(0x10, 15, 0)},
	[ORI_PRM_ATOMIC_CAPS_SIZE_QP] = {"atomic_size_qp", ORI_PRM_ATOMIC_CAPS, BITS(0x14, 15, 0)},
	[ORI_PRM_ATOMIC_CAPS_SIZE_DC] = {"atomic_size_dc", ORI_PRM_ATOMIC_CAPS, BITS(0x18, 15, 0)},
	[ORI_PRM_ATOMIC_CAPS_FETCH_ADD_PCI] = {"fetch_add_pci_atomic", ORI_PRM_ATOMIC_CAPS,
					       BITS(0x50, 31, 16)},
	[ORI_PRM_ATOMIC_CAPS_SWAP_PCI] = {"swap_pci_atomic", ORI_PRM_ATOMIC_CAPS,
					  BITS(0x50, 15, 0)},
	[ORI_PRM_ATOMIC_CAPS_COMPARE_SWAP_PCI] = {"compare_swap_pci_atomic", ORI_PRM_ATOMIC_CAPS,
						  BITS(0x54, 31, 16)},

	/* create_cq_in_bits */
	[ORI_PRM_CREATE_CQ_IN_COMMAND] = {"command", ORI_PRM_CREATE_CQ_IN,
					  PART(0x00, ORI_PRM_COMMAND, LENGTH_HEAD)},
	[ORI_PRM_CREATE_CQ_IN_CQC] = {"cq_context", ORI_PRM_CREATE_CQ_IN,
				      PART(0x10, ORI_PRM_CQC, LENGTH_CQC)},
	[ORI_PRM_CREATE_CQ_IN_CQ_UMEM_OFFSET] = {"cq_umem_offset", ORI_PRM_CREATE_CQ_IN,
						 QUAD(0x50)},
	[ORI_PRM_CREATE_CQ_IN_CQ_UMEM_ID] = {"cq_umem_id", ORI_PRM_CREATE_CQ_IN, WORD(0x58)},
	[ORI_PRM_CREATE_CQ_IN_CQ_UMEM_VALID] = {"cq_umem_valid", ORI_PRM_CREATE_CQ_IN,
						BITS(0x5c, 31, 31)},

	/* create_qp_in_bits */
	[ORI_PRM_CREATE_QP_IN_COMMAND] = {"command", ORI_PRM_CREATE_QP_IN,
					  PART(0x00, ORI_PRM_COMMAND, LENGTH_HEAD)},
	[ORI_PRM_CREATE_QP_IN_OPT_PARAM_MASK] = {"opt_param_mask", ORI_PRM_CREATE_QP_IN,
						 WORD(0x10)},
	[ORI_PRM_CREATE_QP_IN_QPC] = {"qpc", ORI_PRM_CREATE_QP_IN,
				      PART(0x18, ORI_PRM_QPC, LENGTH_QPC)},
	[ORI_PRM_CREATE_QP_IN_WQ_UMEM_OFFSET] = {"wq_umem_offset", ORI_PRM_CREATE_QP_IN,
						 QUAD(0x100)},
	[ORI_PRM_CREATE_QP_IN_WQ_UMEM_ID] = {"wq_umem_id", ORI_PRM_CREATE_QP_IN, WORD(0x108)},
	[ORI_PRM_CREATE_QP_IN_WQ_UMEM_VALID] = {"wq_umem_valid", ORI_PRM_CREATE_QP_IN,
						BITS(0x10c, 31, 31)},

	/* rst2init_qp_in_bits, init2rtr_qp_in_bits and rtr2rts_qp_in_bits are the same. */
	[ORI_PRM_MODIFY_QP_IN_COMMAND] = {"command", ORI_PRM_MODIFY_QP_IN,
					  PART(0x00, ORI_PRM_COMMAND, LENGTH_HEAD)},
	[ORI_PRM_MODIFY_QP_IN_OPT_PARAM_MASK] = {"opt_param_mask", ORI_PRM_MODIFY_QP_IN,
						 WORD(0x10)},
	[ORI_PRM_MODIFY_QP_IN_QPC] = {"qpc", ORI_PRM_MODIFY_QP_IN,
				      PART(0x18, ORI_PRM_QPC, LENGTH_QPC)},

	/* query_cq_out_bits */
	[ORI_PRM_QUERY_CQ_OUT_REPLY] = {"reply", ORI_PRM_QUERY_CQ_OUT,
					PART(0x00, ORI_PRM_REPLY, LENGTH_HEAD)},
	[ORI_PRM_QUERY_CQ_OUT_CQC] = {"cq_context", ORI_PRM_QUERY_CQ_OUT,
				      PART(0x10, ORI_PRM_CQC, LENGTH_CQC)},

	/* query_qp_out_bits */
	[ORI_PRM_QUERY_QP_OUT_REPLY] = {"reply", ORI_PRM_QUERY_QP_OUT,
					PART(0x00, ORI_PRM_REPLY, LENGTH_HEAD)},
	[ORI_PRM_QUERY_QP_OUT_OPT_PARAM_MASK] = {"opt_param_mask", ORI_PRM_QUERY_QP_OUT,
						 WORD(0x10)},
	[ORI_PRM_QUERY_QP_OUT_QPC] = {"qpc", ORI_PRM_QUERY_QP_OUT,
				      PART(0x18, ORI_PRM_QPC, LENGTH_QPC)},

	/* query_hca_cap_out_bits, capability type 0 */
	[ORI_PRM_QUERY_GENERAL_OUT_REPLY] = {"reply", ORI_PRM_QUERY_GENERAL_OUT,
					     PART(0x00, ORI_PRM_REPLY, LENGTH_HEAD)},
	[ORI_PRM_QUERY_GENERAL_OUT_CAPS] = {"capability", ORI_PRM_QUERY_GENERAL_OUT,
					    PART(0x10, ORI_PRM_GENERAL_CAPS, LENGTH_CAPS)},

	/* query_hca_cap_out_bits, capability type 2 */
	[ORI_PRM_QUERY_PAGING_OUT_REPLY] = {"reply", ORI_PRM_QUERY_PAGING_OUT,
					    PART(0x00, ORI_PRM_REPLY, LENGTH_HEAD)},
	[ORI_PRM_QUERY_PAGING_OUT_CAPS] = {"capability", ORI_PRM_QUERY_PAGING_OUT,
					   PART(0x10, ORI_PRM_PAGING_CAPS, LENGTH_CAPS)},

	/* query_hca_cap_out_bits, capability type 3 */
	[ORI_PRM_QUERY_ATOMIC_OUT_REPLY] = {"reply", ORI_PRM_QUERY_ATOMIC_OUT,
					    PART(0x00, ORI_PRM_REPLY, LENGTH_HEAD)},
	[ORI_PRM_QUERY_ATOMIC_OUT_CAPS] = {"capability", ORI_PRM_QUERY_ATOMIC_OUT,
					   PART(0x10, ORI_PRM_ATOMIC_CAPS, LENGTH_CAPS)},
};

const struct ori_prm_row *ori_prm_field_row(enum ori_prm_field field)
{
	assert(field < ORI_PRM_FIELDS);
	return &rows[field];
}

const char *ori_prm_layout_name(enum ori_prm_layout layout)
{
	assert(layout < ORI_PRM_LAYOUTS);
	return layouts[layout].name;
}

size_t ori_prm_layout_length(enum ori_prm_layout layout)
{
	assert(layout < ORI_PRM_LAYOUTS);
	return layouts[layout].length;
}

static uint32_t word_load(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void word_store(uint8_t *p, uint32_t word)
{
	p[0] = (uint8_t)(word >> 24);
	p[1] = (uint8_t)(word >> 16);
	p[2] = (uint8_t)(word >> 8);
	p[3] = (uint8_t)word;
}

/* A field of up to 32 bits lies in one word. */
static uint8_t *row_word(const struct ori_prm_row *row, struct ori_prm_view view)
{
	return view.bytes + row->bit / 32 * 4;
}

static unsigned row_shift(const struct ori_prm_row *row)
{
	return 32 - row->bit % 32 - row->width;
}

static uint32_t row_mask(const struct ori_prm_row *row)
{
	return UINT32_MAX >> (32 - row->width);
}

static enum oriel_status row_check(const struct ori_prm_row *row, struct ori_prm_view view,
				   bool is_quad)
{
	if (row->layout != view.layout)
		return ori_fail(ORIEL_ERR_INVALID, "PRM: %s.%s is no field of %s",
				ori_prm_layout_name(row->layout), row->name,
				ori_prm_layout_name(view.layout));
	if (row->inner != ORI_PRM_NO_LAYOUT)
		return ori_fail(ORIEL_ERR_INVALID, "PRM: %s.%s is a structure, not a number",
				ori_prm_layout_name(row->layout), row->name);
	if (is_quad != (row->width == 64))
		return ori_fail(ORIEL_ERR_INVALID, "PRM: %s.%s has %u bits, the access %s",
				ori_prm_layout_name(row->layout), row->name, row->width,
				is_quad ? "64" : "up to 32");
	return ORIEL_OK;
}

enum oriel_status ori_prm_set(struct ori_prm_view view, enum ori_prm_field field, uint32_t value)
{
	const struct ori_prm_row *row = ori_prm_field_row(field);
	enum oriel_status status = row_check(row, view, false);
	uint8_t *word;

	if (status != ORIEL_OK)
		return status;
	if (value > row_mask(row))
		return ori_fail(ORIEL_ERR_RANGE, "PRM: 0x%x does not fit the %u bits of %s.%s",
				(unsigned)value, row->width, ori_prm_layout_name(row->layout),
				row->name);

	word = row_word(row, view);
	word_store(word, (word_load(word) & ~(row_mask(row) << row_shift(row))) |
				 value << row_shift(row));
	return ORIEL_OK;
}

enum oriel_status ori_prm_get(struct ori_prm_view view, enum ori_prm_field field, uint32_t *value)
{
	const struct ori_prm_row *row = ori_prm_field_row(field);
	enum oriel_status status = row_check(row, view, false);

	if (status == ORIEL_OK)
		*value = word_load(row_word(row, view)) >> row_shift(row) & row_mask(row);
	return status;
}

enum oriel_status ori_prm_set64(struct ori_prm_view view, enum ori_prm_field field, uint64_t value)
{
	const struct ori_prm_row *row = ori_prm_field_row(field);
	enum oriel_status status = row_check(row, view, true);

	if (status != ORIEL_OK)
		return status;
	word_store(row_word(row, view), (uint32_t)(value >> 32));
	word_store(row_word(row, view) + 4, (uint32_t)value);
	return ORIEL_OK;
}

enum oriel_status ori_prm_get64(struct ori_prm_view view, enum ori_prm_field field, uint64_t *value)
{
	const struct ori_prm_row *row = ori_prm_field_row(field);
	enum oriel_status status = row_check(row, view, true);

	if (status == ORIEL_OK)
		*value = (uint64_t)word_load(row_word(row, view)) << 32 |
			 word_load(row_word(row, view) + 4);
	return status;
}

enum oriel_status ori_prm_inner(struct ori_prm_view view, enum ori_prm_field field,
				struct ori_prm_view *inner)
{
	const struct ori_prm_row *row = ori_prm_field_row(field);

	if (row->layout != view.layout || row->inner == ORI_PRM_NO_LAYOUT)
		return ori_fail(ORIEL_ERR_INVALID, "PRM: %s.%s is no structure inside %s",
				ori_prm_layout_name(row->layout), row->name,
				ori_prm_layout_name(view.layout));
	inner->layout = row->inner;
	inner->bytes = view.bytes + row->bit / 8;
	return ORIEL_OK;
}
