//! Requests with fields that this schema does not have are refused.
//!
//! protobuf skips what it does not know. A policy of which a part is skipped is another
//! policy, perhaps a more permissive one, so a request is refused whole instead. Only inputs
//! of methods are looked at, which servers alone decode: a client takes the answers of a
//! newer server.

mod schema;

use std::marker::PhantomData;
use std::sync::LazyLock;

use prost::bytes::Buf as _;
use prost::{DecodeError, Message, Name};
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

use schema::{Schema, Wrong};

/// What generated clients and servers encode and decode with.
#[derive(Clone, Copy, Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Name + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Strict<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Strict(PhantomData)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Strict<U>(PhantomData<U>);

impl<U: Message + Name + Default> Decoder for Strict<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        // What gRPC has for messages that are none.
        let internal = |error: &DecodeError| Status::internal(error.to_string());
        let message = U::decode(bytes.clone()).map_err(|error| internal(&error))?;
        let schema = SCHEMA.as_ref().map_err(internal)?;
        let name = format!(".{}", U::full_name());
        if schema.is_input(&name) {
            schema.check(&name, &bytes).map_err(Wrong::status)?;
        }
        Ok(Some(message))
    }
}

static SCHEMA: LazyLock<Result<Schema, DecodeError>> = LazyLock::new(Schema::ours);

#[cfg(test)]
mod tests;
