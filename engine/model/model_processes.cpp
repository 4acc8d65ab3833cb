// A model shared by several processes: their agreement at load time, and the loop of the followers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/model/model_state.h"
#include "engine/model/ranks/rank_follower.h"

namespace ringside {
namespace {

// Communication channels between a model's processes; lower channels belong to the ranks themselves.
constexpr int kLoadChannel = 2, kFirstLineChannel = 3;

int ChannelOf(int rank) { return kFirstLineChannel + rank; }

/// Load result of a process; sent as raw memory, because all run the same program.
struct Loaded {
  StatusCode code = StatusCode::kOk;
  int32_t ranks = 0, stages = 0;
  Fingerprint fingerprint{};
  int64_t weight_bytes = 0;
  std::array<char, 400> message{};  // NUL-terminated
};

}  // namespace

Model::State::State(std::span<Backend* const> devices, int stages, Processes* processes)
    : backends(devices.begin(), devices.end()),
      first_rank(processes == nullptr ? 0 : processes->number() * static_cast<int>(devices.size())),
      layout{.tensor = static_cast<int>(devices.size()) * (processes == nullptr ? 1 : processes->count()) / stages,
             .stages = stages},
      group(first_rank == 0 ? static_cast<size_t>(layout.ranks()) : devices.size()),
      planner(spec),
      decoders(devices.size()) {
  const int each = static_cast<int>(devices.size());
  CHECK_EQ(layout.ranks(), each * (processes == nullptr ? 1 : processes->count()));
  if (processes == nullptr) return;
  others = processes->MakeComm(kLoadChannel, Processes::kNoTimeout);
  if (first_rank != 0) return;
  for (int rank = each; rank < layout.ranks(); ++rank) {
    remotes.push_back(std::make_unique<RemoteRank>(
        RankConnection(processes->MakeComm(ChannelOf(rank), processes->timeout()), rank / each)));
  }
}

Status Model::State::Compare(const Status& loaded) {
  Loaded mine{.code = loaded.code(),
              .ranks = layout.ranks(),
              .stages = layout.stages,
              .fingerprint = fingerprint,
              .weight_bytes = weight_bytes};
  loaded.message().copy(mine.message.data(), mine.message.size() - 1);
  std::vector<Loaded> all(static_cast<size_t>(others->ranks()));
  others->AllGather(&mine, sizeof(mine), all.data());
  RETURN_IF_ERROR(loaded);
  if (all.front().ranks == 0) return others->status();  // nothing was received
  weight_bytes = 0;
  for (size_t process = 0; process < all.size(); ++process) {
    Loaded& one = all[process];
    one.message.back() = '\0';
    if (one.code != StatusCode::kOk) {
      return {std::min(one.code, StatusCode::kUnavailable), fmt::format("process {}: {}", process, one.message.data())};
    }
    if (one.ranks != all.front().ranks || one.stages != all.front().stages ||
        one.fingerprint != all.front().fingerprint) {
      return InvalidArgument(fmt::format(
          "process {} has loaded a different model than the first process, or uses different settings", process));
    }
    weight_bytes += one.weight_bytes;
  }
  return Status::Ok();
}

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, std::span<Backend* const> ranks, int stages,
                                           LoadFormat format, Processes& processes) {
  auto state = std::make_unique<State>(ranks, stages, &processes);
  RETURN_IF_ERROR(state->Compare(state->Load(path, format)));
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

Status Model::Follow(const std::string& path, std::span<Backend* const> ranks, int stages, LoadFormat format,
                     Processes& processes) {
  std::vector<RankConnection> lines;
  State state(ranks, stages, &processes);
  for (size_t here = 0; here < ranks.size(); ++here) {
    const int channel = ChannelOf(state.first_rank + static_cast<int>(here));
    lines.emplace_back(processes.MakeComm(channel, Processes::kNoTimeout), 0);
  }
  RETURN_IF_ERROR(state.Compare(state.Load(path, format)));
  return state.group.Try([&](size_t here) {
    const ModelSpec own = state.shards[static_cast<size_t>(state.first_rank) + here].Of(state.spec);
    return RankFollower(*ranks[here], *state.decoders[here], own, lines[here]).Follow();
  });
}

}  // namespace ringside
