#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/cpu/instruction_sets.h"
#include "kernels/cpu/panels.h"
#include "kernels/deferred_token.h"
#include "kernels/formats/file_formats.h"
#include "kernels/slab_chunks.h"

namespace ringside {
namespace cpu {
namespace {

void CheckFloat(const Tensor& x) {
  CHECK(x.dtype == DType::kF32);
  CHECK(x.rows == 0 || x.data != nullptr);
  CHECK(x.rows <= 1 || x.stride >= x.cols);
}

}  // namespace

CpuBackend::~CpuBackend() {
  if (activations_ != nullptr) memory_.Free(activations_, activation_bytes_);
  if (partials_ != nullptr) memory_.Free(partials_, partial_bytes_);
}

void* CpuBackend::Scratch(size_t bytes, void** data, size_t* capacity) {
  if (bytes <= *capacity) return *data;
  if (*data != nullptr) memory_.Free(*data, *capacity);
  *capacity = std::max(bytes, 2 * *capacity);
  *data = memory_.Allocate(*capacity);
  CHECK(*data != nullptr);
  return *data;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

Result<Buffer> CpuBackend::Allocate(size_t bytes) {
  void* data = memory_.Allocate(bytes);
  if (data == nullptr) return Overloaded("no memory for " + std::to_string(bytes) + " bytes");
  return Buffer(this, data, bytes);
}
void CpuBackend::Free(void* data, size_t bytes) { memory_.Free(data, bytes); }

Result<Buffer> CpuBackend::Reserve(size_t bytes) {
  void* data = memory_.Reserve(bytes);
  if (data == nullptr) return Overloaded("no addresses for " + std::to_string(bytes) + " bytes");
  return Buffer(this, data, bytes);
}

Status CpuBackend::Commit(void* data, size_t bytes) {
  if (memory_.Commit(data, bytes)) return Status::Ok();
  return Overloaded("no memory for " + std::to_string(bytes) + " bytes");
}

Status CpuBackend::Share(void* to, const void* from, size_t bytes) {
  if (memory_.Share(to, from, bytes)) return Status::Ok();
  return Overloaded("no memory to share " + std::to_string(bytes) + " bytes");
}

void CpuBackend::CopyToDevice(void* device, const void* host, size_t bytes) { CopyOnDevice(device, host, bytes); }
void CpuBackend::CopyOnDevice(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);  // both pointers may be null if there are no bytes
}
void CpuBackend::CopyToHost(void* host, const void* device, size_t bytes) { CopyOnDevice(host, device, bytes); }

CopyTicket CpuBackend::SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) {
  for (const SlabRun& run : runs) {
    ForEachChunk(shape, run, [&](int64_t offset, std::byte* host, size_t bytes) {
      std::memcpy(host, static_cast<const std::byte*>(slab) + offset, bytes);
    });
  }
  return 0;
}

CopyTicket CpuBackend::LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) {
  for (const SlabRun& run : runs) {
    ForEachChunk(shape, run, [&](int64_t offset, const std::byte* host, size_t bytes) {
      std::memcpy(static_cast<std::byte*>(slab) + offset, host, bytes);
    });
  }
  return 0;
}

std::string CpuBackend::Describe() const {
  return std::string(kernels_.name) + ", " + std::to_string(pool_.threads()) +
         (pool_.threads() == 1 ? " thread" : " threads");
}

Result<Weight> CpuBackend::LoadWeight(const HostTensor& host) {
  RETURN_IF_ERROR(CheckWeight(host));
  const int64_t panels = (host.rows + kLanes - 1) / kLanes;
  const DType dtype = Traits(host.dtype).form;
  const size_t bytes = static_cast<size_t>(panels * PanelBytes(dtype, host.cols));
  void* data = memory_.AllocateWeight(bytes);
  if (data == nullptr) return Overloaded("no memory for a weight of " + std::to_string(bytes) + " bytes");
  const int64_t step = std::max<int64_t>(1, panels / (8 * pool_.threads()));
  Weight weight{dtype, host.rows, host.cols, Buffer(this, data, bytes)};
  std::atomic<bool> finite = true;
  pool_.Run((panels + step - 1) / step, [&](int64_t i) {
    if (!PackPanels(host, i * step, std::min(panels, (i + 1) * step), static_cast<uint8_t*>(data))) finite = false;
  });
  if (!finite) return Corruption("a weight contains a non-finite value");
  if (!host.order.empty()) {
    ASSIGN_OR_RETURN(weight.order, Allocate(host.order.size_bytes()));
    std::memcpy(weight.order.data(), host.order.data(), host.order.size_bytes());
  }
  return weight;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

void CpuBackend::Embed(const Weight& table, std::span<const int32_t> ids, float scale, Tensor y) {
  CheckFloat(y);
  CHECK_EQ(y.rows, static_cast<int64_t>(ids.size()));
  CHECK_EQ(y.cols, table.cols);
  for (const int32_t id : ids) CHECK(IsDeferredToken(id) ? DeferredTokenIndex(id) < last_ids_.size() : id < table.rows);
  EachRow(y.rows, y.cols, [&](int64_t r) {
    const int32_t id = ids[static_cast<size_t>(r)];
    UnpackRow(table.dtype, static_cast<const uint8_t*>(table.data.data()), table.cols,
              IsDeferredToken(id) ? last_ids_[DeferredTokenIndex(id)] : id, false, y.f32_row(r));
    for (int64_t c = 0; scale != 1 && c < y.cols; ++c) y.f32_row(r)[c] *= scale;
  });
}

void CpuBackend::AddPositions(const Weight& table, std::span<const int64_t> positions, Tensor y) {
  CheckFloat(y);
  CHECK_EQ(y.rows, static_cast<int64_t>(positions.size()));
  CHECK_EQ(y.cols, table.cols);
  for (const int64_t p : positions) CHECK(p >= 0 && p < table.rows);
  EachRow(y.rows, y.cols, [&](int64_t r) {
    UnpackRow(table.dtype, static_cast<const uint8_t*>(table.data.data()), table.cols,
              positions[static_cast<size_t>(r)], true, y.f32_row(r));
  });
}

void CpuBackend::RmsNorm(Tensor x, const float* weight, float eps, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, y.cols);
  EachRow(x.rows, x.cols, [&](int64_t r) { kernels_.rms_norm(x.f32_row(r), weight, eps, x.cols, y.f32_row(r)); });
}

void CpuBackend::RmsNormHeads(Tensor x, int64_t heads, const float* weight, float eps) {
  CheckFloat(x);
  CHECK(heads > 0 && x.cols % heads == 0);
  const int64_t d = x.cols / heads;
  EachRow(x.rows, x.cols, [&](int64_t r) {
    for (int64_t h = 0; h < heads; ++h) {
      float* head = x.f32_row(r) + h * d;
      kernels_.rms_norm(head, weight, eps, d, head);
    }
  });
}

void CpuBackend::LayerNorm(Tensor x, const float* weight, const float* bias, float eps, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, y.cols);
  EachRow(x.rows, x.cols,
          [&](int64_t r) { kernels_.layer_norm(x.f32_row(r), weight, bias, eps, x.cols, y.f32_row(r)); });
}

void CpuBackend::MultiplyActivated(Tensor x, Activation activation, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, 2 * y.cols);
  EachRow(x.rows, 4 * y.cols, [&](int64_t r) {
    kernels_.multiply_activated(x.f32_row(r), x.f32_row(r) + y.cols, activation, y.cols, y.f32_row(r));
  });
}

void CpuBackend::Activate(Tensor x, Activation activation) {
  CheckFloat(x);
  CHECK(activation != Activation::kClampedSilu && activation != Activation::kXielu);
  EachRow(x.rows, 4 * x.cols, [&](int64_t r) { kernels_.activate(x.f32_row(r), x.cols, activation); });
}

void CpuBackend::Xielu(Tensor x, const XieluParameters& parameters) {
  CheckFloat(x);
  const auto [positive, negative, beta, eps] = parameters;
  EachRow(x.rows, 16 * x.cols, [&](int64_t r) {
    for (float& v : std::span(x.f32_row(r), static_cast<size_t>(x.cols))) {
      const float curved = v > 0 ? positive * v * v : negative * (std::expm1(std::min(v, eps)) - v);
      v = curved + beta * v;
    }
  });
}

void CpuBackend::Gate(Tensor gate, GateKind kind, Tensor y) {
  CheckFloat(gate), CheckFloat(y);
  CHECK(gate.rows == y.rows && gate.cols > 0 && y.cols % gate.cols == 0);
  const int64_t each = y.cols / gate.cols;
  EachRow(y.rows, 4 * y.cols, [&](int64_t r) {
    if (each == 1) return kernels_.gate(gate.f32_row(r), kind, y.cols, y.f32_row(r));
    float values[4096];
    CHECK_LE(each, int64_t{4096});
    for (int64_t i = 0; i < gate.cols; ++i) {
      std::fill_n(values, each, gate.f32_row(r)[i]);
      kernels_.gate(values, kind, each, y.f32_row(r) + i * each);
    }
  });
}

void CpuBackend::Scale(Tensor x, float factor) {
  CheckFloat(x);
  EachRow(x.rows, x.cols, [&](int64_t r) {
    for (int64_t c = 0; c < x.cols; ++c) x.f32_row(r)[c] *= factor;
  });
}

void CpuBackend::Add(Tensor x, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK(x.rows == y.rows && x.cols == y.cols);
  EachRow(x.rows, x.cols, [&](int64_t r) {
    for (int64_t c = 0; c < x.cols; ++c) y.f32_row(r)[c] += x.f32_row(r)[c];
  });
}

void CpuBackend::SoftCap(Tensor x, float cap) {
  CheckFloat(x);
  CHECK(cap > 0);
  EachRow(x.rows, 4 * x.cols, [&](int64_t r) { kernels_.soft_cap(x.f32_row(r), x.cols, cap); });
}

void CpuBackend::GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK_EQ(y.rows, static_cast<int64_t>(rows.size()));
  CHECK_EQ(x.cols, y.cols);
  for (const int64_t row : rows) CHECK(row >= 0 && row < x.rows);
  EachRow(y.rows, x.cols, [&](int64_t r) {
    std::memcpy(y.f32_row(r), x.f32_row(rows[static_cast<size_t>(r)]), static_cast<size_t>(x.cols) * sizeof(float));
  });
}

void CpuBackend::SampleTokens(Tensor logits, std::span<const RowSamplingParams> row_params,
                              std::span<SampledToken> sampled) {
  CheckFloat(logits);
  CHECK_EQ(logits.rows, static_cast<int64_t>(row_params.size()));
  CHECK_EQ(row_params.size(), sampled.size());
  choosers_.resize(std::max(choosers_.size(), row_params.size()));
  EachRow(logits.rows, logits.cols, [&](int64_t r) {
    const auto row = static_cast<size_t>(r);
    sampled[row] = choosers_[row].Choose({logits.f32_row(r), static_cast<size_t>(logits.cols)}, row_params[row]);
  });
  for (const SampledToken& token : sampled) sampled_ids_.push_back(token.id);
}

void CpuBackend::Synchronize() {
  if (!sampled_ids_.empty()) last_ids_.swap(sampled_ids_);
  sampled_ids_.clear();
}

// ---- ranks ----------------------------------------------------------------------------------------------------------

void CpuBackend::AllReduceAdd(Tensor x, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK(x.stride == x.cols && x.rows == y.rows && x.cols == y.cols);
  if (comms_.layer) comms_.layer->AllReduceSum(x.f32(), x.rows * x.cols);
  Add(x, y);
}

void CpuBackend::AllReduceInPlace(Tensor x) {
  CheckFloat(x);
  CHECK_EQ(x.stride, x.cols);
  if (comms_.layer) comms_.layer->AllReduceSum(x.f32(), x.rows * x.cols);
}

void CpuBackend::RmsNormOfRanks(Tensor x, int64_t columns, bool counts, const float* weight, float eps) {
  CheckFloat(x);
  own_columns_.resize(static_cast<size_t>(x.rows));  // sums of squares
  EachRow(x.rows, x.cols, [&](int64_t r) {
    double sum = 0;
    for (int64_t c = 0; counts && c < x.cols; ++c) sum += std::pow(static_cast<double>(x.f32_row(r)[c]), 2);
    own_columns_[static_cast<size_t>(r)] = static_cast<float>(sum);
  });
  if (comms_.layer) comms_.layer->AllReduceSum(own_columns_.data(), x.rows);
  EachRow(x.rows, x.cols, [&](int64_t r) {
    const float mean = own_columns_[static_cast<size_t>(r)] / static_cast<float>(columns);
    const float factor = 1.0f / std::sqrt(mean + eps);
    for (int64_t c = 0; c < x.cols; ++c) x.f32_row(r)[c] *= factor * weight[c];
  });
}

void CpuBackend::AllGatherColumns(Tensor x, std::span<const int64_t> borders) {
  CheckFloat(x);
  if (!comms_.layer) return;
  const auto ranks = static_cast<size_t>(comms_.layer->ranks()), rank = static_cast<size_t>(comms_.layer->rank());
  CHECK_EQ(borders.size(), ranks + 1);
  int64_t max_cols = 0;
  for (size_t r = 0; r < ranks; ++r) max_cols = std::max(max_cols, borders[r + 1] - borders[r]);
  const auto block = static_cast<size_t>(x.rows * max_cols);  // values that every rank sends
  own_columns_.resize(block);
  all_columns_.resize(ranks * block);
  for (int64_t row = 0; row < x.rows; ++row) {
    std::copy(x.f32_row(row) + borders[rank], x.f32_row(row) + borders[rank + 1], own_columns_.data() + row * max_cols);
  }
  comms_.layer->AllGather(own_columns_.data(), block * sizeof(float), all_columns_.data());
  for (size_t r = 0; r < ranks; ++r) {
    if (r == rank) continue;
    for (int64_t row = 0; row < x.rows; ++row) {
      const float* from = all_columns_.data() + r * block + static_cast<size_t>(row * max_cols);
      std::copy(from, from + borders[r + 1] - borders[r], x.f32_row(row) + borders[r]);
    }
  }
}

void CpuBackend::SendRows(Tensor x) {
  CheckFloat(x);
  CHECK(x.stride == x.cols && comms_.stages != nullptr);
  comms_.stages->Send(x.data, static_cast<size_t>(x.rows * x.cols) * sizeof(float), comms_.stages->rank() + 1);
}

void CpuBackend::ReceiveRows(Tensor x) {
  CheckFloat(x);
  CHECK(x.stride == x.cols && comms_.stages != nullptr);
  comms_.stages->Receive(x.data, static_cast<size_t>(x.rows * x.cols) * sizeof(float), comms_.stages->rank() - 1);
}

void CpuBackend::SendSampledTokens(size_t count) {
  CHECK(comms_.stages != nullptr && count <= last_ids_.size());
  comms_.stages->Send(last_ids_.data(), count * sizeof(int32_t), 0);
}

void CpuBackend::ReceiveSampledTokens(size_t count) {
  CHECK(comms_.stages != nullptr);
  last_ids_.assign(count, 0);  // if none arrive
  comms_.stages->Receive(last_ids_.data(), count * sizeof(int32_t), comms_.stages->ranks() - 1);
}

// A NaN logit marks a part with an unusable logit.
void CpuBackend::SampleGreedy(Tensor logits, int64_t first, std::span<SampledToken> sampled) {
  CheckFloat(logits);
  CHECK_EQ(logits.rows, std::ssize(sampled));
  const size_t rows = sampled.size(), ranks = comms_.layer ? static_cast<size_t>(comms_.layer->ranks()) : 1;
  choosers_.resize(std::max(choosers_.size(), rows));
  own_best_.resize(rows);
  EachRow(logits.rows, logits.cols, [&](int64_t r) {
    const auto row = static_cast<size_t>(r);
    const auto [logit, id] = choosers_[row].FindBest({logits.f32_row(r), static_cast<size_t>(logits.cols)});
    own_best_[row] = {logit, id + static_cast<int32_t>(first)};
  });
  all_best_ = own_best_;
  all_best_.resize(ranks * rows);
  if (comms_.layer) comms_.layer->AllGather(own_best_.data(), rows * sizeof(Candidate), all_best_.data());
  for (size_t row = 0; row < rows; ++row) {
    Candidate best = all_best_[row];
    for (size_t rank = 1; rank < ranks && !std::isnan(best.first); ++rank) {
      const Candidate& other = all_best_[rank * rows + row];
      if (std::isnan(other.first) || Better(other, best)) best = other;
    }
    sampled[row] = {};
    sampled[row].outcome =
        std::isfinite(best.first) ? SampledToken::Outcome::kChosen : SampledToken::Outcome::kNonFinite;
    if (std::isfinite(best.first)) sampled[row].id = best.second;
    sampled_ids_.push_back(sampled[row].id);
  }
}

// ---- linear ---------------------------------------------------------------------------------------------------------

void CpuBackend::QuantizeInput(const Tensor& x) {
  const size_t blocks = static_cast<size_t>(x.rows * (x.cols / kBlock));
  auto* out =
      static_cast<ActivationBlock*>(Scratch(blocks * sizeof(ActivationBlock), &activations_, &activation_bytes_));
  const auto quantize = [&](int64_t first, int64_t last) {
    kernels_.quantize(x.f32(), x.stride, first, last, x.rows, x.cols, out);
  };
  if (x.rows * x.cols < kWorthSharing) return quantize(0, x.rows);
  pool_.Run((x.rows + kRowTile - 1) / kRowTile,
            [&](int64_t t) { quantize(t * kRowTile, std::min(x.rows, (t + 1) * kRowTile)); });
}

// Permutes the inputs for each weight into its own order.
void CpuBackend::LinearWithActOrder(const LinearArgs& args) {
  int64_t column = 0;
  for (const Weight* w : args.weights) {
    LinearArgs one = args;
    one.weights = {&w, 1};
    one.bias = args.bias != nullptr ? args.bias + column : nullptr;
    one.y = args.y.Columns(column, w->rows);
    if (w->order) one.x = InOrder(args.x, static_cast<const int32_t*>(w->order.data()));
    LinearWithoutActOrder(one);
    column += w->rows;
  }
  CHECK_EQ(column, args.y.cols);
}

Tensor CpuBackend::InOrder(const Tensor& x, const int32_t* order) {
  act_order_x_.resize(std::max(act_order_x_.size(), static_cast<size_t>(x.rows * x.cols)));
  const Tensor ordered{DType::kF32, act_order_x_.data(), x.rows, x.cols, x.cols};
  EachRow(x.rows, x.cols, [&](int64_t r) {
    for (int64_t c = 0; c < x.cols; ++c) ordered.f32_row(r)[c] = x.f32_row(r)[order[c]];
  });
  return ordered;
}

void CpuBackend::Linear(const LinearArgs& args) {
  CheckFloat(args.x), CheckFloat(args.y);
  CHECK_EQ(args.x.rows, args.y.rows);
  if (args.x.rows == 0) return;
  const bool ordered = std::ranges::any_of(args.weights, [](const Weight* w) { return static_cast<bool>(w->order); });
  if (ordered)
    LinearWithActOrder(args);
  else
    LinearWithoutActOrder(args);
}

void CpuBackend::LinearWithoutActOrder(const LinearArgs& args) {
  const Tensor &x = args.x, &y = args.y;
  int64_t panels = 0, outputs = 0, bytes = 0;
  bool quantized = false;
  for (const Weight* w : args.weights) {
    CHECK_EQ(w->cols, x.cols);
    panels += (w->rows + kLanes - 1) / kLanes;
    outputs += w->rows;
    bytes += static_cast<int64_t>(w->data.bytes());
    quantized = quantized || HasIntegers(w->dtype);
  }
  CHECK_EQ(outputs, y.cols);
  if (quantized) QuantizeInput(x);

  // A piece's panels stay in the L2 cache while its rows are processed, and its rows while its panels are. Consecutive
  // pieces share panels, so that memory delivers each weight about once.
  const int64_t row_blocks = (x.rows + kMaxPieceRows - 1) / kMaxPieceRows;
  const int64_t wanted = std::max<int64_t>(1, 8 * pool_.threads() / row_blocks);  // pieces per row block
  int64_t step = std::max<int64_t>((panels + wanted - 1) / wanted, (16384 * panels + bytes - 1) / bytes);
  if (x.rows > kRowTile) step = std::min<int64_t>(step, 16);
  step = std::max(step, (panels * row_blocks + ThreadPool::kMaxPieces - 1) / ThreadPool::kMaxPieces);
  if (x.rows * outputs * x.cols < kWorthSharing) step = panels;
  const int64_t chunks = (panels + step - 1) / step;

  pool_.Run(chunks * row_blocks, [&](int64_t i) {
    const int64_t first = i / row_blocks * step, last = std::min(panels, first + step);
    const int64_t row = i % row_blocks * kMaxPieceRows;
    int64_t panel = 0, column = 0;
    for (const Weight* w : args.weights) {
      const int64_t count = (w->rows + kLanes - 1) / kLanes;
      LinearPiece piece{.dtype = w->dtype,
                        .panels = static_cast<const uint8_t*>(w->data.data()),
                        .outputs = w->rows,
                        .cols = w->cols,
                        .first_panel = std::max<int64_t>(0, first - panel),
                        .last_panel = std::min(count, last - panel),
                        .first_row = row,
                        .last_row = std::min(x.rows, row + kMaxPieceRows),
                        .all_rows = x.rows,
                        .x = x.f32(),
                        .x_stride = x.stride,
                        .activations = static_cast<const ActivationBlock*>(activations_),
                        .bias = args.bias != nullptr ? args.bias + column : nullptr,
                        .y = y.f32() + column,
                        .y_stride = y.stride,
                        .accumulate = args.accumulate};
      if (piece.first_panel < piece.last_panel) kernels_.linear(piece);
      panel += count, column += w->rows;
    }
  });
}

}  // namespace cpu

Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options, RankComms comms) {
  const cpu::KernelTable* table = cpu::FindKernelTable(options.instruction_set);
  if (table == nullptr) {
    return InvalidArgument("this machine does not support instruction set '" + options.instruction_set + "'",
                           "instruction_set");
  }
  const int shared = std::max(1, cpu::UsableCores() / comms.ranks());
  const int threads = options.threads == 0 ? shared : options.threads;
  if (threads < 1 || threads > 1024) {
    return InvalidArgument("cannot run on " + std::to_string(options.threads) + " threads: 1 to 1024 are supported",
                           "threads");
  }
  return std::unique_ptr<Backend>(std::make_unique<cpu::CpuBackend>(*table, threads, std::move(comms)));
}

}  // namespace ringside
