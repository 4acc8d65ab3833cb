"""The list of conversations: many entries, search, rename, pin, archive, delete and undo, export and import."""

import io
import json
import re
import zipfile

import pytest
from playwright.sync_api import expect
from server_process import wait_for


def test_two_hundred_conversations(start, tab):
    server = start()
    page = tab(server)
    for number in range(200):
        page.make(title=f"Conversation number {number}")
    page.page.reload()
    expect(page.entries).to_have_count(200)
    expect(page.entries.first).to_contain_text("number 199")
    page.page.keyboard.press("Control+k")
    page.page.keyboard.type("NUMBER 17")
    expect(page.entries).to_have_count(11)
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#top .title")).to_have_text("Conversation number 179")
    page.page.get_by_role("button", name="More for Conversation number 179").click()
    page.page.get_by_role("menuitem", name="Rename").click()
    page.page.get_by_role("textbox", name="Title").fill("Number 17, renamed")
    page.save()
    expect(page.page.locator("#top .title")).to_have_text("Number 17, renamed")
    page.page.get_by_role("button", name="More for Number 17, renamed").click()
    page.page.get_by_role("menuitem", name="Delete").click()
    expect(page.entries).to_have_count(10)
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()


def test_export_and_import(server, tab, tmp_path):
    page = tab(server)
    page.ask_and_wait("Carry me over")
    page.page.get_by_role("button", name="More for Carry me over").click()
    with page.page.expect_download() as download:
        page.page.get_by_role("menuitem", name="Export for Ringside").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "Carry me over.ringside"
    before, items = page.id(), page.items()
    page.page.locator("#sidebar input[type=file]").set_input_files(file)
    expect(page.page).not_to_have_url(re.compile(before))
    expect(page.answers).to_have_count(1)
    assert page.items() == items
    expect(page.entries.filter(has_text="Carry me over")).to_have_count(2)


def test_saved_as_markdown(server, tab, tmp_path):
    page = tab(server)
    page.open(page.make(("user", "In words?"), ("assistant", "**Yes**, in words."), title="Saved"))
    page.page.get_by_role("button", name="More for Saved").click()
    with page.page.expect_download() as download:
        page.page.get_by_role("menuitem", name="Save as Markdown").click()
    download.value.save_as(tmp_path / "saved.md")
    assert download.value.suggested_filename == "Saved.md"
    assert (tmp_path / "saved.md").read_text() == "# Saved\n\n## You\n\nIn words?\n\n## Answer\n\n**Yes**, in words.\n"


def test_versions_are_one_list_entry(server, tab):
    page = tab(server)
    page.ask_and_wait("Of one family")
    first = page.id()
    page.edit_last("Another of it")
    expect(page.page.get_by_text("2/2")).to_be_visible()
    page.settled()
    expect(page.entries.filter(has_text="Of one family")).to_have_count(1)
    expect(page.entries.filter(has_text="Another of it")).to_have_count(0)
    second = page.id()
    page.page.get_by_role("button", name="More for Of one family").click()
    page.page.get_by_role("menuitem", name="Delete").click()
    toast = page.page.locator("#toasts")
    expect(toast).to_contain_text("its 2 versions")
    expect(page.entries.filter(has_text="Of one family")).to_have_count(0)
    toast.get_by_role("button", name="Dismiss").click()
    wait_for(lambda: [server.get(f"/v1/conversations/{id}")[0] for id in (first, second)] == [404, 404], "both versions to be deleted")


def menu(page, title, item):
    page.page.get_by_role("button", name=f"More for {title}", exact=True).click()
    page.page.get_by_role("menuitem", name=item, exact=True).click()


def test_deletion_is_undone(server, tab):
    page = tab(server)
    page.ask_and_wait("Keep me after all")
    id, items = page.id(), page.items()
    menu(page, "Keep me after all", "Delete")
    expect(page.entries.filter(has_text="Keep me after all")).to_have_count(0)
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    page.page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.entries.filter(has_text="Keep me after all")).to_have_count(1)
    expect(page.answers).to_have_count(1)
    assert page.id() == id and page.items() == items
    assert page.page.evaluate("() => localStorage.getItem('ringside.deleting')") is None


def test_closed_page_deletes_at_once(server, tab):
    page = tab(server)
    id = page.make(("user", "x"), title="Gone with the page")
    page.page.reload()
    menu(page, "Gone with the page", "Delete")
    page.page.goto("about:blank")
    wait_for(lambda: server.get(f"/v1/conversations/{id}")[0] == 404, "the conversation to be deleted")


def test_pinned_and_archived(start, tab):
    server = start()
    page = tab(server)
    for title in ("One", "Two", "Three"):
        page.make(("user", "x"), title=title)
    page.page.reload()
    expect(page.entries).to_have_text(["Three", "Two", "One"])
    menu(page, "One", "Pin")
    expect(page.entries).to_have_text(["One", "Three", "Two"])
    expect(page.page.locator("#sidebar h2").first).to_have_text("Pinned")
    menu(page, "Three", "Archive")
    archive = page.page.locator("#sidebar .archive")
    expect(archive.locator("summary")).to_contain_text("Archived")
    expect(archive.get_by_text("Three")).to_be_hidden()
    # Every browser shows the same; a search finds archived conversations.
    other = tab(server)
    expect(other.entries.first).to_have_text("One")
    other.page.get_by_role("searchbox").fill("three")
    expect(other.page.get_by_role("link", name="Three")).to_be_visible()
    menu(other, "Three", "Take out of the archive")
    other.page.get_by_role("searchbox").fill("")
    expect(other.entries).to_have_text(["One", "Three", "Two"])
    menu(other, "One", "Unpin")
    expect(other.entries).to_have_text(["Three", "Two", "One"])
    assert "pinned" not in other.call("GET", "/v1/conversations?limit=1")["data"][0]["metadata"]


def test_json_is_exported_and_imported(server, tab, tmp_path):
    page = tab(server)
    id = page.make(("user", "What is it?"), ("assistant", "Wait."), title="As JSON")
    call = {"type": "function_call", "call_id": "c", "name": "look_up", "arguments": '{"a": 1}'}
    page.call("POST", f"/v1/conversations/{id}/items", {"items": [call, {"type": "function_call_output", "call_id": "c", "output": "rain"},
                                                                  {"role": "assistant", "content": "Rain."}]})
    page.open(id)
    page.page.reload()
    with page.page.expect_download() as download:
        menu(page, "As JSON", "Save as JSON")
    assert download.value.suggested_filename == "As JSON.json"
    file = tmp_path / "saved.json"
    download.value.save_as(file)
    saved = json.loads(file.read_text())
    assert (saved["format"], saved["title"], len(saved["items"])) == ("ringside.conversation", "As JSON", 5)
    page.page.locator("#sidebar input[type=file]").set_input_files(file)
    expect(page.page).not_to_have_url(re.compile(id))
    expect(page.page.locator("#top .title")).to_have_text("As JSON")
    bare = lambda items: [{key: item[key] for key in item if key not in ("id", "status")} for item in items]
    assert bare(page.server_items(page.id())) == bare(saved["items"])


def node(id, parent, role, text, **more):
    message = {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, "recipient": "all", "metadata": {}} | more
    return {"id": id, "parent": parent, "message": message, "children": []}


CHAT_GPT = [
    {"title": "Newest", "current_node": "d", "is_starred": True, "mapping": {
        "root": {"id": "root", "parent": None, "message": None}, "s": node("s", "root", "system", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        "a": node("a", "s", "user", "Hello"), "x": node("x", "a", "assistant", "another version"), "t": node("t", "a", "assistant", "search()", recipient="browser"),
        "b": node("b", "t", "tool", "found"), "c": node("c", "b", "assistant", "Part one"), "d": node("d", "c", "assistant", "and two")}},
    {"title": "Looped", "current_node": "a", "is_archived": True, "mapping": {"a": node("a", "b", "assistant", "Answer"), "b": node("b", "a", "user", "Question")}},
    {"title": "Empty", "current_node": "none", "mapping": {}},
]
OPEN_WEBUI = [{"id": "1", "title": "Outer", "pinned": True, "archived": False, "chat": {"title": "From Open WebUI", "system": "Be brief.", "history": {
    "currentId": "2", "messages": {
        "1": {"id": "1", "parentId": None, "role": "user", "content": "Hi"},
        "2": {"id": "2", "parentId": "1", "role": "assistant", "content": '<details type="reasoning" done="true">\nthoughts\n</details>\nHello.'}}}}}]


def zipped(name, text):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("chat.html", "<html>" * 1000)
        out.writestr(name, text)
    return archive.getvalue()


@pytest.mark.parametrize("packed", [False, True])
def test_chatgpt_is_imported(start, tab, packed):
    page = tab(start())
    text = json.dumps(CHAT_GPT)
    page.page.locator("#sidebar input[type=file]").set_input_files(
        {"name": "export", "mimeType": "", "buffer": zipped("conversations.json", text) if packed else text.encode()})
    expect(page.page.locator("#toasts")).to_contain_text("Imported 2 conversations. One entry was skipped.")
    expect(page.entries.first).to_have_text("Newest")
    expect(page.page.locator("#sidebar h2").first).to_have_text("Pinned")
    expect(page.page.locator("#sidebar .archive")).to_contain_text("Looped")
    page.entries.first.locator("a").click()
    page.loaded()
    assert page.items() == [("user", "Hello"), ("assistant", "Part one\n\nand two")]


def test_open_webui_is_imported(start, tab):
    page = tab(start())  # the import is pinned
    page.page.locator("#sidebar input[type=file]").set_input_files({"name": "chats.json", "mimeType": "", "buffer": json.dumps(OPEN_WEBUI).encode()})
    expect(page.page.locator("#top .title")).to_have_text("From Open WebUI")
    expect(page.answers).to_have_count(1)
    assert page.items() == [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello.")]


def test_long_chats_are_imported_in_parts(server, tab):
    page = tab(server)
    messages = [{"role": "assistant" if n % 2 else "user", "content": f"{n} " + "x" * 30_000} for n in range(50)]
    page.page.locator("#sidebar input[type=file]").set_input_files({"name": "long.json", "mimeType": "", "buffer": json.dumps({"title": "Long", "messages": messages}).encode()})
    expect(page.page.locator("#top .title")).to_have_text("Long")
    expect(page.answers).to_have_count(25)
    assert page.items() == [(message["role"], message["content"]) for message in messages]


@pytest.mark.parametrize("content", [b"{}", b"[1, null, []]", b"{broken", b"PK\x03\x04 broken", b'{"mapping": {"__proto__": {}}, "current_node": "__proto__"}'])
def test_unreadable_files_are_refused(server, tab, content):
    page = tab(server)
    page.page.locator("#sidebar input[type=file]").set_input_files({"name": "file.json", "mimeType": "", "buffer": content})
    expect(page.banner).to_contain_text("file.json has no conversations that this page can read.")


def test_messages_are_searched(start, tab):
    page = tab(start())
    page.make(("user", "Where is it?"), ("assistant", "The zebra55 is <b>behind</b> the house."), title="Animals")
    page.make(("user", "zebra55 again"), title="The zebra55 title")
    page.make(("user", "Nothing here"), title="Other")
    page.page.reload()
    search = page.page.get_by_role("searchbox")
    search.fill("ZEBRA55")
    matches = page.page.locator("#sidebar .matches .entry")
    expect(matches).to_have_count(1)
    expect(matches).to_contain_text("Animals")
    expect(matches.locator(".snippet")).to_have_text("The zebra55 is <b>behind</b> the house.")
    expect(matches.locator("mark")).to_have_text("zebra55")
    # A match in the title is shown once.
    expect(page.entries).to_have_count(2)
    matches.locator("a").click()
    expect(page.answers).to_have_count(1)
    search.fill("zebra56")
    expect(page.page.locator("#sidebar .none")).to_have_text("Nothing found.")
    # A changed conversation is read again.
    page.call("POST", f"/v1/conversations/{page.id()}/items", {"items": [{"role": "user", "content": "zebra56"}]})
    page.page.reload()
    search.fill("zebra56")
    expect(matches).to_have_count(1)
    search.press("Escape")
    expect(page.entries).to_have_count(3)


def test_model_names_new_conversations(server, tab):
    page = tab(server)
    asked = []

    def answer(route):
        asked.append(route.request.post_data_json)
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": '**"A Title of the Model."**\nmore'}]}
        route.fulfill(json={"output": [item]})

    page.page.route("**/v1/responses", answer)
    page.prefer_titles(True)
    page.ask_and_wait("First words of it")
    page.ask_and_wait("Second")
    expect(page.entries.filter(has_text="A Title of the Model")).to_have_count(1)
    expect(page.page.locator("#top .title")).to_have_text("A Title of the Model")
    [request] = asked
    assert request["store"] is False and "user: First words of it" in request["input"]
    assert page.call("GET", f"/v1/conversations/{page.id()}")["metadata"]["title"] == "A Title of the Model"
    page.page.unroute_all(behavior="wait")


def test_unusable_titles_are_dropped(server, tab):
    page = tab(server)
    cleaned = page.page.evaluate("""async (texts) => {
      const { cleanTitle } = await import("/page/list/titles.js");
      return texts.map(cleanTitle);
    }""", ["\n # Ring buffers\n", "Title: “Soup”", "", "ab", "x" * 200, "旅行计划"])
    assert cleaned == ["Ring buffers", "Soup", "", "", "", "旅行计划"]
