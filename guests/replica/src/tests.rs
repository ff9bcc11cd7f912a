//! The table: formed x last primary x synced replicas x claims x consents, each row a named case; then whole plans; then what
//! holds for every observation.

mod plans;
mod random;
mod rolls;
mod table;
