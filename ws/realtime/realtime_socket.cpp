#include "ws/realtime/realtime_socket.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "session/ids.h"
#include "ws/content/item_fields.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_report.h"
#include "ws/fields/request_size.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

struct ItemEvent {
  NewItem item;
  std::string id;       // the client's id; "" = none
  std::string item_id;  // of an existing item
  std::optional<std::string> previous_item_id;
};

struct CancelEvent {
  std::string response_id;
};

struct UpdateEvent {
  RealtimeSettings settings;
};

Status ReadNewItem(const JsonValue& value, const std::string& param, const FieldContext& context, ItemEvent* event) {
  RETURN_IF_ERROR(ReadItem(value, param, context.ignored, &event->item));
  const JsonValue* const id = value.Find("id");
  if (id == nullptr) return Status::Ok();
  RETURN_IF_ERROR(ReadString(*id, param + ".id", &event->id));
  if (event->id.size() <= static_cast<size_t>(limits::kMaxMetadataKeyBytes)) return Status::Ok();
  return InvalidArgument("An item's id is too long.", param + ".id", "string_above_max_length");
}

const FieldTable<UpdateEvent>& UpdateTable() {
  static const FieldTable<UpdateEvent> table(
      Join(Fields<UpdateEvent>{{"session", &UpdateEvent::settings, SettingsTable()}}, EventFields()));
  return table;
}
const FieldTable<ItemEvent>& NewItemTable() {
  static const FieldTable<ItemEvent> table(Join(
      Fields<ItemEvent>{{"item", FieldType::kObject, ReadNewItem}, {"previous_item_id", &ItemEvent::previous_item_id}},
      EventFields()));
  return table;
}
/// Fields of deletions and look-ups.
const FieldTable<ItemEvent>& ItemTable() {
  static const FieldTable<ItemEvent> table(Join(Fields<ItemEvent>{{"item_id", &ItemEvent::item_id}}, EventFields()));
  return table;
}
const FieldTable<CancelEvent>& CancelTable() {
  static const FieldTable<CancelEvent> table(
      Join(Fields<CancelEvent>{{"response_id", &CancelEvent::response_id}}, EventFields()));
  return table;
}

/// Appends the part of `item` with id `own`: its message, or one of its calls, which joins the message before it.
bool AddReferred(const Item& item, const std::string& own, std::vector<NewItem>* messages) {
  if (own == item.id) {
    const bool calls = item.calls_at >= 0;
    const auto text = std::string_view(item.text).substr(0, static_cast<size_t>(item.calls_at));
    messages->push_back({item.role, std::string(text), -1, calls ? "" : item.call_ids});
    messages->back().images = ImagesOf(item);
    return true;
  }
  const std::vector<IdentifiedCall> calls = CallsOf(item, "call_");
  for (size_t i = 0; i < calls.size(); ++i) {
    if (CallItemId(item.id, i) != own || !calls[i].call.complete) continue;
    if (messages->empty() || messages->back().role != ChatRole::kAssistant) messages->push_back({ChatRole::kAssistant});
    NewItem& message = messages->back();
    AppendToolCall(calls[i].call.name, calls[i].call.arguments, &message.text, &message.calls_at);
    message.call_ids += calls[i].id + '\n';
    return true;
  }
  return false;
}

/// Final members of an event that reports ignored fields.
std::string ReportOf(const std::vector<std::string>& ignored) {
  const std::string report = RingsideIgnored(ignored);
  return report.empty() ? "" : "," + report;
}

/// The options of the model that the upgrade or its session names, or of the conversation's.
Result<const SessionTableOptions*> OptionsOfUpgrade(SessionTable& table, const Caller& caller, const std::string& asked,
                                                    const std::string& conversation, const JsonValue& session) {
  const JsonValue* const named = session.is_object() ? session.Find("model") : nullptr;
  const bool in_session = asked.empty() && named != nullptr && named->is_string();
  return table.OptionsFor(caller, in_session ? named->string() : asked, conversation);
}

bool StartsWithOneOf(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

}  // namespace

RealtimeSocket::RealtimeSocket(SessionTable& table, std::string principal, std::shared_ptr<Outbox> outbox,
                               RunOnWorker run, TraceContext trace)
    : table_(table),
      caller_{std::move(principal), NextConnection(), std::move(trace)},
      outbox_(std::move(outbox)),
      run_(std::move(run)) {
  settings_.options = &table_.options();
}

void RealtimeSocket::Open(const std::string& conversation, const std::string& model, const std::string& session,
                          const std::vector<std::string>& ignored) {
  std::lock_guard work(working_);
  RealtimeSettings settings;
  settings.id = MakeId("sess_");
  settings.options = &table_.options();
  Result<JsonValue> given = JsonValue();
  if (!session.empty()) given = ParseJson(session);
  Status status = given.status();
  if (status.ok()) {
    const auto chosen = OptionsOfUpgrade(table_, caller_, model, conversation, *given);
    if (chosen.ok()) settings_.options = settings.options = *chosen;
    status = chosen.status();
  }
  if (status.ok()) status = ReadModelName(model, "model", *settings.options, &settings.adapter);
  if (status.ok() && !session.empty()) status = UpdateSettings(*given, *settings.options, &settings);
  if (status.ok()) status = Enter(conversation, &settings);
  if (status.ok()) status = FitWindow(&settings);
  if (!status.ok()) {
    outbox_->Push(writer_->Error(status, ""));
    return outbox_->Close(1013, "no conversation could be had");
  }
  NoteIgnored(*settings_.options, caller_.principal, ignored);
  settings.ignored.insert(settings.ignored.end(), ignored.begin(), ignored.end());
  settings_ = std::move(settings);
  Push("session.created", "\"session\":" + SettingsObject(settings_, *settings_.options));
}

Status RealtimeSocket::Enter(const std::string& id, RealtimeSettings* settings) {
  SharedList<Item> items;
  const bool makes = id.empty();
  WindowOverrides window = settings->window.value_or(WindowOverrides{});
  if (settings->options->models != nullptr) window.model = settings->options->model_name;
  ASSIGN_OR_RETURN(const SessionInfo info,
                   makes ? table_.CreateSession(caller_, {}, window, {}) : table_.GetSession(caller_, id));
  if (!makes) {
    ASSIGN_OR_RETURN(items, table_.GetItems(caller_, info.id));
  }
  settings->conversation = info.id;
  if (!settings->adapter && !info.adapter.empty()) settings->adapter = info.adapter;
  made_here_ = makes;
  window_ = {.memory_len = info.memory_len, .eviction = info.eviction};
  std::lock_guard lock(mutex_);
  last_item_ = items.empty() ? "" : RealtimeViewsOf(items.back(), "").back().id;
  return Status::Ok();
}

// A conversation's window is fixed when it starts: an empty conversation is replaced by a new one.
Status RealtimeSocket::FitWindow(RealtimeSettings* settings) {
  const std::optional<WindowOverrides>& asked = settings->window;
  if (!asked || (asked->memory_len == window_.memory_len && asked->eviction == window_.eviction)) return Status::Ok();
  bool said = false;
  {
    std::lock_guard lock(mutex_);
    said = said_;
  }
  if (said || !made_here_) {
    return InvalidArgument("The window of a conversation is chosen when it begins.", "session.truncation",
                           "invalid_value");
  }
  const std::string before = settings->conversation;
  RETURN_IF_ERROR(Enter("", settings));
  (void)table_.DeleteSession(caller_, before);
  return Status::Ok();
}

Status RealtimeSocket::Read(std::string_view message, Event* event) const {
  ASSIGN_OR_RETURN(event->body, ParseRequest(message));
  if (!event->body.is_object()) {
    return InvalidArgument("An event must be a JSON object, not " + std::string(event->body.KindName()) + ".", "",
                           "invalid_json");
  }
  if (const JsonValue* id = event->body.Find("event_id"); id != nullptr) {
    RETURN_IF_ERROR(ReadString(*id, "event_id", &event->id));
    if (event->id.size() > static_cast<size_t>(limits::kMaxMetadataValueBytes)) {
      event->id.clear();
      return InvalidArgument("The id is too long.", "event_id", "string_above_max_length");
    }
  }
  const JsonValue* type = event->body.Find("type");
  return type == nullptr ? MissingParameter("type") : ReadString(*type, "type", &event->type);
}

void RealtimeSocket::OnMessage(std::string_view message) {
  Event event;
  if (const Status read = Read(message, &event); !read.ok()) return outbox_->Push(writer_->Error(read, event.id));
  std::lock_guard work(working_);
  const Result<bool> deferred = Defer(event, message);
  if (!deferred.ok()) return outbox_->Push(writer_->Error(deferred.status(), event.id));
  if (!*deferred) Work(event);
}

void RealtimeSocket::Work(const Event& event) {
  static const std::map<std::string, Status (RealtimeSocket::*)(const JsonValue&), std::less<>> handlers = {
      {"session.update", &RealtimeSocket::UpdateSession},
      {"conversation.item.create", &RealtimeSocket::CreateItem},
      {"conversation.item.delete", &RealtimeSocket::DeleteItem},
      {"conversation.item.retrieve", &RealtimeSocket::RetrieveItem},
      {"response.create", &RealtimeSocket::CreateResponse},
      {"response.cancel", &RealtimeSocket::CancelResponse},
  };
  Status status;
  if (const auto handler = handlers.find(event.type); handler != handlers.end()) {
    status = (this->*handler->second)(event.body);
  } else if (event.type == "conversation.item.truncate") {
    status = Unsupported("type", "truncating text: only audio is cut behind what was heard");
  } else if (StartsWithOneOf(event.type, {"input_audio_buffer.", "output_audio_buffer."})) {
    status = Unsupported("type", "audio");
  } else {
    status = InvalidArgument("Unsupported event type: '" + event.type.substr(0, 256) + "'.", "type",
                             "unsupported_event_type");
  }
  if (!status.ok()) outbox_->Push(writer_->Error(status, event.id));
}

Result<bool> RealtimeSocket::Defer(const Event& event, std::string_view message) {
  const bool changes = event.type == "conversation.item.create" || event.type == "conversation.item.delete";
  HeldBytes held;
  // charged without the mutex, because conversations may be unloaded to make room
  if (changes || event.type == "response.create") {
    ASSIGN_OR_RETURN(held, table_.Hold(caller_, static_cast<int64_t>(message.size())));
  }
  std::lock_guard lock(mutex_);
  // A response.create while another response runs is refused; behind deferred items it is deferred as well.
  const bool responds = event.type == "response.create" && sink_ == nullptr && !deferred_.empty();
  const bool must_wait = (changes && (sink_ != nullptr || !deferred_.empty())) || responds;
  if (closed_ || !must_wait) return closed_;
  if (deferred_.size() >= static_cast<size_t>(limits::kMaxQueuedCreatesPerConnection) ||
      !MayWait(deferred_bytes_, message.size())) {
    return Overloaded("Too many events wait for the response to end.");
  }
  deferred_bytes_ += message.size();
  deferred_.push_back({std::string(message), std::move(held)});
  return true;
}

void RealtimeSocket::WorkOnDeferred() {
  std::lock_guard work(working_);
  for (;;) {
    std::string message;
    {
      std::lock_guard lock(mutex_);
      if (closed_ || sink_ != nullptr || deferred_.empty()) return;
      message = std::move(deferred_.front().message);
      deferred_.pop_front();
      deferred_bytes_ -= message.size();
    }
    Event event;
    CHECK(Read(message, &event).ok());  // it was valid when it arrived
    Work(event);
  }
}

// The connection is gone, so deferred events are refused.
void RealtimeSocket::RefuseDeferred(const Status& status) {
  std::deque<Deferred> refused;
  {
    std::lock_guard lock(mutex_);
    refused.swap(deferred_);
    deferred_bytes_ = 0;
  }
  for (const Deferred& deferred : refused) {
    Event event;
    (void)Read(deferred.message, &event);
    outbox_->Push(writer_->Error(status, event.id));
  }
}

// Called inside a sink, so the table must not be called here.
void RealtimeSocket::OnEnded(const Response& response, bool in_conversation, const std::function<void()>& tell) {
  std::lock_guard lock(mutex_);  // a client that knows of the end finds the response finished
  tell();
  if (closed_) return;
  if (!in_conversation) {
    beside_.erase(response.id);
    return table_.Post([self = shared_from_this(), id = response.id] {
      (void)self->table_.DeleteResponse(self->caller_, id);  // it will not be requested again
    });
  }
  sink_.reset();
  response_.clear();
  if (response.started && response.status != ResponseStatus::kFailed) last_item_ = LastItemOf(response);
  if (deferred_.empty()) return;
  table_.Post([self = shared_from_this(), bytes = deferred_.front().message.size()] {
    const Status refused = self->Run(bytes, [self] { self->WorkOnDeferred(); });
    if (!refused.ok()) self->RefuseDeferred(refused);
  });
}

Status RealtimeSocket::Run(size_t bytes, const std::function<void()>& call) const {
  if (run_) {
    const std::string& principal = caller_.principal;
    return run_(principal.empty() ? "realtime " + std::to_string(caller_.connection) : principal, bytes, call);
  }
  call();
  return Status::Ok();
}

void RealtimeSocket::OnClosed() {
  std::map<std::string, std::shared_ptr<RealtimeSink>> beside;
  std::shared_ptr<RealtimeSink> sink;
  bool said = false;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    beside.swap(beside_);
    sink.swap(sink_);
    deferred_.clear();
    said = said_;
  }
  // On an io thread, so the table, which may block on a session or the disk, is called elsewhere.
  table_.Post([&table = table_, connection = caller_.connection] { table.DropConnection(connection); });
  if (!made_here_ || said) return;
  // Without a free worker the conversation is kept.
  (void)Run(0, [self = shared_from_this()] {
    std::lock_guard work(self->working_);
    (void)self->table_.DeleteSession(self->caller_, self->settings_.conversation);
  });
}

bool RealtimeSocket::busy() const {
  std::lock_guard lock(mutex_);
  return sink_ != nullptr || !beside_.empty();
}

template <class E>
Status RealtimeSocket::ReadEvent(const FieldTable<E>& fields, const JsonValue& body, E* event,
                                 std::vector<std::string>* ignored) const {
  IgnoredFields found(settings_.options->strict_requests);
  RETURN_IF_ERROR(fields.Read(body, {*settings_.options, &found}, event));
  NoteIgnored(*settings_.options, caller_.principal, found.names());
  *ignored = found.names();
  return Status::Ok();
}

Status RealtimeSocket::UpdateSession(const JsonValue& body) {
  if (body.Find("session") == nullptr) return MissingParameter("session");
  UpdateEvent event{settings_};
  RealtimeSettings& updated = event.settings;
  IgnoredFields ignored(settings_.options->strict_requests, "session.");
  RETURN_IF_ERROR(UpdateTable().Read(body, {*settings_.options, &ignored}, &event));
  updated.ignored = ignored.names();
  RETURN_IF_ERROR(FitWindow(&updated));
  settings_ = std::move(updated);
  NoteIgnored(*settings_.options, caller_.principal, settings_.ignored);
  Push("session.updated", "\"session\":" + SettingsObject(settings_, *settings_.options));
  return Status::Ok();
}

std::string RealtimeSocket::OwnId(const std::string& id) const {
  const auto at = own_ids_.find(id);
  return at == own_ids_.end() ? id : at->second;
}

std::string RealtimeSocket::ClientId(const std::string& id) const {
  const auto at = client_ids_.find(id);
  return at == client_ids_.end() ? id : at->second;
}

Result<ItemView> RealtimeSocket::FindItem(const std::string& id) const {
  ASSIGN_OR_RETURN(const SharedList<Item> items, table_.GetItems(caller_, settings_.conversation));
  const std::string own = OwnId(id), message = MessageOf(own);
  for (const Item& item : items) {
    if (item.id != message) continue;
    for (ItemView& view : RealtimeViewsOf(item, ClientId(own) == own ? "" : ClientId(own))) {
      if (view.id == own) return std::move(view);
    }
  }
  return NotFound("There is no item '" + id.substr(0, 256) + "' in this conversation.", "item_id", "item_not_found");
}

Result<RealtimeSocket::Place> RealtimeSocket::FindPlace(const std::optional<std::string>& behind) const {
  Place place;
  {
    std::lock_guard lock(mutex_);
    place.previous = last_item_;
  }
  if (!behind) return place;
  const std::string& named = *behind;
  const std::string own = named == "root" ? "" : OwnId(named);
  if (own == place.previous) return place;
  place.previous = place.after.emplace(own);
  if (own.empty()) return place;
  ASSIGN_OR_RETURN(const SharedList<Item> items, table_.GetItems(caller_, settings_.conversation));
  for (const Item& item : items) {
    if (item.id != MessageOf(own)) continue;
    const std::vector<ItemView> views = RealtimeViewsOf(item, "");
    if (views.back().id == own) {
      place.after = item.id;
      return place;
    }
    if (std::ranges::any_of(views, [&](const ItemView& view) { return view.id == own; })) {
      return Unsupported("previous_item_id", "an item between an answer's message and its tool calls");
    }
  }
  return NotFound("There is no item '" + named.substr(0, 256) + "' in this conversation.", "previous_item_id",
                  "item_not_found");
}

Status RealtimeSocket::CreateItem(const JsonValue& body) {
  constexpr size_t kMaxClientIds = 4096;
  if (body.Find("item") == nullptr) return MissingParameter("item");
  ItemEvent event;
  std::vector<std::string> ignored;
  RETURN_IF_ERROR(ReadEvent(NewItemTable(), body, &event, &ignored));
  const std::string& id = event.id;
  if (!id.empty() && (own_ids_.contains(id) || client_ids_.contains(id) || FindItem(id).ok())) {
    return InvalidArgument("There is an item with this id.", "item.id", "invalid_value");
  }
  if (!id.empty() && own_ids_.size() >= kMaxClientIds) {
    return InvalidArgument("A session has so many ids of its own; leave out the id.", "item.id",
                           "array_above_max_length");
  }
  ASSIGN_OR_RETURN(const Place place, FindPlace(event.previous_item_id));
  ASSIGN_OR_RETURN(const std::vector<Item> added,
                   table_.AddItems(caller_, settings_.conversation, {std::move(event.item)}, place.after));
  const ItemView made = RealtimeViewsOf(added.front(), id).front();
  if (!id.empty()) {
    own_ids_[id] = made.id;
    client_ids_[made.id] = id;
  }
  {
    std::lock_guard lock(mutex_);
    if (!place.after) last_item_ = made.id;
    said_ = true;
  }
  const std::string members = RealtimeItemMembers(ClientId(place.previous), made.json) + ReportOf(ignored);
  outbox_->PushBurst(
      {writer_->Event("conversation.item.added", members), writer_->Event("conversation.item.done", members)});
  return Status::Ok();
}

Status RealtimeSocket::DeleteItem(const JsonValue& body) {
  ItemEvent event;
  std::vector<std::string> ignored;
  RETURN_IF_ERROR(ReadEvent(ItemTable(), body, &event, &ignored));
  if (body.Find("item_id") == nullptr) return MissingParameter("item_id");
  const std::string& id = event.item_id;
  RETURN_IF_ERROR(FindItem(id).status());
  const std::string message = MessageOf(OwnId(id));
  ASSIGN_OR_RETURN(const SharedList<Item> before, table_.GetItems(caller_, settings_.conversation));
  RETURN_IF_ERROR(table_.DeleteItem(caller_, settings_.conversation, message));
  ASSIGN_OR_RETURN(const SharedList<Item> items, table_.GetItems(caller_, settings_.conversation));
  {
    std::lock_guard lock(mutex_);
    last_item_ = items.empty() ? "" : RealtimeViewsOf(items.back(), "").back().id;
  }
  // An answer's message and its calls are deleted together.
  const auto deleted = std::ranges::find(before, message, &Item::id);
  for (const ItemView& view : RealtimeViewsOf(*deleted, "")) {
    const std::string named = ClientId(view.id);
    own_ids_.erase(named);
    client_ids_.erase(view.id);
    JsonWriter json;
    json.BeginObject().Field("item_id", named);
    Push("conversation.item.deleted", json.text().substr(1) + ReportOf(ignored));
  }
  return Status::Ok();
}

Status RealtimeSocket::RetrieveItem(const JsonValue& body) {
  ItemEvent event;
  std::vector<std::string> ignored;
  RETURN_IF_ERROR(ReadEvent(ItemTable(), body, &event, &ignored));
  if (body.Find("item_id") == nullptr) return MissingParameter("item_id");
  ASSIGN_OR_RETURN(const ItemView item, FindItem(event.item_id));
  Push("conversation.item.retrieved", "\"item\":" + item.json + ReportOf(ignored));
  return Status::Ok();
}

Result<std::vector<NewItem>> RealtimeSocket::InputOf(const std::optional<std::vector<RealtimeInput>>& input) const {
  SharedList<Item> items;
  const auto refers_to_one = [](const RealtimeInput& part) { return !part.reference.empty(); };
  const bool refers = input && std::any_of(input->begin(), input->end(), refers_to_one);
  if (!input || refers) {
    ASSIGN_OR_RETURN(items, table_.GetItems(caller_, settings_.conversation));
  }
  std::vector<NewItem> messages;
  if (!input) {
    for (const Item& item : items) {
      messages.push_back({item.role, item.text, item.calls_at, item.call_ids});
      messages.back().images = ImagesOf(item);
    }
    return messages;
  }
  std::map<std::string_view, const Item*> by_id;
  for (const Item& item : items) by_id[item.id] = &item;
  size_t bytes = 0;
  for (const RealtimeInput& part : *input) {
    if (part.reference.empty()) {
      messages.push_back(part.item);
      continue;
    }
    const std::string own = OwnId(part.reference);
    const auto at = by_id.find(MessageOf(own));
    if (at == by_id.end()) {
      return NotFound("There is no item '" + part.reference.substr(0, 256) + "' in this conversation.",
                      "response.input", "item_not_found");
    }
    // Repeated references multiply the work without being sent again, so each counts.
    bytes += at->second->text.size();
    if (bytes > static_cast<size_t>(limits::kMaxMessageBytes)) {
      return InvalidArgument("The items referred to are too long together.", "response.input",
                             "string_above_max_length");
    }
    if (!AddReferred(*at->second, own, &messages)) {
      return NotFound("There is no item '" + part.reference.substr(0, 256) + "' in this conversation.",
                      "response.input", "item_not_found");
    }
  }
  return messages;
}

Status RealtimeSocket::CreateResponse(const JsonValue& body) {
  ASSIGN_OR_RETURN(RealtimeRequest request, ReadRealtimeRequest(body, settings_, *settings_.options));
  NoteIgnored(*settings_.options, caller_.principal, request.ignored);
  TurnSpec& spec = request.spec;
  if (settings_.options->models != nullptr) spec.model = settings_.options->model_name;
  RealtimeAsked asked{.max_output_tokens = std::move(request.max_output_tokens),
                      .metadata = std::move(request.metadata),
                      .tokens = table_.TokensOf(caller_)};
  if (request.in_conversation) {
    spec.conversation = asked.conversation = settings_.conversation;
  } else {
    ASSIGN_OR_RETURN(spec.input, InputOf(request.input));
  }
  const bool in_conversation = request.in_conversation;
  std::shared_ptr<RealtimeSink> sink;
  {
    std::lock_guard lock(mutex_);
    if (in_conversation && sink_ != nullptr) {
      return {StatusCode::kInvalidArgument, "A response is being made: wait for its end or cancel it.", "",
              "conversation_already_has_active_response"};
    }
    if (!in_conversation && beside_.size() >= static_cast<size_t>(limits::kMaxTurnsInFlightPerConnection)) {
      return Overloaded("Too many responses are being made on this connection.");
    }
    asked.previous_item = ClientId(last_item_);
    sink = std::make_shared<RealtimeSink>(
        writer_, outbox_, std::move(asked), caller_.connection,
        [weak = weak_from_this(), in_conversation](const Response& response, const auto& tell) {
          const auto self = weak.lock();
          if (self == nullptr) return tell();
          self->OnEnded(response, in_conversation, tell);
        });
    if (in_conversation) sink_ = sink;
  }
  const Result<TurnTicket> ticket = table_.StartTurn(caller_, std::move(spec), sink);
  std::lock_guard lock(mutex_);
  if (!ticket.ok()) {
    if (in_conversation) sink_.reset();
    return ticket.status();
  }
  said_ = said_ || in_conversation;
  // It may already have ended.
  if (in_conversation && sink_ == sink) response_ = ticket->response_id;
  if (!in_conversation && !sink->ended()) beside_[ticket->response_id] = sink;
  return Status::Ok();
}

Status RealtimeSocket::CancelResponse(const JsonValue& body) {
  CancelEvent event;
  std::vector<std::string> ignored;
  RETURN_IF_ERROR(ReadEvent(CancelTable(), body, &event, &ignored));
  std::string id = event.response_id;
  {
    std::lock_guard lock(mutex_);
    if (id.empty()) id = response_;
    if (id.empty() || (id != response_ && !beside_.contains(id))) {
      return InvalidArgument("There is no such response being made.", "response_id", "response_cancel_not_active");
    }
  }
  return table_.Cancel(caller_, id);
}

std::vector<RequestKind> RealtimeEventKinds() {
  return {RealtimeCreateKind(),
          {"realtime session.update", UpdateTable().Describe()},
          {"realtime conversation.item.create", NewItemTable().Describe()},
          {"realtime conversation.item.delete", ItemTable().Describe()},
          {"realtime conversation.item.retrieve", ItemTable().Describe()},
          {"realtime response.cancel", CancelTable().Describe()}};
}

}  // namespace ringside
