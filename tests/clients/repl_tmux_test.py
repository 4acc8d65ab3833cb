#!/usr/bin/env python3
"""Drives `ringside chat` in a real terminal (tmux) against a real server, as a person would.

Environment:
  RINGSIDE_CLIENT      the client's binary
  RINGSIDE_TEST_URL    a running server; or else
  RINGSIDE_SERVER      the server's binary, started here with
  RINGSIDE_TEST_MODEL  this model
Exits 77 (skipped) if neither is given or tmux is missing.
"""
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile

from scripted_chat import ScriptedChat
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tiny_vision  # noqa: E402
from terminal_pane import CLIENT, PATIENCE_S, Failed, Pane, Proxy, Server, check, failures, flat, wait_for


def test_conversation(folder, server):
    pane = Pane(folder, ["--url", server.url, "--temperature", "0", "--max-tokens", "24", "--plain"])
    try:
        answer = pane.say("What is the capital of France?")
        check("an answer comes", len(answer) > 5, pane.screen())
        first = pane.say("/sessions")
        conversation = re.search(r"\* \d+\s+(conv_\w+)", first)[1]
        texts = server.texts(conversation)
        check("the screen shows what the server said", flat(texts[1][1]) in flat(pane.screen()), texts)

        check("an unknown command is a hint", "Did you mean /regen?" in pane.say("/regne"))
        check("and no message", len(server.texts(conversation)) == 2)
        check("/help lists", all(c in pane.say("/help") for c in ("/rewind N", "/system TEXT", "Ctrl-C")))
        check("a conversation is listed by its first words", "What is the capital of France?" in first, first)
        settings = pane.say("/set")
        check("/set shows all, with the values that hold", "repetition_penalty" in settings and "random (default)" in settings
              and not re.search(r"\sdefault\s", settings), settings)
        check("/set system points to /system", "/system TEXT" in pane.say("/set system You are brief."))
        check("/clear points to /new", "/new" in pane.say("/clear"))
        check("/set refuses", "takes a number" in pane.say("/set temperature hot"))
        check("/set sets", "max_tokens = 12" in pane.say("/set max_tokens 12"))
        check("/stats tells of the last answer", "computed" in pane.say("/stats"))
        pane.say("/stats on")
        check("/stats on shows each", re.search(r"\d+ computed, [1-9]\d* cached", pane.say("And of Italy?")), pane.screen())
        check("four messages", len(server.texts(conversation)) == 4)

        pane.say("/regen")
        again = server.texts(conversation)
        check("/regen replaces the answer", len(again) == 4 and again[3][0] == "assistant", again)
        check("/undo says what", "And of Italy?" in pane.say("/undo"))
        check("/undo takes two messages back", len(server.texts(conversation)) == 2)
        pane.say("One more question, please")
        check("/rewind 2 takes back all", "capital" in pane.say("/rewind 2") and not server.texts(conversation))
        check("/rewind knows its limit", "nothing" in pane.say("/rewind 3"))

        pane.say("Name three colours.")
        before = server.texts(conversation)
        copy = re.search(r"copy (conv_\w+)", pane.say("/fork"))[1]
        pane.say("Now three more.")
        check("/fork leaves the original", server.texts(conversation) == before and len(server.texts(copy)) == 4)
        check("/title renames", "Title: Colours" in pane.say("/title Colours"))
        check("as the list shows", "Colours" in pane.say("/sessions"))
        path = os.path.join(folder, "saved.json")
        check("/export writes", "4 messages" in pane.say(f"/export {path}"), pane.screen())
        exported = json.load(open(path))
        check("JSON with title and messages", exported["title"] == "Colours" and
              [m["role"] for m in exported["messages"]] == ["user", "assistant"] * 2, exported)
        path = os.path.join(folder, "saved.md")
        check("/save writes", "4 messages" in pane.say(f"/save {path}"), pane.screen())
        check("the file has it", "## You\n\nNow three more." in open(path).read())
        check("/save does not overwrite", "already" in pane.say(f"/save {path}"))
        check("/resume shows the last messages", "Name three colours." in pane.say(f"/resume {conversation}"))
        check("/resume refuses an unknown id", "no conversation" in pane.say("/resume conv_doesnotexist"))
        check("/system starts anew", "new conversation" in pane.say("/system You answer in one word.").lower())
        pane.say("Is water wet?")
        last = pane.leave()
        check("Ctrl-D prints how to resume", last not in ("", conversation, copy), pane.screen())
        check("the new conversation has its own messages", server.texts(last)[0][1] == "Is water wet?")
    finally:
        pane.close()
    saved = os.path.join(folder, "system.md")
    pane = Pane(folder, ["--url", server.url, "--session", last])
    try:
        pane.say(f"/save {saved}")
        check("/save has the system message", "## System\n\nYou answer in one word.\n" in open(saved).read())
        check("/system tells it", "You answer in one word." in pane.say("/system"))
        pane.leave()
    finally:
        pane.close()
    pane = Pane(folder, ["--url", server.url, "--session", conversation])
    try:
        check("--session goes on", "Name three colours." in pane.screen(), pane.screen())
        pane.keys("Up")
        wait_for("the history", lambda: pane.lines()[-1].endswith("/system"))
        check("the history is kept between runs", True)
        pane.keys("C-c")
        check("Ctrl-D resumes the same", pane.leave() == conversation)
    finally:
        pane.close()
    mode = stat.S_IMODE(os.stat(os.path.join(folder, "ringside", "history")).st_mode)
    check("the history file is private", mode == 0o600, oct(mode))


def test_interrupt(folder, server):
    pane = Pane(folder, ["--url", server.url, "--temperature", "0"])
    try:
        pane.keys("C-c")
        pane.wait_text("Ctrl-D or /bye leaves")
        check("Ctrl-C at an empty prompt is a hint", True)
        pane.type("dropped")
        pane.keys("C-c")
        wait_for("an empty prompt", pane.at_prompt)
        pane.say("Tell me a long story about a dog and a river.", wait=False)
        wait_for("the answer's beginning", lambda: len(pane.screen().split("a river.", 1)[-1].strip()) > 40)
        pane.keys("C-c")
        pane.wait_text("[stopped]")
        wait_for("the prompt", pane.at_prompt)
        check("Ctrl-C stops the answer", True)
        check("and keeps the conversation", re.search(r"[1-9]\d* cached", (pane.say("/set max_tokens 8"), pane.say("Thanks."),
                                                                            pane.say("/stats"))[2]), pane.screen())
        conversation = pane.leave()
        texts = server.texts(conversation)
        check("the partial answer is kept", len(texts) == 4 and len(texts[1][1]) > 10, texts)
        check("what was dropped was not sent", all("dropped" not in text for _, text in texts))
    finally:
        pane.close()


def test_editing(folder, server):
    pane = Pane(folder, ["--url", server.url, "--max-tokens", "4"], columns=60)
    try:
        pane.type("/sta")
        pane.keys("Tab")
        wait_for("a completion", lambda: pane.lines()[-1].strip() == ">>> /stats")
        check("Tab completes", True)
        pane.keys("C-u")
        pane.type("wörld 日本")
        pane.keys("Home")
        pane.type("hello ")
        pane.keys("End", "BSpace", "Left", "Delete")
        wait_for("the edited line", lambda: pane.lines()[-1] == ">>> hello wörld")
        check("keys edit a line of wide characters", True)
        pane.keys("C-w", "C-w")
        wait_for("an empty line", pane.at_prompt)
        pane.paste("line one\nline two\n  line three")
        wait_for("the paste", lambda: "... line two" in pane.lines())
        check("a paste of several lines is not sent by itself", True)
        pane.resize(44, 30)
        pane.drawn()
        wait_for("the paste", lambda: "... line two" in pane.lines())
        pane.resize(60, 40)
        pane.drawn()
        check("a resize keeps one picture", sum(line == "... line two" for line in pane.lines()) == 1, pane.screen())
        pane.keys("Enter")
        wait_for("the prompt", lambda: pane.at_prompt() and "..." in pane.screen())
        for line in ('"""', "first", "second"):
            pane.enter(line)
            wait_for("a continuation", lambda: pane.lines()[-1] == "...")
        pane.enter('"""')
        wait_for("the prompt", pane.at_prompt)
        pane.enter("one \\")
        wait_for("a continuation", lambda: pane.lines()[-1] == "...")
        pane.enter("two")
        wait_for("the prompt", pane.at_prompt)
        asked = [text for role, text in server.texts(pane.leave()) if role == "user"]
        check("messages of several lines arrive as they are",
              asked == ["line one\nline two\n  line three", "first\nsecond", "one \ntwo"], asked)
    finally:
        pane.close()


def test_colour(folder, server):
    for name, environment, arguments, wanted in (
            ("colour on a terminal", {}, [], True), ("NO_COLOR", {"NO_COLOR": "1"}, [], False),
            ("--color never", {}, ["--color", "never"], False), ("--color always", {"NO_COLOR": "1"}, ["--color", "always"], True)):
        pane = Pane(folder, ["--url", server.url] + arguments, **environment)
        try:
            seen = pane.screen(colours=True)
            check(name, ("\x1b[" in seen) == wanted, repr(seen))
        finally:
            pane.close()
    pane = Pane(folder, ["--url", server.url, "--temperature", "0", "--max-tokens", "4"], TERM="dumb")
    try:
        check("TERM=dumb has no colour", "\x1b[" not in pane.screen(colours=True))
        check("TERM=dumb answers", len(pane.say("Hello there")) > 0)
        pane.leave()
    finally:
        pane.close()


def test_reconnect(folder, server):
    proxy = Proxy(server.port())
    pane = Pane(folder, ["--url", f"ws://127.0.0.1:{proxy.port}", "--temperature", "0", "--max-tokens", "400", "--plain"],
                columns=120, rows=60)
    try:
        proxy.left = 20_000  # dozens of words, a fraction of the answer
        pane.say("Tell me a long story about a dog and a river.", wait=False)
        pane.wait_text("connection lost")
        check("words were shown before", len(pane.screen().split("a river.", 1)[-1].strip()) > 40, pane.screen())
        check("a banner tells of the lost connection", True)
        proxy.mend()
        wait_for("the prompt", pane.at_prompt)
        wait_for("a screen without the banner", lambda: "connection lost" not in pane.screen())
        check("the banner is gone", True)
        shown = pane.screen().split("a river.", 1)[1]
        conversation = pane.leave()
        texts = server.texts(conversation)
        check("one question, one answer", len(texts) == 2, texts)
        check("the answer is whole and nothing is doubled",
              flat(shown).removesuffix(">>>").removesuffix("[cutoff:maximumanswerlengthreached]") == flat(texts[1][1]),
              shown + "\n---\n" + texts[1][1])
    finally:
        pane.close()


def test_lost_server(folder, _):
    if "RINGSIDE_SERVER" not in os.environ:
        return
    server = Server(folder, "--store-path", os.path.join(folder, "store"))
    pane = Pane(folder, ["--url", server.url, "--temperature", "0", "--max-tokens", "2000", "--plain"], columns=120, rows=60)
    try:
        pane.say("Tell me a long story about a dog and a river.", wait=False)
        wait_for("the answer's beginning", lambda: len(pane.screen().split("a river.", 1)[-1].strip()) > 40)
        server.kill()
        pane.wait_text("connection lost")
        server.start(server.port())
        pane.wait_text("[the server stopped in the middle of this answer; /continue resumes it]")
        wait_for("the prompt", pane.at_prompt)
        check("a server that comes back ends the answer that its death cut", True)
        shown = pane.screen().split("a river.", 1)[1].split("[the server", 1)[0]
        conversation = server.get("/conversations?limit=1")["data"][0]["id"]
        before = server.texts(conversation)
        check("what was shown is what is kept", len(before) == 2 and flat(before[1][1]) == flat(shown),
              shown + "\n---\n" + str(before))
        pane.say("/set max_tokens 40")
        more = pane.say("/continue")
        after = server.texts(conversation)
        check("/continue goes on behind what is there, in the same message",
              len(after) == 2 and after[0] == before[0] and after[1][1].startswith(before[1][1])
              and len(after[1][1]) > len(before[1][1]), after)
        check("and shows it", flat(after[1][1][len(before[1][1]):]) in flat(more), more)
        pane.say("/set max_tokens 8")
        check("the conversation goes on", len(pane.say("Thanks.")) > 0 and len(server.texts(conversation)) == 4)
        pane.say("/undo")
        pane.say("/set max_tokens 4")
        pane.say("/regen")
        again = server.texts(conversation)
        check("/regen answers the whole message anew", len(again) == 2 and len(again[1][1]) < len(before[1][1]), again)
        check("Ctrl-D prints how to come back", pane.leave() == conversation)
    finally:
        pane.close()
    pane = Pane(folder, ["--url", server.url, "--session", conversation, "--max-tokens", "8"])
    try:
        check("an answer that was cut is marked", "/continue" in pane.screen(), pane.screen())
        check("/regen answers anew", len(pane.say("/regen")) > 0)
        pane.leave()
    finally:
        pane.close()
        server.stop()


def test_pipe(folder, server):
    def run(arguments, text):
        environment = {**os.environ, "XDG_STATE_HOME": folder}
        return subprocess.run([CLIENT, "chat", *arguments], input=text, capture_output=True, text=True, env=environment,
                              timeout=PATIENCE_S, check=False)

    done = run(["--url", server.url, "--temperature", "0", "--max-tokens", "8", "--keep", "Reply", "briefly."], "Hello!\n")
    check("a pipe is answered on standard output", done.returncode == 0 and done.stdout.strip(), done)
    check("with nothing else there", ">>>" not in done.stdout and "\x1b" not in done.stdout and done.stdout.endswith("\n"))
    newest = server.get("/conversations?limit=1")["data"][0]["id"]
    check("input and words are joined", server.texts(newest)[0][1] == "Hello!\n\nReply briefly.", server.texts(newest))
    before = server.ids()
    short_lived = run(["--url", server.url, "--temperature", "0", "--max-tokens", "4"], "Hello again!\n")
    check("a pipe leaves no conversation behind",
          short_lived.returncode == 0 and short_lived.stdout.strip() and server.ids() == before, short_lived)
    run(["--url", server.url, "--max-tokens", "4", "--session", newest], "And again!\n")
    check("with --session it is kept", len(server.texts(newest)) == 4)
    nothing = run(["--url", server.url], "")
    check("nothing to ask is an error", nothing.returncode == 2 and not nothing.stdout and "empty" in nothing.stderr)
    nobody = run(["--url", "ws://127.0.0.1:9"], "hi")
    check("no server is an error", nobody.returncode == 1 and not nobody.stdout and "127.0.0.1:9" in nobody.stderr)
    unknown = run(["--url", server.url, "--session", "conv_doesnotexist"], "hi")
    check("an unknown conversation is an error", unknown.returncode == 1 and unknown.stderr.strip(), unknown)
    listed = subprocess.run([CLIENT, "sessions", "--url", server.url], capture_output=True, text=True, check=False)
    check("ringside sessions lists", newest in listed.stdout and listed.returncode == 0, listed)


def test_words(folder, server):
    pane = Pane(folder, ["--url", server.url, "--temperature", "0", "--max-tokens", "120", "--plain"], columns=40, rows=60)
    try:
        shown = pane.say("Tell me a long story about a dog.")
        conversation = re.search(r"conv_\w+", pane.say("/sessions"))[0]
        answer = server.texts(conversation)[1][1]
        check("an answer is broken at words", shown.removesuffix("[cut off: maximum answer length reached]").split()
              == answer.split(), shown)
        check("within the screen", max(map(len, shown.split("\n"))) <= 40, shown)
        words = {word for line in pane.say("/help").split("\n") for word in line.split()}
        check("so is /help", {"completes", "commands,", "settings,", "conversations", "searches", "history"} <= words, words)
        check("so is an error", "conversations;" in pane.say("/resume 99999").split(), pane.screen())
    finally:
        pane.close()


def test_markdown(folder, _):
    answer = ("# A title\n\nSome **bold** and *italic* words, `code_of * ours` and 2 * 3 * 4.\n\n"
              "- one\n- two, which is much longer than a row is\n\n"
              "```python\nx = a ** b\n```\n\n[the site](https://example.org/) 🇩🇪 ends.")
    chat = ScriptedChat(answer)
    pane = Pane(folder, ["--url", chat.url], columns=40)
    try:
        shown = pane.say("Show me.")
        lines = [line.rstrip() for line in shown.split("\n")]
        check("Markdown is shown, not its marks", lines == [
            "A title", "", "Some bold and italic words, code_of *", "ours and 2 * 3 * 4.", "",
            "• one", "• two, which is much longer than a row", "  is", "",
            "```python", "x = a ** b", "```", "", "the site (https://example.org/) 🇩🇪 ends."], shown)
        seen = pane.screen(colours=True)
        check("in styles", "\x1b[1mbold" in seen and "\x1b[3mitalic" in seen
              and "\x1b[36m" in seen.split("```python")[1].split("x = a")[0], repr(seen))
        pane.keys("C-d")
        pane.wait_text("EXIT=0")
    finally:
        pane.close()
    for arguments, environment in (["--plain"], {}), ([], {"NO_COLOR": "1"}):
        pane = Pane(folder, ["--url", chat.url, *arguments], columns=100, **environment)
        try:
            shown = pane.say("Show me.")
            check(f"as it was written with {arguments or environment}", "# A title" in shown and "**bold**" in shown, shown)
            pane.keys("C-d")
            pane.wait_text("EXIT=0")
        finally:
            pane.close()


def test_reasoning(folder, _):
    chat = ScriptedChat("It is **42**.", reasoning="Six times seven.\nLet me see.")
    pane = Pane(folder, ["--url", chat.url], columns=60)
    try:
        shown = pane.say("Which number?")
        lines = [line.rstrip() for line in shown.split("\n")]
        check("reasoning comes before the answer, with its duration", lines[:2] == ["Six times seven.", "Let me see."]
              and re.fullmatch(r"\[thought for \d+\.\d s\]", lines[2]) and lines[3:] == ["It is 42."], shown)
        check("it is dim", "\x1b[2mSix times seven." in pane.screen(colours=True), repr(pane.screen(colours=True)))
        check("/think hide hides it", "hidden" in pane.say("/think hide"))
        hidden = pane.say("Again?")
        check("and leaves the duration", "Six" not in hidden and "[thought for" in hidden and "It is 42." in hidden, hidden)
        check("/think sets an effort", "think = low" in pane.say("/think low"))
        check("/set shows it", '{"effort":"low"}' in pane.say("/set"), pane.screen())
        check("/think refuses another word", "think takes on, off" in pane.say("/think hard"))
        pane.keys("C-d")
        pane.wait_text("EXIT=0")
    finally:
        pane.close()

    def run(*arguments):
        return subprocess.run([CLIENT, "chat", "--url", chat.url, *arguments, "Which?"], input="", capture_output=True, text=True,
                              env={**os.environ, "XDG_STATE_HOME": folder}, timeout=PATIENCE_S, check=False)

    piped = run()
    check("a pipe has the answer alone", piped.returncode == 0 and piped.stdout == "It is **42**.\n", piped)
    asked = run("--show-thinking")
    check("unless it is asked for", asked.stdout == "Six times seven.\nLet me see.\n\nIt is **42**.\n", asked)
    both = run("--show-thinking", "--hide-thinking")
    check("not both", both.returncode == 2 and "excludes" in both.stderr, both)


def test_others(folder, server):
    pane = Pane(folder, ["--url", server.url, "--max-tokens", "4"])
    try:
        pane.say("Remember the number seven.")
        conversation = re.search(r"conv_\w+", pane.say("/sessions"))[0]
        pane.type("half a line")
        server.post(f"/conversations/{conversation}/items",
                    {"items": [{"type": "message", "role": "user", "content": "Hello from elsewhere!"}]})
        pane.wait_text("[another client] >>> Hello from elsewhere!")
        wait_for("the line again", lambda: pane.lines()[-1] == ">>> half a line")
        check("what others say is shown, and what was typed is kept", True)
        check("once", pane.screen().count(">>> Hello from elsewhere!") == 1, pane.screen())
        pane.keys("C-c")
        pane.say("And now?")
        check("one's own turns are not taken for others'", pane.screen().count("another client") == 1, pane.screen())
        server.post(f"/conversations/{conversation}/items", {"items": [
            {"type": "message", "role": "user", "content": "Two?"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is **2**."}]}]})
        pane.wait_text("[answer to another client]")
        pane.wait_text("It is 2.")
        check("each message names its sender, and answers are rendered", "[another client] >>> Two?" in pane.screen(), pane.screen())
        pane.leave()
    finally:
        pane.close()


def test_next_turn(folder, server):
    """/read, /copy, /model and /preset."""
    notes = os.path.join(folder, "notes.txt")
    with open(notes, "w") as file:
        file.write("The password is sesame.\n")
    with open(os.path.join(folder, "binary.bin"), "wb") as file:
        file.write(b"\x7fELF\x00\x01")
    with open(os.path.join(folder, "large.txt"), "w") as file:
        file.write("x" * 1_000_001)
    with open(os.path.join(folder, "long.txt"), "w") as file:
        file.write("seven words that fill the model's window\n" * 20_000)
    pane = Pane(folder, ["--url", server.url, "--max-tokens", "4"])
    try:
        check("/read refuses a binary file", "binary file" in pane.say(f"/read {folder}/binary.bin"), pane.screen())
        check("/read refuses a large file", "1000 KB" in pane.say(f"/read {folder}/large.txt"), pane.screen())
        check("/read refuses a folder", "not a regular file" in pane.say(f"/read {folder}"), pane.screen())
        check("/read counts against the window", "would exceed" in pane.say(f"/read {folder}/long.txt"), pane.screen())
        check("/read attaches, and counts", re.search(r"Attached notes.txt to the next message: \d+ of", pane.say(f"/read {notes}")),
              pane.screen())
        check("/read alone lists", "notes.txt" in pane.say("/read"))
        pane.say("What is the password?")
        check("the file is sent once", "Attached" not in pane.say("/read"), pane.screen())
        conversation = re.search(r"conv_\w+", pane.say("/sessions"))[0]
        asked, answer = server.texts(conversation)[:2]
        check("as the page would", asked[1] == "What is the password?\n\nFile: notes.txt\n````\nThe password is sesame.\n````", asked)
        check("/copy copies", "Copied the last answer" in pane.say("/copy"), pane.screen())
        check("the answer", pane._tmux("show-buffer") == answer[1], answer)
        name = server.get("/models")["data"][0]["id"]
        check("/model lists", f"* 1  {name}" in pane.say("/model"), pane.screen())
        check("/model refuses", "no model" in pane.say("/model gpt-5"), pane.screen())
        check("/model starts a new conversation", "A new conversation" in pane.say("/model 1"), pane.screen())
        pane.say("/set temperature 0.25")
        pane.say("/system Answer in French.")
        check("/preset saves", "Saved" in pane.say("/preset save french"), pane.screen())
        check("/preset applies", "new conversation" in pane.say("/preset brief"), pane.screen())
        check("a preset replaces the settings", "0.25" not in pane.say("/set"), pane.screen())
        pane.say("/preset french")
        check("one's own is restored", "0.25" in pane.say("/set"), pane.screen())
        check("with its system message", "French" in pane.say("/system"), pane.screen())
        check("/preset lists", all(word in pane.say("/preset") for word in ("brief", "french", "Answer in French.")), pane.screen())
        check("/preset deletes", "Deleted" in pane.say("/preset delete french"), pane.screen())
        check("/preset refuses", "no preset" in pane.say("/preset french"), pane.screen())
        check("/think tells the setting", "low" in (pane.say("/think low"), pane.say("/think"))[1], pane.screen())
        pane.leave()
    finally:
        pane.close()


def test_images(folder, server):
    """/image."""
    if "RINGSIDE_SERVER" not in os.environ:
        return
    home = os.path.join(folder, "home")
    os.makedirs(os.path.join(home, "my pictures"))
    files = {"red.png": tiny_vision.noise(30, 1), "my pictures/o'clock.png": tiny_vision.noise(20, 2),
             "words.png": b"only words", "photo.png": tiny_vision.noise(1010), "large.png": tiny_vision.noise(20) + bytes(20 << 20)}
    for name, content in files.items():
        with open(os.path.join(home, name), "wb") as file:
            file.write(content)
    pane = Pane(folder, ["--url", server.url, "--max-tokens", "4"], HOME=home)
    try:
        pane.say("/image ~/red.png")
        refused = pane.say("What is it?")
        check("a model without images refuses them, and the file is kept", "does not support" in refused and "are kept" in refused, refused)
        check("/read - drops them", "No file" in pane.say("/read -"))
        check("and the text alone is answered", "does not support" not in pane.say("What is it?"), pane.screen())
        pane.leave()
    finally:
        pane.close()
    vision = Server(home, model=tiny_vision.make(os.path.join(folder, "vision")))
    pane = Pane(folder, ["--url", vision.url, "--max-tokens", "4", "--plain"], columns=160, HOME=home)
    try:
        check("/image alone explains", "/image FILE attaches" in pane.say("/image"), pane.screen())
        check("a missing file is named", "~/none.png: No such file" in pane.say("/image ~/none.png"), pane.screen())
        check("another format is refused", "not a PNG, JPEG or WebP" in pane.say("/image ~/words.png"), pane.screen())
        check("a large one, too", "20.9 MB" in pane.say("/image ~/large.png"), pane.screen())
        check("the server's limit is larger than that of text", "Attached" in pane.say("/image ~/photo.png"), pane.screen())
        check("and the file is dropped", "No image" in pane.say("/image -"), pane.screen())
        check("a path may be quoted", "Attached the image o'clock.png" in pane.say(f'/image "{home}/my pictures/o\'clock.png"'), pane.screen())
        pane.type("/image ~/r")
        pane.keys("Tab")
        wait_for("the path", lambda: pane.lines()[-1] == ">>> /image ~/red.png")
        pane.keys("Enter")
        pane.wait_text("Attached the image red.png")
        check("/image lists them in order", "o'clock.png, red.png" in pane.say("/image"), pane.screen())
        pane.say("Which is red?")
        check("they are sent once", "/image FILE attaches" in pane.say("/image"), pane.screen())
        pane.say("And now?")
        conversation = re.search(r"conv_\w+", pane.say("/sessions"))[0]
        asked = [item["content"] for item in vision.get(f"/conversations/{conversation}/items?order=asc")["data"] if item["role"] == "user"]
        check("before the text, in their order", [[part.get("image_url") or part["text"] for part in parts] for parts in asked] == [
            [tiny_vision.data_url(files["my pictures/o'clock.png"]), tiny_vision.data_url(files["red.png"]), "Which is red?"], ["And now?"]])
        path = os.path.join(home, "saved.json")
        pane.say(f"/export {path}")
        check("/export has them", json.load(open(path))["messages"][0]["images"][1] == tiny_vision.data_url(files["red.png"]))
        check("a reopened conversation shows that they are there", ">>> [2 images] Which is red?" in pane.say(f"/resume {conversation}"), pane.screen())
        pane.say("/undo")
        check("/undo tells of them", "[2 images] Which is red?" in pane.say("/undo"), pane.screen())
        pane.keys("C-r")
        pane.type("~/r")
        wait_for("the history", lambda: pane.lines()[-1].endswith("/image ~/red.png"))
        check("the command is in the history", True)
        pane.keys("C-c")
        wait_for("an empty prompt", pane.at_prompt)
        pane.leave()
    finally:
        pane.close()
        vision.stop()


def test_own_editor(folder, server):
    editor = os.path.join(folder, "editor")
    with open(editor, "w") as script:
        script.write('#!/bin/sh\nprintf "%s and two\\nlines\\n\\n" "$(cat "$1")" > "$1"\n')
    os.chmod(editor, 0o700)
    pane = Pane(folder, ["--url", server.url, "--max-tokens", "4"], EDITOR=editor)
    try:
        pane.type("/edit One")
        pane.keys("Enter")
        pane.wait_text("lines")
        wait_for("the prompt", pane.at_prompt)
        conversation = pane.leave()
        check("/edit sends what was saved", server.texts(conversation)[0] == ("user", "One and two\nlines"),
              server.texts(conversation))
    finally:
        pane.close()


def test_ephemeral(folder, server):
    before = server.ids()
    pane = Pane(folder, ["--url", server.url, "--max-tokens", "4", "--ephemeral"])
    try:
        pane.say("Forget this.")
        check("no way back is told", pane.leave() == "")
        check("an ephemeral conversation is gone", server.ids() == before)
    finally:
        pane.close()


def test_run(folder, _):
    if "RINGSIDE_SERVER" not in os.environ:
        return
    model = os.environ["RINGSIDE_TEST_MODEL"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGSIDE_")}
    environment |= {"XDG_STATE_HOME": folder, "XDG_DATA_HOME": folder}
    done = subprocess.run([CLIENT, "run", model, "--temperature", "0", "--max-tokens", "6", "--keep", "Say", "hello."], capture_output=True,
                          text=True, env=environment, timeout=PATIENCE_S, stdin=subprocess.DEVNULL, check=False)
    check("ringside run answers", done.returncode == 0 and done.stdout.strip(), done)
    lines = open(os.path.join(folder, "ringside", "run.log")).read()
    port = re.search(r"http://127\.0\.0\.1:(\d+)", lines)[1]
    with socket.socket() as probe:
        check("and ends its server", probe.connect_ex(("127.0.0.1", int(port))) != 0)
    pane = Pane(folder, [model, "-c"], verb="run", XDG_DATA_HOME=folder)
    try:
        check("the conversation goes on in the next run", "Say hello." in pane.screen(), pane.screen())
        check("the page's address is printed", re.search(r"The page: http://127\.0\.0\.1:\d+/", pane.screen()), pane.screen())
        pane.keys("C-d")
        pane.wait_text("EXIT=0")
    finally:
        pane.close()
    missing = subprocess.run([CLIENT, "run", "/no/such/model.gguf", "hi"], capture_output=True, text=True, env=environment,
                             timeout=PATIENCE_S, stdin=subprocess.DEVNULL, check=False)
    check("a server that cannot start is told of", missing.returncode == 1 and "/no/such/model.gguf" in missing.stderr, missing)


def main():
    has_server = "RINGSIDE_TEST_URL" in os.environ or {"RINGSIDE_SERVER", "RINGSIDE_TEST_MODEL"} <= os.environ.keys()
    if not has_server or not shutil.which("tmux"):
        print("skipped: no server or no tmux")
        return 77
    tests = [test_pipe, test_conversation, test_words, test_interrupt, test_editing, test_own_editor, test_colour, test_markdown,
             test_reasoning, test_others, test_next_turn, test_images, test_ephemeral, test_reconnect, test_lost_server, test_run]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            for test in tests:
                if len(sys.argv) > 1 and not any(name in test.__name__ for name in sys.argv[1:]):
                    continue
                print(f"-- {test.__name__}", flush=True)
                try:
                    test(folder, server)
                except Failed as failure:
                    check(f"{test.__name__}: {failure}", False)
        finally:
            server.stop()
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
