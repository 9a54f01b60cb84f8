"""Patterns of secrets: the prefixes that vendors document for their keys.

Each pattern begins with the vendor's prefix and requires the length of a key, so that prose,
hashes, ids and pictures in base64 stay. A key without a prefix, such as 32 hexadecimal digits, is
recognized by its name only (`names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

EDGE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
"""A place where a key may begin; the rest of an escape sequence is not part of the key."""

_RANDOM: Final = r"(?=[\w-]*?(?:[0-9]|[A-Z]{2}|[a-z][A-Z]))"
"""A key has digits, or capitals in the middle of a word. One in sixty short keys has no digit."""
_TANGLED: Final = r"(?=[\w-]*?[a-z][A-Z])"
"""The same for a prefix that words have too: one digit may belong to a year or a version."""
_END: Final = r"(?![A-Za-z0-9_+/=-])"

PREFIXED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "anthropic": (("sk-",), r"sk-ant-[\w-]{8,}"),
    "openai": (("sk-",), r"sk-(?=[\w-]*[A-Z0-9])[\w-]{16,}"),
    "stripe": (
        (*(f"{kind}_{mode}_" for kind in ("sk", "rk", "sk_org", "rk_org")
           for mode in ("live", "test", "prod")), "whsec_"),
        r"(?:[sr]k_(?:org_)?(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[\w+/=]{24,})",
    ),
    "elevenlabs": (("sk_",), r"sk_[0-9a-f]{40,}"),
    "cerebras": (("csk-",), r"csk-[a-z0-9]{32,}"),
    "groq": (("gsk_",), r"gsk_[A-Za-z0-9]{20,}"),
    "xai": (("xai-",), rf"xai-{_RANDOM}\w{{20,}}"),
    "github": (
        ("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_"),
        r"(?:ghs_\w*?eyJ[\w-]+(?:\.[\w-]+){0,2}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    ),
    "gitlab": (
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-", "gloas-",
         "glffct-", "glimt-", "glrtr-", "glwt-", "GR1348941"),
        r"(?:gl(?:pat|dt|rtr?|cbt|ptt|ft|soat|agent|oas|ffct|imt|wt)-[\w-]{16,}"
        r"(?:\.[0-9a-z]{2}\.?[0-9a-z]{7,9}(?![0-9a-z]))?|GR1348941[\w-]{20})",
    ),
    "google": (("AIza", "AQ.A"), r"(?:AIza|AQ\.A)[\w-]{30,}"),
    "google_oauth": (("ya29.",), r"ya29\.[\w-]{20,}"),
    "google_client": (("GOCSPX-",), r"GOCSPX-[\w-]{20,}"),
    "google_refresh": (("1//",), r"1//0[\w-]{40,}"),
    "huggingface": (("hf_", "api_org_"), r"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    "perplexity": (("pplx-",), r"pplx-[A-Za-z0-9]{20,}"),
    "replicate": (("r8_",), rf"r8_{_RANDOM}[\w-]{{20,}}"),
    "fireworks": (("fw_",), r"fw_(?=[A-Za-z]*(?:[0-9]|[A-Z]{2}))[A-Za-z0-9]{20,}"),
    "together": (("tgp_v1_",), r"tgp_v1_[\w-]{30,}"),
    "voyage": (("pa-",), rf"pa-{_TANGLED}[\w-]{{40,}}"),
    "nvidia": (("nvapi-",), r"nvapi-[\w-]{32,}"),
    "jina": (("jina_",), rf"jina_(?:(?=[0-9a-f]{{32}})|{_TANGLED})[\w-]{{32,}}"),
    "langsmith": (("lsv2_", "ls__"), r"(?:lsv2_(?:pt|sk)_[0-9a-f]{32}\w*|ls__[0-9a-f]{32})"),
    "tavily": (("tvly-",), rf"tvly-{_RANDOM}[\w-]{{20,}}"),
    "pinecone": (("pcsk_",), rf"pcsk_{_RANDOM}\w{{20,}}"),
    "firecrawl": (("fc-",), r"fc-[0-9a-f]{32}"),
    "e2b": (("e2b_",), r"e2b_[0-9a-f]{32,}"),
    "npm": (("npm_",), r"npm_(?=[A-Za-z]*(?:[0-9]|[A-Z]{2}))[A-Za-z0-9]{30,}"),
    "pypi": (("pypi-",), r"pypi-AgE[\w-]{16,}"),
    "docker": (("dckr_",), r"dckr_(?:pat|oat)_[\w-]{20,}"),
    "sendgrid": (("SG.",), r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    "mailgun": (("key-",), r"key-[0-9a-f]{32}" + _END),
    "resend": (("re_",), rf"re_{_TANGLED}[A-Za-z0-9]{{6,}}_[A-Za-z0-9]{{16,}}"),
    "linear": (("lin_",), r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    "notion": (("ntn_", "secret_"), r"(?:ntn_[A-Za-z0-9]{32,}|secret_[A-Za-z0-9]{43})" + _END),
    "atlassian": (("ATATT3", "ATCTT3", "ATBB"), r"(?:AT[AC]TT3[\w=+/-]{32,}|ATBB[\w=.-]{20,})"),
    "figma": (("figd_", "figo_", "figp_"), r"fig[dop]_[\w=-]{32,}"),
    "postman": (("PMAK-",), r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    "digitalocean": (("doo_v1_", "dop_v1_", "dor_v1_"), r"do[opr]_v1_[0-9a-f]{64}"),
    "heroku": (("HRKU-",), r"HRKU-[\w-]{36,}"),
    "supabase": (
        ("sbp_", "sb_secret_"),
        r"(?:sbp_(?:v[0-9]_|oauth_)?[0-9a-z]{40}|sb_secret_[\w-]{20,})",
    ),
    "planetscale": (("pscale_",), r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}"),
    "shopify": (
        ("shpat_", "shpca_", "shppa_", "shpss_", "shpua_"),
        r"shp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{32}",
    ),
    "square": (("sq0atp-", "sq0csp-", "sq0idp-"), r"sq0(?:atp|csp|idp)-[\w-]{22,}"),
    "grafana": (
        ("glsa_", "glc_", "eyJrIjoi"),
        r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_[\w+/=]{32,}"
        r"|eyJrIjoi[A-Za-z0-9]{70,}={0,3}(?![\w.-]))",
    ),
    "newrelic": (("NRAK-", "NRII-", "NRIQ-"), r"(?:NRAK-[A-Z0-9]{27}|NRI[IQ]-[\w-]{25,})"),
    "sentry": (("sntrys_", "sntryu_"), r"(?:sntrys_eyJ[\w+/=-]{20,}|sntryu_[0-9a-f]{64})"),
    "posthog": (("phx_",), r"phx_[A-Za-z0-9]{40,}"),
    "doppler": (("dp.",), r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]+\.)?[A-Za-z0-9]{40,}"),
    "vault": (("hvs.", "hvb.", "hvr."), r"hv[sbr]\.[\w-]{24,}"),
    "dropbox": (("sl.",), r"sl\.[\w.-]{100,}"),
    "slack": (
        (*(f"xox{kind}{mark}" for kind in "abcdeoprs" for mark in ".-"), "xapp-"),
        r"(?:xox[a-eoprs][.-][A-Za-z0-9.%-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,})",
    ),
    "slack_webhook": (
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w-]+/[\w/-]{20,}",
    ),
    "discord_webhook": (
        ("discord.com/", "discordapp.com/"),
        r"discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]+/[\w-]{30,}",
    ),
    "aws": (("AKIA", "ASIA", "ABIA", "ACCA"), r"A(?:[KSB]I|CC)A[A-Z0-9]{16,}"),
    "aws_session": (
        ("FwoGZXIvYXdz", "FQoGZXIvYXdz", "FQoDYXdz", "AQoDYXdz", "IQoJb3JpZ2lu"),
        r"(?:F(?:wo|Qo)GZXIvYXdz|[AF]QoDYXdz|IQoJb3JpZ2lu)[\w+/=%-]{40,}",
    ),
    "age": (("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    "jwt": (
        ("eyJ", "ewogIC"),
        r"(?:eyJ|ewogIC)[\w-]{5,}"
        r"\.(?:[\w-]{5,}\.[\w-]*|\.[\w-]{5,})(?:\.[\w-]{5,}\.[\w-]{5,})?",
    ),
    "onepassword": (
        ("ops_", "A3-"),
        r"(?:ops_eyJ[\w+/=-]{100,}"
        r"|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3})",
    ),
    "adobe": (("p8e-",), rf"p8e-{_RANDOM}[A-Za-z0-9]{{32}}"),
    "alibaba": (("LTAI",), r"LTAI(?=[A-Za-z]*[0-9])[A-Za-z0-9]{12,26}" + _END),
    "apify": (("apify_api_",), r"apify_api_[A-Za-z0-9]{32,}"),
    "artifactory": (("AKCp",), r"AKCp[A-Za-z0-9]{69}" + _END),
    "bedrock": (
        ("ABSK", "bedrock-api-key-"),
        r"(?:ABSK[A-Za-z0-9+/]{100,}={0,2}|bedrock-api-key-[\w+/=%-]{20,})",
    ),
    "bitbucket": (("BBDC-",), r"BBDC-[\w+/@-]{40,}"),
    "brevo": (("xkeysib-", "xsmtpsib-"), r"x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    "buildkite": (("bkua_",), r"bkua_[0-9a-z]{40}"),
    "circleci": (("CCIPAT_", "CCIPRJ_"), r"CCIP(?:AT|RJ)_[A-Za-z0-9]{22}_[0-9a-fA-F]{40}"),
    "clojars": (("CLOJARS_",), r"(?i:CLOJARS_[a-z0-9]{60})"),
    "cloudflare": (
        ("v1.0-", "cfat_", "cfk_", "cfut_"),
        r"(?:v1\.0-[0-9a-f]{24}-[0-9a-f]{146}|cf(?:[au]t|k)_[A-Za-z0-9]{40}[0-9a-f]{8})",
    ),
    "contentful": (("CFPAT-",), r"CFPAT-[\w-]{43}"),
    "duffel": (("duffel_",), r"duffel_(?:test|live)_[\w=-]{43}"),
    "easypost": (("EZAK", "EZTK"), r"EZ[AT]K[A-Za-z0-9]{54}"),
    "facebook": (("EAAC", "EAAM"), r"EAA[CM][A-Za-z0-9]{100,}" + _END),
    "flutterwave": (("FLWSECK-", "FLWSECK_"), r"FLWSECK(?:_TEST|_LIVE)?-[0-9a-zA-Z]{12,}(?:-X)?"),
    "fly": (("fo1_", "fm1a_", "fm1r_", "fm2_"), r"(?:fo1_[\w-]{43}|fm(?:1[ar]|2)_[\w+/=,-]{100,})"),
    "frameio": (("fio-u-",), r"fio-u-[\w=-]{64}"),
    "friendli": (("flp_",), rf"flp_{_RANDOM}[A-Za-z0-9]{{40,}}"),
    "harness": (("pat.", "sat."), r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    "hubspot": (("pat-",), r"pat-(?:na|eu|ap)[0-9]-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "infracost": (("ico-",), rf"ico-{_RANDOM}[A-Za-z0-9]{{32}}"),
    "inngest": (("signkey-",), r"signkey-(?:prod|test|branch|dev)-[0-9a-f]{32,}"),
    "launchdarkly": (("sdk-",), r"sdk-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "mapbox": (("sk.eyJ",), r"sk\.eyJ[\w-]{40,}\.[\w-]{20,}"),
    "mem0": (("m0-",), rf"m0-{_TANGLED}[A-Za-z0-9]{{38,}}"),
    "neon": (("napi_",), r"napi_[a-z0-9]{48,}"),
    "netlify": (("nfp_", "nfc_"), rf"nf[cp]_{_RANDOM}[A-Za-z0-9]{{30,}}"),
    "octopus": (("API-",), r"API-[A-Z0-9]{26,}" + _END),
    "openshift": (("sha256~",), r"sha256~[\w-]{43}"),
    "polar": (("polar_",), r"polar_(?:oat|pat|rst|whs)_[\w-]{32,}"),
    "prefect": (("pnb_", "pnu_"), rf"pn[bu]_{_RANDOM}[A-Za-z0-9]{{36}}"),
    "pulumi": (("pul-",), r"pul-[0-9a-f]{40}"),
    "readme": (("rdme_",), r"rdme_[a-z0-9]{70}"),
    "render": (("rnd_",), rf"rnd_{_RANDOM}[A-Za-z0-9]{{26,}}"),
    "rootly": (("rootly_",), r"rootly_[0-9a-f]{64}"),
    "rubygems": (("rubygems_",), r"rubygems_[0-9a-f]{48}"),
    "runpod": (("rpa_",), r"rpa_[A-Z0-9a-z]{40,}"),
    "scalingo": (("tk-us-",), rf"tk-us-{_RANDOM}[\w-]{{48}}"),
    "settlemint": (("sm_aat_", "sm_pat_", "sm_sat_"), r"sm_[aps]at_[A-Za-z0-9]{16,}"),
    "shippo": (("shippo_",), r"shippo_(?:live|test)_[0-9a-fA-F]{40}"),
    "sourcegraph": (
        ("sgp_", "slk_"),
        r"(?:sgp_(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40}|slk_[0-9a-f]{64})",
    ),
    "sonar": (("squ_", "sqp_", "sqa_"), r"sq[apu]_[0-9a-f]{40}"),
    "tailscale": (("tskey-",), r"tskey-[a-z]+-[\w-]{20,}"),
    "teams_webhook": (
        ("webhook.office.com/",),
        r"webhook\.office\.com/webhookb2/[\w@-]{36,}/IncomingWebhook/[\w/-]{40,}",
    ),
    "trigger": (("tr_",), rf"tr_(?:dev|prod|stg|preview|pat)_{_RANDOM}[A-Za-z0-9]{{16,}}"),
    "typeform": (("tfp_",), rf"tfp_{_RANDOM}[\w.=-]{{40,}}"),
    "vercel": (("vca_", "vci_", "vck_", "vcp_", "vcr_"), rf"vc[aikpr]_{_RANDOM}[A-Za-z0-9]{{24,}}"),
    "wandb": (("wandb_v1_",), r"wandb_v1_\w{32,}"),
    "yandex": (("AQVN",), r"AQVN(?=[\w-]*?[a-z][A-Z0-9])[\w-]{35,38}" + _END),
    "zapier_webhook": (
        ("hooks.zapier.com/",),
        r"hooks\.zapier\.com/hooks/catch/[0-9]+/[a-z0-9]{6,}",
    ),
}  # fmt: skip
"""For each kind: prefixes of its keys, and its pattern."""

_EVERYDAY: Final = frozenset(("API-", "key-", "sdk-", "secret_"))
"""Prefixes that everyday words have, too, such as those of versions and ids."""


def _marks(prefixes: Iterable[str]) -> str:
    """Return a pattern for the prefixes that say alone whose key begins; empty if none does."""
    plain = (p for p in prefixes if len(p) > 3 or p[-1] in "-_")
    return "|".join(re.escape(p) for p in plain if p not in _EVERYDAY and not re.search("[./]", p))


CUT: Final = (
    EDGE
    + f"(?:{'|'.join(f'(?P<{k}>{m})' for k, (p, _) in PREFIXED.items() if (m := _marks(p)))})"
    + _RANDOM
    + r"[\w-]{6,}(?=[\"'`]?…)"
)
"""The beginning of a key that a report cut: ``ghp_4fK1x9…`` is shorter than a key, and most of it
may be there."""

_UNPREFIXED: Final[Mapping[str, tuple[str, str]]] = {
    "private_key": (
        r"-----BEGIN[ +]",
        r"-----BEGIN[ +][A-Z0-9 +]*PRIVATE[ +]KEY(?:[ +]BLOCK)?-----"
        r"(?s:.*?)(?:-----END[ +][A-Z0-9 +]*PRIVATE[ +]KEY(?:[ +]BLOCK)?-----|\Z)",
    ),
    "twilio": (r"SK[0-9a-f]{32}", EDGE + r"SK[0-9a-f]{32}" + _END),
    "databricks": (r"dapi[0-9a-f]{32}", EDGE + r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    "airtable": (r"\.[0-9a-f]{64}", EDGE + r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    "clickhouse": (r"4b1d[A-Za-z0-9]{38}", EDGE + r"4b1d(?=\w*[G-Zg-z])[A-Za-z0-9]{38}" + _END),
    "dynatrace": (
        r"dt0[a-z][0-9]{2}\.",
        EDGE + r"dt0[a-z][0-9]{2}\.[A-Za-z0-9]{8,24}\.[A-Za-z0-9]{64}",
    ),
    "mailgun_key": (
        r"-[0-9a-f]{8}-[0-9a-f]{8}" + _END,
        r"(?<![A-Za-z0-9_-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}" + _END,
    ),
    "mailchimp": (r"-us[0-9]", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}" + _END),
    "telegram": (r":A[\w-]{34}", EDGE + r"[0-9]{5,16}:A[\w-]{34}" + _END),
    "discord": (
        r"\.[\w-]{6}\.[\w-]{27}",
        EDGE + r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}",
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
        r"://[^\s/:@]*:[^\s/@]+@",
        r"(?<=://)[^\s/:@\"'<>\\\[]*:[^\s/@\"'<>\\\[]+(?=@)",
    ),
}
"""For each kind: a pattern that is fast to search and part of each key, and the full pattern."""

_WORDED: Final[Mapping[str, str]] = {
    "bearer": r"(?i:\bbearer)\s+(?:(?=[A-Za-z.]*[0-9_~+/=-])[\w.~+/=-]{8,}|[\w.~+/=-]{20,})",
    "basic": r"(?i:authorization[\\\"':\s]*basic)\s+[A-Za-z0-9+/=]{6,}",
    "azure": r"(?i:(?<![\w-])api[-_]?key[\\\"']*\s*[:=]\s*[\\\"']*)[0-9a-fA-F]{32}\b",
}
"""Patterns of secrets after a word; the redactor's `plain_hints` search for the words."""

FREE: Final[Mapping[str, str]] = {
    **_WORDED,
    **{kind: pattern for kind, (_, pattern) in _UNPREFIXED.items()},
}
"""For each kind without a prefix: its pattern."""
SHAPES: Final = (*FREE, *PREFIXED)
"""All patterns by kind."""
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
"""Personal data, by kind; it is replaced only on request."""
