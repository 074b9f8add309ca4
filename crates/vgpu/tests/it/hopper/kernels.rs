//! Kernels with one Hopper instruction, as PTX text. The parity tests run the same kernels on a GPU.

use std::fmt::Write as _;

const HEADER: &str = ".version 8.4\n.target sm_90a\n.address_size 64\n";

/// A kernel that loads one box with 32 threads and writes the bytes of shared memory out in their order. Bytes that
/// the box does not cover hold 0xee. Parameters: the map, the output, the offset of the box in shared memory, its
/// size in bytes, the size of shared memory, the coordinates.
pub fn tensor_load(rank: usize) -> String {
    let mut text = format!(
        "{HEADER}.extern .shared .align 1024 .b8 memory[];\n.visible .entry k(\n    .param .align 64 .b8 map[128],\n    .param .u64 out,\n    .param .u32 offset,\n    .param .u32 bytes,\n    .param .u32 shared"
    );
    for c in 0..rank {
        let _ = write!(text, ",\n    .param .s32 c{c}");
    }
    text += ")\n{\n    .reg .pred %p<4>;\n    .reg .b32 %r<16>;\n    .reg .b32 %c<8>;\n    .reg .b64 %rd<8>;\n    .shared .align 8 .b64 gate;\n";
    for c in 0..rank {
        let _ = writeln!(text, "    ld.param.s32 %c{c}, [c{c}];");
    }
    let list: Vec<String> = (0..rank).map(|c| format!("%c{c}")).collect();
    let list = list.join(", ");
    let _ = write!(
        text,
        "    ld.param.u32 %r10, [offset];
    ld.param.u32 %r11, [bytes];
    ld.param.u32 %r12, [shared];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, memory;
    mov.u32 %r2, gate;
    shl.b32 %r3, %r0, 2;
    mov.u32 %r4, 0xeeeeeeee;
CLEAR:
    add.s32 %r5, %r1, %r3;
    st.shared.u32 [%r5], %r4;
    add.s32 %r3, %r3, 128;
    setp.lt.u32 %p0, %r3, %r12;
    @%p0 bra CLEAR;
    fence.proxy.async;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    @%p1 bra WAIT;
    mov.b64 %rd0, map;
    cvta.param.u64 %rd1, %rd0;
    add.s32 %r6, %r1, %r10;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], %r11;
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd1, {{{list}}}], [%r2];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    ld.param.u64 %rd2, [out];
    shl.b32 %r3, %r0, 2;
READ:
    add.s32 %r5, %r1, %r3;
    ld.shared.u32 %r7, [%r5];
    cvt.u64.u32 %rd3, %r3;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r7;
    add.s32 %r3, %r3, 128;
    setp.lt.u32 %p0, %r3, %r12;
    @%p0 bra READ;
    ret;
}}
"
    );
    text
}

/// A kernel that fills shared memory from an input and stores one box of it. The parameters are those of
/// [`tensor_load`], with the input in place of the output.
pub fn tensor_store(rank: usize) -> String {
    let mut text = format!(
        "{HEADER}.extern .shared .align 1024 .b8 memory[];\n.visible .entry k(\n    .param .align 64 .b8 map[128],\n    .param .u64 in,\n    .param .u32 offset,\n    .param .u32 bytes,\n    .param .u32 shared"
    );
    for c in 0..rank {
        let _ = write!(text, ",\n    .param .s32 c{c}");
    }
    text +=
        ")\n{\n    .reg .pred %p<4>;\n    .reg .b32 %r<16>;\n    .reg .b32 %c<8>;\n    .reg .b64 %rd<8>;\n";
    for c in 0..rank {
        let _ = writeln!(text, "    ld.param.s32 %c{c}, [c{c}];");
    }
    let list: Vec<String> = (0..rank).map(|c| format!("%c{c}")).collect();
    let list = list.join(", ");
    let _ = write!(
        text,
        "    ld.param.u32 %r10, [offset];
    ld.param.u32 %r11, [bytes];
    ld.param.u32 %r12, [shared];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, memory;
    ld.param.u64 %rd2, [in];
    shl.b32 %r3, %r0, 2;
FILL:
    cvt.u64.u32 %rd3, %r3;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r7, [%rd4];
    add.s32 %r5, %r1, %r3;
    st.shared.u32 [%r5], %r7;
    add.s32 %r3, %r3, 128;
    setp.lt.u32 %p0, %r3, %r12;
    @%p0 bra FILL;
    fence.proxy.async;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra END;
    mov.b64 %rd0, map;
    cvta.param.u64 %rd1, %rd0;
    add.s32 %r6, %r1, %r10;
    cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%rd1, {{{list}}}], [%r6];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
    ret;
}}
"
    );
    text
}

/// A kernel that executes one `wgmma` with 128 threads. Parameters: an image of shared memory, the registers of a and
/// c as `[register][thread]`, the output in the layout of c, both descriptors without the address of shared memory,
/// whether to add c, and the size of the image in bytes.
pub fn wgmma(instruction: &str, d_registers: usize, a_registers: bool, constants: &str) -> String {
    let mut text = format!(
        "{HEADER}.extern .shared .align 1024 .b8 memory[];\n.visible .entry k(\n    .param .u64 image,\n    .param .u64 a,\n    .param .u64 c,\n    .param .u64 out,\n    .param .u64 da,\n    .param .u64 db,\n    .param .u32 scale,\n    .param .u32 bytes)\n{{\n"
    );
    let _ = write!(
        text,
        "    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    .reg .b32 %a<4>;
    .reg .b32 %d<{d_registers}>;
    ld.param.u64 %rd0, [image];
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [c];
    ld.param.u64 %rd3, [out];
    ld.param.u64 %rd4, [da];
    ld.param.u64 %rd5, [db];
    ld.param.u32 %r8, [scale];
    ld.param.u32 %r9, [bytes];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, memory;
    shl.b32 %r2, %r0, 2;
    cvt.u64.u32 %rd6, %r2;
    add.s64 %rd1, %rd1, %rd6;
    add.s64 %rd2, %rd2, %rd6;
    add.s64 %rd3, %rd3, %rd6;
FILL:
    cvt.u64.u32 %rd7, %r2;
    add.s64 %rd8, %rd0, %rd7;
    ld.global.u32 %r3, [%rd8];
    add.s32 %r4, %r1, %r2;
    st.shared.u32 [%r4], %r3;
    add.s32 %r2, %r2, 512;
    setp.lt.u32 %p0, %r2, %r9;
    @%p0 bra FILL;
    fence.proxy.async;
    bar.sync 0;
    shr.u32 %r5, %r1, 4;
    cvt.u64.u32 %rd9, %r5;
    add.s64 %rd4, %rd4, %rd9;
    add.s64 %rd5, %rd5, %rd9;
    setp.ne.u32 %p1, %r8, 0;
"
    );
    for i in 0..4 {
        let _ = writeln!(text, "    ld.global.b32 %a{i}, [%rd1+{}];", 512 * i);
    }
    for i in 0..d_registers {
        let _ = writeln!(text, "    ld.global.b32 %d{i}, [%rd2+{}];", 512 * i);
    }
    let d: Vec<String> = (0..d_registers).map(|i| format!("%d{i}")).collect();
    let d = d.join(", ");
    let a = if a_registers { "{%a0, %a1, %a2, %a3}" } else { "%rd4" };
    let _ = write!(
        text,
        "    wgmma.fence.sync.aligned;
    {instruction} {{{d}}}, {a}, %rd5, %p1{constants};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
"
    );
    for i in 0..d_registers {
        let _ = writeln!(text, "    st.global.b32 [%rd3+{}], %d{i};", 512 * i);
    }
    text += "    ret;\n}\n";
    text
}
