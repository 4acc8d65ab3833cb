"""Hostile text from a model, a title or an address neither runs, loads nor navigates anything; and the page is
accessible."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

HOSTILE = [
    "<script>pwned()</script>",
    "<img src=x onerror=pwned()>",
    "<svg onload=pwned()><animate onbegin=pwned() attributeName=x></svg>",
    "<iframe srcdoc='<script>parent.pwned()</script>'></iframe>",
    "<style>*{background:url(http://evil.example/x)}</style>",
    "<a href='javascript:pwned()'>x</a>",
    "[x](javascript:pwned())",
    "[x](JaVaScRiPt:pwned())",
    "[x](java\tscript:pwned())",
    "[x](<javascript:pwned()>)",
    "[x](data:text/html,<script>pwned()</script>)",
    "[x](vbscript:pwned())",
    "[x](&#106;avascript:pwned())",
    "[x](//evil.example/%2e)",
    "![x](http://evil.example/secret.png)",
    '[x](https://evil.example/" onmouseover="pwned())',
    "<https://evil.example/'onclick=pwned()>",
    "```<img src=x onerror=pwned()>\n<script>pwned()</script>\n```",
    '```js" onclick="pwned()\nx\n```',
    "`<script>pwned()</script>`",
    "| <img src=x onerror=pwned()> | b |\n|---|---|\n| <script>pwned()</script> | [x](javascript:pwned()) |",
    "# <img src=x onerror=pwned()>\n> <script>pwned()</script>\n1. <script>pwned()</script>",
    "{{constructor.constructor('pwned()')()}} ${pwned()} <%= pwned() %>",
    "<math><mtext><table><mglyph><style><img src=x onerror=pwned()>",
    r"$\text{<img src=x onerror=pwned()>} \href{javascript:pwned()}{x}$ \(\text{<script>pwned()</script>}\) $$\operatorname{x onclick=pwned()}$$",
    "\u202e[gnp.yrev](https://evil.example/)\u202c <form action=http://evil.example><button>x</button></form>",
]
# Elements that the page itself never creates inside a message.
FORBIDDEN = "script, img, iframe, object, embed, style, link, form, input, video, audio, math:not(.math > math), semantics, annotation, annotation-xml, maction, [href]:not(a), base, meta, svg:not(.icon-svg, .ring), [srcdoc], [style]"


def watch(page):
    """Records every request to another host, and whether any injected script ran."""
    foreign = []
    page.on("request", lambda request: foreign.append(request.url) if "127.0.0.1" not in request.url else None)
    page.evaluate("() => { window.pwned = () => { window.wasPwned = true; }; }")
    return foreign


def check(page, foreign):
    assert page.evaluate("() => window.wasPwned") is None
    assert foreign == []
    found = page.evaluate(
        """(forbidden) => [...document.querySelectorAll("#thread, #sidebar .list, #top .title, .menu")].flatMap((part) => [
          ...[...part.querySelectorAll(forbidden)].map((element) => element.outerHTML),
          ...[...part.querySelectorAll("*")].flatMap((element) => [...element.attributes].filter(({ name }) => name.startsWith("on")).map(() => element.outerHTML)),
          ...[...part.querySelectorAll("#thread a")].filter((a) => !/^(https?:|mailto:)/.test(a.getAttribute("href")) || !a.rel.includes("noopener") || !a.rel.includes("noreferrer") || a.target !== "_blank").map((a) => a.outerHTML),
        ])""", FORBIDDEN)
    assert found == []


def test_model_output_stays_text(server, tab):
    page = tab(server)
    foreign = watch(page.page)
    page.open(page.make(*((role, text) for text in HOSTILE[:10] for role in ("user", "assistant")), title="Hostile 1"))
    expect(page.answers).to_have_count(10)
    check(page.page, foreign)
    page.open(page.make(*((role, text) for text in HOSTILE[10:] for role in ("user", "assistant")), title="Hostile 2"))
    expect(page.answers).to_have_count(len(HOSTILE) - 10)
    for i in range(len(HOSTILE) - 10):
        page.answers.nth(i).hover()
    check(page.page, foreign)
    # The text is displayed literally.
    assert "<script>pwned()</script>" in page.page.locator("#thread").inner_text()


def test_tool_calls_and_results_stay_text(server, tab):
    page = tab(server)
    foreign = watch(page.page)
    id = page.make(("user", "What is it?"), title="Tools")
    arguments = '{"html": "````\\n<img src=x onerror=pwned()>"}'
    call = {"type": "function_call", "call_id": "c", "name": "look_up", "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "c", "output": HOSTILE[0] + HOSTILE[1]}
    page.call("POST", f"/v1/conversations/{id}/items", {"items": [call, call, result]})
    page.open(id)
    # An answer and its calls are one message, as the server counts them.
    expect(page.answers).to_have_count(1)
    expect(page.answers.first).to_contain_text("look_up")
    expect(page.page.get_by_role("article", name="Tool")).to_contain_text("<script>pwned()</script>")
    check(page.page, foreign)
    page.ask_and_wait("And now?")


def test_model_output_stays_text_while_streaming(server, tab):
    page = tab(server)
    foreign = watch(page.page)
    for text in HOSTILE:
        page.page.evaluate(
            """async (text) => {
              const { LiveText } = await import("/page/text/live_text.js");
              const box = document.createElement("div");
              document.getElementById("thread").append(box);
              const writer = new LiveText(box);
              for (let end = 1; end < text.length; end += 3) {
                writer.set(text.slice(0, end));
                await new Promise(requestAnimationFrame);
              }
              writer.finish();
            }""", text)
    check(page.page, foreign)


def test_titles_and_versions_stay_text(server, tab):
    page = tab(server)
    foreign = watch(page.page)
    ids = [page.make(("user", "x"), title=text[:512]) for text in HOSTILE[:8]]
    page.make(("user", "y"), title="child", root=ids[0], parent=ids[0], fork_at="<img src=x onerror=pwned()>")
    page.make(("user", "y"), title="orphan", root="<script>pwned()</script>", parent="__proto__", fork_at="1")
    page.make(("user", "y"), title="loop", root=ids[1], parent=ids[1], fork_at="-1")
    page.page.reload()
    foreign = watch(page.page)
    expect(page.entries.filter(has_text="orphan")).to_have_count(1)
    for id in ids:
        page.open(id)
        expect(page.questions).to_have_count(1)
        page.page.get_by_role("button", name="More for").first.click()
        check(page.page, foreign)
        page.page.keyboard.press("Escape")


@pytest.mark.parametrize("address", ["#/<script>pwned()</script>", "#/javascript:pwned()", "#/conv_../../etc/passwd", "#/conv_x%0d%0aSet-Cookie:a=b", "#//evil.example"])
def test_invalid_address_shows_the_start_page(server, tab, address):
    page = tab(server, "/" + address)
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()


def test_missing_conversation(server, tab):
    page = tab(server, "/#/conv_doesNotExist")
    expect(page.page.get_by_role("heading", name="Conversation not found")).to_be_visible()


def test_content_security_policy(server, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{server.port}/")
    # Scripts and styles that are not files of the page do not run, and nothing is fetched from another host.
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          try { script.text = "window.ran = 1"; document.body.append(script); } catch {}
          try { document.body.innerHTML += "<img src=x onerror='window.ran = 1'>"; } catch { window.refused = 1; }
          document.body.setAttribute("style", "display: none");
        }""")
    assert page.evaluate("() => [window.ran, window.refused]") == [None, 1]
    assert page.evaluate("() => getComputedStyle(document.body).display") != "none"
    assert page.evaluate("() => fetch('http://127.0.0.1:1/').then(() => 'fetched', () => 'refused')") == "refused"
    context.close()


SAMPLE = """## A heading

Text with `code`, **bold** and [a link](https://example.org).

### A smaller one

```python
print("hello")  # a comment
```

- one
- [x] done

| a | b |
|---|---|
| 1 | 2 |
"""


def violations(page):
    results = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
    return [(v["id"], [node["html"][:120] for node in v["nodes"]][:3], v["help"]) for v in results.response["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_accessibility(server, tab, scheme, width):
    # The checker is an injected script.
    page = tab(server, viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    # In a scrolling list the checker mistakes entries clipped by the list's edge for buttons that are too small.
    for entry in page.call("GET", "/v1/conversations?limit=100")["data"]:
        page.call("DELETE", f"/v1/conversations/{entry['id']}")
    page.page.reload()
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    assert violations(page.page) == []
    page.ask_and_wait(f"Something {scheme} {width}")
    page.call("POST", f"/v1/conversations/{page.id()}/items", {"items": [
        {"role": "user", "content": "Show me"}, {"role": "assistant", "content": SAMPLE}]})
    page.page.reload()
    expect(page.answers).to_have_count(2)
    page.box.fill("a draft")
    assert violations(page.page) == []
    page.page.get_by_role("button", name="Memory:").click()
    expect(page.page.get_by_role("complementary")).to_be_visible()
    assert violations(page.page) == []
    if width == 390:
        page.page.keyboard.press("Escape")
        page.page.get_by_role("button", name="Show conversations").click()
        expect(page.page.get_by_role("searchbox")).to_be_focused()
        assert violations(page.page) == []
    page.page.get_by_role("button", name="More for").first.click()
    assert violations(page.page) == []
    page.page.keyboard.press("Escape")
    if width == 390:
        page.page.keyboard.press("Escape")
    page.begin_edit()
    assert violations(page.page) == []
    page.page.keyboard.press("Escape")
    if width == 390:
        page.page.get_by_role("button", name="Show conversations").click()
    for name in ("Settings", "Keyboard"):
        page.page.get_by_role("button", name=name, exact=True).click()
        expect(page.page.get_by_role("dialog")).to_be_visible()
        assert violations(page.page) == []
        page.page.keyboard.press("Escape")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility_of_sharing(server, tab, scheme):
    page = tab(server, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    id = page.make(("user", "Hi"), ("assistant", SAMPLE), title=f"Shared {scheme}", folder="Work")
    page.open(id)
    page.page.locator("#sidebar details.folder summary").click()
    page.page.get_by_role("button", name=f"More for Shared {scheme}").click()
    page.page.get_by_role("menuitem", name="Share", exact=True).click()
    page.page.get_by_role("dialog").get_by_role("button", name="Create a link").click()
    link = page.page.get_by_role("textbox", name="Link")
    expect(link).to_be_visible()
    assert violations(page.page) == []
    address = link.input_value()
    reader = tab(server, address[address.index("/shared"):], color_scheme=scheme, bypass_csp=True, reduced_motion="reduce", lost_lines=True)
    expect(reader.answers).to_have_count(1)
    assert violations(reader.page) == []
    page.call("DELETE", f"/v1/conversations/{id}")
    reader.page.reload()
    expect(reader.page.get_by_role("heading", name="This link does not work")).to_be_visible()
    assert violations(reader.page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility_of_dynamic_parts(server, tab, scheme):
    page = tab(server, viewport={"width": 1440, "height": 844}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce", wired=True)
    page.begin()
    assert violations(page.page) == []
    page.page.evaluate("() => { wire.change = 'failed'; }")
    page.wire.hold_reads("/memory", at_once=False)
    page.stop.click()
    server.go_on()
    expect(page.page.get_by_role("alert")).to_be_visible()
    assert violations(page.page) == []
    page.page.get_by_role("alert").get_by_role("button", name="Edit").click()
    page.page.reload()
    page.settled()
    page.prefer(temperature=0, max_output_tokens=12)
    page.edit_last("Another")
    expect(page.page.get_by_text("2/2")).to_be_visible()
    page.settled()
    page.wire.cut(down=True)
    expect(page.banner.get_by_role("button", name="Try now")).to_be_visible()
    assert violations(page.page) == []
