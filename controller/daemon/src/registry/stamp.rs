//! The metadata that the server owns.

use std::fs::File;
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_api::v1::Metadata;
use prost_types::Timestamp;

/// Stamps the resources of one request: one time, one read of random bytes.
#[derive(Debug)]
pub(super) struct Stamper {
    now: Timestamp,
    random: File,
}

impl Stamper {
    pub(super) fn new() -> Result<Self, std::io::Error> {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Ok(Self {
            now: Timestamp {
                seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
            },
            random: File::open("/dev/urandom")?,
        })
    }

    /// For a resource that is stored as `revision`, after `before` if it was there.
    pub(super) fn stamp(
        &mut self,
        before: Option<&Metadata>,
        revision: u64,
    ) -> Result<Metadata, std::io::Error> {
        let generation = before.map_or(0, |metadata| metadata.generation) + 1;
        let uid = match before {
            Some(metadata) => metadata.uid.clone(),
            None => self.uid()?,
        };
        Ok(Metadata {
            uid,
            generation,
            // A revision is never used twice, by no life of a name.
            etag: format!("{revision:x}.{generation:x}"),
            create_time: before
                .and_then(|metadata| metadata.create_time)
                .or(Some(self.now)),
            update_time: Some(self.now),
        })
    }

    /// A random (version 4) UUID.
    fn uid(&mut self) -> Result<String, std::io::Error> {
        let mut bytes = [0; 16];
        self.random.read_exact(&mut bytes)?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        Ok(format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        ))
    }
}
