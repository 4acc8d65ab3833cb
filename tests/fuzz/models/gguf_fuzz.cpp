// GGUF files: everything read from one at startup.
#include "engine/files/gguf_reader.h"
#include "engine/model/model.h"
#include "engine/sampling/sampling_defaults.h"
#include "kernels/backend.h"
#include "session/chat/templates/chat_template.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/text/use_tokenizer.h"

namespace ringside {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {ReadGolden("gguf_q8_0/model.gguf"),     ReadGolden("gguf_k_quants/model.gguf"),
                                    ReadGolden("gguf_low_bits/model.gguf"), ReadGolden("gguf_codebooks/model.gguf"),
                                    ReadGolden("tokenizer/llama3.gguf"),    ReadGolden("tokenizer/sentencepiece.gguf")};
  for (const std::string& family : GoldenFamiliesWith("model.gguf"))
    seeds.push_back(ReadGolden(family + "/model.gguf"));
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const InputFolder folder;
  static const std::unique_ptr<Backend> backend = std::move(MakeCpuBackend({.threads = 1}).value());
  const std::string path = folder.Write("model.gguf", {reinterpret_cast<const char*>(data), size});
  const Result<GgufFile> file = GgufFile::Open(path);
  if (!file.ok()) return 0;
  (void)ReadSamplingDefaults(path);
  Result<TokenizerData> tokenizer = ReadGgufTokenizer(*file);
  if (tokenizer.ok()) UseTokenizer(std::move(*tokenizer));
  const Result<std::unique_ptr<Model>> model = Model::Load(path, *backend);
  if (model.ok()) (void)ChatTemplate::Recognise((*model)->chat_template(), {});
  return 0;
}
