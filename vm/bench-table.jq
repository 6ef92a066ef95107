# Formats vm/bench's result as lines of a table, with tabs between the columns.

def round($digits): if . == null then "-" else . * pow(10; $digits) | round / pow(10; $digits) | tostring end;

"clock \(.clock), \(.cpus) CPUs, host's load average \(.load_average)",
"",
"benchmark\tscheduler\tn\tmedian\tmin\tmax\tunit\tratio\tpaired\tswitches",
(.results[] | [
	.benchmark, .scheduler, .n, (.median | round(3)), (.min | round(3)), (.max | round(3)), .unit,
	(.ratio | round(3)), (.paired_ratio | round(3)), .switches
] | join("\t")),
"",
"scheduler\tcallback\tcalls\tns/call",
(.callbacks_per_switch[] | [.scheduler, "all, for a switch of a task", (.calls | round(2)), (.ns | round(0))] | join("\t")),
(.callbacks[] | [.scheduler, .callback, .calls, (.ns_per_call | round(0))] | join("\t"))
