#include "tests/engine/text/tokenizer_strings.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "engine/text/unicode.h"
#include "tests/golden_folder.h"

namespace ringside {

std::string GoldenPath(const std::string& name) { return GoldenFolder("tokenizer/" + name); }

std::vector<uint32_t> ReadDigests(const std::string& name) {
  std::ifstream file(GoldenPath(name + ".u32"), std::ios::binary);
  std::vector<uint32_t> digests;
  for (uint8_t bytes[4]; file.read(reinterpret_cast<char*>(bytes), 4);) {
    digests.push_back(static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
                      static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24);
  }
  CHECK(!digests.empty());
  return digests;
}

GoldenStrings::GoldenStrings() {
  std::ifstream file(GoldenPath("fragments.json"));
  const nlohmann::json json = nlohmann::json::parse(file);
  fragments_ = json.at("fragments").get<std::vector<std::string>>();
  for (const auto& range : json.at("ranges")) ranges_.emplace_back(range.at(0), range.at(1));
  for (const auto& run : json.at("long_runs")) {
    std::string text;
    for (int i = 0; i < run.at(1).get<int>(); ++i) text += run.at(0).get_ref<const std::string&>();
    long_runs_.push_back(std::move(text));
  }
}

uint64_t GoldenStrings::Below(uint64_t n) {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (z ^ z >> 31) % n;
}

std::string GoldenStrings::Fragment() { return fragments_[Below(fragments_.size())]; }

std::string GoldenStrings::Character() {
  const auto [low, high] = ranges_[Below(ranges_.size())];
  const auto code = static_cast<uint32_t>(low + Below(high - low + 1));
  std::string character;
  AppendCodePoint(code >= 0xD800 && code < 0xE000 ? 0xFFFD : code, &character);
  return character;
}

std::string GoldenStrings::Mixed() {
  std::string text;
  for (uint64_t n = 1 + Below(16); n > 0; --n) text += Below(2) != 0 ? Fragment() : Character();
  return text;
}

std::string GoldenStrings::Make(uint64_t i) {
  if (i < long_runs_.size()) return long_runs_[i];
  state_ = i;
  std::string text;
  const uint64_t kind = Below(10);
  if (kind < 4) {
    static constexpr const char* kSeparators[] = {"", " ", "\n", "  ", " "};
    for (uint64_t n = 1 + Below(12); n > 0; --n) {
      text += Fragment();
      text += kSeparators[Below(5)];
    }
  } else if (kind == 4) {
    for (uint64_t n = 1 + Below(30); n > 0; --n) text += Character();
  } else if (kind == 5) {
    text = Mixed();
  } else if (kind == 6) {
    text = Fragment();
    const std::string unit = Below(2) != 0 ? Fragment() : Character();
    for (uint64_t n = 1 + Below(200); n > 0; --n) text += unit;
    text += Fragment();
  } else if (kind == 7) {
    for (uint64_t n = 1 + Below(48); n > 0; --n) text += static_cast<char>(Below(256));
  } else if (kind == 8) {
    text = Mixed();
    for (uint64_t n = 1 + Below(3); n > 0; --n) {
      const uint64_t at = Below(text.size() + 1);
      if (Below(2) != 0) {
        text.erase(at, 1 + Below(3));
      } else {
        text.insert(at, 1, static_cast<char>(Below(256)));
      }
    }
  } else {
    for (uint64_t n = 1 + Below(20); n > 0; --n) {
      const std::string choices[] = {Character(), " ", "  ", "\n", "a", Fragment()};
      text += choices[Below(6)];
    }
  }
  return text;
}

}  // namespace ringside
