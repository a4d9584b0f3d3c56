// SPDX-License-Identifier: Apache-2.0
// In what versions of torch differ, from 2.11 on; windows and reconfigure() have macros of c10d itself.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/headeronly/version.h>

namespace oriel_torch {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11
using PreMulSum = c10d::NCCLPreMulSumSupplement;
constexpr auto GATHERS_COALESCED = c10d::OpType::COALESCED;
constexpr auto REDUCE_SCATTERS_COALESCED = c10d::OpType::COALESCED;
#define ORIEL_OVERRIDE_NEW // it has nothing to override
#else
using PreMulSum = c10d::PreMulSumSupplement;
constexpr auto GATHERS_COALESCED = c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED;
constexpr auto REDUCE_SCATTERS_COALESCED = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#define ORIEL_OVERRIDE_NEW override
#endif

} // namespace oriel_torch
