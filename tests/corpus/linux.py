"""What Linux makes of a device tree, by Linux's rules: a second implementation, with which the
reader is compared.

The rules are those of drivers/of, drivers/base/arch_topology.c, drivers/opp, drivers/cpuidle/dt_idle_states.c,
arch/arm64/kernel/smp.c and arch/riscv/kernel/{cpu,smpboot}.c of Linux 7.3. The boot CPU is the first one.
"""

import struct


class Node:
    def __init__(self, name):
        self.name, self.properties, self.children = name, {}, []

    def cells(self, name):
        value = self.properties.get(name, b"")
        return struct.unpack(f">{len(value) // 4}I", value[: len(value) // 4 * 4])

    def cell(self, name):
        return next(iter(self.cells(name)), None)

    def texts(self, name):
        return [part.decode(errors="replace") for part in self.properties.get(name, b"").split(b"\0") if part]

    def text(self, name):
        return next(iter(self.texts(name)), None)

    def child(self, name):
        return next((child for child in self.children if child.name == name), None)

    def available(self):
        return self.text("status") in (None, "ok", "okay")

    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()


def tree(blob):
    """The root of a flattened device tree (Devicetree Specification 0.4, chapter 5)."""
    _, _, at, strings = struct.unpack(">4I", blob[:16])
    stack, root = [], None
    while True:
        (token,) = struct.unpack(">I", blob[at : at + 4])
        at += 4
        if token == 1:
            end = blob.index(b"\0", at)
            stack.append(Node(blob[at:end].decode()))
            at = (end + 4) & ~3
        elif token == 2:
            node = stack.pop()
            if stack:
                stack[-1].children.append(node)
            else:
                root = node
        elif token == 3:
            length, name = struct.unpack(">2I", blob[at : at + 8])
            start = strings + name
            key = blob[start : blob.index(b"\0", start)].decode()
            stack[-1].properties.setdefault(key, blob[at + 8 : at + 8 + length])
            at = (at + 8 + length + 3) & ~3
        elif token == 9:
            return root


def is_hart(node):
    """riscv_early_of_processor_hartid()"""
    isa = node.texts("riscv,isa-extensions")
    if node.text("riscv,isa-base"):
        return node.available() and {"i", "m", "a"} <= set(isa)
    return node.available() and (node.text("riscv,isa") or "rv64ima")[:7].lower() in ("rv64ima", "rv32ima")


def is_started(node):
    """A disabled CPU that the kernel enables (Devicetree Specification 0.4, section 3.8.1)."""
    return node.text("status") == "disabled" and node.text("enable-method") is not None


def listed(root):
    """The nodes of Linux's CPUs by number."""
    nodes = []
    for node in (root.child("cpus") or Node("")).children:
        if node.name.split("@")[0] != "cpu" and node.text("device_type") != "cpu":
            continue
        if (node.text("status") or "").startswith("fail"):
            continue
        if "riscv" in node.texts("compatible") and not is_hart(node):
            continue
        threads = 1
        if node.name.startswith("PowerPC,"):
            threads = len(node.cells("ibm,ppc-interrupt-server#s")) or len(node.cells("reg")) or 1
        nodes += [node] * threads
    return nodes


def opps(node, handles):
    """The operating points of a CPU: kHz and uV, rising, without boosts."""
    table = handles.get(node.cell("operating-points-v2"))
    if table is None:
        cells = node.cells("operating-points")
        found = dict(zip(reversed(cells[::2]), reversed(cells[1::2])))
    else:
        found = {}
        for opp in table.children:
            hz = opp.cells("opp-hz")
            if len(hz) >= 2 and opp.available() and "turbo-mode" not in opp.properties:
                found.setdefault(((hz[0] << 32) + hz[1]) // 1000, opp.cell("opp-microvolt") or 0)
    return sorted(found.items())


def states(node, handles):
    """The idle states of a CPU: name, residency and exit latency in us (of_get_cpu_state_node(),
    init_state_node())."""
    domain = handles.get(node.cell("power-domains"))
    found = []
    for index in range(99):
        lists = [domain.cells("domain-idle-states") if domain else (), node.cells("cpu-idle-states")]
        state = next((handles[list[index]] for list in lists if index < len(list)), None)
        if state is None:
            break
        if not state.available():
            continue
        latency = state.cell("wakeup-latency-us")
        if latency is None:
            latency = state.cell("entry-latency-us") + state.cell("exit-latency-us")
        found.append((state.name.split("@")[0], state.cell("min-residency-us"), latency))
    return [("WFI", 1, 1), *found] if found else []


def machine(blob):
    """The CPUs, by number: (online, capacity, OPPs, idle states, node); and the distances between nodes."""
    root = tree(blob)
    handles = {node.cell("phandle"): node for node in root.walk() if node.cell("phandle") is not None}
    nodes = listed(root)
    online = [node.available() or is_started(node) for node in nodes]
    found = [opps(node, handles) for node in nodes]
    alone = [index for index, table in enumerate(found) if not table]
    first = nodes[0] if nodes else Node("")
    table = handles.get(first.cell("operating-points-v2"))
    fallback = "operating-points" in first.properties or (table and "opp-shared" in table.properties)
    own_domains = {"qcom,freq-domain", "performance-domains"} & set(first.properties)
    if nodes and fallback and not own_domains:
        for index in range(len(nodes)) if "operating-points" in first.properties else alone:
            found[index] = found[0]
    works = [node.cell("capacity-dmips-mhz") for node, on in zip(nodes, online) if on]
    if None in works:
        capacities = [1024] * len(works)
    else:
        timed = all(table for table, on in zip(found, online) if on)
        highest = [table[-1][0] if timed else 1 for table, on in zip(found, online) if on]
        raw = [work * khz for work, khz in zip(works, highest)]
        capacities = [value * 1024 // max(raw) for value in raw]
    rest = iter(capacities)
    of_node = [node.cell("numa-node-id") or 0 for node in nodes]
    cpus = [
        (on, next(rest) if on else None, table, states(node, handles), numa)
        for node, on, table, numa in zip(nodes, online, found, of_node)
    ]
    matrix = next((it.cells("distance-matrix") for it in root.walk() if "numa-distance-map-v1" in it.texts("compatible")), ())
    distances = {}
    for a, b, distance in zip(matrix[::3], matrix[1::3], matrix[2::3]):
        distances[a, b] = distance
        if b > a:
            distances[b, a] = distance
    numbers = sorted({numa for numa, on in zip(of_node, online) if on})
    rows = [[distances.get((a, b), 10 if a == b else 20) for b in numbers] for a in numbers]
    return cpus, rows if distances and len(numbers) > 1 else []
