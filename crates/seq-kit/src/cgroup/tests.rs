//! Tests with texts of real systems.

use std::collections::BTreeMap;

use super::*;

const MIB: u64 = 1 << 20;

/// Returns the limit if these files of groups exist.
fn limit(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<(u64, String)> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let read = |path: &Path| files.get(path.to_str().unwrap()).map(|text| (*text).to_owned());
    lowest(groups, mounts, read).map(|limit| (limit.bytes, limit.file.display().to_string()))
}

/// systemd on Debian 12, and a service with `MemoryMax=128M` in its unit.
const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot";

#[test]
fn a_service_of_systemd_has_the_limit_of_its_unit() {
    let groups = "0::/system.slice/system-seqsvr\\x2dalloc.slice/seqsvr-alloc@a1.service\n";
    let slice = "/sys/fs/cgroup/system.slice/system-seqsvr\\x2dalloc.slice";
    let unit = format!("{slice}/seqsvr-alloc@a1.service/memory.max");
    assert_eq!(limit(groups, UNIFIED, &[(&unit, "134217728\n")]), Some((128 * MIB, unit.clone())));
    assert_eq!(limit(groups, UNIFIED, &[(&unit, "max\n")]), None);
    // A slice with a lower limit than the unit's.
    let above = format!("{slice}/memory.max");
    let files = [(&*unit, "134217728\n"), (&*above, "67108864\n"), ("/sys/fs/cgroup/system.slice/memory.max", "max\n")];
    assert_eq!(limit(groups, UNIFIED, &files), Some((64 * MIB, above.clone())));
}

#[test]
fn a_container_with_a_namespace_of_its_own_sees_its_group_as_the_root() {
    let mounts = "1536 1535 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate";
    let file = "/sys/fs/cgroup/memory.max";
    assert_eq!(limit("0::/\n", mounts, &[(file, "1073741824\n")]), Some((1024 * MIB, file.to_owned())));
}

#[test]
fn a_container_of_version_1_has_the_path_of_the_host() {
    let id = "/kubepods/burstable/pod6f1c/9d2e7a";
    let groups = format!("12:cpuset:{id}\n11:memory:{id}\n3:cpu,cpuacct:{id}\n1:name=systemd:{id}\n0::/\n");
    let mounts = format!(
        "910 905 0:31 {id} /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:14 - cgroup cgroup rw,memory\n\
         911 905 0:30 {id} /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    );
    let file = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
    assert_eq!(limit(&groups, &mounts, &[(file, "268435456\n")]), Some((256 * MIB, file.to_owned())));
    assert_eq!(limit(&groups, &mounts, &[(file, "9223372036854771712\n")]), None, "there is none");
}

#[test]
fn a_host_of_version_1_has_version_2_beside_it() {
    let groups = "4:memory:/jobs/7\n2:cpuacct:/\n1:cpu:/\n0::/\n";
    let mounts = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
                  35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                  41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    let own = "/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes";
    let files = [(own, "134217728\n"), ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")];
    assert_eq!(limit(groups, mounts, &files), Some((128 * MIB, own.to_owned())));
}

#[test]
fn nothing_is_read_where_no_hierarchy_is_visible() {
    assert_eq!(limit("0::/\n", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n", &[]), None);
    // The process was moved out of the groups that its container sees.
    assert_eq!(limit("0::/../other\n", UNIFIED, &[("/sys/fs/cgroup/memory.max", "1\n")]), None);
    assert_eq!(limit("4:memory:/a\n", "1 2 0:3 /b /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", &[]), None);
    assert_eq!(limit("", "", &[]), None);
    assert_eq!(limit("garbage", "1 2 - cgroup2", &[]), None);
}
