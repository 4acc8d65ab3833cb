// The network: hidden states and logits for a batch of sequences. Immutable after Load, without state of conversations.
// THREAD: engine for the forward pass, which uses the model's workspace.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/snapshot.h"
#include "engine/families/model_spec.h"
#include "engine/families/network_plan.h"
#include "engine/model/network.h"
#include "engine/model/weights/load_format.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class Backend;
class Processes;

class Model final : public Network {
 public:
  ~Model() override;
  /// Loads any format that OpenModelFiles (model_files.h) accepts. REQUIRES: `backend` outlives the model. ERRORS:
  /// kCorruption, with the tensor, if one is missing, short, misshapen, overlapping or unknown; kInvalidArgument for an
  /// unknown or unsupported feature; kNotFound, kIo for an unreadable file; kOverloaded without memory.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, Backend& backend);
  /// As above, sharded over ranks (engine/model/weights/shard.h): one backend each, in rank order (RankLayout). From
  /// now on each rank has a thread, which alone uses its backend. ERRORS: also kInvalidArgument if the model cannot be
  /// split into that many parts.
  ///
  /// kDummy needs no *.safetensors: weights are random (kernels/random_weights.h), the same for any number of ranks. If
  /// the folder has no tokenizer either, tokens are bytes and dummy words. Several ranks have no draft layer.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, std::span<Backend* const> ranks, int stages = 1,
                                             LoadFormat format = LoadFormat::kAuto,
                                             DraftLayer draft = DraftLayer::kSkip);
  /// As above, in the first of several processes, which all have the same number of ranks. Waits until all have loaded.
  /// REQUIRES: `processes` outlives the model. ERRORS: the first failure of any process; kInvalidArgument, with the
  /// process, if one has loaded something else.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, std::span<Backend* const> ranks, int stages,
                                             LoadFormat format, Processes& processes);
  /// Runs a follower process: loads its part, then executes the first process's calls until the end call. ERRORS: as
  /// Load; kUnavailable once another process or a device is gone.
  static Status Follow(const std::string& path, std::span<Backend* const> ranks, int stages, LoadFormat format,
                       Processes& processes);

  /// Loads LoRA adapters and soft prompts (engine/model/adapters/), numbered from 1 in this order for
  /// StepPart::adapter. REQUIRES: called once, before Reserve and the first step. ERRORS: as for reading and loading
  /// each, with the adapter's name and path; kInvalidArgument also if the device or several processes do not support
  /// adapters.
  Status LoadAdapters(std::span<const NamedAdapter> adapters);

  const ModelSpec& spec() const;
  /// The memory of its only rank, or of all ranks as one.
  SlabMemory& memory() const override;
  /// The backend of its first rank.
  Backend& backend() const;
  NetworkShape shape() const override;
  int64_t virtual_tokens(int adapter) const override;
  const ImageFormat* image_format() const override;
  std::shared_ptr<const ImageRows> EncodeImage(const Picture& picture, int64_t rows, int64_t* spent) override;
  bool runs_ahead() const override;
  /// The file's tokenizer (no tokens if it has none) and chat template (Jinja source; "" if it has none). Every token
  /// id is below the model's vocabulary size.
  const TokenizerData& tokenizer_data() const;
  const std::string& chat_template() const;
  /// A digest of everything that determines the numbers and the tokens: all tensor bytes, hyper-parameters, rotation,
  /// tokenizer, chat template, the backend's activation and weight types, the versions of the arithmetic and of the
  /// cache layout. Rows computed under equal fingerprints (with equal element type, which a snapshot records itself)
  /// are interchangeable.
  const Fingerprint& fingerprint() const;
  /// The fingerprint under each adapter.
  const std::vector<Fingerprint>& adapter_fingerprints() const;
  /// Bytes of weights on all its devices.
  int64_t weight_bytes() const;

  /// Reserves the workspace for steps of up to `rows` tokens, so that no such step allocates. ERRORS: kOverloaded, with
  /// the bytes, if the device has no memory; larger steps then still work if they fit.
  Status Reserve(int64_t rows);

  /// Runs one step: appends each part's tokens to its cache and writes the requested logits, part after part, to
  /// `logits` [wanted rows, vocab] (host memory). Rows of all parts share the linear layers. REQUIRES: each part has
  /// its own cache, of this model's shape; ids are below the vocabulary size, or virtual; with learned positions all
  /// positions are below the trained context; workspace for the rows (Reserve). Aborts otherwise.
  void Forward(std::span<const StepPart> parts, std::span<float> logits);
  /// As Forward, but samples tokens; the logits stay on the device.
  void Begin(std::span<const StepPart> parts, std::span<const RowSamplingParams> choices) override;
  void BeginDeferred(std::span<const StepPart> parts) override;
  void Choose(std::span<const RowSamplingParams> choices) override;
  void Finish(std::span<SampledToken> chosen) override;
  /// A decoder on a single device.
  bool samples_rows() const override;
  void SampleRows(std::span<const size_t> rows, std::span<const RowSamplingParams> choices,
                  std::span<SampledToken> sampled) override;
  std::span<const float> hidden_states() const override;
  bool has_draft_layer() const override;
  std::vector<std::vector<TokenId>> Draft(std::span<const DraftPart> parts) override;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ringside
