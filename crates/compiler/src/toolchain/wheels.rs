//! The wheels that contain the compiler, pinned by version and hash. The user's own pip downloads them.

use std::fmt::Write as _;

use serde::Serialize;

/// One wheel, with the SHA-256 of its x86-64 and aarch64 builds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Wheel {
    /// The name of the Python package.
    pub package: &'static str,
    /// The pinned version.
    pub version: &'static str,
    /// What the wheel contains, for messages.
    pub what: &'static str,
    /// Size of the download in bytes (x86-64), for progress and announcements.
    pub download_bytes: u64,
    #[serde(skip)]
    sha256: [&'static str; 2],
}

const RUNTIME: Wheel = Wheel {
    package: "nvidia-cuda-runtime",
    version: "13.0.96",
    what: "CUDA headers",
    download_bytes: 2_243_632,
    sha256: [
        "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55",
    ],
};

const CRT: Wheel = Wheel {
    package: "nvidia-cuda-crt",
    version: "13.0.88",
    what: "compiler-internal headers",
    download_bytes: 134_086,
    sha256: [
        "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
        "ee2ea2a97073e02ee62bb27841f437332be2c248e3eac013df07997ada39c003",
    ],
};

const CCCL: Wheel = Wheel {
    package: "nvidia-cuda-cccl",
    version: "13.0.85",
    what: "libcu++, CUB and Thrust headers",
    download_bytes: 3_120_526,
    sha256: [
        "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649",
        "6f0203e29fed809ee2b7fe9b1344df66ecab990c37d6a2e0e189b26d6c97ed7c",
    ],
};

/// nvcc 13.0 for whole programs, with its compiler of device code and the runtime library to link.
pub(super) const fn nvcc_wheels() -> &'static [Wheel] {
    &[
        Wheel {
            package: "nvidia-cuda-nvcc",
            version: "13.0.88",
            what: "the compiler driver",
            download_bytes: 37_384_532,
            sha256: [
                "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
                "c7ff28f86a24effdc6c034fa15230c549a273e4771b10a7fec14996f8cf3307f",
            ],
        },
        Wheel {
            package: "nvidia-nvvm",
            version: "13.0.88",
            what: "the compiler of device code",
            download_bytes: 61_601_415,
            sha256: [
                "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0",
                "c4376a291d72d22a315d9d2f69bdae8f8cd83a627f75bad395cee49a0fe65dc1",
            ],
        },
        RUNTIME,
        CRT,
        CCCL,
    ]
}

/// NVRTC 13.0, the headers it needs, and nvJitLink. The versions match each other and must be changed together.
pub const fn pinned_wheels() -> &'static [Wheel] {
    &[
        Wheel {
            package: "nvidia-cuda-nvrtc",
            version: "13.0.88",
            what: "the run-time compiler",
            download_bytes: 90_215_200,
            sha256: [
                "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
                "d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b",
            ],
        },
        RUNTIME,
        CRT,
        CCCL,
        Wheel {
            package: "nvidia-nvjitlink",
            version: "13.0.88",
            what: "the assembler of PTX files",
            download_bytes: 40_713_933,
            sha256: [
                "13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b",
                "e931536ccc7d467a98ba1d8b89ff7fa7f1fa3b13f2b0069118cd7f47bff07d0c",
            ],
        },
    ]
}

impl Wheel {
    /// A line of a pip requirements file that accepts only these builds.
    pub(super) fn requirement(&self) -> String {
        let mut line = format!("{}=={}", self.package, self.version);
        for hash in self.sha256 {
            // Writing to a String cannot fail.
            let _ = write!(line, " --hash=sha256:{hash}");
        }
        line
    }
}

/// The text of a requirements file with the pinned wheels. pip refuses every file without a pinned hash, and reads hashes
/// only from such a file.
pub fn requirements() -> String {
    let lines: Vec<String> = pinned_wheels().iter().map(Wheel::requirement).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requirements_have_every_wheel_with_its_hash() {
        let text = requirements();
        assert_eq!(text.lines().count(), pinned_wheels().len());
        assert!(text.lines().all(|line| line.contains("==") && line.contains(" --hash=sha256:")), "{text}");
    }
}
