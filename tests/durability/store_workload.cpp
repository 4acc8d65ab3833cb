#include "tests/durability/store_workload.h"

#include <algorithm>
#include <cstdlib>

namespace ringside {
namespace {

std::string PartText(const std::string& owner, int n) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(owner) + static_cast<uint64_t>(n)));
  std::string text(n % 5 == 0 ? 600'000 : 100 + random() % 2000, ' ');  // some are split into pieces
  for (size_t i = 0; i < text.size(); i += 61) text[i] = static_cast<char>(random());
  return text + owner + std::to_string(n);
}

int Refused(const Status& status) {
  const bool typed = status.code() == StatusCode::kCorruption || status.code() == StatusCode::kIo;
  return typed ? kDamagedObject : kForeignObject;
}

}  // namespace

StoreObject ExpectedObject(const std::string& owner, int version) {
  StoreObject object{std::to_string(version), {}};
  for (int i = std::max(0, version - 2); i <= version; ++i) {
    const std::string text = PartText(owner, i);
    const Blob blob = Blob::CopyOf(std::as_bytes(std::span(text)));
    object.parts.push_back({HashOf(blob.bytes()), blob});
  }
  return object;
}

int VersionIn(Store& store, const std::string& owner) {
  const auto manifest = store.GetManifest(owner);
  if (manifest.status().code() == StatusCode::kNotFound) return kNoObject;
  if (!manifest.ok()) return Refused(manifest.status());
  const int version = std::atoi(manifest->c_str());
  if (std::to_string(version) != *manifest) return kForeignObject;
  for (const StorePart& expected : ExpectedObject(owner, version).parts) {
    const auto part = store.GetPart(owner, expected.key, expected.bytes.size());
    if (part.status().code() == StatusCode::kNotFound) return kDamagedObject;  // as a reader interprets it
    if (!part.ok()) return Refused(part.status());
    // A reader compares the part's hash and detects different bytes.
    if (!std::ranges::equal(part->bytes(), expected.bytes.bytes())) return kDamagedObject;
  }
  return version;
}

void StoreOracle::PutIssued(const std::string& owner, int version) { fates_[owner].issued = version; }
void StoreOracle::PutDone(const std::string& owner, int version) {
  fates_[owner] = {version, version, false};
  ++acknowledged_;
}
void StoreOracle::EraseIssued(const std::string& owner) { fates_[owner].erase_issued = true; }
void StoreOracle::EraseDone(const std::string& owner) {
  fates_[owner] = {kNoObject, fates_[owner].issued, true};
  ++acknowledged_;
}

int StoreOracle::NextVersion(const std::string& owner) const {
  const auto fate = fates_.find(owner);
  return fate == fates_.end() ? 0 : fate->second.issued + 1;
}

std::string StoreOracle::Check(Store& store) {
  for (auto& [owner, fate] : fates_) {
    const int version = VersionIn(store, owner);
    const std::string found = owner + " has version " + std::to_string(version);
    if (version < kNoObject) return found;
    if (version > fate.issued) return found + ", issued was " + std::to_string(fate.issued);
    if (!fate.erase_issued && version < fate.acknowledged) {
      return found + ", acknowledged was " + std::to_string(fate.acknowledged);
    }
    fate = {version, fate.issued, false};
  }
  return "";
}

int ChangeStore(Store& store, StoreOracle& oracle, std::mt19937& random, int changes) {
  int failed = 0;
  for (; changes > 0; --changes) {
    const std::string owner(1, static_cast<char>('a' + random() % 6));
    if (random() % 5 == 0) {
      oracle.EraseIssued(owner);
      if (store.Erase(owner).ok()) {
        oracle.EraseDone(owner);
      } else {
        ++failed;
      }
      continue;
    }
    // One object, or several together.
    std::vector<std::string> owners = {owner};
    if (random() % 3 == 0) owners = {"f", owner == "f" ? "e" : owner, "b" + std::string(1, owner[0])};
    std::vector<NamedObject> objects;
    std::vector<int> versions;
    for (const std::string& each : owners) {
      versions.push_back(oracle.NextVersion(each));
      oracle.PutIssued(each, versions.back());
      objects.push_back({each, ExpectedObject(each, versions.back())});
    }
    const std::vector<Status> put = store.PutAll(std::move(objects));
    for (size_t i = 0; i < owners.size(); ++i) {
      if (put[i].ok()) oracle.PutDone(owners[i], versions[i]);
      if (!put[i].ok()) ++failed;
    }
  }
  return failed;
}

}  // namespace ringside
