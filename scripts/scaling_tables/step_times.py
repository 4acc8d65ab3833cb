"""Step times by number of GPUs: the formulas of docs/SCALING.md. Times are in ms, sizes in bytes, rates per second."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True  # three MLP matrices instead of two
    tied: bool = False  # embedding and output head share weights

    def layer(self):
        """Weights of one layer."""
        return self.hidden * ((2 * self.heads + 2 * self.kv_heads) * self.head_dim + (3 if self.gated else 2) * self.ffn)

    def read(self):
        """Weights read by a step: everything but the embedding, whose row it looks up."""
        return self.layers * self.layer() + self.vocab * self.hidden

    def all(self):
        return self.read() + (0 if self.tied else self.vocab * self.hidden)

    def token_bytes(self, gpus=1, cache_bytes=2):
        """Key and value bytes per token over all GPUs: with fewer KV heads than GPUs, heads are replicated."""
        return 2 * self.layers * max(self.kv_heads, gpus) * self.head_dim * cache_bytes


@dataclass(frozen=True)
class Gpu:
    name: str
    read: float     # bytes per second, with nothing else running
    product: float  # FLOP/s
    bytes: int


@dataclass(frozen=True)
class Link:
    """A GPU interconnect: latency of an all-reduce over 2, 4 and 8 GPUs, and bytes per second in one direction."""
    name: str
    waits: tuple
    rate: float


H200 = Gpu("H200", 4.61e12, 787e12, 141 * 10**9)
H100 = Gpu("H100", 3.15e12, 787e12, 80 * 10**9)  # read: fitted to the measured step of one H100
NVLINK = Link("NVLink", (0.0024, 0.0036, 0.0043), 300e9)
PCIE = Link("PCIe 5", (0.010, 0.014, 0.020), 40e9)  # assumed, not measured

MODELS = {m.name: m for m in [
    Model("SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152, tied=True),
    Model("GPT-2 345M", 24, 1024, 16, 16, 64, 4096, 50257, gated=False, tied=True),
    Model("Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, tied=True),
    Model("Llama-3-8B", 32, 4096, 32, 8, 128, 14336, 128256),
    Model("Qwen3-14B", 40, 5120, 40, 8, 128, 17408, 151936),
    Model("Qwen3-32B", 64, 5120, 64, 8, 128, 25600, 151936),
    Model("Llama-3-70B", 80, 8192, 64, 8, 128, 28672, 128256),
    Model("Mistral-Large-123B", 88, 12288, 96, 8, 128, 28672, 32768),
    Model("Llama-3.1-405B", 126, 16384, 128, 8, 128, 53248, 128256),
]}

LAYER_MS = 0.0165      # kernel launch gaps, per layer and row
ROWS_MS = 0.0095       # additional from 8 rows on
SHOWS = 0.75           # fraction of the GEMM time not hidden by reading weights
PROMPT_SHARE = 0.80    # fraction of Gpu.product reached by prefill GEMMs
ATTENTION_SHARE = 0.45  # by prefill attention


def sum_ms(link, gpus, size):
    """All-reduce of `size` bytes: each rank reads all others' data (one-shot), or a share and then the sums
    (two-shot)."""
    if gpus == 1:
        return 0
    wait, rate = link.waits[gpus.bit_length() - 2], link.rate / 1e3
    return min(wait + (gpus - 1) * size / rate, 2 * wait + 2 * (gpus - 1) / gpus * size / rate)


def network_sum_ms(one_way_ms, gpus, size, rate=12.5e9):
    """All-reduce of `size` bytes of float32 between processes (kernels/comm/mpi_comm.cpp): every rank sends its values to all
    others at once, so a sum takes one one-way latency, and the time of (gpus - 1) messages on its link."""
    return 0 if gpus == 1 else one_way_ms + 1e3 * (gpus - 1) * size / rate


def decode_ms(model, gpu, batch, context, gpus=1, link=NVLINK, weight_bytes=2.0):
    reads = model.read() * weight_bytes / gpus + batch * context * model.token_bytes(gpus) / gpus
    products = 2 * batch * model.read() / gpus
    kernels = model.layers * (LAYER_MS + (ROWS_MS if batch >= 8 else 0))
    sums = 2 * model.layers * sum_ms(link, gpus, batch * model.hidden * 2)
    return 1e3 * (reads / gpu.read + SHOWS * products / gpu.product) + kernels + sums


def prompt_ms(model, gpu, tokens, gpus=1, link=NVLINK):
    products = 2 * tokens * model.layers * model.layer() / gpus
    attention = 2 * tokens * tokens * model.layers * model.heads * model.head_dim / gpus
    computing = products / (PROMPT_SHARE * gpu.product) + attention / (ATTENTION_SHARE * gpu.product)
    reads = model.read() * 2 / gpus / gpu.read
    sums = 2 * model.layers * sum_ms(link, gpus, tokens * model.hidden * 2)
    return 1e3 * max(computing, reads) + model.layers * (LAYER_MS + ROWS_MS) + sums
