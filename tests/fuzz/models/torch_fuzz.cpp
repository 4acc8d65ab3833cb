// Checkpoints of Megatron-LM and NeMo. Input: a .nemo archive; or a pickle as written by torch.save and, after a
// separator, the bytes of each tensor in turn.
#include "engine/import/archive_reader.h"
#include "engine/import/torch_reader.h"
#include "engine/model/weights/model_files.h"
#include "engine/model/weights/weights.h"
#include "tests/engine/files/stored_zip.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A file's pickle, and a few bytes for each of its tensors.
std::string Pickle(std::string_view file) {
  const ArchiveMembers members = ReadZip(std::as_bytes(std::span(file)), "seed").value();
  for (const auto& [name, bytes] : members) {
    if (name.ends_with("/data.pkl")) return JoinParts({std::string(TextOf(bytes)), std::string(64, '\1')});
  }
  return "";
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string nemo = ReadGolden("megatron/gpt.nemo");
  const ArchiveMembers members = ReadTar(std::as_bytes(std::span(nemo)), "seed").value();
  return {nemo, Pickle(ReadGolden("megatron/iter_0000100/mp_rank_00/model_optim_rng.pt")),
          Pickle(TextOf(members.at("model_weights.ckpt")))};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const auto parts = SplitParts(data, size);
  if (parts.size() < 2) {
    static const InputFolder folder;
    const auto files = OpenModelFiles(folder.Write("m.nemo", {reinterpret_cast<const char*>(data), size}));
    if (files.ok()) (void)CheckTensors(files->plan, files->tensors, files->unsupported);
    return 0;
  }
  std::vector<std::pair<std::string, std::string>> members = {{"m/data.pkl", std::string(parts[0])}};
  for (size_t i = 0; i < 40; ++i) {
    members.emplace_back("m/data/" + std::to_string(i), std::string(parts[std::min(i + 1, parts.size() - 1)]));
  }
  const std::string zip = StoredZip(members);
  (void)TorchFile::Read(std::as_bytes(std::span(zip)), "input");
  return 0;
}
