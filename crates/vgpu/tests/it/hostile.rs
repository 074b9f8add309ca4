//! Inputs that must not break the virtual GPU: invalid PTX, invalid launches, and kernels that misbehave.

use warpsmith_vgpu::{Checks, Device, Kind, Launch, LaunchError, Options, load};

/// Fuzzing found this bug: the virtual GPU read registers that the instruction did not name.
#[test]
fn an_instruction_with_too_few_or_too_many_operands_is_refused() {
    let module = |line: &str| {
        format!(
            ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n\
             .reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<4>;\n{line}\nret;\n}}\n"
        )
    };
    assert!(load(&module("and.b32 %r1, %r2, %r3;")).is_ok());
    for line in [
        "and.b32 %r1;",
        "and.b32 %r1, %r2;",
        "and.b32 %r1, %r2, %r3, %r0;",
        "not.b32 %r1;",
        "add.s32 %r1, %r2;",
        "add.s64 %rd1;",
        "mul.lo.s32 %r1;",
        "shl.b32 %r1, %r2;",
        "min.s32 %r1, %r2;",
        "abs.s32 %r1;",
        "add.f32 %f1, %f2;",
        "fma.rn.f32 %f1, %f2, %f3;",
        "popc.b32 %r1;",
        "lop3.b32 %r1, %r2, %r3;",
        "prmt.b32 %r1, %r2;",
        "selp.b32 %r1, %r2;",
        "setp.eq.s32 %r1;",
        "mov.b32 %r1;",
    ] {
        let error = load(&module(line)).expect_err(line);
        assert!(!error.diagnostics.is_empty(), "{line}");
    }
}

#[test]
fn deep_nesting_and_long_lists_are_refused_quickly() {
    for text in [
        "{".repeat(200_000),
        format!(".version 8.0\n.visible .entry k() {{ mov.b32 {}", "{".repeat(100_000)),
        format!(".version 8.0\n.global .b32 x = {}", "{".repeat(100_000)),
        format!(".version 8.0\n.visible .entry k() {{ {} }}", "ld.global.u32 %r1, [".repeat(20_000)),
        "\u{0}\u{1}\u{2}".to_string(),
        String::new(),
    ] {
        assert!(load(&text).is_err());
    }
}

const COUNTER: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [p0];
    atom.global.add.u32 %r1, [%rd1], 1;
    ret;
}
.visible .entry greedy(.param .u64 p0)
{
    .reg .b32 %r<4>;
    .shared .align 4 .b8 heap[1073741824];
    ld.shared.u32 %r1, [heap];
    ret;
}
";

#[test]
fn a_grid_of_two_billion_blocks_ends_at_its_budget() {
    let module = load(COUNTER).expect("valid");
    let mut device = Device::default();
    let counter = device.alloc(4, "counter").expect("memory");
    device.fill(counter, 0, 4).expect("inside");
    let launch = Launch {
        module: &module,
        kernel: "k",
        grid: [i32::MAX as u32, 65535, 65535],
        block: [1024, 1, 1],
        shared: 0,
        args: &counter.0.to_le_bytes(),
    };
    for checks in [Checks::All, Checks::None] {
        let options = Options { checks, budget: 100_000, ..Options::default() };
        let report = device.launch(&launch, &options).expect("starts");
        assert!(!report.stats.completed);
        assert!(report.findings.iter().any(|f| f.kind == Kind::Runaway), "{:?}", report.findings);
        assert!(report.stats.warp_instructions < 10_000_000);
    }
}

#[test]
fn impossible_launches_are_errors() {
    let module = load(COUNTER).expect("valid");
    let mut device = Device::default();
    let args = 0u64.to_le_bytes();
    let base =
        Launch { module: &module, kernel: "k", grid: [1; 3], block: [32, 1, 1], shared: 0, args: &args };
    let options = Options::default();
    let mut fails = |launch: Launch<'_>| device.launch(&launch, &options).expect_err("refused");
    assert!(matches!(fails(Launch { kernel: "greedy", ..base }), LaunchError::SharedMemory { .. }));
    assert!(matches!(fails(Launch { shared: 1 << 30, ..base }), LaunchError::SharedMemory { .. }));
    assert!(matches!(fails(Launch { kernel: "nobody", ..base }), LaunchError::UnknownKernel(_)));
    assert!(matches!(fails(Launch { block: [1025, 1, 1], ..base }), LaunchError::BlockShape(_)));
    assert!(matches!(fails(Launch { block: [u32::MAX, u32::MAX, 2], ..base }), LaunchError::BlockShape(_)));
    assert!(matches!(fails(Launch { grid: [0, 1, 1], ..base }), LaunchError::GridShape(_)));
    assert!(matches!(fails(Launch { args: &[], ..base }), LaunchError::Arguments { .. }));
}

#[test]
fn a_wild_pointer_is_a_finding_with_and_without_checks() {
    let module = load(COUNTER).expect("valid");
    for address in [
        0u64,
        4,
        0x7fe7_6000_0000,
        0x7fe8_0000_fff0,
        0x7fe9_0000_0000,
        0x7fea_0000_2000,
        u64::MAX - 3,
        1 << 40,
    ] {
        for checks in [Checks::All, Checks::None] {
            let mut device = Device::default();
            let launch = Launch {
                module: &module,
                kernel: "k",
                grid: [1; 3],
                block: [32, 1, 1],
                shared: 0,
                args: &address.to_le_bytes(),
            };
            let report = device.launch(&launch, &Options { checks, ..Options::default() }).expect("starts");
            assert!(
                report.findings.iter().any(|f| f.kind == Kind::OutOfBounds),
                "{address:#x} {:?}",
                report.findings
            );
        }
    }
}

#[test]
fn an_unsupported_instruction_refuses_only_the_kernels_that_reach_it() {
    let text = "
.version 8.0
.target sm_80
.address_size 64
.func helper() { wibble.u32 ; ret; }
.visible .entry fine() { ret; }
.visible .entry broken() { call helper; ret; }
";
    let module = load(text).expect("one kernel can run");
    assert!(module.kernel("fine").is_some() && module.kernel("broken").is_none());
    let launch =
        Launch { module: &module, kernel: "fine", grid: [1; 3], block: [32, 1, 1], shared: 0, args: &[] };
    let mut device = Device::default();
    assert!(device.launch(&launch, &Options::default()).is_ok());
    let broken = Launch { kernel: "broken", ..launch };
    let error = device.launch(&broken, &Options::default()).expect_err("a kernel that cannot run");
    assert!(
        matches!(&error, LaunchError::Refused { error, .. } if error.diagnostics[0].line == 5),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("`broken`") && text.contains("`wibble.u32`"), "{text}");
}

#[test]
fn a_module_in_which_no_kernel_can_run_is_refused_with_the_problems_of_all() {
    let text = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry a() { wibble.u32 ; ret; }
.visible .entry b() { wobble.u32 ; ret; }
";
    let lines: Vec<u32> = load(text).expect_err("refused").diagnostics.iter().map(|d| d.line).collect();
    assert_eq!(lines, [5, 6]);
}
