"""Three cases of fairness, from data: recidivism (COMPAS), income (Adult), and a generated bank that lends by income.

    python examples/fairness.py --data ../shared/data --out demo-out

Writes a page for each, and prints what they show. Without the data, only the bank.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from discreet.fairness import FairnessReport, fairness_report
from discreet.fairness.tradeoff import generated_loans, tradeoff

HIGH_RISK = ("Medium", "High")


def main() -> None:
    args = arguments()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    bank(out)
    if (args.data / "compas.csv").exists():
        print_compas(compas(args.data / "compas.csv"), out)
    if (args.data / "adult").exists():
        print_adult(args.data / "adult", out)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fairness from data.")
    here = os.environ.get("DISCREET_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(here), help="the folder with compas.csv and adult/")
    parser.add_argument("--out", default="demo-out", help="the folder of the pages")
    return parser.parse_args()


# The bank


def bank(out: Path) -> None:
    """Lending by income is the same for equals, and unequal between groups; equal shares cost accuracy (F2, F5)."""
    loans = generated_loans()
    report = fairness_report(loans, label="repays", prediction="granted", group="group", given="income")
    view = report.views[0]
    print("A bank that lends by income:")
    print(f"  share of loans, gap between groups       {view.gap('statistical parity').difference}")
    print(f"  the same among people of equal income    {view.gap('conditional parity').difference}")
    curve = tradeoff(loans["score"], loans["repays"], loans["group"])
    print(f"  accuracy without constraint              {curve.unconstrained:.4f}")
    for name in curve.curves:
        print(f"  accuracy that a gap of 0 costs           {curve.cost(name):.4f}   {name}")
    report.page("A bank that lends by income").save(out / "fairness-loan.html")
    curve.page("A bank: what fairness costs").save(out / "fairness-loan-cost.html")


# Recidivism


def compas(path: Path) -> FairnessReport:
    """High risk is a score of medium or high; the outcome is an arrest within two years."""
    return fairness_report(
        path,
        label="two_year_recid",
        prediction="score_text",
        positive=HIGH_RISK,
        group=["race", "sex"],
        given="c_charge_degree",
        score="decile_score",
    )


def print_compas(report: FairnessReport, out: Path) -> None:
    view = report.view("race")
    print("\nRecidivism: labeled high risk, of those who were not arrested again (false positive rate):")
    for name in view.groups:
        found = view.rate("false positive rate", name)
        print(f"  {name:<18} {found}   of {view.tries['false positive rate'][view.groups.index(name)]:,}")
    black, white = (view.rate("false positive rate", name).value for name in ("African-American", "Caucasian"))
    print(f"  African-American over Caucasian: {black / white:.2f}")
    for sentence in view.small:
        print(f"  {sentence}")
    report.page("Recidivism: COMPAS").save(out / "fairness-compas.html")


# Income


def print_adult(folder: Path, out: Path) -> None:
    """A logistic model of income, by sex and race; and what closing its gaps costs."""
    table, score = adult(folder)
    report = fairness_report(table, label="income", score="score", threshold="0.5", group=["sex", "race"])
    view = report.view("sex")
    print("\nIncome: a logistic model that does not see sex or race:")
    for name in ("statistical parity", "equalized odds", "predictive parity"):
        print(f"  {name:<20} {view.gap(name).difference}")
    curve = tradeoff(score, table["income"], table["sex"])
    print(f"  accuracy {curve.unconstrained:.4f}; a gap of 0 costs", end=" ")
    print(", ".join(f"{curve.cost(name):.4f} ({name})" for name in curve.curves))
    report.page("Income: Adult").save(out / "fairness-adult.html")
    curve.page("Income: what fairness costs").save(out / "fairness-adult-cost.html")


def adult(folder: Path) -> tuple[dict[str, Any], Any]:
    """The test rows with the scores of a model fitted to the training rows (scikit-learn)."""
    from pyarrow import parquet
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    train, test = (parquet.read_table(folder / f"adult_{part}.parquet") for part in ("train", "test"))
    jobs = sorted(set(train["occupation"].drop_null().to_pylist()))
    scale = StandardScaler().fit(features(train, jobs))
    model = LogisticRegression(max_iter=500).fit(scale.transform(features(train, jobs)), train["income"].to_numpy())
    score = model.predict_proba(scale.transform(features(test, jobs)))[:, 1]
    columns = {name: np.array(test[name].to_pylist()) for name in ("income", "sex", "race")}
    return {**columns, "score": score}, score


def features(table: Any, jobs: list[str]) -> Any:
    numbers = ("age", "education-num", "hours-per-week", "capital-gain", "capital-loss")
    columns = [table[name].to_numpy().astype(float) for name in numbers]
    occupation = np.array([job or "" for job in table["occupation"].to_pylist()])
    return np.stack([*columns, *((occupation == job).astype(float) for job in jobs)], axis=1)


if __name__ == "__main__":
    main()
