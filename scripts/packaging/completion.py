"""Completions for bash, zsh and fish, from the programs' descriptions of their command lines. All three work alike: the
words before the cursor select a command; if the previous word is an option with a value, complete the value; otherwise
complete options or commands."""


def takes(option):
    """Completions of a value: words, "FILES" or nothing."""
    return option.choices or ("FILES" if option.takes_file else [])


def wants_value(command):
    """(flags, completions of the value) of each option with a value."""
    return [(option.flags, takes(option)) for option in command.options if option.value]


def has_files(command):
    return any(argument.takes_file for argument in command.arguments)


def known_paths(root):
    return [command.name for command in root.all()[1:]]


def quoted(words):
    return "'" + words.replace("'", "'\\''") + "'"


def bash(root):
    name = "_" + root.name.replace("-", "_")
    lines = [
        f"# bash completion for {root.name}",
        f"{name}() {{",
        "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}",
    ]
    lines += [f"  local at={quoted(root.name)} i words='' files=''", "  # --option=value comes as three words."]
    lines += ["  [[ $current == = ]] && current=''", "  [[ $previous == = ]] && previous=${COMP_WORDS[COMP_CWORD - 2]}"]
    if paths := known_paths(root):
        lines += ["  for ((i = 1; i < COMP_CWORD; ++i)); do", '    case "$at ${COMP_WORDS[i]}" in']
        lines += [f"      {'|'.join(map(quoted, paths))}) at=\"$at ${{COMP_WORDS[i]}}\" ;;", "    esac", "  done"]
    lines.append('  case "$at:$previous" in')
    for command in root.all():
        for flags, values in wants_value(command):
            patterns = "|".join(quoted(f"{command.name}:{flag}") for flag in flags)
            does = "files=1" if values == "FILES" else f"words={quoted(' '.join(values))}"
            lines.append(f"    {patterns}) {does} ;;")
    lines += ["    *)", '      case "$at" in']
    for command in root.all():
        words = [flag for option in command.options for flag in option.flags] + [below.path[-1] for below in command.commands]
        lines.append(
            f"        {quoted(command.name)}) words={quoted(' '.join(words))}{' files=1' if has_files(command) else ''} ;;"
        )
    lines += ["      esac", "      # Options are offered where one has been begun, or nothing else fits."]
    lines += ['      [[ $current != -* && -n $files ]] && words=""', "      ;;", "  esac"]
    lines += [
        '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
        "  [[ -z $files ]] && return",
        "  compopt -o filenames 2>/dev/null",
    ]
    lines += ['  mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")', "}", f"complete -F {name} {root.name}"]
    return "\n".join(lines) + "\n"


def zsh(root):
    name = "_" + root.name
    # _describe interprets square brackets and colons; backslashes escape colons.
    item = lambda word, help: quoted(word.replace(":", "\\:") + ":" + help.replace(":", "\\:"))
    lines = [
        f"#compdef {root.name}",
        f"{name}() {{",
        f"  local at={quoted(root.name)} previous=${{words[CURRENT-1]}} word",
        "  local -a options commands",
    ]
    if paths := known_paths(root):
        lines += ['  for word in "${(@)words[2,CURRENT-1]}"; do', '    case "$at $word" in']
        lines += [f"      ({'|'.join(map(quoted, paths))}) at=\"$at $word\" ;;", "    esac", "  done"]
    lines.append('  case "$at:$previous" in')
    for command in root.all():
        for flags, values in wants_value(command):
            patterns = "|".join(quoted(f"{command.name}:{flag}") for flag in flags)
            does = "_files" if values == "FILES" else f"compadd -- {' '.join(map(quoted, values))}" if values else "_message value"
            lines.append(f"    ({patterns}) {does}; return ;;")
    lines += ["  esac", '  case "$at" in']
    for command in root.all():
        lines.append(f"    ({quoted(command.name)})")
        lines += (
            ["      options=("]
            + [f"        {item(flag, option.help)}" for option in command.options for flag in option.flags]
            + ["      )"]
        )
        lines += (
            ["      commands=("] + [f"        {item(below.path[-1], below.summary)}" for below in command.commands] + ["      )"]
        )
        lines += ["      [[ $PREFIX != -* ]] && { _files; return }"] * has_files(command) + ["      ;;"]
    lines += [
        "  esac",
        "  (( $#commands )) && _describe -t commands command commands",
        "  _describe -o -t options option options",
        "}",
    ]
    return "\n".join([*lines, f'{name} "$@"']) + "\n"


def fish(root):
    at = f"__{root.name.replace('-', '_')}_at"
    lines = [
        f"# fish completion for {root.name}",
        f"function {at}",
        f"  set -l at {quoted(root.name)}",
        "  for word in (commandline -opc)[2..]",
    ]
    lines += [
        '    if contains -- "$at $word" ' + (" ".join(map(quoted, known_paths(root))) or "''"),
        '      set at "$at $word"',
        "    end",
        "  end",
    ]
    lines += ['  test "$at" = "$argv"', "end", f"complete -c {root.name} -f"]
    for command in root.all():
        here = f"complete -c {root.name} -n {quoted(at + ' ' + command.name)}"
        for below in command.commands:
            lines.append(f"{here} -a {quoted(below.path[-1])} -d {quoted(below.summary)}")
        if has_files(command):
            lines.append(f"{here} -F")
        for option in command.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            values = takes(option)
            value = (
                " -r -F" if values == "FILES" else f" -x -a {quoted(' '.join(values))}" if values else " -x" if option.value else ""
            )
            lines.append(f"{here} {flags}{value} -d {quoted(option.help)}")
    return "\n".join(lines) + "\n"
