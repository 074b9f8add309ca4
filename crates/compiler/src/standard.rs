//! Replacements for headers of the C and C++ standard libraries that kernels often include. NVRTC has none of them.
//! It has `printf`, `assert`, `memcpy` and the mathematical functions built in, and libcu++ has most of the rest
//! under `cuda::std`, which these headers also export as `std`. Headers that only host code can use (`<vector>`,
//! `<iostream>`) are not replaced: the compiler's error is the better message.

/// Standard headers with the libcu++ headers that replace them. An empty list means that the compiler has it built
/// in.
const HEADERS: &[(&[&str], &[&str])] = &[
    (&["stdio.h", "cstdio", "stdlib.h", "cstdlib", "stdbool.h", "time.h", "ctime", "memory.h"], &[]),
    (&["string.h", "cstring"], &["cstring"]),
    (&["assert.h", "cassert"], &["cassert"]),
    (&["stdint.h", "cstdint"], &["cstdint"]),
    (&["inttypes.h", "cinttypes"], &["cstdint", FORMATS]),
    (&["stddef.h", "cstddef"], &["cstddef"]),
    (&["limits.h", "climits", "float.h", "cfloat", "limits"], &["climits", "cfloat", "limits"]),
    (&["math.h", "cmath"], &["cmath"]),
    (&["type_traits"], &["type_traits"]),
    (&["utility"], &["utility"]),
    (&["tuple"], &["tuple"]),
    (&["array"], &["array"]),
    (&["functional"], &["functional"]),
    (&["algorithm"], &["__algorithm_"]),
    (&["initializer_list"], &["initializer_list"]),
    (&["atomic"], &["atomic"]),
    (&["bit"], &["bit"]),
    (&["bitset"], &["bitset"]),
    (&["complex"], &["complex"]),
    (&["concepts"], &["concepts"]),
    (&["iterator"], &["iterator"]),
    (&["memory"], &["memory"]),
    (&["numbers"], &["numbers"]),
    (&["numeric"], &["numeric"]),
    (&["optional"], &["optional"]),
    (&["ratio"], &["ratio"]),
    (&["span"], &["span"]),
    (&["variant"], &["variant"]),
];

/// Stands for the formats of `printf` for integers of a size.
const FORMATS: &str = "formats";

/// The formats of `printf` for integers on Linux, where `int64_t` is `long`.
fn formats() -> String {
    let sizes = [("8", "hh"), ("16", "h"), ("32", ""), ("64", "l"), ("PTR", "l"), ("MAX", "l")];
    let define =
        |kind: char, (size, prefix): (&str, &str)| format!("#define PRI{kind}{size} \"{prefix}{kind}\"\n");
    ['d', 'i', 'o', 'u', 'x', 'X'].into_iter().flat_map(|kind| sizes.map(|size| define(kind, size))).collect()
}

/// Macros that libcu++ leaves to the host's headers, by header.
const MACROS: &[(&str, &[(&str, &str)])] = &[
    (
        "cfloat",
        &[
            ("FLT_MAX", "3.402823466e+38f"),
            ("FLT_MIN", "1.175494351e-38f"),
            ("FLT_EPSILON", "1.192092896e-07f"),
            ("DBL_MAX", "1.7976931348623158e+308"),
            ("DBL_MIN", "2.2250738585072014e-308"),
            ("DBL_EPSILON", "2.2204460492503131e-16"),
        ],
    ),
    (
        "cmath",
        &[
            ("INFINITY", "__int_as_float(0x7f800000)"),
            ("NAN", "__int_as_float(0x7fffffff)"),
            ("M_PI", "3.14159265358979323846"),
            ("M_E", "2.71828182845904523536"),
            ("M_SQRT2", "1.41421356237309504880"),
            ("M_SQRT1_2", "0.70710678118654752440"),
            ("M_LN2", "0.69314718055994530942"),
            ("M_LOG2E", "1.44269504088896340736"),
        ],
    ),
];

/// The part of CUB that runs inside a kernel. The full `cub/cub.cuh` also launches kernels and does not compile
/// without a host compiler.
const CUB: &[&str] = &[
    "block/block_adjacent_difference",
    "block/block_discontinuity",
    "block/block_exchange",
    "block/block_histogram",
    "block/block_load",
    "block/block_merge_sort",
    "block/block_radix_sort",
    "block/block_reduce",
    "block/block_run_length_decode",
    "block/block_scan",
    "block/block_shuffle",
    "block/block_store",
    "warp/warp_exchange",
    "warp/warp_load",
    "warp/warp_merge_sort",
    "warp/warp_reduce",
    "warp/warp_scan",
    "warp/warp_store",
];

/// The replacement headers as (name, text), for [`super::Source::headers`].
pub fn standard_headers() -> Vec<(String, String)> {
    let include = |text: &mut String, name: &str| *text += &["#include <", name, ">\n"].concat();
    let mut headers = Vec::new();
    for (names, contents) in HEADERS {
        let mut text = String::from("#pragma once\n");
        for inner in *contents {
            if *inner == FORMATS {
                text += &formats();
                continue;
            }
            include(&mut text, &format!("cuda/std/{inner}"));
            let macros = MACROS.iter().filter(|(header, _)| header == inner).flat_map(|(_, macros)| *macros);
            for (name, value) in macros {
                text += &["#ifndef ", name, "\n#define ", name, " ", value, "\n#endif\n"].concat();
            }
        }
        if !contents.is_empty() {
            text += "namespace cuda { namespace std {} }\nnamespace std { using namespace ::cuda::std; }\n";
        }
        headers.extend(names.iter().map(|name| ((*name).to_owned(), text.clone())));
    }
    let mut cub = String::from("#pragma once\n");
    for name in CUB {
        include(&mut cub, &format!("cub/{name}.cuh"));
    }
    headers.push(("cub/cub.cuh".to_owned(), cub));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_formats_are_those_of_64_bit_linux() {
        let headers = standard_headers();
        let text = |wanted: &str| &headers.iter().find(|(name, _)| name == wanted).unwrap().1;
        for line in ["#define PRIu32 \"u\"\n", "#define PRId64 \"ld\"\n", "#define PRIx8 \"hhx\"\n"] {
            assert!(text("inttypes.h").contains(line), "{line}");
            assert!(!text("stdint.h").contains(line), "{line}");
        }
        assert_eq!(text("inttypes.h"), text("cinttypes"));
    }
}
