"""How the learning rate changes during a run: a public function of how much of the run is done.

>>> from discreet.learning.schedule import Schedule
>>> fall = Schedule("cosine", warmup="0.1")
>>> [round(fall.at(done), 3) for done in (0.0, 0.05, 0.1, 0.55, 1.0)]
[0.0, 0.5, 1.0, 0.5, 0.0]
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from discreet.errors import InvalidParameter
from discreet.exact import Number, rational

Form = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A share of the learning rate for each moment of the run.

    Over the first `warmup` of the run it rises from 0 to 1; then it stays at 1 ("constant"), or falls to `last` along
    a line or half a cosine (Loshchilov, Hutter 2017, "SGDR").

    >>> Schedule("linear", last="0.1").at(0.5)
    0.55
    """

    form: Form = "constant"
    warmup: float = 0.0
    last: float = 0.0

    def __init__(self, form: Form = "constant", *, warmup: Number = 0, last: Number = 0) -> None:
        if form not in get_args(Form):
            raise InvalidParameter("form", form, f"one of {', '.join(get_args(Form))}")
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "warmup", float(rational(warmup, "warmup", at_least=0, below=1)))
        object.__setattr__(self, "last", float(rational(last, "last", at_least=0, at_most=1)))

    def at(self, done: float) -> float:
        """The share where `done` of the run, between 0 and 1, is behind us."""
        if done < self.warmup:
            return done / self.warmup
        gone = (done - self.warmup) / (1 - self.warmup)
        match self.form:
            case "constant":
                return 1.0
            case "linear":
                return 1 + (self.last - 1) * gone
            case "cosine":
                return self.last + (1 - self.last) * (1 + math.cos(math.pi * gone)) / 2
