"""Images through the stock SDKs: answers of a tiny random model with a vision tower, or of RINGSIDE_VISION_MODEL."""

import base64
import os
import shutil
from pathlib import Path

import anthropic
import ollama
import openai
import pytest
from server import Server

IMAGES = Path(__file__).resolve().parents[1] / "decoder/images"
FILE = (IMAGES / "rgb.png").read_bytes()
BASE64 = base64.b64encode(FILE).decode()
URL = "data:image/png;base64," + BASE64
QUESTION = "What is on this image?"
TINY = Path(__file__).resolve().parents[1] / "golden/vision/mistral3"
TEMPLATE = """{% for message in messages %}{{ message.role }}: {% if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content %}{% if part.type == 'image' %}[IMG]{% else %}{{ part.text }}{% endif %}{% endfor %}
{%- endif %}</s>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    model = os.environ.get("RINGSIDE_VISION_MODEL")
    if not model:
        model = str(tmp_path_factory.mktemp("model") / "tiny")
        shutil.copytree(TINY, model)
        Path(model, "chat_template.jinja").write_text(TEMPLATE)
    server = Server("--store-path", str(tmp_path_factory.mktemp("store")), model=model)
    yield server
    server.stop()


@pytest.fixture
def sees(vision):
    with openai.OpenAI(base_url=vision.url + "/v1", api_key="anything", max_retries=0) as client:
        yield client
    assert vision.alive()


def question(url=URL):
    return {"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"},
                                        {"type": "input_text", "text": QUESTION}]}


def chat_question(url=URL):
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]}


def test_a_model_without_images_refuses_them(client):
    model = client.models.list().data[0].id
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=[chat_question()], max_tokens=4)
    assert (refused.value.code, refused.value.param) == ("unsupported_value", "messages[0].content[0].type")
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=model, input=[question()], max_output_tokens=16)
    assert (refused.value.code, refused.value.param) == ("unsupported_value", "input[0].content[0].type")


def test_every_face_reads_the_same_image(vision, sees):
    model = sees.models.list().data[0].id
    chat = sees.chat.completions.create(model=model, messages=[chat_question()], max_tokens=8, temperature=0)
    anthropic_client = anthropic.Anthropic(base_url=vision.url, api_key="anything")
    source = {"type": "base64", "media_type": "image/png", "data": BASE64}
    message = anthropic_client.messages.create(
        model=model, max_tokens=8, extra_body={"temperature": 0},
        messages=[{"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]}])
    local = ollama.Client(host=vision.url).chat(
        model=model, messages=[{"role": "user", "content": QUESTION, "images": [BASE64]}], options={"num_predict": 8, "temperature": 0})
    response = sees.responses.create(model=model, input=[question()], max_output_tokens=16, temperature=0)
    text = chat.choices[0].message.content
    assert text and message.content[0].text == text and local.message.content == text
    assert response.output_text.startswith(text)


def test_a_turn_after_an_image_reuses_its_tokens(sees):
    model = sees.models.list().data[0].id
    first = sees.responses.create(model=model, input=[question()], max_output_tokens=16, temperature=0)
    second = sees.responses.create(model=model, input="And now?", previous_response_id=first.id, max_output_tokens=16)
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens
    items = sees.responses.input_items.list(second.id, order="asc").data
    assert items[0].content[0].type == "input_image" and items[0].content[0].image_url == URL


def test_faults_of_images_are_typed(sees):
    model = sees.models.list().data[0].id
    cut = "data:image/png;base64," + base64.b64encode(FILE[:60]).decode()
    for url, code in (("https://example.com/a.png", "image_url_not_allowed"), ("data:image/png;base64,?", "invalid_value"),
                      (cut, "invalid_value"), ("data:image/gif;base64,R0lGODlh", "invalid_value")):
        with pytest.raises(openai.BadRequestError) as refused:
            sees.chat.completions.create(model=model, messages=[chat_question(url)], max_tokens=4)
        assert (refused.value.code, refused.value.param) == (code, "messages[0].content[0].image_url.url")
