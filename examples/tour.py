"""A tour of what is built so far: exact noise, mechanisms, "is it private?", accounting, a budget that holds.

Run it with `make demo`. It writes one picture to demo-out/.
"""

import time
from pathlib import Path

import numpy as np

from discreet import noise
from discreet.errors import BudgetExceeded
from discreet.mechanisms import KRR, Gaussian, Geometric, Laplace, RandomizedResponse
from discreet.mechanisms.channel import constant, deterministic, identity
from discreet.privacy import Budget, GaussianNoise, Pure, Repeated, SampledGaussian, Spent, guarantee


def exact_noise() -> None:
    print("1. Exact noise at array speed")
    for name, draw in (("discrete Laplace", noise.discrete_laplace), ("discrete Gaussian", noise.discrete_gaussian)):
        draw(100, size=1)
        start = time.perf_counter()
        draws = np.asarray(draw(100, size=1_000_000))
        print(f"   a million {name} draws: {time.perf_counter() - start:.3f} s, deviation {draws.std():.1f}")


def release() -> None:
    print("\n2. Release a count with its error bar")
    count = Geometric(epsilon="0.5", sensitivity=1)
    print(f"   true 1234, released {count.release(1234)} ± {count.interval('0.95')} (95 %), cost {count.loss}")


def is_it_private() -> None:
    print("\n3. Is it private? The average height of a class, 50 to 250 cm")
    heights = range(50, 251)
    for name, channel in (
        ("tell the truth", identity(heights)),
        ("always say 150", constant(heights, 150)),
        ("100 if below 150, else 200", deterministic(lambda h: 100 if h < 150 else 200, heights)),
        ("truth with e^½/(200 + e^½)", KRR(epsilon="0.5", size=201).channel()),
    ):
        print(f"   {name:<28} ε = {channel.epsilon('line')}")
    coins = RandomizedResponse.from_coins(heads="1/2")
    print(f"   {f'two coins, truth {coins.truth}':<28} ε = {coins.channel().epsilon('all'):.6f} = ln 3")


def accounting() -> None:
    print("\n4. What do many releases cost together?")
    for name, loss, delta in (
        ("1000 Gaussian releases, σ = 20", Repeated(GaussianNoise(20), 1000), "1e-6"),
        ("10,000 steps of DP-SGD, rate 1 %, σ = 4", Repeated(SampledGaussian("0.01", 4), 10_000), "1e-5"),
    ):
        found = guarantee(loss, delta=delta)
        print(f"   {name:<42} ε = {found.epsilon:.4f} at δ = {delta} (by {found.by})")
    sigma = Gaussian.for_guarantee(epsilon=1, delta="1e-6", sensitivity=1).sigma
    print(f"   least Gaussian noise for ε = 1, δ = 1e-6: σ = {float(sigma):.4f}")


def budget() -> None:
    print("\n5. A budget that holds against adaptive analysts")
    limit, spent, asked = Budget(epsilon=1, delta="1e-6"), Spent(), 0
    try:
        while True:
            spent = limit.charge(spent, Pure("0.05"))
            asked += 1
    except BudgetExceeded as refusal:
        print(
            f"   {asked} questions at ε = 0.05 were answered (their plain sum is {float(spent.epsilon or 0):g}); then:"
        )
        print(f"   {refusal}")


def picture(folder: Path) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        return
    mpl.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(exist_ok=True)
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for epsilon in ("0.5", "1", "2"):
        mechanism = Laplace(epsilon=epsilon, sensitivity=1, granularity="0.01")
        steps = range(-500, 501)
        axes.plot([k / 100 for k in steps], [mechanism.probability(k) * 100 for k in steps], label=f"ε = {epsilon}")
    axes.set(xlabel="noise", ylabel="density", title="Laplace noise, sensitivity 1")
    axes.legend()
    figure.savefig(folder / "laplace.png", dpi=150)
    print(f"\nWrote {folder / 'laplace.png'}")


if __name__ == "__main__":
    exact_noise()
    release()
    is_it_private()
    accounting()
    budget()
    picture(Path("demo-out"))
