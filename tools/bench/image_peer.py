"""llama.cpp's mtmd for image_bench.py: reads a line {"png": path, "text"} or {"text"}, answers {"seconds", "tokens"}.

    image_peer.py FOLDER THREADS                    needs llama-cpp-python, built for this machine

A line with a picture begins a new conversation, one without continues it; {} is answered once the model is loaded.
"""

import ctypes
import json
import sys
import time

import llama_cpp
from llama_cpp import mtmd_cpp as mtmd


class Peer:
    def __init__(self, folder, threads):
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))
        mtmd.mtmd_helper_log_set(self.quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        of_model = llama_cpp.llama_model_default_params()
        of_model.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(f"{folder}/model.gguf".encode(), of_model)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 4096, 2048, 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        of_tower = mtmd.mtmd_context_params_default()
        of_tower.use_gpu, of_tower.n_threads, of_tower.print_timings = False, threads, False
        self.tower = mtmd.mtmd_init_from_file(f"{folder}/mmproj-model.gguf".encode(), self.model, of_tower)
        if not self.model or not self.context or not self.tower:
            sys.exit("llama.cpp cannot load the model")
        self.sampler = llama_cpp.llama_sampler_init_greedy()
        self.position = llama_cpp.llama_pos(0)

    def feed(self, prompt, png=None):
        """Evaluates a prompt, and samples a token."""
        bitmaps = []
        if png is not None:
            buffer = (ctypes.c_uint8 * len(png)).from_buffer_copy(png)
            made = mtmd.mtmd_helper_bitmap_init_from_buf(self.tower, buffer, len(png), False)
            bitmaps.append(getattr(made, "bitmap", made))
        chunks = mtmd.mtmd_input_chunks_init()
        data = prompt.encode()
        text = mtmd.mtmd_input_text(text=data, add_special=False, parse_special=True)
        if hasattr(text, "text_len"):
            text.text_len = len(data)
        if mtmd.mtmd_tokenize(self.tower, chunks, ctypes.byref(text), (ctypes.c_void_p * len(bitmaps))(*bitmaps), len(bitmaps)):
            sys.exit("mtmd_tokenize failed")
        if mtmd.mtmd_helper_eval_chunks(self.tower, self.context, chunks, self.position, 0, 2048, True, ctypes.byref(self.position)):
            sys.exit("mtmd_helper_eval_chunks failed")
        llama_cpp.llama_sampler_sample(self.sampler, self.context, -1)
        tokens = mtmd.mtmd_helper_get_n_tokens(chunks)
        mtmd.mtmd_input_chunks_free(chunks)
        for bitmap in bitmaps:
            mtmd.mtmd_bitmap_free(bitmap)
        return tokens

    def turn(self, text, path=None):
        """Returns the seconds until a token is sampled, and the tokens of the prompt."""
        png = None
        if path is not None:
            llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
            self.position = llama_cpp.llama_pos(0)
            with open(path, "rb") as file:
                png = file.read()
        before = "<end_of_turn>\n" if path is None else "<bos>"
        marker = "" if path is None else mtmd.mtmd_default_marker().decode()
        prompt = f"{before}<start_of_turn>user\n{marker}{text}<end_of_turn>\n<start_of_turn>model\n"
        begin = time.perf_counter()
        tokens = self.feed(prompt, png)
        return {"seconds": time.perf_counter() - begin, "tokens": tokens}


def main():
    peer = Peer(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(peer.turn(asked["text"], asked.get("png")) if asked else {}), flush=True)


main()
