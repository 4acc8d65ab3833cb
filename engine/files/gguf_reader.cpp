#include "engine/files/gguf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "engine/files/mapped_file.h"

namespace ringside {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place as little-endian");

// Far above any real model, and below any harm to this process.
constexpr uint64_t kMaxKeys = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 18;
constexpr uint64_t kMaxKeyBytes = 1 << 16;
constexpr uint64_t kMaxTensorNameBytes = 256;
constexpr uint64_t kMaxStringBytes = 1 << 26;
constexpr uint64_t kMaxMetadataElements = 1 << 25;  // over all arrays
constexpr int64_t kMaxAlignment = 1 << 16;
constexpr uint32_t kMaxGgufDimensions = 4;

enum class ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// Bytes of one value in the file, 8 (its length) for a string; 0 for an invalid element type.
uint64_t ValueBytes(uint32_t type) {
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

std::optional<DType> TypeNumbered(uint32_t id) {
  const auto traits = AllTraits();
  const auto found = std::ranges::find(traits, int64_t{id}, &DTypeTraits::gguf_type);
  return found == traits.end() ? std::nullopt : std::optional(static_cast<DType>(found - traits.begin()));
}

// Names of known but unsupported types, for the message.
std::string_view UnsupportedTypeName(uint32_t id) {
  switch (id) {
    case 9:
      return "Q8_1";
    case 15:
      return "Q8_K";
    case 24:
      return "I8";
    case 25:
      return "I16";
    case 26:
      return "I32";
    case 27:
      return "I64";
    case 28:
      return "F64";
    case 41:
      return "Q1_0";
    default:
      return "";
  }
}

// A name from the file, escaped for a message.
std::string Quoted(std::string_view name) {
  std::string out = "'";
  for (const char c : name.substr(0, 80)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte >= 0x7f || c == '\'' ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out + (name.size() > 80 ? "...'" : "'");
}

// Reads the header sequentially; every read is checked against the end of the file first.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  template <class T>
  bool Read(T* value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }
  bool ReadString(uint64_t max_bytes, std::string* value) {
    uint64_t size = 0;
    if (!Read(&size) || size > max_bytes || size > remaining()) return false;
    value->assign(reinterpret_cast<const char*>(bytes_.data()) + offset_, size);
    offset_ += size;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

template <class T, class Out>
bool ReadNumber(Cursor& in, Out* out) {
  T value{};
  if (!in.Read(&value)) return false;
  *out = static_cast<Out>(value);
  return true;
}

bool IsFloatType(ValueType type) { return type == ValueType::kF32 || type == ValueType::kF64; }

bool ReadFloat(Cursor& in, ValueType type, double* out) {
  return type == ValueType::kF32 ? ReadNumber<float>(in, out) : ReadNumber<double>(in, out);
}

// A bool or any integer type except u64, whose values might not fit.
bool ReadInteger(Cursor& in, ValueType type, int64_t* out) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kBool:
      return ReadNumber<uint8_t>(in, out);
    case ValueType::kI8:
      return ReadNumber<int8_t>(in, out);
    case ValueType::kU16:
      return ReadNumber<uint16_t>(in, out);
    case ValueType::kI16:
      return ReadNumber<int16_t>(in, out);
    case ValueType::kU32:
      return ReadNumber<uint32_t>(in, out);
    case ValueType::kI32:
      return ReadNumber<int32_t>(in, out);
    case ValueType::kI64:
      return ReadNumber<int64_t>(in, out);
    default:
      return false;
  }
}

class Parser {
 public:
  Parser(const std::string& path, std::span<const std::byte> bytes) : path_(path), in_(bytes), bytes_(bytes) {}

  Status Parse(std::map<std::string, GgufValue, std::less<>>* values, std::vector<FileTensor>* tensors) {
    uint64_t tensor_count = 0, key_count = 0;
    RETURN_IF_ERROR(ParseCounts(&tensor_count, &key_count));
    for (uint64_t i = 0; i < key_count; ++i) RETURN_IF_ERROR(ParseKey(i, values));
    RETURN_IF_ERROR(ReadAlignment(*values));
    tensors->reserve(tensor_count);
    for (uint64_t i = 0; i < tensor_count; ++i) RETURN_IF_ERROR(ParseTensor(i, tensors));
    return PlaceTensors(tensors);
  }

 private:
  Status Damaged(const std::string& what) const {
    return Corruption(fmt::format("{}: {} (at byte {})", path_, what, in_.offset()));
  }

  Status ParseCounts(uint64_t* tensor_count, uint64_t* key_count) {
    char magic[4] = {};
    if (!in_.Read(&magic) || std::memcmp(magic, "GGUF", 4) != 0) return Damaged("not a GGUF file: wrong magic");
    uint32_t version = 0;
    if (!in_.Read(&version)) return Damaged("ends inside the header");
    if (version == 0x02000000 || version == 0x03000000) {
      return InvalidArgument(fmt::format("{}: a big-endian GGUF file; only little-endian ones are read", path_));
    }
    if (version != 2 && version != 3) {
      return InvalidArgument(fmt::format("{}: GGUF version {}; versions 2 and 3 are read", path_, version));
    }
    if (!in_.Read(tensor_count) || !in_.Read(key_count)) return Damaged("ends inside the header");
    // The smallest tensor entry is 32 bytes, the smallest key 13: reject a count that cannot fit.
    if (*tensor_count > kMaxTensors || *tensor_count > in_.remaining() / 32) {
      return Damaged(fmt::format("claims {} tensors", *tensor_count));
    }
    if (*key_count > kMaxKeys || *key_count > in_.remaining() / 13) {
      return Damaged(fmt::format("claims {} metadata keys", *key_count));
    }
    return Status::Ok();
  }

  Status ParseKey(uint64_t index, std::map<std::string, GgufValue, std::less<>>* values) {
    std::string key;
    uint32_t type = 0;
    if (!in_.ReadString(kMaxKeyBytes, &key) || key.empty()) {
      return Damaged(fmt::format("metadata key {} is cut off, empty or too long", index));
    }
    if (!in_.Read(&type)) return Damaged(fmt::format("metadata key {} is cut off", Quoted(key)));
    GgufValue value;
    RETURN_IF_ERROR(ParseValue(key, type, &value));
    if (!values->emplace(key, std::move(value)).second) {
      return Damaged(fmt::format("metadata key {} occurs twice", Quoted(key)));
    }
    return Status::Ok();
  }

  Status ParseValue(const std::string& key, uint32_t raw_type, GgufValue* value) {
    const auto type = static_cast<ValueType>(raw_type);
    const auto cut_off = [&] { return Damaged(fmt::format("the value of {} is cut off or too long", Quoted(key))); };
    if (type == ValueType::kArray) return ParseArray(key, value);
    if (ValueBytes(raw_type) == 0) {
      return Damaged(fmt::format("the value of {} has unknown type {}", Quoted(key), raw_type));
    }
    if (type == ValueType::kString) {
      std::string text;
      if (!in_.ReadString(kMaxStringBytes, &text)) return cut_off();
      *value = std::move(text);
    } else if (IsFloatType(type)) {
      double number = 0;
      if (!ReadFloat(in_, type, &number)) return cut_off();
      *value = number;
    } else if (type == ValueType::kU64) {
      uint64_t number = 0;
      if (!in_.Read(&number)) return cut_off();
      // A number above int64 cannot be a count; keep it as the nearest double.
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        *value = static_cast<double>(number);
      else
        *value = static_cast<int64_t>(number);
    } else {
      int64_t number = 0;
      if (!ReadInteger(in_, type, &number)) return cut_off();
      if (type != ValueType::kBool)
        *value = number;
      else if (number == 0 || number == 1)
        *value = number == 1;
      else
        return Damaged(fmt::format("the value of {} is a bool of {}", Quoted(key), number));
    }
    return Status::Ok();
  }

  Status ParseArray(const std::string& key, GgufValue* value) {
    uint32_t raw_type = 0;
    uint64_t count = 0;
    if (!in_.Read(&raw_type) || !in_.Read(&count)) return Damaged(fmt::format("array {} is cut off", Quoted(key)));
    const auto type = static_cast<ValueType>(raw_type);
    if (type == ValueType::kArray) {
      return InvalidArgument(fmt::format("{}: array {} holds arrays, which is not supported", path_, Quoted(key)));
    }
    const uint64_t element_bytes = ValueBytes(raw_type);
    if (element_bytes == 0) return Damaged(fmt::format("array {} has unknown type {}", Quoted(key), raw_type));
    if (count > in_.remaining() / element_bytes || count > kMaxMetadataElements - elements_) {
      return Damaged(fmt::format("array {} claims {} elements", Quoted(key), count));
    }
    elements_ += count;
    if (type == ValueType::kString) return ParseStrings(key, count, value);
    if (IsFloatType(type)) {
      std::vector<double> numbers(count);
      for (double& number : numbers) CHECK(ReadFloat(in_, type, &number));
      *value = std::move(numbers);
      return Status::Ok();
    }
    std::vector<int64_t> numbers(count);
    for (int64_t& number : numbers) {
      if (type == ValueType::kU64) {
        uint64_t wide = 0;
        CHECK(in_.Read(&wide));
        if (wide > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
          return Damaged(fmt::format("array {} holds {}, which is beyond 63 bits", Quoted(key), wide));
        }
        number = static_cast<int64_t>(wide);
      } else {
        CHECK(ReadInteger(in_, type, &number));
      }
    }
    *value = std::move(numbers);
    return Status::Ok();
  }

  Status ParseStrings(const std::string& key, uint64_t count, GgufValue* value) {
    std::vector<std::string> strings(count);
    for (uint64_t i = 0; i < count; ++i) {
      if (!in_.ReadString(kMaxStringBytes, &strings[i])) {
        return Damaged(fmt::format("string {} of array {} is cut off or too long", i, Quoted(key)));
      }
    }
    *value = std::move(strings);
    return Status::Ok();
  }

  Status ReadAlignment(const std::map<std::string, GgufValue, std::less<>>& values) {
    const auto found = values.find("general.alignment");
    if (found == values.end()) return Status::Ok();
    const auto* alignment = std::get_if<int64_t>(&found->second);
    if (alignment == nullptr || *alignment < 1 || *alignment > kMaxAlignment ||
        !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
      return Damaged("general.alignment is not a power of two up to 65536");
    }
    alignment_ = static_cast<uint64_t>(*alignment);
    return Status::Ok();
  }

  Status ParseTensor(uint64_t index, std::vector<FileTensor>* tensors) {
    FileTensor tensor;
    uint32_t dimensions = 0, type = 0;
    uint64_t offset = 0;
    if (!in_.ReadString(kMaxTensorNameBytes, &tensor.name) || tensor.name.empty()) {
      return Damaged(fmt::format("the name of tensor {} is cut off, empty or too long", index));
    }
    const std::string name = Quoted(tensor.name);
    const auto cut_off = [&] { return Damaged(fmt::format("the entry of tensor {} is cut off", name)); };
    if (!in_.Read(&dimensions)) return cut_off();
    if (dimensions < 1 || dimensions > kMaxGgufDimensions) {
      return Damaged(fmt::format("tensor {} has {} dimensions", name, dimensions));
    }
    int64_t elements = 1;
    for (uint32_t i = 0; i < dimensions; ++i) {
      uint64_t size = 0;
      if (!in_.Read(&size)) return cut_off();
      // 2^48 elements: more than any file, and 8 bytes for each still fit an int64.
      if (size < 1 || size > (uint64_t{1} << 48) / static_cast<uint64_t>(elements)) {
        return Damaged(fmt::format("tensor {} has a dimension of {}", name, size));
      }
      elements *= static_cast<int64_t>(size);
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    if (!in_.Read(&type) || !in_.Read(&offset)) return cut_off();
    const std::optional<DType> known = TypeNumbered(type);
    if (!known) {
      const std::string_view unsupported = UnsupportedTypeName(type);
      if (unsupported.empty()) return Damaged(fmt::format("tensor {} has unknown type {}", name, type));
      return InvalidArgument(
          fmt::format("{}: tensor {} is stored as {}, which is not supported; files in Q4_K_M or Q8_0 load", path_,
                      name, unsupported));
    }
    tensor.data = {*known, elements / tensor.shape.back(), tensor.shape.back(), {}};
    if (tensor.data.cols % Traits(*known).block_elements != 0) {
      return Damaged(fmt::format("tensor {} has rows of {} values, not a multiple of the {} of a {} block", name,
                                 tensor.data.cols, Traits(*known).block_elements, Traits(*known).name));
    }
    if (offset % alignment_ != 0) {
      return Damaged(fmt::format("tensor {} is at offset {}, not aligned to {}", name, offset, alignment_));
    }
    if (!names_.insert(tensor.name).second) return Damaged(fmt::format("tensor {} occurs twice", name));
    offsets_.push_back(offset);
    tensors->push_back(std::move(tensor));
    return Status::Ok();
  }

  // The data section starts after the header, aligned; offsets are relative to it.
  Status PlaceTensors(std::vector<FileTensor>* tensors) {
    if (tensors->empty()) return Status::Ok();
    const uint64_t start = (in_.offset() + alignment_ - 1) / alignment_ * alignment_;
    const uint64_t available = start > bytes_.size() ? 0 : bytes_.size() - start;
    std::vector<size_t> order(tensors->size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      FileTensor& tensor = (*tensors)[i];
      const auto size = static_cast<uint64_t>(StorageBytes(tensor.data.dtype, tensor.data.rows * tensor.data.cols));
      if (offsets_[i] > available || size > available - offsets_[i]) {
        return Corruption(fmt::format("{}: tensor {} ({} bytes at offset {}) reaches past the end of the file", path_,
                                      Quoted(tensor.name), size, offsets_[i]));
      }
      tensor.data.bytes = bytes_.subspan(start + offsets_[i], size);
    }
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offsets_[a] < offsets_[b]; });
    for (size_t i = 1; i < order.size(); ++i) {
      const FileTensor& before = (*tensors)[order[i - 1]];
      if (offsets_[order[i]] < offsets_[order[i - 1]] + before.data.bytes.size()) {
        return Corruption(fmt::format("{}: tensors {} and {} overlap", path_, Quoted(before.name),
                                      Quoted((*tensors)[order[i]].name)));
      }
    }
    return Status::Ok();
  }

  const std::string& path_;
  Cursor in_;
  std::span<const std::byte> bytes_;
  uint64_t alignment_ = 32;
  uint64_t elements_ = 0;
  std::vector<uint64_t> offsets_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace

Result<GgufFile> GgufFile::OpenOne(const std::string& path) {
  GgufFile file;
  ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(path));
  RETURN_IF_ERROR(Parser(path, mapped->bytes()).Parse(&file.values_, &file.tensors_));
  file.files_.push_back(std::move(mapped));
  return file;
}

}  // namespace ringside
