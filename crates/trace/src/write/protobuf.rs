//! Messages in protobuf's encoding, written field by field.

use micropb::{PbEncoder, Tag, WIRE_TYPE_I64, WIRE_TYPE_LEN, WIRE_TYPE_VARINT};

/// The encoded fields of a message. Every field is written, including zeros.
pub(super) struct Message(PbEncoder<Vec<u8>>);

impl Default for Message {
    fn default() -> Message {
        Message(PbEncoder::new(Vec::new()))
    }
}

impl Message {
    /// A field of a signed type (`int32`, `int64`).
    pub fn int(self, field: u32, value: impl Into<i64>) -> Message {
        self.uint(field, value.into().cast_unsigned())
    }

    /// A field of an unsigned type, or of an enumeration.
    pub fn uint(mut self, field: u32, value: impl Into<u64>) -> Message {
        self.tag(field, WIRE_TYPE_VARINT);
        let Ok(()) = self.0.encode_varint64(value.into());
        self
    }

    pub fn double(mut self, field: u32, value: f64) -> Message {
        self.tag(field, WIRE_TYPE_I64);
        let Ok(()) = self.0.encode_double(value);
        self
    }

    pub fn string(mut self, field: u32, value: &str) -> Message {
        self.tag(field, WIRE_TYPE_LEN);
        let Ok(()) = self.0.encode_string(value);
        self
    }

    pub fn message(mut self, field: u32, value: &Message) -> Message {
        self.tag(field, WIRE_TYPE_LEN);
        let Ok(()) = self.0.encode_bytes(value.bytes());
        self
    }

    /// The message, with the fields that `add` gives it, if there is a `value`.
    pub fn with<T>(self, value: Option<T>, add: impl FnOnce(Message, T) -> Message) -> Message {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.as_writer()
    }

    fn tag(&mut self, field: u32, wire_type: u8) {
        let Ok(()) = self.0.encode_tag(Tag::from_parts(field, wire_type));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_specification_has_them() {
        // https://protobuf.dev/programming-guides/encoding: 150 in field 1; "testing" in field 2; a message in field 3;
        // a negative number, which takes ten bytes.
        let inner = Message::default().int(1, 150);
        assert_eq!(inner.bytes(), [0x08, 0x96, 0x01]);
        let outer = Message::default()
            .string(2, "testing")
            .message(3, &inner)
            .int(1, -2);
        let mut expected = b"\x12\x07testing\x1a\x03\x08\x96\x01\x08\xfe".to_vec();
        expected.extend([0xff; 8]);
        expected.push(0x01);
        assert_eq!(outer.bytes(), expected);
    }
}
