#include "ws/app/app_template.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace ringside {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

}  // namespace

Result<ChatTemplate> ChooseTemplate(const std::string& wanted, std::string_view models_own, bool encoder,
                                    const ChatTemplate::Facts& facts) {
  const auto of_source = [&](std::string_view source) {
    return encoder ? ChatTemplate::ForEncoder(source, facts) : ChatTemplate::Recognise(source, facts);
  };
  if (wanted.empty() && models_own.empty() && !encoder) return ChatTemplate::Named("plain", facts);
  if (wanted.empty()) return of_source(models_own);
  const std::vector<std::string_view> names = ChatTemplate::Names();
  std::ifstream file;
  if (std::ranges::find(names, wanted) == names.end()) file.open(wanted, std::ios::binary);
  if (!file.is_open() && encoder) {
    return InvalidArgument("the model has an encoder: --chat-template requires a template file, not the name '" +
                           wanted + "'");
  }
  if (!file.is_open()) return ChatTemplate::Named(wanted, facts);  // the error for an unknown name lists the choices
  std::string source(kMaxFileBytes + 1, '\0');
  file.read(source.data(), static_cast<std::streamsize>(source.size()));
  source.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || source.empty() || source.size() > kMaxFileBytes) {
    return InvalidArgument(wanted + " is no file of at most 1 MiB with a chat template");
  }
  return of_source(source);
}

}  // namespace ringside
