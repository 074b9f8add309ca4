use super::*;
use crate::program::load;

/// A module with one kernel of three parameters: two pointers and a 64-bit number.
fn module(top: &str, body: &str) -> String {
    format!(
        "
.version 8.4
.target sm_90
.address_size 64
{top}
.visible .entry k(
    .param .u64 a,
    .param .u64 b,
    .param .u64 n
)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<32>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [n];
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd6, %r1, 4;
    add.s64 %rd7, %rd4, %rd6;
    add.s64 %rd8, %rd5, %rd6;
    ld.global.f32 %f1, [%rd7];
    {body}
    st.global.f32 [%rd8], %f1;
    ret;
}}
"
    )
}

fn names_of(notices: &[Notice]) -> Vec<&'static str> {
    notices.iter().map(Notice::name).collect()
}

/// The notices of a kernel that the virtual GPU can load.
fn notices_of_kernel(top: &str, body: &str) -> Vec<Notice> {
    let ptx = module(top, body);
    load(&ptx).unwrap_or_else(|e| panic!("{e}"));
    notices_in_ptx(&ptx, "k")
}

#[test]
fn an_ordinary_kernel_has_no_notice() {
    // A bound, an offset, a null test, the end of a buffer, a distance within it, a stride, rounding to 16 bytes.
    let body = "
    setp.ge.s64 %p1, %rd6, %rd3;
    @%p1 bra END;
    setp.eq.s64 %p2, %rd1, 0;
    add.s64 %rd9, %rd4, 4096;
    setp.lt.u64 %p3, %rd7, %rd9;
    sub.s64 %rd10, %rd9, %rd7;
    setp.gt.s64 %p4, %rd10, 16;
    mad.lo.s64 %rd11, %rd3, %rd6, %rd5;
    and.b64 %rd12, %rd11, -16;
    ld.global.f32 %f2, [%rd12];
    shl.b64 %rd13, %rd3, 2;
    add.s64 %rd14, %rd13, %rd4;
    ld.global.f32 %f3, [%rd14+8];
END:";
    assert_eq!(notices_of_kernel("", body), []);
}

#[test]
fn reading_a_clock_is_noticed() {
    let found = notices_of_kernel(
        "",
        "mov.u64 %rd9, %clock64;\n mov.u32 %r2, %globaltimer_lo;\n mov.u64 %rd9, %clock64;",
    );
    let registers = vec!["%clock64".to_string(), "%globaltimer_lo".to_string()];
    assert_eq!(found, [Notice::ReadsClock { registers }]);
    assert_eq!(found[0].to_string(), "the kernel reads a clock: %clock64, %globaltimer_lo");
}

#[test]
fn reading_where_the_kernel_runs_is_noticed() {
    assert_eq!(names_of(&notices_of_kernel("", "mov.u32 %r2, %smid;")), ["reads-placement"]);
    for register in ["%nsmid", "%warpid", "%nwarpid", "%envreg2", "%pm3", "%pm0_64", "%current_graph_exec"] {
        let found = notices_in_ptx(&module("", &format!("mov.u32 %r2, {register};")), "k");
        assert_eq!(found, [Notice::ReadsPlacement { registers: vec![register.to_string()] }]);
    }
    // The kernel's own register with a similar name does not count.
    assert_eq!(notices_of_kernel("", "{ .reg .b32 %smid; mov.u32 %smid, 1; }"), []);
}

#[test]
fn variables_the_kernel_can_write_are_named() {
    let top = ".global .align 4 .u32 counter;\n.visible .global .align 4 .f32 table[4] = {0f3F800000};\n\
               .const .align 4 .u32 fixed = 7;\n.global .align 4 .u32 unused;";
    let written = |body: &str| notices_of_kernel(top, body);
    let counter = [Notice::WritableVariables { names: vec!["counter".to_string()] }];
    assert_eq!(written("st.global.u32 [counter], 1;"), counter);
    assert_eq!(written("atom.global.add.u32 %r2, [counter], 1;"), counter);
    assert_eq!(
        written(
            "mov.u64 %rd9, counter; cvta.global.u64 %rd10, %rd9; add.s64 %rd11, %rd10, 0; st.u32 [%rd11], 1;"
        ),
        counter
    );
    // A read changes nothing.
    assert_eq!(written("ld.global.f32 %f2, [table+4]; ld.const.u32 %r3, [fixed];"), []);
    // The address is stored, and then a store goes through an address that was read from memory.
    let through =
        "mov.u64 %rd9, counter; st.global.u64 [%rd5], %rd9; ld.global.u64 %rd10, [%rd5]; st.u32 [%rd10], 1;";
    assert_eq!(written(through), counter);
}

#[test]
fn a_format_string_is_no_state() {
    let top = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);\n\
               .global .align 1 .b8 $str[4] = {37, 100, 10, 0};";
    let body = "
    mov.u64 %rd9, $str;
    cvta.global.u64 %rd10, %rd9;
    {
    .param .b64 p0;
    .param .b64 p1;
    .param .b32 ret;
    st.param.b64 [p0], %rd10;
    st.param.b64 [p1], 0;
    call.uni (ret), vprintf, (p0, p1);
    ld.param.b32 %r5, [ret];
    }";
    assert_eq!(notices_of_kernel(top, body), []);
    let body = format!("{body}\n st.global.u8 [$str+1], %r5;");
    assert_eq!(names_of(&notices_in_ptx(&module(top, &body), "k")), ["writable-variables"]);
}

#[test]
fn looking_at_a_pointer_is_noticed() {
    let tested = |body: &str, names: &[&str]| {
        let found = notices_in_ptx(&module("", body), "k");
        let [Notice::TestsPointer { parameters, lines }] = &found[..] else { panic!("{body}: {found:?}") };
        assert_eq!(parameters, names, "{body}");
        assert!(!lines.is_empty());
    };
    tested("shr.u64 %rd9, %rd1, 40; setp.eq.s64 %p1, %rd9, 127;", &["a"]);
    tested("and.b64 %rd9, %rd7, 15; setp.eq.s64 %p1, %rd9, 0;", &["a"]);
    tested("cvt.u32.u64 %r2, %rd1;", &["a"]);
    tested("mov.b64 {%r2, %r3}, %rd2;", &["b"]);
    tested("setp.gt.u64 %p1, %rd1, 139637976727552;", &["a"]);
    tested("setp.gt.u64 %p1, %rd1, %rd2;", &["a", "b"]);
    tested("sub.s64 %rd9, %rd8, %rd7;", &["a", "b"]);
    tested("xor.b64 %rd9, %rd1, %rd3;", &["a"]);
    tested("ld.param.u32 %r2, [a+4]; setp.eq.u32 %p1, %r2, 32512;", &["a"]);
    tested("st.global.u64 [%rd8], %rd1;", &["a"]);
    // The pointer goes through a local variable and back.
    tested(
        ".local .b8 at[8]; st.local.u64 [at], %rd1; ld.local.u64 %rd9, [at]; shr.u64 %rd10, %rd9, 40;",
        &["a"],
    );
}

#[test]
fn a_pointer_in_a_structure_is_followed() {
    let ptx = |body: &str| {
        format!(
            ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .align 8 .b8 args[32])\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<9>;\n\
             mov.b64 %rd1, args;\nmov.b64 %rd2, %rd1;\nld.param.u64 %rd3, [%rd2+8];\nld.param.u32 %r1, [%rd2+16];\n\
             cvta.to.global.u64 %rd4, %rd3;\nsetp.gt.u32 %p1, %r1, 7;\n{body}\nst.global.u32 [%rd4], %r1;\nret;\n}}\n"
        )
    };
    assert_eq!(notices_in_ptx(&ptx(""), "k"), []);
    for body in [
        "shr.u64 %rd5, %rd3, 40;",
        "ld.param.u32 %r2, [args+12];",
        "cvta.param.u64 %rd6, %rd1; ld.u32 %r2, [%rd6+8];",
    ] {
        let found = notices_in_ptx(&ptx(body), "k");
        let [Notice::TestsPointer { parameters, .. }] = &found[..] else { panic!("{body}: {found:?}") };
        assert_eq!(parameters, &["args+8"]);
    }
}

#[test]
fn a_function_that_looks_at_a_pointer_is_noticed() {
    let top = "
.func (.param .b32 out) look(.param .b64 at)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [at];
    shr.u64 %rd2, %rd1, 40;
    cvt.u32.u64 %r1, %rd2;
    mov.u32 %r2, %smid;
    st.param.b32 [out], %r1;
    ret;
}
.func elsewhere()
{
    .reg .b32 %r<4>;
    mov.u32 %r1, %clock;
    ret;
}";
    let call = "
    {
    .param .b64 given;
    .param .b32 got;
    st.param.b64 [given], %rd1;
    call.uni (got), look, (given);
    ld.param.b32 %r5, [got];
    }";
    assert_eq!(names_of(&notices_of_kernel(top, call)), ["reads-placement", "tests-pointer"]);
    // The kernel does not reach the function, so the function does not count.
    assert_eq!(notices_of_kernel(top, ""), []);
}

#[test]
fn absolute_addresses_are_noticed() {
    for body in [
        "ld.global.f32 %f2, [139637976727552];",
        "mov.u64 %rd9, 139637976727552; st.global.f32 [%rd9], %f1;",
        "add.s64 %rd9, %rd6, 139637976727552; ld.f32 %f2, [%rd9+16];",
        "ld.param.u32 %r2, [n]; mul.wide.u32 %rd9, %r2, 4; add.s64 %rd10, %rd9, 4096; red.global.add.f32 [%rd10], %f1;",
    ] {
        assert_eq!(names_of(&notices_of_kernel("", body)), ["absolute-address"], "{body}");
    }
    // Shared memory starts at a small address.
    assert_eq!(notices_of_kernel("", "mov.u32 %r2, 16; st.shared.f32 [%r2], %f1;"), []);
}

#[test]
fn cache_policies_are_noticed() {
    for body in [
        "createpolicy.fractional.L2::evict_last.b64 %rd9, 0f3F800000;",
        "ld.global.L2::cache_hint.f32 %f2, [%rd7], %rd9;",
        "prefetch.global.L2::evict_last [%rd7];",
        "applypriority.global.L2::evict_normal [%rd7], 128;",
        "discard.global.L2 [%rd7], 128;",
    ] {
        assert_eq!(names_of(&notices_in_ptx(&module("", body), "k")), ["cache-policy"], "{body}");
    }
    assert_eq!(notices_in_ptx(&module("", "ld.global.L2::128B.f32 %f2, [%rd7];"), "k"), []);
}

#[test]
fn text_that_is_no_ptx_is_searched_word_by_word() {
    let text =
        ".global .align 4 .u32 counter;\n.entry k() { mov.u32 %r1, %smid; mov.u64 %rd1, %clock64; ((( }";
    let found = notices_in_ptx(text, "k");
    assert_eq!(names_of(&found), ["reads-clock", "reads-placement", "writable-variables", "not-analysed"]);
    assert_eq!(names_of(&notices_in_ptx(&module("", ""), "nobody")), ["not-analysed"]);
}

#[test]
fn a_notice_survives_json() {
    let notice = Notice::TestsPointer { parameters: vec!["a".to_string()], lines: vec![3] };
    let text = serde_json::to_string(&notice).expect("serialises");
    assert_eq!(text, r#"{"notice":"tests-pointer","parameters":["a"],"lines":[3]}"#);
    assert_eq!(serde_json::from_str::<Notice>(&text).expect("deserialises"), notice);
}

#[test]
fn memory_from_malloc_is_state() {
    let top = ".extern .func (.param .b64 r) malloc (.param .b64 n);";
    let body = "
    {
    .param .b64 p0;
    .param .b64 ret;
    st.param.b64 [p0], 16;
    call.uni (ret), malloc, (p0);
    ld.param.b64 %rd9, [ret];
    }";
    let heap = [Notice::WritableVariables { names: vec!["the heap of malloc".to_string()] }];
    assert_eq!(notices_of_kernel(top, body), heap);
    assert_eq!(notices_of_kernel(top, ""), []);
}
