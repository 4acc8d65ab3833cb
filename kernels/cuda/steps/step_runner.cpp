#include "kernels/cuda/steps/step_runner.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/linear/w8_layout.h"
#include "kernels/cuda/steps/linear_request.h"
#include "kernels/cuda/steps/neighbours.h"
#include "kernels/cuda/steps/sum_fusion.h"

namespace ringside::cuda {
namespace {

constexpr size_t kScratchAlignment = 256;

GemmArgs ToGemmArgs(const StepOp& op, DType dtype) {
  GemmArgs out;
  int64_t total = 0;
  for (int i = 0; i < StepOp::kMaxWeights; ++i) {
    out.weights[i] = op.weights[i];
    out.scales[i] = op.scales[i];
    out.outputs[i] = static_cast<int>(op.outputs[i]);
    total += op.outputs[i];
  }
  out.total = static_cast<int>(total);
  out.k = static_cast<int>(op.x.cols);
  out.dtype = dtype;
  out.weight_dtype = op.weight_dtype;
  out.x = op.x;
  out.bias = op.bias;
  out.y = op.y;
  out.accumulate = op.accumulate;
  return out;
}

void FuseNorm(const StepOp& norm, GemmArgs* args) {
  args->norm = true;
  args->layer_norm = norm.layer_norm;
  args->normed_from = norm.x;
  args->norm_weight = norm.norm_weight;
  args->norm_bias = norm.bias;
  args->norm_eps = norm.eps;
}

/// Outputs of the run of adjacent matrices from the i-th on, which form one matrix if their scales are adjacent too.
int64_t OutputsOfRun(const StepOp& op, int i, int64_t row_bytes) {
  const auto* first = static_cast<const std::byte*>(op.weights[i]);
  const float* scales = op.scales[i];
  int64_t outputs = op.outputs[i];
  while (++i < StepOp::kMaxWeights && op.outputs[i] > 0 && op.weights[i] == first + outputs * row_bytes &&
         (scales == nullptr || op.scales[i] == scales + outputs)) {
    outputs += op.outputs[i];
  }
  return outputs;
}

/// Whether the second norm covers the heads that follow the first one's in the same rows, with the same size.
bool FollowsInRow(const StepOp& first, const StepOp& second) {
  const Tensor &x = first.x, &next = second.x;
  return second.kind == OpKind::kNormHeads && next.dtype == x.dtype && next.rows == x.rows && next.stride == x.stride &&
         next.data == static_cast<const std::byte*>(x.data) + StorageBytes(x.dtype, x.cols) &&
         x.cols / first.heads == next.cols / second.heads && second.eps == first.eps;
}

/// The gate of the first operation's result, if it follows directly; or null.
const StepOp* GateOf(std::span<const StepOp> ops) {
  const bool gates = ops.size() > 1 && ops[1].kind == OpKind::kRowOp && ops[1].row_op.kind == RowOpKind::kGate;
  return gates && SameMatrix(ops[0].y, ops[1].y) ? &ops[1] : nullptr;
}

/// Whether rows can be accessed four elements at a time.
bool AllowsFour(const Tensor& x) {
  return x.cols % 4 == 0 && x.stride % 4 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

/// The rest of `memory` after `bytes` bytes, aligned.
std::span<std::byte> RestAfter(std::span<std::byte> memory, size_t bytes) {
  return memory.subspan(
      std::min((bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment, memory.size()));
}

}  // namespace

Status StepRunner::Start(const Launcher& on, DType dtype, void* workspace, size_t workspace_bytes, void* scratch,
                         size_t scratch_bytes) {
  on_ = on, overlaps_ = on.overlap, dtype_ = dtype, scratch_ = scratch;
  // The first half of the scratch memory holds converted inputs and dequantized weight panels, the second half results
  // of timing trials.
  scratch_bytes_ = scratch_bytes / 2;
  return product_.Start(on.stream, workspace, workspace_bytes, static_cast<std::byte*>(scratch) + scratch_bytes_,
                        scratch_bytes - scratch_bytes_, true);
}

void StepRunner::Run(std::span<const StepOp> ops) {
  // With a fixed order nothing is fused: a fused operation might round elsewhere.
  while (!ops.empty()) {
    const bool ends_in_nccl = ops.front().kind == OpKind::kSend && stages_->by_nccl();
    ops = ops.subspan(RunFirst(fixed_order_ ? ops.first(1) : ops));
    on_.overlap = overlaps_ && !ends_in_nccl;
  }
}

size_t StepRunner::RunFirst(std::span<const StepOp> ops) {
  const StepOp& op = ops.front();
  if (op.x.rows == 0 && op.kind != OpKind::kEmbed && op.kind != OpKind::kGatherRows) return 1;
  switch (op.kind) {
    case OpKind::kEmbed:
      if (op.y.rows > 0) {
        LaunchEmbed(on_, op.weights[0], op.weight_dtype, op.scales[0], op.indices, op.sampled_ids, op.scale, op.y,
                    op.accumulate);
      }
      return 1;
    case OpKind::kNorm:
      if (const size_t ops_run = RunMlpAndExperts(ops); ops_run > 0) return ops_run;
      if (const StepOp* next = ConsumerOf(ops); next != nullptr && next->kind == OpKind::kLinear && !IsInPlace(op)) {
        if (const LinearPlan plan = Plan(ops, 1); plan.norm) return RunLinear(ops, 1, plan);
      }
      if (const size_t ops_run = RunWithE4M3Output(ops); ops_run > 0) return ops_run;
      LaunchNorm(on_, op.x, op.norm_weight, op.bias, op.layer_norm, op.eps, op.y);
      return 1;
    case OpKind::kNormHeads:
      return NormHeads(ops);
    case OpKind::kLinear:
      return RunLinear(ops, 0, Plan(ops, 0));
    case OpKind::kLinearHeads:
      RunLinearHeads(op);
      return 1;
    case OpKind::kLowRank:
      LaunchLowRank(on_, op.low_rank, op.weight_dtype, op.x, op.y);
      return 1;
    case OpKind::kAttention:
      return RunAttention(ops);
    case OpKind::kRecur:
      RunRecurrence(op.recurrence);
      return 1;
    case OpKind::kMultiplyActivated:
      if (const size_t ops_run = RunWithE4M3Output(ops); ops_run > 0) return ops_run;
      LaunchMultiplyActivated(on_, op.x, op.activation, op.y);
      return 1;
    case OpKind::kActivate:
      LaunchActivate(on_, op.x, op.activation);
      return 1;
    case OpKind::kExperts:
      RunExperts(op);
      return 1;
    case OpKind::kRowOp:
    case OpKind::kAdd:
      return RunRowOp(ops);
    case OpKind::kSoftCap:
      LaunchSoftCap(on_, op.x, op.scale);
      return 1;
    case OpKind::kGatherRows:
      if (op.y.rows > 0) LaunchGatherRows(on_, op.x, op.indices, op.y);
      return 1;
    case OpKind::kPermuteColumns:
      LaunchPermuteColumns(on_, op.x, op.indices, op.y);
      return 1;
    case OpKind::kSampleTokens:
      LaunchSampleTokens(on_, op.x, op.row_params, op.sampled, op.sampled_ids);
      return 1;
    case OpKind::kAllReduce:
      return RunAllReduce(ops);
    case OpKind::kNormOfRanks:
      CHECK_LE(static_cast<size_t>(op.x.rows * exchange_->ranks()) * sizeof(float), scratch().size());
      exchange_->RmsNorm(on_, op.x, {op.all_columns, op.counts, op.norm_weight, op.eps}, static_cast<float*>(scratch_));
      return 1;
    case OpKind::kAllGatherColumns:
      exchange_->AllGatherColumns(on_, op.borders, op.x);
      return 1;
    case OpKind::kSampleGreedy:
      exchange_->SampleGreedy(on_, op.x, op.first_token, op.sampled, op.sampled_ids);
      return 1;
    case OpKind::kSend:
      stages_->Send(on_, op.x);
      return 1;
    case OpKind::kReceive:
      stages_->Receive(on_, op.x);
      return 1;
  }
  return 1;
}

size_t StepRunner::RunAllReduce(std::span<const StepOp> ops) {
  const StepOp& op = ops.front();
  const StepOp* norm = op.accumulate ? ConsumerOf(ops) : nullptr;
  if (norm != nullptr && (norm->kind != OpKind::kNorm || IsInPlace(*norm))) norm = nullptr;
  const StepOp* linear = norm != nullptr ? ConsumerOf(ops.subspan(1)) : nullptr;
  // If the layer after the norm runs in E4M3, the norm kernel quantizes its rows, so it is not fused with the
  // all-reduce.
  if (norm != nullptr && (linear == nullptr || !RunsInE4M3(*linear)) &&
      exchange_->AllReduceAddNorm(on_, op.x, op.y,
                                  {norm->norm_weight, norm->bias, norm->layer_norm, norm->eps, norm->y})) {
    return 2;
  }
  exchange_->AllReduce(on_, op.x, op.y, op.accumulate);
  return 1;
}

size_t StepRunner::RunRowOp(std::span<const StepOp> ops) {
  const StepOp& op = ops.front();
  RowSums sums;
  if (const size_t count = CollectSums(ops, &sums); count > 1) {
    LaunchRowSums(on_, sums);
    return count;
  }
  op.kind == OpKind::kAdd ? LaunchAdd(on_, op.x, op.y) : LaunchRowOp(on_, op.x, op.y, op.row_op);
  return 1;
}

size_t StepRunner::NormHeads(std::span<const StepOp> ops) {
  const StepOp& op = ops.front();
  Tensor x = op.x;
  HeadsNorm next;
  const bool two = ops.size() > 1 && FollowsInRow(op, ops[1]);
  if (two) x.cols += ops[1].x.cols, next = {ops[1].heads, ops[1].norm_weight};
  HeadsGate gate;
  if (const StepOp* after = GateOf(ops); after != nullptr && after->x.cols == x.cols) {
    gate = {after->x, after->row_op.gate};
  }
  LaunchNormHeads(on_, x, {op.heads, op.norm_weight}, next, gate, op.eps);
  return two || gate.values.data != nullptr ? 2 : 1;
}

LinearPlan StepRunner::Plan(std::span<const StepOp> ops, size_t linear) const {
  return PlanOf(RequestOf(ops, linear, {dtype_, fixed_order_, scratch_bytes_}));
}

LinearPlan StepRunner::PlanOf(const LinearRequest& request) const {
  const Result<LinearPlan> plan = PlanLinear(on_, request);
  CHECK(plan.ok());
  return *plan;
}

size_t StepRunner::RunLinear(std::span<const StepOp> ops, size_t linear, const LinearPlan& plan) {
  const StepOp& op = ops[linear];
  if (plan.kernel == LinearKernel::kQuantizeRows) {
    const QuantizedRows rows = E4M3Workspace(op);
    LaunchQuantizeRows(on_, op.x, rows);
    MultiplyE4M3(op, rows);
    return AddBias(ops);
  }
  if (plan.kernel == LinearKernel::kCublas || plan.kernel == LinearKernel::kReference) return Multiply(ops, plan);
  const auto args_of = [&](const StepOp& layer) {
    GemmArgs args = ToGemmArgs(layer, dtype_);
    if (plan.norm) FuseNorm(ops.front(), &args);
    return args;
  };
  GemmArgs args = args_of(op);
  const size_t ops_run = linear + 1;
  if (plan.partner) {
    LaunchTwoLinear(on_, args, args_of(ops[ops_run]), plan);
    return ops_run + 1;
  }
  args.epilogue = plan.epilogue;
  if (plan.epilogue == LinearEpilogue::kSiluMultiply) args.product = ops[ops_run].y;
  LaunchLinear(on_, args, plan);
  return plan.epilogue == LinearEpilogue::kNothing ? ops_run : ops_run + 1;
}

size_t StepRunner::RunWithE4M3Output(std::span<const StepOp> ops) {
  const StepOp& op = ops.front();
  const StepOp* linear = ConsumerOf(ops);
  if (linear == nullptr || !RunsInE4M3(*linear)) return 0;
  const QuantizedRows rows = E4M3Workspace(*linear);
  if (op.kind == OpKind::kNorm) {
    if (IsInPlace(op)) return 0;
    if (!CanQuantizeNorm(op.x, op.norm_weight, op.bias, op.y)) return 0;
    LaunchNormQuantize(on_, op.x, op.norm_weight, op.bias, op.layer_norm, op.eps, op.y, rows);
  } else {
    if (op.activation != Activation::kSilu || !CanQuantizeSilu(op.x, op.y)) return 0;
    LaunchSiluQuantize(on_, op.x, op.y, rows);
  }
  MultiplyE4M3(*linear, rows);
  return 1 + AddBias(ops.subspan(1));
}

bool StepRunner::RunsInE4M3(const StepOp& op) const {
  return op.kind == OpKind::kLinear && Plan({&op, 1}, 0).kernel == LinearKernel::kQuantizeRows;
}

QuantizedRows StepRunner::E4M3Workspace(const StepOp& op) const {
  const int64_t row_bytes = W8RowBytes(op.x.cols);
  std::byte* rows = RestAfter(scratch(), static_cast<size_t>(op.x.rows) * sizeof(float)).data();
  return {{DType::kF8E4M3, rows, op.x.rows, row_bytes, row_bytes}, static_cast<float*>(scratch_)};
}

void StepRunner::MultiplyE4M3(const StepOp& op, const QuantizedRows& x) {
  const auto* end_of_rows = static_cast<std::byte*>(x.q.data) + x.q.rows * x.q.stride;
  const std::span<std::byte> rest = RestAfter(scratch(), static_cast<size_t>(end_of_rows - scratch().data()));
  int64_t column = 0;
  for (int i = 0; i < StepOp::kMaxWeights && op.outputs[i] > 0;) {
    const int64_t outputs = OutputsOfRun(op, i, x.q.stride), end = column + outputs;
    StepOp run{.kind = op.kind, .x = op.x, .y = op.y.Columns(column, outputs), .weight_dtype = op.weight_dtype};
    run.accumulate = op.accumulate;
    for (int j = 0; column < end; ++i, ++j) {
      run.weights[j] = op.weights[i], run.scales[j] = op.scales[i], run.outputs[j] = op.outputs[i];
      column += op.outputs[i];
    }
    StepOp quantized = run;
    quantized.x = x.q;
    if (const LinearPlan plan = Plan({&quantized, 1}, 0); plan.kernel == LinearKernel::kFp8Gemm) {
      LaunchFp8Gemm(on_, run.weights[0], run.scales[0], x, run.y, run.accumulate, plan.tile);
      continue;
    }
    if (product_.MultiplyE4M3(run.weights[0], run.scales[0], x.q, x.scales, run.y, run.accumulate)) continue;
    MultiplyDequantized(run, op.x, rest);
  }
}

size_t StepRunner::Multiply(std::span<const StepOp> ops, const LinearPlan& plan) {
  const StepOp& op = ops.front();
  Tensor x = op.x;
  std::span<std::byte> memory = scratch();
  if (x.dtype != dtype_) {
    const Tensor converted{dtype_, scratch_, x.rows, x.cols, (x.cols + 7) / 8 * 8};
    const auto bytes = static_cast<size_t>(StorageBytes(dtype_, converted.rows * converted.stride));
    CHECK_LE(bytes, memory.size());
    memory = RestAfter(memory, bytes);
    LaunchConvert(on_, x, converted);
    x = converted;
  }
  if (op.weight_dtype != dtype_) {
    MultiplyDequantized(op, x, memory);
  } else if (plan.bias && MultiplyWithBias(op, x, plan)) {
    return plan.epilogue == LinearEpilogue::kNothing ? 1 : 2;
  } else {
    MultiplyRuns(op, x, plan);
  }
  return AddBias(ops);
}

size_t StepRunner::AddBias(std::span<const StepOp> ops) {
  const StepOp& op = ops.front();
  const StepOp* next = ConsumerOf(ops);
  if (op.bias == nullptr) return 1;
  if (next != nullptr && IsGelu(*next)) {
    LaunchActivate(on_, op.y, next->activation, op.bias);
    return 2;
  }
  if (next != nullptr && next->kind == OpKind::kNorm && !IsInPlace(*next)) {
    LaunchNorm(on_, next->x, next->norm_weight, next->bias, next->layer_norm, next->eps, next->y, op.bias);
    return 2;
  }
  LaunchAddBias(on_, op.bias, op.y);
  return 1;
}

bool StepRunner::MultiplyWithBias(const StepOp& op, Tensor x, const LinearPlan& plan) {
  const void* bias = op.y.dtype == DType::kF32 ? op.bias : op.rounded_bias;
  return product_.MultiplyWithBias(op.weights[0], x, bias, plan.epilogue == LinearEpilogue::kGeluTanh, op.y,
                                   op.accumulate);
}

void StepRunner::MultiplyRuns(const StepOp& op, Tensor x, const LinearPlan& plan) {
  int64_t column = 0;
  for (int i = 0; i < StepOp::kMaxWeights && op.outputs[i] > 0;) {
    const int64_t end = column + OutputsOfRun(op, i, StorageBytes(dtype_, x.cols));
    const void* first = op.weights[i];
    const Tensor y = op.y.Columns(column, end - column);
    while (column < end) column += op.outputs[i++];
    MultiplyOne(op, x, first, y, plan);
  }
}

void StepRunner::MultiplyDequantized(const StepOp& op, Tensor x, std::span<std::byte> memory) {
  const int64_t row_bytes = StorageBytes(dtype_, x.cols);
  const auto max_rows = static_cast<int64_t>(memory.size()) / row_bytes;
  const int64_t rows =
      DequantizedPanelOutputs(on_, {.rows = x.rows, .k = x.cols, .outputs = {op.y.cols}, .dtype = dtype_}, max_rows);
  for (int64_t begin = 0; begin < op.y.cols; begin += rows) {
    const int64_t end = std::min(begin + rows, op.y.cols);
    Tensor panel{dtype_, memory.data(), end - begin, x.cols, x.cols};
    int64_t first = 0;  // first output of this weight
    for (int i = 0; i < StepOp::kMaxWeights && first < end; first += op.outputs[i++]) {
      const int64_t from = std::max(begin, first), to = std::min(end, first + op.outputs[i]);
      if (from >= to) continue;
      LaunchDequantizeRows(on_, op.weights[i], op.weight_dtype, op.scales[i], from - first,
                           panel.Rows(from - begin, to - from));
    }
    StepOp dense{.kind = OpKind::kLinear,
                 .x = x,
                 .y = op.y.Columns(begin, panel.rows),
                 .weight_dtype = dtype_,
                 .accumulate = op.accumulate};
    dense.weights[0] = panel.data, dense.outputs[0] = panel.rows;
    LinearRequest request = RequestOf({&dense, 1}, 0, {dtype_, fixed_order_, scratch_bytes_});
    request.layer.panel = true;
    MultiplyOne(dense, x, panel.data, dense.y, PlanOf(request));
  }
}

void StepRunner::MultiplyOne(const StepOp& op, Tensor x, const void* weight, Tensor y, const LinearPlan& plan) {
  if (plan.kernel == LinearKernel::kReference) {
    return LaunchReferenceGemm(on_, weight, dtype_, y.cols, x, y, op.accumulate);
  }
  if (plan.kernel == LinearKernel::kCublas) return product_.Multiply(weight, x, y, op.accumulate);
  LaunchLinear(on_, ToGemmArgs(op, dtype_), plan);
}

void StepRunner::RunLinearHeads(const StepOp& op) {
  const int64_t rows = op.outputs[0], outputs = rows / op.heads, k = (op.x.cols - op.y.cols) / op.heads + outputs;
  std::span<std::byte> memory = scratch();
  const auto reserve = [&](int64_t elements) {
    void* at = memory.data();
    const auto bytes = static_cast<size_t>(StorageBytes(dtype_, elements));
    CHECK_LE(bytes, memory.size());
    memory = RestAfter(memory, bytes);
    return at;
  };
  Tensor x = op.x;
  if (x.dtype != dtype_) {
    x = {dtype_, reserve(x.rows * x.cols), x.rows, x.cols, x.cols};
    LaunchConvert(on_, op.x, x);
  }
  const void* weight = op.weights[0];
  const bool made = op.weight_dtype != dtype_;
  if (made) {
    const Tensor dense{dtype_, reserve(rows * k), rows, k, k};
    LaunchDequantizeRows(on_, weight, op.weight_dtype, op.scales[0], 0, dense);
    weight = dense.data;
  }
  LaunchLinearHeads(on_, weight, made, op.heads, outputs, x, op.y);
}

size_t StepRunner::RunAttention(std::span<const StepOp> ops) {
  AttentionPlan plan = ops.front().attention;
  if (plan.stores == 0 && plan.queries_only == 0) LaunchStoreRows(on_, plan);
  if (plan.heads == 0) return 1;
  plan.partial = static_cast<float*>(scratch_);
  if (plan.wide_queries > 0) {
    LaunchWideAttention(on_, plan, static_cast<int64_t>(scratch_bytes_));
    return 1;
  }
  if (!HasTiledAttention(plan)) {
    LaunchReferenceAttention(on_, plan);
    return 1;
  }
  PrefixPlan prefixes = ops.front().prefixes;
  if (prefixes.count > 0) {
    const int64_t floats = PartialFloats(plan);
    CHECK_LE(static_cast<size_t>(floats + PartialFloats(plan, prefixes)) * sizeof(float), scratch_bytes_);
    prefixes.partial = plan.partial + floats;
    LaunchPrefixAttention(on_, plan, prefixes);
  }
  if (plan.chunk_count > 0 && plan.wgmma_queries > 0) LaunchWgmmaAttention(on_, plan);
  const StepOp* gate = GateOf(ops);
  if (gate != nullptr && plan.chunk_count == 0) {
    const auto columns = static_cast<int32_t>(plan.out.cols / gate->x.cols);
    if (columns == 1 ? AllowsFour(gate->x) : columns % 4 == 0) {
      plan.gate = gate->x, plan.gate_kind = gate->row_op.gate, plan.gate_columns = columns;
    }
  }
  LaunchTiledAttention(on_, plan);
  if (prefixes.count > 0) LaunchMergePrefixes(on_, plan, prefixes);
  return plan.gate.data != nullptr ? 2 : 1;
}

void StepRunner::RunRecurrence(const RecurrencePlan& plan) {
  // For more sequences two kernels are faster, with equal bits: on an H200 68 us against 87 at 32 (Qwen3.6-27B).
  constexpr int kMostSingleRows = 8;
  const bool single = plan.part_rows == 1 && plan.part_count <= kMostSingleRows && plan.run_count == 0;
  if (plan.has_state != 0 && single) return LaunchSingleRows(on_, plan);
  LaunchConvolveRows(on_, plan);
  if (plan.has_state != 0) {
    if (plan.part_count > 0) LaunchUpdateState(on_, plan);
    RunChunks(plan);
  }
  if (plan.late != 0) LaunchStoreTail(on_, plan);
}

void StepRunner::RunChunks(RecurrencePlan plan) {
  const auto most = static_cast<int>(std::min<size_t>(scratch_bytes_ / ChunkImageBytes(plan), INT32_MAX));
  CHECK_GT(most, 0);
  const int runs = plan.run_count;
  for (int first = 0; first < runs; first += most, plan.runs += most) {
    plan.run_count = std::min(most, runs - first);
    ChunkRange chunks{.first = 0, .count = std::min(most / plan.run_count, plan.run_chunks)};
    for (; chunks.first < plan.run_chunks; chunks.first += chunks.count) {
      const auto weigh = plan.channel_decays != 0 ? LaunchChannelWeights : LaunchHeadWeights;
      weigh(on_, plan, chunks, scratch_);
      LaunchChunkStates(on_, plan, chunks, scratch_);
    }
  }
}

size_t StepRunner::RunMlpAndExperts(std::span<const StepOp> ops) {
  const std::optional<PackedExpert> mlp = MlpAmongExperts(ops);
  if (!mlp) return 0;
  const StepOp& experts = ops[kMlpAmongExperts - 1];
  ExpertsPlan plan = experts.experts;
  plan.dense = 1;
  if (!SelectExperts(on_, plan, experts.x.cols, 1).one_row) return 0;
  const StepOp router[] = {ops[0], ops[kMlpAmongExperts - 2]};
  for (std::span<const StepOp> rest = router; !rest.empty();) rest = rest.subspan(RunFirst(rest));
  RunExperts(experts, &*mlp);
  return kMlpAmongExperts;
}

void StepRunner::RunExperts(const StepOp& op, const PackedExpert* dense) {
  ExpertsPlan plan = op.experts;
  plan.dense = dense != nullptr ? 1 : 0;
  const auto pair_bytes = 3 * sizeof(float) + sizeof(ExpertRows) / kIntegerExpertRows +
                          static_cast<size_t>(StorageBytes(dtype_, plan.widest())) +
                          static_cast<size_t>(StorageBytes(DType::kF32, op.x.cols));
  const size_t row_bytes = pair_bytes * static_cast<size_t>(plan.experts_per_row + plan.dense),
               fixed_bytes = static_cast<size_t>(plan.router.cols) * sizeof(ExpertRows) + 6 * 256;
  CHECK_LE(fixed_bytes + row_bytes, scratch_bytes_);
  const auto max_rows = static_cast<int64_t>((scratch_bytes_ - fixed_bytes) / row_bytes);
  for (int64_t first = 0; first < op.x.rows; first += max_rows) {
    const int64_t rows = std::min(max_rows, op.x.rows - first);
    const ExpertsSelection selection = SelectExperts(on_, plan, op.x.cols, rows);
    const ExpertsPath path = selection.path;
    ExpertsCall call{.plan = plan,
                     .path = path,
                     .activation = op.activation,
                     .x = op.x.Rows(first, rows),
                     .y = op.y.Rows(first, rows),
                     .group_count = static_cast<int32_t>(ExpertsCall::GroupCount(plan, path, rows))};
    call.plan.router = plan.router.Rows(first, rows);
    if (dense != nullptr) call.dense = *dense;
    auto* next = static_cast<std::byte*>(scratch_);
    const auto assign = [&](auto*& pointer, int64_t bytes) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(next);
      next += (bytes + 255) / 256 * 256;
    };
    const int64_t pairs = call.pairs();
    assign(call.ids, pairs * static_cast<int64_t>(sizeof(int32_t)));
    assign(call.weights, pairs * static_cast<int64_t>(sizeof(float)));
    assign(call.order, pairs * static_cast<int64_t>(sizeof(int32_t)));
    assign(call.groups, call.group_count * static_cast<int64_t>(sizeof(ExpertRows)));
    assign(call.parts, StorageBytes(DType::kF32, pairs * op.x.cols));
    call.mid = next;
    if (selection.one_row) {
      LaunchRowExperts(on_, call, selection);
      continue;
    }
    LaunchRouteExperts(on_, call);
    if (selection.tiled) {
      LaunchTiledExperts(on_, call, selection);
    } else {
      path == ExpertsPath::kMany ? LaunchManyExperts(on_, call) : LaunchFewExperts(on_, call);
    }
    LaunchSumParts(on_, call);
  }
}

}  // namespace ringside::cuda
