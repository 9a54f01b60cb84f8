"""Secrets that are known by how they look: the prefixes that vendors document for their keys.

Each shape begins with its vendor's prefix and asks for the length that a key has, so that prose,
hashes, ids and pictures in base64 stay. A key without a prefix of its own, such as 32 digits of
hexadecimal, is known by its name alone (`names`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EDGE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2}))"
"""Where a key may begin; what is left of an escaped character is no part of it."""

_MIXED: Final = r"(?=[\w-]*[0-9])(?=[\w-]*[A-Z])"
"""A key has digits and capitals; words that are joined by hyphens have not."""
_END: Final = r"(?![A-Za-z0-9_+/=-])"

PREFIXED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "anthropic": (("sk-",), r"sk-ant-[\w-]{8,}"),
    "openai": (("sk-",), r"sk-(?=[\w-]*[A-Z0-9])[\w-]{16,}"),
    "stripe": (("sk_l", "sk_t", "rk_l", "rk_t"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    "elevenlabs": (("sk_",), r"sk_[0-9a-f]{40,}"),
    "cerebras": (("csk-",), r"csk-(?=[a-z]*[0-9])[a-z0-9]{32,}"),
    "groq": (("gsk_",), r"gsk_[A-Za-z0-9]{20,}"),
    "xai": (("xai-",), r"xai-[A-Za-z0-9]{20,}"),
    "github": (
        ("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_"),
        r"(?:gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    ),
    "gitlab": (
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-", "gloas-"),
        r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[\w-]{16,}",
    ),
    "google": (("AIza",), r"AIza[\w-]{30,}"),
    "google_oauth": (("ya29.",), r"ya29\.[\w-]{20,}"),
    "google_client": (("GOCSPX-",), r"GOCSPX-[\w-]{20,}"),
    "google_refresh": (("1//0",), r"1//0[\w-]{40,}"),
    "huggingface": (("hf_",), r"hf_[A-Za-z0-9]{20,}"),
    "perplexity": (("pplx-",), r"pplx-[A-Za-z0-9]{20,}"),
    "replicate": (("r8_",), r"r8_[A-Za-z0-9]{20,}"),
    "fireworks": (("fw_",), r"fw_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}"),
    "together": (("tgp_v1_",), r"tgp_v1_[\w-]{30,}"),
    "voyage": (("pa-",), rf"pa-{_MIXED}[\w-]{{40,}}"),
    "nvidia": (("nvapi-",), r"nvapi-[\w-]{32,}"),
    "jina": (("jina_",), r"jina_(?=\w*[0-9])[\w-]{32,}"),
    "langsmith": (("lsv2_", "ls__"), r"(?:lsv2_(?:pt|sk)_[0-9a-f]{32}\w*|ls__[0-9a-f]{32})"),
    "tavily": (("tvly-",), r"tvly-(?=[\w-]*[0-9])[\w-]{20,}"),
    "pinecone": (("pcsk_",), r"pcsk_(?=\w*[0-9])\w{20,}"),
    "firecrawl": (("fc-",), r"fc-[0-9a-f]{32}"),
    "e2b": (("e2b_",), r"e2b_[0-9a-f]{32,}"),
    "npm": (("npm_",), r"npm_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{30,}"),
    "pypi": (("pypi-",), r"pypi-AgE[\w-]{16,}"),
    "docker": (("dckr_",), r"dckr_(?:pat|oat)_[\w-]{20,}"),
    "sendgrid": (("SG.",), r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    "mailgun": (("key-",), r"key-[0-9a-f]{32}" + _END),
    "resend": (("re_",), r"re_(?=\w*[0-9])(?=\w*[A-Z])[A-Za-z0-9]{6,}_[A-Za-z0-9]{16,}"),
    "databricks": (("dapi",), r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    "linear": (("lin_",), r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    "notion": (("ntn_", "secret_"), r"(?:ntn_[A-Za-z0-9]{32,}|secret_[A-Za-z0-9]{43})" + _END),
    "airtable": (("pat",), r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    "atlassian": (("ATATT3", "ATCTT3"), r"AT[AC]TT3[\w=-]{32,}"),
    "figma": (("figd_",), r"figd_[\w-]{32,}"),
    "postman": (("PMAK-",), r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    "digitalocean": (("doo_v1_", "dop_v1_", "dor_v1_"), r"do[opr]_v1_[0-9a-f]{64}"),
    "heroku": (("HRKU-",), r"HRKU-[\w-]{36,}"),
    "supabase": (("sbp_", "sb_secret_"), r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,})"),
    "planetscale": (("pscale_",), r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}"),
    "shopify": (("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    "square": (("sq0atp-", "sq0csp-"), r"sq0(?:atp|csp)-[\w-]{22,}"),
    "grafana": (("glsa_", "glc_"), r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_[\w+/=]{32,})"),
    "newrelic": (("NRAK-",), r"NRAK-[A-Z0-9]{27}"),
    "sentry": (("sntrys_", "sntryu_"), r"(?:sntrys_eyJ[\w+/=-]{20,}|sntryu_[0-9a-f]{64})"),
    "posthog": (("phx_",), r"phx_[A-Za-z0-9]{40,}"),
    "doppler": (("dp.",), r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]+\.)?[A-Za-z0-9]{40,}"),
    "vault": (("hvs.", "hvb.", "hvr."), r"hv[sbr]\.[\w-]{24,}"),
    "dropbox": (("sl.",), r"sl\.[\w.-]{100,}"),
    "slack": (
        ("xox", "xapp-"),
        r"(?:xox[abeoprs][.-][A-Za-z0-9.-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,})",
    ),
    "slack_webhook": (
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w-]+/[\w/-]{20,}",
    ),
    "discord_webhook": (("discord",), r"discord(?:app)?\.com/api/webhooks/[0-9]+/[\w-]{30,}"),
    "aws": (("AKIA", "ASIA"), r"A[KS]IA[A-Z0-9]{16,}"),
    "aws_session": (
        ("FwoGZXIvYXdz", "FQoGZXIvYXdz", "FQoDYXdz", "AQoDYXdz", "IQoJb3JpZ2lu"),
        r"(?:F(?:wo|Qo)GZXIvYXdz|[AF]QoDYXdz|IQoJb3JpZ2lu)[\w+/=%-]{40,}",
    ),
    "age": (("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    "jwt": (("eyJ",), r"eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*"),
}  # fmt: skip
"""Kind to the texts of which each of its keys begins with one, and its pattern."""

_UNPREFIXED: Final[Mapping[str, tuple[str, str]]] = {
    "private_key": (
        r"-----BEGIN[ +]",
        r"-----BEGIN[ +][A-Z0-9 +]*PRIVATE[ +]KEY(?:[ +]BLOCK)?-----"
        r"(?s:.*?)(?:-----END[ +][A-Z0-9 +]*PRIVATE[ +]KEY(?:[ +]BLOCK)?-----|\Z)",
    ),
    "twilio": (r"SK[0-9a-f]{32}", EDGE + r"SK[0-9a-f]{32}" + _END),
    "telegram": (r":A[\w-]{34}", EDGE + r"[0-9]{5,16}:A[\w-]{34}" + _END),
    "discord": (
        r"\.[\w-]{6}\.[\w-]{27}", EDGE + r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}",
    ),
    "azure_ad": (r"Q~[\w.~-]{31}", r"(?<![\w.~-])[\w.~]{3}[0-9]Q~[\w.~-]{31,34}(?![\w.~-])"),
    "azure_ai": (
        r"JQQJ9[9DH]",
        r"(?<![A-Za-z0-9+/])[A-Za-z0-9]{52}JQQJ9[9DH][A-Za-z0-9]{24,28}" + _END,
    ),
    "azure_storage": (
        r"\+ASt[A-Za-z0-9+/]{5}[AQgw]==",
        r"(?<![\w+/-])[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{5}[AQgw]==",
    ),
    "azure_search": (
        r"AzSe[A-D][A-Za-z0-9]{5}" + _END,
        r"(?<![A-Za-z0-9+/])[A-Za-z0-9]{42}AzSe[A-D][A-Za-z0-9]{5}" + _END,
    ),
    "terraform": (r"\.atlasv1\.", EDGE + r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}"),
    "url_password": (
        r"://[^\s/:@]*:[^\s/@]+@", r"(?<=://)[^\s/:@\"'<>\\\[]*:[^\s/@\"'<>\\\[]+(?=@)",
    ),
}  # fmt: skip
"""Kind to a pattern that is quick to look for and stands in each of its keys, and its pattern."""

_WORDED: Final[Mapping[str, str]] = {
    "bearer": r"(?i:\bbearer)\s+(?:(?=[A-Za-z.]*[0-9_~+/=-])[\w.~+/=-]{8,}|[\w.~+/=-]{20,})",
    "basic": r"(?i:authorization[\\\"':\s]*basic)\s+[A-Za-z0-9+/=]{6,}",
    "azure": r"(?i:(?<![\w-])api[-_]?key[\\\"']*\s*[:=]\s*[\\\"']*)[0-9a-fA-F]{32}\b",
}
"""What follows a word; `plain_hints` of the redactor look for them."""

FREE: Final[Mapping[str, str]] = {
    **_WORDED,
    **{kind: pattern for kind, (_, pattern) in _UNPREFIXED.items()},
}
"""Kind to its pattern, for those that begin with no prefix."""
SHAPES: Final = (*FREE, *PREFIXED)
"""All kinds."""
HINTS: Final = tuple(hint for hint, _ in _UNPREFIXED.values())

PERSONAL: Final[Mapping[str, tuple[str, str]]] = {
    "email": (
        r"[\w.%+-]@[\w-]",
        r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])",
    ),
    "phone": (
        r"\+[1-9(]",
        r"(?<![\w+])\+[1-9](?:[ ().-]{0,2}[0-9]){7,14}(?![0-9])",
    ),
}
"""What people may want to keep out of files besides secrets: only where it is asked for."""
