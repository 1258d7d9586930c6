"""What anybody may ask for: the deployment, its log and its documents; the same for everyone."""

import pytest

from prirec.recommender.service import ROUTES, is_operators
from prirec.wire.documents import Head, Model, Page, written
from prirec.wire.http import Hello
from support.services import Served, good, refusal
from support.stores import DEPLOYMENT, FOUNDING, IDENTITY, signed


def publish(service: Served, many: int) -> list[tuple[bytes, bytes]]:
    """So many documents, each in the log."""
    head = service.store.head()
    documents = [written(Model(bytes(32), head.length + at, bytes(8))) for at in range(many)]
    entries = signed(head, *(("model", name) for name, _ in documents))
    service.store.advance(progress=b"", documents=documents, entries=entries)
    return documents


def test_a_device_learns_whom_it_is_about_to_trust(service: Served) -> None:
    hello = good(Hello, service.line.get("/v1/deployment"))
    assert (hello.deployment, hello.recommender, hello.title) == (DEPLOYMENT, IDENTITY.public, FOUNDING.title)


def test_the_log_is_read_from_any_entry_on_and_checks(service: Served) -> None:
    publish(service, 5)
    head = Head()
    for after, expected in ((0, 5), (3, 2), (5, 0), (2**31 - 1, 0)):
        page = good(Page, service.line.get("/v1/log", params={"after": after}))
        assert [one.entry.index for one in page.entries] == list(range(after, after + expected))
        head = head.after(page.entries, deployment=DEPLOYMENT, recommender=IDENTITY.public) if after == 0 else head
    assert head == service.store.head()
    assert len(good(Page, service.line.get("/v1/log")).entries) == 5


def test_a_long_log_comes_in_pages(service: Served) -> None:
    publish(service, 1001)
    first = good(Page, service.line.get("/v1/log?after=0")).entries
    second = good(Page, service.line.get(f"/v1/log?after={len(first)}")).entries
    assert (len(first), len(second)) == (1000, 1)


@pytest.mark.parametrize("after", ["", "-1", "1.0", "x", "2147483648", "9" * 5000, "%00", "١", "+1", " 1", "1_0"])
def test_an_invalid_number_of_log_entries_is_refused(shared_service: Served, after: str) -> None:
    assert refusal(shared_service.line.get(f"/v1/log?after={after}")) == (400, "DECODE")


def test_a_document_is_what_its_name_says_and_may_be_kept_for_ever(service: Served) -> None:
    ((name, body),) = publish(service, 1)
    for _ in range(2):  # from the store, then from what is at hand
        answer = service.line.get(f"/v1/documents/{name.hex()}")
        assert answer.content == body
        assert answer.headers["etag"] == f'"{name.hex()}"'
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "set-cookie" not in answer.headers
        assert "vary" not in answer.headers


@pytest.mark.parametrize("held", ['"{}"', 'W/"{}"', '"other", "{}"', "*"])
def test_a_request_with_the_documents_etag_is_answered_304_without_a_body(shared_service: Served, held: str) -> None:
    ((name, _),) = publish(shared_service, 1)
    answer = shared_service.line.get(f"/v1/documents/{name.hex()}", headers={"if-none-match": held.format(name.hex())})
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == f'"{name.hex()}"'
    other = shared_service.line.get(f"/v1/documents/{name.hex()}", headers={"if-none-match": '"other"'})
    assert other.status_code == 200


def test_a_missing_document_is_404_also_for_a_request_with_its_etag(service: Served) -> None:
    name = "ab" * 32
    for held in ("", f'"{name}"', "*"):
        answer = service.line.get(f"/v1/documents/{name}", headers={"if-none-match": held})
        assert refusal(answer) == (404, "ABSENT")
        assert "immutable" not in answer.headers["cache-control"]


def test_other_spellings_of_a_documents_name_are_404(service: Served) -> None:
    ((name, _),) = publish(service, 1)
    for wrong in (name.hex().upper(), name.hex()[:-1], name.hex() + "0", "g" * 64, "..%2f" * 8, f"{name.hex()}/"):
        assert refusal(service.line.get(f"/v1/documents/{wrong}")) == (404, "ABSENT")


def test_unknown_addresses_and_methods_are_refused_in_message_pack(service: Served) -> None:
    assert refusal(service.line.get("/v1/people")) == (404, "ABSENT")
    assert refusal(service.line.get("/docs")) == (404, "ABSENT")
    for route in ROUTES:
        method, path = route.split()
        line = service.operator if is_operators(path) else service.line
        wrong = line.request("DELETE", path.replace("{name}", "ab" * 32))
        assert refusal(wrong) == (405, "ABSENT")
        assert wrong.headers["allow"] == method


def test_a_worker_tells_that_it_lives_and_can_use_its_store(service: Served) -> None:
    assert service.line.get("/healthz").json() == {"healthy": True}
    assert service.line.get("/readyz").json() == {"ready": True}


def test_metrics_and_the_description_are_on_the_operators_port_and_nothing_else_is(service: Served) -> None:
    own, others = ("/metrics", "/openapi.json"), ("/v1/deployment", "/v1/log", f"/v1/documents/{'ab' * 32}", "/v1/mail")
    absent, host = (404, "ABSENT"), f"127.0.0.1:{service.operator.base_url.port}"
    for path in own:
        assert service.operator.get(path).status_code == 200
        assert refusal(service.line.get(path)) == refusal(service.line.get(path, headers={"host": host})) == absent
    for path in others:
        assert refusal(service.operator.get(path)) == refusal(service.operator.post(path)) == absent
    for path in ("/healthz", "/readyz"):
        assert service.operator.get(path).json() == service.line.get(path).json()


def test_metrics_name_routes_by_their_pattern_and_no_device(service: Served) -> None:
    ((name, _),) = publish(service, 1)
    phone = service.phone()
    phone.mail(phone.says(), phone.says(sender=bytes(32)))
    service.line.get(f"/v1/documents/{name.hex()}")
    service.line.get("/secret-path")
    page = service.figures()
    assert 'prirec_requests_total{route="/v1/documents/{name}",status="200"} 1.0' in page
    assert 'prirec_requests_total{route="none",status="404"} 1.0' in page
    assert 'prirec_messages_total{result="taken"} 1.0' in page
    assert 'prirec_messages_total{result="AUTH"} 1.0' in page
    assert "prirec_commit_messages_count 1.0" in page
    for private in (name.hex(), phone.name.hex(), "secret-path", "127.0.0.1"):
        assert private not in page
