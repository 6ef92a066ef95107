//! Protobuf's encoding. Messages are read with only the fields that are needed, and written field by field.

use crate::read::longest_text;
use micropb::{
    DecodeError, PbDecoder, PbEncoder, Tag, WIRE_TYPE_I64, WIRE_TYPE_LEN, WIRE_TYPE_VARINT,
};
use std::convert::Infallible;

pub type Decoder<'b> = PbDecoder<&'b [u8]>;
pub type Error = DecodeError<Infallible>;

pub trait Value<'b>: Default {
    /// The wire type of the values.
    const WIRE_TYPE: u8;

    /// Reads the next value, which replaces a previous value of the field or, in a list, is added to the values.
    fn read(&mut self, decoder: &mut Decoder<'b>) -> Result<(), Error>;

    /// Reads the next value, which is encoded as `wire_type`.
    fn read_as(&mut self, wire_type: u8, decoder: &mut Decoder<'b>) -> Result<(), Error> {
        match wire_type == Self::WIRE_TYPE {
            true => self.read(decoder),
            false => Err(DecodeError::WrongWireType),
        }
    }
}

macro_rules! varint {
    ($($type:ty: $decode:ident,)*) => {$(
        impl<'b> Value<'b> for $type {
            const WIRE_TYPE: u8 = WIRE_TYPE_VARINT;

            fn read(&mut self, decoder: &mut Decoder<'b>) -> Result<(), Error> {
                *self = decoder.$decode()?;
                Ok(())
            }
        }
    )*};
}

varint! {
    bool: decode_bool,
    u32: decode_varint32,
    u64: decode_varint64,
    i32: decode_int32,
    i64: decode_int64,
}

impl<'b> Value<'b> for &'b str {
    const WIRE_TYPE: u8 = WIRE_TYPE_LEN;

    fn read(&mut self, decoder: &mut Decoder<'b>) -> Result<(), Error> {
        let length = decoder.decode_varint32()? as usize;
        let left: &'b [u8] = decoder.as_reader();
        let text = left.get(..length).ok_or(DecodeError::UnexpectedEof)?;
        *self = longest_text(text);
        decoder.skip_bytes(length)
    }
}

#[derive(Default)]
pub struct Skipped;

impl<'b> Value<'b> for Skipped {
    const WIRE_TYPE: u8 = WIRE_TYPE_LEN;

    fn read(&mut self, decoder: &mut Decoder<'b>) -> Result<(), Error> {
        decoder.skip_wire_value(WIRE_TYPE_LEN)
    }
}

impl<'b, T: Value<'b>> Value<'b> for Option<T> {
    const WIRE_TYPE: u8 = T::WIRE_TYPE;

    fn read(&mut self, decoder: &mut Decoder<'b>) -> Result<(), Error> {
        self.get_or_insert_default().read(decoder)
    }
}

impl<'b, T: Value<'b>> Value<'b> for Vec<T> {
    const WIRE_TYPE: u8 = T::WIRE_TYPE;

    fn read(&mut self, decoder: &mut Decoder<'b>) -> Result<(), Error> {
        self.push(T::default());
        self.last_mut().expect("pushed").read(decoder)
    }

    /// Numbers may be packed into one field, one after the other.
    fn read_as(&mut self, wire_type: u8, decoder: &mut Decoder<'b>) -> Result<(), Error> {
        match (wire_type, T::WIRE_TYPE) {
            (WIRE_TYPE_LEN, WIRE_TYPE_VARINT) => each(decoder, |decoder| self.read(decoder)),
            (wire_type, expected) if wire_type == expected => self.read(decoder),
            _ => Err(DecodeError::WrongWireType),
        }
    }
}

/// Reads a length, and then each of the items within this length by calling `one`.
pub fn each<'b>(
    decoder: &mut Decoder<'b>,
    mut one: impl FnMut(&mut Decoder<'b>) -> Result<(), Error>,
) -> Result<(), Error> {
    let length = decoder.decode_varint32()? as usize;
    let end = decoder.bytes_read() + length;
    while decoder.bytes_read() < end {
        one(decoder)?;
    }
    match decoder.bytes_read() == end {
        true => Ok(()),
        false => Err(DecodeError::WrongLen),
    }
}

/// Defines structures that are messages in the bytes `'b`: for each the name in the .proto file, and the
/// fields with their numbers.
macro_rules! message {
    ($(struct $name:ident $proto:literal { $($field:ident: $type:ty = $number:literal,)* })*) => {$(
        #[doc = $proto]
        #[derive(Default)]
        struct $name<'b> {
            $($field: $type,)*
        }

        impl<'b> $crate::protobuf::Value<'b> for $name<'b> {
            const WIRE_TYPE: u8 = micropb::WIRE_TYPE_LEN;

            fn read(
                &mut self,
                decoder: &mut $crate::protobuf::Decoder<'b>,
            ) -> Result<(), $crate::protobuf::Error> {
                $crate::protobuf::each(decoder, |decoder| {
                    let tag = decoder.decode_tag()?;
                    match tag.field_num() {
                        $($number => $crate::protobuf::Value::read_as(&mut self.$field, tag.wire_type(), decoder),)*
                        _ => decoder.skip_wire_value(tag.wire_type()),
                    }
                })
            }
        }
    )*};
}
pub(crate) use message;

/// Takes the first field off the message `left` if that field is a message of type `M`. The error says why it is not.
pub fn take_message<'b, M: Value<'b>>(left: &mut &'b [u8], field: u32) -> Result<M, String> {
    let mut decoder = PbDecoder::new(*left);
    let tag = decoder.decode_tag().map_err(described)?;
    if (tag.field_num(), tag.wire_type()) != (field, WIRE_TYPE_LEN) {
        return Err(format!("expected a message as field {field}"));
    }
    let mut message = M::default();
    message.read(&mut decoder).map_err(described)?;
    *left = decoder.into_reader();
    Ok(message)
}

fn described(error: Error) -> String {
    match error {
        DecodeError::UnexpectedEof => "the file ends within a message",
        DecodeError::WrongLen => "a message's fields are longer than the message",
        DecodeError::WrongWireType | DecodeError::UnknownWireType => "a field has the wrong type",
        _ => "this is not a protobuf message",
    }
    .to_owned()
}

/// The encoded fields of a message. Every field is written, including zeros.
pub struct Message(PbEncoder<Vec<u8>>);

impl Default for Message {
    fn default() -> Message {
        Message(PbEncoder::new(Vec::new()))
    }
}

impl Message {
    pub fn int(self, field: u32, value: impl Into<i64>) -> Message {
        self.uint(field, value.into().cast_unsigned())
    }

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

    /// Adds fields by calling `add`, if there is a `value`.
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
