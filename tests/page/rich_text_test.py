"""Tables that keep words whole, footnotes, task lists, cards, and code in the user's own messages."""

import json

import pytest
from playwright.sync_api import expect

# Each text of one line has the height of one line.
BROKEN_WORDS = """() => [...document.querySelectorAll(".table td, .table th")].flatMap((cell) => {
  const range = document.createRange();
  const text = cell.firstChild;
  const broken = [];
  for (const word of text.data.matchAll(/\\S+/g)) {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    if (range.getClientRects().length > 1) broken.push(word[0]);
  }
  return broken;
})"""
TABLE = """| Feature | PostgreSQL | MySQL | Replication topology | Price per month |
|---|---|---|---|---:|
| Transactions | multi-version concurrency control since version 6.5 | InnoDB only, with gap locks | asynchronous and synchronous | 7,000.00 |
| Extensibility | extensions, foreign data wrappers, procedural languages | plugins | Internationalization | 12,345.60 |
"""


@pytest.mark.parametrize("width", [360, 1440])
def test_tables_scroll_and_keep_words_whole(server, tab, width):
    page = tab(server, viewport={"width": width, "height": 800})
    page.open(page.make(("user", "A table"), ("assistant", TABLE)))
    table = page.answers.locator(".table")
    expect(table).to_be_visible()
    assert page.page.evaluate(BROKEN_WORDS) == []
    if width == 360:
        assert table.evaluate("(box) => box.scrollWidth > box.clientWidth")
    # The page itself does not scroll sideways.
    assert page.page.evaluate("() => [document.documentElement, document.getElementById('scroll')].every((box) => box.scrollWidth <= box.clientWidth)")


def test_footnote_is_reached_from_its_reference(server, tab):
    page = tab(server, viewport={"width": 800, "height": 500})
    page.open(page.make(("user", "Notes"), ("assistant", "A claim[^1].\n\n" + "Text.\n\n" * 60 + "[^1]: The source.")))
    page.page.locator("#scroll").evaluate("(box) => { box.scrollTop = 0; }")
    page.page.get_by_role("button", name="Footnote 1").click()
    note = page.answers.locator(".footnote")
    expect(note).to_be_focused()
    expect(note).to_be_in_viewport()
    assert page.id()  # the address is unchanged


def test_tasks_have_ticks(server, tab):
    page = tab(server)
    page.open(page.make(("user", "Tasks"), ("assistant", "- [ ] open\n- [x] closed")))
    expect(page.answers.get_by_role("img", name="done").locator("svg")).to_have_count(1)
    expect(page.answers.get_by_role("img", name="to do").locator("svg")).to_have_count(0)


def test_fences_in_a_question(server, tab):
    page = tab(server)
    text = "Why does this\n```python\nprint('<b>')\n```\nprint *that*?\n~~~\nunclosed"
    page.open(page.make(("user", text), ("assistant", "Because.")))
    question = page.questions.first
    expect(question.locator("figure.code code")).to_have_text("print('<b>')")
    expect(question.locator(".said")).to_have_text(["Why does this", "print *that*?\n~~~\nunclosed"])
    # The whole text is edited and copied.
    page.begin_edit()
    expect(page.page.get_by_role("textbox", name="Edit your message")).to_have_value(text)


def test_calls_and_results_are_cards(server, tab):
    page = tab(server)
    id = page.make(("user", "What is it?"), title="Tools")
    page.call("POST", f"/v1/conversations/{id}/items", {"items": [
        {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"city": "Bern", "days": [1, 2]}'},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"type": "function_call", "call_id": "c2", "name": "read_all", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": "long " * 200}]})
    page.open(id)
    call = page.answers.first.locator("figure.call")
    expect(call.locator("figcaption")).to_contain_text("look_up")
    assert json.loads(call.locator("code").text_content()) == {"city": "Bern", "days": [1, 2]}
    expect(call.locator("code")).to_contain_text('{\n  "city": "Bern",')
    results = page.page.get_by_role("article", name="Tool")
    expect(results.nth(0).locator("summary")).to_contain_text("Result of look_up")
    expect(results.nth(0).get_by_text("rain")).to_be_visible()
    expect(results.nth(1).locator("pre")).to_be_hidden()
    results.nth(1).locator("summary").click()
    expect(results.nth(1).locator("pre")).to_contain_text("long long")
