#include "kernels/explain_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <vector>

#include "kernels/cuda/linear/block_quant_packing.h"
#include "kernels/cuda/linear/linear_plan.h"
#include "kernels/cuda/linear/w8_layout.h"

namespace ringside {
namespace cuda {
namespace {

constexpr std::string_view kForm =
    "ROWS,K,N,TYPE[,9.0][,f16][,norm][,gelu|gelu-erf|gate-up][,accumulate][,deterministic][,N:TYPE]";

struct Explained {
  std::string capability = "9.0";
  LinearRequest request;
};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<int64_t> ReadSize(std::string_view word) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size() && value > 0) return value;
  return InvalidArgument(fmt::format("\"{}\" is not a positive number; the form is {}", word, kForm));
}

/// The outputs of a layer's matrices.
Status ReadOutputs(std::string_view word, LinearLayer* layer) {
  const std::vector<std::string_view> terms = Split(word, '+');
  if (terms.size() > layer->outputs.size()) {
    return InvalidArgument(fmt::format("\"{}\": a layer has up to {} matrices", word, layer->outputs.size()));
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    ASSIGN_OR_RETURN(layer->outputs[i], ReadSize(terms[i]));
  }
  return Status::Ok();
}

/// The type of a weight on the device.
Result<DType> ReadType(std::string_view word) {
  struct Name {
    std::string_view name;
    DType type;
  };
  constexpr Name kNames[] = {{"f16", DType::kF16},
                             {"bf16", DType::kBF16},
                             {"int8", DType::kI8},
                             {"fp8", DType::kF8E4M3},
                             {"fp8-blocks", DType::kBlockQuantE4M3}};
  if (const auto* name = std::ranges::find(kNames, word, &Name::name); name != std::end(kNames)) return name->type;
  for (DType type = DType::kF32; IsFileType(type); type = static_cast<DType>(static_cast<int>(type) + 1)) {
    if (Traits(type).name != word) continue;
    if (const std::optional<DType> blocks = BlockQuantTypeOf(type)) return *blocks;
  }
  return InvalidArgument(
      fmt::format("type \"{}\": f16, bf16, int8, fp8, fp8-blocks, or a GGUF type with blocks such as Q4_K", word));
}

/// A word after the type.
Status ReadWord(std::string_view word, Explained* out) {
  LinearRequest& request = out->request;
  struct Flag {
    std::string_view word;
    void (*set)(LinearRequest*);
  };
  constexpr Flag kFlags[] = {
      {"f16", [](LinearRequest* r) { r->layer.dtype = DType::kF16; }},
      {"norm", [](LinearRequest* r) { r->norm = true; }},
      {"gelu", [](LinearRequest* r) { r->epilogue = LinearEpilogue::kGeluTanh; }},
      {"gelu-erf", [](LinearRequest* r) { r->epilogue = LinearEpilogue::kGeluErf; }},
      {"gate-up", [](LinearRequest* r) { r->epilogue = LinearEpilogue::kSiluMultiply; }},
      {"accumulate", [](LinearRequest* r) { r->layer.accumulate = true; }},
      {"deterministic", [](LinearRequest* r) { r->layer.fixed_order = true; }},
  };
  if (const auto* flag = std::ranges::find(kFlags, word, &Flag::word); flag != std::end(kFlags)) {
    flag->set(&request);
    return Status::Ok();
  }
  if (const size_t colon = word.find(':'); colon != std::string_view::npos) {
    request.partner.emplace();
    RETURN_IF_ERROR(ReadOutputs(word.substr(0, colon), &*request.partner));
    ASSIGN_OR_RETURN(request.partner->weights, ReadType(word.substr(colon + 1)));
    return Status::Ok();
  }
  if (word.find('.') == std::string_view::npos) {
    return InvalidArgument(fmt::format("\"{}\" is not known; the form is {}", word, kForm));
  }
  out->capability = word;
  return Status::Ok();
}

/// Fills in the layouts of dense, aligned matrices.
void SetLayouts(LinearLayer* layer, const LinearLayer& first) {
  layer->rows = first.rows, layer->k = first.k, layer->dtype = first.dtype, layer->fixed_order = first.fixed_order;
  layer->x = {.dtype = first.dtype, .stride = (first.k + 7) / 8 * 8};
  layer->y = {.dtype = DType::kF32, .stride = layer->total()};
}

Result<Explained> ReadLayer(std::string_view text) {
  const std::vector<std::string_view> words = Split(text, ',');
  if (words.size() < 4) return InvalidArgument(fmt::format("\"{}\": the form is {}", text, kForm));
  Explained out;
  LinearLayer& layer = out.request.layer;
  ASSIGN_OR_RETURN(layer.rows, ReadSize(words[0]));
  ASSIGN_OR_RETURN(layer.k, ReadSize(words[1]));
  RETURN_IF_ERROR(ReadOutputs(words[2], &layer));
  ASSIGN_OR_RETURN(layer.weights, ReadType(words[3]));
  if (layer.weights == DType::kF16) layer.dtype = DType::kF16;
  for (size_t i = 4; i < words.size(); ++i) RETURN_IF_ERROR(ReadWord(words[i], &out));
  SetLayouts(&layer, layer);
  // A fused product is written instead of y, in the type of the activations.
  if (out.request.epilogue == LinearEpilogue::kSiluMultiply) layer.y.dtype = layer.dtype;
  out.request.product = {.dtype = layer.dtype, .stride = layer.total() / 2};
  if (out.request.partner) SetLayouts(&*out.request.partner, layer);
  return out;
}

std::string Line(std::string_view name, std::string_view value) { return fmt::format("{:<14}{}\n", name, value); }

std::string_view Fusion(bool wanted, bool fused) { return !wanted ? "none" : fused ? "fused" : "separate"; }

std::string TileText(const LinearTile& tile) {
  std::string out;
  const auto add = [&](int64_t value, std::string_view unit) {
    if (value > 0) out += fmt::format("{}{}{}", out.empty() ? "" : ", ", value, unit);
  };
  add(tile.outputs, " outputs"), add(tile.rows, " rows");
  if (tile.warps > 0) add(tile.warps, " warps per tile");
  add(tile.blocks, " blocks"), add(tile.stages, " stages");
  add(static_cast<int64_t>(tile.shared_bytes), " bytes of shared memory");
  return out;
}

std::string PlanText(const LinearRequest& request, const LinearPlan& plan) {
  std::string out = Line("kernel", LinearKernelName(plan.kernel));
  if (plan.tile.outputs > 0) {
    out += Line("tile", TileText(plan.tile)) + Line("split-K", std::to_string(plan.tile.split_k));
  }
  const bool epilogue = request.epilogue != LinearEpilogue::kNothing;
  out += Line("norm", Fusion(request.norm, plan.norm));
  out += Line("epilogue", Fusion(epilogue, plan.epilogue != LinearEpilogue::kNothing));
  out += Line("partner", Fusion(request.partner.has_value(), plan.partner));
  if (plan.partner) out += Line("partner tile", TileText(plan.partner_tile));
  return out;
}

/// The GEMM of rows that kQuantizeRows has made E4M3.
LinearRequest QuantizedRequest(const LinearRequest& request) {
  LinearRequest out{.layer = request.layer};
  out.layer.k = W8RowBytes(request.layer.k);
  out.layer.x = {.dtype = DType::kF8E4M3, .stride = out.layer.k};
  return out;
}

Result<std::string> Explain(std::string_view layer) {
  ASSIGN_OR_RETURN(const Explained explained, ReadLayer(layer));
  ASSIGN_OR_RETURN(const DeviceTraits device, TypicalDevice(explained.capability));
  const LinearRequest& request = explained.request;
  ASSIGN_OR_RETURN(const LinearPlan plan, PlanLinear(device, request));
  std::string out = Line("layer", fmt::format("{} rows of {}, {} inputs, {} outputs, weights {}", request.layer.rows,
                                              Traits(request.layer.dtype).name, request.layer.k, request.layer.total(),
                                              Traits(request.layer.weights).name));
  out += Line("device",
              fmt::format("compute capability {}, {} multiprocessors", explained.capability, device.multiprocessors));
  out += PlanText(request, plan);
  if (plan.kernel == LinearKernel::kQuantizeRows) {
    const LinearRequest quantized = QuantizedRequest(request);
    ASSIGN_OR_RETURN(const LinearPlan product, PlanLinear(device, quantized));
    out += "\n" + PlanText(quantized, product);
  }
  return out;
}

}  // namespace
}  // namespace cuda

Result<std::string> ExplainKernels(std::string_view layer) { return cuda::Explain(layer); }

}  // namespace ringside
