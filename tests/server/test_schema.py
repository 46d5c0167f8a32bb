"""The OpenAPI document and the server agree: whatever fits the document, and much that does not, is no failure."""

import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.server.test_access import RULES


@pytest.fixture(scope="module")
def operations(house):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        schemathesis = pytest.importorskip("schemathesis")
        schema = schemathesis.openapi.from_url(f"{house.url}/openapi.json")
        found = [result.ok() for result in schema.get_all_operations()]
    return {(operation.method.upper(), operation.path): operation for operation in found}


def check(house, operation, examples):
    before = house.charges()
    charging = operation.path.endswith(("/ask", "/jobs"))
    few = settings(
        max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True
    )

    @few
    @given(operation.as_strategy())
    def sent(case):
        headers = {"Authorization": f"Bearer {house.tokens['olga']}"}
        if "dataset" in (case.path_parameters or {}):
            case.path_parameters["dataset"] = "clinic"  # any other name is not known, which is soon said
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            response = case.call(headers=headers, timeout=120)  # a busy machine may take long
        assert response.status_code < 500 or response.status_code == 503, response.text
        if response.status_code >= 400:
            assert response.headers["content-type"][0] in ("application/problem+json", "text/plain; charset=utf-8")
            assert house.tokens["olga"] not in response.text

    sent()
    assert charging or house.charges() == before


@pytest.mark.parametrize("rule", sorted(RULES), ids=" ".join)
def test_what_fits_the_document_is_no_failure(house, operations, rule):
    check(house, operations[rule], 6)


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(RULES), ids=" ".join)
def test_what_fits_the_document_is_no_failure_many_times(house, operations, rule):
    check(house, operations[rule], 300)
