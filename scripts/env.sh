# Shared by the scripts: locations and progress messages. Sourced, not run. Standard output is reserved for a script's
# result; all messages go to standard error.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ringside

bold='' dim='' red='' plain=''
if [[ -t 2 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' plain=$'\e[0m'
fi
say() { printf '%s==> %s%s\n' "$bold" "$*" "$plain" >&2; }
note() { printf '%s    %s%s\n' "$dim" "$*" "$plain" >&2; }
die() {
  printf '%serror:%s %s\n' "$red" "$plain" "$*" >&2
  exit 1
}
