#include "clients/models/gguf_choice.h"

#include <algorithm>

namespace ringside::client {
namespace {

/// From the first choice to the last.
constexpr std::string_view kPreferred[] = {"Q4_K_M", "UD-Q4_K_M", "MXFP4",  "MXFP4_MOE", "UD-Q4_K_XL",
                                           "Q4_K_S", "Q4_0",      "IQ4_XS", "Q4_1",      "Q5_K_M",
                                           "Q6_K",   "Q8_0",      "Q3_K_M", "BF16",      "F16"};

/// "UD-Q4_K_M" also serves for "Q4_K_M": some repositories have only variants that mix types by tensor.
bool Serves(const GgufModel& model, std::string_view quantisation) {
  return EqualsIgnoringCase(model.quantisation, quantisation) || EqualsIgnoringCase(model.name, quantisation) ||
         EqualsIgnoringCase(model.quantisation, "UD-" + std::string(quantisation));
}

}  // namespace

Outcome<GgufModel> ChooseGguf(std::span<const GgufModel> models, std::string_view quantisation) {
  const auto wanted = [&](std::string_view kind) -> const GgufModel* {
    const auto found = std::ranges::find_if(models, [&](const GgufModel& model) { return Serves(model, kind); });
    return found == models.end() ? nullptr : &*found;
  };
  if (!quantisation.empty()) {
    if (const GgufModel* model = wanted(quantisation)) return *model;
  } else {
    for (const std::string_view kind : kPreferred) {
      if (const GgufModel* model = wanted(kind)) return *model;
    }
    if (models.size() == 1) return models.front();
  }
  std::string choices;
  for (const GgufModel& model : models) {
    choices += (choices.empty() ? "" : ", ") + (model.quantisation.empty() ? model.name : model.quantisation);
  }
  if (quantisation.empty()) return Failure{"Choose one of its files: " + choices + "."};
  return Failure{"It has no file in " + std::string(quantisation) + "; it has " + choices + "."};
}

}  // namespace ringside::client
