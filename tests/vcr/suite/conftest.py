import os

import pytest
from settings import CONFIG

os.environ["OPENAI_API_KEY"] = "sk-proj-1234567890abcdefghijklmnopqrstuv"
os.environ["ANTHROPIC_API_KEY"] = "sk-ant-api03-1234567890abcdefghijklmnopqrstuv"


@pytest.fixture
def vcr_config():
    return CONFIG
