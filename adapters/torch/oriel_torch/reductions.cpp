// SPDX-License-Identifier: Apache-2.0
// Reductions of the backend, and gather and scatter: see backend.hpp. oriel/reduce.h defines the
// bits of a result, which do not depend on timing.
#include "backend.hpp"

#include <cmath>
#include <cstring>

namespace oriel_torch {

// A reduction as the library takes it, and the factor that it may point to.
struct Reduction {
	struct oriel_reduction attr = {};
	union {
		float f;
		double d;
		int64_t i;
	} factor = {};

	Reduction(at::ScalarType type, const c10d::ReduceOp &op, const char *what);
	// An operation is copied into the function that executes it.
	const struct oriel_reduction *get()
	{
		if (attr.op == ORIEL_OP_PREMUL_SUM)
			attr.factor = &factor;
		return &attr;
	}
};

static enum oriel_type type_of(at::ScalarType type)
{
	switch (type) {
	case at::kBool: // as 0 and 1: see op_of()
	case at::kByte:
		return ORIEL_TYPE_UINT8;
	case at::kChar:
		return ORIEL_TYPE_INT8;
	case at::kShort:
		return ORIEL_TYPE_INT16;
	case at::kInt:
		return ORIEL_TYPE_INT32;
	case at::kLong:
		return ORIEL_TYPE_INT64;
	case at::kUInt16:
		return ORIEL_TYPE_UINT16;
	case at::kUInt32:
		return ORIEL_TYPE_UINT32;
	case at::kUInt64:
		return ORIEL_TYPE_UINT64;
	case at::kHalf:
		return ORIEL_TYPE_FP16;
	case at::kBFloat16:
		return ORIEL_TYPE_BF16;
	case at::kFloat:
		return ORIEL_TYPE_FP32;
	case at::kDouble:
		return ORIEL_TYPE_FP64;
	case at::kFloat8_e4m3fn:
		return ORIEL_TYPE_FP8_E4M3;
	case at::kFloat8_e5m2:
		return ORIEL_TYPE_FP8_E5M2;
	default:
		return ORIEL_TYPE_NONE;
	}
}

static enum oriel_op op_of(const c10d::ReduceOp &op, bool is_bool)
{
	switch (op.op_) {
	case c10d::ReduceOp::SUM: // of truth values: any of them
		return is_bool ? ORIEL_OP_MAX : ORIEL_OP_SUM;
	case c10d::ReduceOp::AVG:
		return ORIEL_OP_AVG;
	case c10d::ReduceOp::PRODUCT:
		return is_bool ? ORIEL_OP_MIN : ORIEL_OP_PROD;
	case c10d::ReduceOp::MIN:
		return ORIEL_OP_MIN;
	case c10d::ReduceOp::MAX:
		return ORIEL_OP_MAX;
	case c10d::ReduceOp::BAND:
		return ORIEL_OP_BAND;
	case c10d::ReduceOp::BOR:
		return ORIEL_OP_BOR;
	case c10d::ReduceOp::BXOR:
		return ORIEL_OP_BXOR;
	case c10d::ReduceOp::PREMUL_SUM:
		return ORIEL_OP_PREMUL_SUM;
	default:
		return ORIEL_OP_NONE;
	}
}

static int64_t whole(double factor, const char *what, at::ScalarType type)
{
	TORCH_CHECK(factor == std::trunc(factor) && std::abs(factor) < 0x1p63, what, ": PREMUL_SUM of ", type,
		    ": the factor ", factor, " is no whole number of 64 bits");
	return (int64_t)factor;
}

Reduction::Reduction(at::ScalarType type, const c10d::ReduceOp &op, const char *what)
{
	enum oriel_type accumulation;

	attr.size = sizeof(attr);
	attr.type = type_of(type);
	attr.op = op_of(op, type == at::kBool);
	accumulation = oriel_type_accumulation((enum oriel_type)attr.type, (enum oriel_op)attr.op);
	TORCH_CHECK(accumulation != ORIEL_TYPE_NONE && !(type == at::kBool && op.op_ == c10d::ReduceOp::AVG),
		    what, ": backend oriel has no ", oriel_op_name((enum oriel_op)attr.op), " of ", type);
	if (attr.op != ORIEL_OP_PREMUL_SUM)
		return;
	auto *supplement = dynamic_cast<PreMulSum *>(op.supplement_.get());
	TORCH_CHECK(supplement, what, ": PREMUL_SUM without a factor");
	const at::Tensor &given = supplement->tensor_factor;

	if (accumulation != ORIEL_TYPE_FP32 && accumulation != ORIEL_TYPE_FP64) {
		// The low bytes of a factor of fewer bits are the same.
		factor.i = given.defined() && at::isIntegralType(given.scalar_type(), true)
				   ? given.item<int64_t>()
				   : whole(given.defined() ? given.item<double>() : supplement->double_factor, what, type);
		return;
	}
	double value = given.defined() ? given.item<double>() : supplement->double_factor;

	if (accumulation == ORIEL_TYPE_FP32)
		factor.f = (float)value;
	else
		factor.d = value;
}

// Complex numbers are pairs of real ones where the operation allows that.
static at::Tensor real(const at::Tensor &tensor, const c10d::ReduceOp &op, const char *what)
{
	if (!tensor.is_complex())
		return tensor;
	TORCH_CHECK(c10d::isComplexViewAsRealAllowed(op), what, ": this operation is not for complex numbers");
	return at::view_as_real(tensor);
}

static void reduce_in_place(Collectives &plans, const at::Tensor &tensor, Reduction reduction)
{
	at::Tensor flat = tensor.contiguous();

	plans.reduce_all(flat.data_ptr(), flat.numel(), reduction.get());
	if (!flat.is_alias_of(tensor))
		at::Tensor(tensor).copy_(flat);
}

OrielBackend::WorkPtr OrielBackend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
	if (tensors.size() == 1 && tensors[0].layout() != at::kStrided)
		return allreduce_sparse_sum(tensors[0], opts);
	at::Tensor tensor = real(only(tensors, "all_reduce"), opts.reduceOp, "all_reduce");
	Reduction reduction(tensor.scalar_type(), opts.reduceOp, "all_reduce");

	return submit(c10d::OpType::ALLREDUCE, "oriel:all_reduce", tensors, {tensors}, opts.timeout,
		      opts.asyncOp,
		      [tensor, reduction](Collectives &plans) { reduce_in_place(plans, tensor, reduction); });
}

OrielBackend::WorkPtr OrielBackend::allreduce_coalesced(Tensors &tensors,
							const c10d::AllreduceCoalescedOptions &opts)
{
	std::vector<std::pair<at::Tensor, Reduction>> each;

	for (const at::Tensor &tensor : tensors) {
		check_tensor(tensor, "all_reduce_coalesced");
		at::Tensor as_real = real(tensor, opts.reduceOp, "all_reduce_coalesced");
		each.emplace_back(as_real, Reduction(as_real.scalar_type(), opts.reduceOp, "all_reduce_coalesced"));
	}
	return submit(c10d::OpType::ALLREDUCE_COALESCED, "oriel:all_reduce", tensors, {tensors}, opts.timeout,
		      opts.asyncOp, [each](Collectives &plans) {
			      for (const auto &[tensor, reduction] : each)
				      reduce_in_place(plans, tensor, reduction);
		      });
}

OrielBackend::WorkPtr OrielBackend::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
	at::Tensor tensor = real(only(tensors, "reduce"), opts.reduceOp, "reduce");
	Reduction reduction(tensor.scalar_type(), opts.reduceOp, "reduce");
	auto root = (unsigned)opts.rootRank;

	check_root(opts.rootRank, "reduce");
	return submit(c10d::OpType::REDUCE, "oriel:reduce", tensors, {tensors}, opts.timeout, opts.asyncOp,
		      [this, tensor, root, reduction](Collectives &plans) mutable {
			      at::Tensor flat = tensor.contiguous();

			      plans.reduce(root, flat.data_ptr(), flat.numel(), reduction.get());
			      if (!flat.is_alias_of(tensor) && (int)root == rank_)
				      at::Tensor(tensor).copy_(flat);
		      });
}

static void scatter_reduced(Collectives &plans, const at::Tensor &from, const at::Tensor &output,
			    const struct oriel_reduction *reduction)
{
	at::Tensor input = from.contiguous(), to = output.contiguous();

	plans.reduce_scatter(input.data_ptr(), to.data_ptr(), to.numel(), reduction);
	if (!to.is_alias_of(output))
		at::Tensor(output).copy_(to);
}

OrielBackend::WorkPtr OrielBackend::reduce_scatter(Tensors &outputs, Lists &inputs,
						   const c10d::ReduceScatterOptions &opts)
{
	at::Tensor output = real(only(outputs, "reduce_scatter"), opts.reduceOp, "reduce_scatter");
	Reduction reduction(output.scalar_type(), opts.reduceOp, "reduce_scatter");
	Tensors parts;

	TORCH_CHECK(inputs.size() == 1 && inputs[0].size() == (size_t)size_, "reduce_scatter takes one list of ",
		    size_, " inputs");
	for (const at::Tensor &input : inputs[0]) {
		check_tensor(input, "reduce_scatter");
		TORCH_CHECK(input.scalar_type() == outputs[0].scalar_type() &&
				    input.numel() == outputs[0].numel(),
			    "reduce_scatter: an input is ", input.scalar_type(), input.sizes(), ", the output ",
			    outputs[0].scalar_type(), outputs[0].sizes());
		parts.push_back(real(input, opts.reduceOp, "reduce_scatter").reshape(-1));
	}
	return submit(c10d::OpType::REDUCE_SCATTER, "oriel:reduce_scatter", inputs[0], {outputs}, opts.timeout,
		      opts.asyncOp, [parts, output, reduction](Collectives &plans) mutable {
			      scatter_reduced(plans, at::cat(parts), output, reduction.get());
		      });
}

static std::pair<at::Tensor, at::Tensor> check_scatter(const at::Tensor &output, const at::Tensor &input,
							int size, const c10d::ReduceOp &op)
{
	check_tensor(input, "reduce_scatter_tensor");
	check_tensor(output, "reduce_scatter_tensor");
	TORCH_CHECK(input.scalar_type() == output.scalar_type() && input.numel() == output.numel() * size,
		    "reduce_scatter_tensor: the input is ", input.scalar_type(), input.sizes(), ", the output ",
		    output.scalar_type(), output.sizes(), " for ", size, " ranks");
	return {real(output, op, "reduce_scatter_tensor"), real(input, op, "reduce_scatter_tensor")};
}

OrielBackend::WorkPtr OrielBackend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
							 const c10d::ReduceScatterOptions &opts)
{
	auto [to, from] = check_scatter(output, input, size_, opts.reduceOp);
	Reduction reduction(to.scalar_type(), opts.reduceOp, "reduce_scatter_tensor");

	return submit(c10d::OpType::_REDUCE_SCATTER_BASE, "oriel:_reduce_scatter_base", {input}, {{output}},
		      opts.timeout, opts.asyncOp, [to = to, from = from, reduction](Collectives &plans) mutable {
			      scatter_reduced(plans, from, to, reduction.get());
		      });
}

OrielBackend::WorkPtr
OrielBackend::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
					      const c10d::ReduceScatterOptions &opts)
{
	std::vector<std::tuple<at::Tensor, at::Tensor, Reduction>> each;

	TORCH_CHECK(outputs.size() == inputs.size(), "reduce_scatter_tensor_coalesced: ", outputs.size(),
		    " outputs for ", inputs.size(), " inputs");
	for (size_t i = 0; i < inputs.size(); i++) {
		auto [to, from] = check_scatter(outputs[i], inputs[i], size_, opts.reduceOp);
		each.emplace_back(to, from, Reduction(to.scalar_type(), opts.reduceOp, "reduce_scatter_tensor"));
	}
	return submit(REDUCE_SCATTERS_COALESCED, "oriel:reduce_scatter_tensor_coalesced",
		      inputs, {outputs}, opts.timeout, opts.asyncOp, [each](Collectives &plans) mutable {
			      for (auto &[to, from, reduction] : each)
				      scatter_reduced(plans, from, to, reduction.get());
		      });
}

OrielBackend::WorkPtr OrielBackend::gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &opts)
{
	at::Tensor input = only(inputs, "gather");
	auto root = (int)opts.rootRank;
	Tensors list;

	check_root(root, "gather");
	if (rank_ == root) {
		TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == (size_t)size_,
			    "gather: the root takes one list of ", size_, " outputs");
		list = outputs[0];
		check_gather(list, input, size_);
	} else {
		TORCH_CHECK(outputs.empty(), "gather: only rank ", root, ", the root, takes outputs");
	}
	return submit(c10d::OpType::GATHER, "oriel:gather", inputs, outputs, opts.timeout, opts.asyncOp,
		      [input, list, root](Collectives &plans) { gather_root(plans, input, list, root); });
}

OrielBackend::WorkPtr OrielBackend::scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &opts)
{
	at::Tensor output = only(outputs, "scatter");
	auto root = (int)opts.rootRank;
	Tensors list;

	check_root(root, "scatter");
	if (rank_ == root) {
		TORCH_CHECK(inputs.size() == 1, "scatter: the root takes one list of inputs");
		list = inputs[0];
		check_gather(list, output, size_);
	} else {
		TORCH_CHECK(inputs.empty(), "scatter: only rank ", root, ", the root, takes inputs");
	}
	return submit(c10d::OpType::SCATTER, "oriel:scatter", list, {outputs}, opts.timeout, opts.asyncOp,
		      [output, list, root](Collectives &plans) {
			      Tensors from;
			      at::Tensor to = output.contiguous();

			      plans.scatter(root, parts_of(list, from), to.data_ptr(), to.nbytes());
			      if (!to.is_alias_of(output))
				      at::Tensor(output).copy_(to);
		      });
}

} // namespace oriel_torch
