// A model in several GGUF files. Input: two parts.
#include <algorithm>

#include "engine/files/gguf_reader.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

std::string Part(uint16_t number) {
  GgufFileWriter writer;
  if (number == 0) writer.String("general.architecture", "llama");
  writer.Key("split.no", 2, GgufFileWriter::Bytes(number)).Key("split.count", 2, GgufFileWriter::Bytes(uint16_t{2}));
  writer.Key("split.tensors.count", 5, GgufFileWriter::Bytes(int32_t{2}));
  return writer.Ones(number == 0 ? "a" : "b", {4}).Finish();
}

}  // namespace

std::vector<std::string> Seeds() { return {JoinParts({Part(0), Part(1)}), JoinParts({Part(0), Part(0)})}; }

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const InputFolder folder;
  const auto parts = SplitParts(data, size, 2);
  const std::string first = folder.Write("m-00001-of-00002.gguf", parts[0]);
  const std::string second = folder.Write("m-00002-of-00002.gguf", parts[1]);
  const Result<GgufFile> whole = GgufFile::Open(first), by_second = GgufFile::Open(second);
  if (!whole.ok() || !by_second.ok() || whole->Int("split.count").value_or(1) < 2) return 0;
  Require(whole->tensors().size() == by_second->tensors().size(), "either part opens both");
  for (size_t i = 0; i < whole->tensors().size(); ++i) {
    const FileTensor &a = whole->tensors()[i], &b = by_second->tensors()[i];
    Require(a.name == b.name && std::ranges::equal(a.data.bytes, b.data.bytes), "either part has the same tensors");
  }
  return 0;
}
