# Brings lines of where.awk into a form that does not depend on the choice among CPUs that neither the machine
# nor the rt-app file distinguishes: a kernel's choice among these CPUs depends on which of them is
# due to balance first.
#
#	awk -f alike.awk TOPOLOGY FILE LINES
#
# Among the permutations of CPUs that preserve the topology (capacities; which CPUs share a core, a cluster, a
# cache) and the membership in each affinity list of the file, prints the line that sorts first.

# The CPUs of a list such as 0,2-3, as keys of `set`.
function cpus(list, set,    n, part, ends, i, cpu) {
	n = split(list, part, ",")
	for (i = 1; i <= n; i++) {
		split(part[i], ends, "-")
		for (cpu = ends[1] + 0; cpu <= (part[i] ~ /-/ ? ends[2] : ends[1]) + 0; cpu++)
			set[cpu] = 1
	}
}

FILENAME == ARGV[1] {
	capacity[$1 + 0] = $2
	for (kind = 3; kind <= 5; kind++) {
		delete set
		cpus($kind, set)
		for (cpu in set)
			shares[kind, $1 + 0, cpu + 0] = 1
	}
	count = $1 + 1
	next
}

FILENAME == ARGV[2] {
	if (match($0, /"cpus": \[[0-9, ]*\]/)) {
		list = substr($0, RSTART, RLENGTH)
		gsub(/[^0-9,]/, "", list)
		delete set
		cpus(list, set)
		lists++
		for (cpu in set)
			member[lists, cpu + 0] = 1
	}
	next
}

# May `to` take the place of `cpu`, given the places of the CPUs before it?
function fits(cpu, to,    list, kind, other) {
	if (used[to] || capacity[cpu] != capacity[to])
		return 0
	for (list = 1; list <= lists; list++)
		if (((list, cpu) in member) != ((list, to) in member))
			return 0
	for (kind = 3; kind <= 5; kind++)
		for (other = 0; other < cpu; other++)
			if (((kind, cpu, other) in shares) != ((kind, to, place[other]) in shares))
				return 0
	return 1
}

# The CPUs of one sample with their new numbers, in order.
function renamed(text,    colon, n, part, i, j, item, swap) {
	colon = index(text, ":")
	n = split(substr(text, colon + 1), part, " ")
	for (i = 1; i <= n; i++) {
		split(part[i], item, "=")
		part[i] = place[item[1] + 0] "=" item[2]
	}
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && part[j - 1] > part[j]; j--) {
			swap = part[j]
			part[j] = part[j - 1]
			part[j - 1] = swap
		}
	text = substr(text, 1, colon)
	for (i = 1; i <= n; i++)
		text = text " " part[i]
	return text
}

function try(cpu,    to, line, n, i) {
	if (cpu == count) {
		line = ""
		n = split($0, sample, "|")
		for (i = 1; i <= n; i++)
			line = line (i > 1 ? "|" : "") renamed(sample[i])
		if (first == "" || line < first)
			first = line
		return
	}
	for (to = 0; to < count; to++)
		if (fits(cpu, to)) {
			used[to] = 1
			place[cpu] = to
			try(cpu + 1)
			used[to] = 0
		}
}

{
	first = ""
	try(0)
	print first
}
