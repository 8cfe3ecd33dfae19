//! Tests of the public interface.

mod fuzzed;
mod properties;
