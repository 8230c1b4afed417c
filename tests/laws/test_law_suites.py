"""Every law of capax passes the suite that the author of another one inherits."""

import pytest

import capax
from capax.laws.files import LAWS
from capax.store import table_files, tables
from capax.testing import LawSuite

REFERENCE = table_files.from_file("reference:grid")


class TestPower(LawSuite):
    law, table = capax.PowerLaw(n_bootstrap=20), REFERENCE


class TestBits(LawSuite):
    law, table = capax.BitsLaw(n_bootstrap=20), REFERENCE


class TestPolynomial(LawSuite):
    law, table = capax.Polynomial(degree=2, n_bootstrap=20), REFERENCE


class TestAssociation(LawSuite):
    law, table = capax.AssociationLaw(n_bootstrap=20), table_files.from_file("reference:associations")


class TestRelation(LawSuite):
    law = capax.RelationLaw(n_bootstrap=20)
    table = table_files.from_file("reference:relations").sort(
        "total_key_dim", descending=True
    )  # first those above its least


@pytest.mark.slow
class TestECM(LawSuite):
    law, table = LAWS["ecm"](n_bootstrap=20), REFERENCE.gather_every(2)


class TestExposure(LawSuite):
    law = capax.ExposureLaw(n_bootstrap=20)
    table = tables.where(table_files.from_file("reference:exposures"), ["optimizer=soap"])


class TestExponential(LawSuite):
    law, table = capax.ExponentialLaw(n_bootstrap=20), REFERENCE


class TestLogistic(LawSuite):
    law, table = capax.LogisticLaw(n_bootstrap=20), REFERENCE
