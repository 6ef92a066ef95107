"""Reads a trace with Perfetto's own classes and prints JSON: events by kind, tracks, and unknown parts."""

import json
import sys
from collections import Counter

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

trace = perfetto_trace_pb2.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())


def unknown(message):
    """Fields that the classes lack, at any depth."""
    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for part in value if field.is_repeated else [value]:
            count += unknown(part)
    return count


events, tracks, counts, instants, switches = Counter(), {}, Counter(), Counter(), []
last, whys = {}, 0
for packet in trace.packet:
    for event in packet.ftrace_events.event:
        events[event.WhichOneof("event")] += 1
        if event.HasField("sched_switch"):
            switch = event.sched_switch
            switches.append([event.timestamp, packet.ftrace_events.cpu, switch.prev_comm, switch.next_comm])
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
    if packet.HasField("track_event"):
        event = packet.track_event
        name = tracks[event.track_uuid]
        if event.type == event.TYPE_COUNTER:
            counts[name] += 1
            last[name] = event.double_counter_value
        else:
            assert event.type == event.TYPE_INSTANT, event
            instants[name] += 1
            whys += any(note.name == "why" and note.string_value for note in event.debug_annotations)

json.dump(
    {
        "unknown": unknown(trace),
        "events": events,
        "counters": counts,
        "last": last,
        "instants": instants,
        "whys": whys,
        "switches": sorted(switches),
    },
    sys.stdout,
)
