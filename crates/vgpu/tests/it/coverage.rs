//! Blocks that do nothing cause a warning, a note or no finding, depending on the kernel and the grid.

use warpsmith_vgpu::{Device, Kind, Launch, Options, Severity, load};

/// Each thread of a block of 32 stores its number if the number is below 64, which is enough for two blocks. `early`
/// is inserted at the start.
fn kernel(early: &str) -> String {
    format!(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p0];
    {early}
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    shl.b32 %r3, %r1, 5;
    add.u32 %r4, %r3, %r2;
    setp.ge.u32 %p1, %r4, 64;
    @%p1 bra END;
    mul.wide.u32 %rd2, %r4, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r4;
END:
    ret;
}}
"
    )
}

fn severity(ptx: &str, blocks: u32) -> Option<Severity> {
    let module = load(ptx).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::default();
    let out = device.alloc(65 * 4, "out").expect("memory");
    device.fill(out, 0, 65 * 4).expect("inside");
    let args = out.0.to_le_bytes();
    let launch = Launch {
        module: &module,
        kernel: "k",
        grid: [blocks, 1, 1],
        block: [32, 1, 1],
        shared: 0,
        args: &args,
    };
    let report = device.launch(&launch, &Options::default()).expect("starts");
    assert!(report.findings.iter().all(|f| f.kind == Kind::IdleBlocks), "{:#?}", report.findings);
    report.findings.first().map(|f| f.severity)
}

#[test]
fn a_grid_that_fits_has_no_idle_blocks() {
    assert_eq!(severity(&kernel(""), 2), None);
}

#[test]
fn a_grid_rounded_up_is_worth_a_note() {
    assert_eq!(severity(&kernel(""), 4), Some(Severity::Note));
    assert_eq!(severity(&kernel(""), 3), Some(Severity::Note));
}

#[test]
fn a_grid_several_times_too_large_is_a_mistake() {
    assert_eq!(severity(&kernel(""), 8), Some(Severity::Error));
}

#[test]
fn a_kernel_that_asks_for_the_grid_may_have_a_large_one() {
    assert_eq!(severity(&kernel("mov.u32 %r5, %nctaid.x;"), 8), Some(Severity::Note));
}

#[test]
fn a_block_that_looks_and_finds_nothing_is_not_idle() {
    assert_eq!(severity(&kernel("ld.global.u32 %r5, [%rd1+256];"), 8), None);
}
