// GGUF files of families from 2025 on with attention in all layers.
#include "engine/families/gguf/gguf_families.h"

namespace ringside {
namespace {

Status SetMistral3(const GgufKeys& keys, ModelSpec* spec) { return ReadTemperature(keys, spec); }

Status SetPlain(const GgufKeys&, ModelSpec*) { return Status::Ok(); }

Status SetGgufQwen3Vl(const GgufKeys&, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kHeads;
  spec->experts_normalised = true;
  return Status::Ok();
}

// Draft layers are the last blocks.
Status SetGgufGlm4Moe(const GgufKeys& keys, ModelSpec* spec) {
  if (keys.HasTensor("blk.0.attn_q_norm.weight")) spec->qk_norm = QkNorm::kHeads;
  return ReadGgufMixture(keys, {.sigmoid = true, .normalised = true}, spec);
}

Status SetGgufMiniMaxM2(const GgufKeys& keys, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kRows;
  return ReadGgufMixture(keys, {.sigmoid = true, .normalised = true}, spec);
}

Status SetGgufErnieMoe(const GgufKeys& keys, ModelSpec* spec) {
  int64_t step = 1;
  RETURN_IF_ERROR(keys.Optional("interleave_moe_layer_step", &step));
  if (step != 1) {
    return InvalidArgument(
        fmt::format("the file's '{}' {} is not supported", keys.Name("interleave_moe_layer_step"), step));
  }
  return ReadGgufMixture(keys, {.normalised = true}, spec);
}

Status SetGgufHunyuan(const GgufKeys&, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kRotatedHeads;
  return Status::Ok();
}

// If some layers have a window, the others are not rotated.
Status SetGgufExaone4(const GgufKeys& keys, ModelSpec* spec) {
  spec->norm_before = false;
  spec->norm_after = true;
  spec->qk_norm = QkNorm::kHeads;
  if (spec->layer_traits.empty()) return Status::Ok();
  RETURN_IF_ERROR(ReadWindowPattern(keys, 4, false, spec));
  RotateWindows(spec);
  return Status::Ok();
}

Status SetGgufExaoneMoe(const GgufKeys& keys, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kHeads;
  if (!spec->layer_traits.empty()) {
    RETURN_IF_ERROR(ReadWindowPattern(keys, 4, false, spec));
    RotateWindows(spec);
  }
  return ReadGgufMixture(keys, {.sigmoid = true, .normalised = true}, spec);
}

Status SetGgufHunyuanMoe(const GgufKeys& keys, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kRotatedHeads;
  return ReadGgufMixture(keys, {.normalised = true}, spec);
}

Status SetGgufArcee(const GgufKeys&, ModelSpec* spec) {
  spec->gated = false;
  spec->activation = Activation::kReluSquared;
  return Status::Ok();
}

Status SetGgufOlmo(const GgufKeys&, ModelSpec* spec) {
  spec->norm = NormKind::kLayer;
  spec->norm_weights = false;
  return Status::Ok();
}

// The file has no margin of the router: all published models' is this one.
Status SetGgufPhiMoe(const GgufKeys&, ModelSpec* spec) {
  spec->norm = NormKind::kLayer;
  spec->router.margin = 0.02f;
  if (spec->experts_used == 2) return Status::Ok();
  return InvalidArgument(fmt::format("{} experts used are not supported", spec->experts_used));
}

}  // namespace

std::span<const GgufFamily> GgufRecentFamilies() {
  static constexpr GgufFamily kFamilies[] = {
      {"arcee", RopePairs::kAdjacent, SetGgufArcee},
      {"ernie4_5", RopePairs::kAdjacent, SetPlain},
      {"ernie4_5-moe", RopePairs::kAdjacent, SetGgufErnieMoe, {}, kMixtureKeys},
      {"exaone4", RopePairs::kHalves, SetGgufExaone4},
      {"exaone-moe", RopePairs::kHalves, SetGgufExaoneMoe, {}, kMixtureKeys},
      {"glm4moe", RopePairs::kHalves, SetGgufGlm4Moe, kNormAfterAttention, kMixtureKeys},
      {"hunyuan-dense", RopePairs::kHalves, SetGgufHunyuan},
      {"hunyuan-moe", RopePairs::kHalves, SetGgufHunyuanMoe, {}, kMixtureKeys},
      {"minimax-m2", RopePairs::kHalves, SetGgufMiniMaxM2, {}, kMixtureKeys},
      {"mistral3", RopePairs::kAdjacent, SetMistral3},
      {"olmo", RopePairs::kAdjacent, SetGgufOlmo},
      {"phimoe", RopePairs::kHalves, SetGgufPhiMoe},
      {"qwen2vl", RopePairs::kHalves, SetPlain},
      {"qwen3vl", RopePairs::kHalves, SetGgufQwen3Vl, {}, {}, false, true},
      {"qwen3vlmoe", RopePairs::kHalves, SetGgufQwen3Vl, {}, {}, false, true},
      {"seed_oss", RopePairs::kHalves, SetPlain, kNormAfterAttention},
  };
  return kFamilies;
}

}  // namespace ringside
