//! Tests of the public interface.

mod apply;
mod closing;
mod fate;
mod generate;
mod judge;
mod names;
mod reference;
