"""`cmake --install` into an empty folder: the programs run there, with all their files.

scripts/python -m pytest tests/packaging/install_test.py
"""

import subprocess

from conftest import BUILD

FILES = """
    bin/ringside bin/ringside-server bin/ringside-bench bin/ringside-convert etc/ringside/server.yaml
    lib/systemd/system/ringside-server.service lib/sysusers.d/ringside.conf libexec/ringside/ringside-image-decoder
    share/bash-completion/completions/ringside share/bash-completion/completions/ringside-server
    share/bash-completion/completions/ringside-bench share/bash-completion/completions/ringside-convert
    share/doc/ringside/operating/runbook.md share/doc/ringside/operating/options.md share/doc/ringside/copyright
    share/fish/vendor_completions.d/ringside.fish share/fish/vendor_completions.d/ringside-server.fish
    share/fish/vendor_completions.d/ringside-bench.fish share/fish/vendor_completions.d/ringside-convert.fish
    share/ringside/monitoring/ringside.dashboard.json share/ringside/monitoring/ringside.rules.yml share/ringside/sources
    share/man/man1/ringside.1.gz share/man/man8/ringside-server.8.gz
    share/man/man1/ringside-bench.1.gz share/man/man1/ringside-convert.1.gz
    share/zsh/vendor-completions/_ringside share/zsh/vendor-completions/_ringside-server
    share/zsh/vendor-completions/_ringside-bench share/zsh/vendor-completions/_ringside-convert
""".split()


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def settings_in(path):
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_installs_every_file(installed):
    assert [name for name in FILES if not (installed / name).is_file()] == []


def test_programs_run_from_the_prefix(installed):
    version = run(installed / "bin/ringside-server", "--version")
    assert version.returncode == 0 and version.stdout.startswith("ringside-server ")
    assert run(installed / "bin/ringside", "--version").stdout.split()[1] == version.stdout.split()[1]
    assert "Usage: ringside-server" in run(installed / "bin/ringside-server", "--help").stdout
    assert "ringside" in run(installed / "bin/ringside", "--help").stdout
    # The client and the server find the other programs next to them.
    for command, word in (("ringside keys", "rotate"), ("ringside bench", "append"), ("ringside convert", "--tensor-parallel"),
                          ("ringside-server convert", "--tensor-parallel")):
        program, verb = command.split()
        help = run(installed / "bin" / program, verb, "--help")
        assert help.returncode == 0 and word in help.stdout, command
    for program in ("ringside-bench", "ringside-convert"):
        assert run(installed / "bin" / program, "--version").stdout.split() == [program, version.stdout.split()[1]]


def test_settings_file_is_read_and_needs_a_model(installed):
    settings = installed / "etc/ringside/server.yaml"
    refused = run(installed / "bin/ringside-server", "--config", settings)
    assert (refused.returncode, refused.stderr) == (78, "ringside-server: --model: a model is required, or --models-dir\n")
    assert settings_in(settings) == [f"store-path: {installed}/var/lib/ringside"]


def test_commented_settings_are_valid(installed, tmp_path, programs):
    server, *_ = programs
    flags = {flag for option in server.options for flag in option.flags}
    lines = [
        line[1:]
        for line in (installed / "etc/ringside/server.yaml").read_text().splitlines()
        if line.startswith("#") and line[1:2] != " "
    ]
    assert len(lines) > 4 and all("--" + line.split(":")[0] in flags for line in lines), lines


def test_reinstall_keeps_changed_settings(installed, tmp_path):
    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path], check=True, capture_output=True)
    settings = tmp_path / "etc/ringside/server.yaml"
    settings.write_text("model: mine.gguf\n")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path], check=True, capture_output=True)
    assert settings.read_text() == "model: mine.gguf\n"


def test_settings_are_in_etc_for_prefix_usr(tmp_path):
    subprocess.run(
        ["cmake", "--install", BUILD, "--prefix", "/usr"],
        check=True,
        capture_output=True,
        env={"DESTDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert settings_in(tmp_path / "etc/ringside/server.yaml") == ["store-path: /var/lib/ringside"]
    unit = (tmp_path / "usr/lib/systemd/system/ringside-server.service").read_text()
    assert "ExecStart=/usr/bin/ringside-server --config /etc/ringside/server.yaml\n" in unit
    assert "@" not in unit.replace("@system-service", "").replace("@privileged", "").replace("@resources", "")
