"""What ε does to each group: private logistic models of income at several ε, several times each.

    python examples/fairness_private.py --data ../shared/data --out demo-out

Each model is trained on Adult's training rows by `discreet.learning`; rates are those of the test rows, by sex or race.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from discreet.fairness.tradeoff import Effect, effect

NUMBERS = {"age": (17, 90), "education-num": (1, 16), "hours-per-week": (1, 99), "capital-gain": (0, 100_000)}
EPSILONS = ("0.02", "0.1", "0.5", "2", "10")


def main() -> None:
    args = arguments()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    train, test = (rows(args.data / "adult" / f"adult_{part}.parquet") for part in ("train", "test"))
    found = trained(train, test, args.by, args.rate, args.times)
    print(f"{found.name} on the test rows, by {args.by}; mean of {args.times} trainings for each ε")
    print("ε        " + "  ".join(f"{name} ({size:,})" for name, size in zip(found.groups, found.sizes, strict=True)))
    for k, epsilon in enumerate(found.epsilons):
        told = "  ".join(f"{found.rates[name][k].value:>12.3f} ± {_half(found, name, k):.3f}" for name in found.groups)
        print(f"{'none' if epsilon is None else float(epsilon)!s:<8} {told}   gap {found.gaps[k]}")
    print(f"wrote {found.page().save(out / 'fairness-private.html')}")


def _half(found: Effect, name: str, k: int) -> float:
    """Half the distance between the best and the worst training."""
    least, most = found.runs[name][k]
    return (most - least) / 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fairness of private models.")
    here = os.environ.get("DISCREET_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(here), help="the folder with adult/")
    parser.add_argument("--by", default="sex", help="the sensitive attribute: sex or race")
    parser.add_argument("--rate", default="true positive rate", help="accuracy, true positive rate, selection rate, …")
    parser.add_argument("--times", type=int, default=3, help="how many trainings for each ε")
    parser.add_argument("--out", default="demo-out", help="the folder of the page")
    return parser.parse_args()


def rows(path: Path) -> dict[str, Any]:
    """Features, income, sex and race of one file."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    married = np.array([status == "Married-civ-spouse" for status in table["marital-status"].to_pylist()], float)
    columns = [table[name].to_numpy().astype(float) for name in NUMBERS]
    named = {name: np.array(table[name].to_pylist()) for name in ("income", "sex", "race")}
    return {"x": np.stack([*columns, married], axis=1), **named}


def trained(train: dict[str, Any], test: dict[str, Any], by: str, rate: str, times: int) -> Effect:
    """Predictions of `times` models for each ε on the same test rows, and of one without privacy."""
    from sklearn.linear_model import LogisticRegression as Plain
    from sklearn.preprocessing import StandardScaler

    from discreet.learning import LogisticRegression

    bounds = [*NUMBERS.values(), (0, 1)]
    outcomes: dict[Any, Any] = {}
    for epsilon in EPSILONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [
                LogisticRegression(epsilon=epsilon, delta=0, bounds=bounds, classes=[0, 1]).fit(
                    train["x"], train["income"]
                )
                for _ in range(times)
            ]
        outcomes[epsilon] = [(test["income"], model.predict(test["x"]), test[by]) for model in models]
    scale = StandardScaler().fit(train["x"])
    plain = Plain(max_iter=500).fit(scale.transform(train["x"]), train["income"])
    outcomes[None] = (test["income"], plain.predict(scale.transform(test["x"])), test[by])
    return effect(outcomes, rate=rate)


if __name__ == "__main__":
    main()
