#include "engine/text/tokenizer_facts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace ringside {
namespace {

constexpr std::array<std::string_view, 9> kTurnEnders = {"<|im_end|>",    "<|eot_id|>",    "<|eom_id|>",
                                                         "<|end|>",       "<|return|>",    "<|call|>",
                                                         "<end_of_turn>", "<|endoftext|>", "</s>"};

}  // namespace

bool IsMarkupSpelling(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kOthers = {
      "<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<mask>"};
  if (std::ranges::find(kOthers, name) != kOthers.end()) return true;
  if (name.size() < 5 || !name.starts_with("<|") || !name.ends_with("|>")) return false;
  return name.find(' ') == std::string_view::npos && name.find("|>") == name.size() - 2;
}

bool IsPartOfAnswers(std::string_view name) {
  // Markup of engine/grammar/tools/tool_syntax.cpp that vocabularies define as special tokens.
  static constexpr std::array<std::string_view, 32> kNames = {"[TOOL_CALLS]",
                                                              "｜DSML｜",
                                                              "[CALL_ID]",
                                                              "[ARGS]",
                                                              "<｜tool▁calls▁begin｜>",
                                                              "<｜tool▁calls▁end｜>",
                                                              "<｜tool▁call▁begin｜>",
                                                              "<｜tool▁call▁end｜>",
                                                              "<｜tool▁sep｜>",
                                                              "<|tool_calls_section_begin|>",
                                                              "<|tool_calls_section_end|>",
                                                              "<|tool_call_begin|>",
                                                              "<|tool_call_argument_begin|>",
                                                              "<|tool_call_end|>",
                                                              "<|tool_call|>",
                                                              "<|/tool_call|>",
                                                              "<|START_ACTION|>",
                                                              "<|END_ACTION|>",
                                                              "<|tool_call_start|>",
                                                              "<tool_call>",
                                                              "</tool_call>",
                                                              "<minimax:tool_call>",
                                                              "</minimax:tool_call>",
                                                              "<seed:tool_call>",
                                                              "</seed:tool_call>",
                                                              "<|tool_call>",
                                                              "<tool_call|>",
                                                              "<arg_key>",
                                                              "</arg_key>",
                                                              "<arg_value>",
                                                              "</arg_value>",
                                                              "<|\"|>"};
  return std::ranges::find(kNames, name) != kNames.end();
}

std::optional<uint8_t> ByteOfToken(std::string_view name) {
  if (name.size() != 6 || !name.starts_with("<0x") || name.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(name.data() + 3, name.data() + 5, byte, 16);
  if (error != std::errc() || end != name.data() + 5) return std::nullopt;
  return byte;
}

void CompleteSpecialTokens(TokenizerData* data) {
  using TokenType = TokenizerData::TokenType;
  if (data->types.empty()) data->types.assign(data->tokens.size(), TokenType::kNormal);
  const size_t count = std::min(data->tokens.size(), data->types.size());
  for (size_t i = 0; i < count; ++i) {
    TokenType& type = data->types[i];
    const std::string& name = data->tokens[i];
    if ((type == TokenType::kNormal || type == TokenType::kUserDefined) && IsMarkupSpelling(name)) {
      type = TokenType::kControl;
    }
    if (type == TokenType::kControl && std::ranges::find(kTurnEnders, name) != kTurnEnders.end()) {
      data->end_of_turn.push_back(static_cast<TokenId>(i));
    }
  }
  if (data->eos) data->end_of_turn.push_back(*data->eos);
  std::erase_if(data->end_of_turn,
                [&](TokenId id) { return id < 0 || static_cast<size_t>(id) >= data->tokens.size(); });
  std::ranges::sort(data->end_of_turn);
  const auto repeated = std::ranges::unique(data->end_of_turn);
  data->end_of_turn.erase(repeated.begin(), repeated.end());
}

}  // namespace ringside
