"""A coordinator that dies goes on with the run, or says why it cannot; clients pay out of budgets of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.learning.federated.in_process import DATA, NAMES, NETWORK, SECURE, changed, plan, same, trained

from discreet.curator.ledger import Ledger
from discreet.curator.stores.memory import MemoryStore
from discreet.curator.stores.sqlite import SqliteStore
from discreet.errors import BudgetExceeded, InvalidData, LedgerConflict, LedgerUnavailable, ReleaseFailed
from discreet.learning.federated import Account, InProcessClients, Member, Secure, rounds, run
from discreet.learning.federated.exchange import OTHER_RUN, UNPAID, Declined, decode_answer
from discreet.learning.federated.member import seeded_identity
from discreet.learning.federated.rounds import STOPPED, StateFile
from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.recipe import Adam, Adaptive
from discreet.noise import DeterministicEntropy
from discreet.privacy.budget import Budget

KINDS = [plan(rounds=4), plan(rounds=4, secure=SECURE, rate="1/2"),
         plan(rounds=4, level="example", examples=100, rate="1/2", adaptive=Adaptive(), optimizer=Adam("0.1"))]  # fmt: skip
IDS = ["trusted", "secure", "examples"]


class Died(BaseException):
    """The coordinator is gone."""


class Mortal:
    """A fleet whose coordinator dies at the n-th asking: before clients have heard of it, or after they answered."""

    def __init__(self, fleet, at=-1, after=False):
        self._fleet, self.keys, self._at, self._after, self.asked = fleet, fleet.keys, at, after, 0

    def ask(self, orders):
        self.asked += 1
        if self.asked == self._at and not self._after:
            raise Died
        found = self._fleet.ask(orders)
        if self.asked == self._at:
            raise Died
        return found


def conducted(kind, fleet, path, entropy=None, **settings):
    return run(kind, NETWORK, fleet, checkpoint=path, entropy=entropy or DeterministicEntropy(3), **settings)


# A coordinator that dies


@pytest.mark.parametrize("after", [False, True], ids=["unheard", "answered"])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_coordinator_that_died_goes_on_with_the_next_round(tmp_path, kind, after):
    """The round that was open is reported as abandoned; nobody is asked for it again, all others have a sum."""
    phases = 5 if kind.secure else 1
    for at in sorted({1, phases, 2 * phases, 4 * phases}):
        fleet = InProcessClients(kind, NETWORK, DATA, seed=7)
        entropy, path, lost = DeterministicEntropy(3), tmp_path / f"run {at}", (at - 1) // phases
        with pytest.raises(Died):
            conducted(kind, Mortal(fleet, at, after), path, entropy)
        outcome = conducted(kind, fleet, path, entropy)
        assert [report.number for report in outcome.reports] == [0, 1, 2, 3]
        assert outcome.abandoned == (lost,)
        assert outcome.reports[lost].abandoned == STOPPED
        assert all(report.arrived == NAMES for report in outcome.reports if report.number != lost)
        assert outcome.loss == kind.loss


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_between_two_rounds_nothing_is_lost(tmp_path, kind):
    """Killed after each round has been shown, in turn, it ends with the model of a run that was never killed."""
    fleet, shown = InProcessClients(kind, NETWORK, DATA, seed=7), []
    entropy = DeterministicEntropy(3)

    def stop(report, model):
        shown.append((report, model))
        raise Died

    for _ in range(kind.rounds):
        with pytest.raises(Died):
            conducted(kind, fleet, tmp_path / "run", entropy, each=stop)
    outcome = conducted(kind, fleet, tmp_path / "run", entropy)
    whole = run(kind, NETWORK, InProcessClients(kind, NETWORK, DATA, seed=7), entropy=DeterministicEntropy(3))
    assert [report.number for report, _ in shown] == [0, 1, 2, 3]
    assert same(outcome, whole)
    assert outcome.reports == whole.reports == tuple(report for report, _ in shown)
    assert outcome.curve == whole.curve


def test_a_finished_run_asks_nobody(tmp_path):
    kind = plan()
    fleet = Mortal(InProcessClients(kind, NETWORK, DATA, seed=7))
    first = conducted(kind, fleet, tmp_path / "run")
    asked = fleet.asked
    assert same(conducted(kind, fleet, tmp_path / "run"), first)
    assert fleet.asked == asked


@pytest.mark.parametrize("kind", KINDS[:2], ids=IDS[:2])
def test_a_new_run_fails_in_words_and_at_once(kind):
    """Members decline it; every round was abandoned, and a model came back all the same."""
    fleet = Mortal(InProcessClients(kind, NETWORK, DATA, seed=7), at=2)
    with pytest.raises(Died):
        run(kind, NETWORK, fleet)
    with pytest.raises(ReleaseFailed, match="5 of 5 clients decline this run.*takes part in another run.*checkpoint"):
        run(kind, NETWORK, fleet)
    assert fleet.asked <= 2 + 5


def test_a_run_goes_on_while_enough_members_take_part():
    """Two of five are in another run: three are enough."""
    kind = plan(secure=SECURE)
    fleet = InProcessClients(kind, NETWORK, DATA, seed=7)
    for name in ("ann", "bob"):
        fleet.members[name]._run = b"another run, yes"
    outcome = run(kind, NETWORK, fleet)
    assert [report.arrived for report in outcome.reports] == [("cid", "dan", "eve")] * 3
    assert {drop.reason for report in outcome.reports for drop in report.dropped} == {OTHER_RUN}


@pytest.mark.parametrize("secure", [None, SECURE], ids=IDS[:2])
def test_without_anybodys_update_there_is_no_outcome(secure):
    with pytest.raises(ReleaseFailed, match="none of the 3 rounds has anybody's update, so there is no model"):
        changed(plan(secure=secure), lambda arrival, at: [])


def test_chance_may_choose_nobody_and_that_is_no_failure():
    """Nobody was asked: to fail would tell how the coins fell."""
    kind = plan(rate="1/1000", rounds=1)
    assert trained(kind, seed=7).reports[0].asked == ()


def test_a_round_that_was_opened_is_on_disk_before_anybody_hears_of_it(tmp_path):
    kind, seen = plan(secure=SECURE), []

    class Watching(Mortal):
        def ask(self, orders):
            seen.append((tmp_path / "run").read_bytes())
            return super().ask(orders)

    conducted(kind, Watching(InProcessClients(kind, NETWORK, DATA, seed=7)), tmp_path / "run")
    opened = [int(data.split(b'"opened": ')[1].split(b",")[0]) for data in seen]
    assert opened == [1] * 5 + [2] * 5 + [3] * 5


def test_a_disk_that_is_full_stops_a_run_before_it_begins(tmp_path, monkeypatch):
    kind = plan()
    fleet = Mortal(InProcessClients(kind, NETWORK, DATA, seed=7))

    def full(self, state):
        raise LedgerUnavailable("the disk is full")

    monkeypatch.setattr(StateFile, "write", full)
    with pytest.raises(LedgerUnavailable):
        conducted(kind, fleet, tmp_path / "run")
    assert fleet.asked == 0


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        (plan(multiplier=2), NETWORK),
        (plan(rounds=4), NETWORK),
        (plan(), Network([Dense(3), Dense(2)], Softmax(), inputs=(3,))),
    ],
    ids=["noise", "rounds", "network"],
)
def test_the_file_of_another_federation_is_refused(tmp_path, kind, network):
    conducted(plan(), InProcessClients(plan(), NETWORK, DATA, seed=7), tmp_path / "run")
    with pytest.raises(InvalidData, match="another federation, network or list of clients"):
        run(kind, network, InProcessClients(kind, network, DATA, seed=7), checkpoint=tmp_path / "run")
    other = InProcessClients(plan(), NETWORK, DATA, seed=8)  # the same names, other people
    with pytest.raises(InvalidData, match="list of clients"):
        conducted(plan(), other, tmp_path / "run")


@pytest.mark.parametrize("part", [0, 1, 2])
def test_damaged_files_are_refused(tmp_path, part):
    path = tmp_path / "run"
    conducted(plan(), InProcessClients(plan(), NETWORK, DATA, seed=7), path)
    whole = path.read_bytes()
    path.write_bytes((b"", b"junk", whole[:-9])[part])
    with pytest.raises(InvalidData, match="run is not a"):
        conducted(plan(), InProcessClients(plan(), NETWORK, DATA, seed=7), path)


def test_two_coordinators_cannot_conduct_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "_PATIENCE", 0)
    kind = plan()
    fleet = InProcessClients(kind, NETWORK, DATA, seed=7)
    with StateFile(tmp_path / "run").open(), pytest.raises(LedgerUnavailable, match="in use by another process"):
        conducted(kind, fleet, tmp_path / "run")


def test_the_file_is_the_coordinators_alone(tmp_path):
    """It says who was chosen in which round, which the loss does not cover."""
    conducted(plan(), InProcessClients(plan(), NETWORK, DATA, seed=7), tmp_path / "run")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o600


DRIVER = """
import os, random, signal, sys, time
sys.path[:0] = [{root!r}]
from tests.learning.federated.test_resumed_rounds import *
folder, kind = Path({folder!r}), plan(rounds=60, secure=SECURE)

class Files:
    keys = {{name: seeded_identity(7, name).public for name in NAMES}}

    def ask(self, orders):
        from discreet.learning.federated import Arrival
        found = []
        for name, order in orders.items():
            notebook = StateFile(folder / name)
            with notebook.open():
                member = Member(kind, NETWORK, name, seeded_identity(7, name), self.keys, *DATA[name], state=notebook.read())
                answer = member.answer(order)
                notebook.write(member.saved())
            found.append(Arrival(name, answer))
        return found

chance, done = random.Random(3), folder / "done"
for attempt in range(9):
    child = os.fork()
    if not child:
        outcome = run(kind, NETWORK, Files(), checkpoint=folder / "run")
        twice = [drop.kind for report in outcome.reports for drop in report.dropped]
        done.write_text(f"{{len(outcome.reports)}} {{len(outcome.abandoned)}} {{len(twice)}}")
        os._exit(0)
    if attempt < 8:
        time.sleep(chance.uniform(0.05, 0.3))
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(done.read_text())
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="NO FORK: coordinators are not killed at random moments")
def test_killed_at_random_moments_a_coordinator_loses_one_round_at_most_each_time(tmp_path):
    """Clients on files, as on Flower; nobody is asked twice for a round, so nobody declines."""
    code = DRIVER.format(root=str(Path(__file__).parents[3]), folder=str(tmp_path))
    settings = {"env": os.environ | {"OPENBLAS_NUM_THREADS": "1"}, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=240, **settings)
    assert done.stdout.strip(), done.stderr
    rounds, abandoned, dropped = map(int, done.stdout.split())
    assert (rounds, dropped) == (60, 0)
    assert abandoned <= 8


# What a member pays


def account(ledger=None, name="bob", level="client", epsilon=5):
    budget = Budget(epsilon=epsilon, delta="1e-5")
    return Account(ledger or Ledger(MemoryStore()), name, budget=budget, level=level)


def paying(kind, payer, name="bob"):
    keys = {each: seeded_identity(7, each).public for each in NAMES}
    return Member(kind, NETWORK, name, seeded_identity(7, name), keys, *DATA[name], account=payer)


def fleet_of(kind, payers):
    fleet = InProcessClients(kind, NETWORK, DATA, seed=7)
    for name, payer in payers.items():
        fleet.members[name] = paying(kind, payer, name)
    return fleet


@pytest.mark.parametrize(
    "kind",
    [plan(rounds=2, multiplier=4), plan(rounds=2, multiplier=4, secure=Secure(threshold="4/5", colluding="1/5"))],
    ids=IDS[:2],
)
def test_a_run_is_charged_once_and_as_a_whole(kind):
    """With secure sums for what the coordinator, and one client with it, may learn: more than the models tell."""
    payer = account()
    run(kind, NETWORK, fleet_of(kind, {"bob": payer}))
    charges = payer._ledger.charges("bob")
    assert [charge.loss for charge in charges] == [kind.loss_to_coordinator if kind.secure else kind.loss]
    assert kind.words() in charges[0].text


def test_it_is_charged_before_anything_is_answered():
    kind, payer = plan(multiplier=4), account()
    fleet = Mortal(fleet_of(kind, {"bob": payer}), at=1, after=True)
    with pytest.raises(Died):
        run(kind, NETWORK, fleet)
    assert len(payer._ledger.charges("bob")) == 1


def test_a_member_that_forgets_pays_again_and_its_budget_ends():
    """Its state was deleted: each run is paid anew, until the budget declines; then nothing is answered."""
    kind, payer, answered = plan(rounds=2, multiplier=4), account(), 0
    for _ in range(20):
        fleet = fleet_of(kind, {"bob": payer})
        outcome = run(kind, NETWORK, fleet)
        reasons = {drop.reason for report in outcome.reports for drop in report.dropped}
        if reasons:
            assert reasons == {UNPAID}
            assert not any("bob" in report.arrived for report in outcome.reports)
            break
        answered += 1
    assert 2 <= answered <= 12
    assert len(payer._ledger.charges("bob")) == answered
    assert payer._ledger.budget("bob").allows(payer.spent)
    with pytest.raises(BudgetExceeded):
        payer.pay(kind, bytes(16))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (plan(multiplier=0), {}),
        (plan(rounds=50, multiplier="1/2"), {}),
        (plan(level="example", examples=100, multiplier=4), {"level": "client"}),
        (plan(multiplier=4), {"level": "example"}),
    ],
    ids=["no noise", "too much", "rows from an account of clients", "a client from an account of rows"],
)
def test_what_an_account_does_not_pay_is_declined(kind, settings):
    payer = account(**settings)
    fleet, sent = fleet_of(kind, {"bob": payer}), []
    fleet._wire = lambda name, data: sent.append(data) or data if name == "bob" else data
    run(kind, NETWORK, fleet)
    assert {type(decode_answer(data)) for data in sent} == {Declined}
    assert {decode_answer(data).reason for data in sent} == {UNPAID}  # nothing about how much is left
    assert payer._ledger.charges("bob") == []


def test_if_nobody_can_pay_the_run_fails_in_words():
    kind, payer = plan(rounds=50, multiplier="1/2"), account()
    with pytest.raises(
        ReleaseFailed, match="5 of 5 clients decline this run.*5: this client's own budget does not pay"
    ):
        run(kind, NETWORK, fleet_of(kind, dict.fromkeys(NAMES, payer)))


def test_an_account_lasts(tmp_path):
    kind = plan(rounds=2, multiplier=4)
    for count in (1, 2):
        ledger = Ledger(SqliteStore(tmp_path / "ledger"))
        run(kind, NETWORK, fleet_of(kind, {"bob": account(ledger)}))
        assert len(ledger.charges("bob")) == count
    with pytest.raises(LedgerConflict):
        account(ledger, epsilon=50)
    with pytest.raises(LedgerConflict):
        account(ledger, level="example")


def test_a_ledger_that_cannot_be_written_answers_nothing():
    class Broken:
        def pay(self, federation, run):
            raise LedgerUnavailable("the disk is full")

    outcome = run(plan(), NETWORK, fleet_of(plan(), {"bob": Broken()}))
    assert not any("bob" in report.arrived for report in outcome.reports)
    assert {drop.reason for report in outcome.reports for drop in report.dropped} == {
        "it failed with LedgerUnavailable"
    }
