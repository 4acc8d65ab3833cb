// Parser of SentencePiece's protocol buffer: reads the relevant fields and skips the others.
#include <bit>
#include <string>

#include "base/bytes.h"
#include "engine/text/files/tokenizer_texts.h"

namespace ringside {
namespace {

using TokenType = TokenizerData::TokenType;

Status MalformedModel(const std::string& what) { return InvalidArgument("SentencePiece model: " + what); }
Status Unsupported(const std::string& what) { return MalformedModel(what + " is not supported"); }

// One field of a message (protobuf.dev, "Encoding"). Only the wire types of proto2.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;      // bits of a number
  std::string_view bytes;  // of a string or message
};

// False at the end of the message (`in` is then done) and for a malformed field.
bool ReadField(ByteReader* in, Field* field) {
  if (in->rest().empty()) return false;
  ByteReader next = *in;
  const uint64_t tag = next.Unsigned();
  *field = {.number = tag >> 3};
  switch (tag & 7) {
    case 0:
      field->value = next.Unsigned();
      break;
    case 1:
      field->value = next.Fixed64();
      break;
    case 2:
      field->bytes = next.View();
      break;
    case 5:
      for (int i = 0; i < 4; ++i) field->value |= static_cast<uint64_t>(next.Byte()) << (8 * i);
      break;
    default:
      return false;
  }
  *in = next;
  return in->ok();
}

Status ReadPiece(std::string_view message, TokenizerData* data) {
  static constexpr TokenType kTypes[] = {TokenType::kNormal,      TokenType::kUnknown, TokenType::kControl,
                                         TokenType::kUserDefined, TokenType::kUnused,  TokenType::kByte};
  std::string_view name;
  float score = 0;
  uint64_t type = 1;
  ByteReader in(message);
  for (Field field; ReadField(&in, &field);) {
    if (field.number == 1) name = field.bytes;
    if (field.number == 2) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3) type = field.value;
  }
  if (!in.done()) return MalformedModel("a piece is truncated");
  if (type < 1 || type > std::size(kTypes))
    return MalformedModel("a piece has the unknown type " + std::to_string(type));
  if (data->tokens.size() == kMaxFileTokens) return MalformedModel("it has too many pieces");
  data->tokens.emplace_back(name);
  data->scores.push_back(score);
  data->types.push_back(kTypes[type - 1]);
  return Status::Ok();
}

struct EndPieces {
  std::string bos = "<s>", eos = "</s>";
};

Status ReadTrainerSpec(std::string_view message, TokenizerData* data, EndPieces* ends) {
  uint64_t model = 1, suffix = 0;
  ByteReader in(message);
  for (Field field; ReadField(&in, &field);) {
    if (field.number == 3) model = field.value;
    if (field.number == 24) suffix = field.value;
    if (field.number == 46) ends->bos = field.bytes;
    if (field.number == 47) ends->eos = field.bytes;
  }
  if (!in.done()) return MalformedModel("its trainer_spec is truncated");
  if (model != 1 && model != 2) return Unsupported("model_type " + std::to_string(model) + " (unigram, BPE are)");
  if (suffix != 0) return Unsupported("treat_whitespace_as_suffix");
  data->kind = model == 1 ? TokenizerData::Kind::kUnigram : TokenizerData::Kind::kSentencePieceBpe;
  return Status::Ok();
}

Status ReadNormalizerSpec(std::string_view message, TokenizerData* data) {
  uint64_t dummy_prefix = 1, remove_extra = 1, escape = 1;
  ByteReader in(message);
  for (Field field; ReadField(&in, &field);) {
    if (field.number == 2) data->charsmap = field.bytes;
    if (field.number == 3) dummy_prefix = field.value;
    if (field.number == 4) remove_extra = field.value;
    if (field.number == 5) escape = field.value;
  }
  if (!in.done()) return MalformedModel("its normalizer_spec is truncated");
  if (escape == 0) return Unsupported("escape_whitespaces = false");
  const bool extra = remove_extra != 0;
  data->white_space = {.trim_front = extra, .trim_back = extra, .collapse = extra, .prefix = dummy_prefix != 0};
  return Status::Ok();
}

std::optional<TokenId> FindControl(const TokenizerData& data, std::string_view name) {
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (data.types[i] == TokenType::kControl && data.tokens[i] == name) return static_cast<TokenId>(i);
  }
  return std::nullopt;
}

}  // namespace

Result<TokenizerData> ReadSentencePieceModel(std::string_view bytes) {
  TokenizerData data;
  EndPieces ends;
  std::string_view trainer, normalizer;  // missing fields have their defaults
  ByteReader in(bytes);
  for (Field field; ReadField(&in, &field);) {
    if (field.number == 1) RETURN_IF_ERROR(ReadPiece(field.bytes, &data));
    if (field.number == 2) trainer = field.bytes;
    if (field.number == 3) normalizer = field.bytes;
  }
  if (!in.done()) return MalformedModel("it is truncated, or not a protocol buffer");
  if (data.tokens.empty()) return MalformedModel("it has no pieces");
  RETURN_IF_ERROR(ReadTrainerSpec(trainer, &data, &ends));
  RETURN_IF_ERROR(ReadNormalizerSpec(normalizer, &data));
  for (size_t i = 0; i < data.types.size(); ++i) {
    if (data.types[i] != TokenType::kUnknown) continue;
    if (data.unknown) return MalformedModel("it has two unknown pieces");
    data.unknown = static_cast<TokenId>(i);
  }
  data.bos = FindControl(data, ends.bos);
  data.eos = FindControl(data, ends.eos);
  if (data.kind == TokenizerData::Kind::kSentencePieceBpe) data.text_begin = data.bos;
  return data;
}

}  // namespace ringside
