# To be sourced: apt's own tools with separate package lists and a separate configuration, for packages of any
# release of Debian, whatever release this machine runs. apt checks signatures; nothing is installed.

debian_cache=${XDG_CACHE_HOME:-$HOME/.cache}/equipoise/debian

# configure_apt SUITE...: sets `apt`, the options for apt-get and apt-cache. The lists are at most a
# day old.
configure_apt() {
	local repository suites="$*"
	local lists=$debian_cache/lists-${suites// /-}
	local sources=$lists.list
	mkdir -p "$lists/partial" "$debian_cache/archives/partial"
	repository=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
	[ -n "$repository" ] || say "apt has no archive of Debian"
	printf "deb $repository %s main\n" "$@" >"$sources"
	apt=(
		-o "Dir::Etc::sourcelist=$sources" -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=
		-o "Dir::State::lists=$lists" -o "Dir::Cache=$debian_cache" -o "Debug::NoLocking=1"
	)
	if [ -z "$(find "$lists" -name '*_Packages*' -mmin -1440)" ]; then
		apt-get "${apt[@]}" -qq update >&2 || say "no new package lists (see above)"
	fi
}
