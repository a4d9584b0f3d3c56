/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of calls: their names, the fields of their steps, and what they do to objects. */
#include "p2p_calls/p2p_calls_script.h"

#define CTX CALL_HAS_OBJECT(CALL_CTX)
#define P2P CALL_HAS_OBJECT(CALL_P2P)
#define MEMORY CALL_HAS_OBJECT(CALL_MEMORY)
#define GROUP CALL_HAS_OBJECT(CALL_GROUP)
#define CHANNEL CALL_HAS_VALUE(CALL_CHANNEL)
#define LENGTH CALL_HAS_VALUE(CALL_LENGTH)
#define TIMEOUT CALL_HAS_VALUE(CALL_TIMEOUT)
#define PEER CALL_HAS_VALUE(CALL_PEER)
#define CHUNK (CALL_HAS_VALUE(CALL_SLOT) | CALL_HAS_VALUE(CALL_ROUND))
#define REQUEST CALL_HAS_REQUEST
#define ADDRESS CALL_HAS_ADDRESS
#define DATA CALL_HAS_DATA
#define STATUS CALL_HAS_STATUS

#define CONTROL (P2P | CALL_HAS_VALUE(CALL_TAG) | LENGTH | ADDRESS | REQUEST | STATUS)
#define TRANSFER (P2P | CHANNEL | ADDRESS | LENGTH | MEMORY | REQUEST | STATUS)
#define REPORT (REQUEST | DATA | LENGTH | STATUS)

static const struct call_kind kinds[] = {
	[ORIEL_P2P_CALL_CONTEXT_CREATE] = {"oriel_p2p_context_create",
					   CTX | CALL_HAS_CONTEXT_ATTR | STATUS, CALL_CREATES,
					   CALL_CTX},
	[ORIEL_P2P_CALL_CONTEXT_DESTROY] = {"oriel_p2p_context_destroy", CTX, CALL_DESTROYS,
					    CALL_CTX},
	[ORIEL_P2P_CALL_COPY_GROUP_CREATE] = {"oriel_p2p_copy_group_create",
					      CTX | GROUP | CALL_HAS_GROUP_ATTR | STATUS,
					      CALL_CREATES, CALL_GROUP},
	[ORIEL_P2P_CALL_COPY_GROUP_DEVICE] = {"oriel_p2p_copy_group_device",
					      GROUP | CALL_HAS_DEVICE | STATUS, CALL_ONLY_ANSWERS,
					      CALL_GROUP},
	[ORIEL_P2P_CALL_COPY_GROUP_DESTROY] = {"oriel_p2p_copy_group_destroy", GROUP, CALL_DESTROYS,
					       CALL_GROUP},
	[ORIEL_P2P_CALL_CREATE] = {"oriel_p2p_create", CTX | P2P | CALL_HAS_ATTR | STATUS,
				   CALL_CREATES, CALL_P2P},
	[ORIEL_P2P_CALL_DESTROY] = {"oriel_p2p_destroy", P2P, CALL_DESTROYS, CALL_P2P},
	[ORIEL_P2P_CALL_ADDRESS] = {"oriel_p2p_address", P2P | DATA | STATUS, CALL_ONLY_ANSWERS,
				    CALL_P2P},
	[ORIEL_P2P_CALL_CONNECT] = {"oriel_p2p_connect", P2P | DATA | LENGTH | TIMEOUT | STATUS,
				    CALL_ONLY_ANSWERS, CALL_P2P},
	[ORIEL_P2P_CALL_CHECK] = {"oriel_p2p_check", P2P | STATUS, CALL_ONLY_ANSWERS, CALL_P2P},
	[ORIEL_P2P_CALL_DESCRIBE] = {"oriel_p2p_describe", P2P | CALL_HAS_INFO | STATUS,
				     CALL_ONLY_ANSWERS, CALL_P2P},
	[ORIEL_P2P_CALL_SEND_CONTROL] = {"oriel_p2p_send_control", CONTROL | DATA, CALL_BEGINS,
					 CALL_P2P},
	[ORIEL_P2P_CALL_RECV_CONTROL] = {"oriel_p2p_recv_control", CONTROL, CALL_BEGINS, CALL_P2P},
	[ORIEL_P2P_CALL_REGISTER] = {"oriel_p2p_register",
				     CTX | MEMORY | ADDRESS | LENGTH | CALL_HAS_VALUE(CALL_FLAGS) |
					     STATUS,
				     CALL_CREATES, CALL_MEMORY},
	[ORIEL_P2P_CALL_MEMORY_CHECK] = {"oriel_p2p_memory_check", MEMORY | STATUS,
					 CALL_ONLY_ANSWERS, CALL_MEMORY},
	[ORIEL_P2P_CALL_UNREGISTER] = {"oriel_p2p_unregister", MEMORY, CALL_DESTROYS, CALL_MEMORY},
	[ORIEL_P2P_CALL_SEND] = {"oriel_p2p_send", TRANSFER | DATA, CALL_BEGINS, CALL_P2P},
	[ORIEL_P2P_CALL_RECV] = {"oriel_p2p_recv", TRANSFER, CALL_BEGINS, CALL_P2P},
	[ORIEL_P2P_CALL_SEND_CHUNK] = {"oriel_p2p_send_chunk", TRANSFER | CHUNK | DATA, CALL_BEGINS,
				       CALL_P2P},
	[ORIEL_P2P_CALL_RECV_CHUNK] = {"oriel_p2p_recv_chunk", TRANSFER | CHUNK, CALL_BEGINS,
				       CALL_P2P},
	[ORIEL_P2P_CALL_EXPORT] = {"oriel_p2p_export",
				   P2P | ADDRESS | LENGTH | MEMORY | DATA | STATUS,
				   CALL_ONLY_ANSWERS, CALL_P2P},
	[ORIEL_P2P_CALL_IMPORT] = {"oriel_p2p_import",
				   P2P | DATA | LENGTH | CALL_HAS_REMOTE | STATUS,
				   CALL_ONLY_ANSWERS, CALL_P2P},
	[ORIEL_P2P_CALL_PUT] = {"oriel_p2p_put",
				TRANSFER | DATA | CALL_HAS_REMOTE | CALL_HAS_VALUE(CALL_OFFSET),
				CALL_BEGINS, CALL_P2P},
	[ORIEL_P2P_CALL_EXPECT] = {"oriel_p2p_expect", P2P | CHANNEL | REQUEST | STATUS,
				   CALL_BEGINS, CALL_P2P},
	[ORIEL_P2P_CALL_CANCEL] = {"oriel_p2p_cancel", P2P | REQUEST | STATUS, CALL_CANCELS,
				   CALL_P2P},
	[ORIEL_P2P_CALL_PROGRESS] = {"oriel_p2p_progress", P2P | STATUS, CALL_ONLY_ANSWERS,
				     CALL_P2P},
	[ORIEL_P2P_CALL_TEST] = {"oriel_p2p_test", P2P | REPORT, CALL_ASKS, CALL_P2P},
	[ORIEL_P2P_CALL_WAIT] = {"oriel_p2p_wait", P2P | REPORT | TIMEOUT, CALL_ASKS, CALL_P2P},
	[ORIEL_P2P_CALL_DRAIN] = {"oriel_p2p_drain", P2P | TIMEOUT | STATUS, CALL_ONLY_ANSWERS,
				  CALL_P2P},
	[ORIEL_P2P_CALL_COMM] = {"oriel_comm_p2p", P2P | PEER | ADDRESS | CALL_HAS_ATTR | STATUS,
				 CALL_FINDS, CALL_P2P},
	[ORIEL_P2P_CALL_COMM_CONTEXT] = {"oriel_comm_p2p_context", CTX | ADDRESS | STATUS,
					 CALL_FINDS, CALL_CTX},
	[ORIEL_P2P_CALL_REQUEST_DONE] = {"the end of a request", REPORT, CALL_ONLY_ANSWERS,
					 CALL_P2P},
};

const struct call_kind *ori_p2p_call_kind(enum oriel_p2p_call_kind kind)
{
	if (kind < 1 || kind >= sizeof(kinds) / sizeof(kinds[0]))
		return NULL;
	return &kinds[kind];
}
