//! Reads the memory limit of this process' control group (cgroups(7)). Supports version 2 of control groups, and
//! version 1 if the memory controller belongs to it.
//!
//! The limits of all ancestors of a group apply to the group too. A container may see only its own group, as the root
//! of the mounted hierarchy. Then the limits of groups above it cannot be read and are ignored. If no hierarchy is
//! mounted, no limit can be read.

use std::fs;
use std::path::{Path, PathBuf};

/// Smallest value in a limit file of version 1 that means "no limit". The kernel writes `i64::MAX`, rounded down to a
/// page, for this meaning.
const UNLIMITED: u64 = 1 << 62;

/// The lowest memory limit among a group and its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes that the processes of the group may hold together.
    pub bytes: u64,
    /// The file that contains the limit.
    pub file: PathBuf,
}

/// Returns the memory limit of this process' control group; `None` if the group has no limit, or if no limit can be
/// read.
#[must_use]
pub fn memory_limit() -> Option<MemoryLimit> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let (groups, mounts) = (read(Path::new("/proc/self/cgroup"))?, read(Path::new("/proc/self/mountinfo"))?);
    lowest(&groups, &mounts, read)
}

/// Returns the lowest limit. `groups` and `mounts` are the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`, and
/// `read` reads the limit file of a group.
fn lowest(groups: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<MemoryLimit> {
    let limits = hierarchies(groups, mounts).into_iter().flat_map(|hierarchy| hierarchy.limits(&read));
    limits.min_by_key(|limit| limit.bytes)
}

/// A mounted hierarchy of groups.
#[derive(Debug)]
struct Hierarchy {
    mount_point: PathBuf,
    /// Path of the process' group below the mount point.
    group: PathBuf,
    /// Name of the file that contains a group's limit.
    file: &'static str,
}

impl Hierarchy {
    /// Returns the limits of the group and of its ancestors.
    fn limits(&self, read: impl Fn(&Path) -> Option<String>) -> Vec<MemoryLimit> {
        let files = self.group.ancestors().map(|group| self.mount_point.join(group).join(self.file));
        // "max" means no limit, and the root group of version 2 has no such file.
        let limit = |file: PathBuf| read(&file)?.trim().parse().ok().map(|bytes| MemoryLimit { bytes, file });
        files.filter_map(limit).filter(|limit| limit.bytes < UNLIMITED).collect()
    }
}

/// Returns the mounted hierarchies that can limit memory: the hierarchy of version 2, and the hierarchy of version 1
/// that has the controller `memory`. The arguments are the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn hierarchies(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    // A line is ID:CONTROLLERS:PATH; for version 2 it is 0::PATH.
    let group = |is_hierarchy: fn(&str, &str) -> bool| {
        let fields = groups.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            Some((fields.next()?, fields.next()?, fields.next()?))
        });
        fields.into_iter().find(|(id, controllers, _)| is_hierarchy(id, controllers)).map(|(.., path)| path)
    };
    let of_memory = |controllers: &str| controllers.split(',').any(|controller| controller == "memory");
    let mut found = Vec::new();
    for line in mounts.lines() {
        // A line is ID PARENT DEVICE ROOT MOUNT_POINT OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS.
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let (mount, file_system): (Vec<&str>, Vec<&str>) =
            (mount.split(' ').collect(), file_system.split(' ').collect());
        let (&[_, _, _, root, mount_point, ..], &[kind, _, options, ..]) = (&*mount, &*file_system) else { continue };
        let (group, file) = match kind {
            "cgroup2" => (group(|id, controllers| id == "0" && controllers.is_empty()), "memory.max"),
            "cgroup" if of_memory(options) => (
                group(|_, controllers| controllers.split(',').any(|controller| controller == "memory")),
                "memory.limit_in_bytes",
            ),
            _ => continue,
        };
        // ROOT is the path of the mounted group. Groups that are not below it, or whose path begins with "..", are not
        // visible.
        let Some(group) = group.and_then(|group| Path::new(group).strip_prefix(root).ok()) else { continue };
        if !group.starts_with("..") {
            found.push(Hierarchy { mount_point: PathBuf::from(mount_point), group: group.to_owned(), file });
        }
    }
    found
}

#[cfg(test)]
mod tests;
