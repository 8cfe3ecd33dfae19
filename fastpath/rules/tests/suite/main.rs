//! Tests of the public interface.

mod closing;
mod generate;
mod judge;
mod reference;
