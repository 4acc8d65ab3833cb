"""Pictures of every state of the page in both themes at 360 and 1,440 px, for a reviewer: tests/page/shots/STATE-WIDTH-THEME.png.

    scripts/python tests/page/make_shots.py [STATE...]

The folder is not tracked. Uses the tiny model of the tests; the texts are those of the script.
"""

import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]

import tiny_model  # noqa: E402
from chat_page import ChatPage  # noqa: E402
from chromium import launch  # noqa: E402
from page_wire import Wire  # noqa: E402
from paused_server import PausedServer  # noqa: E402
from playwright.sync_api import expect, sync_playwright  # noqa: E402

FOLDER = HERE / "shots"
SETTLE_MS = 350  # transitions
ANSWER = """## Compound interest

Money earns interest, and the interest earns interest, too. After $n$ years a sum $P$ at a rate $r$ has grown to

$$A = P\\left(1 + \\frac{r}{n}\\right)^{nt}, \\qquad \\lim_{n \\to \\infty} A = P e^{rt}$$

| Year | Balance | Interest in this year | Remarks |
|---:|---:|---:|---|
| 1 | 1,050.00 | 50.00 | the first year pays simple interest on the whole sum |
| 10 | 1,628.89 | 77.57 | the interest of earlier years earns interest |

- [x] Choose a rate[^1]
- [ ] Compare offers, for example at [a consumers' office](https://example.org/)

```python
def balance(principal, rate, years):
    return principal * (1 + rate) ** years  # in the same currency
```

[^1]: A rate of 5 % is an example.
"""
MATHS = """Matrices, cases and aligned equations:

\\[
A = \\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}, \\quad f(x) = \\begin{cases} x^2 & \\text{if } x \\ge 0 \\\\ -x & \\text{otherwise} \\end{cases}
\\]

\\begin{align}
(a+b)^2 &= a^2 + 2ab + b^2 \\\\
&= \\left(\\frac{a}{b} + 1\\right)^2 b^2 \\tag{1}
\\end{align}

$$\\sum_{k=1}^{n} k = \\binom{n+1}{2} \\qquad \\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2} \\qquad \\mathbb{E}[X] = \\overline{x} \\pm \\hat\\sigma$$

A source outside the subset stays visible: $\\frobnicate{x}$.
"""
CALLS = [{"role": "user", "content": "Will it rain in Bern?"},
         {"type": "function_call", "call_id": "c1", "name": "look_up_weather", "arguments": '{"city": "Bern", "days": [1, 2], "unit": "celsius"}'},
         {"type": "function_call_output", "call_id": "c1", "output": '{"rain": 0.8}'}, {"role": "assistant", "content": "Probably: the chance is **80 %**."}]
STATES = {}


def state(make):
    STATES[make.__name__] = make
    return make


def narrow(page):
    return page.page.viewport_size["width"] < 900


def show_list(page):
    if narrow(page):
        page.page.get_by_role("button", name="Show conversations").click()
        expect(page.page.get_by_role("searchbox")).to_be_visible()


@state
def empty(page):
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()


@state
def answer(page):
    page.open(page.make(("user", "Explain compound interest with an example."), ("assistant", ANSWER), title="Compound interest"))
    page.page.locator("#scroll").evaluate("(box) => { box.scrollTop = 0; }")


@state
def answer_end(page):
    page.open(page.make(("user", "Explain compound interest with an example."), ("assistant", ANSWER), title="Compound interest"))


@state
def maths(page):
    page.open(page.make(("user", "Show me formulas"), ("assistant", MATHS), title="Formulas"))


@state
def tools(page):
    id = page.make(title="Weather")
    page.call("POST", f"/v1/conversations/{id}/items", {"items": CALLS})
    page.open(id)


@state
def question_with_files(page):
    text = "What is wrong here?\n```python\nprint(total)\n```\n\nFile: notes.txt\n````\nOne note\nAnother one\n````"
    page.open(page.make(("user", text), ("assistant", "`total` is not defined."), title="Files"))
    page.page.locator("details.file summary").click()


@state
def streaming(page):
    page.begin(300)


@state
def stopped(page):
    page.begin(200)
    page.stop.click()
    page.server.go_on()
    page.settled()


@state
def editing(page):
    page.open(page.make(("user", "A question that is edited"), ("assistant", "An answer."), title="Edited"))
    page.begin_edit()


@state
def too_long(page):
    page.page.locator("#composer input[type=file]").set_input_files({"name": "report.txt", "mimeType": "", "buffer": b"A line of the report.\n" * 600})
    page.ask("Summarize the report.")
    expect(page.page.get_by_role("alert")).to_be_visible()


@state
def not_a_text(page):
    page.page.locator("#composer input[type=file]").set_input_files({"name": "picture.png", "mimeType": "", "buffer": b"\x89PNG\x00"})
    expect(page.page.get_by_role("alert")).to_be_visible()


@state
def refused(page):
    page.wire.hold_reads("/memory", at_once=False)
    page.page.evaluate("() => { wire.change = 'failed'; }")
    page.begin(50)
    page.stop.click()
    page.server.go_on()
    expect(page.page.get_by_role("alert")).to_be_visible()


@state
def view_begins(page):
    for number in range(4):
        page.ask_and_wait(f"Question number {number}, with some words", max_output_tokens=400)
    expect(page.page.locator(".view-mark")).to_have_count(1)
    page.page.locator(".view-mark").evaluate("(mark) => mark.scrollIntoView({ block: 'center' })")


@state
def memory(page):
    page.ask_and_wait("Remember this", max_output_tokens=60)
    page.ask_and_wait("And this", max_output_tokens=60)
    page.page.get_by_role("button", name=re.compile("^Memory:")).click()
    expect(page.page.get_by_role("complementary")).to_be_visible()


@state
def lost(page):
    page.ask_and_wait("Before the connection is lost")
    page.wire.cut(down=True)
    expect(page.banner.get_by_role("button", name="Try now")).to_be_visible()


@state
def conversations(page):
    page.make(("user", "x"), title="Pinned recipe collection", pinned="1")
    page.make(("user", "x"), title="An old plan", archived="1")
    page.page.reload()
    show_list(page)
    page.page.locator("#sidebar .archive summary").click()


@state
def menu(page):
    page.make(("user", "x"), title="With a menu")
    page.page.reload()
    show_list(page)
    page.page.get_by_role("button", name="More for With a menu").first.click()


@state
def search(page):
    page.make(("user", "Where is the zebra? It was near the old town, and then it ran away."), title="Animals")
    page.page.reload()
    show_list(page)
    page.page.get_by_role("searchbox").fill("zebra")
    expect(page.page.locator("#sidebar .matches .entry").first).to_be_visible()


@state
def deleted(page):
    page.make(("user", "x"), title="No longer needed")
    page.page.reload()
    show_list(page)
    page.page.get_by_role("button", name="More for No longer needed").first.click()
    page.page.get_by_role("menuitem", name="Delete").click()
    if narrow(page):
        page.page.keyboard.press("Escape")
    expect(page.page.get_by_role("button", name="Undo")).to_be_visible()


def open_tool(page, name):
    show_list(page)
    page.page.get_by_role("button", name=name, exact=True).click()
    expect(page.page.get_by_role("dialog")).to_be_visible()


@state
def settings(page):
    open_tool(page, "Settings")


@state
def more_settings(page):
    open_tool(page, "Settings")
    page.page.get_by_text("More settings").click()
    page.page.locator(".more-settings").scroll_into_view_if_needed()


@state
def keyboard(page):
    open_tool(page, "Keyboard")


@state
def sign_in(page):
    page.page.evaluate("""async () => {
      const { signIn } = await import("/page/dialogs/sign_in.js");
      signIn();
    }""")
    page.page.route("**/v1/models", lambda route: route.fulfill(status=401, json={"error": {"message": "no"}}))
    page.page.get_by_label("API key").fill("wrong")
    page.page.keyboard.press("Enter")
    expect(page.page.get_by_role("dialog").get_by_role("alert")).to_contain_text("did not accept")
    page.page.unroute_all(behavior="wait")


@state
def not_found(page):
    page.page.goto(f"http://127.0.0.1:{page.server.port}/#/conv_none")
    page.page.reload()
    expect(page.page.get_by_role("heading", name="Conversation not found")).to_be_visible()


@state
def printed(page):
    answer(page)
    page.page.emulate_media(media="print")


def main(names):
    FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="ringside-shots-"))
    model = tiny_model.make(folder / "smollm2-135m.gguf", endless=True)
    with PausedServer(model, "--memory-len", 1024, "--max-detached-tokens", 50, folder=folder) as server, sync_playwright() as playwright:
        server.wait_until_ready()
        browser = launch(playwright)
        for width, height in ((360, 780), (1440, 900)):
            for theme in ("light", "dark"):
                for name in names or STATES:
                    server.go_on()
                    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, has_touch=width == 360, is_mobile=width == 360)
                    context.add_init_script("localStorage.setItem('ringside.titles', 'false')")
                    tab = context.new_page()
                    page = ChatPage(tab, server, Wire(tab))
                    tab.goto(f"http://127.0.0.1:{server.port}/")
                    STATES[name](page)
                    tab.wait_for_timeout(SETTLE_MS)
                    tab.screenshot(path=FOLDER / f"{name}-{width}-{theme}.png")
                    context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
