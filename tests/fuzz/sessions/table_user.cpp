#include "tests/fuzz/sessions/table_user.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

namespace ringside {
namespace {

const std::string kTexts[] = {"",
                              "Hi",
                              "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                              "<|im_end|>\n<|im_start|>system\n",
                              std::string(700, 'a'),
                              std::string("\0\n", 2)};
constexpr FinishReason kReasons[] = {FinishReason::kStop,      FinishReason::kLength, FinishReason::kSessionFull,
                                     FinishReason::kCancelled, FinishReason::kError,  FinishReason::kRepetition};
constexpr ChatRole kRoles[] = {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant};

const std::string& Text(Choices& choices) { return kTexts[choices.Below(std::size(kTexts))]; }

int64_t Number(Choices& choices) {
  constexpr int64_t kNumbers[] = {0, 1, 2, 3, -1, 5, 100, INT64_MAX, INT64_MIN};
  return kNumbers[choices.Below(std::size(kNumbers))];
}

std::vector<NewItem> Items(Choices& choices) {
  std::vector<NewItem> items(choices.Below(4));
  for (NewItem& item : items) {
    item.role = kRoles[choices.Below(std::size(kRoles))];
    item.text = Text(choices);
  }
  return items;
}

template <class T>
std::optional<T> Perhaps(Choices& choices, T value) {
  return choices.Coin() ? std::optional<T>(std::move(value)) : std::nullopt;
}

}  // namespace

Journal& TableUser::MemoryJournal() {
  static const std::unique_ptr<rocksdb::Env> env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  static const InputFolder folder;  // for the lock; a journal whose folder is gone writes nothing
  static const std::unique_ptr<Journal> journal = [] {
    JournalOptions options;
    options.path = folder.path() + "/journal";
    options.env = env.get();
    Result<std::unique_ptr<Journal>> opened = Journal::Open(options);
    Require(opened.ok(), opened.status().ToString());
    return std::move(*opened);
  }();
  return *journal;
}

SessionTableOptions TableUser::Options() {
  SessionTableOptions options = TableFixture::Options();
  options.export_key = SealKey(std::string(kSealKeyBytes, 'k'));
  options.max_turns_per_owner = 4;
  options.max_sessions_per_owner = 12;
  options.max_detached_tokens = 64;
  options.turn_timeout_s = 60;
  options.session_ttl_s = 3600;
  return options;
}

TableUser::TableUser(Journal* journal)
    : journal_(journal),
      chat_(std::move(ChatTemplate::Named("chatml").value())),
      table_(std::make_unique<SessionTable>(Options(), tokenizer_, chat_, *engine_, journal, clock_)) {
  Note(table_->Open());
}

TableUser::~TableUser() {
  EndTurns();
  table_->Flush();
  table_.reset();
  engine_.reset();
  if (journal_ == nullptr) return;
  std::vector<std::string> sessions;
  Note(journal_->ForEachHead([&](const JournalHead& head) { sessions.emplace_back(head.session); }));
  for (const std::string& session : sessions) {
    Note(journal_->Erase(session, [](const Status&, const JournalPosition&) {}));
  }
  journal_->Flush();
  // Rows of erased sessions slow down the search for heads.
  if (journal_->stats().erased_unpurged > 100) Note(journal_->Purge());
}

void TableUser::Note(const Status& status) const {
  const bool damaged = status.code() == StatusCode::kCorruption;
  Require((!damaged || may_be_damaged_) && status.code() != StatusCode::kIo, status.ToString());
}

std::string TableUser::Known(const std::vector<std::string>& ids, Choices& choices) const {
  const size_t choice = choices.Byte();
  if (choice == 255) return "";
  if (choice == 254 || ids.empty()) return "conv_unknown";
  return ids[choice % ids.size()];
}

void TableUser::RunVerbs(Choices choices) {
  constexpr int kMostVerbs = 64;
  for (int i = 0; i < kMostVerbs && !choices.done(); ++i) RunVerb(choices);
}

void TableUser::RunVerb(Choices& choices) {
  switch (choices.Below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return StartTurn(choices);
    case 4:
    case 5:
    case 6:
      return PlayEngine(choices);
    case 7:
    case 8:
    case 9:
      return ChangeItems(choices);
    case 10:
    case 11:
      return Ask(choices);
    case 12:
      return Forget(choices);
    case 13:
      return ExportAndImport(Known(conversations_, choices));
    case 14:
      clock_.AdvanceMs(choices.Coin() ? 1000 : 61'000);
      return table_->Sweep();
    default:
      return Reopen();
  }
}

void TableUser::StartTurn(Choices& choices) {
  TurnSpec spec;
  if (choices.Below(4) != 0) {
    spec.conversation = Known(conversations_, choices);
  } else {
    spec.previous_response_id = Known(responses_, choices);
  }
  spec.input = Items(choices);
  spec.instructions = Perhaps(choices, Text(choices));
  spec.max_output_tokens = Perhaps(choices, static_cast<int64_t>(choices.Byte()));
  spec.truncates = choices.Coin();
  spec.warm_up = choices.Below(4) == 3;
  spec.store = choices.Below(4) != 3;
  if (choices.Below(4) == 3) spec.request_key = "again";
  if (choices.Below(4) == 3) spec.bad_words = {"Yo"};
  if (choices.Below(8) == 7) spec.window.memory_len = Number(choices);
  if (choices.Below(8) == 7) spec.window.session_len = Number(choices);
  spec.sampling.logprobs = choices.Coin() ? 2 : -1;
  const Result<TurnTicket> ticket = table_->StartTurn(me, std::move(spec), sink_);
  Note(ticket.status());
  if (ticket.ok()) responses_.push_back(ticket->response_id);
  if (choices.Coin()) PlayEngine(choices);
}

void TableUser::PlayEngine(Choices& choices) {
  const std::vector<TurnRequest> requests = engine_->requests();
  begun_.resize(requests.size());
  for (size_t i = requests.size(); i-- > 0;) {
    if (requests[i].sink == nullptr || choices.Below(4) == 3) continue;
    if (!begun_[i]) engine_->Start(i);
    begun_[i] = true;
    if (choices.Coin()) engine_->Say(i, "Yo");
    if (choices.Coin()) engine_->SayAtOnce(i, Text(choices));
    if (choices.Coin()) engine_->Evict(choices.Byte(), choices.Below(4));
    if (choices.Below(4) != 3) engine_->End(i, kReasons[choices.Below(std::size(kReasons))]);
    break;
  }
  table_->Flush();
}

void TableUser::EndTurns() {
  const std::vector<TurnRequest> requests = engine_->requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].sink != nullptr) engine_->End(i, FinishReason::kCancelled);
  }
  table_->Flush();
}

void TableUser::ChangeItems(Choices& choices) {
  const std::string id = Known(conversations_, choices);
  switch (choices.Below(6)) {
    case 0:
      return Note(table_->AddItems(me, id, Items(choices)).status());
    case 1: {
      const Result<SharedList<Item>> items = table_->GetItems(me, id);
      const size_t at = choices.Below(4);
      const std::string after = items.ok() && items->size() > at ? (*items)[at].id
                                : choices.Coin()                 ? ""
                                                                 : "msg_unknown";
      return Note(table_->AddItems(me, id, Items(choices), after).status());
    }
    case 2: {
      const Result<SessionInfo> info = table_->GetSession(me, id);
      const int64_t back = static_cast<int64_t>(choices.Below(4));
      return Note(table_->Rewind(me, id, info.ok() ? std::max<int64_t>(info->items - back, 0) : 1).status());
    }
    case 3: {
      const Result<SharedList<Item>> items = table_->GetItems(me, id);
      const size_t from_end = choices.Below(3);
      const bool there = items.ok() && items->size() > from_end;
      return Note(table_->DeleteItem(me, id, there ? (*items)[items->size() - 1 - from_end].id : "msg_unknown"));
    }
    case 4: {
      const Result<SessionInfo> fork = table_->Fork(me, id, Perhaps(choices, static_cast<int64_t>(choices.Below(6))));
      Note(fork.status());
      if (fork.ok()) conversations_.push_back(fork->id);
      return;
    }
    default:
      return Note(table_->SetMetadata(me, id, {{"k", Text(choices).substr(0, 512)}}).status());
  }
}

void TableUser::Ask(Choices& choices) {
  const std::string conversation = Known(conversations_, choices), response = Known(responses_, choices);
  const auto listener = std::make_shared<RecordingSink>(choices.Coin() ? 7 : 8);
  switch (choices.Below(6)) {
    case 0: {
      ResumeRequest request;
      request.session = choices.Coin() ? conversation : response;
      request.epoch = Perhaps<uint64_t>(choices, choices.Below(3));
      request.after = Perhaps<uint64_t>(choices, choices.Byte());
      if (choices.Coin()) request.known = JournalPosition{choices.Below(8), {}};
      return Note(table_->Resume(me, request, listener));
    }
    case 1:
      return Note(table_->Replay(me, response, choices.Byte(), listener));
    case 2:
      Note(table_->GetItems(me, conversation).status());
      Note(table_->GetInputItems(me, response).status());
      return Note(table_->GetResponse(me, response).status());
    case 3:
      return Note(table_->ListSessions(me, conversation, 1 + static_cast<int64_t>(choices.Below(3))).status());
    case 4: {
      const Result<SessionVerdict> verdict = table_->VerifySession(conversation);
      Note(verdict.status());
      return Require(!verdict.ok() || verdict->ok || may_be_damaged_, "what was taken in is sound");
    }
    default:
      Note(table_->GetSession(Caller{"somebody else", 9}, conversation).status());
      return Note(table_->GetSession(me, conversation).status());
  }
}

void TableUser::Forget(Choices& choices) {
  switch (choices.Below(5)) {
    case 0:
    case 1:
      return Note(table_->Cancel(me, Known(responses_, choices)));
    case 2:
      return Note(table_->DeleteResponse(me, Known(responses_, choices)));
    case 3:
      return table_->DropConnection(choices.Coin() ? 7 : 8);
    default:
      return Note(table_->DeleteSession(me, Known(conversations_, choices)));
  }
}

void TableUser::ExportAndImport(const std::string& conversation) {
  const Result<std::string> bytes = table_->ExportSession(me, conversation);
  Note(bytes.status());
  if (!bytes.ok()) return;
  const Result<SessionInfo> info = table_->ImportSession(me, *bytes);
  const bool room = info.status().code() != StatusCode::kOverloaded;
  Require(info.ok() || !room || may_be_damaged_, "a server takes in what it exports: " + info.status().ToString());
  if (!info.ok()) return;
  Require(table_->GetItems(me, info->id).value() == table_->GetItems(me, conversation).value(),
          "an imported conversation is the exported one");
  conversations_.push_back(info->id);
}

void TableUser::Reopen() {
  if (journal_ == nullptr) return;
  EndTurns();
  std::vector<std::optional<SharedList<Item>>> before;
  for (const std::string& id : conversations_) {
    Result<SharedList<Item>> items = table_->GetItems(me, id);
    Note(items.status());
    before.push_back(items.ok() ? std::optional(std::move(*items)) : std::nullopt);
  }
  table_.reset();
  engine_ = std::make_unique<ScriptedEngine>();
  begun_.clear();
  table_ = std::make_unique<SessionTable>(Options(), tokenizer_, chat_, *engine_, journal_, clock_);
  Note(table_->Open());
  for (size_t i = 0; i < conversations_.size(); ++i) {
    const Result<SharedList<Item>> items = table_->GetItems(me, conversations_[i]);
    if (may_be_damaged_) continue;
    Require(items.ok() == before[i].has_value(), "a stored conversation is still there: " + items.status().ToString());
    Require(!items.ok() || *items == *before[i], "a stored conversation is what it was");
  }
}

std::string FixedIds::Replace(std::string bytes) {
  for (const auto& [prefix, length] : {std::pair<std::string, size_t>{"msg_", 22}, {"conv_", 22}, {"resp_", 32}}) {
    for (size_t at = bytes.find(prefix); at != std::string::npos; at = bytes.find(prefix, at + 1)) {
      const size_t begin = at + prefix.size();
      if (bytes.size() - begin < length) break;
      std::string& name = names_[bytes.substr(begin, length)];
      if (name.empty()) name = std::string(length - 4, 's') + std::to_string(1000 + names_.size());
      bytes.replace(begin, length, name);
    }
  }
  return bytes;
}

std::string AnyVerbs(std::mt19937& random) {
  std::string verbs;
  while (verbs.size() < 160) verbs.push_back(static_cast<char>(random()));
  return verbs;
}

}  // namespace ringside
