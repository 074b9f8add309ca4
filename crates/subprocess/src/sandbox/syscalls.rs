//! Restricts system calls with seccomp. The calls listed here are denied and all others are allowed, because the CUDA
//! driver makes many calls that differ between versions.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::files::mps_folder;
use super::{Part, Policy};

const NAME: &str = "seccomp";

/// Never needed: administration, other processes, and ways around the other rules.
const DENIED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_mknodat,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Other users.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
];

/// Calls that exist on one architecture only.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_mknod];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[c_long] = &[];

/// Calls by which a process leaves the process group that ends with its parent. In scripts they succeed without an effect:
/// many programs do not expect them to fail.
const LEAVING: &[c_long] = &[libc::SYS_setsid, libc::SYS_setpgid];

/// Needed by a profiler only. io_uring can create sockets without the `socket` call.
const DENIED_UNLESS_PROFILED: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

#[cfg(target_arch = "x86_64")]
const FORKS: &[c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: &[c_long] = &[];

/// The part of a socket's type that is not a flag.
const SOCKET_KIND: u64 = 0xf;

/// These requests insert bytes into a terminal as if they were typed.
const TERMINAL_INPUT: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

pub(super) fn apply(policy: &Policy) -> Part {
    let applied = filter(policy).and_then(|filter| {
        apply_filter(&filter)?;
        if policy.profiled { Ok(()) } else { apply_filter(&calls_reported_as_unknown()) }
    });
    match applied {
        Ok(()) => Part::Active(NAME.to_owned()),
        Err(error) => Part::Missing(format!("no {NAME}: {error}")),
    }
}

/// The filters of a script, which may start programs but not reach other processes, and use the network only if it may.
pub(super) fn of_script(network: bool) -> Result<Vec<BpfProgram>, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut denied: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    let started = [libc::SYS_execve, libc::SYS_execveat];
    let others = DENIED_UNLESS_PROFILED.iter().filter(|call| !started.contains(call));
    for &call in DENIED.iter().chain(DENIED_HERE).chain(others) {
        denied.insert(call, Vec::new());
    }
    let local = libc::AF_UNIX as u64;
    // Local services act for their clients. A stream needs `connect`, a datagram does not. A pair of sockets is allowed.
    denied.insert(
        libc::SYS_socket,
        if network {
            vec![rule(&[(0, SeccompCmpOp::Eq, local)])?]
        } else {
            let kind = SeccompCmpOp::MaskedEq(SOCKET_KIND);
            vec![
                rule(&[(0, SeccompCmpOp::Ne, local)])?,
                rule(&[(0, SeccompCmpOp::Eq, local), (1, kind, libc::SOCK_DGRAM as u64)])?,
            ]
        },
    );
    if !network {
        denied.insert(libc::SYS_connect, Vec::new());
    }
    // A process has all capabilities in a user namespace of its own.
    let own_users = libc::CLONE_NEWUSER as u64;
    denied.insert(libc::SYS_clone, vec![rule(&[(0, SeccompCmpOp::MaskedEq(own_users), own_users)])?]);
    let ignored = LEAVING.iter().map(|&call| (call, Vec::new())).collect();
    let filter = |rules, error: i32| -> Result<BpfProgram, Error> {
        let action = SeccompAction::Errno(error as u32);
        Ok(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()?)
    };
    Ok(vec![filter(denied, libc::EPERM)?, filter(ignored, 0)?, calls_reported_as_unknown()])
}

fn filter(policy: &Policy) -> Result<BpfProgram, Error> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    let mut deny = |calls: &[c_long]| rules.extend(calls.iter().map(|&call| (call, Vec::new())));
    deny(DENIED);
    deny(DENIED_HERE);
    if !policy.profiled {
        deny(DENIED_UNLESS_PROFILED);
        deny(FORKS);
        // The driver creates and listens to sockets to share memory. It connects only to the Multi-Process Service.
        // Other local services may act for their clients, so no other connection is allowed.
        if mps_folder().is_none() {
            deny(&[libc::SYS_connect]);
        }
        let local = libc::AF_UNIX as u64;
        rules.insert(libc::SYS_socket, vec![rule(&[(0, SeccompCmpOp::Ne, local)])?]);
        // A new thread is allowed, a new process is not.
        let thread = libc::CLONE_THREAD as u64;
        rules.insert(libc::SYS_clone, vec![rule(&[(0, SeccompCmpOp::MaskedEq(thread), 0)])?]);
    }
    let own = u64::from(std::process::id());
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(call, vec![rule(&[(0, SeccompCmpOp::Ne, own)])?]);
    }
    let others = [(0, SeccompCmpOp::Ne, own), (0, SeccompCmpOp::Ne, 0)];
    rules.insert(libc::SYS_prlimit64, vec![rule(&others)?]);
    let typed = TERMINAL_INPUT.map(|request| rule(&[(1, SeccompCmpOp::Eq, request)]));
    rules.insert(libc::SYS_ioctl, typed.into_iter().collect::<Result<_, _>>()?);

    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?.try_into()?)
}

/// A rule that matches if all conditions hold: number of the argument, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, Error> {
    let conditions: Result<Vec<_>, _> = conditions
        .iter()
        .map(|(argument, comparison, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, comparison.clone(), *value)
        })
        .collect();
    Ok(SeccompRule::new(conditions?)?)
}

/// A second filter for calls that fail as unknown (`ENOSYS`). The arguments of `clone3` are in memory, where a filter
/// cannot read them; libraries fall back to `clone`. On x86-64 every call also has a second number (the x32
/// interface), which the first filter does not match.
fn calls_reported_as_unknown() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    vec![
        // The first word of a filter's data is the number of the call.
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_EQUAL, libc::SYS_clone3 as u32, 2, 0),
        step(JUMP_IF_AT_LEAST, X32, 1, 0),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(RETURN, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0, 0),
    ]
}
