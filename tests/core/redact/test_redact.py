from __future__ import annotations

import json
import os
from base64 import b64encode
from random import Random
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.redact import Redactor, secrets_written_in
from simkit.core.redact.shapes import DUMMY_KEY, NAMES, PERSONAL, SHAPES, secrets_of
from simkit.core.text import short
from simkit.language.yaml import load_text
from tests.planted import KEPT_AROUND, ORDINARY, SHAPED, VARIANTS

SECRET = 'hunter2/é"x-99'
ENVIRON = {"AZURE_OPENAI_KEY": SECRET, "HOME_TOKEN": "short", "PAGE_SIZE": "1234567890"}


harmless_texts = st.text(max_size=12)
names = st.sampled_from(["api_key", "X-Api-Key", "Authorization", "passWord", "setCookie"])
secrets = st.sampled_from([SECRET, *SHAPED.values()])
texts_with_secrets = st.builds("{} {} {}".format, harmless_texts, secrets, harmless_texts)
fragments = st.sampled_from(
    [
        *"\"'\\=: \n&{}éx%",
        *("\\\\", "\\n", "max_tokens", "%2", "%20", "%2D", "%25"),
        *("api_key", "password", "authorization", "Bearer ", "Basic ", "://", "u:p@", "sk-", "eyJ"),
        *("[redacted:env]", "[redacted:", "env]", "redacted", SECRET, *SHAPED.values()),
    ]
)
tricky_texts = st.lists(fragments, max_size=9).map("".join)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | harmless_texts
    | texts_with_secrets
)


def documents_of(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = harmless_texts | names | texts_with_secrets
    return st.recursive(
        leaves,
        lambda below: st.lists(below, max_size=4) | st.dictionaries(keys, below, max_size=4),
        max_leaves=12,
    )


documents = documents_of(leaves)
tricky_documents = documents_of(leaves | tricky_texts)


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(ENVIRON)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("authorization", "authorization"),
        ("Proxy-Authorization", "proxy_authorization"),
        ("api_key", "api_key"),
        ("apiKey", "api_key"),
        ("x-goog-api-key", "x_goog_api_key"),
        ("SET_COOKIE", "set_cookie"),
        ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    ],
)
def test_value_of_a_secret_key_is_replaced(redactor: Redactor, key: str, kind: str) -> None:
    assert redactor.value({key: "plain"}) == {key: f"[redacted:{kind}]"}


@pytest.mark.parametrize(
    "key", ["max_tokens", "prompt_tokens", "token_count", "auth_ctx", "token", "secretary", "keys"]
)
def test_key_that_only_contains_a_secret_word_keeps_its_value(redactor: Redactor, key: str) -> None:
    value = {key: "plain", "text": f"{key}=plain", "json": f'{{"{key}": "plain"}}'}

    assert redactor.value(value) == value


def test_everything_below_a_secret_key_is_replaced_and_keeps_its_shape(redactor: Redactor) -> None:
    value = {"cookie": {"session": ["abc", 12345, True, None, ""]}, "left": ["abc", 12345]}

    assert redactor.value(value) == {
        "cookie": {"session": ["[redacted:cookie]", "[redacted:cookie]", True, None, ""]},
        "left": ["abc", 12345],
    }


def test_a_schema_may_describe_a_secret(redactor: Redactor) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string", "minLength": 8}}}

    assert redactor.value(schema) == schema
    assert redactor.value({"properties": {"password": "abc"}}) == {
        "properties": {"password": "[redacted:password]"}
    }


def test_every_kind_has_an_example() -> None:
    assert sorted(SHAPED) == sorted(SHAPES)


def hidden(kind: str) -> str:
    """What stands in the place of an example."""
    before, after = KEPT_AROUND.get(kind, ("", ""))
    return f"{before}[redacted:{kind}]{after}"


@pytest.mark.parametrize(("kind", "secret"), SHAPED.items(), ids=SHAPED)
def test_secret_is_known_by_its_shape(redactor: Redactor, kind: str, secret: str) -> None:
    assert redactor.text(f"use '{secret}' now") == f"use '{hidden(kind)}' now"


@pytest.mark.parametrize(("kind", "secret"), SHAPED.items(), ids=SHAPED)
@pytest.mark.parametrize("depth", [1, 2])
def test_secret_is_known_where_it_is_percent_encoded(
    redactor: Redactor, kind: str, secret: str, depth: int
) -> None:
    whole = secret
    for _ in range(depth):
        # Everything is encoded that may be: hyphens and dots too.
        whole = "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in whole)

    text = redactor.text(f"https://x.example/login?next={whole}&page=2")

    secret_part = secret.removeprefix(KEPT_AROUND.get(kind, ("", ""))[0])[:40]
    assert f"[redacted:{kind}]" in text
    assert secret_part.split("@")[0] not in unquote(unquote(text))
    assert text.startswith("https://x.example/login?next=")
    assert text.endswith("&page=2")


@pytest.mark.parametrize(("kind", "secret"), SHAPED.items(), ids=SHAPED)
def test_secret_is_known_in_pieces_cut_anywhere(redactor: Redactor, kind: str, secret: str) -> None:
    text = f"use '{secret}' now"
    cuts = [[text[:at], text[at:]] for at in range(1, len(text))]

    for pieces in (*cuts, list(text)):
        texts = redactor.pieces(pieces)

        assert len(texts) == len(pieces)
        assert "".join(texts) == redactor.text(text)


@pytest.mark.parametrize(
    "kind", ["anthropic", "aws", "github", "google", "groq", "openai", "stripe"]
)
def test_a_key_that_a_report_cut_is_known(redactor: Redactor, kind: str) -> None:
    text = f"use {SHAPED[kind]}, please"
    shortest = len("use sk_live_") + 8

    for most in range(shortest, len(text)):
        cut = redactor.text(short(text, most))

        assert cut.startswith("use [redacted:"), cut
        assert SHAPED[kind][:12] not in cut


@pytest.mark.parametrize(
    "text",
    ["a task-list and…", "sk-learning…", "API-2024-06-01…", "key-1234567…", "pa-rental…", "ghp_…"],
)
def test_a_cut_word_is_no_key(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


def test_text_parts_of_one_message_are_read_together(redactor: Redactor) -> None:
    secret = SHAPED["openai"]
    parts = [{"type": "text", "text": f"use {secret[:9]}"}, {"type": "text", "text": secret[9:]}]

    line = redactor.line(msgspec.json.encode({"content": parts}))

    assert msgspec.json.decode(line) == {
        "content": [{"type": "text", "text": "use [redacted:openai]"}, {"type": "text", "text": ""}]
    }


@pytest.mark.parametrize(("kind", "secret"), VARIANTS, ids=[kind for kind, _ in VARIANTS])
def test_each_form_of_a_vendors_keys_is_known_wherever_it_stands(
    redactor: Redactor, kind: str, secret: str
) -> None:
    text = f"[redacted:{kind}]"
    half, third = len(secret) // 2, len(secret) // 3

    assert redactor.text(f"use {secret}, please") == f"use {text}, please"
    assert redactor.value({"said": [secret]}) == {"said": [text]}
    line = redactor.line(json.dumps({"said": json.dumps({"x": secret})}).encode())
    assert json.loads(line) == {"said": json.dumps({"x": text})}
    query = redactor.text(f"GET https://x.example/a?q={secret}&page=2")
    assert query == f"GET https://x.example/a?q={text}&page=2"
    for before in ("密钥是", "\u201c", "é", "\n", "\u2028"):  # in JSON inside a text, and in a line
        encoded = json.dumps({"x": f"{before}{secret}"})
        assert redactor.text(encoded) == json.dumps({"x": f"{before}{text}"})
        assert json.loads(redactor.line(encoded.encode())) == {"x": f"{before}{text}"}
    for pieces in ([*secret], [secret[:third], secret[third:half], secret[half:]]):
        assert "".join(redactor.pieces(["use ", *pieces, " now"])) == f"use {text} now"


@pytest.mark.slow
def test_a_key_of_random_characters_is_known_whatever_they_are(redactor: Redactor) -> None:
    """A shape that asks for a digit passes over every key that happens to have none."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    random = Random(7)
    for prefix, size in (
        (("tv", "ly-"), 32), (("tv", "ly-dev-"), 32), (("xa", "i-"), 80), (("pp", "lx-"), 48),
        (("gs", "k_"), 52), (("hf", "_"), 34), (("f", "w_"), 24), (("np", "m_"), 36),
        (("r", "8_"), 37), (("ji", "na_"), 60), (("p", "a-"), 43), (("pc", "sk_"), 60),
        (("sk-", "proj-"), 40), (("tg", "p_v1_"), 43), (("nv", "api-"), 64),
    ):  # fmt: skip
        for _ in range(300):
            secret = "".join((*prefix, *random.choices(letters, k=size)))

            assert redactor.text(f"use {secret} now").startswith("use [redacted:"), secret


@pytest.mark.slow
def test_zero_bytes_in_base64_are_no_key(redactor: Redactor) -> None:
    # As the frames of a binary stream, or silence in a recording.
    random = Random(7)
    for _ in range(3_000):
        data = bytes(random.choice([0, 0, 0, random.randrange(256)]) for _ in range(200))
        text = b64encode(data).decode()

        assert redactor.text(text) == text


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text
    assert redactor.pieces(list(text)) == list(text)


def test_pictures_in_base64_stay(redactor: Redactor) -> None:
    for seed in range(8):
        picture = b64encode(Random(seed).randbytes(200_000)).decode()
        line = msgspec.json.encode({"type": "image", "data": picture})

        assert redactor.line(line) is line


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("write to jo.doe+x@mail.example.com now", "write to [redacted:email] now"),
        ("call +49 (30) 1234-5678 now", "call [redacted:phone] now"),
    ],
)
def test_personal_data_is_replaced_where_that_is_asked_for(text: str, redacted: str) -> None:
    assert Redactor({}).text(text) == text
    assert Redactor({}, personal=PERSONAL).text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "task-management-system-design-2",
        "sk-short",
        "the bearer certificates of a basic understanding",
        "AKIA is a prefix, eyJ another",
        "https://example.com:8080/a@b and user@example.com",
        "forgot my password: what now?",
    ],
)
def test_text_that_only_resembles_a_secret_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("https://u:p@example.com/x", "https://[redacted:url_password]@example.com/x"),
        ("GET /x?api_key=abc&max_tokens=5", "GET /x?api_key=[redacted:api_key]&max_tokens=5"),
        ("export API_KEY='abc'", "export API_KEY='[redacted:api_key]'"),
        ('{"apiKey": "a\\"b", "n": 1}', '{"apiKey": "[redacted:api_key]", "n": 1}'),
        ('{\\"secret\\": \\"a\\\\\\"b\\"}', '{\\"secret\\": \\"[redacted:secret]\\"}'),
        ("{'password': 'abc'}", "{'password': '[redacted:password]'}"),
        (f"\\n{SHAPED['openai']}", "\\n[redacted:openai]"),
    ],
)
def test_secret_inside_a_text_is_replaced(redactor: Redactor, text: str, redacted: str) -> None:
    assert redactor.text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(SECRET)[1:-1])[1:-1],
        "hunter2%2F%C3%A9%22x-99",
    ],
    ids=["as it is", "in ASCII JSON", "in JSON", "in JSON in JSON", "in a URL"],
)
def test_secret_of_the_environment_is_replaced_however_written(
    redactor: Redactor, text: str
) -> None:
    assert redactor.text(f"<{text}>") == "<[redacted:env]>"


@pytest.mark.parametrize(
    ("variable", "is_secret"),
    [
        ("GITHUB_TOKEN", True),
        ("db_password", True),
        ("OAUTH_SECRET", True),
        ("MY_API_KEY_2", True),
        ("PGPASSWORD", True),
        ("TOKEN", True),
        ("OPENAI_APIKEY", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("OLDPWD", False),
        ("KEYBOARD", False),
    ],
)
def test_variables_are_secret_by_name(variable: str, is_secret: bool) -> None:
    redactor = Redactor({variable: "12345678"})

    assert redactor.text("12345678") == ("[redacted:env]" if is_secret else "12345678")


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ({"app": {"env": {"DB_PASSWORD": "in-words", "MODE": "in-modes"}}}, ["in-words"]),
        ({"headers": {"Authorization": "Bearer abc123def"}}, ["abc123def"]),
        ({"cookie": "sid=abc123def; lang=en"}, ["sid=abc123def"]),
        ({"deep": [{"api_key": ["Abcdefghij", "aBcdefghij"]}]}, ["aBcdefghij"]),
        ({"password": 12345678}, ["12345678"]),
        ({"DB_PASSWORD": "abc123def", "db_password": "other123"}, ["abc123def"]),
        ({"max_tokens": 12345678, "next_page_token": "abc123def", "cache_key": "abc123def"}, []),
        # What everybody says would be taken out of every text.
        ({"authorization": "approved", "cookie": "chocolate chip", "secret": "Approved"}, []),
        ({"api_key": {"$type": "string123"}}, []),
        ({"env": ["DB_PASSWORD"]}, []),
    ],
)  # fmt: skip
def test_secrets_that_a_user_has_written_are_known_by_their_names(
    text: Any, secrets: list[str]
) -> None:
    assert [*secrets_written_in(text)] == secrets


@pytest.mark.parametrize(
    "text",
    [
        "scenario: a\nnote: hunter2-9f8e7d6c",
        "x-config: {password: hunter2-9f8e7d6c}",
        "turns: [{user: Hello}, {tool_results: {login: {apiKey: hunter2-9f8e7d6c}}}]",
        '"\\x70assword": hunter2-9f8e7d6c',
        "app: {env: {DB_PASSWORD: hunter2-9f8e7d6c}}",
        "env: [DB_PASSWORD]\nDB_PASSWORD: hunter2-9f8e7d6c",
        "password: &p hunter2-9f8e7d6c\nother: [*p, {token: [abc12345-x, Bearer 123456789-x]}]",
    ],
)
def test_the_keys_of_a_document_say_whether_it_is_searched_for_secrets(text: str) -> None:
    for _ in range(2):  # The second time, the names are known.
        [document] = load_text(text, "a.scenario.yaml")

        assert document.secrets == frozenset(secrets_written_in(document.data))
        assert bool(document.secrets) == ("note" not in text)


def test_short_value_of_a_secret_variable_is_no_secret() -> None:
    assert Redactor({"API_KEY": "1234567"}).text("1234567") == "1234567"


def test_value_of_a_variable_that_is_named_is_secret_whatever_it_is_called() -> None:
    redactor = Redactor({"TENANT": "acme", "REGION": "eu"}, ["TENANT", "NOT_SET"])

    assert redactor.text("acme in eu") == "[redacted:env] in eu"


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("https://x.com/v1?key=abc&alt=sse", "https://x.com/v1?key=[redacted:parameter]&alt=sse"),
        ("/v1?api-version=1&api-key=abc", "/v1?api-version=1&api-key=[redacted:api_key]"),
        ("/v1?X-Amz-Signature=abc&key=", "/v1?X-Amz-Signature=[redacted:parameter]&key="),
        ("https://u:p@x.com/v1", "https://[redacted:url_password]@x.com/v1"),
        ("/v1/key=abc", "/v1/key=abc"),
    ],
)
def test_url_is_redacted_by_its_parameters_too(redactor: Redactor, url: str, redacted: str) -> None:
    assert redactor.url(url) == redacted
    assert redactor.url(redacted) == redacted


def test_secrets_are_found_with_their_places_and_rules(redactor: Redactor) -> None:
    text = f"password=abc {SHAPED['google']} [redacted:aws] {SECRET}"

    assert list(redactor.spans_in(text)) == [(9, "password"), (13, "google"), (68, "env")]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [10, 400, 900, 5_000])
@pytest.mark.parametrize(("opened", "closed"), [('{"a":', "}"), ("[", "]")])
def test_a_line_of_any_depth_is_redacted(
    redactor: Redactor, depth: int, opened: str, closed: str
) -> None:
    secret = "sk-ant-" + "a1B2" * 8
    line = opened * depth + f'["{secret}",{{"api_key":"hunter2"}},"\\ud800"]' + closed * depth

    for encoded in (line, line.replace("\\ud800", "")):
        redacted = redactor.line(encoded.encode()).decode()

        assert secret not in redacted
        assert "hunter2" not in redacted


def test_line_without_secrets_is_returned_as_it_is(redactor: Redactor) -> None:
    line = b'{"type": "ModelCalled","usage":{"max_tokens":5},  "x":1e16,"s":"\\u0041\\/"}'

    assert redactor.line(line) is line


@pytest.mark.parametrize(
    ("line", "redacted"),
    [
        (b'{"b":1e16,"password":"x","a":1}', b'{"b":1e16,"password":"[redacted:password]","a":1}'),
        (b'{"pass\\u0077ord":"x"}', b'{"password":"[redacted:password]"}'),
        (b'{"s":"\\ud800","password":"x"}', b'{"s":"\\ud800","password":"[redacted:password]"}'),
        (b'password="x" \xff', b'password="[redacted:password]" \xff'),
        (b'{"s":"Authorization: Basic\\tdXNlcjpwYXNz"}', b'{"s":"[redacted:basic]"}'),
        (
            b'{"s":"used ' + SHAPED["github"][:16].encode() + b'\\u2026"}',
            '{"s":"used [redacted:github]…"}'.encode(),
        ),
    ],
    ids=["plain", "escaped key", "half surrogate", "no JSON", "tabulator", "cut key"],
)
def test_line_is_redacted(redactor: Redactor, line: bytes, redacted: bytes) -> None:
    assert redactor.line(line) == redacted


@given(tricky_documents)
def test_redacting_twice_is_redacting_once(document: Any) -> None:
    redactor = Redactor(ENVIRON)

    once = redactor.value(document)

    assert redactor.value(once) == once
    assert redactor.line(msgspec.json.encode(once)) == msgspec.json.encode(once)


@given(st.text() | tricky_texts, secrets, st.text() | tricky_texts)
def test_text_of_anything_around_a_secret_is_redacted_once(
    before: str, secret: str, after: str
) -> None:
    redactor = Redactor(ENVIRON)

    once = redactor.text(f"{before} {secret} {after}")

    assert SECRET not in once
    assert redactor.text(once) == once


@given(tricky_documents)
def test_line_of_a_document_is_the_line_of_its_redacted_value(document: Any) -> None:
    redactor = Redactor(ENVIRON)

    line = redactor.line(msgspec.json.encode(document))

    assert msgspec.json.decode(line) == msgspec.json.decode(
        msgspec.json.encode(redactor.value(document))
    )


@pytest.mark.slow
@given(st.lists(tricky_documents, max_size=6), st.integers(0, 5))
def test_lines_are_redacted_as_each_alone(several: list[Any], parts: int) -> None:
    redactor = Redactor(ENVIRON)
    message = [{"type": "text", "text": piece} for piece in (SECRET[:5], SECRET[5:])]
    lines = [msgspec.json.encode(item) for item in [*several, message[:parts]]]
    content = b"".join(line + b"\n" for line in lines)

    assert redactor.lines(content) == b"".join(redactor.line(line) + b"\n" for line in lines)


@given(st.lists(tricky_documents, max_size=6), st.integers(1, 60), st.booleans())
def test_lines_in_parts_are_redacted_as_each_alone(
    several: list[Any], size: int, is_whole: bool
) -> None:
    redactor = Redactor(ENVIRON)
    lines = [msgspec.json.encode(item) for item in [*several, {"note": SECRET}, {"a": 1}]]
    content = b"\n".join([*lines, b""] if is_whole else lines)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simkit.core.redact.redactor._TOGETHER", size)
        without = redactor.lines(content)
        unchanged = redactor.lines(b"[1]\n" * 40)

    assert without.splitlines() == [redactor.line(line) for line in lines]
    assert unchanged == b"[1]\n" * 40


@pytest.mark.parametrize("secret", SHAPED.values())
def test_a_secret_in_one_of_many_lines_is_found(redactor: Redactor, secret: str) -> None:
    lines = [b'{"a":"b"}', msgspec.json.encode({"note": secret}), b'{"c":1}']

    assert redactor.lines(b"\n".join(lines) + b"\n").splitlines() == [
        redactor.line(line) for line in lines
    ]


def test_lines_without_secrets_are_returned_as_they_are(redactor: Redactor) -> None:
    lines = b'{"text":"a"}\n{"text":"b"}\n[{"text":"hunter2"},{"text":"x"}]\n'

    assert redactor.lines(lines) is lines


def test_a_variable_that_a_run_sets_is_secret_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SECRET not in secrets_of(os.environ)
    monkeypatch.setenv("AZURE_OPENAI_KEY", SECRET)
    assert SECRET in secrets_of(os.environ)
    monkeypatch.setenv("AZURE_OPENAI_KEY", "another one")
    assert {"another one"} <= {*secrets_of(os.environ)}
    assert SECRET not in secrets_of(os.environ)
    monkeypatch.delenv("AZURE_OPENAI_KEY")
    assert "another one" not in secrets_of(os.environ)


@given(documents)
def test_no_secret_survives(document: Any) -> None:
    redactor = Redactor(ENVIRON)

    line = redactor.line(json.dumps(document).encode())

    text = json.dumps(json.loads(line), ensure_ascii=False)
    forms = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in (SECRET, *SHAPED.values())]
    assert [form for form in forms if form in text] == []


@given(st.lists(tricky_texts | texts_with_secrets | harmless_texts, max_size=5), st.booleans())
def test_a_text_that_is_not_searched_by_the_rules_has_nothing_for_them(
    texts: list[str], is_json: bool
) -> None:
    redactor = Redactor(ENVIRON)
    text = json.dumps(texts) if is_json else "\n".join(texts)

    if not redactor._may_hold_secrets(text.encode("utf-8", "surrogatepass")):
        assert [
            match for match in redactor._rules.finditer(text) if match["placeholder"] is None
        ] == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spelled", ["{}", "x {}", "kkk-{}", "s{0}={0}"])
def test_each_name_of_a_secret_is_searched_by_the_rules(name: str, spelled: str) -> None:
    for spelling in (name, name.replace("_", "-"), name.replace("_", ""), name.upper()):
        line = f'{{"a": "ask", "{spelling}": "x1", "k": "{spelled.format(spelling)}"}}'

        assert Redactor({})._may_hold_secrets(line.encode()), line


@pytest.mark.parametrize("rest", ["+/", "/w", "==", ".a", "%2"])
def test_cut_key_is_replaced_with_all_characters_that_keys_have(
    redactor: Redactor, rest: str
) -> None:
    key = "ABSK" + f"Sx3cbZgZmPAc{rest}" * 8

    text = redactor.text(f'wanted "{key[:90]}"… found')

    assert text == 'wanted "[redacted:bedrock]"… found'


@pytest.mark.parametrize("text", ["sk-learning/guide…", "see task-lists/2024…", "API-2024/06.md…"])
def test_cut_path_is_no_key(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["{}={}", '{{"{}": "{}"}}', "https://h.example/?{}={}"])
def test_the_dummy_key_stays_under_every_name_and_no_secret_that_begins_with_it(
    name: str, form: str
) -> None:
    redactor = Redactor({})
    dummy = form.format(name, DUMMY_KEY)

    assert redactor.text(dummy) == dummy
    for joint in ("", "-", "_", ".", "/", "+", "=", ":"):
        secret = f"{DUMMY_KEY}{joint}hunter2Zx9q"
        assert secret not in redactor.text(form.format(name, secret))
