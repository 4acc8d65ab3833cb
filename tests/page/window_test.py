"""The model's window is visible: where its view begins, how many tokens a message has, and the ways out for a message that is
too long."""

import re

import pytest
from playwright.sync_api import expect

LONG = "a long question " * 40


def note(page):
    return page.page.locator("#composer .tokens")


def test_view_begins_at_a_message(start, tab):
    page = tab(start("--memory-len", 128))
    mark = page.page.locator(".view-mark")
    page.ask_and_wait("Remember this", max_output_tokens=30)
    expect(mark).to_have_count(0)
    # The first message in view is a question of this page, whose id the server gave.
    for _ in range(4):
        page.ask_and_wait("And this", max_output_tokens=30)
    memory = page.call("GET", f"/v1/conversations/{page.id()}/memory")
    seen = [message for message in memory["messages"] if message["end"] > memory["first_live"] and message["begin"] >= memory["pinned"]]
    at = [item["id"] for item in page.server_items(page.id())].index(seen[0]["id"])
    assert at > 0 and seen[0]["role"] == "user"
    expect(mark).to_have_count(1)
    expect(page.page.locator(f".view-mark + [data-start='{at}']")).to_have_count(1)
    page.page.reload()
    page.loaded()
    expect(page.page.locator(f".view-mark + [data-start='{at}']")).to_have_count(1)


def test_view_begins_within_a_message(start, tab):
    page = tab(start("--memory-len", 128))
    page.ask_and_wait("One long answer", max_output_tokens=300)
    memory = page.call("GET", f"/v1/conversations/{page.id()}/memory")
    assert memory["messages"][0]["begin"] < memory["first_live"]
    expect(page.page.locator(".view-mark + .message.assistant")).to_have_count(1)
    expect(page.page.locator(".view-mark")).to_contain_text("only the end of this message")


def test_tokens_are_counted_while_writing(start, tab):
    page = tab(start("--memory-len", 128))
    page.box.fill("Some words")
    tokens = page.call("POST", "/v1/responses/input_tokens", {"input": "Some words"})["input_tokens"]
    expect(note(page)).to_have_text(f"{tokens} of 132 tokens")
    page.box.fill("")
    expect(note(page)).to_have_text("")
    page.ask_and_wait("Remember this", max_output_tokens=60)
    page.box.fill("word " * 12)
    expect(note(page)).to_contain_text("the oldest messages leave the window")


def test_too_long_message_is_shortened(start, tab):
    page = tab(start("--memory-len", 128))
    page.ask(LONG)
    notice = page.page.get_by_role("alert")
    expect(notice).to_contain_text("the model reads 132 at once")
    expect(page.questions).to_have_count(0)
    notice.get_by_role("button", name="Shorten").click()
    expect(notice).to_be_hidden()
    shorter = page.box.input_value()
    assert shorter and LONG.startswith(shorter)
    assert 100 < page.call("POST", "/v1/responses/input_tokens", {"input": shorter})["input_tokens"] <= 132
    page.prefer(temperature=0, max_output_tokens=8)
    page.box.press("Enter")
    expect(page.answers).to_have_count(1)


def test_end_of_a_too_long_message_is_read(start, tab):
    page = tab(start("--memory-len", 128))
    page.prefer(temperature=0, max_output_tokens=8)
    page.ask(LONG)
    page.page.get_by_role("alert").get_by_role("button", name="only the end is read").click()
    expect(page.answers).to_have_count(1)
    page.settled()
    assert page.items()[0] == ("user", LONG)


def test_limit_of_the_server_offers_only_a_shorter_message(start, tab):
    page = tab(start("--max-input-tokens", 200), lost_lines=True)
    page.page.route("**/input_tokens", lambda route: route.fulfill(status=503, json={"error": {"message": "busy"}}))
    page.ask(LONG)
    # The count failed, so the server refuses the message itself: nothing to try again.
    failed = page.page.locator(".failed")
    expect(failed).to_contain_text("more tokens than the model reads")
    expect(failed.get_by_role("button", name="Try again")).to_have_count(0)
    page.page.reload()
    failed.get_by_role("button", name="Edit").click()
    expect(page.box).to_have_value(LONG)
    page.box.fill("")
    page.page.unroute_all(behavior="wait")


def paste(page, text):
    page.box.focus()
    page.page.evaluate("""(text) => {
      const data = new DataTransfer();
      data.setData("text/plain", text);
      document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    }""", text)


def test_long_paste_becomes_a_file(server, tab):
    page = tab(server)
    pasted = "line of text\n" * 600
    paste(page, pasted)
    chips = page.page.get_by_role("list", name="Attached files").get_by_role("listitem")
    expect(chips).to_contain_text(["pasted.txt"])
    expect(page.box).to_have_value("")
    # It survives a reload, and can be put into the message.
    page.page.reload()
    expect(chips).to_have_count(1)
    page.page.get_by_role("button", name="Put pasted.txt into the message").click()
    expect(page.box).to_have_value(pasted)
    expect(chips).to_have_count(0)


DROP = """([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  document.getElementById("main").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def test_files_are_attached_and_sent(server, tab, tmp_path):
    page = tab(server)
    page.prefer(temperature=0, max_output_tokens=8)
    (tmp_path / "notes.md").write_text("# Notes\n````\nfenced\n````\n")
    page.page.locator("#composer input[type=file]").set_input_files(tmp_path / "notes.md")
    page.page.evaluate(DROP, ["data.csv", list(b"a,b\n1,2\n")])
    chips = page.page.get_by_role("list", name="Attached files").get_by_role("listitem")
    expect(chips).to_contain_text(["notes.md", "data.csv"])
    page.page.get_by_role("button", name="Remove data.csv").click()
    expect(chips).to_have_count(1)
    page.ask("What is in it?")
    expect(page.answers).to_have_count(1)
    page.settled()
    text = "What is in it?\n\nFile: notes.md\n`````\n# Notes\n````\nfenced\n````\n`````"
    assert page.items()[0] == ("user", text)
    expect(chips).to_have_count(0)
    file = page.questions.locator("details.file")
    expect(file.locator("summary")).to_contain_text("notes.md")
    file.locator("summary").click()
    expect(file.locator("pre")).to_have_text("# Notes\n````\nfenced\n````")
    expect(page.questions.locator(".said")).to_have_text("What is in it?")


@pytest.mark.parametrize("name,content", [("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00"), ("latin.txt", b"caf\xe9"), ("empty.txt", b"")])
def test_files_without_text_are_refused(server, tab, name, content):
    page = tab(server)
    page.page.evaluate(DROP, [name, list(content)])
    expect(page.page.get_by_role("alert")).to_contain_text(re.compile(f"{name} is (neither a text nor a PDF file|empty)"))
    page.page.get_by_role("alert").get_by_role("button", name="Dismiss").click()
    expect(page.page.get_by_role("alert")).to_have_count(0)
    expect(page.page.get_by_role("listitem").filter(has_text=name)).to_have_count(0)


def test_message_with_files_is_edited_again(server, tab):
    page = tab(server)
    whole = page.page.evaluate(
        """async () => {
          const { takeFiles, withFiles } = await import("/page/text/user_text.js");
          const cases = [["", []], ["text", []], ["", [{ name: "a", text: "x" }]], ["two\\n\\nlines", [{ name: "a b.txt", text: "```\\nx\\n```" }, { name: "c", text: "y\\n\\nz" }]],
            ["File: x\\n````\\nno", []]];
          return cases.filter(([text, files]) => JSON.stringify(takeFiles(withFiles(text, files))) !== JSON.stringify({ text, files }));
        }""")
    assert whole == []
