// Objects with bytes predictable from owner and version, random changes to them, and the record of requests and answers
// against which a store is checked after a crash.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>

#include "cache/store/store.h"

namespace ringside {

/// Version n has parts n - 2 .. n: each Put adds one, keeps two and drops one. Some parts are large.
StoreObject ExpectedObject(const std::string& owner, int version);

inline constexpr int kNoObject = -1, kDamagedObject = -2, kForeignObject = -3;
/// The version of the owner's object in `store`, with every part compared; or one of the above: none, refused as
/// damaged or unreadable, never put.
int VersionIn(Store& store, const std::string& owner);

/// Requests for an owner, and the store's answers.
class StoreOracle {
 public:
  void PutIssued(const std::string& owner, int version);
  void PutDone(const std::string& owner, int version);
  void EraseIssued(const std::string& owner);
  void EraseDone(const std::string& owner);
  /// The next version of the owner.
  int NextVersion(const std::string& owner) const;

  /// After a crash: "" = only complete versions, none older than acknowledged, none that was never put; else the fault.
  /// Then adopts the store's content.
  std::string Check(Store& store);
  uint64_t acknowledged() const { return acknowledged_; }

 private:
  struct Fate {
    int acknowledged = kNoObject, issued = kNoObject;
    bool erase_issued = false;
  };
  std::map<std::string, Fate> fates_;
  uint64_t acknowledged_ = 0;
};

/// Makes random changes and records them in the oracle. Returns the number of failures.
int ChangeStore(Store& store, StoreOracle& oracle, std::mt19937& random, int changes);

}  // namespace ringside
