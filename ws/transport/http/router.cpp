#include <algorithm>

#include "ws/transport/http/http.h"

namespace ringside {
namespace {

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> segments;
  size_t start = 1;
  while (start <= path.size()) {
    const size_t slash = std::min(path.find('/', start), path.size());
    segments.emplace_back(path.substr(start, slash - start));
    start = slash + 1;
  }
  return segments;
}

bool IsParameter(const std::string& segment) {
  return segment.size() >= 2 && segment.front() == '{' && segment.back() == '}';
}

/// False for a value that holds what HttpTarget leaves encoded, but for slashes where they are allowed.
bool DecodeValue(bool escaped_slashes, std::string& value) {
  for (size_t at = value.find('%'); at != std::string::npos; at = value.find('%', at + 1)) {
    const std::string_view escape = std::string_view(value).substr(at, 3);
    if (!escaped_slashes || (escape != "%2F" && escape != "%2f")) return false;
    value.replace(at, escape.size(), "/");
  }
  return true;
}

}  // namespace

bool Router::Match(const Entry& entry, const std::vector<std::string>& path, Parameters& values) {
  const std::vector<std::string>& pattern = entry.segments;
  values.clear();
  if (pattern.size() != path.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (IsParameter(pattern[i])) {
      if (path[i].empty()) return false;
      values.push_back(path[i]);
      if (!DecodeValue(entry.escaped_slashes, values.back())) return false;
    } else if (pattern[i] != path[i]) {
      return false;
    }
  }
  return true;
}

void Router::AllowEscapedSlashes(const std::string& pattern) {
  for (Entry& entry : entries_) entry.escaped_slashes = entry.escaped_slashes || entry.pattern == pattern;
}

void Router::Add(std::string method, std::string pattern, Handler handler, Scopes scope) {
  CHECK(!pattern.empty() && pattern.front() == '/');
  std::vector<std::string> segments = SplitPath(pattern);
  entries_.push_back(
      {std::move(method), std::move(pattern), std::move(segments), std::move(handler), scope, false, false});
}

std::vector<const Router::Entry*> Router::EntriesFor(const std::string& path, Parameters* values) const {
  const std::vector<std::string> segments = SplitPath(path);
  std::vector<const Entry*> all;
  for (const Entry& entry : entries_) {
    const bool fits = all.empty() ? Match(entry, segments, *values) : entry.segments == all.front()->segments;
    if (fits) all.push_back(&entry);
  }
  return all;
}

void Router::AnswerWhileDraining(std::string_view method, std::string_view pattern) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& added) {
    return added.method == method && added.pattern == pattern;
  });
  CHECK(entry != entries_.end());
  entry->while_draining = true;
}

bool Router::IsAnsweredWhileDraining(const HttpRequest& request) const {
  if (request.method == "GET" || request.method == "HEAD") return true;
  Parameters values;
  return std::ranges::any_of(EntriesFor(request.path, &values), [&](const Entry* entry) {
    return entry->while_draining && entry->method == request.method;
  });
}

int64_t Router::BodyLimit(const HttpRequest& request, int64_t others) const {
  const auto at = body_bytes_.find(request.path);
  if (at == body_bytes_.end()) return others;
  Parameters values;
  const std::vector<const Entry*> entries = EntriesFor(request.path, &values);
  return !entries.empty() && request.scopes.Has(entries.front()->scope) ? at->second : others;
}

std::vector<std::string> Router::Describe() const {
  std::vector<std::string> routes;
  for (const Entry& entry : entries_) {
    routes.push_back(entry.method + " " + entry.pattern + " " + entry.scope.ToString());
  }
  return routes;
}

std::string Router::PathUnderOtherBase(const HttpRequest& request) const {
  constexpr std::string_view kBase = "/v1";
  std::vector<std::string> others = {std::string(kBase) + request.path};
  if (request.path.starts_with("/v1/")) others.push_back(request.path.substr(kBase.size()));
  Parameters values;
  for (const std::string& other : others) {
    const auto fits = [&](const Entry* entry) {
      return entry->method == request.method && request.scopes.Has(entry->scope);
    };
    if (std::ranges::any_of(EntriesFor(other, &values), fits)) return other;
  }
  return "";
}

HttpResponse Router::Route(const HttpRequest& request) const {
  // HEAD is GET without the body, which the transport leaves out.
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  std::vector<std::string> allowed;
  Parameters values;
  for (const Entry* entry : EntriesFor(request.path, &values)) {
    if (!request.scopes.Has(entry->scope)) continue;
    if (entry->method == method) return entry->handler(request, values);
    if (std::find(allowed.begin(), allowed.end(), entry->method) == allowed.end()) allowed.push_back(entry->method);
  }
  if (allowed.empty()) {
    std::string message = "There is nothing at " + request.method + " " + request.path + ".";
    const std::string other = PathUnderOtherBase(request);
    if (!other.empty()) message += " Check the base URL: " + other + " exists.";
    return ErrorResponse(NotFound(std::move(message)));
  }
  std::string allow;
  for (const std::string& name : allowed) allow += (allow.empty() ? "" : ", ") + name;
  HttpResponse response = ErrorResponse(InvalidArgument(
      request.method + " is not possible at " + request.path + "; it takes " + allow + ".", "", "method_not_allowed"));
  response.headers.emplace_back("Allow", allow);
  return response;
}

}  // namespace ringside
