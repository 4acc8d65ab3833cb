"""guidellm's benchmark of a server by its address: every request is answered.

    scripts/client_tests guidellm
"""

import json
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "guidellm"
REQUESTS = 4


@pytest.mark.parametrize("format", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
def test_every_request_is_answered(server, run, tmp_path, format):
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"Which number is {i}?"}) + "\n" for i in range(2 * REQUESTS)))
    run(PROGRAM, "run", "--backend", f"kind=openai_http,target=http://127.0.0.1:{server.port},request_format={format}",
        "--profile", "kind=synchronous", "--constraint", f"kind=max_requests,count={REQUESTS}", "--data", "kind=json_file,path=prompts.jsonl",
        "--output", "kind=json,path=report.json", "--disable-console", HF_HUB_OFFLINE="1")
    [benchmark] = json.loads((tmp_path / "report.json").read_text())["benchmarks"]
    done = benchmark["requests"]["successful"]
    assert len(done) == REQUESTS and not benchmark["requests"]["errored"]
    assert all(request["output_metrics"]["text_tokens"] > 0 for request in done), done[0]
