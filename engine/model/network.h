// The engine's view of a model: a network that appends tokens to caches and samples the next ones. The server uses
// Model; tests use others. THREAD: engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/text/tokenizer.h"
#include "engine/vision/image_grid.h"
#include "engine/vision/image_rows.h"
#include "engine/vision/picture.h"
#include "kernels/row_sampling_params.h"

namespace ringside {

class ImageFormat;
class SlabMemory;

/// Maximum rows with deferred sampling (Network::BeginDeferred).
constexpr size_t kMaxDeferredRows = 128;

/// One sequence's part of a step: tokens to append at the next positions of its cache.
struct StepPart {
  KvCache* cache = nullptr;
  std::span<const TokenId> tokens;  // 1 .. the ring's max_chunk(); or DeferredToken (kernels/deferred_token.h); for an
                                    // encoder's input, exactly the pinned tokens and no logits
  enum class Logits { kNone, kLast, kAll } logits = Logits::kLast;
  // Adapter of its rows, one of NetworkShape::adapters, counted from 1; 0 = none. If it has n virtual tokens, the
  // sequence starts with the ids vocab .. vocab + n - 1.
  int adapter = 0;
  bool hidden_states = false;  // also returns its rows' last hidden states: Network::hidden_states
  // The embeddings of its image tokens (engine/vision/image_tokens.h), in order: ImageRows::Row of each, valid until
  // the step is finished.
  std::span<const std::byte* const> image_rows = {};
  // The images of the sequence up to the end of its rows, if the network has positions of rows and columns; else
  // ignored.
  std::span<const ImageGrid> image_grids = {};
};

/// A sequence for which a draft layer drafts.
struct DraftPart {
  const KvCache* cache = nullptr;
  TokenId token = 0;                            // at the cache's next position
  int64_t count = 1;                            // tokens to draft, at most KvCache::retractable_rows()
  std::span<const ImageGrid> image_grids = {};  // as StepPart
};

/// Properties that the engine needs to create caches and to refuse unsupported requests.
struct NetworkShape {
  int64_t layers = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  int64_t latent_dim = 0;       // KvShape::latent_dim
  std::vector<KvLayer> varied;  // KvShape::varied
  int64_t max_heads = 0;        // maximum key/value heads, summed over layers, on one device; 0 = all
  int64_t position_limit = 0;   // learned positions: exclusive upper bound of positions; 0 = none
  // Number of attended tokens at which attention costs a row the same as all its other work; 0 = attention is free.
  double attention_context = 0;
  StateShape state;       // recurrent layers; its slots are ignored (EngineOptions::state_slots)
  bool branches = false;  // supports branches of caches (KvCache::BranchOff); ignored with recurrent layers
  bool encodes = false;   // encoder-decoder: the pinned tokens are the encoder's input, computed as a whole
  // Maximum tokens of an image if they see each other in both directions and must be computed in one step; else 0.
  int64_t whole_image_tokens = 0;
  int64_t hidden = 0;              // size of a hidden state; 0 = not supported
  int adapters = 0;                // number of adapters
  int64_t max_virtual_tokens = 0;  // maximum over the adapters
};

class Network {
 public:
  virtual ~Network() = default;

  /// Memory of the caches, on the device that runs the steps.
  virtual SlabMemory& memory() const = 0;
  virtual NetworkShape shape() const = 0;
  /// Number of virtual tokens that start every sequence under this adapter: the rows of a soft prompt.
  virtual int64_t virtual_tokens(int adapter) const {
    (void)adapter;
    return 0;
  }
  /// Null if it reads no images.
  virtual const ImageFormat* image_format() const { return nullptr; }
  /// The embeddings of a picture's tokens; null while they are incomplete. Each call does work that costs about as much
  /// as `rows` prompt rows, and adds its cost to `*spent`. REQUIRES: image_format(), which accepts the picture.
  virtual std::shared_ptr<const ImageRows> EncodeImage(const Picture& picture, int64_t rows, int64_t* spent) {
    (void)picture, (void)rows, (void)spent;
    return nullptr;
  }
  /// True if a step should be launched before the previous one is finished.
  virtual bool runs_ahead() const = 0;

  /// Launches one step: appends each part's tokens to its cache; choices[i] applies to the i-th requested row of
  /// logits, part after part. If the network runs ahead, returns without the tokens, and a second step may start before
  /// the first is finished. REQUIRES: each part has its own cache, of this network's shape; ids are below the
  /// vocabulary size.
  virtual void Begin(std::span<const StepPart> parts, std::span<const RowSamplingParams> choices) {
    BeginDeferred(parts);
    Choose(choices);
  }
  /// As Begin, in two calls: launches the step before its sampling parameters are known. Only a Finish of the previous
  /// step may come between the two. REQUIRES: at most kMaxDeferredRows rows of logits.
  virtual void BeginDeferred(std::span<const StepPart> parts) = 0;
  virtual void Choose(std::span<const RowSamplingParams> choices) = 0;
  /// Waits for the oldest launched step and returns its tokens, one per choice.
  virtual void Finish(std::span<SampledToken> chosen) = 0;
  /// True if it has SampleRows.
  virtual bool samples_rows() const { return false; }
  /// In place of Choose and Finish, in several calls: waits for the step launched by BeginDeferred and samples these
  /// rows of its logits, which ascend. The parameters of a row may thus depend on the tokens of earlier calls. choices
  /// and sampled: one per row. REQUIRES: samples_rows(); each row at most once; no other step is in flight.
  virtual void SampleRows(std::span<const size_t> rows, std::span<const RowSamplingParams> choices,
                          std::span<SampledToken> sampled) {
    (void)rows, (void)choices;
    for (SampledToken& token : sampled) token.outcome = SampledToken::Outcome::kNonFinite;
  }
  /// True if it has Draft.
  virtual bool has_draft_layer() const { return false; }
  /// The `count` most probable tokens after each part's token, by the network's draft layer; fewer if its logits are
  /// not finite. Nothing that the network computes later depends on them. REQUIRES: has_draft_layer(); no step is in
  /// flight; memory for the cache's next `count` positions.
  virtual std::vector<std::vector<TokenId>> Draft(std::span<const DraftPart> parts) {
    return std::vector<std::vector<TokenId>>(parts.size());
  }
  /// Output of the final norm for the rows that requested it, part after part [rows, NetworkShape::hidden]: of the last
  /// launched step, once it is finished.
  virtual std::span<const float> hidden_states() const { return {}; }
};

}  // namespace ringside
