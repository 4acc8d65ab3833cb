#include "engine/convert/network_values.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "engine/model/weights/file_values.h"
#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"

namespace ringside {
namespace {

// [rows, cols] to [cols, rows].
std::vector<float> TransposeValues(const std::vector<float>& in, int64_t rows, int64_t cols) {
  std::vector<float> out(in.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) out[static_cast<size_t>(c * rows + r)] = in[static_cast<size_t>(r * cols + c)];
  }
  return out;
}

// Row i of the result is row from[i] of `in`.
std::vector<float> PermuteRows(const std::vector<float>& in, const std::vector<int64_t>& from) {
  std::vector<float> out;
  out.reserve(in.size());
  const auto cols = static_cast<int64_t>(in.size() / from.size());
  for (const int64_t row : from) {
    out.insert(out.end(), in.begin() + row * cols, in.begin() + (row + 1) * cols);
  }
  return out;
}

std::vector<int64_t> Inverse(const std::vector<int64_t>& from) {
  std::vector<int64_t> out(from.size());
  for (size_t i = 0; i < from.size(); ++i) out[static_cast<size_t>(from[i])] = static_cast<int64_t>(i);
  return out;
}

// Source rows of heads with adjacent rotary pairs, from heads with pairs half a head apart.
std::vector<int64_t> AdjacentPairRows(int64_t rows, int64_t head_dim, int64_t rotary) {
  std::vector<int64_t> from;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_dim * head_dim, i = row % head_dim;
    from.push_back(head + (i >= rotary ? i : i % 2 * rotary / 2 + i / 2));
  }
  return from;
}

struct Joint {
  TensorRole whole, parts[3];
};
constexpr Joint kJoints[] = {
    {TensorRole::kQkv, {TensorRole::kQuery, TensorRole::kKey, TensorRole::kValue}},
    {TensorRole::kQkvBias, {TensorRole::kQueryBias, TensorRole::kKeyBias, TensorRole::kValueBias}},
};

bool IsQueryOrKey(TensorRole role) {
  return role == TensorRole::kQuery || role == TensorRole::kKey || role == TensorRole::kQueryBias ||
         role == TensorRole::kKeyBias;
}

}  // namespace

NetworkValues::NetworkValues(const ModelFiles& files) : files_(files) {
  for (const PlannedTensor& planned : files.plan.tensors)
    planned_[{planned.role, planned.layer, planned.encoder}] = &planned;
  for (const FileTensor& tensor : files.tensors) tensors_.emplace(tensor.name, &tensor);
}

// Outputs by inputs, in network order.
Result<std::vector<float>> NetworkValues::Read(const Place& place) const {
  const PlannedTensor& planned = *planned_.at(place);
  std::vector<std::byte> joined;
  const FileTensor tensor = Whole(*tensors_.at(planned.name), &joined);
  const HostTensor& data = tensor.data;
  std::vector<float> values(static_cast<size_t>(data.rows * data.cols));
  for (int64_t row = 0; row < data.rows; ++row) ReadFileRow(data, row, values.data() + row * data.cols);
  if (planned.transposed) values = TransposeValues(values, data.rows, data.cols);
  if (planned.order != RowOrder::kPlain) {
    const int64_t rows = tensor.shape.size() == 1 ? data.cols : planned.transposed ? data.cols : data.rows;
    values = PermuteRows(values, RowsInOrder(planned.order, files_.plan.spec, rows));
  }
  if (place.role == TensorRole::kPositions) {
    values.erase(values.begin(), values.begin() + files_.plan.spec.position_offset * files_.plan.spec.hidden);
  }
  return values;
}

// As Read, for a tensor that may be a part of another one here, with rotary pairs in the wanted layout.
Result<std::vector<float>> NetworkValues::Part(const Place& place, RopePairs pairs) const {
  const ModelSpec& spec = files_.plan.spec;
  std::vector<float> values;
  for (const Joint& joint : kJoints) {
    for (int i = 0; i < 3; ++i) {
      const Place whole{joint.whole, place.layer, place.encoder};
      if (joint.parts[i] != place.role || !Has(whole)) continue;
      ASSIGN_OR_RETURN(const std::vector<float> all, Read(whole));
      const auto cols = static_cast<int64_t>(all.size()) / spec.qkv_columns();
      const int64_t queries = spec.heads * spec.head_dim, keys = spec.kv_heads * spec.head_dim;
      const int64_t begin = i == 0 ? 0 : queries + (i - 1) * keys, end = queries + i * keys;
      values.assign(all.begin() + begin * cols, all.begin() + end * cols);
    }
  }
  if (values.empty()) {
    if (!Has(place)) return InvalidArgument("the source network has no such tensor");
    ASSIGN_OR_RETURN(values, Read(place));
  }
  if (!IsQueryOrKey(place.role) || pairs == spec.rope_pairs || spec.rotary == 0) return values;
  const bool query = place.role == TensorRole::kQuery || place.role == TensorRole::kQueryBias;
  const int64_t rows = (query ? spec.heads : spec.kv_heads) * spec.head_dim;
  const std::vector<int64_t> from = AdjacentPairRows(rows, spec.head_dim, spec.rotary);
  return PermuteRows(values, pairs == RopePairs::kAdjacent ? from : Inverse(from));
}

Result<std::vector<float>> NetworkValues::Of(const PlannedTensor& wanted, const ModelSpec& spec) const {
  std::vector<float> values;
  const auto append = [&](TensorRole role) {
    auto part = Part({role, wanted.layer, wanted.encoder}, spec.rope_pairs);
    if (!part.ok()) return InvalidArgument(fmt::format("tensor '{}': {}", wanted.name, part.status().message()));
    values.insert(values.end(), part->begin(), part->end());
    return Status::Ok();
  };
  if (wanted.role == TensorRole::kPositions) {  // drop rows before the first position
    values.resize(static_cast<size_t>(spec.position_offset * spec.hidden));
  }
  const Joint* joint = nullptr;
  for (const Joint& known : kJoints) {
    if (known.whole == wanted.role) joint = &known;
  }
  if (joint == nullptr) RETURN_IF_ERROR(append(wanted.role));
  for (int i = 0; joint != nullptr && i < 3; ++i) RETURN_IF_ERROR(append(joint->parts[i]));
  const bool vector = wanted.shape.size() == 1;
  const int64_t rows = wanted.transposed ? wanted.shape.back() : wanted.shape.front();
  if (wanted.order != RowOrder::kPlain) values = PermuteRows(values, Inverse(RowsInOrder(wanted.order, spec, rows)));
  if (wanted.transposed && !vector) values = TransposeValues(values, rows, wanted.shape.front());
  return values;
}

Result<std::vector<std::byte>> Encode(std::string_view name, const std::vector<float>& values, DType dtype,
                                      bool exact) {
  const auto width = static_cast<size_t>(StorageBytes(dtype, 1));
  std::vector<std::byte> out(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = values[i];
    float kept = value;
    if (dtype == DType::kF32) {
      std::memcpy(out.data() + i * width, &value, width);
    } else {
      const uint16_t bits = dtype == DType::kF16 ? FloatToHalf(value) : FloatToBf16(value);
      std::memcpy(out.data() + i * width, &bits, width);
      kept = dtype == DType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
    }
    if (std::isfinite(value) && !std::isfinite(kept)) {
      return InvalidArgument(
          fmt::format("tensor '{}' has a value of {}, too large for {}", name, value, Traits(dtype).name));
    }
    if (exact && std::isfinite(value) && kept != value) {
      return InvalidArgument(
          fmt::format("tensor '{}' has a value of {}, which {} cannot represent; pass --type if it may "
                      "be rounded",
                      name, value, Traits(dtype).name));
    }
  }
  return out;
}

}  // namespace ringside
