"""Benchmarks two GPUs that share a model, and two with a copy each, against one; weights are random, generated on the
GPUs. With --pipeline it also measures steps with layers split into stages.

    python3 tools/bench/gpu/measure_ranks.py --bin build/cuda/bin [--gpus 2] [--pipeline 2]
        [--parts ceilings,sums,steps,restores,engines] [--conversations 256]

The engines' rate is printed with the CPU share of each kind of server thread: the busiest of that name, and in
parentheses all together.

The limits are from the same run: read, GEMM and copy rates of the slowest GPU, with all GPUs busy. A step's share is
the time that its bytes take at that rate (for a prompt: its products), divided by the measured time. Prints tables, and
the programs' messages to standard error.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "max_position_embeddings": 131072, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
         "rope_theta": 500000.0, "vocab_size": 128256, "num_key_value_heads": 8, "tie_word_embeddings": False}
SHAPES = {
    "smollm2": dict(LLAMA, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                    num_key_value_heads=3, vocab_size=49152, rope_theta=100000.0, tie_word_embeddings=True),
    "llama-1b": dict(LLAMA, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                     tie_word_embeddings=True),
    "llama-8b": dict(LLAMA, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32),
    "llama-70b": dict(LLAMA, hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64),
}
CONTEXT, PROMPT, KEPT = 1024, 2048, 4096
CLIENTS = 4


def thread_seconds(pid):
    """For each thread of a process: name and CPU seconds."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            name, _, rest = open(f"/proc/{pid}/task/{thread}/stat").read().partition("(")[2].rpartition(")")
        except FileNotFoundError:
            continue  # it has exited meanwhile
        found[thread] = name, sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def busy_threads(before, after, seconds):
    """Shares of the time by name, the busiest first."""
    shares = {}
    for thread, (name, ran) in after.items():
        shares.setdefault(name, []).append((ran - before.get(thread, (name, 0))[1]) / seconds)
    rows = sorted(((max(all), sum(all), name) for name, all in shares.items()), reverse=True)
    return ", ".join(f"{name} {100 * most:.0f} % ({100 * all:.0f} %)" for most, all, name in rows if most >= 0.01)


class Shape:
    def __init__(self, name):
        c = SHAPES[name]
        d, self.layers, kv = c["hidden_size"], c["num_hidden_layers"], c["num_key_value_heads"]
        self.head_dim = d // c["num_attention_heads"]
        self.layer_weights = self.layers * (2 * d * d + 2 * d * kv * self.head_dim + 3 * d * c["intermediate_size"])
        self.head_weights = d * c["vocab_size"]
        self.query_columns = d
        self.kv_bytes = 2 * self.layers * kv * self.head_dim * 2  # per token, 16 bits

    def decode_bytes(self, batch):
        return 2 * (self.layer_weights + self.head_weights) + batch * CONTEXT * self.kv_bytes

    def prompt_products(self, tokens):  # FLOPs
        attention = 2 * self.layers * self.query_columns * tokens * (tokens + 1)
        return 2 * tokens * self.layer_weights + 2 * self.head_weights + attention


class Run:
    def __init__(self, args, work):
        self.args, self.work, self.ceilings = args, work, {}

    def program(self, name):
        return os.path.join(self.args.bin, name)

    def folder(self, name):
        path = os.path.join(self.work, name)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "config.json"), "w") as file:
            json.dump(SHAPES[name], file)
        return path

    def lines(self, *command):
        """Returns the JSON objects that a program prints; none, and a message, if it fails."""
        done = subprocess.run([self.program(command[0]), *map(str, command[1:])], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print(f"{' '.join(map(str, command))}: ended with {done.returncode}", flush=True)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def measure_ceilings(self):
        running = [subprocess.Popen([self.program("device_ceilings")], stdout=subprocess.PIPE, text=True,
                                    env=dict(os.environ, CUDA_VISIBLE_DEVICES=str(gpu))) for gpu in range(self.args.gpus)]
        for process in running:
            for line in process.communicate()[0].splitlines():
                found = json.loads(line)
                rate = found.get("gb_per_s", found.get("tflop_per_s"))
                name = found["name"]
                self.ceilings[name] = min(rate, self.ceilings.get(name, rate))
        print("ceilings of each GPU, all at once (GB/s, TFLOP/s):",
              ", ".join(f"{name} {rate:.0f}" for name, rate in self.ceilings.items()), flush=True)

    def share(self, amount, gpus, ceiling, seconds):
        rate = self.ceilings.get(ceiling)
        scale = 1e12 if ceiling == "products" else 1e9
        return f"{100 * amount / gpus / (rate * scale) / seconds:.0f} %" if rate else "-"

    def measure_sums(self):
        subprocess.run([self.program("ranks_bench"), "--ranks", str(self.args.gpus)], check=False)

    def measure_steps(self):
        print(f"{'model':<10} {'GPUs':>4} {'stages':>6} {'step':<22} {'ms':>9} {'least':>9} {'share of the ceiling':>21}",
              flush=True)
        shared = [(self.args.gpus, 1)]  # ranks per stage, stages
        if self.args.pipeline > 1:
            shared.append((self.args.gpus // self.args.pipeline, self.args.pipeline))
        for name, layouts in (("llama-8b", [(1, 1), *shared]), ("llama-70b", shared)):
            shape = Shape(name)
            for ranks, stages in layouts:
                gpus = ranks * stages
                for found in self.lines("step_bench", "--model", self.folder(name), "--load-format", "dummy", "--ranks", ranks,
                                        "--stages", stages, "--batches", "1,32", "--contexts", CONTEXT, "--prefill", PROMPT,
                                        "--only-ahead", "--growing", "--memory-utilization", 0.97, "--repeats", 5):
                    seconds = found["ms"] / 1e3
                    if found["name"] == "prefill":
                        step = f"prompt of {PROMPT}"
                        share = self.share(shape.prompt_products(PROMPT), gpus, "products", seconds)
                    else:
                        step = f"decode, batch {found['batch']}"
                        share = self.share(shape.decode_bytes(found["batch"]), gpus, "read", seconds)
                    print(f"{name:<10} {gpus:>4} {stages:>6} {step:<22} {found['ms']:>9.3f} {found['least']:>9.3f} {share:>21}",
                          flush=True)

    def measure_restores(self):
        for found in self.lines("restore_bench", "--model", self.folder("llama-70b"), "--load-format", "dummy", "--ranks",
                                self.args.gpus, "--tokens", KEPT, "--beside", 0, "--repeats", 5, "--memory-utilization", 0.97):
            if "gb_per_s" in found:
                ceiling = self.ceilings.get("copy_in" if found["name"] == "restore" else "copy_out")
                share = f", {100 * found['gb_per_s'] / (self.args.gpus * ceiling):.0f} % of all links" if ceiling else ""
                print(f"llama-70b, {found['name']} of {KEPT} tokens over {self.args.gpus} links: {found['ms']:.2f} ms, "
                      f"{found['gb_per_s']:.1f} GB/s{share}", flush=True)
            else:
                print(f"llama-70b, {found['name']}: {found['ms']:.2f} ms", flush=True)

    def serve(self, name, engines):
        """Tokens a second that this number of engines writes for --conversations."""
        log = open(os.path.join(self.work, f"{name}-{engines}.log"), "w+")
        server = subprocess.Popen(
            [self.program("ringside-server"), "--model", self.folder(name), "--load-format", "dummy", "--chat-template",
             "chatml", "--device", "cuda", "--data-parallel-size", str(engines), "--port", "0", "--memory-len", "2048",
             "--max-connections", "2000", "--max-turns-per-owner", "2000", "--log-level", "warning",
             "--store-path", os.path.join(self.work, f"store-{name}-{engines}")],
            stdout=subprocess.PIPE, stderr=log, text=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("RINGSIDE_")})
        try:
            url = re.search(r"http://\S+", server.stdout.readline() or "")
            if not url:
                log.seek(0)
                print(log.read()[-2000:])
                return None
            before, began = thread_seconds(server.pid), time.monotonic()
            figures = self.load(url[0], f"{name}-{engines}")
            print(f"{name}, {engines} engine(s), threads:",
                  busy_threads(before, thread_seconds(server.pid), time.monotonic() - began), flush=True)
            return figures
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)

    def load(self, url, what):
        """Tokens a second for --conversations of several client processes: one is slower than two GPUs."""
        paths = [os.path.join(self.work, f"{what}-{i}.json") for i in range(CLIENTS)]
        clients = [subprocess.Popen([self.program("ringside-bench"), "load", "--url", url, "-n", str(self.args.conversations // CLIENTS), "--warm-up",
                                     "8", "--turns", "6", "--think", "0", "--prompt-words", "32", "--max-tokens", "128",
                                     "--ignore-eos", "--json", path], stdout=sys.stderr) for path in paths]
        if any(client.wait(150) != 0 for client in clients):
            return None
        figures = [json.load(open(path)) for path in paths]
        return {"tokens_per_s": sum(one["tokens_per_s"] for one in figures)}

    def measure_engines(self):
        for name in self.args.served.split(","):
            rates = {}
            for engines in (1, self.args.gpus):
                began = time.monotonic()
                figures = self.serve(name, engines)
                if figures is None:
                    return
                rates[engines] = figures["tokens_per_s"]
                print(f"{name}, {engines} engine(s), {self.args.conversations} conversations: {rates[engines]:.0f} tokens/s "
                      f"({time.monotonic() - began:.0f} s with the start)", flush=True)
            print(f"{name}: {rates[self.args.gpus] / rates[1]:.2f} times", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--pipeline", type=int, default=1, help="steps in so many stages, too, of --gpus / N each")
    parser.add_argument("--parts", default="ceilings,sums,steps,restores,engines")
    parser.add_argument("--served", default="smollm2,llama-1b")
    parser.add_argument("--conversations", type=int, default=256, help="of --parts engines")
    args = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    with tempfile.TemporaryDirectory() as work:
        run = Run(args, work)
        for part in args.parts.split(","):
            getattr(run, "measure_" + part)()


if __name__ == "__main__":
    main()
