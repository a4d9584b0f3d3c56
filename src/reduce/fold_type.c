/* SPDX-License-Identifier: Apache-2.0 */
/* The names, sizes and accumulation types of oriel/reduce.h. Called by users and collectives. */
#include "reduce/fold.h"

#include <assert.h>

/* The accumulation type depends on these. */
enum type_class { CLASS_NONE, CLASS_SIGNED, CLASS_UNSIGNED, CLASS_FLOAT };

static const struct {
	const char *name;
	unsigned char size;
	unsigned char class;
	unsigned char sum; /* enum oriel_type that its values are added in */
} types[] = {
	[ORIEL_TYPE_NONE] = {"none", 0, CLASS_NONE, ORIEL_TYPE_NONE},
	[ORIEL_TYPE_INT8] = {"int8", 1, CLASS_SIGNED, ORIEL_TYPE_INT8},
	[ORIEL_TYPE_INT16] = {"int16", 2, CLASS_SIGNED, ORIEL_TYPE_INT16},
	[ORIEL_TYPE_INT32] = {"int32", 4, CLASS_SIGNED, ORIEL_TYPE_INT32},
	[ORIEL_TYPE_INT64] = {"int64", 8, CLASS_SIGNED, ORIEL_TYPE_INT64},
	[ORIEL_TYPE_UINT8] = {"uint8", 1, CLASS_UNSIGNED, ORIEL_TYPE_UINT8},
	[ORIEL_TYPE_UINT16] = {"uint16", 2, CLASS_UNSIGNED, ORIEL_TYPE_UINT16},
	[ORIEL_TYPE_UINT32] = {"uint32", 4, CLASS_UNSIGNED, ORIEL_TYPE_UINT32},
	[ORIEL_TYPE_UINT64] = {"uint64", 8, CLASS_UNSIGNED, ORIEL_TYPE_UINT64},
	[ORIEL_TYPE_FP16] = {"fp16", 2, CLASS_FLOAT, ORIEL_TYPE_FP32},
	[ORIEL_TYPE_BF16] = {"bf16", 2, CLASS_FLOAT, ORIEL_TYPE_FP32},
	[ORIEL_TYPE_FP32] = {"fp32", 4, CLASS_FLOAT, ORIEL_TYPE_FP32},
	[ORIEL_TYPE_FP64] = {"fp64", 8, CLASS_FLOAT, ORIEL_TYPE_FP64},
	[ORIEL_TYPE_FP8_E4M3] = {"fp8_e4m3", 1, CLASS_FLOAT, ORIEL_TYPE_FP32},
	[ORIEL_TYPE_FP8_E5M2] = {"fp8_e5m2", 1, CLASS_FLOAT, ORIEL_TYPE_FP32},
};

static_assert(sizeof(types) / sizeof(types[0]) == ORI_TYPES,
	      "the last type that has a name is the last one");

const char *oriel_type_name(enum oriel_type type)
{
	return (unsigned)type < ORI_TYPES ? types[type].name : "unknown";
}

size_t oriel_type_size(enum oriel_type type)
{
	return (unsigned)type < ORI_TYPES ? types[type].size : 0;
}

const char *oriel_op_name(enum oriel_op op)
{
	static const char *const names[] = {
		[ORIEL_OP_NONE] = "none", [ORIEL_OP_SUM] = "sum",
		[ORIEL_OP_PROD] = "prod", [ORIEL_OP_MIN] = "min",
		[ORIEL_OP_MAX] = "max",   [ORIEL_OP_AVG] = "avg",
		[ORIEL_OP_BAND] = "band", [ORIEL_OP_BOR] = "bor",
		[ORIEL_OP_BXOR] = "bxor", [ORIEL_OP_PREMUL_SUM] = "premul_sum",
		[ORIEL_OP_USER] = "user",
	};

	static_assert(sizeof(names) / sizeof(names[0]) == ORI_OPS,
		      "the last operation that has a name is the last one");
	return (unsigned)op < ORI_OPS ? names[op] : "unknown";
}

enum oriel_type oriel_type_accumulation(enum oriel_type type, enum oriel_op op)
{
	if (!oriel_type_size(type) || op == ORIEL_OP_NONE || (unsigned)op >= ORI_OPS)
		return ORIEL_TYPE_NONE;
	if (op == ORIEL_OP_USER)
		return type;
	if (op >= ORIEL_OP_BAND && op <= ORIEL_OP_BXOR && types[type].class == CLASS_FLOAT)
		return ORIEL_TYPE_NONE;
	if (op == ORIEL_OP_AVG && types[type].class == CLASS_SIGNED)
		return ORIEL_TYPE_INT64;
	if (op == ORIEL_OP_AVG && types[type].class == CLASS_UNSIGNED)
		return ORIEL_TYPE_UINT64;
	return (enum oriel_type)types[type].sum;
}
