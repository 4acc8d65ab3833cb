#include "engine/import/torch_reader.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "engine/import/archive_reader.h"

namespace ringside {
namespace {

constexpr size_t kMaxPickleBytes = 16 << 20;
constexpr size_t kMaxObjects = 1 << 20;  // each takes about 100 bytes
constexpr size_t kMaxDictionaryKeyBytes = 256, kMaxTextBytes = 64 << 20;
constexpr int kMaxDepth = 16;  // nesting of dictionaries

using Bytes = std::span<const std::byte>;

// An object of a pickle, in a table: objects refer to each other by index, so that destruction never recurses.
struct Object {
  enum class Kind { kUnknown, kBool, kInt, kFloat, kText, kList, kDict, kGlobal, kStorage, kTensor };
  Kind kind = Kind::kUnknown;
  int64_t number = 0;  // kBool, kInt
  double real = 0;     // kFloat
  std::string text;    // kText; kGlobal: module and name
  std::vector<uint32_t>
      items;  // kList (and tuples); kDict: alternating keys and values; kTensor: storage, offset, sizes, strides
};

std::optional<DType> TypeOf(std::string_view storage) {
  if (storage == "torch.FloatStorage") return DType::kF32;
  if (storage == "torch.HalfStorage") return DType::kF16;
  if (storage == "torch.BFloat16Storage") return DType::kBF16;
  return std::nullopt;
}

class Unpickler {
 public:
  Unpickler(Bytes bytes, std::vector<Object>* objects) : rest_(bytes), objects_(*objects) {}

  /// Index of the outermost object; nullopt if the pickle is damaged or has an opcode that torch.save never writes.
  std::optional<uint32_t> Run() {
    for (uint8_t opcode = 0; ReadRaw(&opcode);) {
      if (opcode == '.') return stack_.empty() ? std::nullopt : std::optional(stack_.back());
      if (!Do(opcode)) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  using Kind = Object::Kind;

  template <class T>
  bool ReadRaw(T* value) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return true;
  }
  bool TakeText(size_t bytes, std::string* text) {
    if (bytes > rest_.size()) return false;
    text->assign(reinterpret_cast<const char*>(rest_.data()), bytes);
    rest_ = rest_.subspan(bytes);
    return true;
  }
  bool TakeLine(std::string* text) {
    const std::string_view all(reinterpret_cast<const char*>(rest_.data()), rest_.size());
    const size_t end = all.find('\n');
    if (end > 256 || !TakeText(end, text)) return false;
    rest_ = rest_.subspan(1);
    return true;
  }

  bool Push(Object object) {
    if (objects_.size() >= kMaxObjects) return false;
    stack_.push_back(static_cast<uint32_t>(objects_.size()));
    objects_.push_back(std::move(object));
    return true;
  }
  bool PushInt(int64_t number) { return Push({.kind = Kind::kInt, .number = number}); }
  bool Pop(uint32_t* place) {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) return false;
    *place = stack_.back();
    stack_.pop_back();
    return true;
  }
  /// Pops the last `count` objects, or all after the last mark.
  bool PopItems(size_t count, std::vector<uint32_t>* items) {
    if (count > stack_.size() || (!marks_.empty() && stack_.size() - count < marks_.back())) return false;
    items->assign(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return true;
  }
  bool PopMarked(std::vector<uint32_t>* items) {
    if (marks_.empty()) return false;
    const size_t mark = marks_.back();
    marks_.pop_back();
    items->assign(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark);
    return true;
  }
  bool PushTuple(size_t count) {
    Object tuple{.kind = Kind::kList};
    return PopItems(count, &tuple.items) && Push(std::move(tuple));
  }

  /// Adds items to the object at the top of the stack.
  bool Extend(Kind kind, const std::vector<uint32_t>& items) {
    if (stack_.empty() || (kind == Kind::kDict && items.size() % 2 != 0)) return false;
    Object& object = objects_[stack_.back()];
    if (object.kind == kind) object.items.insert(object.items.end(), items.begin(), items.end());
    return object.kind == kind || object.kind == Kind::kUnknown;
  }

  // BUILD: attributes of a Namespace, stored as a dictionary.
  bool Build() {
    uint32_t state = 0;
    if (!Pop(&state) || stack_.empty()) return false;
    Object& object = objects_[stack_.back()];
    if (object.kind == Kind::kDict && object.items.empty() && objects_[state].kind == Kind::kDict) {
      // Swap, never copy: a pickle can reference one state any number of times.
      object.items.swap(objects_[state].items);
    }
    return true;
  }

  // Evaluates calls of a few known functions; the result of any other is unknown.
  bool Call() {
    uint32_t place = 0, called = 0;
    if (!Pop(&place) || !Pop(&called)) return false;
    const std::string& name = objects_[called].text;
    const std::vector<uint32_t>& given = objects_[place].items;
    if (objects_[called].kind != Kind::kGlobal || objects_[place].kind != Kind::kList) return Push({});
    if (name == "collections.OrderedDict" || name == "argparse.Namespace") return Push({.kind = Kind::kDict});
    if (name == "torch._utils._rebuild_parameter" && !given.empty()) return stack_.push_back(given[0]), true;
    if (name != "torch._utils._rebuild_tensor_v2" || given.size() < 4) return Push({});
    const bool fits = objects_[given[0]].kind == Kind::kStorage && objects_[given[1]].kind == Kind::kInt &&
                      objects_[given[2]].kind == Kind::kList && objects_[given[3]].kind == Kind::kList;
    return fits ? Push({.kind = Kind::kTensor, .items = {given[0], given[1], given[2], given[3]}}) : Push({});
  }

  // ("storage", type, key, device, elements)
  bool Persistent() {
    uint32_t place = 0;
    if (!Pop(&place)) return false;
    const std::vector<uint32_t>& items = objects_[place].items;
    const bool fits = objects_[place].kind == Kind::kList && items.size() == 5 &&
                      objects_[items[1]].kind == Kind::kGlobal && objects_[items[2]].kind == Kind::kText;
    return fits ? Push({.kind = Kind::kStorage, .items = {items[1], items[2]}}) : Push({});
  }

  bool Memorise(uint32_t key) {
    if (stack_.empty() || key >= kMaxObjects) return false;
    if (key >= memo_.size()) memo_.resize(key + 1, UINT32_MAX);
    memo_[key] = stack_.back();
    return true;
  }
  bool Recall(uint32_t key) {
    if (key >= memo_.size() || memo_[key] == UINT32_MAX) return false;
    stack_.push_back(memo_[key]);
    return true;
  }

  bool DoNumber(uint8_t opcode) {
    uint8_t byte = 0;
    uint16_t two = 0;
    int32_t four = 0;
    uint64_t eight = 0;
    switch (opcode) {
      case 'K':  // BININT1
        return ReadRaw(&byte) && PushInt(byte);
      case 'M':  // BININT2
        return ReadRaw(&two) && PushInt(two);
      case 'J':  // BININT
        return ReadRaw(&four) && PushInt(four);
      case 'G':  // BINFLOAT, big-endian
        return ReadRaw(&eight) && Push({.kind = Kind::kFloat, .real = std::bit_cast<double>(__builtin_bswap64(eight))});
      default: {  // LONG1: little-endian, of any length; more than 64 bits is never a value that we need
        std::string digits;
        if (!ReadRaw(&byte) || !TakeText(byte, &digits)) return false;
        if (digits.size() > 8) return Push({});
        uint64_t value = !digits.empty() && (digits.back() & 0x80) != 0 ? UINT64_MAX : 0;
        std::memcpy(&value, digits.data(), digits.size());
        return PushInt(static_cast<int64_t>(value));
      }
    }
  }

  bool DoText(uint8_t opcode) {
    uint8_t byte = 0;
    uint32_t four = 0;
    Object object{.kind = Kind::kText};
    if (opcode == 'U') return ReadRaw(&byte) && TakeText(byte, &object.text) && Push(std::move(object));
    if (opcode != 'c') return ReadRaw(&four) && TakeText(four, &object.text) && Push(std::move(object));
    std::string name;
    object.kind = Kind::kGlobal;
    if (!TakeLine(&object.text) || !TakeLine(&name)) return false;
    object.text += "." + name;
    return Push(std::move(object));
  }

  bool Do(uint8_t opcode) {
    uint8_t byte = 0;
    uint32_t four = 0, place = 0;
    std::vector<uint32_t> items;
    switch (opcode) {
      case 0x80:  // PROTO
        return ReadRaw(&byte) && byte == 2;
      case '(':  // MARK
        if (marks_.size() >= kMaxObjects) return false;
        return marks_.push_back(stack_.size()), true;
      case '}':  // EMPTY_DICT
        return Push({.kind = Kind::kDict});
      case ']':  // EMPTY_LIST
      case ')':  // EMPTY_TUPLE
        return Push({.kind = Kind::kList});
      case 0x85:  // TUPLE1, TUPLE2, TUPLE3
      case 0x86:
      case 0x87:
        return PushTuple(opcode - 0x84u);
      case 't':  // TUPLE
        return PopMarked(&items) && Push({.kind = Kind::kList, .items = std::move(items)});
      case 'q':  // BINPUT
        return ReadRaw(&byte) && Memorise(byte);
      case 'r':  // LONG_BINPUT
        return ReadRaw(&four) && Memorise(four);
      case 'h':  // BINGET
        return ReadRaw(&byte) && Recall(byte);
      case 'j':  // LONG_BINGET
        return ReadRaw(&four) && Recall(four);
      case 'N':  // NONE
        return Push({});
      case 0x88:  // NEWTRUE, NEWFALSE
      case 0x89:
        return Push({.kind = Kind::kBool, .number = opcode == 0x88});
      case 's':  // SETITEM
        return PopItems(2, &items) && Extend(Kind::kDict, items);
      case 'u':  // SETITEMS
        return PopMarked(&items) && Extend(Kind::kDict, items);
      case 'a':  // APPEND
        return PopItems(1, &items) && Extend(Kind::kList, items);
      case 'e':  // APPENDS
        return PopMarked(&items) && Extend(Kind::kList, items);
      case 'R':   // REDUCE
      case 0x81:  // NEWOBJ
        return Call();
      case 'b':  // BUILD
        return Build();
      case 'Q':  // BINPERSID
        return Persistent();
      case '0':  // POP
        return Pop(&place);
      case 'K':
      case 'M':
      case 'J':
      case 'G':
      case 0x8a:
        return DoNumber(opcode);
      case 'X':  // BINUNICODE, BINSTRING, SHORT_BINSTRING, GLOBAL
      case 'T':
      case 'U':
      case 'c':
        return DoText(opcode);
      default:
        return false;
    }
  }

  Bytes rest_;
  std::vector<Object>& objects_;
  std::vector<uint32_t> stack_, memo_;
  std::vector<size_t> marks_;
};

// Flattens the outermost dictionary into paths.
class ObjectFlattener {
 public:
  using Kind = Object::Kind;

  ObjectFlattener(const std::vector<Object>& objects, const ArchiveMembers& members, std::string folder,
                  std::string source)
      : objects_(objects), members_(members), folder_(std::move(folder)), source_(std::move(source)) {}

  Status Add(uint32_t place, const std::string& path, int depth,
             std::map<std::string, TorchFile::Value, std::less<>>* out) {
    const Object& object = objects_[place];
    text_bytes_ += path.size() + object.text.size();
    if (++visited_ > kMaxObjects || text_bytes_ > kMaxTextBytes) {
      return Corruption(fmt::format("{}: more than {} objects or {} bytes of text after shared references are expanded",
                                    source_, kMaxObjects, kMaxTextBytes));
    }
    switch (object.kind) {
      case Kind::kBool:
        out->emplace(path, object.number != 0);
        break;
      case Kind::kInt:
        out->emplace(path, object.number);
        break;
      case Kind::kFloat:
        out->emplace(path, object.real);
        break;
      case Kind::kText:
        out->emplace(path, object.text);
        break;
      case Kind::kTensor: {
        ASSIGN_OR_RETURN(std::optional<FileTensor> tensor, ReadTensor(object, path));
        if (tensor) out->emplace(path, std::move(*tensor));
        break;
      }
      case Kind::kDict:
        for (size_t i = 0; depth < kMaxDepth && i + 1 < object.items.size(); i += 2) {
          const Object& key = objects_[object.items[i]];
          if (key.kind != Kind::kText || key.text.size() > kMaxDictionaryKeyBytes) {
            if (++visited_ > kMaxObjects) break;
            continue;
          }
          RETURN_IF_ERROR(Add(object.items[i + 1], path.empty() ? key.text : path + "." + key.text, depth + 1, out));
        }
        break;
      default:
        break;
    }
    return Status::Ok();
  }

 private:
  std::optional<std::vector<int64_t>> Numbers(uint32_t place) const {
    std::vector<int64_t> out;
    for (const uint32_t item : objects_[place].items) {
      if (objects_[item].kind != Kind::kInt || out.size() == 8) return std::nullopt;
      out.push_back(objects_[item].number);
    }
    return out;
  }

  Result<std::optional<FileTensor>> ReadTensor(const Object& object, const std::string& path) const {
    const auto damaged = [&](const std::string& what) {
      return Corruption(fmt::format("{}: tensor '{}' {}", source_, path, what));
    };
    const Object& storage = objects_[object.items[0]];
    const auto dtype = TypeOf(objects_[storage.items[0]].text);
    if (!dtype) return std::optional<FileTensor>();
    const auto sizes = Numbers(object.items[2]), strides = Numbers(object.items[3]);
    if (!sizes || !strides || sizes->size() != strides->size() || sizes->empty()) {
      return std::optional<FileTensor>();  // a scalar, for example
    }
    int64_t elements = 1;
    bool in_order = true;
    for (size_t i = sizes->size(); i-- > 0;) {
      const int64_t size = (*sizes)[i];
      if (size < 1 || size > (int64_t{1} << 48) / elements) return damaged(fmt::format("has a dimension of {}", size));
      in_order = in_order && (size == 1 || (*strides)[i] == elements);
      elements *= size;
    }
    if (!in_order) {
      return InvalidArgument(fmt::format("{}: tensor '{}' is not contiguous", source_, path));
    }
    const auto found = members_.find(folder_ + "data/" + objects_[storage.items[1]].text);
    if (found == members_.end()) return damaged("has no data");
    const int64_t offset = objects_[object.items[1]].number, width = StorageBytes(*dtype, 1);
    const auto held = static_cast<int64_t>(found->second.size()) / width;
    if (offset < 0 || offset > held || elements > held - offset) return damaged("reaches past its data");
    const auto bytes =
        found->second.subspan(static_cast<size_t>(offset * width), static_cast<size_t>(elements * width));
    return std::optional(
        FileTensor{.name = path, .shape = *sizes, .data = {*dtype, elements / sizes->back(), sizes->back(), bytes}});
  }

  const std::vector<Object>& objects_;
  const ArchiveMembers& members_;
  const std::string folder_, source_;
  size_t visited_ = 0, text_bytes_ = 0;  // of paths, and of copied texts
};

}  // namespace

Result<TorchFile> TorchFile::Read(Bytes archive, const std::string& source) {
  ASSIGN_OR_RETURN(const ArchiveMembers members, ReadZip(archive, source));
  constexpr std::string_view kPickle = "/data.pkl";
  for (const auto& [name, bytes] : members) {
    if (!name.ends_with(kPickle)) continue;
    const std::string folder = name.substr(0, name.size() - kPickle.size() + 1);
    const auto order = members.find(folder + "byteorder");
    if (order != members.end() && order->second.size() == 3) {  // "big"
      return InvalidArgument(source + ": written in big-endian byte order");
    }
    if (bytes.size() > kMaxPickleBytes) return InvalidArgument(source + ": its pickle is longer than 16 MiB");
    std::vector<Object> objects;
    const auto outermost = Unpickler(bytes, &objects).Run();
    if (!outermost) return Corruption(source + ": its pickle is damaged or was not written by torch.save");
    TorchFile file;
    RETURN_IF_ERROR(ObjectFlattener(objects, members, folder, source).Add(*outermost, "", 0, &file.values_));
    return file;
  }
  return Corruption(source + ": has no data.pkl");
}

}  // namespace ringside
