"""The OpenAPI document, held against the service by schemathesis: whatever is asked, no answer is a 5xx."""

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from harpoon.apps.server.limits import Limits
from harpoon.apps.server.routes import create_app

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
FACTS, QUESTIONS = ("/health", "/schema"), ("/condition", "/sample", "/feasibility", "/profile", "/impute")
FEW = settings(
    max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def url(arrow_fitted, tools):
    limits = Limits(rows=200, draws=3, seconds=20)
    with tools.serving(create_app(arrow_fitted.model, limits), limits) as address:
        yield address


@pytest.fixture(scope="module")
def document(url):
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "forbidden"])
@pytest.mark.parametrize("address", QUESTIONS)
def test_the_service_keeps_to_its_description(document, address, mode):
    @FEW
    @given(case=document[address]["POST"].as_strategy(generation_mode=mode))
    def kept(case):
        case.call_and_validate(checks=CHECKS, timeout=60)

    kept()


@pytest.mark.parametrize("address", FACTS)
def test_facts_are_as_described(document, address):
    document[address]["GET"].Case().call_and_validate(checks=CHECKS, timeout=60)


def test_every_question_is_described(url):
    told = requests.get(f"{url}/openapi.json", timeout=20).json()
    assert set(told["paths"]) == {*FACTS, *QUESTIONS}
    formats = told["paths"]["/sample"]["post"]["responses"]["200"]["content"]
    assert {"application/json", "text/csv", "text/event-stream", "application/vnd.apache.parquet"} <= set(formats)
    bodies = told["paths"]["/impute"]["post"]["requestBody"]["content"]
    assert {"application/json", "text/csv", "multipart/form-data", "application/vnd.apache.arrow.stream"} == set(bodies)
