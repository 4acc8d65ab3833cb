#include "session/tools/answer_form.h"

#include "base/bytes.h"
#include "base/limits.h"

namespace ringside {
namespace {

// First byte of an encoded format: its kind, and this flag if it has a name.
constexpr uint8_t kHasName = 8;

}  // namespace

std::string Encode(const AnswerForm& form) {
  const auto& [format, choice] = form;
  const bool any_calls = choice.mode == ToolChoice::Mode::kAuto && choice.names.empty() && choice.several;
  if (format.kind == AnswerFormat::Kind::kText && any_calls) return "";
  ByteWriter out;
  out.Byte(static_cast<uint8_t>(static_cast<uint8_t>(format.kind) | (format.name.empty() ? 0 : kHasName)));
  out.String(format.text);
  out.String(format.param);
  if (!format.name.empty()) out.String(format.name);
  out.Byte(static_cast<uint8_t>(choice.mode));
  out.Bool(choice.takes_several());
  out.Unsigned(choice.names.size());
  for (const std::string& name : choice.names) out.String(name);
  return out.Take();
}

Result<AnswerForm> DecodeAnswerForm(std::string_view bytes) {
  AnswerForm form;
  if (bytes.empty()) return form;
  ByteReader in(bytes);
  constexpr auto kLastKind = static_cast<uint8_t>(AnswerFormat::Kind::kGbnf);
  const uint8_t kind = in.Enum<uint8_t>(kHasName + kLastKind);
  if (kind % kHasName > kLastKind) return Corruption("session: unknown answer format");
  form.format.kind = static_cast<AnswerFormat::Kind>(kind % kHasName);
  form.format.text = in.String();
  form.format.param = in.String();
  if (kind >= kHasName) form.format.name = in.String();
  form.choice.mode = in.Enum(ToolChoice::Mode::kRequired);
  form.choice.several = form.choice.parallel = in.Bool();
  const size_t names = in.Count();
  if (names > static_cast<size_t>(limits::kMaxTools))
    return Corruption("session: the tool choice lists too many tools");
  form.choice.names.resize(names);
  for (std::string& name : form.choice.names) name = in.String();
  if (!in.done()) return Corruption("session: invalid answer format");
  return form;
}

}  // namespace ringside
