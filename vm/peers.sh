# shellcheck shell=bash
# Other projects' sched_ext schedulers, which vm/install-peers builds from the crate registry; to be sourced.

peer_crates=(scx_bpfland@1.1.4 scx_cosmos@1.1.7 scx_flash@1.1.4 scx_beerland@1.1.4 scx_rusty@1.1.4 scx_lavd@1.1.4)

# The names of the schedulers that are on PATH
installed_peers() {
	local peer
	for peer in "${peer_crates[@]%@*}"; do
		! command -v "$peer" >/dev/null || echo "$peer"
	done
}
