"""The flags that continue from a run, as verbs print them."""

import dataclasses
from pathlib import Path

from snm.config.settings import config_text, preset
from snm.runs.warm_start_hint import warm_start_flags


def test_the_flags_that_go_on_from_a_run(tmp_path):
    settings = tmp_path / "config.toml"
    plain = f"--config {settings} --warm-start {tmp_path}"
    assert warm_start_flags(tmp_path) == plain  # a run that is not there yet, such as RUN
    for memory, more in (("off", ""), ("on", " --memory auto --logit-adjustment auto")):
        settings.write_text(config_text(dataclasses.replace(preset("default"), memory=memory)))
        assert warm_start_flags(tmp_path) == plain + more
    flags = "--config 'my run/config.toml' --warm-start 'my run'"
    assert warm_start_flags(Path("my run")) == flags
