#include "ws/fields/ignored_report.h"

namespace ringside {

constexpr size_t kMaxHeaderBytes = 2048;

void WriteIgnored(JsonWriter& json, const std::vector<std::string>& ignored) {
  if (ignored.empty()) return;
  json.Key("ignored").BeginArray();
  for (const std::string& field : ignored) json.Value(field);
  json.EndArray();
}

void WriteRingsideIgnored(JsonWriter& json, const std::vector<std::string>& ignored,
                          std::string_view incomplete_reason) {
  if (ignored.empty() && incomplete_reason.empty()) return;
  WriteIgnored(json.Key("ringside").BeginObject(), ignored);
  if (!incomplete_reason.empty()) json.Field("incomplete_reason", incomplete_reason);
  json.EndObject();
}

std::string RingsideIgnored(const std::vector<std::string>& ignored) {
  JsonWriter json;
  WriteRingsideIgnored(json, ignored);
  return json.Take();
}

std::string PrintableName(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c <= ' ' || c > '~' || c == ',' || c == '"' || c == '\\') c = '_';
  }
  return out;
}

void NoteIgnored(const SessionTableOptions& options, const std::string& owner,
                 const std::vector<std::string>& ignored) {
  if (!options.on_ignored) return;
  for (const std::string& name : ignored) options.on_ignored(owner, PrintableName(name));
}

HttpResponse Reported(HttpResponse answer, const SessionTableOptions& options, const HttpRequest& request,
                      const std::vector<std::string>& ignored) {
  if (ignored.empty()) return answer;
  NoteIgnored(options, request.principal, ignored);
  std::string names;
  for (const std::string& name : ignored) {
    if (names.size() + name.size() + 2 > kMaxHeaderBytes) break;
    names += (names.empty() ? "" : ", ") + PrintableName(name);
  }
  answer.headers.emplace_back("X-Ringside-Ignored", std::move(names));
  return answer;
}

}  // namespace ringside
