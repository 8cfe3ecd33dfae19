//! The engine as its users meet it: hosts, a wire, a controller.

#[path = "../bed/bed.rs"]
mod bed;

mod reach;
