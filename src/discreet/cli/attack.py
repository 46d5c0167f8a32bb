"""`discreet attack …`: what a release really gives away, measured beside what guessing gives."""

import click

from discreet.cli import (
    attack_answers,
    attack_audit,
    attack_example,
    attack_models,
    attack_records,
    attack_tables,
    gallery,
)


@click.group(name="attack")
def group() -> None:
    """Attack a release of your own, as somebody would who means harm, and count how often it succeeds.

    Every report says how often the attack succeeds, how often guessing does, and (where it makes sense) how often the
    same attack succeeds on people who are not in the release at all. The verdict is `falls` (clearly better than
    guessing), `leaks` (better, but by less than 5 percentage points), `holds` (no better, up to that) or `undecided`
    (too few people to say, or labels that the attack could not read).

    Whoever attacks here is the judge too, who knows the truth: keep those files, and the reports with --owner, to
    yourself. `discreet attack example DIR` writes generated files to try everything on.
    """


for _command in (
    attack_tables.link,
    attack_tables.secret,
    attack_tables.infer,
    attack_tables.linkability,
    attack_tables.single_out,
    attack_tables.intersect,
    attack_records.match,
    attack_records.graph,
    attack_answers.compose,
    attack_answers.reconstruct,
    attack_answers.difference,
    attack_answers.average,
    attack_audit.audit,
    attack_audit.guess,
    attack_models.membership,
    attack_models.audit_training,
    attack_models.coins,
    attack_example.example,
    gallery.gallery,
):
    group.add_command(_command)
