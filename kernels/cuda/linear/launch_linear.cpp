// Launches the kernel that a plan names (linear_plan.h).
#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "kernels/cuda/launch.h"

namespace ringside::cuda {
namespace {

struct LaunchRow {
  LinearKernel kernel;
  void (*one)(const Launcher&, const GemmArgs&, const LinearTile&);
  void (*two)(const Launcher&, const GemmArgs&, const GemmArgs&, const LinearPlan&);  // null: none
};
constexpr LaunchRow kLaunches[] = {
    {LinearKernel::kGemv, LaunchGemv, nullptr},
    {LinearKernel::kGemvW8, LaunchGemvW8, nullptr},
    {LinearKernel::kGemvBlockQuant, LaunchGemvBlockQuant, LaunchGemvTwoBlockQuant},
    {LinearKernel::kSmallGemm, LaunchSmallGemm, nullptr},
    {LinearKernel::kWgmmaGemm, LaunchWgmmaGemm, nullptr},
    {LinearKernel::kW8A16Gemm, LaunchW8A16Gemm, nullptr},
    {LinearKernel::kBlockQuantGemm, LaunchBlockQuantGemm, LaunchTwoBlockQuantGemm},
};

const LaunchRow& RowOf(LinearKernel kernel) {
  const auto* row = std::ranges::find(kLaunches, kernel, &LaunchRow::kernel);
  CHECK(row != std::end(kLaunches));
  return *row;
}

}  // namespace

void LaunchLinear(const Launcher& on, const GemmArgs& args, const LinearPlan& plan) {
  CHECK(args.norm == plan.norm && args.epilogue == plan.epilogue && !plan.partner);
  Launcher own = on;
  own.overlap = on.overlap && plan.overlap;
  RowOf(plan.kernel).one(own, args, plan.tile);
}

void LaunchTwoLinear(const Launcher& on, const GemmArgs& args, const GemmArgs& next, const LinearPlan& plan) {
  CHECK(plan.partner && args.norm == plan.norm && next.norm == plan.norm);
  CHECK(args.epilogue == LinearEpilogue::kNothing && next.epilogue == LinearEpilogue::kNothing);
  RowOf(plan.kernel).two(on, args, next, plan);
}

}  // namespace ringside::cuda
