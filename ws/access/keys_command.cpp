#include "ws/access/keys_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "ws/access/key_editor.h"

namespace ringside {
namespace {

constexpr const char* kSummary = "The keys of a server: who may use it, for what and how much";
constexpr int64_t kMost_s = int64_t{100} * 365 * 86400;

struct Arguments {
  std::string file, owner, scopes = "chat", expires = "never", overlap = "1d";
  std::vector<std::string> ids;
  std::map<std::string, std::string> limits;  // by flag
};

/// Seconds of "90d", "12h", "30m", "10s".
std::optional<int64_t> ReadDuration(std::string_view text) {
  static constexpr std::pair<char, int64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || end + 1 != text.data() + text.size()) return std::nullopt;
  for (const auto& [unit, seconds] : kUnits) {
    if (*end == unit && number <= kMost_s / seconds) return number * seconds;
  }
  return std::nullopt;
}

/// Value of --expires as a time; 0 = never.
Result<int64_t> ReadExpiry(const std::string& text, int64_t now_s) {
  if (text == "never") return int64_t{0};
  if (const auto duration = ReadDuration(text); duration && *duration > 0) return now_s + *duration;
  const auto time = ParseTime(text);
  if (!time) {
    return InvalidArgument("--expires: \"" + text + "\" is not never, a time from now such as 90d, 12h or 30m, or a " +
                           "time such as 2027-01-01T00:00:00Z");
  }
  if (*time <= now_s) return InvalidArgument("--expires: " + text + " is over");
  return *time;
}

/// Parses a limit into the share: a number, or "default" for the server's flag.
Status ReadShare(const ShareField& field, const std::string& text, OwnerShare* share) {
  if (text == "default") {
    (share->*field.value).reset();
    return Status::Ok();
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > field.most) {
    return InvalidArgument(
        fmt::format("{}: \"{}\" is neither a number from 0 to {} nor default", field.flag, text, field.most));
  }
  share->*field.value = number;
  return Status::Ok();
}

Result<StoredKey*> FindKey(KeysFile& file, const std::string& id) {
  const auto at = std::find_if(file.keys.begin(), file.keys.end(), [&](const StoredKey& key) { return key.id == id; });
  if (at == file.keys.end()) return InvalidArgument("no key has the id \"" + id + "\"");
  return &*at;
}

CommandOutcome Shown(const NewKey& key, const std::string& more) {
  const StoredKey& stored = key.stored;
  return {0, key.text + "\n",
          fmt::format("Key {} of {}: {}, expires {}. It is shown this once and stored nowhere.{}\n", stored.id,
                      stored.owner, stored.scopes.ToString(),
                      stored.expires_s == 0 ? "never" : FormatTime(stored.expires_s), more)};
}

Result<CommandOutcome> Add(const Arguments& given, int64_t now_s) {
  if (!IsOwnerName(given.owner)) return InvalidArgument("--owner: a name is 1 to 64 letters, digits and . _ @ -");
  const Result<Scopes> scopes = Scopes::Parse(given.scopes);
  if (!scopes.ok()) return InvalidArgument("--scopes: " + scopes.status().message());
  ASSIGN_OR_RETURN(const int64_t expires_s, ReadExpiry(given.expires, now_s));
  const NewKey key = MakeKey(given.owner, *scopes, now_s, expires_s);
  RETURN_IF_ERROR(EditKeysFile(given.file, [&](KeysFile& file) {
    if (file.keys.size() >= kMaxKeys) return InvalidArgument(fmt::format("there are {} keys already", kMaxKeys));
    file.keys.push_back(key.stored);
    return Status::Ok();
  }));
  return Shown(key, "");
}

Result<CommandOutcome> List(const Arguments& given, int64_t now_s) {
  ASSIGN_OR_RETURN(const KeysFile file, ReadKeysFile(given.file));
  CommandOutcome out;
  out.to_stdout = fmt::format("{:<12}  {:<20}  {:<18}  {:<20}  {}\n", "ID", "OWNER", "SCOPES", "CREATED", "EXPIRES");
  for (const StoredKey& key : file.keys) {
    const std::string expires = key.expires_s == 0       ? "never"
                                : key.expires_s <= now_s ? FormatTime(key.expires_s) + " (expired)"
                                                         : FormatTime(key.expires_s);
    out.to_stdout += fmt::format("{:<12}  {:<20}  {:<18}  {:<20}  {}\n", key.id, key.owner, key.scopes.ToString(),
                                 FormatTime(key.created_s), expires);
  }
  for (const auto& [owner, share] : file.owners) {
    std::vector<std::string> limits;
    for (const ShareField& field : ShareFields()) {
      const std::optional<int64_t> value = share.*field.value;
      limits.push_back(fmt::format("{} {}", value ? std::to_string(*value) : "default", field.counted));
    }
    out.to_stdout += fmt::format("limits of {}: {}\n", owner, fmt::join(limits, ", "));
  }
  return out;
}

Result<CommandOutcome> Revoke(const Arguments& given, int64_t) {
  RETURN_IF_ERROR(EditKeysFile(given.file, [&](KeysFile& file) {
    for (const std::string& id : given.ids) RETURN_IF_ERROR(FindKey(file, id).status());
    const std::set<std::string> ids(given.ids.begin(), given.ids.end());
    std::erase_if(file.keys, [&](const StoredKey& key) { return ids.contains(key.id); });
    return Status::Ok();
  }));
  return CommandOutcome{};
}

Result<CommandOutcome> Rotate(const Arguments& given, int64_t now_s) {
  const std::optional<int64_t> overlap_s = ReadDuration(given.overlap);
  if (!overlap_s) return InvalidArgument("--overlap: \"" + given.overlap + "\" is not a time such as 1d, 12h or 0s");
  ASSIGN_OR_RETURN(const int64_t expires_s, ReadExpiry(given.expires, now_s));
  const int64_t ends_s = now_s + *overlap_s;
  NewKey made;
  RETURN_IF_ERROR(EditKeysFile(given.file, [&](KeysFile& file) -> Status {
    ASSIGN_OR_RETURN(StoredKey * old, FindKey(file, given.ids.front()));
    made = MakeKey(old->owner, old->scopes, now_s, expires_s);
    if (old->expires_s == 0 || old->expires_s > ends_s) old->expires_s = ends_s;
    file.keys.push_back(made.stored);
    return Status::Ok();
  }));
  return Shown(made, fmt::format(" Key {} ends at {}.", given.ids.front(), FormatTime(ends_s)));
}

Result<CommandOutcome> Limit(const Arguments& given, int64_t) {
  if (!IsOwnerName(given.owner)) return InvalidArgument("owner: a name is 1 to 64 letters, digits and . _ @ -");
  RETURN_IF_ERROR(EditKeysFile(given.file, [&](KeysFile& file) {
    OwnerShare& share = file.owners[given.owner];
    for (const ShareField& field : ShareFields()) {
      const auto at = given.limits.find(field.flag);
      if (at != given.limits.end() && !at->second.empty()) RETURN_IF_ERROR(ReadShare(field, at->second, &share));
    }
    if (share.empty()) file.owners.erase(given.owner);
    return Status::Ok();
  }));
  return CommandOutcome{};
}

using Verb = Result<CommandOutcome> (*)(const Arguments&, int64_t now_s);

void AddExpiry(CLI::App* verb, Arguments& given) {
  verb->add_option("--expires", given.expires,
                   "never, a time from now such as 90d, 12h or 30m, or a time such as 2027-01-01T00:00:00Z [never]");
}

/// Adds the verbs with their options.
std::vector<std::pair<CLI::App*, Verb>> AddVerbs(CLI::App& app, Arguments& given) {
  std::vector<std::pair<CLI::App*, Verb>> verbs;
  const auto add = [&](const char* name, const char* help, Verb run) {
    CLI::App* verb = app.add_subcommand(name, help);
    verb->add_option("-f,--file", given.file, "The keys file (or RINGSIDE_KEYS_FILE)")->type_name("PATH");
    verbs.emplace_back(verb, run);
    return verb;
  };
  CLI::App* adding = add("add", "Make a key and print it, this once; makes the file if there is none", Add);
  adding->add_option("--owner", given.owner, "Whose key it is: keys of one owner see the same conversations")
      ->required();
  adding->add_option("--scopes", given.scopes,
                     "What it opens, with commas: chat (one's conversations), admin (import, verify), metrics [chat]");
  AddExpiry(adding, given);
  add("list", "One line for each key, without the keys themselves, and the owners' limits", List);
  add("revoke", "Take keys away; a running server closes their sockets within seconds", Revoke)
      ->add_option("id", given.ids, "Ids as of list")
      ->required();
  CLI::App* rotating = add("rotate", "Make a key that replaces another, and let that one end", Rotate);
  rotating->add_option("id", given.ids, "Id as of list")->required()->expected(1);
  rotating->add_option("--overlap", given.overlap, "How long the old key goes on, such as 12h or 0s [1d]");
  AddExpiry(rotating, given);
  CLI::App* limiting = add("limit", "Set what an owner may use; `default` is what the server's flags say", Limit);
  limiting->add_option("owner", given.owner, "The owner")->required();
  for (const ShareField& field : ShareFields()) {
    limiting->add_option(field.flag, given.limits[field.flag], fmt::format("{}; 0 = no limit", field.help));
  }
  return verbs;
}

}  // namespace

std::string DescribeKeysCommand() {
  CLI::App app(kSummary, "keys");
  Arguments given;
  AddVerbs(app, given);
  return DescribeCommand(app);
}

CommandOutcome RunKeysCommand(const std::vector<std::string>& args,
                              const std::map<std::string, std::string>& environment, const Clock& clock) {
  CLI::App app(kSummary, "ringside keys");
  app.require_subcommand(1);
  Arguments given;
  const auto verbs = AddVerbs(app, given);
  if (auto outcome = ParseCommand(app, args)) return *outcome;
  if (const auto file = environment.find("RINGSIDE_KEYS_FILE"); given.file.empty() && file != environment.end()) {
    given.file = file->second;
  }
  if (given.file.empty()) {
    return {kBadCommand, "", "ringside keys: say which file, with --file or RINGSIDE_KEYS_FILE\n"};
  }
  const auto now_s = static_cast<int64_t>(clock.WallSeconds());
  for (const auto& [verb, run] : verbs) {
    if (!verb->parsed()) continue;
    Result<CommandOutcome> outcome = run(given, now_s);
    if (outcome.ok()) return *outcome;
    return {kCommandFailed, "", "ringside keys: " + outcome.status().message() + "\n"};
  }
  return {kBadCommand, "", ""};
}

}  // namespace ringside
