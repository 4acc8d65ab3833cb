// The network: hidden states and logits for a batch of sequences. Const after Load, holds no conversation; the forward
// pass is called from the engine thread only (it uses the model's scratch memory).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/snapshot.h"
#include "engine/families/model_spec.h"
#include "engine/model/network.h"
#include "engine/model/weights/load_format.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class Backend;
class Processes;

class Model final : public Network {
 public:
  ~Model() override;
  /// Loads what OpenModelFiles (model_files.h) takes, whatever its format. A missing, short, misshapen, overlapping or
  /// unknown tensor refuses to load, naming it (kCorruption); so does what we do not know or lack (kInvalidArgument),
  /// an unreadable file (kNotFound, kIo) and want of memory (kOverloaded). `backend` must outlive the model.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, Backend& backend);
  /// The same, shared by ranks that each have a part of it (engine/model/weights/shard.h): a backend each, which are
  /// used by the ranks' own threads from now on, one a rank, in the order of their ranks (RankLayout).
  /// kInvalidArgument, too, if it cannot be shared by so many.
  ///
  /// With kDummy no *.safetensors are looked for: weights are random (kernels/random_weights.h), the same for any
  /// number of ranks, and where the folder has no tokenizer either, bytes are tokens and all others made-up words.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, std::span<Backend* const> ranks, int stages = 1,
                                             LoadFormat format = LoadFormat::kAuto);
  /// The same in the first of several processes, of which each has as many ranks. Waits until all have loaded; the
  /// first failure of any, and kInvalidArgument, naming the process, where one has loaded something else. `processes`
  /// must outlive the model.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, std::span<Backend* const> ranks, int stages,
                                             LoadFormat format, Processes& processes);
  /// What the others do meanwhile: load their part, and then what the first tells them, until it tells them to end.
  /// Fails as Load does; kUnavailable once another process or a device is gone.
  static Status Follow(const std::string& path, std::span<Backend* const> ranks, int stages, LoadFormat format,
                       Processes& processes);

  /// Loads LoRA adapters and soft prompts (engine/model/adapters/), which parts of steps call by their place in this
  /// list, counted from 1. Once, before Reserve and the first step. Errors as of reading and loading them, naming the
  /// adapter and its path; kInvalidArgument, too, where the device or other processes cannot have any.
  Status LoadAdapters(std::span<const NamedAdapter> adapters);

  const ModelSpec& spec() const;
  /// That of its only rank, or of all of them as one.
  SlabMemory& memory() const override;
  /// Of its first rank.
  Backend& backend() const;
  NetworkShape shape() const override;
  int64_t virtual_tokens(int adapter) const override;
  bool runs_ahead() const override;
  /// What the same file says of the tokenizer (no tokens if it has none) and its chat template (Jinja source; "" if it
  /// has none). Every token's id is below the model's vocabulary size.
  const TokenizerData& tokenizer_data() const;
  const std::string& chat_template() const;
  /// A digest of everything that decides the numbers and the tokens: every tensor's bytes, the hyper-parameters, the
  /// rotation, the tokenizer, the chat template, the types of the backend's activations and weights, the version of the
  /// arithmetic and of the cache's layout. Rows computed under equal fingerprints (and with the same element type,
  /// which a snapshot names itself) are interchangeable.
  const Fingerprint& fingerprint() const;
  /// The same of rows that are computed under each of the adapters: of what these change, too.
  const std::vector<Fingerprint>& adapter_fingerprints() const;
  /// Bytes of weights on all its devices.
  int64_t weight_bytes() const;

  /// Takes the scratch memory for steps of up to `rows` tokens, so that no step needs more. kOverloaded, naming the
  /// bytes, if the device has no room; larger steps then still work as far as they fit.
  Status Reserve(int64_t rows);

  /// Runs one step: appends each part's tokens to its cache and writes the logits asked for, part after part, to
  /// `logits` [wanted rows, vocab] (host memory). Rows of all parts share the linear layers. Each part has a cache of
  /// its own, of this model's shape; ids are below the vocabulary size, or virtual; with learned positions no token
  /// stands at or past the trained context. Aborts otherwise, and if the device has no room for scratch memory: see
  /// Reserve.
  void Forward(std::span<const StepPart> parts, std::span<float> logits);
  /// The same step, ending in tokens; the logits stay on the device.
  void Begin(std::span<const StepPart> parts, std::span<const TokenChoice> choices) override;
  void BeginUnchosen(std::span<const StepPart> parts) override;
  void Choose(std::span<const TokenChoice> choices) override;
  void Finish(std::span<ChosenToken> chosen) override;
  std::span<const float> hidden_states() const override;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ringside
