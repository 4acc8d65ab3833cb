"""The page's texts: every language has a translation for each of them, and the page speaks the reader's."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

WEB = Path(__file__).resolve().parents[2] / "clients/web"
TEXT = r'"((?:[^"\\]|\\.)*)"'


def used():
    """(text, counted) of each text in the page's sources."""
    found = set()
    for file in [*WEB.rglob("*.js"), *WEB.glob("*.html")]:
        if file.parent.name == "strings":
            continue
        source = file.read_text()
        found |= {(text, False) for text in re.findall(rf"\bt\(\s*{TEXT}", source)}
        found |= {(text, True) for text in re.findall(rf"\bcounted\([^;]*?,\s*{TEXT},\s*{TEXT}", source) for text in [text[1]]}
        found |= {(text, False) for text in re.findall(r'data-t(?:-label)?="([^"]*)"', source)}
    return {(json.loads(f'"{text}"'), counted) for text, counted in found}


@pytest.fixture(scope="module")
def tables(browser, shared_server):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{shared_server.port}/")
    yield page.evaluate("""async () => {
      const { LANGUAGES } = await import("/page/strings.js");
      const tables = {};
      for (const name of Object.keys(LANGUAGES)) if (name !== "en") tables[name] = (await import(`/page/strings/${name}.js`)).default;
      return tables;
    }""")
    context.close()


def test_every_language_has_every_text(tables):
    texts = {text for text, _ in used()}
    assert set(tables) == {"de", "es", "zh"} and len(texts) > 150
    for name, table in tables.items():
        assert (name, sorted(texts - set(table))) == (name, [])
        assert (name, sorted(set(table) - texts)) == (name, [])


def test_translations_have_the_places_of_their_texts(tables):
    places = lambda text: sorted(set(re.findall(r"\{\w+\}", text)))
    for name, table in tables.items():
        for text, counted in used():
            forms = table[text] if isinstance(table[text], list) else [table[text]]
            assert len(forms) == (2 if counted and name != "zh" else 1), (name, text)
            for form in forms:
                assert form.strip() and (places(form) == places(text) or counted and set(places(form)) <= set(places(text))), (name, text)


@pytest.mark.parametrize("locale,heading", [("de-DE", "Womit kann ich helfen?"), ("es-MX", "¿En qué piensas?"), ("zh-CN", "想聊点什么？"), ("fr-FR", "What is on your mind?")])
def test_page_speaks_the_readers_language(server, tab, locale, heading):
    page = tab(server, locale=locale)
    expect(page.page.get_by_role("heading", name=heading)).to_be_visible()
    assert page.page.evaluate("() => document.documentElement.lang") == (locale[:2] if locale[:2] != "fr" else "en")


def test_language_is_chosen(server, tab):
    page = tab(server)
    page.page.get_by_role("button", name="Settings").click()
    page.page.get_by_label("Language").select_option("Deutsch")
    page.save()
    expect(page.page.get_by_role("heading", name="Womit kann ich helfen?")).to_be_visible()
    page.page.get_by_role("button", name="Einstellungen").click()
    page.page.get_by_label("Sprache").select_option("English")
    page.page.get_by_role("dialog").get_by_role("button", name="Speichern", exact=True).click()
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
