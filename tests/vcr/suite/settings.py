import os

import vcr

CONFIG = {"filter_headers": ["authorization", "x-api-key"], "decode_compressed_response": True}
MODE = os.environ.get("SUITE_MODE", "none")

recorder = vcr.VCR(
    cassette_library_dir=os.path.join(os.path.dirname(__file__), "cassettes", "decorated"),
    record_mode=MODE,
    path_transformer=vcr.VCR.ensure_suffix(".yaml"),
    **CONFIG,
)
