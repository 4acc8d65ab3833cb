// A Hugging Face folder's tokenizer. Input: tokenizer_config.json, generation_config.json, tokenizer.json.
#include "tests/fuzz/text/use_tokenizer.h"

namespace ringside {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const std::string name : {"bytes", "digits", "llama2", "llama3", "qwen2", "tekken", "unigram"}) {
    seeds.push_back(JoinParts(
        {R"({"bos_token":"<s>","eos_token":{"content":"<|im_end|>"},"add_bos_token":true,"chat_template":[{"name":"default","template":"x"}]})",
         R"({"eos_token_id":[1,2]})", ReadGolden("tokenizer/" + name + "/tokenizer.json")}));
  }
  seeds.push_back(JoinParts({"{}", "{}", R"re({"added_tokens":[{"id":3,"content":"ab","single_word":true,"lstrip":true,
"rstrip":true,"normalized":true,"special":false}],"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKD"},
{"type":"Lowercase"},{"type":"Replace","pattern":{"Regex":"[^\\S&&[\\h[:^alpha:]]]{1,3}+"},"content":"x"}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Punctuation","behavior":"Contiguous"},{"type":"Metaspace",
"replacement":"\u2581","prepend_scheme":"first","split":true},{"type":"ByteLevel","add_prefix_space":true},
{"type":"UnicodeScripts"},{"type":"FixedLength","length":3},{"type":"Split","pattern":{"Regex":"\\b(?m:.)|\\p{Letter}"},"behavior":
"MergedWithNext","invert":true}]},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}})re"}));
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const InputFolder folder;
  const auto parts = SplitParts(data, size, 3);
  folder.Write("tokenizer_config.json", parts[0]);
  folder.Write("generation_config.json", parts[1]);
  folder.Write("tokenizer.json", parts[2]);
  Result<TokenizerData> tokenizer = ReadHuggingFaceTokenizer(folder.path());
  if (tokenizer.ok()) UseTokenizer(std::move(*tokenizer));
  return 0;
}
