#include "clients/models/model_list.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/models/memory_rate.h"
#include "clients/models/model_folders.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/text_width.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

constexpr int kMaxNameColumns = 48;

std::string Padded(std::string text, int columns, bool right) {
  const int missing = columns - TextWidth(text);
  if (missing > 0) text.insert(right ? 0 : text.size(), static_cast<size_t>(missing), ' ');
  return text;
}

std::string Rate(double tokens) {
  char text[32];
  std::snprintf(text, sizeof text, tokens < 10 ? "%.1f" : "%.0f", tokens);
  return tokens > 0 ? text : "-";
}

nlohmann::ordered_json ListEntry(const LocalModel& model, const Inspection& facts, double memory_rate) {
  nlohmann::ordered_json entry = {{"name", model.name},
                                  {"place", model.place},
                                  {"path", model.path},
                                  {"bytes", model.bytes},
                                  {"loads", facts.loads}};
  if (!facts.loads) {
    entry["reason"] = facts.reason;
    return entry;
  }
  entry["architecture"] = facts.architecture;
  entry["context"] = facts.context;
  entry["memory_bytes"] = facts.memory_bytes();
  entry["fits"] = facts.fits();
  entry["tokens_per_second"] = std::round(facts.TokenRate(memory_rate) * 10) / 10;
  return entry;
}

}  // namespace

std::string DescribeBytes(uint64_t bytes) {
  char text[32];
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) {
    std::snprintf(text, sizeof text, "%.1f GB", value / 1e9);
  } else if (bytes >= 1'000'000) {
    std::snprintf(text, sizeof text, "%.0f MB", value / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.0f kB", value / 1e3);
  }
  return text;
}

std::string ModelTable(const std::vector<LocalModel>& models, const std::vector<Inspection>& inspections,
                       double memory_rate) {
  int columns = 4;
  for (const LocalModel& model : models) columns = std::max(columns, std::min(TextWidth(model.name), kMaxNameColumns));
  const auto line = [&](const std::string& name, const std::string& place, const std::string& size,
                        const std::string& memory, const std::string& rate) {
    return Padded(name, columns, false) + "  " + Padded(place, 12, false) + "  " + Padded(size, 7, true) + "  " +
           Padded(memory, 7, true) + "  " + Padded(rate, 8, true) + "\n";
  };
  std::string table = line("name", "place", "size", "memory", "tokens/s"), refused;
  bool too_large = false;
  for (size_t i = 0; i < models.size(); ++i) {
    const LocalModel& model = models[i];
    const Inspection& facts = inspections[i];
    if (!facts.loads) {
      refused += "\n" + model.name + " (" + model.place + "): " + facts.reason;
      continue;
    }
    const auto memory = static_cast<uint64_t>(facts.memory_bytes());
    table += line(model.name, model.place, DescribeBytes(model.bytes),
                  DescribeBytes(memory) + (facts.fits() ? "" : "!"), Rate(facts.TokenRate(memory_rate)));
    too_large |= !facts.fits();
  }
  if (too_large) table += "\n! is more memory than this machine has.\n";
  if (!refused.empty()) table += "\nThese do not load:" + refused + "\n";
  return table;
}

int ListModels(bool json) {
  const std::vector<LocalModel> models = FindLocalModels();
  std::vector<std::string> paths;
  for (const LocalModel& model : models) paths.push_back(model.path);
  const Outcome<std::vector<Inspection>> inspections = InspectModels(paths);
  if (!inspections) {
    std::fprintf(stderr, "ringside: %s\n", inspections.failure().message.c_str());
    return 1;
  }
  const bool any = std::ranges::any_of(*inspections, &Inspection::loads);
  const double rate = any ? MeasureMemoryRate() : 0;
  if (json) {
    nlohmann::ordered_json list = {{"memory_bytes_per_second", std::round(rate)},
                                   {"models", nlohmann::ordered_json::array()}};
    for (size_t i = 0; i < models.size(); ++i) list["models"].push_back(ListEntry(models[i], (*inspections)[i], rate));
    std::printf("%s\n", Dump(list).c_str());
    return 0;
  }
  if (models.empty()) {
    std::printf("There are no models on this machine. `ringside pull qwen3:4b` fetches one to %s.\n",
                ModelsFolder().c_str());
    return 0;
  }
  std::fputs(Sanitise(ModelTable(models, *inspections, rate)).c_str(), stdout);
  if (rate > 0) {
    std::printf(
        "\nMemory: weights, and one conversation of up to 8192 tokens. Rate: predicted for one conversation on"
        " the CPU, which reads %.0f GB/s.\n",
        rate / 1e9);
  }
  return 0;
}

}  // namespace ringside::client
