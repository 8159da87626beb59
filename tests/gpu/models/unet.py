#!/usr/bin/env python3
"""Trains a U-Net on images whose size changes in every step.

Each step has another height and width, and as many images as fit into --pixels. So no two steps ask for the
same sizes, which fragments an allocator that keeps blocks of the sizes it has seen. Much of the memory is
the workspace of convolutions.

    unet.py [--allocator native|expandable|acre] [--steps N] [--pixels N]

Prints one line: live_peak_mib, the tensors; held_peak_mib, what the allocator held; device_peak_mib, what the
GPU had in use; step_median_ms; checksum, of all losses: it is the same with every allocator.
"""

import random
import sys

import measure

CHANNELS = (64, 128, 256, 512, 1024)
GRAIN = 1 << (len(CHANNELS) - 1)  # sizes must be divisible by this


def make(torch, channels=CHANNELS):
    """Returns the network."""
    nn = torch.nn

    def double(before, after):
        layers = []
        for width in (before, after):
            layers += [nn.Conv2d(width, after, 3, padding=1), nn.GroupNorm(8, after), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        """Encoder, decoder, and connections between levels of the same size."""

        def __init__(self):
            super().__init__()
            pairs = list(zip(channels[:-1], channels[1:]))
            self.first = double(3, channels[0])
            self.down = nn.ModuleList(double(before, after) for before, after in pairs)
            self.up = nn.ModuleList(nn.ConvTranspose2d(after, before, 2, stride=2) for before, after in pairs)
            self.join = nn.ModuleList(double(2 * before, before) for before, _ in pairs)
            self.last = nn.Conv2d(channels[0], 2, 1)

        def forward(self, x):
            """Returns two values for each pixel."""
            x = self.first(x)
            levels = []
            for down in self.down:
                levels.append(x)
                x = down(nn.functional.avg_pool2d(x, 2))
            for up, join in zip(reversed(self.up), reversed(self.join)):
                x = join(torch.cat([levels.pop(), up(x)], 1))
            return self.last(x)

    return UNet()


def sizes(args):
    """Yields the number of images, their height and width for each step."""
    pick = random.Random(args.seed)
    least, most = (32, 96) if args.cpu else (128, 576)
    for _ in range(args.steps):
        height, width = (pick.randrange(least, most + 1, GRAIN) for _ in range(2))
        yield max(1, args.pixels // (height * width)), height, width


def train(torch, net, optimizer, images):
    """One step. Returns the loss."""
    wanted = (images.mean(1) > 0.5).float()
    guess = net(images)
    # Cross entropy of two classes, written so that its backward has a deterministic kernel for images.
    loss = torch.nn.functional.binary_cross_entropy_with_logits(guess[:, 1] - guess[:, 0], wanted)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def warm(torch, device):
    """A step of a tiny network."""
    net = make(torch, (8, 16)).to(device)
    train(torch, net, torch.optim.AdamW(net.parameters()), torch.rand(1, 3, 2 * GRAIN, 2 * GRAIN, device=device))


def main():
    """Trains."""
    parser = measure.arguments(__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pixels", type=int, default=330_000, help="of one step, in all images (default: 330000)")
    args = parser.parse_args()
    device = measure.begin(args, warm)
    torch = measure.torch
    net = make(torch).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    data = torch.Generator().manual_seed(args.seed)
    meter = measure.Meter(device)
    for count, height, width in sizes(args):
        images = torch.rand(count, 3, height, width, generator=data).to(device)
        meter.step()
        meter.step_end(train(torch, net, optimizer, images).item())
        del images
    meter.report("unet", args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
