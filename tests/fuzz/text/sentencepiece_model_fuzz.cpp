// SentencePiece's own file.
#include "engine/text/files/tokenizer_texts.h"
#include "tests/fuzz/text/use_tokenizer.h"

namespace ringside {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const std::string name : {"sentencepiece", "unigram", "unigram_bytes"}) {
    seeds.push_back(ReadGolden("tokenizer/" + name + ".model"));
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  Result<TokenizerData> tokenizer = ReadSentencePieceModel({reinterpret_cast<const char*>(data), size});
  if (tokenizer.ok()) UseTokenizer(std::move(*tokenizer));
  // The file as XGLM uses it, with different ids.
  static const InputFolder folder;
  folder.Write("sentencepiece.bpe.model", {reinterpret_cast<const char*>(data), size});
  Result<TokenizerData> numbered = ReadHuggingFaceTokenizer(folder.path());
  if (numbered.ok()) UseTokenizer(std::move(*numbered));
  return 0;
}
