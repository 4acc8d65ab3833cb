#include "clients/chat/repl/presets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json/json_tree.h"
#include "clients/terminal/history.h"
#include "clients/terminal/text_width.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

constexpr size_t kMostPresets = 100, kMostPresetNameBytes = 40, kMostFileBytes = 1 << 20;

constexpr std::pair<const char*, const char*> kBuiltIn[] = {
    {"brief", "Answer as briefly as possible, without introduction or summary."},
    {"tutor", "You are a patient tutor. Explain step by step, ask one question at a time, and let me find the answer."},
    {"reviewer",
     "You review code. Name errors first, then unclear parts, each with its line and a correction. Do not praise."},
    {"translator",
     "Translate every message into English, or into German if it is English. Answer with the translation only."},
    {"editor", "Correct spelling, grammar and style of every text, keep its meaning, and list the changes below it."},
};

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMostPresetNameBytes && IsUtf8(name) &&
         std::ranges::none_of(name, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

std::string PresetFile() {
  const std::string folder = StateFolder();
  return folder.empty() ? "" : folder + "/presets.json";
}

Presets ReadOwn() {
  const std::string path = PresetFile();
  if (path.empty()) return {};
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text.size() > kMostFileBytes ? Presets() : ParsePresets(text);
}

Outcome<Done> WriteOwn(const Presets& presets) {
  const std::string path = PresetFile();
  if (path.empty()) return Failure{"There is no folder for presets: set HOME or XDG_STATE_HOME."};
  const std::string text = WritePresets(presets), next = path + ".new";
  const int file = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool good = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) good = ::close(file) == 0 && good;
  if (!good || std::rename(next.c_str(), path.c_str()) != 0) {
    return Failure{"Cannot write " + path + ": " + std::strerror(errno) + "."};
  }
  return Done{};
}

}  // namespace

Presets ParsePresets(std::string_view json) {
  Presets presets;
  const nlohmann::json all = ParseJsonTree(json);
  if (!all.is_object()) return presets;
  for (const auto& [name, value] : all.items()) {
    if (!IsName(name) || !value.is_object() || presets.size() >= kMostPresets) continue;
    Preset& preset = presets[name];
    preset.system = Text(value, "system");
    preset.model = Text(value, "model");
    const nlohmann::json* settings = Find(value, "settings");
    if (settings == nullptr || !settings->is_object()) continue;
    for (const auto& [setting, text] : settings->items()) {
      if (text.is_string()) (void)preset.settings.Set(setting, text.get<std::string>());
    }
  }
  return presets;
}

std::string WritePresets(const Presets& presets) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const auto& [name, preset] : presets) {
    nlohmann::ordered_json& one = all[name] = nlohmann::ordered_json::object();
    if (!preset.system.empty()) one["system"] = preset.system;
    if (!preset.model.empty()) one["model"] = preset.model;
    for (const auto& [setting, text] : preset.settings.Given()) one["settings"][setting] = text;
  }
  return Dump(all) + "\n";
}

Presets LoadPresets() {
  Presets presets = ReadOwn();
  for (const auto& [name, system] : kBuiltIn) presets.try_emplace(name, Preset{system, "", {}});
  return presets;
}

Outcome<Done> SavePreset(const std::string& name, const Preset& preset) {
  if (!IsName(name)) return Failure{"A preset's name is a word of up to 40 bytes."};
  Presets own = ReadOwn();
  own[name] = preset;
  if (own.size() > kMostPresets) return Failure{"There are 100 presets already; /preset delete NAME removes one."};
  return WriteOwn(own);
}

Outcome<Done> DeletePreset(const std::string& name) {
  Presets own = ReadOwn();
  if (own.erase(name) == 0) return Failure{"You have no preset \"" + name + "\"; /preset lists them."};
  return WriteOwn(own);
}

}  // namespace ringside::client
