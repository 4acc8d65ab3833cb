// A network decorator for tests that observe or change some calls.
#pragma once

#include "engine/model/network.h"

namespace ringside {

class ForwardingNetwork : public Network {
 public:
  /// REQUIRES: `network` outlives it.
  explicit ForwardingNetwork(Network& network) : network_(network) {}

  SlabMemory& memory() const override { return network_.memory(); }
  NetworkShape shape() const override { return network_.shape(); }
  bool runs_ahead() const override { return network_.runs_ahead(); }
  void Begin(std::span<const StepPart> parts, std::span<const RowSamplingParams> choices) override {
    Before(parts);
    network_.Begin(parts, choices);
    After(parts);
  }
  void BeginDeferred(std::span<const StepPart> parts) override {
    Before(parts);
    network_.BeginDeferred(parts);
    After(parts);
  }
  void Choose(std::span<const RowSamplingParams> choices) override { network_.Choose(choices); }
  void Finish(std::span<SampledToken> chosen) override { network_.Finish(chosen); }
  bool samples_rows() const override { return network_.samples_rows(); }
  void SampleRows(std::span<const size_t> rows, std::span<const RowSamplingParams> choices,
                  std::span<SampledToken> sampled) override {
    network_.SampleRows(rows, choices, sampled);
  }
  bool has_draft_layer() const override { return network_.has_draft_layer(); }
  std::vector<std::vector<TokenId>> Draft(std::span<const DraftPart> parts) override { return network_.Draft(parts); }
  std::span<const float> hidden_states() const override { return network_.hidden_states(); }

 protected:
  /// Called before and after each step is launched.
  virtual void Before(std::span<const StepPart>) {}
  virtual void After(std::span<const StepPart>) {}

 private:
  Network& network_;
};

}  // namespace ringside
