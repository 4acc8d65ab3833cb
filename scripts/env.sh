# Shared by the scripts: locations and progress messages. Sourced, not run. Standard output is reserved for a script's
# result; all messages go to standard error.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ringside

bold='' dim='' red='' plain=''
if [[ -t 2 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' plain=$'\e[0m'
fi
clear=''
[[ -t 2 && ${TERM:-dumb} != dumb ]] && clear=$'\r\e[K'
say() { printf '%s%s==> %s%s\n' "$clear" "$bold" "$*" "$plain" >&2; }
note() { printf '%s%s    %s%s\n' "$clear" "$dim" "$*" "$plain" >&2; }
# On a terminal: a line that the next message overwrites, cut at the terminal's width.
progress() {
  [[ -n $clear ]] || return 0
  local text="    $*" columns
  columns=$(tput cols 2>/dev/null) || columns=80
  printf '%s%s%s%s' "$clear" "$dim" "${text:0:columns-1}" "$plain" >&2
}
die() {
  printf '%s%serror:%s %s\n' "$clear" "$red" "$plain" "$*" >&2
  exit 1
}
# Size in MB of the model's download by another process (scripts/model); nothing without one.
fetched_mb() {
  compgen -G "$cache/models/fetch.*" >/dev/null || return 0
  du -cm "$cache"/models/fetch.*/{pip-*,*.whl} 2>/dev/null | tail -n 1 | cut -f 1 || true
}
