"""The exhibits as told to anybody: one question each, and the attack step by step before it is run.

>>> from discreet.gallery.stories import STORIES
>>> STORIES["averaging"].question
'How often may the same question be asked?'
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Story:
    """A question, and what happens: what is published, what the attacker knows, and what the attacker does."""

    question: str
    published: str
    known: str
    done: str

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """The steps with their headings."""
        return (
            ("What is published", self.published),
            ("What the attacker knows", self.known),
            ("What the attacker does", self.done),
        )


STORIES: Mapping[str, Story] = {
    "linkage": Story(
        "Does a table without names hide who is in it?",
        "A hospital takes the names out of its table of visits. ZIP code, sex, date of birth and condition stay.",
        "The voter list of the town: names with the same ZIP code, sex and date of birth. Anybody can buy it.",
        "Join the two. Where one voter alone fits a row, the row has a name again, and a condition. Then the same is "
        "tried on a table made 5-anonymous, and on a synthetic one made with differential privacy.",
    ),
    "homogeneity": Story(
        "If five people share a row, is the secret safe?",
        "A table in which each person looks like at least four others: it is 5-anonymous.",
        "ZIP code and age of a neighbor, nothing else.",
        "Find the neighbor's class of lookalikes. If all of them have the same condition, nobody needs to know which "
        "row is the neighbor's.",
    ),
    "fingerprints": Story(
        "How many harmless facts make a fingerprint?",
        "A table of people, each column of which fits thousands of them.",
        "Two, three or four facts about a person, as a colleague knows them.",
        "Try all sets of up to four columns, and count the people that each set singles out.",
    ),
    "inference": Story(
        "What are the three risks that data protection law names?",
        "A table about people: as it is, and as a table about other people of the same town.",
        "Some columns of the people who may be in it.",
        "Single a person out, link two records of one person, infer a column that is not known. Success counts only "
        "beyond what works on people who are not in the data.",
    ),
    "intersection": Story(
        "Are two anonymous tables still anonymous together?",
        "Two hospitals publish their patients, each table k-anonymous by itself.",
        "That a person was in both hospitals, with ZIP code and age.",
        "Take the conditions of the person's class in the one table and in the other. Few are in both: often one.",
    ),
    "sparse": Story(
        "Can the films you rated tell who you are?",
        "All ratings of a film service, with dates and without names.",
        "Six films that somebody rated, roughly when, and how: what one says at lunch.",
        "Score every record by how well it fits, rare films counting most. If the best one stands out, it is the "
        "person's, with everything else in it.",
    ),
    "graph": Story(
        "Does a network without names hide who knows whom?",
        "A network of numbered nodes, with its ties.",
        "Another network of some of the same people, with names, and a few people found in both.",
        "Go from the known people to their neighbors, and match those whose ties fit best; then on from these.",
    ),
    "composition": Story(
        "Can two harmless answers give one person away?",
        "The least age, and the greatest weight, of those who have a disease.",
        "Age and weight of everybody in the village.",
        "Two people have that age, two have that weight. One has both.",
    ),
    "accumulation": Story(
        "When do many small answers become one secret?",
        "One answer after the other about a group, each of which leaves many candidates.",
        "Who could be meant, before the first answer.",
        "Strike out who does not fit, after every answer, and look how many are left.",
    ),
    "differencing": Story(
        "What does a count of everybody but one reveal?",
        "Two counts: how many of some people have a condition, and how many of the same people but one.",
        "Who that one is.",
        "Subtract. Rounding does not help for long; noise that is paid for does.",
    ),
    "averaging": Story(
        "How often may the same question be asked?",
        "Counts with fresh noise each time. First nobody keeps a ledger, then a budget is kept.",
        "Only the answers.",
        "Ask again and again, and take the mean: the noise averages away, unless the budget ends it.",
    ),
    "reconstruction": Story(
        "How many statistics reveal a database?",
        "Counts over many random groups of people: exact, rounded, without small ones, or with noise within a budget.",
        "Who is in which group, but nobody's secret bit.",
        "Each count is an equation. Solve them all at once, and read off everybody's bit.",
    ),
    "harm": Story(
        "What can no privacy method prevent?",
        "The average height of the people of a town; and a study that finds that smoking causes cancer.",
        "That somebody is five centimeters below the average; that somebody smokes.",
        "Infer the height, or the risk. It works for people who are not in the data at all: so it is not a leak.",
    ),
    "audit": Story(
        "How can a promise of privacy be checked?",
        "Programs that say that they have a certain ε: one that is right, and two dozen that are broken.",
        "Two datasets that differ in one person, and as many outputs on each as one likes.",
        "Look for an event that is likelier on one dataset than ε allows. One is enough to refute the promise.",
    ),
    "guessing": Story(
        "Can any guess beat ε?",
        "One randomized answer at ε 1.",
        "Everything but which of two datasets it came from.",
        "Guess as well as can be guessed, twenty thousand times, and compare with the most that ε allows.",
    ),
    "membership": Story(
        "Whose data was it trained on?",
        "A trained network: what it answers, or its weights.",
        "Records of people, of whom half were used in training.",
        "A network is surer of what it was trained on. Say of each record whether it was; then try a network that "
        "was trained with differential privacy.",
    ),
    "updates": Story(
        "If the data stay at home, what do updates carry?",
        "Updates of a model, which phones send instead of their rows.",
        "The model before, and one phone's update.",
        "Solve for the rows that would cause this update. Noise stops it, and so do masks that cancel in the sum.",
    ),
}
"""By the names of the exhibits."""
