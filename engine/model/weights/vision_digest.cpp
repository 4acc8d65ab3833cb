#include "engine/model/weights/vision_digest.h"

#include "engine/model/weights/tensor_digest.h"

namespace ringside {
namespace {

void AddVisionSpec(const VisionSpec& spec, Digest* digest) {
  digest->AddText(spec.family);
  const VisionPreprocessing& preprocessing = spec.preprocessing;
  for (const int64_t value :
       {spec.layers, spec.hidden, spec.heads, spec.head_dim, spec.ffn, spec.patch, spec.text_hidden,
        static_cast<int64_t>(spec.norm), static_cast<int64_t>(spec.activation), static_cast<int64_t>(spec.positions),
        spec.grid, spec.merge, static_cast<int64_t>(spec.projector_activation), static_cast<int64_t>(preprocessing.fit),
        static_cast<int64_t>(preprocessing.resampling), preprocessing.edge, spec.placeholder,
        static_cast<int64_t>(spec.rope_pairs)}) {
    digest->AddNumber(value);
  }
  for (const bool value :
       {spec.gated, spec.quick_gelu, spec.biases, spec.class_token, spec.projector_norm, spec.projector_biases}) {
    digest->AddNumber(value);
  }
  // Traits that the first towers lack, so that their fingerprints are unchanged.
  if (spec.averages) digest->AddText("averages");
  if (spec.see_all) digest->AddText("see_all");
  if (spec.grids) {
    digest->AddText("grids");
    for (const int64_t value : {preprocessing.least_pixels, preprocessing.most_pixels, spec.window, spec.frames}) {
      digest->AddNumber(value);
    }
    for (const int64_t layer : spec.whole_layers) digest->AddNumber(layer);
  }
  if (spec.table_side > 0) {
    digest->AddText("table_side");
    digest->AddNumber(spec.table_side);
    for (const int64_t layer : spec.deep_layers) digest->AddNumber(layer);
  }
  for (const double value :
       {static_cast<double>(spec.norm_eps), static_cast<double>(spec.projector_eps), spec.rope_theta}) {
    digest->AddFloat(value);
  }
  for (const auto& channels : {preprocessing.mean, preprocessing.deviation}) {
    for (const float value : channels) digest->AddFloat(value);
  }
  for (const std::string& marker : {spec.markers.begin, spec.markers.row_end, spec.markers.end})
    digest->AddText(marker);
}

}  // namespace

Status DigestVision(const VisionFiles& vision, Digest* digest) {
  Digest unused;
  if (digest == nullptr) digest = &unused;
  AddVisionSpec(vision.plan.spec, digest);
  for (const FileTensor& tensor : vision.tensors) RETURN_IF_ERROR(DigestTensor(tensor, digest));
  return Status::Ok();
}

}  // namespace ringside
