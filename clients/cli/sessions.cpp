#include "clients/cli/sessions.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/chat/chat_client.h"
#include "clients/chat/remembered.h"
#include "clients/chat/session_list.h"
#include "clients/terminal/sanitiser.h"
#include "clients/wire/json_fields.h"
#include "clients/wire/owners.h"

namespace ringside::client {
namespace {

constexpr size_t kEverySession = 1 << 20;
constexpr int kExitDamaged = 74;  // same as the server's exit code

void Complain(const std::string& sentence) { std::fprintf(stderr, "ringside: %s\n", Sanitise(sentence).c_str()); }
void Print(const std::string& text) { std::printf("%s\n", Sanitise(text).c_str()); }
std::string Size(size_t bytes) {
  return bytes < 10'000 ? std::to_string(bytes) + " bytes" : std::to_string((bytes + 512) / 1024) + " KiB";
}

int Fail(const std::string& subject, const Failure& failure) {
  Complain((subject.empty() ? "" : subject + ": ") + failure.message);
  return 1;
}

/// Prints the server's objects as a JSON list.
void PrintJson(const std::vector<ConversationSummary>& sessions) {
  std::string text = "[";
  for (const ConversationSummary& session : sessions) text += (text.size() > 1 ? ",\n" : "\n") + session.json;
  std::printf("%s%s]\n", text.c_str(), sessions.empty() ? "" : "\n");
}

int List(const HttpClient& http, const SessionsOptions& options) {
  const Outcome<std::vector<ConversationSummary>> sessions = ListConversations(http, options.limit);
  if (!sessions) return Fail("", sessions.failure());
  if (options.json) {
    PrintJson(*sessions);
  } else {
    Print(DescribeSessions(*sessions, ""));
    std::vector<std::string> ids;
    for (const ConversationSummary& session : *sessions) ids.push_back(session.id);
    RememberListed(http.url(), ids);
  }
  const auto damaged = std::count_if(sessions->begin(), sessions->end(),
                                     [](const ConversationSummary& session) { return !session.damage.empty(); });
  if (damaged == 0) return 0;
  Complain(std::to_string(damaged) + " of " + std::to_string(sessions->size()) + " listed are damaged.");
  return kExitDamaged;
}

int Show(const HttpClient& http, const std::vector<std::string>& ids, bool json) {
  int code = 0;
  std::vector<ConversationSummary> found;
  for (const std::string& id : ids) {
    const Outcome<ConversationSummary> session = GetConversation(http, id);
    if (!session) {
      code = Fail(id, session.failure());
    } else if (json) {
      found.push_back(*session);
    } else {
      Print(DescribeSession(*session));
    }
  }
  if (json) PrintJson(found);
  return code;
}

/// Writes everything or fails with the reason.
Outcome<Done> WriteAll(int file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure{"Cannot write " + path + ": " + std::strerror(errno) + "."};
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Done{};
}

int Export(const HttpClient& http, const std::string& id, std::string path) {
  if (path.empty()) path = id + ".ringside";
  const Outcome<std::string> bytes = ExportConversation(http, id);
  if (!bytes) return Fail(id, bytes.failure());
  if (path == "-") {
    const Outcome<Done> written = WriteAll(STDOUT_FILENO, "standard output", *bytes);
    return written ? 0 : Fail("", written.failure());
  }
  // Private content: readable only by the user, and never over an existing file.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return Fail("", {"Cannot make " + path + ": " + std::strerror(errno) + "."});
  Outcome<Done> written = WriteAll(file, path, *bytes);
  if (::close(file) != 0 && written) written = Failure{"Cannot write " + path + ": " + std::strerror(errno) + "."};
  if (!written) {
    ::unlink(path.c_str());
    return Fail("", written.failure());
  }
  Print("Wrote " + id + " to " + path + ", " + Size(bytes->size()) + ".");
  return 0;
}

Outcome<std::string> ReadAll(const std::string& path) {
  const bool piped = path == "-";
  const int file = piped ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Failure{"Cannot read " + path + ": " + std::strerror(errno) + "."};
  std::string bytes;
  char buffer[65536];
  ssize_t got = 0;
  while ((got = ::read(file, buffer, sizeof buffer)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
  }
  const std::string why = got < 0 ? std::strerror(errno) : "";
  if (!piped) ::close(file);
  if (got < 0) return Failure{"Cannot read " + path + ": " + why + "."};
  return bytes;
}

int Import(const HttpClient& http, const std::string& path) {
  const Outcome<std::string> bytes = ReadAll(path);
  if (!bytes) {
    Complain(bytes.failure().message);
    return 2;
  }
  const Outcome<ConversationSummary> session = ImportConversation(http, *bytes);
  if (!session) return Fail(path, session.failure());
  Print(DescribeSession(*session));
  return 0;
}

int Delete(const HttpClient& http, const std::vector<std::string>& ids) {
  int code = 0;
  for (const std::string& id : ids) {
    const Outcome<Done> gone = DeleteConversation(http, id);
    if (gone) {
      Print("Deleted " + id + ".");
    } else {
      code = Fail(id, gone.failure());
    }
  }
  return code;
}

/// The conversations of every owner, or, if the key may not list owners, its own.
Outcome<std::vector<std::string>> AllConversations(const HttpClient& http) {
  std::vector<std::string> ids;
  const Outcome<OwnerList> owners = ListOwners(http);
  if (!owners && owners.failure().http_status != 404) return owners.failure();
  if (!owners) {
    const Outcome<std::vector<ConversationSummary>> sessions = ListConversations(http, kEverySession);
    if (!sessions) return sessions.failure();
    for (const ConversationSummary& session : *sessions) ids.push_back(session.id);
    return ids;
  }
  for (const OwnerSummary& owner : owners->owners) {
    const Outcome<std::vector<std::string>> own = ListConversationsOf(http, owner.owner);
    if (!own) return own.failure();
    ids.insert(ids.end(), own->begin(), own->end());
  }
  return ids;
}

std::string DescribeVerdict(const ConversationVerdict& verdict) {
  if (!verdict.ok) return "damaged: " + verdict.message;
  return "sound, " + std::to_string(verdict.records) + " records" +
         (verdict.message.empty() ? "" : ". " + verdict.message);
}

nlohmann::ordered_json VerdictJson(const std::string& id, const ConversationVerdict& verdict) {
  return {{"id", id}, {"ok", verdict.ok}, {"records", verdict.records}, {"message", verdict.message}};
}

int Verify(const HttpClient& http, std::vector<std::string> ids, bool as_json) {
  if (ids.empty()) {
    const Outcome<std::vector<std::string>> all = AllConversations(http);
    if (!all) return Fail("", all.failure());
    ids = *all;
  }
  size_t sound = 0, damaged = 0;
  nlohmann::ordered_json verdicts = nlohmann::ordered_json::array();
  for (const std::string& id : ids) {
    const Outcome<ConversationVerdict> verdict = VerifyConversation(http, id);
    if (!verdict) {
      Fail(id, verdict.failure());
      continue;
    }
    ++(verdict->ok ? sound : damaged);
    if (as_json) {
      verdicts.push_back(VerdictJson(id, *verdict));
    } else {
      Print(id + "  " + DescribeVerdict(*verdict));
    }
  }
  const size_t unknown = ids.size() - sound - damaged;
  if (as_json) {
    const nlohmann::ordered_json all = {
        {"sound", sound}, {"damaged", damaged}, {"not_checked", unknown}, {"data", std::move(verdicts)}};
    std::printf("%s\n", Dump(all).c_str());
  } else {
    Print(std::to_string(sound) + " sound, " + std::to_string(damaged) + " damaged" +
          (unknown > 0 ? ", " + std::to_string(unknown) + " not checked" : ""));
  }
  if (damaged > 0) return kExitDamaged;
  return unknown > 0 ? 1 : 0;
}

}  // namespace

int LookAfterSessions(const Options& options) {
  using Verb = SessionsOptions::Verb;
  SessionsOptions sessions = options.sessions;
  const HttpClient http(options.server.url, options.server.api_key);
  for (std::string& id : sessions.ids) {
    const Outcome<std::string> found = FindConversation(http, id);
    if (!found) {
      Complain(found.failure().message);
      return 2;
    }
    id = *found;
  }
  switch (sessions.verb) {
    case Verb::kList:
      return List(http, sessions);
    case Verb::kShow:
      return Show(http, sessions.ids, sessions.json);
    case Verb::kExport:
      return Export(http, sessions.ids.front(), sessions.path);
    case Verb::kImport:
      return Import(http, sessions.path);
    case Verb::kDelete:
      return Delete(http, sessions.ids);
    case Verb::kVerify:
      return Verify(http, sessions.ids, sessions.json);
  }
  return 2;
}

}  // namespace ringside::client
