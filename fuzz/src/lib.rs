//! The common part of the fuzz targets.

/// `valid` with changes that `edits` describes, seven bytes each: a place, how much of it, and what is put there.
/// Most of the input therefore stays unchanged.
pub fn edited(valid: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for edit in edits.chunks_exact(7).take(64) {
        let place = u32::from_le_bytes([edit[0], edit[1], edit[2], 0]) as usize;
        let Some(place) = place.checked_rem(bytes.len()) else {
            break;
        };
        let value = &edit[4..7];
        match edit[3] % 8 {
            0 => bytes.truncate(place),
            1 => drop(bytes.splice(place..place, value.iter().copied())),
            2 => drop(bytes.remove(place)),
            width => {
                let width = 1 << (width % 4);
                let fill = if value[2] & 1 == 0 { 0 } else { 0xff };
                for (index, byte) in bytes[place..].iter_mut().take(width).enumerate() {
                    *byte = value.get(index).copied().unwrap_or(fill);
                }
            }
        }
    }
    bytes
}
