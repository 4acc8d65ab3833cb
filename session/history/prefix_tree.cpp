#include "session/history/prefix_tree.h"

#include <algorithm>
#include <utility>

namespace ringside {
namespace {

constexpr size_t kNodeBytes = 256, kIdBytes = 64;  // estimates, container overhead included

size_t SharedLength(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + limit, b.begin()).first - a.begin());
}

}  // namespace

struct PrefixTree::Node {
  Node* parent = nullptr;
  std::string label;                               // of the incoming edge; empty for the root only
  std::map<char, std::unique_ptr<Node>> children;  // by the first byte of their labels
  std::vector<Id> ids;                             // texts that end here, in order of Set
  uint64_t newest = 0;                             // latest Set in this subtree, possibly erased since
};

PrefixTree::PrefixTree() : root_(std::make_unique<Node>()) {}
PrefixTree::~PrefixTree() = default;
PrefixTree::PrefixTree(PrefixTree&&) noexcept = default;
PrefixTree& PrefixTree::operator=(PrefixTree&&) noexcept = default;

void PrefixTree::Set(Id id, std::string_view text) {
  Erase(id);
  Node* const end = Insert(text);
  end->ids.push_back(id);
  ends_[id] = end;
  bytes_ += kIdBytes;
  ++sets_;
  for (Node* node = end; node != nullptr; node = node->parent) node->newest = sets_;
}

PrefixTree::Node* PrefixTree::Insert(std::string_view text) {
  Node* node = root_.get();
  while (!text.empty()) {
    const auto edge = node->children.find(text.front());
    if (edge == node->children.end()) {
      auto leaf = std::make_unique<Node>();
      leaf->parent = node;
      leaf->label = std::string(text);
      bytes_ += kNodeBytes + text.size();
      return (node->children[text.front()] = std::move(leaf)).get();
    }
    Node* const next = edge->second.get();
    const size_t shared = SharedLength(next->label, text);
    node = shared < next->label.size() ? Split(next, shared) : next;
    text.remove_prefix(shared);
  }
  return node;
}

PrefixTree::Node* PrefixTree::Split(Node* node, size_t length) {
  std::unique_ptr<Node>& place = node->parent->children.at(node->label.front());
  auto upper = std::make_unique<Node>();
  upper->parent = node->parent;
  upper->label = node->label.substr(0, length);
  upper->newest = node->newest;
  node->parent = upper.get();
  node->label = node->label.substr(length);
  upper->children[node->label.front()] = std::move(place);
  bytes_ += kNodeBytes;
  place = std::move(upper);
  return place.get();
}

void PrefixTree::Erase(Id id) {
  const auto at = ends_.find(id);
  if (at == ends_.end()) return;
  Node* const end = at->second;
  std::erase(end->ids, id);
  ends_.erase(at);
  bytes_ -= kIdBytes;
  Prune(end);
}

void PrefixTree::Prune(Node* node) {
  while (node != root_.get() && node->ids.empty() && node->children.empty()) {
    Node* const parent = node->parent;
    bytes_ -= kNodeBytes + node->label.size();
    parent->children.erase(node->label.front());
    node = parent;
  }
  if (node == root_.get() || !node->ids.empty() || node->children.size() != 1) return;
  // Merges a chain into one edge.
  std::unique_ptr<Node> below = std::move(node->children.begin()->second);
  below->label.insert(0, node->label);
  below->parent = node->parent;
  bytes_ -= kNodeBytes;
  below->parent->children.at(below->label.front()) = std::move(below);
}

std::optional<PrefixTree::Id> PrefixTree::Preferred(const Node& node, const std::function<bool(Id)>& prefers) {
  std::vector<const Node*> open = {&node};
  while (!open.empty()) {
    const Node* const next = open.back();
    open.pop_back();
    const auto id = std::ranges::find_if(next->ids, prefers);
    if (id != next->ids.end()) return *id;
    for (const auto& [byte, child] : next->children) open.push_back(child.get());
  }
  return std::nullopt;
}

PrefixTree::Matches PrefixTree::Find(std::string_view text, const std::function<bool(Id)>& prefers) const {
  Matches found;
  const Node* node = root_.get();
  size_t shared = 0;
  while (shared < text.size()) {
    const auto edge = node->children.find(text[shared]);
    if (edge == node->children.end()) break;
    node = edge->second.get();
    const size_t length = SharedLength(node->label, text.substr(shared));
    shared += length;
    if (length < node->label.size()) break;
    if (node->ids.empty()) continue;
    const auto preferred = prefers ? std::ranges::find_if(node->ids, prefers) : node->ids.end();
    found.whole = Match{preferred != node->ids.end() ? *preferred : node->ids.front(), shared};
  }
  if (shared == 0) return found;
  if (const auto preferred = prefers ? Preferred(*node, prefers) : std::nullopt) {
    found.longest = Match{*preferred, shared};
    return found;
  }
  while (node->ids.empty()) {
    node = std::max_element(node->children.begin(), node->children.end(), [](const auto& a, const auto& b) {
             return a.second->newest < b.second->newest;
           })->second.get();
  }
  found.longest = Match{node->ids.front(), shared};
  return found;
}

}  // namespace ringside
