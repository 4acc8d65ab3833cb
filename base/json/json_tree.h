// Trees of JSON from outside. Pure functions.
// THREAD: any.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/json/json_reader.h"

namespace ringside {

/// The text as a tree; of a repeated name the last value counts. After a fault: a discarded value, and the reason in
/// `fault` if given.
nlohmann::json ParseJsonTree(std::string_view text, const JsonLimits& limits = {}, JsonFault* fault = nullptr);

/// As ParseJsonTree; members keep their order.
nlohmann::ordered_json ParseOrderedJsonTree(std::string_view text, const JsonLimits& limits = {},
                                            JsonFault* fault = nullptr);

}  // namespace ringside
