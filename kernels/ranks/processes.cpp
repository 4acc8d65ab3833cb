#include "kernels/ranks/processes.h"

#include <cstdlib>

namespace ringside {
namespace {

class OnlyProcess final : public Processes {
 public:
  explicit OnlyProcess(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  int number() const override { return 0; }
  int count() const override { return 1; }
  int number_on_machine() const override { return 0; }
  int count_on_machine() const override { return 1; }
  std::chrono::milliseconds timeout() const override { return timeout_; }
  std::unique_ptr<Comm> MakeComm(int, std::chrono::milliseconds timeout) override {
    return std::move(MakeThreadComms(1, timeout).front());
  }
  std::vector<RankComms> MakeComms(int, const RankLayout& layout, std::chrono::milliseconds timeout) override {
    return MakeThreadComms(layout, timeout);
  }
  void AwaitFirst() override {}
  Status Leave(bool) override { return Status::Ok(); }

 private:
  const std::chrono::milliseconds timeout_;
};

int NumberIn(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

/// Whether the launcher was mpirun or srun --mpi=pmix with several processes.
bool StartedTogether() {
  return NumberIn("OMPI_COMM_WORLD_SIZE") > 1 ||
         (std::getenv("PMIX_RANK") != nullptr && NumberIn("SLURM_STEP_NUM_TASKS") > 1);
}

}  // namespace

Result<std::unique_ptr<Processes>> Processes::Join(std::chrono::milliseconds timeout) {
  if (StartedTogether()) return JoinByMpi(timeout);
  return std::unique_ptr<Processes>(std::make_unique<OnlyProcess>(timeout));
}

}  // namespace ringside
