//! Reads messages in protobuf's encoding, but only the fields that are needed.

use micropb::{DecodeError, PbDecoder, Presence, WIRE_TYPE_LEN, WIRE_TYPE_VARINT};
use std::convert::Infallible;

pub(super) type Decoder<'a> = PbDecoder<&'a [u8]>;
pub(super) type Error = DecodeError<Infallible>;

/// A type of a field.
pub(super) trait Value: Default {
    /// The encoding of its values.
    const WIRE_TYPE: u8;

    /// Reads the next value. The field replaces a value that the message already has, or is added
    /// to it.
    fn read(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error>;

    /// As [`Value::read`], for a value that is encoded as `wire_type`.
    fn read_as(&mut self, wire_type: u8, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        match wire_type == Self::WIRE_TYPE {
            true => self.read(decoder),
            false => Err(DecodeError::WrongWireType),
        }
    }
}

macro_rules! varint {
    ($($type:ty: $decode:ident,)*) => {$(
        impl Value for $type {
            const WIRE_TYPE: u8 = WIRE_TYPE_VARINT;

            fn read(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error> {
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

impl Value for String {
    const WIRE_TYPE: u8 = WIRE_TYPE_LEN;

    fn read(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        decoder.decode_string(self, Presence::Explicit)
    }
}

/// A value that is present but not needed.
#[derive(Default)]
pub(super) struct Skipped;

impl Value for Skipped {
    const WIRE_TYPE: u8 = WIRE_TYPE_LEN;

    fn read(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        decoder.skip_wire_value(WIRE_TYPE_LEN)
    }
}

impl<T: Value> Value for Option<T> {
    const WIRE_TYPE: u8 = T::WIRE_TYPE;

    fn read(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        self.get_or_insert_default().read(decoder)
    }
}

impl<T: Value> Value for Vec<T> {
    const WIRE_TYPE: u8 = T::WIRE_TYPE;

    fn read(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        self.push(T::default());
        self.last_mut().expect("pushed").read(decoder)
    }

    /// Numbers may be packed into one field, one after the other.
    fn read_as(&mut self, wire_type: u8, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        match (wire_type, T::WIRE_TYPE) {
            (WIRE_TYPE_LEN, WIRE_TYPE_VARINT) => each(decoder, |decoder| self.read(decoder)),
            (wire_type, expected) if wire_type == expected => self.read(decoder),
            _ => Err(DecodeError::WrongWireType),
        }
    }
}

/// Reads a length and then, with `one`, the items within it.
pub(super) fn each(
    decoder: &mut Decoder<'_>,
    mut one: impl FnMut(&mut Decoder<'_>) -> Result<(), Error>,
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

/// Defines structures that are messages: for each the name in the .proto file, and the fields with their
/// numbers.
macro_rules! message {
    ($(struct $name:ident $proto:literal { $($field:ident: $type:ty = $number:literal,)* })*) => {$(
        #[doc = $proto]
        #[derive(Default)]
        struct $name {
            $($field: $type,)*
        }

        impl super::protobuf::Value for $name {
            const WIRE_TYPE: u8 = micropb::WIRE_TYPE_LEN;

            fn read(
                &mut self,
                decoder: &mut super::protobuf::Decoder<'_>,
            ) -> Result<(), super::protobuf::Error> {
                super::protobuf::each(decoder, |decoder| {
                    let tag = decoder.decode_tag()?;
                    match tag.field_num() {
                        $($number => super::protobuf::Value::read_as(&mut self.$field, tag.wire_type(), decoder),)*
                        _ => decoder.skip_wire_value(tag.wire_type()),
                    }
                })
            }
        }
    )*};
}
pub(super) use message;

/// Takes the first field off the message `left` if that field is a message of type `M`; otherwise returns
/// the reason why it is not.
pub(super) fn take_message<M: Value>(left: &mut &[u8], field: u32) -> Result<M, String> {
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
        DecodeError::Utf8 => "a text is not UTF-8",
        _ => "this is not a protobuf message",
    }
    .to_owned()
}
