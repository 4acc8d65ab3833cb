#include "engine/overload/wait_control.h"

#include <algorithm>
#include <cmath>

#include "base/refusals/server_overload.h"

namespace ringside {
namespace {

constexpr double kHeldLearningRate = 0.125;  // weight of the newest turn

}  // namespace

WaitControl::WaitControl(double limit_s, const VirtualTokenCounter& served) : forecast_(served) {
  if (limit_s > 0) limit_.emplace(limit_s);
}

double WaitControl::OwnS(const ExpectedPrompt& own) const {
  return static_cast<double>(own.tokens) * forecast_.ns_per_token() * 1e-9 + own.load_ms * 1e-3;
}

bool WaitControl::Admits(const std::string& tenant, const ExpectedPrompt& own) const {
  if (!limit_) return true;
  return limit_->Admits(forecast_.WaitNs(tenant) * 1e-9, OwnS(own));
}

Status WaitControl::Check(const std::string& tenant, const ExpectedPrompt& own, int64_t now_ns) {
  if (!limit_) return Status::Ok();
  const double wait_s = forecast_.WaitNs(tenant) * 1e-9;
  std::lock_guard lock(mutex_);
  const std::optional<double> retry_s = limit_->Refuse(static_cast<double>(now_ns) * 1e-9, wait_s, OwnS(own));
  if (!retry_s) return Status::Ok();
  ++refused_;
  return ServerOverload{.wait_s = wait_s, .retry_after_s = static_cast<int64_t>(std::ceil(*retry_s))}.ToStatus();
}

void WaitControl::AddTo(EngineStats* stats) const {
  stats->prompt_wait_s = forecast_.LongestNs() * 1e-9;
  std::lock_guard lock(mutex_);
  stats->turns_refused = refused_;
}

void WaitControl::NoteHeld(int64_t ns) {
  const auto now = static_cast<double>(ns);
  held_ns_ = held_ns_ == 0 ? now : held_ns_ + kHeldLearningRate * (now - held_ns_);
}

double WaitControl::HeldNs(double mean_age_ns) const { return std::max(held_ns_, mean_age_ns); }

}  // namespace ringside
