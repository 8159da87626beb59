#!/usr/bin/env python3
"""One case of library_suite.py, in a process of its own: `library_cases.py CASE WAY`.

Each case is a short program as users of a library write it, with weights and data from a seed. It returns what is
compared with the other ways. The last line of the output is JSON.
"""

import hashlib
import inspect
import json
import random
import sys
import tempfile

GIB = 1 << 30
MIB = 1 << 20


def llama(torch):
    """Returns a small language model with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=4096, hidden_size=512, intermediate_size=1408, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=8, max_position_embeddings=2048, attn_implementation="eager"))


def parameters_sum(net):
    """Returns the sum of all parameters."""
    return sum(p.detach().double().sum().item() for p in net.parameters())


def trainer():
    """transformers.Trainer on texts of random length, with checkpointing, workers, saved states and memory metrics."""
    import torch
    from transformers import Trainer, TrainingArguments

    pick = random.Random(3)
    rows = [{"input_ids": [pick.randrange(4096) for _ in range(pick.randint(64, 1024))]} for _ in range(240)]

    def collate(batch):
        width = max(len(row["input_ids"]) for row in batch)
        ids = torch.tensor([row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in batch])
        mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in batch])
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}

    with tempfile.TemporaryDirectory() as folder:
        options = {"output_dir": folder, "per_device_train_batch_size": 8, "max_steps": 30, "logging_steps": 10,
                   "save_steps": 15, "save_total_limit": 1, "report_to": [], "bf16": True,
                   "gradient_checkpointing": True, "dataloader_num_workers": 2, "seed": 1, "disable_tqdm": True,
                   "remove_unused_columns": False, "torch_empty_cache_steps": 5, "skip_memory_metrics": False}
        known = inspect.signature(TrainingArguments).parameters
        net = llama(torch)
        job = Trainer(model=net, args=TrainingArguments(**{k: v for k, v in options.items() if k in known}),
                      train_dataset=rows, data_collator=collate)
        loss = job.train().training_loss
    return [loss, parameters_sum(net)]


def generate():
    """Generation with a growing cache: greedy and with beams, prompts of several lengths side by side."""
    import torch

    net = llama(torch).to("cuda", torch.bfloat16).eval()
    pick, tokens = random.Random(4), hashlib.sha1()
    for beams in (1, 3, 1, 3):
        lengths = [pick.randint(16, 512) for _ in range(6)]
        width = max(lengths)
        ids, mask = torch.zeros(6, width, dtype=torch.long), torch.zeros(6, width, dtype=torch.long)
        for row, length in enumerate(lengths):
            ids[row, width - length:] = torch.tensor([pick.randrange(3, 4096) for _ in range(length)])
            mask[row, width - length:] = 1
        out = net.generate(ids.cuda(), attention_mask=mask.cuda(), max_new_tokens=48, do_sample=False,
                           num_beams=beams, pad_token_id=0)
        tokens.update(out.cpu().numpy().tobytes())
    return tokens.hexdigest()[:16]


def lightning():
    """A Lightning module with workers, mixed precision, a checkpoint, and the monitor of device memory."""
    import pytorch_lightning as pl
    import torch
    from pytorch_lightning.callbacks import DeviceStatsMonitor
    from pytorch_lightning.loggers import CSVLogger
    from torch import nn

    class Net(pl.LightningModule):
        """A perceptron."""

        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(256, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(),
                                        nn.Linear(2048, 10))

        def training_step(self, batch, _index):
            """Returns the loss."""
            loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            """Returns the optimizer."""
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    pl.seed_everything(1)
    rows = torch.utils.data.TensorDataset(torch.randn(4096, 256), torch.randint(0, 10, (4096,)))
    loader = torch.utils.data.DataLoader(rows, batch_size=64, num_workers=2, pin_memory=True)
    net = Net()
    with tempfile.TemporaryDirectory() as folder:
        pl.Trainer(accelerator="gpu", devices=1, max_epochs=1, precision="bf16-mixed", logger=CSVLogger(folder),
                   callbacks=[DeviceStatsMonitor()], enable_progress_bar=False, enable_model_summary=False,
                   log_every_n_steps=10, default_root_dir=folder).fit(net, loader)
    return parameters_sum(net)


def resnet():
    """ResNet-50 on images of random sizes, in half precision and channels-last, with a gradient scaler."""
    import torch
    from torchvision.models import resnet50

    torch.manual_seed(1)
    net = resnet50(weights=None, num_classes=10).cuda().to(memory_format=torch.channels_last)
    optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), torch.amp.GradScaler("cuda")
    data, pick, losses = torch.Generator().manual_seed(2), random.Random(2), []
    for _ in range(25):
        count, height, width = pick.randint(4, 24), pick.randrange(96, 320, 8), pick.randrange(96, 320, 8)
        x = torch.rand(count, 3, height, width, generator=data).cuda().to(memory_format=torch.channels_last)
        y = torch.randint(0, 10, (count,), generator=data).cuda()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses[-3:]


def detection():
    """Faster R-CNN: the number of boxes, and with it most sizes, differs from step to step."""
    import torch
    from torchvision.models.detection import fasterrcnn_resnet50_fpn

    torch.manual_seed(1)
    net = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5, min_size=256, max_size=512)
    net = net.cuda().train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-5)
    data, pick, losses = torch.Generator().manual_seed(2), random.Random(2), []
    for _ in range(12):
        images, targets = [], []
        for _ in range(4):
            height, width, count = pick.randint(200, 500), pick.randint(200, 500), pick.randint(1, 20)
            images.append(torch.rand(3, height, width, generator=data).cuda())
            corners = torch.rand(count, 2, generator=data) * 100
            boxes = torch.cat([corners, corners + 10 + torch.rand(count, 2, generator=data) * 80], 1)
            targets.append({"boxes": boxes.cuda(), "labels": torch.randint(1, 5, (count,), generator=data).cuda()})
        loss = sum(net(images, targets).values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        net([torch.rand(3, 300, 400, generator=data).cuda()])
    return losses[:1]


def geometric():
    """A graph network on batches of random graphs."""
    import torch
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GCN, global_mean_pool

    torch.manual_seed(1)
    net = GCN(64, 256, num_layers=4, out_channels=8).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    pick, losses = random.Random(2), []
    for _ in range(40):
        graphs = []
        for _ in range(pick.randint(4, 64)):
            nodes = pick.randint(10, 2000)
            graphs.append(Data(x=torch.randn(nodes, 64), edge_index=torch.randint(0, nodes, (2, 4 * nodes))))
        batch = Batch.from_data_list(graphs).to("cuda")
        guess = global_mean_pool(net(batch.x, batch.edge_index), batch.batch)
        loss = guess.square().mean() + (guess.mean() - 1).square()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses[:3]


def gaussian_process():
    """An exact Gaussian process of GPyTorch: matrices of its data, and Cholesky factors by cuSOLVER."""
    import gpytorch
    import torch

    class Process(gpytorch.models.ExactGP):
        """Constant mean, squared exponential kernel."""

        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            """Returns the prior."""
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    torch.manual_seed(1)
    x = torch.rand(3000, 4).cuda()
    y = torch.sin(x.sum(1) * 6)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda()
    net = Process(x, y, likelihood).cuda()
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=0.1), []
    measure = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, net)
    with gpytorch.settings.fast_computations(False, False, False):
        for _ in range(10):
            optimizer.zero_grad()
            loss = -measure(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def batch_size():
    """Accelerate halves a batch until it fits: it knows an out-of-memory error by its words."""
    import torch
    from accelerate.utils import find_executable_batch_size

    torch.cuda.set_per_process_memory_fraction(0.05)
    tried = []

    @find_executable_batch_size(starting_batch_size=300)
    def work(size):
        tried.append(size)
        return torch.ones(size * GIB, dtype=torch.uint8, device="cuda")[-1].item()

    return [work(), *tried]


def numpyro():
    """A Markov chain of NumPyro, on JAX."""
    import jax
    import jax.numpy as jnp
    import numpyro as library
    from numpyro import distributions
    from numpyro.infer import MCMC, NUTS

    def regression(x, y):
        weights = library.sample("w", distributions.Normal(jnp.zeros(x.shape[1]), 1).to_event(1))
        library.sample("y", distributions.Bernoulli(logits=x @ weights), obs=y)

    x = jax.random.normal(jax.random.PRNGKey(1), (2000, 10))
    y = (x.sum(1) > 0).astype(jnp.int32)
    chain = MCMC(NUTS(regression), num_warmup=50, num_samples=50, progress_bar=False)
    chain.run(jax.random.PRNGKey(2), x, y)
    return [float(chain.get_samples()["w"].mean())]


CASES = {case.__name__: case for case in (
    trainer, generate, lightning, resnet, detection, geometric, gaussian_process, batch_size, numpyro)}


def main():
    """Runs the case."""
    case, way = sys.argv[1:]
    if case == "numpyro":
        print(json.dumps({"result": numpyro(), "live_mib": 0, "held_mib": 0}), flush=True)
        return
    import torch

    if way == "use":
        import acre.torch

        acre.torch.use()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    result = CASES[case]()
    print(json.dumps({"result": result, "live_mib": torch.cuda.max_memory_allocated() // MIB,
                      "held_mib": torch.cuda.max_memory_reserved() // MIB}), flush=True)


if __name__ == "__main__":
    main()
