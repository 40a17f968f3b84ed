//! A whole store on loopback, with memory and with disks: its guarantees across elections, restarts and bad input.

mod audit;
mod balancing;
mod cluster;
mod control;
mod deaths;
mod differing;
mod forged;
mod forward;
mod identity;
mod impostors;
mod layout_writer;
mod links;
mod load;
mod lost_disks;
mod members;
mod membership;
mod partition;
mod plans;
mod quorum;
mod raise_rate;
mod restored;
mod rollback;
mod sets;
mod unreached;
mod wan;
