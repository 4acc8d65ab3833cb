// Mistral's tekken.json.
#include "engine/text/files/tokenizer_texts.h"
#include "tests/fuzz/text/use_tokenizer.h"

namespace ringside {

std::vector<std::string> Seeds() { return {ReadGolden("tokenizer/mistral_tekken/tekken.json")}; }

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  Result<TokenizerData> tokenizer = ReadTekken({reinterpret_cast<const char*>(data), size});
  if (tokenizer.ok()) UseTokenizer(std::move(*tokenizer));
  return 0;
}
