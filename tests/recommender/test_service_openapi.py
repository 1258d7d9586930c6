"""The OpenAPI document, and what comes of everything that can be made up from it: no 500, and no answer that it does
not describe. Over TLS, with a session and without."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION, Box, Boxes, Round
from prirec.recommender.service import ROUTES
from prirec.wire.http import MEDIA, Claim, Enrolment, Mail, SignedClaim, SignedEnrolment
from support.services import Served
from support.stores import DEPLOYMENT, IDENTITY

DESCRIBED = [route for route in ROUTES if "/v1/" in route]
MADE_UP = [
    (route, mode)
    for route in DESCRIBED
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or ROUTES[route]["openapi_extra"].keys() & {"parameters", "security"}
]
REPEATABLE = settings(max_examples=30, derandomize=True, suppress_health_check=list(HealthCheck))

names = st.one_of(st.just(IDENTITY.public), st.binary(min_size=32, max_size=32))
rounds = st.builds(
    Round,
    st.one_of(st.just(DEPLOYMENT), st.binary(min_size=16, max_size=16)),
    st.one_of(st.just("interaction"), st.text(min_size=1, max_size=32)),
    *(st.integers(0, 2**31 - 1) for _ in range(3)),
)
boxes = st.lists(st.builds(Box, st.integers(0, 2**31 - 1), st.binary(max_size=40)), max_size=3).map(tuple)
messages = st.builds(Boxes, st.just(VERSION), rounds, names, names, st.just(bytes(64)), boxes).map(encode)
requests_made_up = st.one_of(
    st.builds(
        Mail, st.lists(st.one_of(messages, st.binary(max_size=60)), max_size=9).map(tuple),
        st.integers(-1, 2**63), st.sampled_from([0, 0, 0, 1, 31, -1]),
    ),
    st.builds(
        SignedClaim,
        st.builds(Claim, st.just(DEPLOYMENT), names, st.binary(min_size=1, max_size=300)),
        st.just(bytes(64)),
    ),
    st.builds(
        SignedEnrolment,
        st.builds(
            Enrolment, st.just(DEPLOYMENT), names, st.text(max_size=110),
            st.binary(max_size=300),
        ),
        st.just(bytes(64)),
    ),
).map(encode)  # fmt: skip
cut = st.tuples(requests_made_up, st.integers(0, 400)).map(lambda pair: pair[0][: pair[1]])
schemathesis.openapi.media_type(MEDIA, st.one_of(requests_made_up, cut, st.binary(max_size=5000)))


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.trust_env = False
        yield made


@pytest.fixture(scope="module")
def document(shared_service: Served) -> Any:
    found = schemathesis.openapi.from_dict(shared_service.operator.get("/openapi.json").json())
    found.config.update(
        base_url=f"https://127.0.0.1:{shared_service.port}",
        tls_verify=str(shared_service.site.folder / "authority.pem"),
    )
    return found


@pytest.fixture(scope="module")
def token(shared_service: Served) -> str:
    return shared_service.phone().log_in().token


def test_the_document_describes_every_address_but_the_operators(shared_service: Served) -> None:
    paths = shared_service.operator.get("/openapi.json").json()["paths"]
    described = {f"{method.upper()} {path}": told for path, one in paths.items() for method, told in one.items()}
    assert sorted(described) == sorted(DESCRIBED)
    for operation in described.values():
        bodies = [answer["content"] for status, answer in operation["responses"].items() if status != "304"]
        assert all(list(content) == [MEDIA] for content in bodies)


@pytest.mark.parametrize("known", [False, True], ids=["from anybody", "with a session"])
@pytest.mark.parametrize(("route", "mode"), MADE_UP)
@REPEATABLE
@given(data=st.data())
def test_whatever_is_made_up_is_answered_as_described(
    data: st.DataObject, route: str, document: Any, session: requests.Session, token: str, known: bool, mode: Any
) -> None:
    method, path = route.split()
    case = data.draw(document[path][method].as_strategy(generation_mode=mode))
    answer = case.call(session=session, headers={"authorization": f"Bearer {token}"} if known else {})
    assert answer.status_code < 500
    case.validate_response(answer, checks=[status_code_conformance, content_type_conformance])


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"])
def test_methods_that_are_not_described_are_refused(shared_service: Served, method: str) -> None:
    for route in DESCRIBED:
        answer = shared_service.line.request(method, route.split()[1].replace("{name}", "ab" * 32))
        assert answer.status_code == 405
