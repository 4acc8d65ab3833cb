#include "kernels/cuda/weight_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/parallel_for.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/linear/block_quant_layout.h"
#include "kernels/cuda/linear/block_quant_packing.h"
#include "kernels/cuda/linear/w8_layout.h"
#include "kernels/cuda/random_weights.h"
#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"
#include "kernels/formats/row_quantization.h"

namespace ringside::cuda {
namespace {

constexpr size_t kScaleBytes = size_t{4} << 20;  // bytes of scales allocated at a time
constexpr int64_t kMaxHeadRows = 128;

/// Converts rows of a file's matrix to a 16-bit type. False if a quantized one has a value that is not finite.
bool ConvertRows(const HostTensor& host, size_t first, size_t count, DType dtype, uint8_t* to) {
  std::vector<float> row(static_cast<size_t>(host.cols));
  for (size_t r = first; r < first + count; ++r) {
    ReadFileRow(host, static_cast<int64_t>(r), row.data());
    if (IsQuantized(host.dtype) && !std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) return false;
    for (const float value : row) {
      const uint16_t bits = dtype == DType::kF16 ? FloatToHalf(value) : FloatToBf16(value);
      std::memcpy(to, &bits, sizeof bits);
      to += sizeof bits;
    }
  }
  return true;
}

/// Whether the matrix is large enough for quantization to save measurable time: the layers of a 135M model are not,
/// those of a 1B model are.
bool IsLarge(const HostTensor& host) { return host.cols >= 1024 && host.rows * host.cols >= int64_t{1} << 20; }
/// Whether it is one of the projections per head that share their input with large matrices (decays and weights of
/// recurrent layers): of the type of one of these, it shares that one's launch.
bool IsOneRowPerHead(const HostTensor& host) { return host.cols >= 1024 && host.rows <= kMaxHeadRows && !host.adapter; }

}  // namespace

Result<Weight> WeightLoader::AllocateFloatWeight(int64_t rows, int64_t cols) {
  const auto bytes = static_cast<size_t>(StorageBytes(options_.dtype, rows * cols));
  void* data = memory_->AllocateLow(bytes);
  if (data == nullptr) {
    return Overloaded(
        fmt::format("no device memory for a weight of {} bytes: {} are free", bytes, memory_->free_bytes()));
  }
  return Weight{options_.dtype, rows, cols, Buffer(backend_, data, bytes), {}};
}

Result<Weight> WeightLoader::MakeRandom(const RandomMatrix& matrix) {
  ASSIGN_OR_RETURN(Weight weight, AllocateFloatWeight(matrix.row_count(), matrix.cols));
  const Tensor all{options_.dtype, weight.data.data(), weight.rows, weight.cols, weight.cols};
  recorder_->Flush();
  int64_t row = 0;
  for (const RandomMatrix::Rows& run : matrix.rows) {
    LaunchRandomWeights(recorder_->launcher(), matrix, run.first, all.Rows(row, run.count));
    row += run.count;
  }
  return weight;
}

Result<Weight> WeightLoader::Load(const HostTensor& host) {
  if (options_.quantization && !host.adapter) {
    if (!host.table) return LoadBytes(host, *options_.quantization);
    // E4M3's three mantissa bits are too few for embeddings. Large tables are stored block-quantized where a kernel
    // supports it, because batches multiply them faster.
    const bool in_blocks = IsLarge(host) && host.cols % 32 == 0 && host.order.empty() && !IsQuantized(host.dtype) &&
                           recorder_->launcher().hopper && !options_.deterministic;
    return in_blocks ? LoadBlockQuantized(host, DType::kBlockQuant8) : LoadBytes(host, DType::kI8);
  }
  const bool keeps = options_.keeps_blocks && (host.expert || IsLarge(host) || options_.keeps_small_blocks);
  if (keeps && !host.expert && host.dtype == DType::kScaledE4M3 && HasScalePerRow(host)) {
    return LoadBytes(host, DType::kF8E4M3);
  }
  const bool keeps_blocks = keeps || (options_.keeps_blocks && IsOneRowPerHead(host));
  const bool wants_order = host.expert && !host.order.empty();  // expert kernels have no act-order permutation
  if (const auto block_type = BlockQuantTypeOf(host.dtype); block_type && keeps_blocks && !wants_order) {
    Result<Weight> weight = LoadBlockQuantized(host, *block_type);
    if (weight.ok() || weight.status().code() != StatusCode::kInvalidArgument) return weight;
  }
  return LoadFloats(host);
}

Result<Weight> WeightLoader::LoadFloats(const HostTensor& host) {
  const DType dtype = options_.dtype;
  const auto row_bytes = static_cast<size_t>(StorageBytes(dtype, host.cols));
  ASSIGN_OR_RETURN(Weight weight, AllocateFloatWeight(host.rows, host.cols));
  auto* data = static_cast<std::byte*>(weight.data.data());
  const auto rows = static_cast<size_t>(host.rows);
  const size_t piece_rows = std::max<size_t>(1, WeightUpload::kPieceBytes / row_bytes);
  std::atomic<bool> finite{true};
  for (size_t first = 0; first < rows; first += piece_rows) {
    const size_t count = std::min(piece_rows, rows - first);
    const std::span<uint8_t> piece = upload_.Next(count * row_bytes);
    ParallelFor(count, [&](size_t begin, size_t end) {
      if (host.dtype == dtype) {
        std::memcpy(&piece[begin * row_bytes], host.bytes.data() + (first + begin) * row_bytes,
                    (end - begin) * row_bytes);
      } else if (!ConvertRows(host, first + begin, end - begin, dtype, &piece[begin * row_bytes])) {
        finite = false;
      }
    });
    if (!finite) return Corruption("a weight contains a non-finite value");
    Upload(data + first * row_bytes, piece);
  }
  return weight;
}

void WeightLoader::Upload(void* device, std::span<const uint8_t> piece) {
  backend_->CopyToDevice(device, piece.data(), piece.size());
  upload_.Sent(recorder_->stream());
}

void WeightLoader::UploadFloats(void* device, std::span<const float> values) {
  const std::span<uint8_t> piece = upload_.Next(values.size_bytes());
  std::memcpy(piece.data(), values.data(), values.size_bytes());
  Upload(device, piece);
}

// Adjacent matrices have adjacent scales, so that they can be launched as one matrix (step_runner.cpp).
std::byte* WeightLoader::AllocateScales(size_t count) {
  const size_t bytes = (count * sizeof(float) + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
  if (bytes > scale_room_.size()) {
    if (!scale_room_.empty()) memory_->Free(scale_room_.data(), scale_room_.size());
    const size_t room_bytes = std::max(bytes, kScaleBytes);
    auto* data = static_cast<std::byte*>(memory_->AllocateHigh(room_bytes));
    scale_room_ = {data, data == nullptr ? 0 : room_bytes};
    if (data == nullptr) return nullptr;
  }
  std::byte* out = scale_room_.data();
  scale_room_ = scale_room_.subspan(bytes);
  return out;
}

Result<Weight> WeightLoader::AllocateScaledWeight(DType dtype, int64_t rows, int64_t cols, size_t bytes,
                                                  size_t scales) {
  auto* data = static_cast<std::byte*>(memory_->AllocateLow(bytes));
  std::byte* scale_data = AllocateScales(scales);
  Weight weight{dtype, rows, cols, Buffer(backend_, data, bytes), Buffer(backend_, scale_data, scales * sizeof(float))};
  if (data != nullptr && scale_data != nullptr) return weight;
  return Overloaded(fmt::format("no device memory for a weight of {} bytes: {} are free",
                                bytes + scales * sizeof(float), memory_->free_bytes()));
}

Status WeightLoader::StoreActOrder(std::span<const int32_t> order, Weight* weight) {
  if (order.empty()) return Status::Ok();
  if (act_order_x_ == nullptr) act_order_x_ = memory_->AllocateHigh(kActOrderBytes);
  if (act_order_x_ == nullptr) return Overloaded("no device memory for inputs in act-order");
  ASSIGN_OR_RETURN(weight->order, backend_->Allocate(order.size_bytes()));
  backend_->CopyToDevice(weight->order.data(), order.data(), order.size_bytes());
  CHECK_CUDA(cudaStreamSynchronize(recorder_->stream()));
  const auto next = static_cast<int>(act_order_ids_.size()) + 1;
  const auto known = act_order_ids_.try_emplace({order.begin(), order.end()}, next).first;
  act_order_id_by_address_[weight->order.data()] = known->second;
  return Status::Ok();
}

Result<Weight> WeightLoader::LoadBlockQuantized(const HostTensor& host, DType dtype) {
  const auto panels = static_cast<size_t>(PanelsDown(host.rows)),
             panel_bytes = static_cast<size_t>(PanelBytes(dtype, host.cols)),
             panel_scales = static_cast<size_t>(PanelScales(dtype, host.cols));
  ASSIGN_OR_RETURN(Weight weight,
                   AllocateScaledWeight(dtype, host.rows, host.cols, panels * panel_bytes, panels * panel_scales));
  auto* data = static_cast<std::byte*>(weight.data.data());
  const size_t piece_panels = std::max<size_t>(1, WeightUpload::kPieceBytes / panel_bytes);
  std::vector<float> scales(panels * panel_scales, 0.0f);
  for (size_t first = 0; first < panels; first += piece_panels) {
    const size_t count = std::min(piece_panels, panels - first);
    const std::span<uint8_t> piece = upload_.Next(count * panel_bytes);
    std::vector<Status> packed(count);
    ParallelFor(count, [&](size_t begin, size_t end) {
      std::fill(&piece[begin * panel_bytes], piece.data() + end * panel_bytes, uint8_t{0});
      for (size_t p = begin; p < end; ++p) {
        packed[p] = PackPanel(host, static_cast<int64_t>(first + p), &piece[p * panel_bytes],
                              &scales[(first + p) * panel_scales]);
      }
    });
    for (const Status& status : packed) RETURN_IF_ERROR(status);
    Upload(data + first * panel_bytes, piece);
  }
  UploadFloats(weight.scales.data(), scales);
  RETURN_IF_ERROR(StoreActOrder(host.order, &weight));
  return weight;
}

Result<Weight> WeightLoader::LoadBytes(const HostTensor& host, DType dtype) {
  const bool as_stored = host.dtype == DType::kScaledE4M3 && dtype == DType::kF8E4M3 && HasScalePerRow(host);
  const auto row_bytes = static_cast<size_t>(W8RowBytes(host.cols)), rows = static_cast<size_t>(host.rows);
  ASSIGN_OR_RETURN(Weight weight, AllocateScaledWeight(dtype, host.rows, host.cols, rows * row_bytes, rows));
  auto* data = static_cast<std::byte*>(weight.data.data());
  const size_t piece_rows = std::max<size_t>(1, WeightUpload::kPieceBytes / row_bytes);
  std::vector<float> row_scales(rows);
  for (size_t first = 0; first < rows; first += piece_rows) {
    const size_t count = std::min(piece_rows, rows - first);
    const std::span<uint8_t> piece = upload_.Next(count * row_bytes);
    ParallelFor(count, [&](size_t begin, size_t end) {
      std::vector<float> row(row_bytes, 0.0f);  // one byte per element
      std::vector<uint8_t> quantized(row_bytes);
      for (size_t r = begin; r < end; ++r) {
        const auto of_file = static_cast<int64_t>(first + r);
        if (as_stored) {
          row_scales[first + r] = ReadE4M3Row(host, of_file, quantized.data());
        } else {
          ReadFileRow(host, of_file, row.data());
          row_scales[first + r] = QuantizeRow(dtype, row, quantized.data());
        }
        PackW8Row(dtype, quantized, &piece[r * row_bytes]);
      }
    });
    Upload(data + first * row_bytes, piece);
  }
  if (!std::all_of(row_scales.begin(), row_scales.end(), [](float x) { return std::isfinite(x); })) {
    return Corruption("a weight contains a non-finite value");
  }
  UploadFloats(weight.scales.data(), row_scales);
  return weight;
}

int WeightLoader::OrderOf(const Weight& weight) const {
  return weight.order ? act_order_id_by_address_.at(weight.order.data()) : 0;
}

Result<Buffer> WeightLoader::Keep(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(Buffer out, backend_->Allocate(bytes.size()));
  backend_->CopyToDevice(out.data(), bytes.data(), bytes.size());
  backend_->Synchronize();
  return out;
}

}  // namespace ringside::cuda
