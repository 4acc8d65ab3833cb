#include "kernels/cuda/linear/linear_tuning.h"

#include <algorithm>
#include <iterator>

namespace ringside::cuda {
namespace {

constexpr std::string_view kFallback = "NVIDIA H200";

constexpr LinearTuning kRecords[] = {
#include "kernels/cuda/linear/tuning/nvidia_h100.def"
#include "kernels/cuda/linear/tuning/nvidia_h200.def"
};

const LinearTuning* FindRecord(std::string_view gpu) {
  return std::ranges::find_if(kRecords, [&](const LinearTuning& record) { return gpu.starts_with(record.gpu); });
}

}  // namespace

const LinearTuning& TuningOf(std::string_view gpu) {
  const LinearTuning* record = FindRecord(gpu);
  return record == std::end(kRecords) ? *FindRecord(kFallback) : *record;
}

}  // namespace ringside::cuda
