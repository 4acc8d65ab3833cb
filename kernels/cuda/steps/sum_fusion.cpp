#include "kernels/cuda/steps/sum_fusion.h"

#include <algorithm>

#include "kernels/cuda/steps/neighbours.h"

namespace ringside::cuda {
namespace {

bool IsSum(const StepOp& op) {
  const bool scaled = op.kind == OpKind::kRowOp && op.row_op.kind == RowOpKind::kAddScaledRows;
  return (scaled || op.kind == OpKind::kAdd) && op.y.dtype == DType::kF32;
}

/// Whether memory from the first to the last element of each has a common part. Columns of one matrix count as such.
bool SharesMemory(const Tensor& a, const Tensor& b) {
  const auto begin = [](const Tensor& x) { return static_cast<const std::byte*>(x.data); };
  const auto end = [&](const Tensor& x) { return begin(x) + StorageBytes(x.dtype, (x.rows - 1) * x.stride + x.cols); };
  return begin(a) < end(b) && begin(b) < end(a);
}

/// Columns of matrices with the same rows are apart if their distance in a row is.
bool AreApart(const Tensor& a, const Tensor& b) {
  if (!SharesMemory(a, b)) return true;
  if (a.dtype != b.dtype || a.stride != b.stride) return false;
  const int64_t row = StorageBytes(a.dtype, a.stride),
                distance = (static_cast<const std::byte*>(b.data) - static_cast<const std::byte*>(a.data)) % row,
                after = distance < 0 ? distance + row : distance;
  return after >= StorageBytes(a.dtype, a.cols) && row - after >= StorageBytes(b.dtype, b.cols);
}

/// Whether a sum of `y` and `term` and another, both of which read and write, give the same result in either order.
bool AreIndependent(const Tensor& y, const SumTerm& term, const RowSums::Sum& other) {
  const auto reads = [](const SumTerm& of, const Tensor& written) {
    return !AreApart(of.x, written) || (of.factors.data != nullptr && !AreApart(of.factors, written));
  };
  const auto terms = std::span(other.terms).first(static_cast<size_t>(other.count));
  return !reads(term, other.y) && std::ranges::none_of(terms, [&](const SumTerm& one) { return reads(one, y); });
}

}  // namespace

size_t CollectSums(std::span<const StepOp> ops, RowSums* sums) {
  *sums = {};
  size_t count = 0;
  for (const StepOp& op : ops) {
    if (!IsSum(op) || op.y.rows != ops.front().y.rows || op.y.cols != ops.front().y.cols) break;
    const SumTerm term{op.x, op.kind == OpKind::kRowOp ? op.row_op.row_factors : Tensor{}};
    const std::span<RowSums::Sum> all = std::span(sums->sums).first(static_cast<size_t>(sums->count));
    const auto independent = [&](const RowSums::Sum& sum) { return AreIndependent(op.y, term, sum); };
    if (!AreApart(op.y, op.x) || !std::ranges::all_of(all, independent)) break;
    auto sum = std::ranges::find_if(all, [&](const RowSums::Sum& one) { return SameMatrix(one.y, op.y); });
    if (sum == all.end()) {
      const bool apart = std::ranges::all_of(all, [&](const RowSums::Sum& one) { return AreApart(one.y, op.y); });
      if (!apart || sums->count == RowSums::kMaxSums) break;
      sums->sums[sums->count++].y = op.y;
    } else if (sum->count == RowSums::kMaxTerms) {
      break;
    }
    RowSums::Sum& into = sums->sums[sum - all.begin()];
    into.terms[into.count++] = term;
    ++count;
  }
  return count;
}

}  // namespace ringside::cuda
