"""What must not be written down, told by names."""

import pytest

from tests.inside.attempts import is_secret, masked_command, masked_env


@pytest.mark.parametrize(
    "name",
    ["WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "OPENAI_APIKEY", "GITHUB_PAT", "token",
     "MY_PASSWD", "CLIENT_SECRET_2", "KEY"],
)  # fmt: skip
def test_these_are_secrets(name):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["LR", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "PWD", "OLDPWD", "PATH", "PYTHONPATH", "AUTHOR", "COMPASS"]
)
def test_these_are_not(name):
    assert not is_secret(name)


def test_an_empty_secret_is_shown_as_empty():
    assert masked_env([("HF_TOKEN", "")]) == {"HF_TOKEN": ""}


def test_a_password_in_a_url_is_masked_whatever_the_name():
    assert masked_env([("DATABASE", "postgres://ann:sesame@db/x")]) == {"DATABASE": "postgres://ann:***@db/x"}


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        ("HF_TOKEN=sesame python t.py", "HF_TOKEN=*** python t.py"),
        ("python t.py --api-key 'two words' --lr 1", "python t.py --api-key *** --lr 1"),
        ("python t.py --token=sesame && echo done", "python t.py --token=*** && echo done"),
        ("curl https://ann:sesame@host/x", "curl https://ann:***@host/x"),
        ("python t.py --apitoken=sesame", "python t.py --apitoken=***"),
        ("python t.py --tokenizer bert --max-tokens 5", "python t.py --tokenizer bert --max-tokens 5"),
        ("python t.py --auth=none --monkey=3", "python t.py --auth=none --monkey=3"),
        ("for key in a b; do echo $key; done", "for key in a b; do echo $key; done"),
    ],
)
def test_secrets_in_a_shell_line_are_masked(command, masked):
    assert masked_command(command) == masked


def test_an_option_without_a_value_masks_nothing():
    assert masked_command(["x", "--token", "--lr", "1"]) == ["x", "--token", "--lr", "1"]


def test_a_shell_line_inside_a_list_is_masked_like_one():
    command = ["/bin/bash", "-c", "HF_TOKEN=sesame python t.py --lr 1"]
    assert masked_command(command) == ["/bin/bash", "-c", "HF_TOKEN=*** python t.py --lr 1"]


def test_an_assignment_in_a_list_is_masked():
    assert masked_command(["env", "HF_TOKEN=sesame", "x"]) == ["env", "HF_TOKEN=***", "x"]
