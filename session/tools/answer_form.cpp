#include "session/tools/answer_form.h"

#include "base/bytes.h"
#include "base/limits.h"

namespace ringside {

std::string Encode(const AnswerForm& form) {
  const auto& [format, choice] = form;
  const bool any_calls = choice.mode == ToolChoice::Mode::kAuto && choice.names.empty() && choice.several;
  if (format.kind == AnswerFormat::Kind::kText && any_calls) return "";
  ByteWriter out;
  out.Byte(static_cast<uint8_t>(format.kind));
  out.String(format.text);
  out.String(format.param);
  out.Byte(static_cast<uint8_t>(choice.mode));
  out.Bool(choice.several);
  out.Unsigned(choice.names.size());
  for (const std::string& name : choice.names) out.String(name);
  return out.Take();
}

Result<AnswerForm> DecodeAnswerForm(std::string_view bytes) {
  AnswerForm form;
  if (bytes.empty()) return form;
  ByteReader in(bytes);
  form.format.kind = in.Enum(AnswerFormat::Kind::kGbnf);
  form.format.text = in.String();
  form.format.param = in.String();
  form.choice.mode = in.Enum(ToolChoice::Mode::kRequired);
  form.choice.several = in.Bool();
  const size_t names = in.Count();
  if (names > static_cast<size_t>(limits::kMaxTools)) return Corruption("session: a choice among too many tools");
  form.choice.names.resize(names);
  for (std::string& name : form.choice.names) name = in.String();
  if (!in.done()) return Corruption("session: no form of an answer");
  return form;
}

}  // namespace ringside
