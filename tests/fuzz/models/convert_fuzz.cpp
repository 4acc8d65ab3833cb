// The converter on damaged files. Input: a GGUF file; or config.json and, after a separator, model.safetensors. Every
// file that opens is written in every format, or refused.
#include <filesystem>

#include "engine/convert/convert.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {ReadGolden("families/gpt_neox/model.gguf"), ReadGolden("qwen3/model.gguf"),
                                    ReadGolden("encoders/t5_gated/model.gguf")};
  for (const std::string family :
       {"families/gpt_neox", "families/opt", "families/bloom", "families/gptj", "encoders/t5", "encoders/t5_gated"}) {
    seeds.push_back(JoinParts({ReadGolden(family + "/config.json"), ReadGolden(family + "/model.safetensors")}));
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  using Format = ModelFiles::Format;
  static const InputFolder folder;
  const auto parts = SplitParts(data, size, 2);
  const bool gguf = parts[1].empty();
  std::string from = folder.path();
  if (gguf) {
    from = folder.Write("m.gguf", parts[0]);
  } else {
    folder.Write("config.json", parts[0]);
    folder.Write("model.safetensors", parts[1]);
  }
  for (const Format format : {Format::kGguf, Format::kSafetensors, Format::kFasterTransformer}) {
    const std::string to = folder.path() + "/to";
    (void)Convert({.from = from, .to = to, .format = format, .gpus = format == Format::kFasterTransformer ? 2 : 1});
    std::filesystem::remove_all(to);
  }
  return 0;
}
