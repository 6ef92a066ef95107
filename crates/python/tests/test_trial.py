"""The samples of a trial's bundle."""

import io
import json
import tarfile

import pytest

import equipoise


def frame(data):
    """`data` as a zstd frame of uncompressed blocks (RFC 8878)."""
    out = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
    for at in range(0, len(data), 1 << 16):
        block = data[at:at + (1 << 16)]
        is_last = at + len(block) == len(data)
        out += (is_last | len(block) << 3).to_bytes(3, "little") + block
    return out


@pytest.fixture
def bundle(tmp_path):
    """Three blocks of two schedulers, of which the second takes 10 % less time."""
    def turn(ms):
        return {"elapsed_ns": ms * 1_000_000, "is_timed": True, "switches": 100}

    results = {
        "version": 1,
        "about": {"load": "make", "machine": "a computer", "conditions": [], "cost": None},
        "plan": {"schedulers": [{"name": "eevdf"}, {"name": "scx_lavd"}], "rounds": 3, "until_decided": False, "seed": 1},
        "outcome": {"schedulers": [0, 1], "blocks": [[turn(ms), turn(ms * 9 // 10)] for ms in (1000, 1100, 1050)], "removed": [],
                    "repeated": [], "ended": None},
    }
    content = json.dumps(results).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        of = tarfile.TarInfo("trial.json")
        of.size = len(content)
        tar.addfile(of, io.BytesIO(content))
    file = tmp_path / "build.tar.zst"
    file.write_bytes(frame(archive.getvalue()))
    return file


def test_a_bundle_has_a_row_for_each_block_policy_and_metric(bundle):
    samples = equipoise.trial(bundle).to_pandas()
    time = samples[samples["metric"] == "time"].pivot(index="block", columns="policy", values="value")
    assert list(time["eevdf"]) == [1.0, 1.1, 1.05]
    assert list(time["scx_lavd"] / time["eevdf"]) == pytest.approx([0.9] * 3)
    decides = samples.loc[samples["decides"], ["metric", "goal", "unit", "better"]].drop_duplicates()
    assert decides.values.tolist() == [["time", "throughput", "s", "lower"]]
    assert set(samples["metric"]) == {"time", "context_switches"}


def test_a_file_that_is_no_bundle_is_refused(tmp_path):
    file = tmp_path / "other.tar.zst"
    file.write_bytes(frame(b"hello"))
    with pytest.raises(equipoise.BadInput, match="other.tar.zst"):
        equipoise.trial(file)
