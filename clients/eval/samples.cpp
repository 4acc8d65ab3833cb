#include "clients/eval/samples.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json/json_tree.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;

constexpr const char* kBlanks = " \t\n\r\f\v";

/// Throws a description of the fault.
Sample PassageOf(const Json& line, const std::string& prefix) {
  const std::string text = line.at("text").get<std::string>();
  const size_t last = text.find_last_not_of(kBlanks);
  const size_t blank = last == std::string::npos ? last : text.find_last_of(kBlanks, last);
  if (blank == std::string::npos || text.find_first_not_of(kBlanks) > blank) {
    throw std::invalid_argument("its text has no word before the last one");
  }
  Sample sample;
  const std::string before = prefix + text.substr(0, blank);
  sample.prompts.push_back({.text = prefix + text.substr(0, last + 1), .from = CountCharacters(before)});
  return sample;
}

/// The index of the right choice; choices.size() if it is not among them.
size_t RightAnswer(const Json& answer, const std::vector<std::string>& choices) {
  if (answer.is_number_integer()) return answer.get<size_t>();  // a negative number becomes larger than any index
  if (!answer.is_string()) return choices.size();
  return static_cast<size_t>(std::ranges::find(choices, answer.get<std::string>()) - choices.begin());
}

Sample QuestionOf(const Json& line, const std::string& prefix) {
  const std::string question = prefix + line.at("question").get<std::string>();
  const auto choices = line.at("choices").get<std::vector<std::string>>();
  if (question.empty()) throw std::invalid_argument("its question is empty");
  if (choices.size() < 2) throw std::invalid_argument("it has fewer than two choices");
  Sample sample;
  sample.right = RightAnswer(line.at("answer"), choices);
  if (sample.right >= choices.size()) throw std::invalid_argument("its answer is not among its choices");
  for (const std::string& choice : choices) {
    if (choice.empty()) throw std::invalid_argument("one of its choices is empty");
    sample.prompts.push_back({.text = question + " " + choice, .from = CountCharacters(question)});
    sample.answer_sizes.push_back(CountCharacters(choice));
  }
  return sample;
}

Outcome<std::vector<Sample>> ReadLines(std::string_view lines, const std::string& prefix,
                                       Sample (*read)(const Json&, const std::string&)) {
  std::vector<Sample> samples;
  for (size_t number = 1; !lines.empty(); ++number) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.find_first_not_of(kBlanks) == std::string_view::npos) continue;
    const auto failure = [&](const std::string& what) {
      return Failure{"Line " + std::to_string(number) + ": " + what + "."};
    };
    try {
      samples.push_back(read(ParseJsonTree(line, kLargeJson), prefix));
    } catch (const Json::exception&) {
      return failure("it is not a sample in JSON");
    } catch (const std::invalid_argument& error) {
      return failure(error.what());
    }
  }
  if (samples.empty()) return Failure{"There are no samples in the file."};
  return samples;
}

}  // namespace

std::vector<Sample> SlidingWindows(const std::vector<int64_t>& text, const std::vector<int64_t>& prefix, size_t context,
                                   size_t stride) {
  std::vector<Sample> windows;
  const size_t room = context - prefix.size();
  size_t counted = 0;
  for (size_t begin = 0; counted < text.size(); begin += stride) {
    const size_t end = std::min(begin + room, text.size());
    const size_t first = prefix.empty() ? 1 : prefix.size();  // the first token has no likelihood
    Prompt prompt{.ids = prefix, .from = std::max(first, prefix.size() + counted - begin)};
    prompt.ids.insert(prompt.ids.end(), text.begin() + static_cast<std::ptrdiff_t>(begin),
                      text.begin() + static_cast<std::ptrdiff_t>(end));
    counted = end;
    if (prompt.from < prompt.ids.size()) windows.push_back({.prompts = {std::move(prompt)}});
  }
  return windows;
}

Outcome<std::vector<Sample>> ReadPassages(std::string_view lines, const std::string& prefix) {
  return ReadLines(lines, prefix, PassageOf);
}

Outcome<std::vector<Sample>> ReadQuestions(std::string_view lines, const std::string& prefix) {
  return ReadLines(lines, prefix, QuestionOf);
}

}  // namespace ringside::client
