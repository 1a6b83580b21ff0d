"""Privacy: attacks that measure what rows and models reveal, and differential privacy, which bounds it.

    audit                         all attacks, each with an interval, a baseline, a sentence and a light
    attacks.membership            was a row in the training table? By the closest synthetic row, and by likelihood
    attacks.shadow_models         the same with models that were trained without the row, if it is asked for
    attacks.singling_out          descriptions that fit one person only
    attacks.linkability           two parts of a row that belong to the same person
    attacks.attribute_inference   an unknown cell of a person of whom the others are known
    attacks.copies                equal and nearly equal rows, and rare values
    records                       rows as arrays, and distances between them
    mismatch                      differences of the attacked tables that are no risk

A private training (`harpoon.training.private_fit`) takes from here:

    differential.budget           ε and δ, their split, and the accountant
    differential.public_schema    what must be known of a table without a look at its rows
    differential.histograms       noisy counts of all columns
    differential.noise_sources    where random numbers come from
    differential.private_config   options that the budget fixes

Singling out, linkability and inference are the three risks of Opinion 05/2014 of the Article 29 Working Party. They
are measured as Anonymeter does (Giomi et al., 2023).
"""

from harpoon.privacy.attack_results import ATTACKS, Attack, light_of
from harpoon.privacy.audit import Audit, audit_rows

__all__ = ["ATTACKS", "Attack", "Audit", "audit_rows", "light_of"]
