//! Order of effects, and that the end of the process after any of them leaves a legal state.

mod cluster;
mod crashes;
mod creation;
mod detach;
mod fence;
mod roles;
mod sentinel;

use vko_wit::planning::{HandOver, Operation, Step};

use crate::execute::{ExecuteError, step};
use crate::guard::testing::{self, uid};
use crate::site::Site;
use crate::testing::{FakeWorld, observed};

async fn run(site: &Site<FakeWorld>, operation: Operation) -> Result<(), ExecuteError> {
    run_step(site, &testing::step(operation)).await
}

async fn run_step(site: &Site<FakeWorld>, step: &Step) -> Result<(), ExecuteError> {
    step::run(site, &observed(3), step).await
}

fn hand_over() -> Operation {
    Operation::HandOver(HandOver { primary: uid(0), replica: uid(1), monitor: String::new(), timeout: 5_000 })
}

fn fence(min_replicas: u32) -> Operation {
    Operation::Fence(vko_wit::planning::FenceSetting { pod: uid(0), min_replicas })
}
