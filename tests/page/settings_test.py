"""Settings, presets, the choice of a model, the language, and signing in."""

import re

import pytest
import tiny_model
from playwright.sync_api import expect


def settings(page):
    page.page.get_by_role("button", name="Settings").click()
    return page.page.get_by_role("dialog", name="Settings")


def response(page, turn):
    memory = page.call("GET", f"/v1/conversations/{page.id()}/memory")
    return page.call("GET", f"/v1/responses/{memory['turns'][turn]['response_id']}")


def test_settings_reach_the_server(server, tab):
    page = tab(server)
    dialog = settings(page)
    dialog.get_by_label("System prompt").fill("Be brief.")
    dialog.get_by_label("Longest answer").fill("7")
    dialog.get_by_label("Temperature").fill("0")
    page.save()
    page.ask("Hello")
    expect(page.answers).to_contain_text("maximum length")
    page.settled()
    first = response(page, 0)
    assert (first["instructions"], first["max_output_tokens"], first["temperature"]) == ("Be brief.", 7, 0)
    # Once set, the system prompt belongs to the conversation; a change applies from the next message on.
    dialog = settings(page)
    expect(dialog.get_by_label("System prompt")).to_have_value("Be brief.")
    dialog.get_by_label("System prompt").fill("Be long.")
    page.save()
    page.ask("Hello again")
    expect(page.answers).to_have_count(2)
    page.settled()
    assert response(page, 1)["instructions"] == "Be long."


def test_all_sampling_settings_are_sent(server, tab):
    page = tab(server, wired=True)
    dialog = settings(page)
    dialog.get_by_text("More settings").click()
    wanted = {"Top-p": 0.9, "Top-k": 40, "Min-p": 0.05, "Repetition penalty": 1.1, "Presence penalty": 0.5, "Frequency penalty": -0.5, "Seed": 7, "Longest answer": 5}
    for label, value in wanted.items():
        dialog.get_by_label(label).fill(str(value))
    dialog.get_by_label("Stop at").fill("END\nOver")
    dialog.get_by_label("Reasoning").select_option("Little")
    page.save()
    page.ask("Hello")
    expect(page.answers).to_have_count(1)
    page.settled()
    [asked] = [event for event in page.wire.get("asked") if event["type"] == "response.create"]
    sent = {key: asked[key] for key in asked if key not in ("type", "conversation", "metadata", "input")}
    assert sent == {"top_p": 0.9, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": -0.5, "seed": 7,
                    "max_output_tokens": 5, "stop": ["END", "Over"], "reasoning": {"effort": "low"}}
    # The dialog shows them again, and an emptied one is off.
    dialog = settings(page)
    expect(dialog.get_by_label("Top-k")).to_have_value("40")
    expect(dialog.get_by_label("Stop at")).to_have_value("END\nOver")
    for label in wanted:
        dialog.get_by_label(label).fill("")
    dialog.get_by_label("Stop at").fill("")
    dialog.get_by_label("Reasoning").select_option("As the model does")
    page.save()
    assert page.page.evaluate("() => localStorage.getItem('ringside.preferences')") is None


def test_presets(server, tab):
    page = tab(server)
    dialog = settings(page)
    prompt, preset = dialog.get_by_label("System prompt"), dialog.get_by_label("Preset", exact=True)
    preset.select_option("Tutor")
    expect(prompt).to_have_value(re.compile("patient tutor"))
    expect(dialog.get_by_role("button", name="Delete preset")).to_be_hidden()
    prompt.fill("Speak like a pirate.")
    dialog.get_by_role("button", name="Save as preset").click()
    dialog.get_by_label("Name of the preset").fill("Pirate")
    page.page.keyboard.press("Enter")
    expect(preset).to_have_value("Pirate")
    page.save()
    page.page.reload()
    dialog = settings(page)
    prompt.fill("")
    preset.select_option("Pirate")
    expect(prompt).to_have_value("Speak like a pirate.")
    dialog.get_by_role("button", name="Delete preset").click()
    expect(preset.get_by_role("option", name="Pirate")).to_have_count(0)


def test_model_is_chosen(start, tab):
    page = tab(start("--model-alias", "other"), wired=True)
    choice = page.page.get_by_label("Model")
    expect(choice).to_have_value("tiny")
    page.ask_and_wait("Hello")
    choice.select_option("other")
    page.ask_and_wait("Hello again")
    models = [event.get("model") for event in page.wire.get("asked") if event["type"] == "response.create"]
    assert models == [None, "other"]


def test_conversation_keeps_the_model_of_a_folder(start, tab, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    for seed, name in enumerate(("alpha", "bravo")):
        tiny_model.make(folder / f"{name}.gguf", seed=seed + 1, endless=True)
    (folder / "broken.gguf").write_bytes(b"GGUF nonsense")
    page = tab(start("--models-dir", folder, model=None), wired=True)
    choice = page.page.get_by_label("Model")
    expect(choice).to_have_value("alpha")
    expect(choice.locator("option")).to_have_text(["alpha", "bravo"])  # without the file that cannot be loaded
    choice.select_option("bravo")
    page.ask_and_wait("Hello")
    expect(choice).to_be_disabled()
    expect(choice).to_have_value("bravo")
    page.ask_and_wait("Hello again")
    page.begin_new()
    expect(choice).to_be_enabled()
    choice.select_option("alpha")
    page.ask_and_wait("Hello")
    expect(choice).to_be_disabled()
    expect(choice).to_have_value("alpha")


def test_one_model_needs_no_choice(server, tab):
    page = tab(server)
    expect(page.page.locator("#composer .model")).to_have_text("tiny")
    expect(page.page.get_by_label("Model", exact=True)).to_have_count(0)


@pytest.mark.parametrize("remembered", [False, True])
def test_signing_in(start, tab, remembered):
    page = tab(start("--api-key", "open-sesame"), lost_lines=True)
    dialog = page.page.get_by_role("dialog", name="Sign in")
    expect(dialog).to_contain_text("This server needs a key")
    key = dialog.get_by_label("API key")
    expect(key).to_be_focused()
    key.fill("wrong")
    key.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_text("The server did not accept this key.")
    key.fill("open-sesame")
    if remembered:
        dialog.get_by_label("Remember it on this device").check()
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_have_count(0)
    page.prefer(temperature=0, max_output_tokens=8)
    page.ask("Let me in")
    expect(page.answers).to_have_count(1)
    page.settled()
    assert (page.page.evaluate("() => JSON.stringify(localStorage)").count("sesame") > 0) == remembered
    page.page.reload()
    expect(page.answers).to_have_count(1)
    other = tab(page.server, lost_lines=True, beside=page)
    if remembered:
        expect(other.entries).to_have_count(1)
    expect(other.page.get_by_role("dialog", name="Sign in")).to_have_count(0 if remembered else 1)


def test_closed_sign_in_can_be_opened_again(start, tab):
    page = tab(start("--api-key", "open-sesame"), lost_lines=True)
    dialog = page.page.get_by_role("dialog", name="Sign in")
    expect(dialog).to_be_visible()
    page.page.keyboard.press("Escape")
    page.banner.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_visible()
