#include "engine/convert/writers.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/convert/output_file.h"
#include "engine/import/faster_transformer_plan.h"

namespace ringside {
namespace {

constexpr size_t kGgufAlignment = 32;

int64_t Count(const PlannedTensor& planned) {
  int64_t count = 1;
  for (const int64_t size : planned.shape) count *= size;
  return count;
}

// Native byte order, which is little-endian.
template <class T>
void Put(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}
void PutText(std::string_view text, std::string* out) {
  Put(static_cast<uint64_t>(text.size()), out);
  out->append(text);
}

// Writes a value after its type number.
struct GgufValueWriter {
  enum Type : uint32_t { kU8 = 0, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };
  std::string* out;

  void operator()(bool value) const { Put(kBool, out), Put(static_cast<uint8_t>(value), out); }
  void operator()(int64_t value) const { Put(kU32, out), Put(static_cast<uint32_t>(value), out); }
  void operator()(double value) const { Put(kF32, out), Put(static_cast<float>(value), out); }
  void operator()(const std::string& value) const { Put(kString, out), PutText(value, out); }
  void operator()(const std::vector<std::string>& values) const {
    Begin(kString, values.size());
    for (const std::string& value : values) PutText(value, out);
  }
  void operator()(const std::vector<int64_t>& values) const {
    Begin(kI32, values.size());
    for (const int64_t value : values) Put(static_cast<int32_t>(value), out);
  }
  void operator()(const std::vector<double>& values) const {
    Begin(kF32, values.size());
    for (const double value : values) Put(static_cast<float>(value), out);
  }
  void operator()(const std::vector<uint8_t>& values) const {
    Begin(kU8, values.size());
    for (const uint8_t value : values) Put(value, out);
  }
  void Begin(Type type, size_t count) const {
    Put(kArray, out), Put(type, out), Put(static_cast<uint64_t>(count), out);
  }
};

DType GgufType(const PlannedTensor& planned, DType dtype) { return planned.shape.size() == 1 ? DType::kF32 : dtype; }

std::string GgufHeader(const Conversion& conversion, const std::vector<GgufEntry>& metadata) {
  const auto& tensors = conversion.plan.tensors;
  std::string out = "GGUF";
  Put(uint32_t{3}, &out);
  Put(static_cast<uint64_t>(tensors.size()), &out);
  Put(static_cast<uint64_t>(metadata.size()), &out);
  for (const GgufEntry& entry : metadata) {
    PutText(entry.key, &out);
    std::visit(GgufValueWriter{&out}, entry.value);
  }
  uint64_t offset = 0;
  for (const PlannedTensor& planned : tensors) {
    const DType dtype = GgufType(planned, conversion.dtype);
    PutText(planned.name, &out);
    Put(static_cast<uint32_t>(planned.shape.size()), &out);
    for (size_t i = planned.shape.size(); i-- > 0;) Put(static_cast<uint64_t>(planned.shape[i]), &out);
    Put(uint32_t{dtype == DType::kF32 ? 0u : dtype == DType::kF16 ? 1u : 30u}, &out);
    Put(offset, &out);
    const auto bytes = static_cast<uint64_t>(StorageBytes(dtype, Count(planned)));
    offset += (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
  }
  return out;
}

// The part of every stretch that belongs to one GPU.
std::vector<std::byte> PieceOf(const std::vector<std::byte>& whole, int64_t stretches, int64_t gpu, int64_t gpus) {
  const size_t stretch = whole.size() / static_cast<size_t>(stretches), part = stretch / static_cast<size_t>(gpus);
  std::vector<std::byte> out;
  for (size_t s = 0; s < static_cast<size_t>(stretches); ++s) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(s * stretch + static_cast<size_t>(gpu) * part);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(part));
  }
  return out;
}

Status WriteBytes(const std::string& path, std::span<const std::byte> bytes) {
  return WriteFile(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

Result<std::vector<std::byte>> Conversion::Bytes(const PlannedTensor& planned, DType as) const {
  ASSIGN_OR_RETURN(const std::vector<float> all, values.Of(planned, plan.spec));
  return Encode(planned.name, all, as, exact);
}

Status WriteSafetensors(const Conversion& conversion, const std::string& folder) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t offset = 0;
  for (const PlannedTensor& planned : conversion.plan.tensors) {
    const int64_t end = offset + StorageBytes(conversion.dtype, Count(planned));
    header[planned.name] = {{"dtype", Traits(conversion.dtype).name}, {"shape", planned.shape}};
    header[planned.name]["data_offsets"] = {offset, end};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data to 8 bytes
  std::string size;
  Put(static_cast<uint64_t>(text.size()), &size);
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(folder + "/model.safetensors"));
  RETURN_IF_ERROR(file.Write(size));
  RETURN_IF_ERROR(file.Write(text));
  for (const PlannedTensor& planned : conversion.plan.tensors) {
    ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, conversion.Bytes(planned, conversion.dtype));
    RETURN_IF_ERROR(file.Write(bytes));
  }
  return file.Close();
}

Status WriteGguf(const Conversion& conversion, const std::vector<GgufEntry>& metadata, const std::string& path) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(file.Write(GgufHeader(conversion, metadata)));
  for (const PlannedTensor& planned : conversion.plan.tensors) {
    RETURN_IF_ERROR(file.Align(kGgufAlignment));
    ASSIGN_OR_RETURN(const auto bytes, conversion.Bytes(planned, GgufType(planned, conversion.dtype)));
    RETURN_IF_ERROR(file.Write(bytes));
  }
  RETURN_IF_ERROR(file.Align(kGgufAlignment));
  return file.Close();
}

Status WriteFasterTransformer(const Conversion& conversion, const std::string& folder) {
  const ModelSpec& spec = conversion.plan.spec;
  const int64_t gpus = conversion.gpus;
  if (spec.heads % gpus != 0 || spec.ffn % gpus != 0) {
    return InvalidArgument(
        fmt::format("{} GPUs cannot evenly share {} heads and {} columns of an MLP", gpus, spec.heads, spec.ffn));
  }
  std::vector<float> sum;  // sum of a layer's two residual biases, as written
  for (const PlannedTensor& planned : conversion.plan.tensors) {
    const PieceCut cut = CutOf(planned, spec);
    ASSIGN_OR_RETURN(std::vector<float> values, conversion.values.Of(planned, spec));
    if (cut.divided) {
      for (float& value : values) value /= static_cast<float>(gpus);
    }
    ASSIGN_OR_RETURN(const auto bytes, Encode(planned.name, values, conversion.dtype, conversion.exact));
    // A network with only the sum stores it in place of one of the two.
    const bool alone = cut.divided && spec.parallel && !spec.attention_out_bias;
    const std::string path = folder + "/" + (alone ? BiasSum(planned.layer) : planned.name);
    if (!cut.numbered) RETURN_IF_ERROR(WriteBytes(path + ".bin", bytes));
    for (int64_t gpu = 0; cut.numbered && gpu < gpus; ++gpu) {
      RETURN_IF_ERROR(WriteBytes(fmt::format("{}.{}.bin", path, gpu), PieceOf(bytes, cut.stretches, gpu, gpus)));
    }
    if (!cut.divided || !spec.parallel || alone) continue;
    if (planned.role == TensorRole::kAttentionOutBias) {
      sum = std::move(values);
      continue;
    }
    for (size_t i = 0; i < values.size(); ++i) values[i] += sum[i];
    const std::string name = BiasSum(planned.layer);
    ASSIGN_OR_RETURN(const auto summed, Encode(name, values, conversion.dtype, /*exact=*/false));
    RETURN_IF_ERROR(WriteBytes(folder + "/" + name + ".bin", summed));
  }
  return Status::Ok();
}

}  // namespace ringside
