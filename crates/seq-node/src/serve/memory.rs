//! Checks, before a server opens a socket, that the memory limits in its settings fit into the memory limit of its
//! control group.
//!
//! Without this check, a process whose limits do not fit would run well until requests take the memory that the
//! settings allow. Then the kernel would kill it, again and again under load. Settings are refused only if the control
//! group's limit is certainly too low, because the memory for an allocator's slots depends on the users for whom
//! numbers are requested, and is unknown at the start.

use seq_command::exit::{Exit, Failure};
use seq_kit::cgroup::MemoryLimit;

use crate::settings::{LimitOptions, MIN_MEMORY_MIB};

/// Memory of an allocator or a proxy, in MiB, without the memory of requests. An idle process with two serving threads
/// takes 25 to 30 MiB.
const BASE_MIB: u64 = 32;

/// Lowest memory, in MiB, with which a member of a store can work. It is two thirds of the memory of an idle member,
/// which uses most of its memory for its log and for the buffers of its disk.
const STORE_MIB: u64 = 64;

/// Checks the settings of a role against the memory limit of the process' control group, if the group has a limit.
pub(super) fn check(role: &str, limits: &LimitOptions, limit: Option<&MemoryLimit>) -> Result<(), Failure> {
    let Some(limit) = limit else { return Ok(()) };
    let (mib, budget) = (limit.bytes >> 20, u64::from(limits.memory_mib));
    let group = format!("the memory limit of this process' cgroup is {mib} MiB ({})", limit.file.display());
    match role {
        "alloc" | "proxy" if mib < budget + BASE_MIB => {
            let needed = budget + BASE_MIB;
            let message = format!(
                "{group}, less than the {needed} MiB of limits.memory_mib = {budget} and {BASE_MIB} MiB of the process itself"
            );
            let (fits, least) = (mib.saturating_sub(BASE_MIB), u64::from(MIN_MEMORY_MIB));
            let hint = if fits >= least {
                format!("raise the limit to {needed} MiB or more, or lower limits.memory_mib to {fits}")
            } else {
                format!(
                    "raise the limit to {needed} MiB or more; with limits.memory_mib = {least}, the least, to {} MiB",
                    least + BASE_MIB
                )
            };
            Err(Failure::new(Exit::Config, message).hint(hint))
        }
        "store" if mib < STORE_MIB => {
            let message = format!("{group}, less than the {STORE_MIB} MiB that a member of a store takes");
            Err(Failure::new(Exit::Config, message).hint("raise the limit"))
        }
        // `dev` is not checked, because it is not a service and serves only a few calls on a small machine.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the error and its hint for a limit of `mib` MiB.
    fn refusal(role: &str, memory_mib: u32, mib: u64) -> Option<String> {
        let limit = MemoryLimit { bytes: mib << 20, file: "/sys/fs/cgroup/memory.max".into() };
        let failure = check(role, &LimitOptions { memory_mib, core_dumps: false }, Some(&limit)).err()?;
        assert_eq!(failure.exit(), Exit::Config);
        Some(format!("{failure:#?}"))
    }

    #[test]
    fn a_limit_below_the_settings_is_refused() {
        for role in ["alloc", "proxy"] {
            let text = refusal(role, 256, 200).unwrap();
            assert!(
                text.contains(
                    "is 200 MiB (/sys/fs/cgroup/memory.max), less than the 288 MiB of limits.memory_mib = 256"
                ),
                "{text}"
            );
            assert!(text.contains("or lower limits.memory_mib to 168"), "{text}");
            let text = refusal(role, 256, 128).unwrap();
            assert!(
                text.contains(
                    "raise the limit to 288 MiB or more; with limits.memory_mib = 128, the least, to 160 MiB"
                ),
                "{text}"
            );
            assert_eq!(refusal(role, 256, 288), None);
            assert!(refusal(role, 256, 287).is_some());
            assert_eq!(refusal(role, 128, 160), None);
        }
        assert!(refusal("store", 256, 63).is_some());
        assert_eq!(refusal("store", 256, 64), None, "a store has no such requests");
        assert_eq!(refusal("dev", 256, 64), None);
        assert!(check("alloc", &LimitOptions { memory_mib: 256, core_dumps: false }, None).is_ok());
    }
}
