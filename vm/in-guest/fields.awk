# Functions for scripts that read the events of ftrace text; to be loaded before them, with another -f.

# The value of `name` in the event, up to the next space.
function field(name,    rest) {
	rest = substr($0, index($0, " " name "=") + length(name) + 2)
	sub(/ .*/, "", rest)
	return rest
}
