#include "tests/engine/streaming_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "engine/files/safetensors_reader.h"

namespace ringside {

StreamingReference::StreamingReference(const std::string& folder, const ModelSpec& spec, const RingWindow& window,
                                       std::set<int64_t> message_starts, bool absolute)
    : spec_(spec),
      window_(window),
      starts_(std::move(message_starts)),
      absolute_(absolute),
      layers_(static_cast<size_t>(spec.layers)) {
  const auto file = SafeTensors::OpenFolder(folder);
  CHECK(file.ok());
  for (const FileTensor& tensor : file.value().tensors()) {
    CHECK(tensor.data.dtype == DType::kF32);
    std::vector<float> values(tensor.data.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.bytes.data(), tensor.data.bytes.size());
    weights_[tensor.name].assign(values.begin(), values.end());
  }
}

StreamingReference::Row StreamingReference::Linear(const std::string& name, const Row& x) const {
  const std::vector<double>& weight = weights_.at(name);
  Row y(weight.size() / x.size(), 0.0);
  for (size_t n = 0; n < y.size(); ++n) {
    for (size_t k = 0; k < x.size(); ++k) y[n] += weight[n * x.size() + k] * x[k];
  }
  return y;
}

StreamingReference::Row StreamingReference::Norm(const std::string& name, const Row& x) const {
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + static_cast<double>(spec_.norm_eps));
  Row y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weights_.at(name)[i];
  return y;
}

int64_t StreamingReference::FirstLive(int64_t t) const {
  const int64_t oldest = t - window_.memory_len + 1;
  if (oldest <= window_.pinned) return window_.pinned;
  const int64_t slack = window_.eviction == Eviction::kTurn ? window_.memory_len / 4 : 0;
  for (int64_t p = oldest; p <= std::min(t, oldest + slack); ++p) {
    if (starts_.contains(p)) return p;
  }
  return oldest;
}

StreamingReference::Row StreamingReference::Attend(const Layer& layer, const Row& q, int64_t t) const {
  std::vector<int64_t> held;
  for (int64_t p = 0; p < std::min(window_.pinned, t + 1); ++p) held.push_back(p);
  const int64_t first = FirstLive(t);
  for (int64_t p = std::max<int64_t>(first, static_cast<int64_t>(held.size())); p <= t; ++p) held.push_back(p);

  const auto d = static_cast<size_t>(spec_.head_dim), half = static_cast<size_t>(spec_.rotary / 2);
  const size_t group = static_cast<size_t>(spec_.heads / spec_.kv_heads);
  Row out(q.size(), 0.0);
  for (size_t h = 0; h < static_cast<size_t>(spec_.heads); ++h) {
    Row score(held.size());
    for (size_t j = 0; j < held.size(); ++j) {
      const double* query = q.data() + h * d;
      const double* key = layer.keys[static_cast<size_t>(held[j])].data() + h / group * d;
      const bool far = absolute_ && held[j] < window_.pinned;
      const auto distance = static_cast<double>(far ? t - held[j] : static_cast<int64_t>(held.size() - 1 - j));
      for (size_t i = 0; i < half; ++i) {
        // (R(a) q) . (R(b) k) = q . R(b - a) k: only the distance matters.
        const double angle = distance * spec_.rotations.front().inverse_frequencies[i], c = std::cos(angle),
                     s = std::sin(angle);
        const double q0 = query[i] * c - query[i + half] * s, q1 = query[i] * s + query[i + half] * c;
        score[j] += q0 * key[i] + q1 * key[i + half];
      }
      for (size_t i = 2 * half; i < d; ++i) score[j] += query[i] * key[i];
      score[j] /= std::sqrt(static_cast<double>(d));
    }
    const double largest = *std::max_element(score.begin(), score.end());
    double sum = 0;
    for (double& value : score) sum += value = std::exp(value - largest);
    for (size_t j = 0; j < held.size(); ++j) {
      const double* value = layer.values[static_cast<size_t>(held[j])].data() + h / group * d;
      for (size_t i = 0; i < d; ++i) out[h * d + i] += score[j] / sum * value[i];
    }
  }
  return out;
}

std::vector<double> StreamingReference::Append(TokenId id) {
  const auto hidden = static_cast<size_t>(spec_.hidden);
  const auto row = weights_.at("model.embed_tokens.weight").begin() + static_cast<int64_t>(id) * spec_.hidden;
  Row x(row, row + spec_.hidden);
  const auto t = static_cast<int64_t>(layers_[0].keys.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    const std::string base = "model.layers." + std::to_string(l) + ".";
    const Row normed = Norm(base + "input_layernorm.weight", x);
    layers_[l].keys.push_back(Linear(base + "self_attn.k_proj.weight", normed));
    layers_[l].values.push_back(Linear(base + "self_attn.v_proj.weight", normed));
    const Row attended = Attend(layers_[l], Linear(base + "self_attn.q_proj.weight", normed), t);
    const Row out = Linear(base + "self_attn.o_proj.weight", attended);
    for (size_t i = 0; i < hidden; ++i) x[i] += out[i];
    const Row mlp = Norm(base + "post_attention_layernorm.weight", x);
    Row gate = Linear(base + "mlp.gate_proj.weight", mlp);
    const Row up = Linear(base + "mlp.up_proj.weight", mlp);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    const Row down = Linear(base + "mlp.down_proj.weight", gate);
    for (size_t i = 0; i < hidden; ++i) x[i] += down[i];
  }
  return Linear("lm_head.weight", Norm("model.norm.weight", x));
}

std::vector<double> StreamingReference::AppendAll(const std::vector<TokenId>& ids) {
  std::vector<double> out;
  for (const TokenId id : ids) {
    const std::vector<double> logits = Append(id);
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

}  // namespace ringside
