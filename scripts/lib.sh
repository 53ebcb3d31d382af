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

# 75 → 1m15s
took() {
	if [ "$1" -ge 60 ]; then
		printf '%dm%02ds' $(($1 / 60)) $(($1 % 60))
	else
		printf '%ds' "$1"
	fi
}
