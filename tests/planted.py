"""One key of every kind that simkit knows by its shape, put together so that no file holds one."""

from __future__ import annotations

from typing import Final

HEX: Final = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
MIXED: Final = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA2bC4dE6fG8hJ1kL3mN5p"


def key(*parts: str) -> str:
    """Put a key together, so that no scanner takes this file for a leak."""
    return "".join(parts)


SHAPED: Final = {
    "anthropic": key("sk-", "ant-api03-", MIXED[:8]),
    "openai": key("sk-", "proj-", MIXED[:18]),
    "stripe": key("sk_", "live_", MIXED[:16]),
    "elevenlabs": key("sk", "_", HEX, HEX[:16]),
    "cerebras": key("csk", "-", "abcdefgh1234", HEX),
    "groq": key("gs", "k_", MIXED[:24]),
    "xai": key("xa", "i-", MIXED[:24]),
    "github": key("gh", "p_", MIXED[:24]),
    "gitlab": key("glp", "at-", MIXED[:16]),
    "google": key("AI", "za", "SyA1bC2dE3fG4hI5jK6lM7nO8pQ9rS0tU1v"),
    "google_oauth": key("ya", "29.", MIXED[:24]),
    "google_client": key("GOC", "SPX-", MIXED[:28]),
    "google_refresh": key("1/", "/0", MIXED[:44]),
    "huggingface": key("hf", "_", "aBcDeFgHiJkLmNoPqRsTuVwX"),
    "perplexity": key("pp", "lx-", MIXED[:24]),
    "replicate": key("r", "8_", MIXED[:24]),
    "fireworks": key("f", "w_", MIXED[:24]),
    "together": key("tg", "p_v1_", MIXED[:43]),
    "voyage": key("p", "a-", MIXED[:43]),
    "nvidia": key("nv", "api-", MIXED, MIXED[:12]),
    "jina": key("ji", "na_", MIXED),
    "langsmith": key("ls", "v2_pt_", HEX, "_", HEX[:10]),
    "tavily": key("tv", "ly-dev-", MIXED[:32]),
    "pinecone": key("pc", "sk_", MIXED[:6], "_", MIXED),
    "firecrawl": key("f", "c-", HEX),
    "e2b": key("e2", "b_", HEX, HEX[:8]),
    "npm": key("np", "m_", MIXED[:36]),
    "pypi": key("py", "pi-", "AgEIcHlwaS5vcmc", MIXED),
    "docker": key("dc", "kr_pat_", MIXED[:27]),
    "sendgrid": key("S", "G.", MIXED[:22], ".", MIXED[:43]),
    "mailgun": key("ke", "y-", HEX),
    "resend": key("r", "e_", MIXED[:8], "_", MIXED[:24]),
    "databricks": key("da", "pi", HEX),
    "linear": key("li", "n_api_", MIXED[:40]),
    "notion": key("nt", "n_", MIXED[:46]),
    "airtable": key("pa", "t", MIXED[:14], ".", HEX, HEX),
    "atlassian": key("ATA", "TT3", MIXED),
    "figma": key("fi", "gd_", MIXED[:40]),
    "postman": key("PM", "AK-", HEX[:24], "-", HEX, "0a"),
    "digitalocean": key("do", "p_v1_", HEX, HEX),
    "heroku": key("HR", "KU-", "01234567-89ab-cdef-0123-456789abcdef"),
    "supabase": key("sb", "p_", HEX, HEX[:8]),
    "planetscale": key("ps", "cale_tkn_", MIXED[:43]),
    "shopify": key("sh", "pat_", HEX),
    "square": key("sq", "0atp-", MIXED[:22]),
    "grafana": key("gl", "sa_", MIXED[:32], "_", HEX[:8]),
    "newrelic": key("NR", "AK-", "ABCDEFGHIJ0123456789ABCDEFG"),
    "sentry": key("sn", "tryu_", HEX, HEX),
    "posthog": key("ph", "x_", MIXED[:43]),
    "doppler": key("d", "p.pt.", MIXED[:43]),
    "vault": key("hv", "s.", MIXED[:24]),
    "dropbox": key("s", "l.u.", MIXED, MIXED, MIXED),
    "slack": key("xo", "xb-", "123456789012-abcdef"),
    "slack_webhook": key("hooks.slack", ".com/services/T00000000/B00000000/", MIXED[:24]),
    "discord_webhook": key("discord", ".com/api/webhooks/123456789012345678/", MIXED),
    "aws": key("AK", "IA", "IOSFODNN7EXAMPLE"),
    "aws_session": key("IQoJb3", "JpZ2luX2VjE", MIXED, "//////////wEaCXVz", MIXED, "=="),
    "age": key("AGE-SECRET", "-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KH"),
    "jwt": key("ey", "JhbGciOi", ".", "eyJzdWIiOiIx", ".", "dozjgNryP4J3"),
    "bearer": key("Bea", "rer ", MIXED[:8]),
    "basic": key("Authorization: Ba", "sic ", "dXNlcjpwYXNz"),
    "azure": key("api-", "key: ", "0123456789abcdef0123456789abcdef"),
    "private_key": key(
        "-----BEGIN RSA PRIVATE ", "KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"
    ),
    "twilio": key("S", "K", HEX),
    "telegram": key("1234567890", ":", "AAF", MIXED[:32]),
    "discord": key("M", MIXED[:23], ".", MIXED[:6], ".", MIXED[:27]),
    "azure_ad": key("abc8", "Q~", MIXED[:32]),
    "azure_ai": key(MIXED, "JQQ", "J99", "BAC5RqLJXJ3w3AAAB", "ACOG", "nmhW"),
    "azure_storage": key(MIXED, MIXED[:24], "+AS", "t", "aB3dEA", "=="),
    "azure_search": key(MIXED[:42], "Az", "SeA", "bC4dE"),
    "terraform": key(MIXED[:14], ".atlas", "v1.", MIXED, MIXED[:15]),
    "url_password": key("postgres://", "app:", "s3cr3t-Pa55", "@db.example.com/x"),
}  # fmt: skip
"""Kind to a key of that kind."""

KEPT_AROUND: Final = {"url_password": ("postgres://", "@db.example.com/x")}
"""What of an example is no secret and stays."""

ORDINARY: Final = (
    "The order 4711 arrives on Monday; is that fine? See section 3.1.2 of the manual.",
    "task-management-system-design-2 and risk-assessment-of-the-project-in-2026",
    "550e8400-e29b-41d4-a716-446655440000",
    "d6ccd7d0c1e5b1a7f3b2d4c6e8fa0b1c2d3e4f56",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sha256:" + HEX + HEX,
    "chatcmpl-AbC123dEf456GhI789jKl012mNo345 resp_0a1b2c3d4e5f msg_01XFDUDYJgAACzvnptvVoYEL",
    "call_aB3dE6gH9jK2mN5pQ8rS1tU4 toolu_01A09q90qw90lq917835lq9",
    "pip install simkit-sk-learn==1.2.3; npm_config_registry=x; pattern.match(re_compile_of_it)",
    "def pa_lette(hf_words, fw_rules): return re_sult[lin_eq] # TASK_LIST SKIP SKeleton",
    "https://example.com:8080/a@b and user@example.com and +1 and 10:30-12:45",
    "https://example.com/a%20b?q=100%25&next=%2Fhome%3Fa%3D1",
    "the bearer certificates of a basic understanding; forgot my password: what now?",
    "AKIA is a prefix, eyJ another, sk-short too; -----BEGIN CERTIFICATE----- is public",
    "12:34:56 AM, 1234567890:AB, dp.example.com, sl.wikipedia.org, SG.UN",
    "key-value pairs, key-based, pa-rental, fc-barcelona, npm_lifecycle_event, secret_santa",
)
"""Prose, code, ids and hashes that only resemble secrets."""
