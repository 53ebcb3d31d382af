# Sourced by the other scripts: how they speak. No side effects.

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$(printf '\033[1m') plain=$(printf '\033[0m')
else
	bold='' plain=''
fi

# A heading: what happens now.
say() {
	printf '%s==> %s%s\n' "$bold" "$*" "$plain"
}

# fail WHAT HOW-TO-MEND: the shape of the program's own errors, then exit 1.
fail() {
	printf 'error: %s\nhelp: %s\n' "$1" "$2" >&2
	exit 1
}

# once_more_alone CODE COMMAND TEST...: tests that failed beside others run again by COMMAND, which ends the script if
# one of them fails. Up to three: a machine's load is no excuse for more, and no test is none. Those end it with CODE.
once_more_alone() {
	local code=$1 command=$2
	shift 2
	if [ $# -eq 0 ] || [ $# -gt 3 ]; then
		exit "$code"
	fi
	say "once more, alone: $*"
	"$command" "$@"
	say "passed alone, but failed beside others: $*"
}

# 75 → 1m15s
took() {
	if [ "$1" -ge 60 ]; then
		printf '%dm%02ds' $(($1 / 60)) $(($1 % 60))
	else
		printf '%ds' "$1"
	fi
}
