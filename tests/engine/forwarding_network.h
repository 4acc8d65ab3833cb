// A network that does what another does: for tests that watch or change some of it.
#pragma once

#include "engine/model/network.h"

namespace ringside {

class ForwardingNetwork : public Network {
 public:
  /// `network` outlives it.
  explicit ForwardingNetwork(Network& network) : network_(network) {}

  Backend& backend() const override { return network_.backend(); }
  NetworkShape shape() const override { return network_.shape(); }
  bool runs_ahead() const override { return network_.runs_ahead(); }
  void Begin(std::span<const StepPart> parts, std::span<const TokenChoice> choices) override {
    network_.Begin(parts, choices);
  }
  void Finish(std::span<ChosenToken> chosen) override { network_.Finish(chosen); }

 private:
  Network& network_;
};

}  // namespace ringside
