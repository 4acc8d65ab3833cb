"""The unit: systemd accepts all of it and rates its exposure as low.

scripts/python -m pytest tests/packaging/service_test.py
"""

import os
import subprocess

from conftest import ROOT

MOST_EXPOSURE = 2.0  # out of 10, on systemd's scale


def analyze(*arguments, **environment):
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, env=os.environ | environment)


def unit(installed):
    return installed / "lib/systemd/system/ringside-server.service"


def test_systemd_accepts_the_unit(installed):
    result = analyze("verify", "--recursive-errors=no", unit(installed), MANPATH=f"{installed}/share/man")
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_systemd_accepts_the_gpu_drop_in(installed, tmp_path):
    copy = tmp_path / unit(installed).name
    copy.write_text(unit(installed).read_text())
    beyond = tmp_path / (copy.name + ".d") / "gpu.conf"
    beyond.parent.mkdir()
    beyond.write_text((ROOT / "scripts/packaging/gpu.conf").read_text())
    result = analyze("verify", "--recursive-errors=no", copy, MANPATH=f"{installed}/share/man")
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
    beyond.write_text("[Service]\nDeviceAllowed=char-nvidia* rw\n")
    assert "gpu.conf" in analyze("verify", "--recursive-errors=no", copy).stderr, "it is read"


def test_systemd_rates_the_unit_as_hardened(installed):
    result = analyze("security", "--offline=true", f"--threshold={int(MOST_EXPOSURE * 10)}", unit(installed))
    assert result.returncode == 0, result.stdout + result.stderr
    control = analyze("security", "--offline=true", "--threshold=1", unit(installed))
    assert control.returncode != 0, "a threshold is kept"


def test_unit_user_is_created(installed):
    text = unit(installed).read_text()
    user = (installed / "lib/sysusers.d/ringside.conf").read_text().split()[1]
    assert f"\nUser={user}\n" in text and f"\nStateDirectory={user}\n" in text
