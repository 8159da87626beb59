#!/usr/bin/env python3
"""Generates text with a key-value cache that grows by one token in every step.

Several sequences are generated side by side. Each has one tensor of keys and one of values for each layer, which
every step replaces by one that is a token longer (torch.cat). A sequence that is done is replaced by one with
another prompt. With the defaults the caches and the weights have about 10 GiB.

    kv.py [--allocator native|expandable|acre] [--steps N] [--tokens N]

Prints one line: live_peak_mib, the tensors; held_peak_mib, what the allocator held; device_peak_mib, what the
GPU had in use; step_median_ms, of steps without a new prompt; checksum, of all steps: it is the same with every
allocator.
"""

import random
import sys

import measure

LAYERS, HEADS, HEAD = 16, 8, 128
WIDTH = HEADS * HEAD
VOCABULARY = 32_000
SEQUENCES = 12


def make(torch, device, dtype):
    """Returns the weights: an embedding, and four matrices for each layer."""
    def matrix(rows, columns):
        return (torch.randn(rows, columns, device=device) * rows**-0.5).to(dtype)

    layers = [{"qkv": matrix(WIDTH, 3 * WIDTH), "out": matrix(WIDTH, WIDTH), "up": matrix(WIDTH, 4 * WIDTH),
               "down": matrix(4 * WIDTH, WIDTH)} for _ in range(LAYERS)]
    return {"embedding": matrix(VOCABULARY, WIDTH), "layers": layers}


class Sequence:
    """One sequence: its cache, the next token, and the steps that are left."""

    def __init__(self, torch, weights, prompt, steps):
        self.torch = torch
        self.weights = weights
        self.cache = [None] * LAYERS
        self.left = steps
        self.token = self.advance(prompt)

    def advance(self, tokens):
        """Runs the model on new tokens, extends the cache, and returns the most likely next token."""
        torch, function = self.torch, self.torch.nn.functional
        x = self.weights["embedding"][tokens]
        for i, layer in enumerate(self.weights["layers"]):
            y = function.layer_norm(x, (WIDTH,)) @ layer["qkv"]
            q, k, v = y.view(1, -1, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
            if self.cache[i] is None:
                k, v = k.contiguous(), v.contiguous()
            else:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = (k, v)
            y = function.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
            x = x + y.transpose(1, 2).reshape(-1, WIDTH) @ layer["out"]
            x = x + function.gelu(function.layer_norm(x, (WIDTH,)) @ layer["up"]) @ layer["down"]
        logits = function.layer_norm(x[-1:], (WIDTH,)) @ self.weights["embedding"].T
        self.score = logits.float().amax()
        return logits.argmax(-1)

    def step(self):
        """Generates one token."""
        self.left -= 1
        self.token = self.advance(self.token)


def warm(torch, device):
    """Attention and products of the same kinds, on a few values."""
    # cuDNN's attention plans again for each length, which takes longer than the steps.
    torch.backends.cuda.enable_cudnn_sdp(False)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    x = torch.ones(1, HEADS, 64, HEAD, device=device, dtype=dtype)
    function = torch.nn.functional
    with torch.inference_mode():
        for q in (x, x[:, :, :1]):
            y = function.scaled_dot_product_attention(q, x, x, is_causal=q.shape[2] > 1)
            y = function.gelu(function.layer_norm(y.reshape(-1, WIDTH), (WIDTH,)) @ y.reshape(-1, WIDTH).T)
            y.float().amax().item()


def main():
    """Generates."""
    parser = measure.arguments(__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=12_000, help="mean length of a prompt (default: 12000)")
    args = parser.parse_args()
    device = measure.begin(args, warm)
    torch = measure.torch
    pick = random.Random(args.seed)
    data = torch.Generator().manual_seed(args.seed)
    weights = make(torch, device, torch.float32 if args.cpu else torch.bfloat16)

    def fresh():
        length = pick.randint(args.tokens // 2, args.tokens * 3 // 2)
        prompt = torch.randint(0, VOCABULARY, (length,), generator=data).to(device)
        return Sequence(torch, weights, prompt, pick.randint(40, 200))

    with torch.inference_mode():
        meter = measure.Meter(device)
        running = [fresh() for _ in range(SEQUENCES)]
        for _ in range(args.steps):
            meter.step()
            is_plain = True
            for i, sequence in enumerate(running):
                if sequence.left == 0:
                    running[i] = sequence = None  # its memory is free before the next prompt
                    running[i] = fresh()
                    is_plain = False
                else:
                    sequence.step()
            meter.step_end(sum(sequence.score for sequence in running).item(), counts=is_plain)
    meter.report("kv", args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
