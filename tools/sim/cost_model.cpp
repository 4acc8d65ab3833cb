#include "tools/sim/cost_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ringside {
namespace {

// Constant before the first entry; extrapolated after the last.
double At(const CostModel::Table& table, double rows) {
  size_t right = 1;
  while (right + 1 < table.size() && table[right].first < rows) ++right;
  const auto& [x0, y0] = table[right - 1];
  const auto& [x1, y1] = table[right];
  return y0 + (y1 - y0) * (std::max(rows, x0) - x0) / (x1 - x0);
}

}  // namespace

Result<CostModel> CostModel::Read(const std::string& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument("not a file of costs: " + path);
  CostModel cost;
  std::string missing;
  const auto read = [&](const nlohmann::json& from, const char* name, auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    const auto found = from.find(name);
    if (found == from.end() || (std::is_arithmetic_v<T> && !found->is_number()) ||
        (std::is_same_v<T, std::string> && !found->is_string())) {
      missing += std::string(" ") + name;
      return;
    }
    *to = found->template get<T>();
  };
  const auto group = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_object() ? *found : nlohmann::json::object();
  };
  read(json, "model", &cost.model);
  read(json, "device", &cost.device);
  const auto shape = group("shape");
  read(shape, "layers", &cost.spec.layers);
  read(shape, "hidden", &cost.spec.hidden);
  read(shape, "heads", &cost.spec.heads);
  read(shape, "kv_heads", &cost.spec.kv_heads);
  read(shape, "head_dim", &cost.spec.head_dim);
  read(shape, "ffn", &cost.spec.ffn);
  const auto step = group("step_ms");
  const auto table = [&](const char* name, CostModel::Table* to) {
    for (const auto& line : step.value(name, nlohmann::json::array())) {
      if (!line.is_array() || line.size() != 2 || !line[0].is_number() || !line[1].is_number()) continue;
      to->emplace_back(line[0].get<double>(), line[1].get<double>());
    }
    const auto rows_ascend = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (to->size() < 2 || !std::is_sorted(to->begin(), to->end(), rows_ascend)) missing += std::string(" ") + name;
  };
  table("decode", &cost.decode);
  table("recorded", &cost.recorded);
  table("other", &cost.other);
  read(step, "key", &cost.key);
  read(step, "product", &cost.product);
  const auto host = group("host_ms");
  read(host, "begin", &cost.begin);
  read(host, "begin_row", &cost.begin_row);
  read(host, "finish", &cost.finish);
  read(host, "finish_row", &cost.finish_row);
  const auto copy = group("copy");
  read(copy, "load_ms", &cost.load_ms);
  read(copy, "load_bytes_per_ms", &cost.load_bytes_per_ms);
  read(copy, "save_ms", &cost.save_ms);
  read(copy, "save_bytes_per_ms", &cost.save_bytes_per_ms);
  read(copy, "seal_bytes_per_ms", &cost.seal_bytes_per_ms);
  if (!missing.empty()) return InvalidArgument(path + " lacks, or has badly:" + missing);
  return cost;
}

double CostModel::StepMs(const StepWork& work) const {
  constexpr double kSharedPrefixMs = 0.035;  // per layer: two more kernels
  const double sharing = work.shares_prefix ? kSharedPrefixMs * static_cast<double>(spec.layers) : 0;
  return RowsMs(work) + key * static_cast<double>(work.keys) + product * work.products + sharing;
}

double CostModel::RowsMs(const StepWork& work) const {
  // Small prompts are replayed as graphs (kernels/cuda/cuda_backend.cpp). A larger step's time is that of its GEMMs,
  // whose row tiles are whole for a multiple of kTile rows, with decode rows or without. Other steps take at most
  // kPartial times the duration with the last tile filled; those of one tile are bound by launches.
  constexpr int64_t kTile = 256, kRecordedRows = 64;
  constexpr double kPartial = 1.15;
  const auto rows = static_cast<double>(work.rows);
  if (work.prompts == 0) return At(decode, rows);
  if ((work.decoding == 0 && work.rows <= kRecordedRows) || work.rows % kTile == 0) return At(recorded, rows);
  if (work.rows < kTile) return At(other, rows);
  return std::min(At(other, rows), kPartial * At(recorded, std::ceil(rows / kTile) * kTile));
}

std::string CostFile(const std::string& name) { return RINGSIDE_SOURCE_DIR "/tools/sim/costs/" + name + ".json"; }

}  // namespace ringside
