"""Off until the person says otherwise, in whatever form they say it."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from hereabouts.node.errors import SettingsError
from hereabouts.node.settings import EnabledMode, LocationSettings, LocationSwitch, load_settings


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("GATEWAY_URL", "TOKEN", "DISPLAY_NAME", "PROVIDER", "SETTINGS_FILE", "STATE_DIR"):
        monkeypatch.delenv(f"HEREABOUTS_NODE_{name}", raising=False)


def test_without_a_file_sharing_is_off_and_precise_would_be_on() -> None:
    assert LocationSwitch(None)() == LocationSettings(enabled_mode=EnabledMode.OFF, precise_enabled=True)
    assert load_settings().settings_file is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", '[location]\nenabledMode = "whileUsing"\npreciseEnabled = false\n'),
        ("b.toml", 'location.enabledMode = "whileUsing"\nlocation.preciseEnabled = false\n'),
        ("c.json", '{"location": {"enabledMode": "whileUsing", "preciseEnabled": false}}'),
        ("d.json", '{"location.enabledMode": "whileUsing", "location.preciseEnabled": false}'),
    ],
)
def test_the_file_may_be_toml_or_json_nested_or_dotted(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)

    assert LocationSwitch(file)() == LocationSettings(enabled_mode=EnabledMode.WHILE_USING, precise_enabled=False)


def test_a_change_of_the_file_counts_at_once(settings_file: Callable[..., Path]) -> None:
    switch = LocationSwitch(settings_file(mode="always"))

    assert switch().enabled_mode is EnabledMode.ALWAYS
    settings_file(mode="off")
    assert switch().enabled_mode is EnabledMode.OFF


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "location = 3",
        '[location]\nenabledMode = "On"\n',
        '[location]\nenabledMode = "always"\npreciseEnabled = "no"\n',
        '[location]\nenabledMode = "always"\nprecise = false\n',
        "[location]\nenabledMode = true\n",
    ],
)
def test_a_file_that_is_not_understood_means_off_and_is_complained_of_once(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    switch = LocationSwitch(file)

    with caplog.at_level(logging.WARNING):
        assert switch().enabled_mode is EnabledMode.OFF
        assert switch().enabled_mode is EnabledMode.OFF
    assert len(caplog.records) == 1
    with pytest.raises(SettingsError):
        load_settings(file)


def test_a_file_that_vanished_means_off(settings_file: Callable[..., Path]) -> None:
    file = settings_file(mode="always")
    switch = LocationSwitch(file)
    file.unlink()

    assert switch().enabled_mode is EnabledMode.OFF


def test_arguments_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "node.toml"
    file.write_text('gatewayUrl = "ws://file/"\ntoken = "from-file"\ndisplayName = "from file"\n')
    monkeypatch.setenv("HEREABOUTS_NODE_DISPLAY_NAME", "from env")
    monkeypatch.setenv("HEREABOUTS_NODE_GATEWAY_URL", "ws://env/")

    settings = load_settings(file, gateway_url="ws://argument/", token=None)

    assert settings.gateway_url == "ws://argument/"
    assert settings.display_name == "from env"
    assert settings.token is not None
    assert settings.token.get_secret_value() == "from-file"
    assert settings.settings_file == file


def test_the_environment_can_name_the_file(settings_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEREABOUTS_NODE_SETTINGS_FILE", str(settings_file()))

    assert load_settings().settings_file == settings_file()


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        load_settings(tmp_path / "nowhere.toml")


def test_settings_show_neither_token_nor_place() -> None:
    settings = load_settings(token="s3cret", provider="fixed:48.20849,16.37208")

    assert "s3cret" not in repr(settings)
    assert "48.2" not in repr(settings)


def test_a_bad_address_is_named_without_being_quoted() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(gateway_url="http://user:s3cret@host/")

    assert "gateway_url" in str(caught.value)
    assert "s3cret" not in str(caught.value)
