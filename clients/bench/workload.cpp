#include "clients/bench/workload.h"

#include <algorithm>
#include <cmath>

namespace ringside::client {
namespace {

constexpr const char* kWords[] = {
    "the",   "river",  "a",     "small",    "house",   "by",    "garden", "with",   "old",    "tree",    "and",
    "stone", "people", "walk",  "under",    "morning", "light", "they",   "talk",   "about",  "weather", "bread",
    "water", "time",   "while", "children", "play",    "near",  "bridge", "one",    "day",    "letter",  "came",
    "from",  "city",   "it",    "told",     "of",      "ship",  "that",   "sailed", "across", "cold",    "sea",
    "to",    "find",   "warm",  "island",   "where",   "birds", "sing",   "all",    "night",  "long",    "because",
    "moon",  "never",  "sets",  "there",    "every",   "wind",  "brings", "new",    "story",  "for",     "who",
};

constexpr double kLengthSpread = 0.6;  // standard deviation of the logarithm
constexpr int kSentenceWords = 12;

}  // namespace

std::string Workload::Words(int count) {
  std::uniform_int_distribution<size_t> pick(0, std::size(kWords) - 1);
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += i % kSentenceWords == 0 ? ". " : " ";
    text += kWords[pick(random_)];
  }
  return text + ".";
}

int Workload::Length(int median) {
  const double words = std::lognormal_distribution<double>(std::log(median), kLengthSpread)(random_);
  return static_cast<int>(std::clamp(words, 1.0, 8.0 * median));
}

int Workload::ThinkMs(double mean_s) {
  if (mean_s <= 0) return 0;
  return static_cast<int>(1000 * std::exponential_distribution<double>(1 / mean_s)(random_));
}

}  // namespace ringside::client
